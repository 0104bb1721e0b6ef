"""Algorithm selectors: their arguments, the effect of their choice, and invalid return values."""

import json
import re
from array import array
from collections import deque

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.schedule.tuning import Tuning
from tests.messages import diagnostic

X = np.random.default_rng(0).standard_normal(70001).astype(np.float32)


class Selector(trt.IAlgorithmSelector):
    """Returns `choose(choices)` and records the arguments of both callbacks."""

    def __init__(self, choose):
        trt.IAlgorithmSelector.__init__(self)
        self.choose, self.asked, self.reports = choose, [], None

    def select_algorithms(self, context, choices):
        self.asked.append((context, choices))
        return self.choose(choices)

    def report_algorithms(self, contexts, choices):
        self.reports = [*zip(contexts, choices, strict=True)]


@pytest.fixture
def build(log):
    """An engine of y = exp(−x), or None, built with a selector; and its configuration."""
    builder = trt.Builder(log)

    def make(selector, *flags, profile=None, shape=X.shape):
        network, config = builder.create_network(), builder.create_builder_config()
        layer = network.add_unary(network.add_input("x", trt.float32, shape), trt.UnaryOperation.NEG)
        layer.name, layer.get_output(0).name = "minus", "y"
        network.mark_output(layer.get_output(0))
        for flag in flags:
            config.set_flag(flag)
        if profile is not None:
            config.add_optimization_profile(profile)
        config.algorithm_selector = selector
        return builder.build_engine_with_config(network, config), config

    return make


def tunings(engine):
    return dict(state_of(engine).plan.settings).get("tunings", "")


def test_a_selector_gets_each_kernel_with_its_measurements(build):
    selector = Selector(lambda choices: [0])
    engine, _ = build(selector)
    (context, choices), = selector.asked  # fmt: skip
    assert (context.name, context.num_inputs, context.num_outputs) == ("minus", 1, 1)
    assert [*map(tuple, context.get_shape(0))] == [X.shape] * 3
    assert len(choices) > 2
    assert all(choice.timing_msec > 0 <= choice.workspace_size for choice in choices)
    assert len({choice.algorithm_variant.tactic for choice in choices}) == len(choices)
    np.testing.assert_array_equal(engine.run(x=X)["y"], -X)


def test_tensors_of_an_algorithm_have_types_and_strides(build):
    selector = Selector(lambda choices: [0])
    build(selector, shape=(300, 20, 30))
    ((_, choices),) = selector.asked
    infos = [choices[0].get_algorithm_io_info(i) for i in range(2)]
    assert [(x.dtype, tuple(x.strides)) for x in infos] == [(trt.float32, (600, 30, 1))] * 2
    assert (infos[0].vectorized_dim, infos[0].components_per_element) == (-1, 1)
    assert choices[0].get_algorithm_io_info(2) is None


@pytest.mark.parametrize("n", [0, 1, 2])
def test_the_choice_is_what_the_plan_holds(build, n):
    selector = Selector(lambda choices: [n])
    engine, _ = build(selector)
    ((_, choices),) = selector.asked
    chosen = Tuning.of_tactic(choices[n].algorithm_variant.tactic)
    assert tunings(engine).partition(" ")[2] == ("" if n == 0 else str(chosen))
    ((context, reported),) = selector.reports
    assert (context.name, reported.algorithm_variant.tactic) == ("minus", choices[n].algorithm_variant.tactic)
    np.testing.assert_array_equal(engine.run(x=X)["y"], -X)


def test_of_several_the_fastest_is_taken(build):
    selector = Selector(lambda choices: [1, 3, 2])
    build(selector)
    ((_, choices),) = selector.asked
    ((_, reported),) = selector.reports
    least = min(choices[n].timing_msec for n in (1, 3, 2))
    assert reported.algorithm_variant.tactic in [choices[n].algorithm_variant.tactic for n in (1, 3, 2)]
    assert reported.timing_msec <= choices[1].timing_msec
    assert least >= reported.timing_msec * 0.97  # by more than noise


def test_an_empty_answer_means_as_usual_unless_it_is_rejected(build, log):
    selector = Selector(lambda choices: [])
    assert build(selector)[0] is not None
    assert len(selector.reports) == 1
    assert build(selector, trt.BuilderFlag.REJECT_EMPTY_ALGORITHMS)[0] is None
    assert log.lines[-1].startswith("[AR334] select_algorithms for minus")


def test_open_sizes_have_three_shapes(build):
    profile = trt.IOptimizationProfile()
    profile.set_shape("x", (1,), (70000,), (90000,))
    selector = Selector(lambda choices: [0])
    build(selector, profile=profile, shape=(-1,))
    (context, _), *_ = selector.asked
    assert [*map(tuple, context.get_shape(1))] == [(1,), (70000,), (90000,)]
    assert (context.get_shape(2), context.get_shape(-1)) == ([], [])


