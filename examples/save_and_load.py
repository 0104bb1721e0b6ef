"""A plan saved to a file, loaded again and run, asking the engine for names, shapes and types.

python examples/save_and_load.py [net.plan]
"""

import sys
from pathlib import Path

import numpy as np

import anyrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


def save(path: Path) -> None:
    """Build y = tanh(a + b) and write its plan."""
    builder = trt.Builder(LOGGER)
    network = builder.create_network()
    a = network.add_input("a", trt.float32, (2, 3))
    b = network.add_constant((1, 3), np.array([0, 1, 2], np.float32)).get_output(0)
    total = network.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0)
    tanh = network.add_activation(total, trt.ActivationType.TANH)
    tanh.get_output(0).name = "y"
    network.mark_output(tanh.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    path.write_bytes(plan)
    print("wrote", path.name)


def load(path: Path) -> trt.ICudaEngine:
    """The engine of a plan in a file."""
    with open(path, "rb") as file:
        return trt.Runtime(LOGGER).deserialize_cuda_engine(file.read())


def run(engine: trt.ICudaEngine) -> dict[str, np.ndarray]:
    """One run with inputs of ones; every array by the name of its tensor."""
    context = engine.create_execution_context()
    arrays: dict[str, np.ndarray] = {}
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        shape, dtype = context.get_tensor_shape(name), engine.get_tensor_dtype(name)
        arrays[name] = np.ones(tuple(shape), trt.nptype(dtype))
        print(name, engine.get_tensor_mode(name), dtype, shape, trt.volume(shape), "elements")
        context.set_tensor_address(name, arrays[name].ctypes.data)
    if not context.execute_async_v3(stream_handle=0):
        raise SystemExit("the run failed; the log says why")
    return arrays


def main() -> None:
    """Save, load, run."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "net.plan")
    save(path)
    print(run(load(path))["y"].round(3))


if __name__ == "__main__":
    main()
