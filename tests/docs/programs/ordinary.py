"""Most of the API in the forms of ordinary programs; type checkers read this file, no test runs it."""

import io
import json
import mmap
from pathlib import Path

import numpy as np

import anyrt as trt


class Out(trt.IOutputAllocator):
    def __init__(self) -> None:
        trt.IOutputAllocator.__init__(self)
        self.shapes: dict[str, trt.Dims] = {}

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        return 0

    def notify_shape(self, tensor_name: str, shape: trt.Dims) -> None:
        self.shapes[tensor_name] = shape


class Listener(trt.IDebugListener):
    def __init__(self):
        super().__init__()

    def process_debug_tensor(self, addr, location, type, shape, name, stream) -> bool:
        return True


class Log(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)

    def log(self, severity, msg):
        print(severity, msg)


class Reader(trt.IStreamReader):
    def __init__(self, path: str) -> None:
        trt.IStreamReader.__init__(self)
        self.file = io.BytesIO(Path(path).read_bytes())

    def read(self, size: int) -> bytes:
        return self.file.read(size)


class Allocator(trt.IGpuAllocator):
    def __init__(self) -> None:
        trt.IGpuAllocator.__init__(self)

    def allocate(self, size: int, alignment: int, flags: int) -> int:
        return 0

    def deallocate(self, memory: int) -> bool:
        return True


class Recorder(trt.IErrorRecorder):
    def __init__(self) -> None:
        trt.IErrorRecorder.__init__(self)
        self.errors: list[tuple[trt.ErrorCodeTRT, str]] = []

    def num_errors(self) -> int:
        return len(self.errors)

    def get_error_code(self, arg0: int) -> trt.ErrorCodeTRT:
        return self.errors[arg0][0]

    def get_error_desc(self, arg0: int) -> str:
        return self.errors[arg0][1]

    def has_overflowed(self) -> bool:
        return False

    def clear(self) -> None:
        self.errors.clear()

    def report_error(self, arg0: trt.ErrorCodeTRT, arg1: str) -> bool:
        self.errors.append((arg0, arg1))
        return False


def build(logger: trt.ILogger) -> trt.IHostMemory:
    EXPLICIT = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    trt.init_libnvinfer_plugins(logger, "")
    trt.init_libnvinfer_plugins(None, namespace="")
    with trt.Builder(logger) as builder, builder.create_network(EXPLICIT) as network:
        builder.max_threads = 2
        x = network.add_input(name="x", dtype=trt.float32, shape=(1, 3, -1, -1))
        network.add_input("x2", trt.DataType.HALF, trt.Dims([1, 3, 4, 4]))
        network.add_input("x3", trt.int32, [1, 2])
        x.set_dimension_name(2, "h")
        x.dynamic_range = (-1, 1)
        x.shape = [1, 3, -1, -1]
        x.location = trt.TensorLocation.DEVICE
        x.allowed_formats = 1 << int(trt.TensorFormat.LINEAR)
        w = trt.Weights(np.ones(3, np.float32))
        scale = network.add_scale(x, trt.ScaleMode.CHANNEL, w, trt.Weights(), np.ones(3, np.float32))
        network.add_scale_nd(x, mode=trt.ScaleMode.UNIFORM, channel_axis=1)
        shuffle = network.add_shuffle(scale.get_output(0))
        shuffle.first_transpose = trt.Permutation([0, 2, 3, 1])
        shuffle.reshape_dims = (0, -1)
        shuffle.second_transpose = (1, 0)
        sl = network.add_slice(input=x, start=(0, 0, 0, 0), shape=trt.Dims4(1, 3, 1, 1), stride=(1, 1, 1, 1))
        sl.mode = trt.SampleMode.STRICT_BOUNDS
        c = network.add_constant((2,), np.zeros(2, np.int32)).get_output(0)
        shuffle.set_input(1, c)
        cat = network.add_concatenation([x, sl.get_output(0)])
        cat.axis = 1
        norm = network.add_normalization(x, x, x, 1 << 2 | 1 << 3)
        norm.epsilon = 1e-5
        act = network.add_activation(norm.get_output(0), type=trt.ActivationType.CLIP)
        act.alpha, act.beta = 0.0, 6.0
        act.precision = trt.float16
        act.set_output_type(0, trt.float16)
        resize = network.add_resize(x)
        resize.scales = [1, 1, 2.0, 2]
        network.add_cast(x, trt.float16)
        sel = network.add_select(network.add_cast(x, trt.bool).get_output(0), x, x)
        network.add_elementwise(x, sel.get_output(0), op=trt.ElementWiseOperation.SUM)
        out = act.get_output(0)
        out.name = "y"
        out.dtype = trt.float32
        network.mark_output(tensor=out)
        for layer in network:
            if layer.type == trt.LayerType.SCALE and layer.get_input(0) is not None:
                layer.metadata = layer.name + str(tuple(layer.get_input(0).shape))
        if network.num_outputs == 0:
            network.mark_output(network.get_layer(network.num_layers - 1).get_output(0))
        print([network.get_output(i).name for i in range(network.num_outputs)])

        config = builder.create_builder_config()
        config.max_aux_streams = 0
        config.num_threads = 2
        config.num_threads = None
        config.verify = "sample"
        config.set_flag(trt.BuilderFlag.FP16)
        if config.get_flag(trt.BuilderFlag.FP16):
            config.clear_flag(trt.BuilderFlag.FP16)
        config.flags = 1 << int(trt.BuilderFlag.INT8)
        config.builder_optimization_level = 4
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
        config.set_tactic_sources(1 << int(trt.TacticSource.CUBLAS) | 1 << int(trt.TacticSource.CUDNN))
        cache = config.create_timing_cache(Path("t.cache").read_bytes() if Path("t.cache").exists() else b"")
        config.set_timing_cache(cache, ignore_mismatch=False)
        Path("t.cache").write_bytes(config.get_timing_cache().serialize())
        profile = builder.create_optimization_profile()
        profile.set_shape("x", min=(1, 3, 1, 1), opt=[1, 3, 4, 4], max=trt.Dims([1, 3, 8, 8]))
        print(config.add_optimization_profile(profile) + 1)
        plan = builder.build_serialized_network(network, config)
        with open("net.plan", "wb") as f:
            f.write(plan)
        print(len(plan), plan.nbytes, bytes(plan)[:4], memoryview(plan).shape, np.frombuffer(plan, np.uint8))
    return plan


