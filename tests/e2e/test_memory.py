"""The user's memory: any element-aligned address works, and neighbouring memory stays unchanged."""

import gc

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.core.dimvalues import evaluate


def placed(shape, dtype, offset):
    """An array this many bytes past a multiple of 64, in a larger block of 0xA5."""
    block = np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize + 256, 0xA5, np.uint8)
    start = 64 + -block.ctypes.data % 64 + offset
    return block, block[start : start + block.size - 256].view(dtype).reshape(shape)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [trt.float32, trt.float16, trt.int8, trt.int64])
@pytest.mark.parametrize("shape", [(3, 1031, 1700), (5, 64, 65), (1, 1, 5)])
def test_any_element_aligned_address_will_do(dtype, shape, net, engine_of, random):
    x = net.add_input("x", dtype, shape)
    turned = net.add_shuffle(x)
    turned.first_transpose = (2, 0, 1)
    total = net.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    context = engine_of(net, total, turned.get_output(0)).create_execution_context()
    kind = trt.nptype(dtype)
    for offset in (np.dtype(kind).itemsize, 3 * np.dtype(kind).itemsize):
        blocks = [placed(s, kind, offset) for s in (shape, shape, (shape[2], *shape[:2]))]
        data, both, other = (array for _, array in blocks)
        data[:] = random.integers(-60, 60, shape)
        assert context.execute_v2([a.ctypes.data for a in (data, both, other)])
        assert np.array_equal(both, data + data)
        assert np.array_equal(other, data.transpose(2, 0, 1))
        assert all((b[:64] == 0xA5).all() and (b[-64:] == 0xA5).all() for b, _ in blocks)


def test_an_engine_needs_neither_plan_nor_network(net, plan_of, log):
    table = np.arange(1000, dtype=np.float32)
    y = net.add_elementwise(
        net.add_input("x", trt.float32, (1000,)),
        net.add_constant((1000,), table).get_output(0),
        trt.ElementWiseOperation.SUM,
    )
    data = bytearray(plan_of(net, y.get_output(0)))
    engine = trt.Runtime(log).deserialize_cuda_engine(data)
    data[:] = bytes(len(data))
    table[:] = 0
    del data, net, y
    gc.collect()
    assert np.array_equal(engine.run(x=np.zeros(1000, np.float32))["y"], np.arange(1000))


def attentions(net, *widths):
    """One attention per output, all with the same dynamic number of rows."""
    for n, width in enumerate(widths):
        x = net.add_input(f"x{n}", trt.float32, (1, 4, -1, width))
        x.set_dimension_name(2, "rows")
        yield net.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False).get_output(0)


def test_a_thread_needs_what_the_greediest_kernel_does(net, builder, engine_of):
    widths = (16, 24, 40, 64)
    every = engine_of(net, *attentions(net, *widths))
    alone = []
    for width in widths:
        other = builder.create_network(net.flags)
        alone.append(engine_of(other, *attentions(other, width)))
    most, *each = (evaluate(state_of(e).loaded.program.scratch_bytes, {"rows": 512}) for e in (every, *alone))
    assert most == max(each) > min(each) > 0
