"""Spawned and forked processes, each with its own engine."""

import multiprocessing as mp

import numpy as np


def worker(plan, q, i):
    import pycuda.driver as cuda
    import tensorrt as trt

    cuda.init()
    ctx = cuda.Device(0).make_context()
    try:
        rt = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        e = rt.deserialize_cuda_engine(plan)
        c = e.create_execution_context()
        x = np.full((1, 3, 32, 32), i, np.float32)
        y = np.zeros((1, 10), np.float32)
        dx, dy = cuda.mem_alloc(x.nbytes), cuda.mem_alloc(y.nbytes)
        cuda.memcpy_htod(dx, x)
        c.set_tensor_address("input", int(dx))
        c.set_tensor_address("output", int(dy))
        s = cuda.Stream()
        c.execute_async_v3(s.handle)
        s.synchronize()
        cuda.memcpy_dtoh(y, dy)
        q.put((i, trt.__name__, y.tolist()))
    finally:
        ctx.pop()


def main():
    import tensorrt as trt

    logger = trt.Logger(trt.Logger.ERROR)
    b = trt.Builder(logger)
    n = b.create_network()
    p = trt.OnnxParser(n, logger)
    assert p.parse_from_file("model.onnx")
    plan = bytes(b.build_serialized_network(n, b.create_builder_config()))
    got = {}
    for method in ("spawn", "fork"):
        ctx = mp.get_context(method)
        q = ctx.Queue()
        ps = [ctx.Process(target=worker, args=(plan, q, i)) for i in range(2)]
        for p in ps:
            p.start()
        got[method] = sorted(q.get(timeout=60) for _ in ps)
        for p in ps:
            p.join()
            assert p.exitcode == 0
    assert got["spawn"] == got["fork"]
    print("PASSED")


if __name__ == "__main__":
    main()