def run(plan: trt.IHostMemory, logger: trt.ILogger) -> None:
    runtime = trt.Runtime(logger)
    for value in (
        plan,
        bytes(plan),
        bytearray(plan),
        memoryview(plan),
        np.frombuffer(plan, np.uint8),
        Path("net.plan"),
    ):
        runtime.deserialize_cuda_engine(value)
    with open("net.plan", "rb") as g, mmap.mmap(g.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        engine = runtime.deserialize_cuda_engine(mapped)
    assert engine is not None
    runtime.check_weights = False
    for name in engine:
        mode = engine.get_tensor_mode(name)
        if mode == trt.TensorIOMode.INPUT:
            low, best, high = engine.get_tensor_profile_shape(name, 0)
            print(low[0], best[1:], len(high), list(high), (*low, 1), -1 in high, low == (1, 2))
    print([engine.get_tensor_name(i) for i in range(engine.num_io_tensors)])
    context = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
    context = engine.create_execution_context_without_device_memory()
    memory = np.empty(engine.device_memory_size, np.uint8)
    context.device_memory = memory.ctypes.data
    context.set_device_memory(memory.ctypes.data, memory.nbytes)
    context = engine.create_execution_context()
    context.profiler = trt.Profiler()
    context.name = "c"
    context.error_recorder = None
    context.set_optimization_profile_async(0, 0)
    context.set_input_shape("x", (1, 3, 4, 4))
    print(", ".join(context.infer_shapes()))
    print(trt.volume(context.get_tensor_shape("y")) * trt.float32.itemsize)
    host = np.zeros(context.get_tensor_shape("y"), dtype=trt.nptype(engine.get_tensor_dtype("y")))
    context.set_tensor_address("y", host)
    context.set_tensor_address("x", int(host.ctypes.data))
    context.execute_async_v3(0)
    context.execute_async_v3(stream_handle=0)
    context.execute_v2(bindings=[int(host.ctypes.data), host.ctypes.data])
    context.execute_v2([host, host])
    print(engine.run(x=np.ones((1, 3, 4, 4), np.float32))["y"].mean() - 1)
    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    print(json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON)))


def callbacks() -> None:
    printer = trt.Logger()
    printer.min_severity = trt.Logger.INFO
    builder = trt.Builder(printer)
    runtime = trt.Runtime(Log())
    runtime.error_recorder = Recorder()
    runtime.gpu_allocator = Allocator()
    builder.gpu_allocator = Allocator()
    engine = runtime.deserialize_cuda_engine(Reader("net.plan"))
    context = engine.create_execution_context()
    context.set_output_allocator("y", Out())
    context.set_debug_listener(Listener())
    with trt.strict():
        try:
            runtime.deserialize_cuda_engine(b"")
        except trt.errors.AnyrtError as error:
            print(error.code)
