"""Runtimes, engines and contexts: from a plan to outputs."""

import ctypes
import gc
import json

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.building import builder as builder_module
from anyrt.api.building.compile import stored_layers
from anyrt.api.model.state import state_of
from anyrt.api.run import runtime as runtime_module
from anyrt.api.run.runtime import Runtime
from tests.messages import diagnostic

X = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)


class Times(trt.IProfiler):
    def __init__(self):
        trt.IProfiler.__init__(self)
        self.names = []

    def report_layer_time(self, name, ms):
        assert ms >= 0
        self.names.append(name)


class Buffers(trt.IOutputAllocator):
    def __init__(self):
        trt.IOutputAllocator.__init__(self)
        self.calls, self.shapes, self.memory = [], {}, {}

    def reallocate_output(self, name, memory, size, alignment):
        self.calls.append((name, memory, size))
        self.memory[name] = np.zeros(size, np.uint8)
        return self.memory[name].ctypes.data

    def notify_shape(self, name, shape):
        self.shapes[name] = tuple(shape)


def ready(context, x=X, n=(4, 2)):
    """The context with every input and output bound; the arrays by name."""
    arrays = {
        "x": x,
        "n": np.int32(n),
        "y": np.empty_like(x),
        "r": np.empty(n, np.float32),
        "s": np.empty(4, np.int64),
    }
    assert context.set_input_shape("x", x.shape)
    for name, array in arrays.items():
        assert context.set_tensor_address(name, array.ctypes.data)
    return arrays


def test_a_context_runs_with_addresses(context):
    arrays = ready(context)
    assert context.execute_async_v3(0)
    assert np.array_equal(arrays["y"], 2 * X + 1)
    assert np.array_equal(arrays["r"], (2 * X + 1).reshape(4, 2))
    assert arrays["s"].tolist() == [1, 2, 2, 2]


def test_an_engine_runs_arrays(engine):
    outputs = engine.run(x=X, n=np.int32([8, 1]))
    assert sorted(outputs) == ["r", "s", "y"]
    assert np.array_equal(outputs["r"], (2 * X + 1).reshape(8, 1))
    with pytest.raises(trt.errors.BindingError):
        engine.run(x=X)


def test_no_object_of_the_api_can_be_called():
    classes = [getattr(trt, n) for n in dir(trt) if isinstance(getattr(trt, n), type)]
    assert [c.__name__ for c in classes if any("__call__" in vars(base) for base in c.__mro__)] == []


def test_an_input_may_be_called_self(log, net):
    net.mark_output(net.add_identity(net.add_input("self", trt.float32, (2,))).get_output(0))
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    assert [y.tolist() for y in engine.run(self=np.float32([3, 4])).values()] == [[3, 4]]


def test_one_context_serves_many_shapes(context):
    for count in (1, 3, 4, 2):
        x = np.ones((1, count, 2, 2), np.float32)
        arrays = ready(context, x, (count, 4))
        assert context.execute_async_v3(0)
        assert arrays["y"].tolist() == (2 * x + 1).tolist()


def test_arrays_are_accepted_as_addresses_and_kept(context):
    x, n = X.copy(), np.int32([2, 4])
    y, r, s = np.empty_like(x), np.empty((2, 4), np.float32), np.empty(4, np.int64)
    for name, array in {"x": x, "n": n, "y": y, "r": r, "s": s}.items():
        assert context.set_tensor_address(name, array)
    assert context.get_tensor_address("x") == x.ctypes.data
    assert context.execute_async_v3(0)
    assert np.array_equal(y, 2 * X + 1)


def test_execute_v2_takes_addresses_in_order(context, engine):
    arrays = ready(context)
    arrays["y"][:] = 0
    assert context.execute_v2([arrays[name].ctypes.data for name in context.engine])
    assert np.array_equal(arrays["y"], 2 * X + 1)
    assert not context.execute_v2([0])


