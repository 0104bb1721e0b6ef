"""`impl` functions: their arguments, their outputs and their exceptions."""

import re
from typing import Tuple  # noqa: UP035

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from tests.messages import diagnostic

T, D = trtp.Tensor, trtp.TensorDesc
SEEN = {}  # the arguments of the last calls


@trtp.register("run::mixed", lazy_register=True)
def mixed_desc(
    x: D, n: int, f: float, b: bool, s: str, raw: bytes, h: npt.NDArray[np.float16], m: npt.NDArray[np.bool_]
) -> D:
    return x.like()


@trtp.impl("run::mixed")
def mixed_impl(x, n, f, b, s, raw, h, m, outputs, stream):
    SEEN["mixed"] = {"n": n, "f": f, "b": b, "s": s, "raw": raw, "h": h.tolist(), "m": m.tolist()}
    np.asarray(outputs[0])[...] = np.asarray(x) * n + f


VALUES = {
    "n": -(1 << 62),
    "f": 0.1,
    "b": True,
    "s": "größer",
    "raw": b"\0\1",
    "h": [0.5, 2.0],
    "m": [True, False],
}
EMPTY = {"n": 0, "f": 0.0, "b": False, "s": "", "raw": b"", "h": [], "m": []}


@pytest.mark.parametrize("values", [VALUES, EMPTY])
def test_a_plan_stores_attributes_of_every_type(build, values):
    arrays = {"h": np.array(values["h"], np.float16), "m": np.array(values["m"], np.bool_)}
    engine = build(lambda x: trtp.op.run.mixed(x, **{**values, **arrays}), x=(3,))
    engine.run(x=np.zeros(3, np.float32))
    assert SEEN["mixed"] == values
    assert [type(SEEN["mixed"][k]) for k in "nfb"] == [int, float, bool]


@trtp.register("run::split", lazy_register=True)
def split_desc(x: D, y: D) -> Tuple[D, D, D]:  # noqa: UP006
    half = x.like()
    half.shape_expr[0] = trtp.cdiv(x.shape_expr[0], 2)
    longer = trtp.max(x.shape_expr[0], y.shape_expr[0])
    return half, trtp.from_shape_expr((longer, 1), trt.int32), trtp.from_shape_expr((2,), x.dtype)


@trtp.impl("run::split")
def split_impl(x, y, outputs, stream):
    SEEN["split"] = [tuple(t.shape) for t in (x, y, *outputs)]
    a, b, c = map(np.asarray, outputs)
    a[:], b[:, 0], c[:] = np.asarray(x)[::2], np.arange(len(b)), (np.sum(x), np.sum(y))


