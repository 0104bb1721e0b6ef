"""A PyTorch operator as a layer: the queries of PyTorch's compilers for devices, tensors and plug-ins."""

import numpy as np
import numpy.typing as npt
import tensorrt as trt
import tensorrt.plugin as trtp
import torch
from tensorrt.plugin._lib import QDP_REGISTRY


@trtp.register("program::scaled")
def describe(x: trtp.TensorDesc, factor: npt.NDArray[np.float32]) -> trtp.TensorDesc:
    return x.like()


@trtp.impl("program::scaled")
def compute(
    x: trtp.Tensor, factor: npt.NDArray[np.float32], outputs: tuple[trtp.Tensor], stream: int
) -> None:
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        torch.as_tensor(outputs[0], device="cuda").copy_(torch.as_tensor(x, device="cuda") * factor.item())


def build() -> trt.ICudaEngine:
    """y = 3x, built from the registry's entry of the plug-in."""
    known = QDP_REGISTRY["program::scaled"]
    assert known.aot_impl_func is None
    assert known.input_tensor_names == ["x"]
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network()
    x = network.add_input("x", trt.tensorrt.DataType.HALF, (2, 2))
    values = {name: np.array(3, np.float32) for name in known.input_attrs}
    layer = network.add_plugin(trtp.op.program.scaled(x, **values))
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    return trt.Runtime(logger).deserialize_cuda_engine(plan)


def main() -> None:
    device = torch.device(torch.cuda.current_device())
    assert device.type == "cuda"
    assert isinstance(torch.cuda.get_device_properties(device), torch._C._CudaDeviceProperties)
    linear = torch.nn.Linear(2, 2).to(device)
    with torch.no_grad(), torch.autocast("cuda"):
        x = linear(torch.ones(2, 2, device=device))
    assert x.is_cuda
    assert x.dtype is torch.float16
    y = torch.empty_like(x)
    context = build().create_execution_context()
    context.set_tensor_address("x", x.data_ptr())
    context.set_tensor_address("y", y.data_ptr())
    assert context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(y, x * 3)
    print("PASSED")


if __name__ == "__main__":
    main()