def test_shapes_must_lie_in_the_profile(context, log):
    assert not context.set_input_shape("x", (1, 5, 2, 2))
    assert not context.set_input_shape("x", (1, 1, 3, 2))
    assert not context.set_input_shape("y", (1, 1, 2, 2))
    assert not context.set_input_shape("nothing", (1,))
    assert [line[1:6] for line in log.lines] == ["AR505", "AR123", "AR706", "AR706"]
    with pytest.raises(RuntimeError, match=diagnostic("AR115", "set_input_shape", 9, 8)):
        context.set_input_shape("x", (1,) * 9)
    with pytest.raises(TypeError):
        context.set_input_shape("x", 4)


def test_tensor_shapes_are_minus_1_until_known(context):
    assert context.get_tensor_shape("x") == (1, -1, 2, 2)
    assert context.get_tensor_shape("r") == (-1, -1)
    assert not context.all_binding_shapes_specified
    assert not context.all_shape_inputs_specified
    ready(context)
    assert (context.get_tensor_shape("y"), context.get_tensor_shape("r")) == ((1, 2, 2, 2), (4, 2))
    assert (context.all_binding_shapes_specified, context.all_shape_inputs_specified) == (True, True)
    assert context.get_tensor_strides("y") == (8, 4, 2, 1)


def test_unknown_names_have_sentinels(context, engine, log):
    assert (context.get_tensor_shape("q").rank, engine.get_tensor_shape("q").rank) == (-1, -1)
    assert (context.get_tensor_strides("q").rank, context.get_tensor_address("q")) == (-1, 0)
    assert engine.get_tensor_mode("q") is trt.TensorIOMode.NONE
    assert not context.set_tensor_address("q", 64)
    assert (engine.get_tensor_name(9), context.get_output_allocator("q")) == (None, None)
    assert all("AR706" in line for line in log.lines)


def test_infer_shapes_names_what_is_missing(context):
    assert context.infer_shapes() == ["x", "n"]
    context.set_input_shape("x", (1, 2, 2, 2))
    assert context.infer_shapes() == ["n"]


def test_infer_shapes_writes_shape_outputs(context):
    arrays = ready(context)
    arrays["s"][:] = 0
    assert context.infer_shapes() == []
    assert arrays["s"].tolist() == [1, 2, 2, 2]


def test_infer_shapes_raises_on_values_that_do_not_fit(context, log):
    arrays = ready(context, n=(3, 2))
    with pytest.raises(RuntimeError, match="AR103"):
        context.infer_shapes()
    assert not context.execute_async_v3(0)
    arrays["n"][:] = (2, 4)
    assert context.infer_shapes() == []


def test_missing_addresses_are_errors_that_name_the_tensor(context, log):
    ready(context)
    context.set_tensor_address("y", 0)
    assert not context.execute_async_v3(0)
    assert "AR70" in log.lines[0]
    assert "y" in log.lines[0]


def test_strict_raises_while_running(context):
    with trt.strict(), pytest.raises(trt.errors.BindingError):
        context.execute_async_v3(0)


def test_error_recorder_of_a_context(context):
    class Recorder(trt.IErrorRecorder):
        def report_error(self, code, text):
            self.entry = (code, text)
            return False

    context.error_recorder = Recorder()
    context.execute_async_v3(0)
    assert context.error_recorder.entry[0] is trt.ErrorCodeTRT.INVALID_ARGUMENT
    with pytest.raises(TypeError):
        context.error_recorder = 3


def test_profiles_are_switched_and_forget_shapes(context, engine):
    ready(context)
    assert context.set_optimization_profile_async(1, 0)
    assert (context.active_optimization_profile, context.infer_shapes()) == (1, ["x"])
    assert context.set_input_shape("x", (1, 8, 2, 2))
    with pytest.raises(RuntimeError, match="AR507"):
        context.set_optimization_profile_async(2, 0)


def test_output_allocators_give_memory(context):
    arrays, buffers = ready(context), Buffers()
    assert context.set_output_allocator("y", buffers)
    assert context.get_output_allocator("y") is buffers
    assert context.execute_async_v3(0)
    assert buffers.calls == [("y", arrays["y"].ctypes.data, 32)]
    assert buffers.shapes == {"y": (1, 2, 2, 2)}
    assert np.array_equal(buffers.memory["y"].view(np.float32), (2 * X + 1).reshape(-1))
    assert context.set_output_allocator("y", None)
    assert context.get_output_allocator("y") is None


