"""Conversion of float32 to bfloat16: one instruction for two registers, or a longer sequence where it would
be wrong."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.compiler.trial import Trial
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.graph import Graph, Value
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import host


def text_of(result: native.Lowered, machine: Machine) -> str:
    return "".join(emit(kernel, machine).module for kernel in result.module.distinct)


def lowered(value: Value, x: Value) -> native.Lowered:
    return native.lower(Graph((("x", x),), (("y", value),)), {}, Sizes())


@pytest.mark.parametrize(
    ("shape", "change", "lanes"),
    [
        ((4, 64), lambda x: x, 32),
        ((4, 64), lambda x: b.slice_(x, (0, 0), (4, 32), (1, 2)), 16),  # not along memory
        ((64, 64), lambda x: b.transpose(x, (1, 0)), 16),
        ((4, 16), lambda x: b.slice_(x, (0, 1), (4, 9), (1, 1)), 16),  # shorter than two registers
    ],
    ids=["rows", "every second", "tiles", "short rows"],
)
def test_two_registers_are_narrowed_at_once_where_a_row_is_walked(shape, change, lanes):
    x = b.param("x", shape, DataType.FLOAT)
    text = text_of(lowered(b.cast(change(x), DataType.BF16), x), REFERENCE)
    for n in (8, 16, 32):
        assert (f"call <{n} x i16> @narrow{n}" in text) == (n == lanes)


def test_a_processor_without_the_instruction_takes_one_register():
    x = b.param("x", (4, 64), DataType.FLOAT)
    text = text_of(lowered(b.cast(x, DataType.BF16), x), replace(REFERENCE, has_bf16=False))
    assert "<16 x float>" in text
    assert "<32 x float>" not in text


@pytest.mark.parametrize("length", [8, 16, 64])
def test_one_subnormal_number_among_others_is_kept(length):
    x = b.param("x", (length, length), DataType.FLOAT)
    lowering = lowered(b.cast(x, DataType.BF16), x)
    values = np.full((length, length), 1.2345678, np.float32)
    values[np.diag_indices(length)] = np.float32(1e-39) * (-1) ** np.arange(length)
    values[-1, 1:3] = np.inf, np.nan
    np.testing.assert_array_equal(
        run(lowering, values, DataType.BF16).view(np.uint16),
        values.astype(ml_dtypes.bfloat16).view(np.uint16),
    )


def run(lowering: native.Lowered, values: np.ndarray, result: DataType) -> np.ndarray:
    trial = Trial(load(lowering, host()), {})
    (source,), (target,) = (
        [p for p in lowering.module.places if p.name == name] for name in ("in_x", "out_y")
    )
    trial.write(source, values, DataType.FLOAT)
    trial.run()
    return trial.read(target, result, values.shape)


def test_values_that_stay_float32_are_rounded_in_their_bits():
    """Every exponent of both signs with bits below, at and above the middle between two bfloat16, behind even
    and odd ones: subnormals, infinities and NaN of every kind among them."""
    low = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x17FFF, 0x18000, 0x18001, 0x7FFFFF, 0x7F8000, 0x400000]
    bits = (np.arange(512, dtype=np.uint32)[:, None] << 23) + np.uint32(low)
    values = bits.view(np.float32)
    x = b.param("x", values.shape, DataType.FLOAT)
    lowering = lowered(b.map_("neg", b.map_("to_bf16", b.map_("neg", x))), x)
    assert "narrow" not in text_of(lowering, REFERENCE)
    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    got = run(lowering, values, DataType.FLOAT)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
