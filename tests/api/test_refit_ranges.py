"""New ranges for int8 tensors, compared with engines built with these ranges."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.api.test_calibration import calibrator

REFIT = (trt.BuilderFlag.INT8, trt.BuilderFlag.REFIT)


def weights(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def convolution(network, x):
    """A convolution, and a product behind it."""
    y = network.add_convolution_nd(x, 6, (3, 3), weights(6, 8, 3, 3), weights(6)).get_output(0)
    y.name = "inner"
    w = network.add_constant((1, 1, 3, 4), weights(1, 1, 3, 4)).get_output(0)
    return network.add_matrix_multiply(y, trt.MatrixOperation.NONE, w, trt.MatrixOperation.NONE).get_output(0)


def codes(network, x):
    """int8 tensors: codes that are moved, and codes made from numbers."""
    doubled = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM)
    doubled.set_output_type(0, trt.int8)
    doubled.get_output(0).name = "inner"
    moved = network.add_shuffle(doubled.get_output(0))
    moved.first_transpose = (0, 2, 3, 1)
    back = network.add_identity(moved.get_output(0))
    back.set_output_type(0, trt.float32)
    return back.get_output(0)


def built(describe, flags, shown=None, **ranges):
    """An engine whose tensors have these ranges."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (2, 8, 5, 5))
    y = describe(network, x)
    y.name = "y"
    network.mark_output(y)
    tensors = {"x": x, **{layer.get_output(0).name: layer.get_output(0) for layer in network}}
    for name, most in ranges.items():
        tensors[name].dynamic_range = (-most / 2, most)
    for flag in flags:
        config.set_flag(flag)
    config.int8_calibrator = shown
    return trt.Runtime(trt.Logger()).deserialize_cuda_engine(
        builder.build_serialized_network(network, config)
    )


def ran(engine):
    """The outputs of an engine for fixed inputs."""
    context, x = engine.create_execution_context(), 2 * weights(2, 8, 5, 5)
    y = np.empty(tuple(engine.get_tensor_shape("y")), np.float32)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)
    return y


@pytest.mark.parametrize("describe", [convolution, codes])
@pytest.mark.parametrize("changed", [{"x": 4.0}, {"inner": 9.0}, {"x": 0.5, "inner": 3.0}])
def test_ranges_given_again_are_those_of_a_build_with_them(describe, changed):
    before = {"x": 2.0, "inner": 5.0}
    engine = built(describe, REFIT, **before)
    assert np.array_equal(ran(engine), ran(built(describe, REFIT[:1], **before)))
    refitter = trt.Refitter(engine, trt.Logger())
    known = refitter.get_tensors_with_dynamic_range()
    for name in changed.keys() & set(known):
        assert refitter.set_dynamic_range(name, [-changed[name], changed[name] / 3])
    assert refitter.refit_cuda_engine()
    want = built(describe, REFIT[:1], **before | {n: m for n, m in changed.items() if n in known})
    assert np.array_equal(ran(engine), ran(want))


def test_ranges_are_reported_and_stored_in_plans():
    engine = built(convolution, REFIT, x=2.0, inner=5.0)
    refitter = trt.Refitter(engine, trt.Logger())
    assert sorted(refitter.get_tensors_with_dynamic_range()) == ["inner", "x"]
    assert refitter.get_dynamic_range("x") == (-2.0, 2.0)
    assert refitter.set_dynamic_range("x", (-1.0, 7.0))
    assert refitter.get_dynamic_range("x") == (-7.0, 7.0)
    assert trt.Refitter(engine, trt.Logger()).get_dynamic_range("x") == (-2.0, 2.0)
    refitter.refit_cuda_engine()
    again = trt.Runtime(trt.Logger()).deserialize_cuda_engine(engine.serialize())
    assert trt.Refitter(again, trt.Logger()).get_dynamic_range("x") == (-7.0, 7.0)
    assert np.array_equal(ran(again), ran(engine))


def test_ranges_are_no_weights():
    refitter = trt.Refitter(built(convolution, REFIT, x=2.0, inner=5.0), trt.Logger())
    layers, roles = refitter.get_all()
    assert roles == [trt.WeightsRole.BIAS]
    assert refitter.get_all_weights() == ["(Unnamed Layer* 0) [Convolution] BIAS"]
    refitter.set_dynamic_range("inner", [-3.0, 3.0])
    assert (refitter.get_missing(), refitter.get_missing_weights()) == (([], []), [])
    assert refitter.set_weights(layers[0], trt.WeightsRole.BIAS, np.zeros(6, np.float32))
    assert refitter.refit_cuda_engine()


def test_calibrated_ranges_may_be_others():
    shown = calibrator(trt.IInt8MinMaxCalibrator, [weights(2, 8, 5, 5)])
    engine = built(convolution, REFIT, shown)
    refitter = trt.Refitter(engine, trt.Logger())
    for name, most in (("x", 2.0), ("inner", 5.0)):
        assert refitter.set_dynamic_range(name, [-most, most])
    assert refitter.refit_cuda_engine()
    assert np.array_equal(ran(engine), ran(built(convolution, REFIT[:1], x=2.0, inner=5.0)))


@pytest.mark.parametrize(
    "flags", [REFIT[:1], (*REFIT, trt.BuilderFlag.STRIP_PLAN), (*REFIT[:1], trt.BuilderFlag.REFIT_IDENTICAL)]
)
def test_other_engines_have_no_ranges_to_change(flags):
    with trt.strict():
        engine = built(convolution, flags, x=2.0, inner=5.0)
    refitter = trt.Refitter(engine, trt.Logger(trt.Logger.INTERNAL_ERROR))
    assert refitter.get_tensors_with_dynamic_range() == []
    assert refitter.set_dynamic_range("x", [-1.0, 1.0]) is False


@pytest.mark.parametrize(
    ("name", "limits", "code"),
    [
        ("z", [-1.0, 1.0], "AR842"),
        ("y", [-1.0, 1.0], "AR842"),
        ("x", [1.0, -1.0], "AR308"),
        ("x", [0.0, 0.0], "AR308"),
        ("x", [-1.0, float("inf")], "AR308"),
    ],
)
def test_invalid_ranges_are_rejected(name, limits, code):
    engine = built(convolution, REFIT, x=2.0, inner=5.0)
    refitter, before = trt.Refitter(engine, trt.Logger()), ran(engine)
    with trt.strict(), pytest.raises(trt.errors.AnyrtError, match=code):
        refitter.set_dynamic_range(name, limits)
    with pytest.raises(TypeError, match="pair"):
        refitter.set_dynamic_range("x", [1.0])
    assert refitter.refit_cuda_engine()
    assert np.array_equal(ran(engine), before)