def test_memory_of_an_allocator_outlasts_lists_of_addresses(context):
    class Growing(Buffers):
        def reallocate_output(self, name, memory, size, alignment):
            fits = name in self.memory and self.memory[name].size >= size
            return memory if fits else super().reallocate_output(name, memory, size, alignment)

    arrays, buffers = ready(context, X.copy()), Growing()
    context.set_tensor_address("y", 0)
    context.set_output_allocator("y", buffers)
    for factor in (1, 2):
        arrays["x"][...] = factor * X
        assert context.execute_v2([array.ctypes.data for array in arrays.values()])
    assert len(buffers.calls) == 1
    assert np.array_equal(buffers.memory["y"].view(np.float32), (4 * X + 1).reshape(-1))


def test_the_async_form_of_an_allocator_is_preferred(context):
    class Async(Buffers):
        def reallocate_output_async(self, name, memory, size, alignment, stream):
            self.stream = stream
            return self.reallocate_output(name, memory, size, alignment)

    buffers = Async()
    ready(context)
    context.set_output_allocator("y", buffers)
    assert context.execute_async_v3(0)
    assert (buffers.stream, len(buffers.calls)) == (0, 1)


def test_an_allocator_without_memory_fails_the_run(context, log):
    buffers = Buffers()
    buffers.reallocate_output = lambda *args: 0
    ready(context)
    context.set_output_allocator("y", buffers)
    assert not context.execute_async_v3(0)
    assert "AR709" in log.lines[0]


def test_max_output_size_is_an_upper_bound(context):
    assert context.get_max_output_size("y") == 8 * 4 * 4
    ready(context)
    assert (context.get_max_output_size("y"), context.get_max_output_size("q")) == (32, -1)


def test_user_managed_memory(engine):
    context = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
    arrays = ready(context)
    needed = context.update_device_memory_size_for_shapes()
    assert needed <= engine.device_memory_size_v2
    memory = np.zeros(engine.device_memory_size_v2 + 64, np.uint8)
    start = memory.ctypes.data + -memory.ctypes.data % 64
    context.set_device_memory(start, engine.device_memory_size_v2)
    assert context.execute_async_v3(0)
    context.device_memory = start
    assert context.execute_async_v3(0)
    assert np.array_equal(arrays["y"], 2 * X + 1)


def test_contexts_know_how_they_were_made(engine):
    config = engine.create_runtime_config()
    strategy = trt.ExecutionContextAllocationStrategy.ON_PROFILE_CHANGE
    config.set_execution_context_allocation_strategy(strategy)
    for context in (
        engine.create_execution_context(config),
        engine.create_execution_context(runtime_config=config),
    ):
        assert context.get_runtime_config() is config
    assert engine.create_execution_context(strategy).get_runtime_config() is None
    assert engine.create_execution_context_without_device_memory().get_runtime_config() is None
    with pytest.raises(TypeError):
        engine.create_execution_context(1)


def test_the_profiler_gets_every_kernel(context):
    ready(context)
    context.profiler = Times()
    assert context.execute_async_v3(0)
    assert len(context.profiler.names) >= 1


def test_times_can_be_reported_to_the_profiler_later(context, log):
    arrays = ready(context)
    context.profiler, context.enqueue_emits_profile = Times(), False
    assert context.execute_async_v3(0)
    assert np.array_equal(arrays["y"], 2 * X + 1)
    assert context.profiler.names == []
    assert context.report_to_profiler()
    assert len(context.profiler.names) >= 1
    assert not context.report_to_profiler()


def test_debug_tensors_are_shown_to_the_listener(context, engine):
    class Listener(trt.IDebugListener):
        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            self.seen = (location, type, tuple(shape), name, stream)
            self.values = np.frombuffer(ctypes.string_at(addr, 32), np.float32)
            return True

    listener = Listener()
    ready(context, -X)
    assert (engine.is_debug_tensor("d"), engine.is_debug_tensor("y"), "d" in [*engine]) == (
        True,
        False,
        False,
    )
    assert context.set_debug_listener(listener)
    assert context.get_debug_listener() is listener
    assert context.execute_async_v3(0)
    assert not hasattr(listener, "seen")
    assert context.set_tensor_debug_state("d", True)
    assert context.get_debug_state("d")
    assert context.execute_async_v3(5)
    assert listener.seen == (trt.TensorLocation.DEVICE, trt.float32, (1, 2, 2, 2), "d", 5)
    assert listener.values.tolist() == [0] * 8


