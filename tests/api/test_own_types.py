"""Element types of ONNX that TensorRT lacks."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import BindingError, DTypeError
from tests.messages import diagnostic

E = trt.ElementWiseOperation
OWN = [t for t in trt.DataType if t.is_extension]
WHOLE = [trt.int16, trt.uint16, trt.uint32, trt.uint64]


def run(net, *outputs, **feeds):
    for number, tensor in enumerate(outputs):
        tensor.name = f"y{number}"
        net.mark_output(tensor)
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    results = engine.run(**feeds)
    return [results[f"y{number}"] for number in range(len(outputs))]


def bytes_of(x):
    """The bytes in memory. NumPy may hold few-bit numbers with or without sign bits in the higher bits."""
    narrow = x.dtype.name in ("int2", "uint2", "uint4")
    return np.ascontiguousarray(x.astype(np.int8) if narrow else x).tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("t", OWN)
def test_elements_are_moved_cast_and_chosen(net, t):
    codes = np.arange(256, dtype=np.uint8)[:255].reshape(5, 51)
    kind = np.dtype(trt.nptype(t))
    x = codes.astype(kind) if kind.itemsize > 1 or kind.name.startswith(("u", "i")) else codes.view(kind)
    tensor = net.add_input("x", t, x.shape)
    turned = net.add_shuffle(tensor)
    turned.first_transpose = (1, 0)
    picked = net.add_slice(tensor, (0, 3), (5, 10), (1, 4)).get_output(0)
    both = net.add_concatenation([picked, picked]).get_output(0)
    wide = net.add_cast(tensor, trt.float32).get_output(0)
    back = net.add_cast(wide, t).get_output(0)
    got = run(net, turned.get_output(0), both, wide, back, x=x)
    assert [y.dtype for y in got] == [kind, kind, np.float32, kind]
    for moved, expected in zip(got, (x.T, np.concatenate([x[:, 3:43:4]] * 2)), strict=False):
        assert bytes_of(moved) == bytes_of(expected)
    np.testing.assert_array_equal(got[2], x.astype(np.float32))
    finite = np.isfinite(got[2])
    assert (got[3].astype(np.float32) == got[2])[finite].all()


@pytest.mark.parametrize("t", WHOLE)
def test_integers_wrap_and_divide_as_integers(net, t):
    kind = np.dtype(trt.nptype(t))
    info = np.iinfo(kind)
    a = np.array([info.max, info.max, info.min, 7, 200, 9], kind)
    b = np.array([info.max, 3, 1, 0, 13, 4], kind)
    x, y = net.add_input("a", t, (6,)), net.add_input("b", t, (6,))
    ops = (E.SUM, E.PROD, E.SUB, E.MAX, E.FLOOR_DIV, E.GREATER)
    got = run(net, *(net.add_elementwise(x, y, op).get_output(0) for op in ops), a=a, b=b)
    with np.errstate(all="ignore"):
        expected = [a + b, a * b, a - b, np.maximum(a, b), a // b, a > b]
    assert [g.tolist() for g in got] == [w.tolist() for w in expected]


def test_float64_is_computed_in_float64(net):
    a, b = np.array([1 / 3, 1e300, 2.0**60 + 512]), np.array([1e-17, 3.0, 1e-200])
    x, y = net.add_input("a", trt.float64, (3,)), net.add_input("b", trt.float64, (3,))
    total = net.add_elementwise(x, y, E.SUM).get_output(0)
    ratio = net.add_elementwise(x, y, E.DIV).get_output(0)
    root = net.add_unary(x, trt.UnaryOperation.SQRT).get_output(0)
    got = run(net, total, ratio, root, a=a, b=b)
    assert [g.tolist() for g in got] == [(a + b).tolist(), (a / b).tolist(), np.sqrt(a).tolist()]


def test_products_of_float64_matrices_keep_53_bits(net):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((17, 40)), rng.standard_normal((40, 23))
    x, y = net.add_input("a", trt.float64, a.shape), net.add_input("b", trt.float64, b.shape)
    none = trt.MatrixOperation.NONE
    (got,) = run(net, net.add_matrix_multiply(x, none, y, none).get_output(0), a=a, b=b)
    np.testing.assert_allclose(got, a @ b, rtol=0, atol=1e-13)


def test_layers_that_do_not_take_a_type_say_which_they_take(net):
    x = net.add_input("x", trt.float64, (3,))
    with (
        trt.strict(),
        pytest.raises(
            DTypeError, match=diagnostic("AR202", "[LRN]", "float64", 0, "float32", "float16", "bfloat16")
        ),
    ):
        net.add_lrn(x, 3, 1.0, 0.75, 1.0).get_output(0).shape  # noqa: B018


@pytest.mark.parametrize(("t", "each"), [(trt.int2, "four"), (trt.uint4, "two")])
def test_packed_elements_share_the_bytes_of_a_bound_array(net, t, each):
    layer = net.add_identity(net.add_input("x", t, (6,)))
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    context = engine.create_execution_context()
    x = np.uint8([0b11_10_01_00, 0b10_01]) if t is trt.int2 else np.uint8([0x21, 0x43, 0x65])
    y = np.zeros_like(x)
    assert context.set_tensor_address("x", x)
    assert context.set_tensor_address("y", y)
    assert context.execute_async_v3(0)
    assert y.tolist() == x.tolist()
    with trt.strict(), pytest.raises(BindingError, match=diagnostic("AR703", "x", "int8", "uint8", each)):
        context.set_tensor_address("x", np.zeros(6, np.int8))
