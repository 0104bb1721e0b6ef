"""Objects that can be bound, and their conversion to native addresses."""

import ml_dtypes
import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.core.errors import BindingError
from anyrt.plan.file import read_plan, write_plan
from anyrt.plan.plan import Binding, Plan
from anyrt.plan.program import Compiled, Program
from anyrt.runtime.arrays import address_of, bind
from anyrt.runtime.engine import load
from tests.messages import diagnostic

# y's four bytes = x's four bytes
COPY = """
define i32 @run(ptr %args) {
  %xp = getelementptr i64, ptr %args, i64 9
  %x = load ptr, ptr %xp
  %yp = getelementptr i64, ptr %args, i64 10
  %y = load ptr, ptr %yp
  %v = load i32, ptr %x, align 1
  store i32 %v, ptr %y, align 1
  ret i32 0
}
define i32 @prepare(ptr %args) {
  ret i32 0
}
define i32 @resume(ptr %args, i64 %k) {
  ret i32 1
}
define i32 @step(ptr %args, i64 %k) {
  ret i32 1
}
"""


class Foreign:
    """An array of another library, on some device."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


class Pointer:
    """A pointer object of another library."""

    def __int__(self):
        return 4096


def copier(device, pool, build, dtype, count):
    shape = (count,)
    plan = Plan("copy", "", bindings=(Binding("x", True, dtype, shape), Binding("y", False, dtype, shape)))
    code = build(COPY)
    program = Program((), 0, 0, 0, 0, ("copy",), code.program.entries)
    return load(read_plan(write_plan(plan, [])), device, pool, lambda _: Compiled(program, code.image))


X = Binding("x", True, DataType.FLOAT, (4,))
Y = Binding("y", False, DataType.FLOAT, (4,))


def test_foreign_arrays_are_bound_in_place():
    array = np.arange(4, dtype=np.float32)
    assert bind(X, Foreign(array)).address == array.ctypes.data
    assert bind(Y, Foreign(array)).nbytes == 16


def test_arrays_on_other_devices_are_rejected():
    with pytest.raises(BindingError, match=r"AR705.*DLPack device 2"):
        bind(X, Foreign(np.zeros(4, np.float32), device=2))


def test_anything_that_converts_to_an_int_is_an_address():
    assert bind(X, Pointer()).address == 4096
    assert bind(X, np.int64(64)).address == 64


def test_masked_arrays_are_rejected_wherever_an_array_may_stand(engine):
    array = np.ma.array(np.zeros(4, np.float32), mask=[0, 1, 0, 0])
    for binding in (X, Y):
        with pytest.raises(BindingError, match=r"AR703.*masked array"):
            bind(binding, array)
    with pytest.raises(BindingError, match=r"AR703.*masked array"):
        engine.infer({"x": array})


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, np.float32),
        np.zeros(0, np.float32),
        np.frombuffer(b"12345678", np.float32),
        np.zeros(3, ml_dtypes.bfloat16),
        np.zeros((), np.int64),
    ],
)
def test_the_fast_address_is_the_address(array):
    assert address_of(array) == array.ctypes.data


@pytest.mark.parametrize(
    ("dtype", "numpy_type", "count"),
    [
        (DataType.BF16, ml_dtypes.bfloat16, 2),
        (DataType.FP8, ml_dtypes.float8_e4m3fn, 4),
        (DataType.INT4, ml_dtypes.int4, 7),
        (DataType.BOOL, np.bool_, 4),
    ],
)
def test_every_type_goes_in_and_out(device, pool, build, dtype, numpy_type, count):
    x = np.array([0, 1, 1, 0, 1, 0, 1][:count]).astype(numpy_type)
    y = copier(device, pool, build, dtype, count).infer({"x": x})["y"]
    assert (y.dtype, y.tolist()) == (x.dtype, x.tolist())


def test_packed_types_are_bound_as_bytes(device, pool, build):
    context = copier(device, pool, build, DataType.INT4, 7).create_context()
    x, y = np.array([1, 2, 3, 4], np.uint8), np.zeros(4, np.uint8)
    context.set_address("x", x)
    context.set_address("y", y)
    context.run()
    assert y.tolist() == [1, 2, 3, 4]
    with pytest.raises(BindingError, match=diagnostic("AR703", "x", "int4", "uint8", "int4")):
        context.set_address("x", np.zeros(7, ml_dtypes.int4))
