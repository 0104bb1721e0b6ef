"""A detector with pycuda for TensorRT 8, run by threads that push its context."""

import threading
import time

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt

CONF_THRESH = 0.5


def get_img_path_batches(batch_size, img_dir):
    return [["a"]]


class YoLov5TRT:
    def __init__(self, engine_file_path):
        self.ctx = cuda.Device(0).make_context()
        stream = cuda.Stream()
        TRT_LOGGER = trt.Logger(trt.Logger.INFO)
        runtime = trt.Runtime(TRT_LOGGER)
        with open(engine_file_path, "rb") as f:
            engine = runtime.deserialize_cuda_engine(f.read())
        context = engine.create_execution_context()
        host_inputs = []
        cuda_inputs = []
        host_outputs = []
        cuda_outputs = []
        bindings = []
        for binding in engine:
            print("bingding:", binding, engine.get_binding_shape(binding))
            size = trt.volume(engine.get_binding_shape(binding)) * engine.max_batch_size
            dtype = trt.nptype(engine.get_binding_dtype(binding))
            host_mem = cuda.pagelocked_empty(size, dtype)
            cuda_mem = cuda.mem_alloc(host_mem.nbytes)
            bindings.append(int(cuda_mem))
            if engine.binding_is_input(binding):
                self.input_w = engine.get_binding_shape(binding)[-1]
                self.input_h = engine.get_binding_shape(binding)[-2]
                host_inputs.append(host_mem)
                cuda_inputs.append(cuda_mem)
            else:
                host_outputs.append(host_mem)
                cuda_outputs.append(cuda_mem)
        self.stream = stream
        self.context = context
        self.engine = engine
        self.host_inputs = host_inputs
        self.cuda_inputs = cuda_inputs
        self.host_outputs = host_outputs
        self.cuda_outputs = cuda_outputs
        self.bindings = bindings
        self.batch_size = engine.max_batch_size

    def infer(self, raw_image_generator):
        threading.Thread.__init__(self)
        self.ctx.push()
        stream, context, host_inputs, cuda_inputs, host_outputs, cuda_outputs, bindings = (
            self.stream,
            self.context,
            self.host_inputs,
            self.cuda_inputs,
            self.host_outputs,
            self.cuda_outputs,
            self.bindings,
        )
        batch_input_image = np.empty(shape=[self.batch_size, 3, self.input_h, self.input_w])
        for i, image_raw in enumerate(raw_image_generator):
            np.copyto(batch_input_image[i], image_raw)
        batch_input_image = np.ascontiguousarray(batch_input_image)
        np.copyto(host_inputs[0], batch_input_image.ravel())
        start = time.time()
        cuda.memcpy_htod_async(cuda_inputs[0], host_inputs[0], stream)
        context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)
        cuda.memcpy_dtoh_async(host_outputs[0], cuda_outputs[0], stream)
        stream.synchronize()
        end = time.time()
        self.ctx.pop()
        return host_outputs[0], end - start

    def destroy(self):
        self.ctx.pop()


class inferThread(threading.Thread):
    def __init__(self, w):
        threading.Thread.__init__(self)
        self.w = w

    def run(self):
        out, _t = self.w.infer([np.random.rand(3, 64, 64)])
        assert out.shape == (84 * 256,)
        assert out.any()
        self.ok = True


b = trt.Builder(trt.Logger())
EXPLICIT_BATCH = 1 << (int)(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
with (
    b,
    b.create_network(EXPLICIT_BATCH) as network,
    b.create_builder_config() as config,
    trt.OnnxParser(network, trt.Logger()) as parser,
):
    config.max_workspace_size = 1 << 28
    b.max_batch_size = 1
    assert parser.parse_from_file("yolov8n.onnx")
    engine = b.build_engine(network, config)
    with open("yolo.engine", "wb") as f:
        f.write(engine.serialize())
w = YoLov5TRT("yolo.engine")
try:
    for _i in range(3):
        t = inferThread(w)
        t.start()
        t.join()
        assert t.ok
finally:
    w.destroy()
print("PASSED")
