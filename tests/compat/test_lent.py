"""Memory of engines that plug-ins and listeners receive is device memory to the stand-ins for CUDA."""

import numpy as np
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from anyrt.compat.cuda import runtime as cudart
from anyrt.compat.pycuda import driver as cuda

TO_HOST = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
TO_DEVICE = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice


def negated(x: trtp.TensorDesc) -> trtp.TensorDesc:
    return x.like()


def ways(x: trtp.TensorDesc, outputs: tuple[trtp.TensorDesc]) -> list[trtp.AutoTuneCombination]:
    return [trtp.AutoTuneCombination("FP32, FP32", "LINEAR", [1, 2])]  # the build calls it during trials


def negated_by_copies(x: trtp.Tensor, outputs: tuple[trtp.Tensor], stream: int, tactic: int) -> None:
    host = np.empty(tuple(x.shape), np.float32)
    values = x.data_ptr, outputs[0].data_ptr
    assert cudart.cudaMemcpyAsync(host.ctypes.data, values[0], host.nbytes, TO_HOST, stream)[0] == 0
    assert cudart.cudaMemcpyAsync(values[1], -host, host.nbytes, TO_DEVICE, stream)[0] == 0


class Copies(trt.IDebugListener):
    def process_debug_tensor(self, addr, location, type, shape, name, stream):
        self.values = np.empty(tuple(shape), np.float32)
        cuda.memcpy_dtoh(self.values, addr)
        return location is trt.TensorLocation.DEVICE


@pytest.fixture
def engine():
    trtp.register("lent::negated")(negated)
    trtp.autotune("lent::negated")(ways)
    trtp.impl("lent::negated")(negated_by_copies)
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_unary(network.add_input("x", trt.float32, (4,)), trt.UnaryOperation.EXP).get_output(0)
    y = network.add_plugin(trtp.op.lent.negated(x)).get_output(0)
    network.mark_debug(x)
    z = network.add_unary(y, trt.UnaryOperation.ABS).get_output(0)
    x.name, z.name = "exp", "z"
    network.mark_output(z)
    return builder.build_engine_with_config(network, config)


def test_plugins_and_listeners_copy_from_and_to_what_they_are_shown(engine):
    x, z = np.float32([0, 1, 2, 3]), np.empty(4, np.float32)
    context, listener = engine.create_execution_context(), Copies()
    for name, array in (("x", x), ("z", z)):
        context.set_tensor_address(name, array.ctypes.data)
    context.set_debug_listener(listener)
    context.set_tensor_debug_state("exp", True)
    assert context.execute_async_v3(0)
    np.testing.assert_allclose([z, listener.values], [np.exp(x)] * 2, rtol=1e-6)


def test_lent_memory_is_no_device_memory_afterwards():
    array = np.zeros(4, np.float32)
    assert cudart.cudaMemset(array.ctypes.data, 0, 16)[0] == cudart.cudaError_t.cudaErrorInvalidValue