def test_timing_caches_are_left_alone(build):
    _, config = build(Selector(lambda choices: [1]))
    assert config.get_timing_cache().queryKeys() == []


ANSWERS = {
    "none": (lambda choices: None, "None"),
    "a number": (lambda choices: 0, "int"),
    "outside": (lambda choices: [len(choices)], [4]),
    "negative": (lambda choices: [-1], [-1]),
    "twice": (lambda choices: [0, 0], [0, 0]),
    "algorithms": (lambda choices: choices, "[<IAlgorithm"),
    "an array of floats": (lambda choices: np.array([0.0]), [0.0]),
    "an array without axes": (lambda choices: np.array(0), "int"),
    "an array of two axes": (lambda choices: np.array([[0]]), [[0]]),
    "bytes": (lambda choices: b"\0", "bytes"),
    "a set": (lambda choices: {0}, "set"),
    "an error": (lambda choices: 1 / 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize(
    "answer", [(0,), range(1), np.array([0]), np.uint8([0]), array("q", [0]), deque([0])]
)
def test_an_answer_may_be_any_sequence(build, answer):
    selector = Selector(lambda choices: answer)
    assert build(selector)[0] is not None
    assert selector.reports[0][1].algorithm_variant.tactic == selector.asked[0][1][0].algorithm_variant.tactic


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_that_is_no_choice_fails_the_build_by_name(build, log, what, capsys):
    choose, value = ANSWERS[what]
    assert build(Selector(choose))[0] is None
    assert re.search(diagnostic("AR334", "select_algorithms for minus", value), log.lines[-1])
    assert build(Selector(lambda choices: [0]))[0] is not None


def test_a_report_that_raises_loses_no_engine(build, capsys):
    selector = type("Mine", (Selector,), {"report_algorithms": lambda self, a, b: 1 / 0})(lambda choices: [0])
    assert build(selector)[0] is not None
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_setting_takes_selectors_only(log):
    config = trt.Builder(log).create_builder_config()
    with pytest.raises(TypeError, match="algorithm_selector"):
        config.algorithm_selector = object()
    forgetful = type("Forgetful", (trt.IAlgorithmSelector,), {"__init__": lambda self: None})
    with pytest.raises(TypeError, match=r"IAlgorithmSelector.__init__"):
        forgetful()


def twins(net, x):
    return [net.add_activation(x, trt.ActivationType.RELU).get_output(0) for _ in range(2)]


def sizes_that_may_be_equal(net, x):
    y = net.add_input("y", trt.float32, (-1, 8))
    return [net.add_elementwise(x, y, trt.ElementWiseOperation.SUM).get_output(0)]


def turns(net, x):
    loop, three = net.add_loop(), net.add_constant((), np.int32([3])).get_output(0)
    loop.add_trip_limit(three, trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    state.set_input(1, net.add_softmax(state.get_output(0)).get_output(0))
    return [loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)]


def branches(net, x):
    choice = net.add_if_conditional()
    choice.set_condition(net.add_input("flag", trt.bool, ()))
    inner = choice.add_input(x).get_output(0)
    ways = (net.add_softmax(inner), net.add_activation(inner, trt.ActivationType.TANH))
    return [choice.add_output(*(way.get_output(0) for way in ways)).get_output(0)]


def kernels_of(engine):
    information = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    layers = json.loads(information)["Layers"]
    return {x["Name"] for x in layers if x["LayerType"] not in ("Loop", "Conditional")}


@pytest.mark.parametrize("describe", [twins, sizes_that_may_be_equal, turns, branches])
def test_both_callbacks_of_a_selector_get_every_kernel_of_the_engine(net, describe):
    selector = Selector(lambda choices: [np.int64(len(choices) - 1)])
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    for tensor in describe(net, net.add_input("x", trt.float32, (-1, 8))):
        net.mark_output(tensor)
    for name in [net.get_input(i).name for i in range(net.num_inputs) if net.get_input(i).name in "xy"]:
        profile.set_shape(name, (1, 8), (4, 8), (8, 8))
    config.add_optimization_profile(profile)
    config.profiling_verbosity, config.algorithm_selector = trt.ProfilingVerbosity.DETAILED, selector
    kernels = kernels_of(net.builder.build_engine_with_config(net, config))
    assert kernels == {context.name for context, _ in selector.asked}
    assert kernels == {context.name for context, _ in selector.reports}


def test_a_selector_is_called_where_nothing_is_measured(build, monkeypatch):
    monkeypatch.setattr("anyrt.compiler.tune.ROOM", 1)
    selector = Selector(lambda choices: [0])
    build(selector)
    ((context, choices),) = selector.asked
    assert (context.name, [choice.timing_msec for choice in choices]) == ("minus", [0])
    assert [reported.name for reported, _ in selector.reports] == ["minus"]
