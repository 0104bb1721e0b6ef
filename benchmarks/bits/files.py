"""The files of a model: one for each form, inputs, batches to calibrate with, float64 results, figures."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Cannot
from benchmarks.values import Array, read_arrays

Given = dict[str, Array]


class Form(enum.Enum):
    """The contents of an ONNX file."""

    F32 = "float32"
    BF16 = "bfloat16"
    QDQ = "Q/DQ"
    QOPERATOR = "QOperator"
    DYNAMIC = "dynamic"
    I2 = "2 bits"
    I4 = "4 bits"
    I4_LEVEL4 = "4 bits level 4"
    I8 = "8 bits"
    I8_LEVEL4 = "8 bits level 4"


@dataclass(frozen=True, slots=True)
class Facts:
    """Multiplications and additions of a call; bytes of float32 weights that it reads; bytes of all other
    data that it must move; bytes of codes and scales by form."""

    flops: int
    weights: int
    moved: int
    packed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a model in a folder."""

    folder: Path
    model: str

    def of(self, form: Form) -> Path:
        """An ONNX file."""
        return self._path(f"{form.name.lower()}.onnx")

    def failed(self, form: Form, reason: str) -> None:
        """Store the reason why there is no such file."""
        self._path(f"{form.name.lower()}.failed").write_text(reason)

    def check(self, form: Form) -> None:
        """Raise `Cannot` if there is no such file."""
        path = self._path(f"{form.name.lower()}.failed")
        if path.exists() and not self.of(form).exists():
            raise Cannot(f"no {form.value} file, {path.read_text()}")

    def inputs(self) -> Given:
        """The inputs of the model."""
        return read_arrays(self._path("inputs.npz"))

    def batches(self) -> list[Given]:
        """Inputs of further calls, for calibration."""
        return [read_arrays(p) for p in sorted(self.folder.glob(f"{self.model}.batch*.npz"))]

    def expected(self, form: Form) -> list[Array]:
        """Float64 results: those of the form where it has weights of its own."""
        own = self._path(f"{form.name.lower()}.wanted.npz")
        return [*read_arrays(own if own.exists() else self._path("wanted.npz")).values()]

    def facts(self) -> Facts:
        """The figures of the model."""
        return Facts(**json.loads(self._path("json").read_text()))

    def keep(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write `inputs`, or `batch0`, `batch1`, ..."""
        named: dict[str, Any] = {**arrays}  # Any: as savez takes them
        np.savez(self._path(f"{name}.npz"), **named)

    def keep_expected(self, results: Sequence[Array], form: Form | None = None) -> None:
        """Write float64 results; `form`: only for models of this form."""
        name = "wanted" if form is None else f"{form.name.lower()}.wanted"
        self.keep(name, {f"y{i}": x for i, x in enumerate(results)})

    def keep_facts(self, facts: Facts) -> None:
        """Write the figures."""
        self._path("json").write_text(json.dumps(asdict(facts)))

    def _path(self, ending: str) -> Path:
        return self.folder / f"{self.model}.{ending}"
