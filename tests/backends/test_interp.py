"""The interpreter as a backend: it runs the kernels of a network in the order of the host program and agrees
with native code."""

from dataclasses import replace

import numpy as np
import pytest

import anyrt as trt
from anyrt.backends.interp.target import InterpTarget
from anyrt.compiler.bounds import differing
from anyrt.compiler.driver import lower_plan
from anyrt.compiler.trial import constant_offsets, job
from anyrt.compiler.verify import reference
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError
from anyrt.core.machine import REFERENCE
from anyrt.core.requirement import Assertion
from anyrt.ir.graph import Graph, apply
from anyrt.ir.statements import loops
from anyrt.plan.file import read_plan
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import const, contract, map_, param
from anyrt.schedule.cost import Sizes
from tests.messages import diagnostic
from tests.native import lower
from tests.networks import marked

F, H, I32 = trt.float32, trt.float16, trt.int32
Fold, Unary = trt.ReduceOperation, trt.UnaryOperation


def products(net):
    """Constant weights in panels, a bias, and an epilogue on the sums."""
    rng = np.random.default_rng(1)
    x = net.add_input("x", F, (1, 8, 9, 10))
    w, bias = rng.normal(size=(40, 8, 3, 3)), rng.normal(size=40)
    y = net.add_convolution_nd(x, 40, (3, 3), w.astype(np.float32), bias.astype(np.float32)).get_output(0)
    return net.add_activation(y, trt.ActivationType.RELU).get_output(0)


def rows(net):
    """Folds of a half type."""
    return net.add_softmax(net.add_input("x", H, (37, 70))).get_output(0)


def looped(net):
    """A loop whose body runs several times."""
    x = net.add_input("x", F, (3, 4))
    loop, turns = net.add_loop(), net.add_constant((), np.int32([5])).get_output(0)
    loop.add_trip_limit(turns, trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    mean = net.add_reduce(state.get_output(0), Fold.AVG, 2, True).get_output(0)
    state.set_input(
        1, net.add_elementwise(state.get_output(0), mean, trt.ElementWiseOperation.SUB).get_output(0)
    )
    return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0).get_output(0)


def chosen(net):
    """One of two branches, selected by data."""
    x = net.add_input("x", F, (3, 4))
    total = net.add_reduce(x, Fold.SUM, 3, False).get_output(0)
    zero = net.add_constant((), np.float32([0])).get_output(0)
    choice = net.add_if_conditional()
    choice.set_condition(net.add_elementwise(total, zero, trt.ElementWiseOperation.GREATER).get_output(0))
    inside = choice.add_input(x).get_output(0)
    ways = (net.add_unary(inside, kind).get_output(0) for kind in (Unary.EXP, Unary.NEG))
    return choice.add_output(*ways).get_output(0)


def nonzero(net):
    """Outputs with data-dependent dimensions."""
    x = net.add_input("x", F, (7, 9))
    return net.add_non_zero(net.add_unary(x, Unary.ROUND).get_output(0)).get_output(0)


def resized(net):
    """Tables of taps, which are filled first."""
    layer = net.add_resize(net.add_input("x", F, (1, 3, 9, 11)))
    layer.resize_mode, layer.shape = trt.InterpolationMode.LINEAR, (1, 3, 20, 17)
    return layer.get_output(0)


def ran(network):
    """The lowered graph, its input, the interpreter's outputs, and those of native code."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    net = builder.create_network()
    marked(net, y=network(net))
    plan = builder.build_serialized_network(net, builder.create_builder_config())
    lowered, x = lower_plan(read_plan(bytes(plan)), InterpTarget()), net.get_input(0)
    values = np.random.default_rng(3).normal(size=x.shape).astype(trt.nptype(x.dtype))
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    answer = InterpTarget().run(job(lowered, {}), {"x": values})
    return lowered, values, answer.outputs["y"], engine.run(x=values)["y"]


@pytest.mark.parametrize("network", [rows, looped, chosen, nonzero, resized])
def test_kernels_in_program_order_give_what_native_code_gives(network):
    _, _, got, expected = ran(network)
    assert (got.shape, got.tobytes()) == (expected.shape, expected.tobytes())


def test_sums_in_another_order_lie_within_the_bounds_of_native_code():
    lowered, values, *results = ran(products)
    ((_, x),), ((_, y),) = lowered.graph.inputs, lowered.graph.outputs
    bound = reference(y, {x: values}, {})
    assert [int(differing(got, bound, y.dtype).sum()) for got in results] == [0, 0]


def test_a_condition_on_data_that_does_not_hold_ends_the_run():
    low, rule = param("x", (), DataType.INT64), Assertion("AR131", "x", "{}", "what is fine", "change it")
    built = map_("neg", apply(Asserted(rule), low, map_("abs", low)))
    lowered = lower(Graph((("x", low),), (("y", built),)), {}, Sizes({}))
    with pytest.raises(AnyrtError, match=diagnostic("AR131", "x", 4, "what is fine")):
        InterpTarget().run(job(lowered, {}), {"x": np.array(-4)})


@pytest.mark.parametrize(("rows", "terms", "lanes"), [(40, 36, 50), (13, 64, 70), (33, 128, 18)])
def test_tiles_of_a_matrix_that_are_not_full_run_in_the_interpreter(rows, terms, lanes):
    rng, machine = np.random.default_rng(0), replace(REFERENCE, has_tiles=True)
    x, w = (rng.integers(-128, 128, shape, np.int8) for shape in ((rows, terms), (terms, lanes)))
    sums = contract("mk,kn->mn", param("x", x.shape, DataType.INT8), const(w, DataType.INT8), DataType.INT32)
    graph = Graph((("x", sums.args[0]),), (("y", sums),))
    lowered = lower(graph, constant_offsets(graph), Sizes({}), machine=machine)
    assert "amx_int8" in {s.intrinsic for k in lowered.module.kernels for s in loops(k.body)}
    got = InterpTarget().run(job(lowered, {}), {"x": x}).outputs["y"]
    assert np.array_equal(got, x.astype(np.int32) @ w.astype(np.int32))