def test_debug_states_of_unknown_tensors_are_rejected(context, log):
    assert not context.set_tensor_debug_state("y", True)
    assert context.set_all_tensors_debug_state(True)
    assert (context.get_debug_state("y"), context.get_debug_state("d")) == (False, True)


def test_settings_of_a_context(context, engine, log):
    context.name, context.debug_sync, context.persistent_cache_limit = "c", True, 64
    context.nvtx_verbosity = trt.ProfilingVerbosity.NONE
    allocator = trt.IGpuAllocator()
    context.temporary_allocator = allocator
    assert (context.name, context.debug_sync, context.persistent_cache_limit) == ("c", True, 64)
    assert (context.nvtx_verbosity, context.temporary_allocator) == (trt.ProfilingVerbosity.NONE, allocator)
    assert context.engine is engine
    assert (context.set_input_consumed_event(7), context.get_input_consumed_event()) == (True, 7)
    context.set_aux_streams([1, 2])
    assert log.lines == []
    context.set_aux_streams([0])
    assert "AR304" in log.lines[0]


def test_engine_lists_its_tensors(engine):
    assert (engine.name, engine.num_io_tensors, [*engine]) == ("little", 5, ["x", "n", "y", "r", "s"])
    assert (engine[0], engine[-1], engine.get_tensor_name(1)) == ("x", "s", "n")
    with pytest.raises(IndexError):
        engine[5]
    assert engine.get_tensor_mode("x") is trt.TensorIOMode.INPUT
    assert engine.get_tensor_mode("y") is trt.TensorIOMode.OUTPUT
    assert (engine.get_tensor_dtype("n"), engine.get_tensor_shape("x")) == (trt.int32, (1, -1, 2, 2))


def test_engine_knows_shape_tensors(engine):
    assert [engine.is_shape_inference_io(n) for n in engine] == [False, True, False, False, True]
    assert engine.get_tensor_location("n") is trt.TensorLocation.HOST
    assert engine.get_tensor_location("x") is trt.TensorLocation.DEVICE


def test_engine_knows_its_profiles(engine):
    assert engine.num_optimization_profiles == 2
    assert engine.get_tensor_profile_shape("x", 1) == [(1, 1, 2, 2), (1, 2, 2, 2), (1, 8, 2, 2)]
    assert engine.get_tensor_profile_values(0, "n") == [[1, 1], [4, 2], [32, 32]]
    assert engine.get_tensor_profile_shape("y", 1) == engine.get_tensor_profile_shape("x", 1)
    with pytest.raises(RuntimeError, match=r"AR706.*get_tensor_profile_values"):
        engine.get_tensor_profile_values(0, "x")


def test_engine_layout_is_linear(engine):
    assert engine.get_tensor_format("x") is trt.TensorFormat.LINEAR
    assert engine.get_tensor_format_desc("x", 1) == "Row major linear FP32 format (kLINEAR)"
    assert engine.get_tensor_bytes_per_component("x") == -1
    assert engine.get_tensor_components_per_element("x", 0) == -1
    assert engine.get_tensor_vectorized_dim("x") == -1


def test_engine_figures(engine):
    assert engine.get_device_memory_size_for_profile_v2(0) <= engine.device_memory_size_v2
    assert engine.get_device_memory_size_for_profile(1) == engine.get_device_memory_size_for_profile_v2(1)
    assert (engine.device_memory_size, engine.num_layers) == (engine.device_memory_size_v2, 4)
    assert (engine.get_engine_stat(), engine.streamable_weights_size) == (state_of(engine).plan.blob_bytes, 0)
    assert engine.get_engine_stat(trt.EngineStat.STRIPPED_WEIGHTS_SIZE) == 0
    assert (engine.num_aux_streams, engine.tactic_sources, engine.refittable) == (0, 0, False)
    assert (engine.has_implicit_batch_dimension, engine.get_aliased_input_tensor("y")) == (False, None)
    assert engine.profiling_verbosity is trt.ProfilingVerbosity.DETAILED
    assert engine.engine_capability is trt.EngineCapability.STANDARD
    assert engine.hardware_compatibility_level is trt.HardwareCompatibilityLevel.NONE
    assert engine.minimum_weight_streaming_budget + engine.weight_streaming_scratch_memory_size == 0
    assert engine.get_weight_streaming_automatic_budget() == 0


