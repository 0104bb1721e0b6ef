"""Choose algorithms by rules: record all choices, repeat them by name, exclude one, and report.

usage: algorithm_selector.py
"""

import numpy as np
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


class Note(trt.IAlgorithmSelector):
    """Takes the builder's choice and records the alternatives."""

    def __init__(self):
        trt.IAlgorithmSelector.__init__(self)
        self.seen, self.taken, self.shapes = {}, {}, {}

    def select_algorithms(self, context, choices):
        self.seen[context.name] = [
            (c.algorithm_variant.implementation, c.algorithm_variant.tactic) for c in choices
        ]
        self.shapes[context.name] = [
            tuple(context.get_shape(i)[1]) for i in range(context.num_inputs + context.num_outputs)
        ]
        for choice in choices:
            assert choice.timing_msec >= 0
            assert choice.workspace_size >= 0
            info = choice.get_algorithm_io_info(0)
            assert isinstance(info.dtype, trt.DataType)
            assert len(tuple(info.strides)) >= 0
        return list(range(len(choices)))

    def report_algorithms(self, contexts, choices):
        for context, choice in zip(contexts, choices, strict=True):
            variant = choice.algorithm_variant
            self.taken[context.name] = (variant.implementation, variant.tactic)


class Replay(trt.IAlgorithmSelector):
    def __init__(self, expected):
        super().__init__()
        self.expected, self.taken = expected, {}

    def select_algorithms(self, context, choices):
        keys = [(c.algorithm_variant.implementation, c.algorithm_variant.tactic) for c in choices]
        return [keys.index(self.expected[context.name])]

    def report_algorithms(self, contexts, choices):
        for context, choice in zip(contexts, choices, strict=True):
            variant = choice.algorithm_variant
            self.taken[context.name] = (variant.implementation, variant.tactic)


def build(selector):
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    config.algorithm_selector = selector
    rng, x = np.random.default_rng(0), network.add_input("x", trt.float32, (2, 4, 12, 12))
    for i, c in enumerate((4, 16)):
        conv = network.add_convolution_nd(
            x, 16, (3, 3), rng.standard_normal((16, c, 3, 3)).astype(np.float32)
        )
        conv.name = f"conv{i}"
        x = network.add_activation(conv.get_output(0), trt.ActivationType.RELU).get_output(0)
    x.name = "y"
    network.mark_output(x)
    return builder.build_engine_with_config(network, config)


def infer(engine):
    x = np.random.default_rng(1).standard_normal((2, 4, 12, 12)).astype(np.float32)
    y = np.empty(tuple(engine.get_tensor_shape("y")), np.float32)
    context = engine.create_execution_context()
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)
    return y


def main():
    note = Note()
    y = infer(build(note))
    assert set(note.taken) == set(note.seen)
    assert any((2, 4, 12, 12) in shapes for shapes in note.shapes.values())
    replay = Replay(note.taken)
    np.testing.assert_array_equal(infer(build(replay)), y)
    assert replay.taken == note.taken
    # The last choice of every layer that has several.
    other = Replay({name: choices[-1] for name, choices in note.seen.items()})
    np.testing.assert_allclose(infer(build(other)), y, rtol=1e-4, atol=1e-4)
    assert other.taken == other.expected
    print({name: len(choices) for name, choices in note.seen.items()})
    print("PASSED")


if __name__ == "__main__":
    main()
