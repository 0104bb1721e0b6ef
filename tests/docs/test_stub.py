"""Editors and mypy see the names that `import anyrt` creates at run time."""

import inspect
from pathlib import Path

import pytest
from mypy import api

import anyrt

PROGRAM = """
import numpy as np
import anyrt as trt

builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
network = builder.create_network()
x = network.add_input("x", trt.uint8, (1, -1, -1, 3))
shuffle = network.add_shuffle(network.add_cast(x, trt.float32).get_output(0))
shuffle.first_transpose = (0, 3, 1, 2)
resize = network.add_resize(shuffle.get_output(0))
resize.resize_mode = trt.InterpolationMode.LINEAR
resize.shape = (1, 3, 640, 640)
scale = network.add_scale(resize.get_output(0), trt.ScaleMode.CHANNEL, shift=np.ones(3, np.float32))
scale.get_output(0).name = "y"
network.mark_output(scale.get_output(0))
config = builder.create_builder_config()
plan = builder.build_serialized_network(network, config)
assert plan is not None
reveal_type(resize.shape)
scale.mode = trt.InterpolationMode.LINEAR
scale.nonsense
"""


@pytest.mark.static
@pytest.mark.filterwarnings("ignore")
def test_mypy_checks_programs(tmp_path):
    (tmp_path / "user.py").write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {Path(anyrt.__file__).parents[1]}\n"
    )
    cache = Path(__file__).resolve().parents[2] / ".mypy_cache"
    words = [
        str(tmp_path / "user.py"),
        "--config-file",
        str(tmp_path / "mypy.ini"),
        "--cache-dir",
        str(cache),
    ]
    results = [line.split(": ", 1)[1] for line in api.run(words)[0].splitlines() if "user.py" in line]
    assert results == [
        'note: Revealed type is "anyrt.api.model.dims.Dims"',
        'error: Incompatible types in assignment (expression has type "InterpolationMode", variable has type '
        '"ScaleMode")  [assignment]',
        'error: "IScaleLayer" has no attribute "nonsense"  [attr-defined]',
    ]


def test_stub_has_every_public_name():
    stub = Path(anyrt.__file__).with_suffix(".pyi").read_text()
    names = [n for n in dir(anyrt) if not n.startswith("_")]
    missing = [n for n in names if not any(f"{word}{n}" in stub for word in (" as ", "class ", "\n"))]
    assert missing == []


def test_stub_has_every_parameter_of_derived_methods():
    stub = Path(anyrt.__file__).with_suffix(".pyi").read_text().replace("\n", "")
    names = inspect.signature(anyrt.INetworkDefinition.add_scale_nd).parameters
    text = stub[stub.index("def add_scale_nd(") :].split(") ->", 1)[0]
    assert [n for n in names if n not in text] == []