@pytest.mark.parametrize(("n", "m"), [(5, 3), (1, 64), (6, 6)])
def test_several_outputs_of_their_own_sizes_and_types(build, rng, n, m):
    engine = build(lambda x, y: trtp.op.run.split(x, y), x=(-1,), y=(-1,))
    x, y = rng.standard_normal(n).astype(np.float32), rng.standard_normal(m).astype(np.float32)
    outputs = engine.run(x=x, y=y)
    assert np.array_equal(outputs["y0"], x[::2])
    assert np.array_equal(outputs["y1"][:, 0], np.arange(max(n, m)))
    assert np.allclose(outputs["y2"], [x.sum(), y.sum()], atol=1e-5)
    assert SEEN["split"] == [(n,), (m,), ((n + 1) // 2,), (max(n, m), 1), (2,)]


@trtp.register("run::seen", lazy_register=True)
def seen_desc(x: D, what: str) -> D:
    return x.like()


@trtp.autotune("run::seen")
def seen_autotune(x: D, what: str, outputs):
    SEEN["autotune"] = (x.dtype, tuple(x.shape), x.is_dynamic and x.shape.max, outputs[0].ndim)
    return trtp.AutoTuneCombination(*what.split(";"))


@trtp.impl("run::seen")
def seen_impl(x, outputs, stream):
    SEEN["seen"] = (x.dtype, x.format, x.strides, x.shape == outputs[0].shape)
    np.asarray(outputs[0])[...] = np.asarray(x) + 1


@pytest.mark.parametrize("name", ["FLOAT", "HALF", "BF16", "INT32", "INT64", "INT8", "UINT8", "BOOL"])
def test_every_element_type_is_an_array_of_numpy(build, name):
    dtype = trt.DataType[name]
    kind = np.dtype(ml_dtypes.bfloat16) if name == "BF16" else np.dtype(trt.nptype(dtype))
    engine = build(lambda x: trtp.op.run.seen(x, what=f"{name},{name}"), dtype, strong=True, x=(3, 2))
    x = np.array([[0, 1], [1, 0], [0, 1]]).astype(kind)
    assert np.array_equal(engine.run(x=x)["y0"], (x + 1).astype(kind))
    assert SEEN["seen"] == (dtype, trt.TensorFormat.LINEAR, (2, 1), True)


@pytest.mark.parametrize(("what", "kind"), [("FP16,FP16", np.float16), ("FP16*FP32,FP32", np.float32)])
def test_a_weak_network_converts_to_a_type_of_autotune(build, rng, what, kind):
    engine = build(lambda x: trtp.op.run.seen(x, what=what), x=(4, 5))
    x = rng.standard_normal((4, 5), np.float32)
    assert np.allclose(engine.run(x=x)["y0"], x.astype(kind) + 1, atol=1e-2)
    assert SEEN["seen"][0] == (trt.float16 if kind is np.float16 else trt.float32)


@pytest.mark.parametrize(
    ("what", "strides"), [("FP32,FP32;HWC", (60, 1, 15, 3)), ("FP16,FP16;HWC8", (160, 1, 40, 8))]
)
def test_channels_last_tensors_have_their_strides(build, rng, what, strides):
    engine = build(lambda x: trtp.op.run.seen(x, what=what), x=(2, 3, 4, 5))
    x = rng.standard_normal((2, 3, 4, 5), np.float32)
    assert np.allclose(engine.run(x=x)["y0"], x + 1, atol=1e-2)
    assert SEEN["seen"][2] == strides


def test_autotune_receives_types_and_ranges(build):
    build(lambda x: trtp.op.run.seen(x, what="FP32,FP32"), x=(-1, 3))
    assert SEEN["autotune"] == (trt.float32, (-1, 3), (64, 3), 2)


def test_types_that_the_network_lacks_are_reported(build, log):
    assert build(lambda x: trtp.op.run.seen(x, what="INT8,INT8"), x=(3,)) is None
    assert any(
        "[AR822]" in line and "no support for inputs and outputs of float32" in line for line in log.lines
    )


@pytest.mark.parametrize(
    "what", ["FP33,FP32", "FP32", "FP32|FP16,FP32|FP16|BF16", "FP32|FP16*BF16,FP32", "FP32,FP32;CHW"]
)
def test_invalid_combinations_name_the_function(build, log, what):
    assert build(lambda x: trtp.op.run.seen(x, what=what), x=(3,)) is None
    assert any("run::seen" in line and "seen_autotune" in line for line in log.lines)


@trtp.register("run::raises", lazy_register=True)
def raises_desc(x: D, where: int) -> D:
    if where == 1:
        raise KeyError("described")
    return x.like() if where != 2 else x  # type: ignore[return-value]


@trtp.impl("run::raises")
def raises_impl(x, outputs, stream):
    if np.asarray(x)[0] < 0:
        raise RuntimeError("negative")
    np.asarray(outputs[0])[:] = np.asarray(x)


def test_an_exception_ends_one_call_and_the_next_one_works(build, log):
    engine = build(lambda x: trtp.op.run.raises(x, where=0), x=(2,))
    with pytest.raises(
        trt.errors.PluginError,
        match=diagnostic("AR824", "run::raises", "RuntimeError: negative", "raises_impl"),
    ):
        engine.run(x=np.array([-1, 2], np.float32))
    assert engine.run(x=np.array([1, 2], np.float32))["y0"].tolist() == [1, 2]


def test_an_exception_of_an_inference_is_logged_with_its_traceback(build, log):
    context = build(lambda x: trtp.op.run.raises(x, where=0), x=(2,)).create_execution_context()
    x, y = np.array([-1, 2], np.float32), np.zeros(2, np.float32)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y0", y.ctypes.data)
    assert not context.execute_async_v3(0)
    assert any("raise RuntimeError" in line for line in log.lines)
    x[0] = 1
    assert context.execute_async_v3(0)
    assert y.tolist() == [1, 2]


def test_an_exception_in_register_is_an_error_of_the_build(build, log):
    assert build(lambda x: trtp.op.run.raises(x, where=1), x=(2,)) is None
    values = ("run::raises:", "KeyError: 'described'", "raises_desc (test_run.py:")
    assert re.match(diagnostic("AR824", *values), log.lines[-1])
    assert log.lines[-1].count("[AR") == 1


def test_the_array_of_an_input_is_read_only(build):
    @trtp.register("run::writes", lazy_register=True)
    def writes(x: D) -> D:
        return x.like()

    @trtp.impl("run::writes")
    def writes_impl(x, outputs, stream):
        np.asarray(x)[:] = 0

    engine = build(lambda x: trtp.op.run.writes(x), x=(2,))
    with pytest.raises(trt.errors.PluginError, match="read-only"):
        engine.run(x=np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("describe", "message"),
    [
        (lambda x: (x.like(), x.like()), "2 outputs from lies"),
        (lambda x: 3, "int as output 0 from lies"),
        (lambda x: trtp.TensorDesc(), "output 0 without a type"),
        (lambda x: trtp.TensorDesc(dtype=trt.float32), "output 0 without a shape"),
        (lambda x: x.like().aliased(), "output 0, which shares memory with no input"),
        (
            lambda x: trtp.from_shape_expr((trtp.size_tensor(2, 4).expr(),), trt.float32),
            "a size tensor that is no output",
        ),
        (lambda x: trtp.from_shape_expr((-3,), trt.float32), "a dimension of -3"),
    ],
)
def test_an_invalid_return_value_of_register_is_reported(build, log, describe, message):
    def lies(x: D) -> D:
        return describe(x)

    trtp.register(f"run::lies{id(lies)}", lazy_register=True)(lies)
    trtp.impl(f"run::lies{id(lies)}")(lambda x, outputs, stream: None)
    plugin = getattr(trtp.op.run, f"lies{id(lies)}")
    assert build(lambda x: plugin(x), x=(2,)) is None
    assert any(message in line for line in log.lines)


@trtp.register("run::first", lazy_register=True)
def first_desc(x: D, y: D) -> Tuple[D, D]:  # noqa: UP006
    size = trtp.size_tensor(x.shape_expr[0] // 2, x.shape_expr[0])
    return trtp.from_shape_expr((size.expr(), 2), dtype=trt.float32), size


@trtp.impl("run::first")
def first_impl(x, y, outputs, stream):
    count = int(np.asarray(y)[0])
    np.asarray(outputs[0].aliased((min(max(count, 0), x.shape[0]), 2)))[:] = 3
    np.asarray(outputs[1])[...] = count


@pytest.mark.parametrize("outputs", [(0,), (1, 0)])
def test_a_size_beyond_its_bound_is_an_error_and_the_next_call_works(build, outputs):
    engine = build(lambda x, y: trtp.op.run.first(x, y), outputs=outputs, x=(-1,), y=(1,))
    for size, count in [(4, 5), (4, -1), (9, 1 << 30)]:
        with pytest.raises(trt.errors.PluginError, match=diagnostic("AR822", count, 0)):
            engine.run(x=np.zeros(size, np.float32), y=np.float32([count]))
        result = engine.run(x=np.zeros(size, np.float32), y=np.float32([size]))["y0"]
        assert result.tolist() == [[3, 3]] * size


def test_an_aliased_tensor_has_no_more_elements_than_its_memory(build):
    @trtp.register("run::more", lazy_register=True)
    def more(x: D) -> D:
        return x.like()

    @trtp.impl("run::more")
    def more_impl(x, outputs, stream):
        outputs[0].aliased((5,))

    engine = build(lambda x: trtp.op.run.more(x), x=(2, 2))
    with pytest.raises(
        trt.errors.PluginError, match=diagnostic("AR824", "run::more", "[AR108] Tensor.aliased", 5, 4)
    ):
        engine.run(x=np.zeros((2, 2), np.float32))


def test_an_array_without_axes_becomes_one_of_one_element(build):
    values = {**VALUES, "h": np.array(0.5, np.float16), "m": np.array(True)}
    engine = build(lambda x: trtp.op.run.mixed(x, **values), x=(3,))
    engine.run(x=np.zeros(3, np.float32))
    assert (SEEN["mixed"]["h"], SEEN["mixed"]["m"]) == ([0.5], [True])
