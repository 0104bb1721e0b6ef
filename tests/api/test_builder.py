"""Builders and loggers: the effects of their attributes and methods."""

import re

import numpy as np
import pytest

import anyrt as trt

F = trt.float32
STRONGLY = trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED


class Recorder(trt.IErrorRecorder):
    """Records the codes of errors."""

    def __init__(self):
        trt.IErrorRecorder.__init__(self)
        self.codes = []

    def report_error(self, code, text):
        self.codes.append(code)
        return False


class Pool(trt.IGpuAllocator):
    """Allocates memory and counts the allocations."""

    def __init__(self):
        trt.IGpuAllocator.__init__(self)
        self.blocks = []

    def allocate(self, size, alignment, flags):
        block = np.zeros(size + alignment, np.uint8)
        self.blocks.append(block)
        return block.ctypes.data + -block.ctypes.data % alignment

    def deallocate(self, memory):
        return True


@pytest.fixture
def builder(log):
    return trt.Builder(log)


def doubled(builder, name="net"):
    net = builder.create_network()
    net.name = name
    x = net.add_input("x", F, (2,))
    y = net.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    y.name = "y"
    net.mark_output(y)
    return net


def test_builders_make_new_objects_each_time(builder):
    for make, kind in (
        (builder.create_network, trt.INetworkDefinition),
        (builder.create_builder_config, trt.IBuilderConfig),
        (builder.create_optimization_profile, trt.IOptimizationProfile),
    ):
        first, second = make(), make()
        assert (type(first), type(second), first is second) == (kind, kind, False)


def test_networks_have_the_flags_they_were_made_with(builder):
    strong = builder.create_network(1 << STRONGLY)
    assert (builder.create_network().flags, strong.flags, strong.get_flag(STRONGLY)) == (
        0,
        1 << STRONGLY,
        True,
    )
    with pytest.raises(TypeError, match="AR311"):
        builder.create_network(STRONGLY)


def test_plan_and_engine_of_a_network_agree(builder, log):
    net, config = doubled(builder), builder.create_builder_config()
    assert builder.is_network_supported(net, config)
    plan = builder.build_serialized_network(net, config)
    at_once = builder.build_engine_with_config(net, config)
    loaded = trt.Runtime(log).deserialize_cuda_engine(plan)
    for engine in (at_once, loaded):
        assert (engine.name, engine.run(x=np.float32([1, 2]))["y"].tolist()) == ("net", [2, 4])


def test_kernel_text_is_left_alone_and_that_is_logged(builder, log):
    text, net = [], doubled(builder)
    assert builder.build_serialized_network(net, builder.create_builder_config(), text) is not None
    assert (text, len(log.lines), "kernel_text" in log.lines[0]) == ([], 1, True)


def test_a_builder_gives_its_allocator_to_engines(builder):
    net = builder.create_network()
    total = net.add_reduce(net.add_input("x", F, (64, 64, 64)), trt.ReduceOperation.SUM, 0b100, False)
    resize = net.add_resize(total.get_output(0))
    resize.resize_mode, resize.scales = trt.InterpolationMode.CUBIC, (1.5, 1.5)
    net.mark_output(resize.get_output(0))
    builder.gpu_allocator = pool = Pool()
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    (y,) = engine.run(x=np.ones((64, 64, 64), np.float32)).values()
    assert (round(float(y.mean())), len(pool.blocks) > 0) == (64, True)
    with pytest.raises(TypeError, match="AR311"):
        builder.gpu_allocator = "memory"
    with pytest.raises(AttributeError):
        _ = builder.gpu_allocator


def test_errors_reach_the_recorder_of_the_network_or_else_of_the_builder(builder):
    builder.error_recorder, net = Recorder(), builder.create_network()
    assert (net.error_recorder, builder.create_network().error_recorder) == (None, None)
    net.add_input("", F, (1,))
    net.error_recorder = Recorder()
    net.add_input("", F, (1,))
    assert (len(builder.error_recorder.codes), len(net.error_recorder.codes)) == (1, 1)
    net.error_recorder = None
    net.add_input("", F, (1,))
    assert len(builder.error_recorder.codes) == 2
    with pytest.raises(TypeError, match="AR311"):
        builder.error_recorder = print


def test_reset_forgets_recorder_and_threads(builder):
    builder.error_recorder, builder.max_threads = Recorder(), 4
    assert builder.max_threads == 4
    builder.reset()
    assert (builder.error_recorder, builder.max_threads) == (None, 1)


def test_the_standard_logger_prints_the_errors_of_a_builder(capsys):
    builder = trt.Builder(trt.Logger())
    builder.create_network().add_input("", F, (1,))
    line = capsys.readouterr().out
    assert re.fullmatch(r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[TRT\] \[E\] \[AR405\] .*\n", line)
    builder.logger.min_severity = trt.Logger.INTERNAL_ERROR
    builder.create_network().add_input("", F, (1,))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("level", range(5))
def test_loggers_print_messages_up_to_their_severity(level, capsys):
    logger = trt.Logger(trt.Logger.Severity(level))
    for severity in trt.ILogger.Severity:
        logger.log(severity, "text")
    letters = re.findall(r"\[TRT\] \[(.)\]", capsys.readouterr().out)
    assert "".join(letters) == "FEWIV"[: level + 1]
    assert (logger.min_severity, trt.Logger().min_severity) == (
        trt.Logger.Severity(level),
        trt.Logger.WARNING,
    )


def test_severities_are_names_of_the_loggers():
    names = ["INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE"]
    assert [s.name for s in trt.ILogger.Severity] == names
    assert trt.Logger.Severity is trt.ILogger.Severity
    for owner in (trt.ILogger, trt.Logger):
        assert [getattr(owner, name) for name in names] == [*trt.ILogger.Severity]


def test_a_logger_without_log_raises_a_clear_error(capsys):
    trt.Builder(trt.ILogger()).create_network().add_input("", F, (1,))
    assert "ILogger must override log" in capsys.readouterr().err


def test_with_on_loggers_and_networks_warns_and_hides_no_exception(builder, log):
    for thing in (log, builder, builder.create_network()):
        with pytest.warns(DeprecationWarning, match="does nothing"), thing as same:
            assert same is thing
        with pytest.raises(KeyError), pytest.warns(DeprecationWarning, match="does nothing"), thing:
            raise KeyError
