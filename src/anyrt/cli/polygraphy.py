"""Arrays in the JSON that Polygraphy reads and writes: inputs as a list of dictionaries, outputs by runner.

Source: Polygraphy's documentation of `--save-inputs` and `--save-outputs`.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from anyrt.cli.exec.arrays import npy
from anyrt.core.errors import BindingError
from anyrt.ops._record import Array
from anyrt.plan.disk import write_atomically

CLASS: Final = "polygraphy_class"


def write_inputs(feeds: Mapping[str, Array], path: Path) -> None:
    """The inputs of one run."""
    write_atomically(path, [json.dumps([{name: _encoded(x) for name, x in feeds.items()}]).encode()])


def read_inputs(path: Path) -> dict[str, Array]:
    """The inputs of the first run in a file."""
    wrong = BindingError(
        "AR705",
        str(path),
        "a file without arrays",
        "inputs in Polygraphy's JSON",
        "write it with `--save-inputs`",
    )
    try:
        runs = json.loads(path.read_text())
        return {name: _decoded(x) for name, x in runs[0].items()}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, binascii.Error, EOFError):
        raise wrong from None


def write_outputs(outputs: Mapping[str, Mapping[str, Array]], path: Path) -> None:
    """The outputs of one run of each runner, by name."""
    rows = [
        [
            runner,
            [
                {
                    "outputs": {n: {"values": _encoded(x), CLASS: "LazyArray"} for n, x in arrays.items()},
                    "runtime": None,
                    "runner_name": runner,
                    CLASS: "IterationResult",
                }
            ],
        ]
        for runner, arrays in outputs.items()
    ]
    write_atomically(path, [json.dumps({"lst": rows, CLASS: "RunResults"}).encode()])


def _encoded(array: Array) -> dict[str, str]:
    return {"array": base64.b64encode(npy(array)).decode(), CLASS: "ndarray"}


def _decoded(entry: Mapping[str, str]) -> Array:
    array: Array = np.load(io.BytesIO(base64.b64decode(entry["array"])), allow_pickle=False)
    return array
