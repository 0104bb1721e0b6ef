"""The classes that users derive from."""

import subprocess
import sys

import pytest

import anyrt as trt
from anyrt.api.edge.quiet import Channel
from anyrt.core.errors import GraphError

E = GraphError("AR405", "x", got="''")


class Recorder(trt.IErrorRecorder):
    def __init__(self):
        trt.IErrorRecorder.__init__(self)
        self.errors = []

    def report_error(self, code, text):
        self.errors.append((code, text))
        return True


class Collect(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        self.lines.append((severity, msg))


def test_logger_prints_what_is_serious_enough(capsys):
    logger = trt.Logger(trt.Logger.WARNING)
    logger.log(trt.Logger.ERROR, "bad")
    logger.log(trt.Logger.INFO, "chatter")
    line = capsys.readouterr().out
    assert line.endswith("] [TRT] [E] bad\n")
    logger.min_severity = trt.Logger.Severity.VERBOSE
    logger.log(trt.ILogger.VERBOSE, "chatter")
    assert capsys.readouterr().out.endswith("[V] chatter\n")


def test_logger_rejects_a_number_as_severity():
    with pytest.raises(TypeError, match="Severity"):
        trt.Logger(2)


@pytest.mark.parametrize("base", [trt.ILogger, trt.IProgressMonitor, trt.IOutputAllocator, trt.IGpuAllocator])
def test_a_subclass_must_call_the_base(base):
    forgetful = type("Forgetful", (base,), {"__init__": lambda self: None})
    with pytest.raises(TypeError, match=f"{base.__name__}.__init__"):
        forgetful()


def test_a_logger_that_raises_is_printed_and_survived(capsys):
    broken = type("Broken", (trt.ILogger,), {"log": lambda self, s, m: 1 / 0})
    Channel(broken()).fail(E)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_errors_go_to_the_logger_and_the_nearest_recorder():
    logger, recorder = Collect(), Recorder()
    parent = Channel(logger)
    parent.recorder = recorder
    Channel(logger, parent).fail(E.at("x (net.py:3)"))
    text = str(E.at("x (net.py:3)"))
    assert logger.lines == [(trt.Logger.ERROR, text)]
    assert recorder.errors == [(trt.ErrorCodeTRT.INVALID_STATE, text)]


def test_errors_that_name_no_line_get_that_of_the_call():
    logger = Collect()
    Channel(logger).fail(E)
    assert "[AR405] x (test_interfaces.py:" in logger.lines[0][1]


def test_strict_raises_after_logging():
    logger = Collect()
    with trt.strict(), pytest.raises(GraphError, match="AR405"):
        Channel(logger).fail(E)
    assert len(logger.lines) == 1


def test_interfaces_have_a_version():
    recorder = Recorder()
    info = recorder.interface_info
    assert (recorder.api_language, info.kind, info.major, info.minor) == (
        trt.APILanguage.PYTHON,
        "IErrorRecorder",
        1,
        0,
    )
    info.kind, info.major, info.minor = "mine", 2, 3
    assert (info.kind, info.major, info.minor) == ("mine", 2, 3)
    assert recorder.interface_info.kind == "IErrorRecorder"


def test_profiler_prints_a_line(capsys):
    trt.Profiler().report_layer_time("conv", 1.5)
    assert capsys.readouterr().out == "conv: 1.5ms\n"


PURE = {
    trt.ILogger: {"log": 2},
    trt.IProfiler: {"report_layer_time": 2},
    trt.IErrorRecorder: {
        "num_errors": 0,
        "get_error_code": 1,
        "get_error_desc": 1,
        "has_overflowed": 0,
        "clear": 0,
        "report_error": 2,
    },
    trt.IProgressMonitor: {"phase_start": 3, "step_complete": 2, "phase_finish": 1},
    trt.IOutputAllocator: {"reallocate_output": 4, "notify_shape": 2},
    trt.IGpuAllocator: {"allocate": 3, "deallocate": 1},
    trt.IGpuAsyncAllocator: {"allocate_async": 4, "deallocate_async": 2},
    trt.IStreamReader: {"read": 1},
    trt.IStreamReaderV2: {"read": 2, "seek": 2},
    trt.IStreamWriter: {"write": 1},
    trt.IDebugListener: {"process_debug_tensor": 6},
}


@pytest.mark.parametrize(("base", "method"), [(b, m) for b, methods in PURE.items() for m in methods])
def test_a_method_to_override_says_so(base, method):
    with pytest.raises(NotImplementedError, match=f"{base.__name__} must override {method}"):
        getattr(base(), method)(*[0] * PURE[base][method])


def test_forms_with_a_stream_fall_back_to_those_without():
    class Plain(trt.IGpuAllocator):
        def allocate(self, size, alignment, flags):
            return size + alignment + flags

        def deallocate(self, memory):
            return memory == 64

    class Outputs(trt.IOutputAllocator):
        def reallocate_output(self, tensor_name, memory, size, alignment):
            return memory + size + alignment

    plain = Plain()
    assert (plain.allocate_async(8, 16, 1, 9), plain.reallocate(64, 16, 128)) == (25, None)
    assert (plain.deallocate_async(64, 9), plain.deallocate_async(65, 9)) == (True, False)
    assert Outputs().reallocate_output_async("y", 1, 2, 4, 9) == 7


def test_a_recorder_counts_by_either_name():
    older = type("Older", (trt.IErrorRecorder,), {"get_num_errors": lambda self: 3})()
    newer = type("Newer", (trt.IErrorRecorder,), {"num_errors": lambda self: 4})()
    assert (older.num_errors(), newer.num_errors(), trt.IErrorRecorder.MAX_DESC_LENGTH) == (3, 4, 127)


def test_the_async_allocator_stands_in_for_the_plain_one():
    calls = []
    body = {
        "allocate_async": lambda self, *a: calls.append(a) or 64,
        "deallocate_async": lambda self, *a: True,
    }
    allocator = type("A", (trt.IGpuAsyncAllocator,), body)()
    assert (allocator.allocate(8, 16, 1), calls, allocator.deallocate(64)) == (64, [(8, 16, 0, 1)], True)


def test_import_loads_next_to_nothing():
    code = "import sys, anyrt; print([m for m in ('numpy', 'llvmlite', 'ml_dtypes') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = trt.nonsense
