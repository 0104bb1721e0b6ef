"""Fixtures for tests of plug-ins made from functions: an engine that calls one, and a clean registry."""

import pytest

import anyrt as trt


@pytest.fixture(autouse=True)
def _registry(registry):
    """Remove the plug-ins that a test registers."""


@pytest.fixture
def build(log):
    """A function that builds the engine of one plug-in: `build(plugin, x=(2, -1), ...)`, where `plugin(x,
    ...)` returns the argument of add_plugin.

    Dimensions of -1 range from `least` to 64. `dtype`: of the inputs; `outputs`: the numbers of the outputs
    to mark, as y0, y1, ...; `settings`: attributes of the configuration."""

    def make(
        plugin,
        dtype=trt.float32,
        outputs=None,
        flags=0,
        aot=None,
        settings=(),
        strong=False,
        least=1,
        **shapes,
    ):
        builder = trt.Builder(log)
        network = builder.create_network(flags | strong << 1)
        config, profile = builder.create_builder_config(), builder.create_optimization_profile()
        for name, value in dict(settings).items():
            setattr(config, name, value)
        inputs = [network.add_input(name, dtype, shape) for name, shape in shapes.items()]
        for name, shape in shapes.items():
            profile.set_shape(name, *([m if d == -1 else d for d in shape] for m in (least, 8, 64)))
        config.add_optimization_profile(profile)
        chosen = () if aot is None else (aot,)
        layer = network.add_plugin(plugin(*inputs), *chosen)
        for k in range(layer.num_outputs) if outputs is None else outputs:
            layer.get_output(k).name = f"y{k}"
            network.mark_output(layer.get_output(k))
        plan = builder.build_serialized_network(network, config)
        return None if plan is None else trt.Runtime(log).deserialize_cuda_engine(plan)

    return make
