"""One plan on processors with several feature levels."""

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
from anyrt.backends.cpu import processors

NUMPY = {
    trt.float32: np.float32,
    trt.float16: np.float16,
    trt.bfloat16: ml_dtypes.bfloat16,
    trt.int8: np.int8,
}
# A few units in the last place of the types: sums of 11 x 13 elements are added in another order.
STEPS = {trt.float32: 2.0**-19, trt.float16: 2.0**-9, trt.bfloat16: 2.0**-6, trt.int8: 1}
LEVELS = [level for level in ("avx512", "avx2", "sse2", "neon") if level != processors.host().level.value]


def available(level):
    try:
        processors.choose(level)
    except trt.errors.CompileError:
        return False
    return True


def chain(net, dtype):
    """Normalisation, Sigmoid, cubic resize, a transpose; int8: Scale and Resize with dynamic ranges."""
    x = net.add_input("x", dtype, (-1, 6, 11, 13))
    if dtype is trt.int8:
        x.set_dynamic_range(-12.7, 12.7)
        y = net.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.float32([1.5])).get_output(0)
        y.set_dynamic_range(-19, 19)
    else:
        ones = [net.add_input(n, dtype, (1, 6, 1, 1)) for n in ("gain", "bias")]
        y = net.add_normalization(x, *ones, 1 << 2 | 1 << 3).get_output(0)
        y = net.add_activation(y, trt.ActivationType.SIGMOID).get_output(0)
    resize = net.add_resize(y)
    resize.resize_mode = (
        trt.InterpolationMode.CUBIC if dtype is not trt.int8 else trt.InterpolationMode.LINEAR
    )
    resize.scales = (1, 1, 1.5, 2.25)
    resize.get_output(0).set_dynamic_range(-20, 20)
    shuffle = net.add_shuffle(resize.get_output(0))
    shuffle.first_transpose = (0, 2, 3, 1)
    return shuffle.get_output(0)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", NUMPY, ids=lambda d: d.name)
@pytest.mark.parametrize("level", [level for level in LEVELS if available(level)])
def test_a_plan_agrees_on_a_smaller_processor(level, dtype, net, plan_of, random, monkeypatch):
    shapes = [(n, 6, 11, 13) for n in (1, 2, 5)]
    others = {} if dtype is trt.int8 else dict.fromkeys(("gain", "bias"), [(1, 6, 1, 1)] * 3)
    plan = plan_of(net, chain(net, dtype), x=shapes, **others)
    feeds = {"x": random.uniform(-90, 90, shapes[2]).astype(NUMPY[dtype])}
    feeds |= {n: random.uniform(0.5, 2, (1, 6, 1, 1)).astype(NUMPY[dtype]) for n in others}
    best = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan).run(**feeds)["y"]
    monkeypatch.setenv("ANYRT_CPU", level)
    got = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan).run(**feeds)["y"]
    step = STEPS[dtype]
    np.testing.assert_allclose(got.astype(np.float64), best.astype(np.float64), rtol=step, atol=step)


def test_an_unknown_level_is_rejected(net, plan_of, log, monkeypatch):
    x = net.add_input("x", trt.float32, (2, 3))
    plan = plan_of(net, net.add_identity(x).get_output(0))
    monkeypatch.setenv("ANYRT_CPU", "avx9000")
    assert trt.Runtime(log).deserialize_cuda_engine(plan) is None
    assert "AR809" in log.lines[0]
