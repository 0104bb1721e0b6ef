"""Streams, events, registered memory and a graph of CUDA, over cuda-python."""

from threading import Thread

import numpy as np
import tensorrt as trt
from cuda import cudart


def CHECK(r):
    assert int(r[0]) == 0, r[0]
    return r[1:] if len(r) > 2 else (r[1] if len(r) == 2 else None)


logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1 << 0)
config = builder.create_builder_config()
prof = builder.create_optimization_profile()
i0 = network.add_input("inputT0", trt.float32, (-1, 8, 8))
prof.set_shape("inputT0", (1, 8, 8), (4, 8, 8), (8, 8, 8))
config.add_optimization_profile(prof)
layer = network.add_reduce(i0, trt.ReduceOperation.SUM, 1 << 1, False)
layer.get_output(0).name = "out"
network.mark_output(layer.get_output(0))
engineString = builder.build_serialized_network(network, config)
engine = trt.Runtime(logger).deserialize_cuda_engine(engineString)
nIO = engine.num_io_tensors
lTensorName = [engine.get_tensor_name(i) for i in range(nIO)]
nInput = [engine.get_tensor_mode(n) for n in lTensorName].count(trt.TensorIOMode.INPUT)
_, stream0 = cudart.cudaStreamCreateWithPriority(cudart.cudaStreamNonBlocking, 0)
_, stream1 = cudart.cudaStreamCreate()
low, high = CHECK(cudart.cudaDeviceGetStreamPriorityRange())
_, ev0 = cudart.cudaEventCreateWithFlags(cudart.cudaEventBlockingSync)
_, ev1 = cudart.cudaEventCreate()


def run(stream):
    context = engine.create_execution_context()
    context.set_input_shape("inputT0", [3, 8, 8])
    bufferH = [
        np.ascontiguousarray(np.ones((3, 8, 8), np.float32)),
        np.empty(tuple(context.get_tensor_shape("out")), np.float32),
    ]
    bufferSize = [b.nbytes for b in bufferH]
    hbuf = [CHECK(cudart.cudaHostAlloc(s, cudart.cudaHostAllocWriteCombined)) for s in bufferSize]
    bufferD = [CHECK(cudart.cudaMallocAsync(s, stream)) for s in bufferSize]
    for n, d in zip(lTensorName, bufferD, strict=False):
        context.set_tensor_address(n, int(d))
    CHECK(
        cudart.cudaHostRegister(bufferH[0].ctypes.data, bufferSize[0], cudart.cudaHostRegisterDefault)
    ) if hasattr(cudart, "cudaHostRegister") else 1 / 0
    CHECK(
        cudart.cudaMemcpyAsync(
            bufferD[0],
            bufferH[0].ctypes.data,
            bufferSize[0],
            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
            stream,
        )
    )
    CHECK(cudart.cudaEventRecord(ev0, stream))
    context.execute_async_v3(stream)
    CHECK(cudart.cudaEventRecord(ev1, stream))
    CHECK(
        cudart.cudaMemcpyAsync(
            bufferH[1].ctypes.data,
            bufferD[1],
            bufferSize[1],
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
            stream,
        )
    )
    CHECK(cudart.cudaHostUnregister(bufferH[0].ctypes.data))
    CHECK(cudart.cudaStreamWaitEvent(stream, ev1, cudart.cudaEventWaitDefault))
    CHECK(cudart.cudaEventSynchronize(ev1))
    CHECK(cudart.cudaStreamSynchronize(stream))
    print(CHECK(cudart.cudaEventElapsedTime(ev0, ev1)))
    assert (bufferH[1] == 8).all()
    for b in bufferD:
        CHECK(cudart.cudaFreeAsync(b, stream))
    for b in hbuf:
        CHECK(cudart.cudaFreeHost(b))


ts = [Thread(target=run, args=(s,)) for s in (stream0, stream1)]
for t in ts:
    t.start()
for t in ts:
    t.join()
# CUDA graph as in the cook-book
context = engine.create_execution_context()
context.set_input_shape("inputT0", [3, 8, 8])
h = [np.random.rand(3, 8, 8).astype(np.float32), np.zeros((3, 8), np.float32)]
d = [CHECK(cudart.cudaMalloc(x.nbytes)) for x in h]
for n, p in zip(lTensorName, d, strict=False):
    context.set_tensor_address(n, p)


def step():
    CHECK(
        cudart.cudaMemcpyAsync(
            d[0], h[0].ctypes.data, h[0].nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream0
        )
    )
    context.execute_async_v3(stream0)
    CHECK(
        cudart.cudaMemcpyAsync(
            h[1].ctypes.data, d[1], h[1].nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream0
        )
    )


step()
cudart.cudaStreamSynchronize(stream0)
cudart.cudaStreamBeginCapture(stream0, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal)
step()
_, graph = cudart.cudaStreamEndCapture(stream0)
try:
    _, graphExe = cudart.cudaGraphInstantiate(graph, 0)
except TypeError:
    _, graphExe, _ = cudart.cudaGraphInstantiate(graph, b"", 0)
for _ in range(3):
    h[0][:] = np.random.rand(3, 8, 8)
    h[1][:] = -1
    cudart.cudaGraphLaunch(graphExe, stream0)
    cudart.cudaStreamSynchronize(stream0)
    np.testing.assert_allclose(h[1], h[0].sum(1), rtol=1e-5)
cudart.cudaGraphExecDestroy(graphExe)
cudart.cudaGraphDestroy(graph)
for s in (stream0, stream1):
    cudart.cudaStreamDestroy(s)
err, prop = cudart.cudaGetDeviceProperties(0)
print(
    prop.name.decode(),
    prop.major,
    prop.minor,
    prop.totalGlobalMem,
    prop.sharedMemPerBlock,
    prop.regsPerBlock,
    prop.maxThreadsDim,
    prop.maxGridSize,
    prop.clockRate,
    prop.textureAlignment,
    prop.multiProcessorCount,
    prop.totalConstMem,
    prop.memoryClockRate,
    prop.pciBusID,
    prop.concurrentKernels,
    prop.computeMode,
    prop.maxThreadsPerMultiProcessor,
    prop.uuid,
)
err, cnt = cudart.cudaGetDeviceCount()
cudart.cudaDeviceSetLimit(cudart.cudaLimit.cudaLimitPersistingL2CacheSize, 0)
print("PASSED")