def test_serialize_gives_the_plan_back(engine, plan):
    assert bytes(engine.serialize()) == bytes(plan)
    config = engine.create_serialization_config()
    assert config.set_flag(trt.SerializationFlag.INCLUDE_REFIT)
    assert (config.flags, config.get_flag(trt.SerializationFlag.INCLUDE_REFIT)) == (4, True)
    assert bytes(engine.serialize_with_config(config)) == bytes(plan)
    assert config.clear_flag(trt.SerializationFlag.INCLUDE_REFIT)
    with pytest.raises(RuntimeError):
        config.flags = 64


def test_inspector_reports_in_lines_and_in_json(engine, context):
    inspector = engine.create_engine_inspector()
    ready(context)
    inspector.execution_context = context
    line = inspector.get_layer_information(0, trt.LayerInformationFormat.ONELINE)
    assert line.startswith("Name: twice, LayerType: Scale")
    whole = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    assert whole["Bindings"][:2] == ["x", "n"]
    assert whole["Layers"][0]["Inputs"][0]["Dimensions"] == [1, 2, 2, 2]
    assert "kernels" in whole["Report"]
    assert inspector.execution_context is context
    assert inspector.get_layer_information(99, trt.LayerInformationFormat.JSON) == ""


def test_children_keep_parents_alive(plan, log):
    context = trt.Runtime(log).deserialize_cuda_engine(plan).create_execution_context()
    gc.collect()
    ready(context)
    assert context.execute_async_v3(0)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_plans_come_as_any_buffer(plan, log, form):
    assert trt.Runtime(log).deserialize_cuda_engine(form(plan)).name == "little"


def test_plans_come_from_stream_readers(plan, log):
    class One(trt.IStreamReader):
        def __init__(self):
            trt.IStreamReader.__init__(self)
            self.rest = bytes(plan)

        def read(self, size):
            piece, self.rest = self.rest[:100], self.rest[100:]
            return piece

    class Two(trt.IStreamReaderV2):
        def __init__(self):
            trt.IStreamReaderV2.__init__(self)
            self.rest = bytes(plan)

        def read(self, num_bytes, stream):
            piece, self.rest = self.rest[:num_bytes], self.rest[num_bytes:]
            return piece

    runtime = trt.Runtime(log)
    assert runtime.deserialize_cuda_engine(One()).name == "little"
    assert runtime.deserialize_cuda_engine(Two()).name == "little"


def test_bad_plans_give_none(plan, log):
    runtime = trt.Runtime(log)
    assert runtime.deserialize_cuda_engine(b"nonsense") is None
    assert runtime.deserialize_cuda_engine(bytes(plan)[:200]) is None
    assert ["AR606" in log.lines[0], "AR601" in log.lines[1]] == [True, True]
    with pytest.raises(TypeError):
        runtime.deserialize_cuda_engine(None)


def test_runtime_settings(log):
    runtime = trt.Runtime(log)
    runtime.max_threads, runtime.DLA_core, runtime.temporary_directory = 2, 0, "/tmp"
    runtime.engine_host_code_allowed, runtime.tempfile_control_flags = True, 1
    assert (runtime.max_threads, runtime.DLA_core, runtime.temporary_directory) == (2, 0, "/tmp")
    assert (runtime.engine_host_code_allowed, runtime.tempfile_control_flags) == (True, 1)
    assert (runtime.num_DLA_cores, runtime.logger) == (0, log)
    assert runtime.get_plugin_registry() is trt.get_plugin_registry()
    with pytest.raises(TypeError):
        trt.Runtime(None)


