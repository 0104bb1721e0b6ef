"""Two profiles and contexts in threads: one for single images, one for batches, each with its own stream.

usage: profiles_and_contexts.py
"""

import threading

import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
SHAPES = [((1, 3, 8, 8), (1, 3, 16, 16), (1, 3, 32, 32)), ((2, 3, 16, 16), (8, 3, 16, 16), (16, 3, 16, 16))]
WEIGHT = np.random.default_rng(0).standard_normal((4, 3, 1, 1)).astype(np.float32)


def build():
    with trt.Builder(TRT_LOGGER) as builder, builder.create_network(0) as network:
        config = builder.create_builder_config()
        x = network.add_input("x", trt.float32, (-1, 3, -1, -1))
        conv = network.add_convolution_nd(x, 4, (1, 1), trt.Weights(WEIGHT))
        pool = network.add_reduce(conv.get_output(0), trt.ReduceOperation.AVG, (1 << 2) | (1 << 3), False)
        pool.get_output(0).name = "y"
        network.mark_output(pool.get_output(0))
        for low, opt, high in SHAPES:
            profile = builder.create_optimization_profile()
            profile.set_shape("x", low, opt, high)
            assert [tuple(s) for s in profile.get_shape("x")] == [low, opt, high]
            assert config.add_optimization_profile(profile) == SHAPES.index((low, opt, high))
        assert config.num_optimization_profiles == 2
        return trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(
            builder.build_serialized_network(network, config)
        )


class Worker(threading.Thread):
    def __init__(self, engine, profile, images):
        threading.Thread.__init__(self)
        self.engine, self.profile, self.images, self.results, self.error = engine, profile, images, [], None
        self.cuda_context = pycuda.autoinit.context

    def run(self):
        self.cuda_context.push()
        try:
            self.infer()
        except Exception as error:
            self.error = error
        finally:
            self.cuda_context.pop()

    def infer(self):
        stream, context = cuda.Stream(), self.engine.create_execution_context()
        assert context.set_optimization_profile_async(self.profile, stream.handle)
        stream.synchronize()
        assert context.active_optimization_profile == self.profile
        for image in self.images:
            assert context.set_input_shape("x", image.shape)
            assert context.all_binding_shapes_specified
            y = np.empty(tuple(context.get_tensor_shape("y")), np.float32)
            d_x, d_y = cuda.mem_alloc(image.nbytes), cuda.mem_alloc(y.nbytes)
            cuda.memcpy_htod_async(d_x, image, stream)
            context.set_tensor_address("x", int(d_x))
            context.set_tensor_address("y", int(d_y))
            assert context.execute_async_v3(stream_handle=stream.handle)
            cuda.memcpy_dtoh_async(y, d_y, stream)
            stream.synchronize()
            self.results.append(y)


def main():
    engine, rng = build(), np.random.default_rng(1)
    assert engine.num_optimization_profiles == 2
    assert [tuple(s) for s in engine.get_tensor_profile_shape("x", 1)] == list(SHAPES[1])
    shapes = [[(1, 3, 8, 8), (1, 3, 20, 32), (1, 3, 9, 31)] * 5, [(2, 3, 16, 16), (7, 3, 16, 16)] * 5]
    images = [[rng.standard_normal(s).astype(np.float32) for s in each] for each in shapes]
    workers = [Worker(engine, p % 2, images[p % 2]) for p in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.error is None, worker.error
        for image, y in zip(worker.images, worker.results, strict=True):
            want = np.einsum("nchw,kc->nk", image.astype(np.float64), WEIGHT[:, :, 0, 0]) / image[0, 0].size
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    context = engine.create_execution_context()
    assert not context.set_input_shape("x", (4, 3, 16, 16))
    print("PASSED")


if __name__ == "__main__":
    main()
