"""Dimensions, shapes, descriptions and tensors of the functions of plug-ins."""

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from anyrt.api.plugins.functions.tensor import tensor
from anyrt.core.dims import Sym
from tests.messages import diagnostic

S = trtp.ShapeExpr


def dynamic_size(name="n"):
    """A dynamic dimension, as a plug-in receives it."""
    return S(trt.IDimensionExpr(Sym(name, 1, 8).dim))


@pytest.mark.parametrize(
    ("size", "value"),
    [
        (S(7) + 2, 9), (2 + S(7), 9), (S(7) - 2, 5), (9 - S(7), 2), (S(7) * 2, 14), (2 * S(7), 14),
        (S(7) // 2, 3), (S(7) == 7, 1), (S(7) == 8, 0), (S(7) < 8, 1), (S(7) < 7, 0),
        (trtp.cdiv(S(7), 2), 4), (trtp.cdiv(7, S(2)), 4), (trtp.max(S(7), 9), 9), (trtp.min(2, S(7)), 2),
    ],
)  # fmt: skip
def test_arithmetic_of_constants_is_that_of_ints(size, value):
    assert (size.constant_value(), size.is_constant, size.is_fake, bool(size)) == (
        value,
        True,
        False,
        value != 0,
    )


def test_a_dynamic_dimension_has_no_value():
    n = dynamic_size()
    assert (n.is_constant, n.is_fake, (n - n).constant_value(), (n * 2 // 2 - n).constant_value()) == (
        False,
        False,
        0,
        0,
    )
    with pytest.raises(RuntimeError, match="AR304"):
        n.constant_value()
    with pytest.raises(RuntimeError, match=r"AR304.*is_constant"):
        bool(n == 3)


def test_expressions_of_a_fake_dimension_are_fake():
    fake = S()
    assert all(
        x.is_fake for x in (fake + 1, S(2) * fake, trtp.cdiv(4, fake), trtp.ShapeExprs(2, True).numel())
    )
    with pytest.raises(RuntimeError, match=diagnostic("AR304", "a dimension of a plug-in", "is_fake")):
        _ = fake.is_constant


@pytest.mark.parametrize("other", [0.5, "2", None, [1]])
def test_arithmetic_accepts_ints_only(other):
    with pytest.raises(TypeError, match="AR311"):
        S(3) + other


@pytest.mark.parametrize(
    "wrong", [lambda: S(3) // 0, lambda: trtp.cdiv(S(3), 0), lambda: trtp.max(1, 2), lambda: trtp.cdiv(1, 2)]
)
def test_divisions_by_0_and_functions_of_two_ints_are_rejected(wrong):
    with pytest.raises(ValueError, match="AR304"):
        wrong()


def test_data_dependent_dimensions_are_not_part_of_expressions():
    size = trtp.size_tensor(S(2), S(8)).expr()
    assert (size.is_size_tensor, size.is_constant, S(2).is_size_tensor) == (True, False, False)
    for compute in (lambda: size + 1, lambda: 2 * size, lambda: S(4) - size):
        with pytest.raises(ValueError, match=diagnostic("AR304", "a dimension of a plug-in", "upper_bound")):
            compute()


def test_lists_of_expressions_have_a_fixed_length():
    sizes = trtp.ShapeExprs.from_tuple((S(2), 3))
    sizes[0] += 1
    assert ([x.constant_value() for x in sizes], len(sizes), repr(sizes)) == (
        [3, 3],
        2,
        "<ShapeExprs (3, 3)>",
    )
    with pytest.raises(IndexError):
        sizes[2] = 1
    with pytest.raises(ValueError, match="AR115"):
        trtp.ShapeExprs(9)
    with pytest.raises(ValueError, match="AR311"):
        trtp.SymExprs.from_tuple((0.5,))


@pytest.mark.parametrize(
    ("kind", "dtype"), [(trtp.SymInt32, "INT32"), (trtp.SymInt16, "INT16"), (trtp.SymInt8, "INT8")]
)
def test_arguments_of_kernels_have_a_width(kind, dtype):
    assert kind.dtype is trt.PluginArgDataType[dtype]
    assert kind(S(4)).constant_value() == kind(4).constant_value() == 4
    assert repr(trtp.SymInt32(4)()) == "<ISymExpr: INT32, <IDimensionExpr: 4>>"


def test_a_launch_has_one_block_and_thread_by_default():
    launch = trtp.KernelLaunchParams(trtp.cdiv(S(1000), 256), block_x=256)
    launch.shared_mem = 64
    assert repr(launch) == "<KernelLaunchParams: grid 4 1 1, block 256 1 1>"
    assert (launch.grid_y.constant_value(), launch.shared_mem.constant_value()) == (1, 64)
    with pytest.raises(
        AttributeError, match=diagnostic("AR313", "KernelLaunchParams", "'gridx'", "'grid_x'")
    ):
        launch.gridx = 1


def test_shapes_read_and_compare_as_tuples():
    shape = trtp.Shape((2, 3, 4))
    shape[0] += np.int32(1)
    assert (shape == (3, 3, 4), shape[1:], len(shape), shape.numel(), str(shape)) == (
        True,
        (3, 4),
        3,
        36,
        "Shape(3, 3, 4)",
    )
    assert (len(trtp.Shape()), trtp.Shape().numel(), trtp.Shape((2, 0)).numel()) == (0, 1, 0)


def test_dynamic_shapes_have_the_range_of_the_profile():
    known = trt.DynamicPluginTensorDesc()
    known.desc.dims, known.min, known.opt, known.max = (-1, 3), (1, 3), (2, 3), (8, 3)
    shape = trtp.Shape(known)
    assert (shape.is_dynamic, shape.min, shape.opt, shape.max) == (True, (1, 3), (2, 3), (8, 3))
    with pytest.raises(ValueError, match="AR123"):
        shape.numel()
    with pytest.raises(ValueError, match="AR123"):
        _ = trtp.Shape((2,)).max
    with pytest.raises(AttributeError, match=diagnostic("AR123", "Shape(-1,).max", "autotune")):
        _ = trtp.Shape((-1,)).max


def test_like_returns_a_copy_that_can_be_changed():
    x = trtp.from_shape_expr((S(2), 3), trt.float32)
    y = x.like()
    y.shape_expr[0], y.dtype = 5, trt.float16
    assert (repr(x), repr(y)) == ("<TensorDesc: float32 (2, 3)>", "<TensorDesc: float16 (5, 3)>")
    z = x.aliased()
    assert (z.is_aliased, z.get_aliased() is x, y.is_aliased, z.ndim) == (True, True, False, 2)
    with pytest.raises(ValueError, match=diagnostic("AR310", "TensorDesc", "dtype", "like()")):
        z.dtype = trt.int8


@pytest.mark.parametrize("name", ["shape", "format", "scale", "is_dynamic"])
def test_shape_and_format_of_a_description_need_autotune(name):
    x = trtp.TensorDesc((2, 3), trt.float32)
    assert (x.has_shape, x.has_shape_expr, trtp.TensorDesc().has_shape_expr) == (False, True, False)
    with pytest.raises(ValueError, match=r"AR310.*TensorDesc"):
        getattr(x, name)


def described(dims, dtype, format=trt.TensorFormat.LINEAR):
    desc = trt.PluginTensorDesc()
    desc.dims, desc.type, desc.format = dims, dtype, format
    return desc


def test_a_tensor_of_an_inference_is_read_only():
    t = tensor(described((2,), trt.float32), 64)
    for name, value in (("data_ptr", 1), ("dtype", trt.int8), ("shape", (3,)), ("strides", (1,))):
        with pytest.raises(ValueError, match=f"a new {name}"):
            setattr(t, name, value)
    own = trtp.Tensor()
    own.data_ptr, own.dtype = 64, trt.float32
    assert (own.data_ptr, own.is_aliased, hasattr(own, "__cuda_array_interface__")) == (64, False, False)


def test_memory_of_types_that_numpy_lacks_is_exported():
    memory = np.float32([1, 2, 3]).astype(ml_dtypes.bfloat16)
    t = tensor(described((3,), trt.bfloat16), memory.ctypes.data)
    np.asarray(t)[0] = 5
    assert (memory.tolist(), np.asarray(t).dtype, t.__dlpack_device__()) == ([5, 2, 3], memory.dtype, (1, 0))
    seen = np.asarray(tensor(described((3,), trt.bfloat16), memory.ctypes.data, read_only=True))
    assert (seen.tolist(), seen.flags.writeable) == ([5, 2, 3], False)
    with pytest.raises(trt.errors.BindingError, match="int4"):
        np.asarray(tensor(described((4,), trt.int4), memory.ctypes.data))


@pytest.mark.programs
def test_pytorch_works_on_the_memory_of_every_type():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make programs runs this")
    for dtype, kind in ((trt.float32, np.float32), (trt.bfloat16, ml_dtypes.bfloat16), (trt.bool, np.bool_)):
        memory = np.zeros((2, 3), kind)
        torch.as_tensor(tensor(described((2, 3), dtype), memory.ctypes.data))[1, 2] = 1
        assert memory.astype(int).tolist() == [[0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("format", ["CHW4", "CHW32", "CDHW32"])
def test_formats_with_split_channels_have_no_strides(format):
    t = tensor(described((1, 5, 2, 2, 2), trt.int8, trt.TensorFormat[format]), 64)
    with pytest.raises(trt.errors.BindingError, match=f"AR703.*{format}"):
        _ = t.strides
