"""A transformer of two profiles with pycuda, timing cache and registered memory."""

import ctypes
import time

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.INFO)


class DeviceBuffer:
    def __init__(self, shape, dtype=trt.int32):
        self.buf = cuda.mem_alloc(trt.volume(shape) * dtype.itemsize)

    def binding(self):
        return int(self.buf)

    def free(self):
        self.buf.free()


handle = ctypes.CDLL("libnvinfer_plugin.so", mode=ctypes.RTLD_GLOBAL)
if not handle:
    raise RuntimeError("Could not load plugin library. Is `libnvinfer_plugin.so` on your LD_LIBRARY_PATH?")
trt.init_libnvinfer_plugins(TRT_LOGGER, "")
with (
    trt.Builder(TRT_LOGGER) as builder,
    builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)) as network,
    trt.OnnxParser(network, TRT_LOGGER) as parser,
    builder.create_builder_config() as builder_config,
):
    builder_config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 5000 * (1024 * 1024))
    builder_config.avg_timing_iterations = 8
    builder_config.builder_optimization_level = 3
    builder_config.set_flag(trt.BuilderFlag.FP16)
    timing_cache = builder_config.create_timing_cache(b"")
    builder_config.set_timing_cache(timing_cache, ignore_mismatch=False)
    with open("bert.onnx", "rb") as model:
        assert parser.parse(model.read())
    for b in (1, 4):
        profile = builder.create_optimization_profile()
        for n in ("input_ids", "token_type_ids", "attention_mask"):
            profile.set_shape(n, min=(1, 8), opt=(b, 16), max=(b, 32))
        builder_config.add_optimization_profile(profile)
    t0 = time.time()
    engine = builder.build_serialized_network(network, builder_config)
    with open("bert.plan", "wb") as f:
        f.write(engine)
    cache = builder_config.get_timing_cache()
    with cache.serialize() as buffer, open("timing.cache", "wb") as f:
        f.write(buffer)
        f.flush()
with (
    open("bert.plan", "rb") as f,
    trt.Runtime(TRT_LOGGER) as runtime,
    runtime.deserialize_cuda_engine(f.read()) as engine,
    engine.create_execution_context() as context,
):
    stream = cuda.Stream()
    selected_profile = -1
    num_binding_per_profile = engine.num_io_tensors
    for idx in range(engine.num_optimization_profiles):
        profile_shape = engine.get_tensor_profile_shape("input_ids", idx)
        if (
            profile_shape[0][0] <= 4
            and profile_shape[2][0] >= 4
            and profile_shape[0][1] <= 16
            and profile_shape[2][1] >= 16
        ):
            selected_profile = idx
            break
    if selected_profile == -1:
        raise RuntimeError("Could not find any profile")
    context.set_optimization_profile_async(selected_profile, stream.handle)
    input_shape = (4, 16)
    input_nbytes = trt.volume(input_shape) * trt.int64.itemsize
    for n in ("input_ids", "token_type_ids", "attention_mask"):
        context.set_input_shape(n, input_shape)
    assert len(context.infer_shapes()) == 0
    d_inputs = [cuda.mem_alloc(input_nbytes) for _ in range(3)]
    out_shape = tuple(context.get_tensor_shape("last_hidden_state"))
    h_output = cuda.pagelocked_empty(out_shape, dtype=np.float32)
    d_output = cuda.mem_alloc(h_output.nbytes)
    feats = [
        cuda.register_host_memory(np.ascontiguousarray(np.full(input_shape, v, np.int64).ravel()))
        for v in (5, 0, 1)
    ]
    for d, h in zip(d_inputs, feats, strict=False):
        cuda.memcpy_htod_async(d, h, stream)
    for n, d in zip(("input_ids", "token_type_ids", "attention_mask"), d_inputs, strict=False):
        context.set_tensor_address(n, int(d))
    context.set_tensor_address("last_hidden_state", int(d_output))
    start, end = cuda.Event(), cuda.Event()
    start.record(stream)
    for _ in range(3):
        context.execute_async_v3(stream_handle=stream.handle)
    end.record(stream)
    stream.synchronize()
    print(end.time_since(start))
    cuda.memcpy_dtoh_async(h_output, d_output, stream)
    stream.synchronize()
    assert np.isfinite(h_output).all()
    cuda.Context.synchronize()
print("PASSED")
