"""Where x³ + x is each of some numbers: a loop over the numbers, in it a loop that ends when it is near,
and in that a choice between Newton's step and half of the interval.

python examples/roots.py
"""

import numpy as np

import anyrt as trt

NEAR = 1e-4
OP, UNARY = trt.ElementWiseOperation, trt.UnaryOperation


class Writer:
    """Adds layers to a network, with short names for those that are needed often."""

    def __init__(self, network: trt.INetworkDefinition) -> None:
        self.network = network

    def number(self, value: float) -> trt.ITensor:
        return self.network.add_constant((), np.array(value, np.float32)).get_output(0)

    def count(self, value: int) -> trt.ITensor:
        return self.network.add_constant((), np.array(value, np.int32)).get_output(0)

    def op(self, a: trt.ITensor, b: trt.ITensor, how: trt.ElementWiseOperation) -> trt.ITensor:
        return self.network.add_elementwise(a, b, how).get_output(0)

    def unary(self, x: trt.ITensor, how: trt.UnaryOperation) -> trt.ITensor:
        return self.network.add_unary(x, how).get_output(0)

    def select(self, flag: trt.ITensor, a: trt.ITensor, b: trt.ITensor) -> trt.ITensor:
        return self.network.add_select(flag, a, b).get_output(0)

    def beyond(self, x: trt.ITensor, wanted: trt.ITensor) -> trt.ITensor:
        """How far x³ + x is beyond what is wanted."""
        cube = self.op(self.op(x, x, OP.PROD), x, OP.PROD)
        return self.op(self.op(cube, x, OP.SUM), wanted, OP.SUB)

    def chosen(self, x: trt.ITensor, far: trt.ITensor, low: trt.ITensor, high: trt.ITensor) -> trt.ITensor:
        """Newton's step where it stays between both ends, else the middle."""
        slope = self.op(self.op(self.op(x, x, OP.PROD), self.number(3), OP.PROD), self.number(1), OP.SUM)
        step = self.op(x, self.op(far, slope, OP.DIV), OP.SUB)
        inside = self.op(self.op(low, step, OP.LESS), self.op(step, high, OP.LESS), OP.AND)
        choice = self.network.add_if_conditional()
        choice.name = "step"
        choice.set_condition(inside)
        newton, a, b = (choice.add_input(t).get_output(0) for t in (step, low, high))
        middle = self.op(self.op(a, b, OP.SUM), self.number(0.5), OP.PROD)
        return choice.add_output(newton, middle).get_output(0)

    def root(self, wanted: trt.ITensor) -> tuple[trt.ITensor, trt.ITensor]:
        """x, and how many steps led there."""
        loop = self.network.add_loop()
        loop.name = "approach"
        low, high, x = (loop.add_recurrence(self.number(n)) for n in (-10, 10, 9))
        steps = loop.add_recurrence(self.count(0))
        far = self.beyond(x.get_output(0), wanted)
        is_far = self.op(self.number(NEAR), self.unary(far, UNARY.ABS), OP.LESS)
        loop.add_trip_limit(is_far, trt.TripLimit.WHILE)
        above = self.op(self.number(0), far, OP.LESS)
        ends = (
            self.select(above, low.get_output(0), x.get_output(0)),
            self.select(above, x.get_output(0), high.get_output(0)),
        )
        low.set_input(1, ends[0])
        high.set_input(1, ends[1])
        x.set_input(1, self.chosen(x.get_output(0), far, *ends))
        steps.set_input(1, self.op(steps.get_output(0), self.count(1), OP.SUM))
        layers = (loop.add_loop_output(t.get_output(0), trt.LoopOutput.LAST_VALUE) for t in (x, steps))
        first, second = (layer.get_output(0) for layer in layers)
        return first, second


def describe(network: trt.INetworkDefinition, count: int) -> None:
    """From "wanted", so many numbers, to "roots" and "steps"."""
    w = Writer(network)
    wanted = network.add_input("wanted", trt.float32, (count,))
    loop = network.add_loop()
    loop.name = "numbers"
    loop.add_trip_limit(w.count(count), trt.TripLimit.COUNT)
    for name, tensor in zip(("roots", "steps"), w.root(loop.add_iterator(wanted).get_output(0)), strict=True):
        every = loop.add_loop_output(tensor, trt.LoopOutput.CONCATENATE)
        every.set_input(1, w.count(count))
        every.get_output(0).name = name
        network.mark_output(every.get_output(0))


def build(count: int) -> trt.ICudaEngine:
    """The engine."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network()
    describe(network, count)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def main() -> None:
    """Some numbers from -500 to 500."""
    wanted = np.linspace(-500, 500, 9, dtype=np.float32)
    outputs = build(len(wanted)).run(wanted=wanted)
    print("roots", *outputs["roots"].round(3))
    print("steps", *outputs["steps"])


if __name__ == "__main__":
    main()
