"""Weights are not copied without need."""

import tracemalloc

import numpy as np
import pytest

import anyrt as trt

MEGABYTES = 8
TABLE = np.arange(MEGABYTES << 18, dtype=np.float32)


@pytest.fixture
def plan(net, plan_of):
    table = net.add_constant(TABLE.shape, TABLE).get_output(0)
    x = net.add_input("x", trt.float32, TABLE.shape)
    return plan_of(net, net.add_elementwise(x, table, trt.ElementWiseOperation.SUM).get_output(0))


def megabytes_of(work):
    """(most memory of Python and NumPy while working, what is left), in megabytes rounded to halves."""
    tracemalloc.start()
    kept = work()
    left, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return [round(2 * n / (1 << 20)) / 2 for n in (most, left)]


# ---- copies -------------------------------------------------------------------------------------------


def test_a_build_holds_the_weights_once(net, plan_of, plan, builder):
    config = builder.create_builder_config()
    assert megabytes_of(lambda: builder.build_serialized_network(net, config)) == [MEGABYTES, MEGABYTES]


class Count(trt.IStreamWriter):
    """Counts the bytes, keeps none."""

    def __init__(self):
        trt.IStreamWriter.__init__(self)
        self.nbytes = 0

    def write(self, data):
        self.nbytes += len(data)
        return len(data)


def test_a_build_to_a_stream_holds_one_chunk(net, plan, builder, monkeypatch):
    monkeypatch.setattr("anyrt.api.builder.CHUNK", 1 << 20)
    writer, config = Count(), builder.create_builder_config()
    most, _ = megabytes_of(lambda: builder.build_serialized_network_to_stream(net, config, writer))
    assert (most <= 2, writer.nbytes) == (True, plan.nbytes)