def test_a_gpu_allocator_gives_the_workspace_and_takes_it_back(plan, log):
    class Counting(trt.IGpuAllocator):
        def __init__(self):
            trt.IGpuAllocator.__init__(self)
            self.blocks, self.freed = {}, 0

        def allocate(self, size, alignment, flags):
            block = np.zeros(size + alignment, np.uint8)
            address = block.ctypes.data + -block.ctypes.data % alignment
            self.blocks[address] = block
            return address

        def deallocate(self, memory):
            del self.blocks[memory]
            self.freed += 1
            return True

    runtime: Runtime = trt.Runtime(log)
    runtime.gpu_allocator = allocator = Counting()
    context = runtime.deserialize_cuda_engine(plan).create_execution_context()
    arrays = ready(context)
    assert context.execute_async_v3(0)
    assert np.array_equal(arrays["y"], 2 * X + 1)
    taken = len(allocator.blocks)
    del context
    gc.collect()
    assert (allocator.freed, len(allocator.blocks)) == (taken, 0)


def test_build_engine_with_config_runs(log):
    builder = trt.Builder(log)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (1, 1, 2, 2))
    layer = network.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.float32([3]))
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    assert engine.run(x=np.ones((1, 1, 2, 2), np.float32))["y"].tolist() == [[[[3, 3], [3, 3]]]]


def test_unfused_tensors_can_be_shown(log, plan, monkeypatch):
    class Listener(trt.IDebugListener):
        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            seen[name] = np.frombuffer(ctypes.string_at(addr, 8), np.float32).tolist()
            return True

    seen = {}
    assert stored_layers(bytes(plan)) <= {"twice", "(Unnamed Layer* 1) [Shuffle]"}
    monkeypatch.setattr(builder_module, "stored_layers", lambda plan: frozenset({"doubled"}))
    builder = trt.Builder(log)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (2,))
    doubled = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM)
    doubled.name, doubled.get_output(0).name = "doubled", "between"
    last = network.add_unary(doubled.get_output(0), trt.UnaryOperation.NEG)
    network.mark_output(last.get_output(0))
    assert network.mark_unfused_tensors_as_debug_tensors()
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context, y = engine.create_execution_context(), np.empty(2, np.float32)
    for name, array in zip(engine, [np.float32([1, 2]), y], strict=True):
        context.set_tensor_address(name, array)
    context.set_debug_listener(Listener())
    assert context.execute_async_v3(0)
    assert seen == {}
    context.unfused_tensors_debug_state = True
    assert context.execute_async_v3(0)
    assert (seen, y.tolist()) == ({"between": [2, 4]}, [-2, -4])
    assert network.unmark_unfused_tensors_as_debug_tensors()


def test_load_runtime_gives_a_runtime_and_runs_no_file(tmp_path, plan, log):
    (tmp_path / "lean.so").write_bytes(b"")
    runtime = trt.Runtime(log).load_runtime(str(tmp_path / "lean.so"))
    assert runtime.deserialize_cuda_engine(plan).name == "little"
    assert runtime.load_runtime(str(tmp_path / "none.so")) is None


def test_a_communicator_is_kept_where_nothing_is_exchanged(context):
    assert context.set_communicator(object())


def test_a_communicator_of_another_kind_is_rejected(log):
    builder = trt.Builder(log)
    network = builder.create_network()
    x, total = network.add_input("x", trt.float32, (2,)), trt.ReduceOperation.SUM
    layer = network.add_dist_collective(x, trt.CollectiveOperation.ALL_REDUCE, total, -1, None)
    layer.num_ranks = 2
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context = engine.create_execution_context()
    assert not context.set_communicator(object())
    assert context.set_communicator(None)
    assert [line[:7] for line in log.lines] == ["[AR713]"]


def test_a_plan_that_asks_for_thousands_of_threads_gets_sixty_four(monkeypatch):
    asked = []
    builder = trt.Builder(trt.Logger())
    network = builder.create_network()
    network.mark_output(network.add_identity(network.add_input("x", trt.float32, (2,))).get_output(0))
    config = builder.create_builder_config()
    config.num_threads = 4000
    plan = builder.build_serialized_network(network, config)
    real = runtime_module.shared_pool
    monkeypatch.setattr(runtime_module, "shared_pool", lambda n, *rest: asked.append(n) or real(1, *rest))
    assert trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan) is not None
    assert asked == [64]
