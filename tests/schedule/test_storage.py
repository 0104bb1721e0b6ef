"""The arrangement of elements in memory."""

import pytest

from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import load
from anyrt.prims.scalar import SCALARS
from anyrt.schedule.storage import encode


@pytest.mark.parametrize(("dtype", "fn"), [(DataType.FP8, "to_fp8"), (DataType.FP4, "to_fp4")])
def test_rounded_values_are_stored_without_rounding_again(dtype, fn):
    x = load(Buffer("w", Scalar.F32, Space.REGISTER), 0) * 3.0
    assert encode(dtype, SCALARS[fn].expand(x)) is encode(dtype, x)
    assert encode(DataType.HALF, SCALARS[fn].expand(x)) is not encode(DataType.HALF, x)
