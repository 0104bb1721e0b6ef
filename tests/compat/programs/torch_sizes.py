"""A runtime for engines that take sizes from each other; it binds arrays whose references it drops."""

import tensorrt as trt
import torch


def build():
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (-1, -1, 8))
    rows = network.add_input("rows", trt.int64, (1,))
    size = network.add_constant((1,), trt.Weights(torch.tensor([8]).numpy())).get_output(0)
    layer = network.add_shuffle(x)
    layer.set_input(1, network.add_concatenation([rows, size]).get_output(0))
    y = network.add_activation(layer.get_output(0), trt.ActivationType.RELU).get_output(0)
    y.name = "y"
    network.mark_output(y)
    twice = network.add_elementwise(rows, rows, trt.ElementWiseOperation.SUM).get_output(0)
    twice.name = "twice"
    network.mark_output_for_shapes(twice)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 1, 8), (2, 16, 8), (8, 64, 8))
    profile.set_shape_input("rows", (1,), (32,), (512,))
    config = builder.create_builder_config()
    config.add_optimization_profile(profile)
    return trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))


class Engine(torch.nn.Module):
    def __init__(self, engine):
        super().__init__()
        self.engine = engine
        self.context = engine.create_execution_context()
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self.inputs = [n for n in names if engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if n not in self.inputs]

    def setup_input_tensors(self, tensors):
        for name, tensor in zip(self.inputs, tensors, strict=True):
            if self.engine.is_shape_inference_io(name):
                inputs_cpu = tensor.cpu().to(torch.int64).numpy().copy()
                self.context.set_tensor_address(name, inputs_cpu.ctypes.data)
            else:
                self.context.set_input_shape(name, tuple(tensor.shape))
                self.context.set_tensor_address(name, tensor.data_ptr())

    def forward(self, *inputs):
        tensors = [x.contiguous() for x in inputs]
        self.setup_input_tensors(tensors)
        others = [torch.full((1,), n).numpy().copy() for n in range(64)]
        assert not self.context.infer_shapes(), len(others)
        outputs = []
        for name in self.outputs:
            dtype = torch.float32 if name == "y" else torch.int64
            shape = tuple(self.context.get_tensor_shape(name))
            outputs.append(torch.empty(shape, dtype=dtype, device="cuda"))
            self.context.set_tensor_address(name, outputs[-1].data_ptr())
        stream = torch.cuda.Stream()
        assert self.context.execute_async_v3(stream.cuda_stream)
        stream.synchronize()
        return outputs


def main():
    module = Engine(build())
    for batch, length in ((2, 16), (3, 20), (1, 1), (8, 64)):
        x = torch.randn(batch, length, 8, device="cuda")
        y, twice = module(x, torch.tensor([batch * length], device="cuda"))
        assert torch.equal(y, torch.relu(x).reshape(-1, 8))
        assert twice.tolist() == [2 * batch * length]
    print("PASSED")


if __name__ == "__main__":
    main()
