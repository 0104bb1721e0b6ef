"""Write a plan through a stream writer and read it through both kinds of stream readers.

usage: stream_io.py FILE
"""

import io
import sys

import common
import numpy as np
import tensorrt as trt
from cuda import cudart

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


class FileWriter(trt.IStreamWriter):
    def __init__(self, file):
        trt.IStreamWriter.__init__(self)
        self.file, self.bytes_written = file, 0

    def write(self, data):
        self.bytes_written += len(data)
        return self.file.write(data)


class FileReader(trt.IStreamReader):
    def __init__(self, path):
        trt.IStreamReader.__init__(self)
        self.file, self.calls = io.FileIO(path), 0

    def read(self, size: int) -> bytes:
        self.calls += 1
        return self.file.read(size)


class FileReaderV2(trt.IStreamReaderV2):
    def __init__(self, bytes):
        trt.IStreamReaderV2.__init__(self)
        self.bytes = bytes
        self.len = len(bytes)
        self.index = 0

    def read(self, size, cuda_stream):
        assert self.index + size <= self.len
        data = self.bytes[self.index : self.index + size]
        self.index += size
        return data

    def seek(self, offset, where):
        if where == trt.SeekPosition.SET:
            self.index = offset
        elif where == trt.SeekPosition.CUR:
            self.index += offset
        elif where == trt.SeekPosition.END:
            self.index = self.len - offset
        else:
            raise ValueError(f"Invalid seek position: {where}")


class ShortWriter(trt.IStreamWriter):
    """Accepts no bytes, like a full disk."""

    def write(self, data):
        return 0


def make_network(builder):
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (4, 256))
    w = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    w = network.add_constant(w.shape, trt.Weights(w)).get_output(0)
    op = trt.MatrixOperation.NONE
    y = network.add_matrix_multiply(x, op, w, op).get_output(0)
    network.mark_output(y)
    return network


def infer(engine, x):
    inputs, outputs, bindings, stream = common.allocate_buffers(engine)
    inputs[0].host = x.ravel()
    context = engine.create_execution_context()
    result = common.do_inference(context, engine, bindings, inputs, outputs, stream)[0].copy()
    common.free_buffers(inputs, outputs, stream)
    return result


def main():
    path = sys.argv[1]
    builder = trt.Builder(TRT_LOGGER)
    network, config = make_network(builder), builder.create_builder_config()
    with open(path, "wb") as file:
        writer = FileWriter(file)
        assert builder.build_serialized_network_to_stream(network, config, writer)
    plan = builder.build_serialized_network(network, config)
    with open(path, "rb") as file:
        written = file.read()
    assert writer.bytes_written == len(written) == plan.nbytes
    runtime = trt.Runtime(TRT_LOGGER)
    x = np.random.default_rng(1).standard_normal((4, 256)).astype(np.float32)
    reader, readers = FileReader(path), [FileReaderV2(written), FileReaderV2(memoryview(written).tobytes())]
    engines = [runtime.deserialize_cuda_engine(r) for r in (plan, reader, *readers)]
    assert reader.calls > 0
    assert all(r.index > 0 for r in readers)
    first, *others = [infer(engine, x) for engine in engines]
    for other in others:
        np.testing.assert_array_equal(first, other)
    assert not builder.build_serialized_network_to_stream(network, config, ShortWriter())
    err, count = cudart.cudaGetDeviceCount()
    assert (err, count) == (cudart.cudaError_t.cudaSuccess, 1)
    print("PASSED")


if __name__ == "__main__":
    main()
