"""Draw progress bars of the phases of a build, cancel one build, and build again.

usage: progress_monitor.py
"""

import sys

import numpy as np
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


class BarMonitor(trt.IProgressMonitor):
    """One line for each active phase; nested phases are indented."""

    WIDTH = 20

    def __init__(self, stop_after=None):
        trt.IProgressMonitor.__init__(self)
        self._active, self._lines = {}, []
        self._stop_after, self.steps, self.started, self.finished = stop_after, 0, [], []

    def phase_start(self, phase_name, parent_phase, num_steps):
        try:
            depth = 0 if parent_phase is None else 1 + self._active[parent_phase]["depth"]
            self._active[phase_name] = {
                "title": phase_name,
                "steps": 0,
                "num_steps": num_steps,
                "depth": depth,
            }
            self.started.append(phase_name)
            self._redraw()
        except KeyboardInterrupt:
            _ = self.cancel()

    def phase_finish(self, phase_name):
        self._active[phase_name]["steps"] = self._active[phase_name]["num_steps"]
        self._redraw()
        del self._active[phase_name]
        self.finished.append(phase_name)

    def step_complete(self, phase_name, step):
        self._active[phase_name]["steps"] = step
        self.steps += 1
        self._redraw()
        return self._stop_after is None or self.steps < self._stop_after

    def cancel(self):
        self._stop_after = 0

    def _redraw(self):
        for phase in self._active.values():
            done = self.WIDTH * phase["steps"] // max(phase["num_steps"], 1)
            bar = "=" * done + "-" * (self.WIDTH - done)
            assert 0 <= phase["steps"] <= phase["num_steps"], phase
            self._lines.append(f"{'  ' * phase['depth']}[{bar}] {phase['title']}")

    def draw(self):
        print(*self._lines[-8:], sep="\n")


def populate(network):
    rng = np.random.default_rng(0)
    x = network.add_input("x", trt.float32, (1, 8, 16, 16))
    for i in range(3):
        w = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
        conv = network.add_convolution_nd(x, 8, (3, 3), w, np.zeros(8, np.float32))
        conv.padding_nd = (1, 1)
        kind = (trt.ActivationType.RELU, trt.ActivationType.TANH, trt.ActivationType.SIGMOID)[i]
        x = network.add_activation(conv.get_output(0), kind).get_output(0)
    network.mark_output(x)


def build(monitor):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    config = builder.create_builder_config()
    config.progress_monitor = monitor
    assert config.progress_monitor is monitor
    populate(network)
    return builder.build_serialized_network(network, config)


def main():
    monitor = BarMonitor(stop_after=3)
    if build(monitor) is not None:
        sys.exit("the build was not cancelled")
    assert monitor.steps == 3
    whole = BarMonitor()
    plan = build(whole)
    whole.draw()
    assert whole.steps > 3
    assert sorted(whole.started) == sorted(whole.finished)
    assert not whole._active
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)
    assert engine.num_layers > 0
    print("PASSED")


if __name__ == "__main__":
    main()
