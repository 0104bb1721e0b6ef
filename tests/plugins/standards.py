"""Standard plug-ins as programs use them: by creator, fields and `add_plugin_v2` or `add_plugin_v3`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import anyrt as trt

KINDS = {"i": trt.PluginFieldType.INT32, "f": trt.PluginFieldType.FLOAT32, "S": trt.PluginFieldType.CHAR}
TYPES = {np.dtype(trt.nptype(t)): t for t in (trt.float32, trt.float16, trt.int32, trt.int64, trt.bool)}


def field(name: str, value: object) -> trt.PluginField:
    """A field of a Python value, with the type that programs use."""
    if isinstance(value, str):
        return trt.PluginField(name, np.frombuffer(value.encode(), np.int8), trt.PluginFieldType.CHAR)
    array = np.atleast_1d(np.asarray(value))
    array = array.astype({"i": np.int32, "f": np.float32}[array.dtype.kind])
    return trt.PluginField(name, array, KINDS[array.dtype.kind])


def create(name: str, version: str = "1", namespace: str = "", **fields: object) -> object:
    """A plug-in from its creator."""
    trt.init_libnvinfer_plugins(None, namespace)
    creator = trt.get_plugin_registry().get_creator(name, version, namespace)
    collection = trt.PluginFieldCollection([field(n, x) for n, x in fields.items()])
    if isinstance(creator, trt.IPluginCreatorV3One):
        return creator.create_plugin(name, collection, trt.TensorRTPhase.BUILD)
    return creator.create_plugin(name, collection)


def added(network: trt.INetworkDefinition, inputs: Sequence[trt.ITensor], plugin: object) -> trt.ILayer:
    """The layer of a plug-in."""
    if isinstance(plugin, trt.IPluginV3):
        return network.add_plugin_v3(inputs, [], plugin)
    return network.add_plugin_v2(inputs, plugin)


class Engine:
    """An engine of one plug-in. `dynamic`: all dimensions range from 0 to twice those of the arrays, except
    the `fixed` axes."""

    def __init__(
        self,
        plugin: object,
        arrays: Sequence[np.ndarray],
        dynamic: bool = False,
        copies: int = 1,
        fixed: Sequence[int] = (),
    ) -> None:
        builder = trt.Builder(trt.Logger())
        self.network = network = builder.create_network(
            1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        )
        config, profile = builder.create_builder_config(), builder.create_optimization_profile()
        inputs = []
        for k, x in enumerate(arrays):
            kept = [not dynamic or axis in fixed for axis in range(x.ndim)]
            sizes = [n if stays else -1 for n, stays in zip(x.shape, kept, strict=True)]
            inputs.append(network.add_input(f"x{k}", TYPES[x.dtype], sizes))
            if dynamic:
                least = [n if stays else 0 for n, stays in zip(x.shape, kept, strict=True)]
                most = [n if stays else 2 * n for n, stays in zip(x.shape, kept, strict=True)]
                profile.set_shape(f"x{k}", least, x.shape, most)
        if dynamic:
            config.add_optimization_profile(profile)
        self.layers = [added(network, inputs, plugin) for _ in range(copies)]
        for layer in self.layers:
            for k in range(layer.num_outputs):
                network.mark_output(layer.get_output(k))
        plan = builder.build_serialized_network(network, config)
        self.engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        arrays = [np.ascontiguousarray(x) for x in arrays]
        for k, x in enumerate(arrays):
            self.context.set_input_shape(f"x{k}", x.shape)
            self.context.set_tensor_address(f"x{k}", x.ctypes.data)
        results = []
        for name in list(self.engine)[len(arrays) :]:
            shape = tuple(self.context.get_tensor_shape(name))
            results.append(np.empty(shape, trt.nptype(self.engine.get_tensor_dtype(name))))
            self.context.set_tensor_address(name, results[-1].ctypes.data)
        assert self.context.execute_async_v3(0)
        return results


def run(
    name: str, *arrays: np.ndarray, version: str = "1", dynamic: bool = False, **fields: object
) -> list[np.ndarray]:
    """The outputs of a plug-in for arrays."""
    with trt.strict():
        return Engine(create(name, version, **fields), arrays, dynamic)(*arrays)


def holds(got: Sequence[np.ndarray], expected: Mapping | Sequence[np.ndarray], tol: float = 1e-5) -> None:
    """Assert that both are equal up to a tolerance."""
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=tol, atol=tol)
