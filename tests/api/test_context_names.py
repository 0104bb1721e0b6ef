"""The effect of each member of a context: addresses, shape values, allocators, profiles, times, debug
tensors."""

import ctypes

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.compat.cuda import runtime as cuda_runtime

Context = trt.IExecutionContext
X = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)


def ready(context, x=X, n=(4, 2)):
    """The context with every input and output bound; the arrays by name."""
    y, r, s = np.empty_like(x), np.empty(n, np.float32), np.zeros(4, np.int64)
    arrays = {"x": x, "n": np.int32(n), "y": y, "r": r, "s": s}
    assert context.set_input_shape("x", x.shape)
    for name, array in arrays.items():
        assert context.set_tensor_address(name, array.ctypes.data)
    return arrays


class Foreign:
    """An array of another library that supports DLPack only."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Pointer:
    """A pointer of another library that converts to int only."""

    def __init__(self, array):
        self.array = array

    def __int__(self):
        return self.array.ctypes.data


# ---- addresses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [Foreign, Pointer, lambda a: a, lambda a: np.int64(a.ctypes.data)])
def test_inputs_and_outputs_are_bound_in_every_form(context, form):
    arrays = ready(context)
    x, y = X + 1, np.zeros_like(X)  # this reference keeps the array alive; an address does not
    for name, array in (("x", x), ("y", y)):
        bound = form(array)
        assert context.set_tensor_address(name, bound)
        assert context.get_tensor_address(name) == array.ctypes.data
        arrays[name] = bound
    assert context.execute_async_v3(0)
    assert np.array_equal(y, 2 * (X + 1) + 1)


@pytest.mark.parametrize("form", [Foreign, Pointer, lambda a: a])
def test_execute_v2_takes_every_form(context, form):
    arrays = ready(context)
    assert context.execute_v2([form(arrays[name]) for name in context.engine])
    assert np.array_equal(arrays["y"], 2 * X + 1)


@pytest.mark.parametrize("stream", [0, 7, np.int64(7), cuda_runtime.cudaStreamCreate()[1]])
def test_streams_are_ints_or_convert_to_ints(context, stream):
    arrays = ready(context)
    assert context.execute_async_v3(stream)
    assert np.array_equal(arrays["y"], 2 * X + 1)


@pytest.mark.parametrize("stream", [None, "7", 1.5, ()])
def test_an_object_that_is_no_stream_is_a_type_error(context, stream):
    ready(context)
    with pytest.raises(TypeError, match="AR311"):
        context.execute_async_v3(stream)
    with pytest.raises(TypeError, match="AR311"):
        context.set_optimization_profile_async(0, stream)


def test_address_0_resets(context, log):
    arrays = ready(context)
    assert context.set_tensor_address("x", 0)
    assert context.get_tensor_address("x") == 0
    assert not context.execute_async_v3(0)
    assert context.set_tensor_address("x", arrays["x"].ctypes.data)
    assert context.execute_async_v3(0)


def test_values_of_shape_tensors_are_read_in_each_run(context):
    arrays = ready(context)
    assert context.execute_async_v3(0)
    arrays["n"][:] = (2, 4)
    assert context.get_tensor_shape("r") == (2, 4)
    assert context.execute_async_v3(0)
    assert np.array_equal(arrays["r"].reshape(-1), (2 * X + 1).reshape(-1))


@pytest.mark.parametrize("form", [tuple, list, trt.Dims])
def test_input_shapes_are_tuples_lists_or_dims(context, form):
    assert context.set_input_shape("x", form((1, 3, 2, 2)))
    assert context.get_tensor_shape("x") == (1, 3, 2, 2)
    assert context.get_tensor_strides("x") == (12, 4, 2, 1)
    assert context.get_tensor_strides("r") == (-1, 1)


# ---- values of shape outputs -----------------------------------------------------------------------------


@pytest.fixture
def sized(log):
    """y = x resized to twice its rows, m, which is an output, too; one engine for 1 to 4 rows
    computes both."""
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (-1, 3))
    by = network.add_constant((2,), np.int64([2, 1])).get_output(0)
    shape = network.add_shape(x).get_output(0)
    sizes = network.add_elementwise(shape, by, trt.ElementWiseOperation.PROD).get_output(0)
    resize = network.add_resize(x)
    resize.set_input(1, sizes)
    for tensor, name in ((sizes, "m"), (resize.get_output(0), "y")):
        tensor.name = name
        network.mark_output(tensor)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 3), (2, 3), (4, 3))
    config.add_optimization_profile(profile)
    with trt.strict():
        return builder.build_engine_with_config(network, config)


def test_infer_shapes_writes_outputs_that_sizes_are_taken_from(sized):
    context, m = sized.create_execution_context(), np.zeros(2, np.int64)
    assert [sized.is_shape_inference_io(name) for name in ("x", "m", "y")] == [False, True, False]
    context.set_tensor_address("m", m)
    for rows in (4, 3):
        context.set_input_shape("x", (rows, 3))
        assert (context.infer_shapes(), m.tolist()) == ([], [2 * rows, 3])
        assert context.get_tensor_shape("y") == (2 * rows, 3)


def test_a_run_writes_the_same_values_as_infer_shapes(sized):
    x = np.ones((2, 3), np.float32)
    outputs = sized.run(x=x)
    assert (outputs["m"].tolist(), outputs["y"].shape) == ([4, 3], (4, 3))


def test_infer_shapes_without_addresses_writes_nothing(sized):
    context = sized.create_execution_context()
    context.set_input_shape("x", (4, 3))
    assert context.infer_shapes() == []
    assert context.get_tensor_address("m") == 0


# ---- output allocators -----------------------------------------------------------------------------------


class Buffers(trt.IOutputAllocator):
    """Allocates with NumPy and records every call in order."""

    def __init__(self):
        trt.IOutputAllocator.__init__(self)
        self.calls, self.memory = [], {}

    def reallocate_output(self, tensor_name, memory, size, alignment):
        self.calls.append((tensor_name, memory, size))
        if len(self.memory.get(tensor_name, ())) < size:
            self.memory[tensor_name] = np.zeros(size, np.uint8)
        return self.memory[tensor_name].ctypes.data

    def notify_shape(self, tensor_name, shape):
        self.calls.append((tensor_name, tuple(shape)))


def test_an_output_allocator_is_handed_the_memory_of_the_last_run(context):
    arrays, buffers = ready(context), Buffers()
    preset = arrays["y"].ctypes.data
    context.set_output_allocator("y", buffers)
    assert context.execute_async_v3(0)
    assert context.execute_async_v3(0)
    mine, shape = buffers.memory["y"].ctypes.data, ("y", (1, 2, 2, 2))
    assert buffers.calls == [("y", preset, 32), shape, ("y", mine, 32), shape]
    assert np.array_equal(buffers.memory["y"].view(np.float32), (2 * X + 1).reshape(-1))


def test_an_output_without_an_address_starts_at_0_and_empty_ones_ask_for_a_byte(log):
    builder = trt.Builder(log)
    network = builder.create_network()
    layer = network.add_identity(network.add_input("x", trt.float32, (0, 3)))
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context, buffers = engine.create_execution_context(), Buffers()
    context.set_output_allocator("y", buffers)
    assert context.execute_async_v3(0)
    assert buffers.calls == [("y", 0, 1), ("y", (0, 3))]


def test_the_async_form_of_an_allocator_gets_the_stream(context):
    class Async(Buffers):
        def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
            self.calls.append(stream)
            return self.reallocate_output(tensor_name, memory, size, alignment)

    buffers = Async()
    ready(context)
    context.set_output_allocator("y", buffers)
    assert context.execute_async_v3(7)
    assert context.execute_async_v3(8)
    assert [call for call in buffers.calls if isinstance(call, int)] == [7, 8]


def test_allocators_serve_outputs_only(context, log):
    assert not context.set_output_allocator("x", Buffers())
    assert not context.set_output_allocator("q", Buffers())
    assert all("AR706" in line for line in log.lines)
    with pytest.raises(TypeError, match="IOutputAllocator"):
        context.set_output_allocator("y", 5)


# ---- profilers -------------------------------------------------------------------------------------------


class Times(trt.IProfiler):
    def __init__(self):
        trt.IProfiler.__init__(self)
        self.heard = []

    def report_layer_time(self, layer_name, ms):
        self.heard.append((layer_name, ms))


def test_the_profiler_gets_every_kernel_by_name_until_it_is_removed(context, engine):
    ready(context)
    context.profiler = times = Times()
    assert context.execute_async_v3(0)
    assert [name for name, _ in times.heard] == [*state_of(engine).loaded.program.kernels]
    assert all(0 <= ms < 1e5 for _, ms in times.heard)
    context.profiler = None
    assert context.execute_async_v3(0)
    assert len(times.heard) == len(state_of(engine).loaded.program.kernels)
    with pytest.raises(TypeError):
        context.profiler = print


def test_the_plain_profiler_prints_every_kernel(context, engine, capsys):
    ready(context)
    context.profiler = trt.Profiler()
    assert context.execute_v2([context.get_tensor_address(name) for name in engine])
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[0] for line in lines] == [*state_of(engine).loaded.program.kernels]
    assert all(line.endswith("ms") for line in lines)


# ---- debug tensors ---------------------------------------------------------------------------------------


class Listener(trt.IDebugListener):
    def __init__(self, answer=True):
        trt.IDebugListener.__init__(self)
        self.seen, self.places, self.answer = [], [], answer

    def process_debug_tensor(self, addr, location, type, shape, name, stream):
        size = trt.volume(shape) * 4
        self.places.append(addr)
        self.seen.append((name, np.frombuffer(ctypes.string_at(addr, size), np.float32).tolist()))
        return self.answer


def test_debug_tensors_are_seen_with_the_shapes_of_the_run(context):
    context.set_debug_listener(listener := Listener())
    assert context.set_all_tensors_debug_state(True)
    for count in (1, 3, 2):
        x = -np.arange(-4, 4 * count - 4, dtype=np.float32).reshape(1, count, 2, 2)
        arrays = ready(context, x, (count, 4))
        assert context.execute_async_v3(0)
        assert listener.seen.pop() == ("d", np.maximum(x, 0).reshape(-1).tolist())
        assert np.array_equal(arrays["y"], 2 * x + 1)
    one, three, two = listener.places
    assert (listener.seen, one != three, three == two) == ([], True, True)  # memory grows and does not shrink


def test_debug_tensors_are_switched_off_again(context):
    context.set_debug_listener(listener := Listener())
    ready(context)
    for on, seen in ((True, 1), (False, 1), (True, 2)):
        assert context.set_tensor_debug_state("d", on)
        assert context.get_debug_state("d") is on
        assert context.execute_async_v3(0)
        assert len(listener.seen) == seen
    assert context.set_all_tensors_debug_state(False)
    assert context.execute_async_v3(0)
    assert context.set_all_tensors_debug_state(True)
    assert context.set_debug_listener(None)
    assert context.get_debug_listener() is None
    assert context.execute_async_v3(0)
    assert len(listener.seen) == 2


def test_a_listener_that_answers_false_fails_the_run(context, log):
    ready(context)
    context.set_debug_listener(Listener(answer=False))
    context.set_all_tensors_debug_state(True)
    assert not context.execute_async_v3(0)
    assert ("AR709" in log.lines[0], "d" in log.lines[0]) == (True, True)
    with pytest.raises(TypeError, match="IDebugListener"):
        context.set_debug_listener(5)


def test_debug_tensors_are_seen_beside_a_profiler(context):
    ready(context)
    context.set_debug_listener(listener := Listener())
    context.set_all_tensors_debug_state(True)
    context.profiler = times = Times()
    assert context.execute_async_v3(0)
    assert (len(listener.seen), len(times.heard) > 0) == (1, True)


def test_an_output_may_be_a_debug_tensor_too(log):
    builder = trt.Builder(log)
    network = builder.create_network()
    layer = network.add_unary(network.add_input("x", trt.float32, (2,)), trt.UnaryOperation.NEG)
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    assert network.mark_debug(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context, y, listener = engine.create_execution_context(), np.zeros(2, np.float32), Listener()
    context.set_tensor_address("x", np.float32([1, 2]))
    assert context.set_tensor_address("y", y)
    context.set_debug_listener(listener)
    context.set_all_tensors_debug_state(True)
    assert context.execute_async_v3(0)
    assert (listener.seen, y.tolist()) == ([("y", [-1, -2])], [-1, -2])


def test_inputs_are_shown_before_what_is_made_of_them(log):
    builder = trt.Builder(log)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (-1,))
    layer = network.add_unary(x, trt.UnaryOperation.NEG)
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    assert [network.mark_debug(t) for t in (layer.get_output(0), x)] == [True, True]
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (1,), (2,), (4,))
    config.add_optimization_profile(profile)
    context = builder.build_engine_with_config(network, config).create_execution_context()
    context.set_debug_listener(listener := Listener())
    assert context.set_all_tensors_debug_state(True)
    x, y = np.float32([1, 2, 3]), np.zeros(3, np.float32)
    assert context.set_input_shape("x", (3,))
    assert context.execute_v2([x, y])
    assert (listener.seen, listener.places[0]) == ([("x", [1, 2, 3]), ("y", [-1, -2, -3])], x.ctypes.data)


def test_debug_tensors_are_no_inputs_and_outputs(context, engine, log):
    assert engine.get_tensor_mode("d") is trt.TensorIOMode.NONE
    assert engine.get_tensor_shape("d").rank == context.get_tensor_shape("d").rank == -1
    assert context.get_tensor_strides("d").rank == -1
    assert not context.set_tensor_address("d", 64)
    assert not context.set_output_allocator("d", Buffers())
    assert (context.get_tensor_address("d"), context.get_max_output_size("d")) == (0, -1)
    assert {line[1:6] for line in log.lines} == {"AR706"}


def test_tensors_between_kernels_are_shown_if_marked_and_enabled(log):
    builder = trt.Builder(log)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (64, 64, 8))
    total = network.add_reduce(x, trt.ReduceOperation.SUM, 0b100, False)
    total.get_output(0).name = "total"
    resize = network.add_resize(total.get_output(0))
    resize.resize_mode, resize.scales = trt.InterpolationMode.CUBIC, (1.5, 1.5)
    network.mark_output(resize.get_output(0))
    assert network.mark_unfused_tensors_as_debug_tensors()
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context, listener = engine.create_execution_context(), Listener()
    context.set_tensor_address(engine[0], np.ones((64, 64, 8), np.float32))
    context.set_tensor_address(engine[1], np.zeros((96, 96), np.float32))
    context.set_debug_listener(listener)
    assert context.execute_async_v3(0)
    assert listener.seen == []
    context.unfused_tensors_debug_state = True
    assert context.execute_async_v3(0)
    assert listener.seen == [("total", [8.0] * 64 * 64)]


# ---- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "default", "other"),
    [("name", "", "c"), ("debug_sync", False, True), ("persistent_cache_limit", 0, 64)],
)
def test_kept_settings_of_a_context_are_read_back_and_say_so(context, name, default, other):
    assert getattr(context, name) == default
    setattr(context, name, other)
    assert (getattr(context, name), vars(Context)[name].__doc__[:4]) == (other, "Kept")
    with pytest.raises(TypeError):
        setattr(context, name, object())


@pytest.mark.parametrize(("built", "allowed"), [("NONE", 1), ("LAYER_NAMES_ONLY", 2), ("DETAILED", 3)])
def test_trace_marks_report_no_more_than_the_build(log, built, allowed):
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    layer = network.add_identity(network.add_input("x", trt.float32, (2,)))
    network.mark_output(layer.get_output(0))
    config.profiling_verbosity = trt.ProfilingVerbosity[built]
    context = builder.build_engine_with_config(network, config).create_execution_context()
    assert context.nvtx_verbosity is trt.ProfilingVerbosity[built]
    kept = []
    for name in ("NONE", "LAYER_NAMES_ONLY", "DETAILED"):
        context.nvtx_verbosity = trt.ProfilingVerbosity[name]
        kept.append(context.nvtx_verbosity is trt.ProfilingVerbosity[name])
    assert (sum(kept), sum("AR304" in line for line in log.lines)) == (allowed, 3 - allowed)
    with pytest.raises(TypeError):
        context.nvtx_verbosity = 1


def test_events_and_streams_are_ints(context, log):
    assert context.get_input_consumed_event() == 0
    assert context.set_input_consumed_event(cuda_runtime.cudaEvent_t(9))
    assert context.get_input_consumed_event() == 9
    assert context.set_aux_streams([1, 2]) is None
    assert log.lines == []
    for bad in ([1, 1], [0]):
        context.set_aux_streams(bad)
    assert ["AR304" in line for line in log.lines] == [True, True]
    assert "threads" in Context.set_aux_streams.__doc__


def test_a_profile_with_one_shape_pins_it(log):
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    layer = network.add_identity(network.add_input("x", trt.float32, (-1,)))
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    for sizes in (((1,), (2,), (3,)), ((5,), (5,), (5,))):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *sizes)
        config.add_optimization_profile(profile)
    context = builder.build_engine_with_config(network, config).create_execution_context()
    assert (context.active_optimization_profile, context.infer_shapes()) == (0, ["x"])
    assert context.set_optimization_profile_async(1, 0)
    assert (context.active_optimization_profile, context.infer_shapes()) == (1, [])
    assert (context.get_tensor_shape("y"), context.all_binding_shapes_specified) == ((5,), True)


def test_a_fault_in_a_run_is_reported_under_the_name_that_was_called(context, log, monkeypatch):
    monkeypatch.setattr(type(context._context), "run", lambda self: 1 // 0)
    assert context.execute_async_v3(0) is False
    assert "[AR807] execute_async_v3 (test_context_names.py:" in log.lines[-1]
