"""The content of `help`: shapes, codes, return values on failure, and examples that run."""

import inspect
import pydoc
import re
import textwrap

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.codes import CODES
from anyrt.ops import OPS

METHODS = [m for op in OPS.values() for m in op.methods if m.example]
CLASSES = [
    x
    for x in (getattr(trt, n) for n in dir(trt))
    if isinstance(x, type) and x.__module__.startswith("anyrt") and not hasattr(x, "__members__")
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_example_of_a_method_runs_and_stands_in_its_docstring(method, net, log):
    image = ("x", "a", "b")
    names = {n: net.add_input(n, trt.float32, (1, 3, 4, 4)) for n in image}
    names |= {n: net.add_input(n, trt.float32, (1, 3, 1, 1)) for n in ("scale", "bias", "slopes")}
    names |= {
        "rows": net.add_input("rows", trt.float32, (3, 5)),
        "bounds": net.add_input("bounds", trt.int32, (3, 1)),
        "indices": net.add_input("indices", trt.int32, (1, 2, 4, 4)),
    }
    names |= {n: net.add_input(n, trt.float32, (1, 4, 2)) for n in ("cos_cache", "sin_cache")}
    names |= {"grid": net.add_input("grid", trt.float32, (1, 5, 5, 2))}
    names |= {"cache": net.add_input("cache", trt.float32, (1, 3, 8, 4))}
    names |= {"write_indices": net.add_input("write_indices", trt.int32, (1,))}
    names |= {"condition": net.add_input("condition", trt.bool, (1, 3, 4, 4)), "network": net}
    exec(method.example, {"trt": trt, "np": np}, names)
    outputs = [names["layer"].get_output(i) for i in range(names["layer"].num_outputs)]
    assert (all(y.shape.rank >= 0 for y in outputs), log.lines) == (True, [])
    shown = inspect.getdoc(getattr(trt.INetworkDefinition, method.name))
    assert all(f"    {line}" in shown for line in method.example.splitlines())


def test_derived_docstring_has_arguments_answers_codes_and_version():
    lines = inspect.getdoc(trt.INetworkDefinition.add_reduce).splitlines()
    assert "axes: axes to reduce (bit i stands for dimension i)" in lines
    assert "AR302: a mask of 0; a mask with bits beyond the rank" in lines
    assert "As in TensorRT 10.16 (operator page Reduce)." in lines
    assert (
        "Returns None on an error, and logs the error with its code; under anyrt.strict(), raises it."
        in lines
    )


def test_attributes_of_layers_say_their_type_and_default():
    want = "rounding of positions, NEAREST only; ResizeRoundMode, default: FLOOR"
    assert trt.IResizeLayer.nearest_rounding.__doc__ == want


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_everything_public_has_a_docstring(cls):
    bare = [
        n for n, x in vars(cls).items() if not n.startswith("_") and callable(x) and not inspect.getdoc(x)
    ]
    assert (bare, bool(inspect.getdoc(cls))) == ([], True)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_help_shows_public_names_alone(cls):
    text = pydoc.plain(pydoc.render_doc(cls))
    own = [b for b in cls.__mro__ if b.__module__.startswith("anyrt") and b not in CLASSES]
    helpers = [b.__name__ for b in own if b.__name__ != "Interface"]  # members of all interfaces
    shown = [line for line in text.splitlines() if re.match(r" \|  _[a-z]", line)]
    assert (helpers, shown) == ([], [])


def test_folded_classes_keep_what_their_bases_gave():
    config = trt.Builder(trt.Logger()).create_builder_config()
    with pytest.warns(DeprecationWarning, match="does nothing"), config as same:
        assert same is config
    assert trt.IHostMemory.__mro__[1] is bytearray
    assert issubclass(trt.IErrorRecorder, trt.IVersionedInterface)
    assert trt.Builder(trt.Logger()).error_recorder is None


def documents():
    """Every public docstring, by the name of its object."""
    for cls in CLASSES:
        yield cls.__name__, inspect.getdoc(cls) or ""
        for name, x in vars(cls).items():
            if not name.startswith("_"):
                yield f"{cls.__name__}.{name}", inspect.getdoc(x) or ""


def test_codes_that_docstrings_name_exist():
    named = {(where, code) for where, text in documents() for code in re.findall(r"AR\d{3}", text)}
    assert len(named) > 100
    assert [pair for pair in named if pair[1] not in CODES] == []


def test_lines_of_examples_in_docstrings_are_python():
    blocks = [
        (where, textwrap.dedent(block))
        for where, text in documents()
        for block in re.findall(r"(?:^    \S.*\n?(?:^ {5,}.*\n?)*)+", text, re.M)
        if re.search(r"\b(trt|network|builder|context|engine|runtime|profile|config)\.", block)
    ]
    assert len(blocks) > 25
    for where, block in blocks:
        compile(block, where, "exec")


def test_docstrings_say_what_a_failure_answers():
    lines = inspect.getdoc(trt.IExecutionContext.set_input_shape).splitlines()
    assert lines[-1].startswith("Returns False on an error, and logs the error with its code;")
    assert "Returns True." in lines[0]


def test_settings_say_type_default_and_limits():
    text = inspect.getdoc(trt.IBuilderConfig.builder_optimization_level)
    assert text.endswith("int, default: 3; at least 0 and at most 5, else AR304 and no change.")


def test_classes_say_which_version_of_tensorrt_they_follow():
    assert inspect.getdoc(trt.Builder).splitlines()[-1] == "As in TensorRT 10.16."
