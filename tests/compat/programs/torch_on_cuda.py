"""Inference with PyTorch tensors as device memory, and PyTorch's streams and events, as on a GPU."""

import sys

import tensorrt as trt
import torch

if not torch.cuda.is_available():
    sys.exit("CUDA is required")
device = torch.device("cuda:0")
print(torch.cuda.get_device_name(device), torch.cuda.get_device_properties(0).total_memory)


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(6, 4)
        self.register_buffer("scale", torch.full((4,), 0.5, device=device))

    def forward(self, x):
        return torch.relu(self.fc(x)) * self.scale + torch.arange(4, device=x.device)


def build(model):
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    x = network.add_input("x", trt.float32, (-1, 6))
    weights = {k: v.detach().cpu().numpy() for k, v in model.state_dict().items()}
    kernel = network.add_constant((4, 6), weights["fc.weight"]).get_output(0)
    product = network.add_matrix_multiply(x, trt.MatrixOperation.NONE, kernel, trt.MatrixOperation.TRANSPOSE)
    y = product.get_output(0)
    for op, value in (
        (trt.ElementWiseOperation.SUM, weights["fc.bias"].reshape(1, 4)),
        (trt.ElementWiseOperation.MAX, torch.zeros(1, 4).numpy()),
        (trt.ElementWiseOperation.PROD, weights["scale"].reshape(1, 4)),
        (trt.ElementWiseOperation.SUM, torch.arange(4, dtype=torch.float32).reshape(1, 4).numpy()),
    ):
        y = network.add_elementwise(y, network.add_constant((1, 4), value).get_output(0), op).get_output(0)
    y.name = "y"
    network.mark_output(y)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 6), (4, 6), (16, 6))
    config.add_optimization_profile(profile)
    return trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))


@torch.inference_mode()
def main():
    model = Head().to(device).eval()
    engine = build(model)
    context = engine.create_execution_context()
    stream = torch.cuda.Stream(device=device)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for batch in (1, 5, 16):
        x = torch.randn(batch, 6).pin_memory().cuda(non_blocking=True)
        y = torch.empty((batch, 4), dtype=torch.float32, device="cuda")
        context.set_input_shape("x", tuple(x.shape))
        context.set_tensor_address("x", x.data_ptr())
        context.set_tensor_address("y", y.data_ptr())
        with torch.cuda.stream(stream):
            start.record()
            context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
            end.record()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        torch.testing.assert_close(y, model(x.to("cuda")))
        print(f"batch {batch}: {start.elapsed_time(end):.3f} ms")
    print("PASSED")


main()
