"""Inference with the objects of cuda.core: device, stream, buffers, events."""

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart
from cuda.core import Device, EventOptions, Program, ProgramOptions, system

L = trt.Logger(trt.Logger.ERROR)
b = trt.Builder(L)
n = b.create_network()
p = trt.OnnxParser(n, L)
assert p.parse_from_file("model.onnx")
dev = Device()
dev.set_current()
print(
    dev.name,
    dev.compute_capability,
    dev.arch,
    dev.device_id,
    dev.properties.multiprocessor_count,
    system.num_devices if hasattr(system, "num_devices") else system.get_num_devices(),
)
e = trt.Runtime(L).deserialize_cuda_engine(b.build_serialized_network(n, b.create_builder_config()))
c = e.create_execution_context()
s = dev.create_stream()
bufs = {}
for i in range(e.num_io_tensors):
    name = e.get_tensor_name(i)
    size = trt.volume(e.get_tensor_shape(name)) * 4
    bufs[name] = dev.allocate(size, stream=s)
    c.set_tensor_address(name, int(bufs[name].handle))
x = np.random.rand(1, 3, 32, 32).astype(np.float32)
cudart.cudaMemcpy(bufs["input"].handle, x, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
e0 = s.record(options=EventOptions(enable_timing=True))
c.execute_async_v3(int(s.handle))
e1 = s.record(options=EventOptions(enable_timing=True))
s.sync()
e1.sync()
print(e1 - e0, e1.is_done)
y = np.empty((1, 10), np.float32)
cudart.cudaMemcpy(y, bufs["output"].handle, y.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
assert y.any()
b2 = dev.allocate(bufs["input"].size, stream=s)
bufs["input"].copy_to(b2, stream=s)
b2.copy_from(bufs["input"], stream=s)
assert b2.is_device_accessible
b2.close()
dev.sync()
try:
    prog = Program(
        'extern "C" __global__ void f() {}',
        code_type="c++",
        options=ProgramOptions(std="c++17", arch=f"sm_{dev.arch}"),
    )
    print(prog.compile("cubin").get_kernel("f"))
except Exception as err:  # if there is no compiler
    print(type(err), err)
s.close()
print("PASSED")
