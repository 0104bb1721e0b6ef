"""Callbacks: a logger of one's own, a monitor that follows the build, a profiler that times the run.

python examples/watch.py
"""

import numpy as np

import anyrt as trt


class Lines(trt.ILogger):
    """Keeps what is at least a warning."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.lines: list[str] = []

    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        if severity <= trt.ILogger.WARNING:
            self.lines.append(msg)


class Phases(trt.IProgressMonitor):
    """Counts the steps of each phase of a build."""

    def __init__(self) -> None:
        trt.IProgressMonitor.__init__(self)
        self.steps: dict[str, int] = {}

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        self.steps[phase_name] = 0

    def step_complete(self, phase_name: str, step: int) -> bool:
        self.steps[phase_name] += 1
        return True  # False would stop the build

    def phase_finish(self, phase_name: str) -> None:
        pass


class Times(trt.IProfiler):
    """Adds up the milliseconds of every kernel."""

    def __init__(self) -> None:
        trt.IProfiler.__init__(self)
        self.total: dict[str, float] = {}

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        self.total[layer_name] = self.total.get(layer_name, 0.0) + ms


def main() -> None:
    """Build with the monitor, run with the profiler."""
    logger, phases, times = Lines(), Phases(), Times()
    builder = trt.Builder(logger)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (64, 256))
    total = network.add_reduce(x, trt.ReduceOperation.SUM, axes=1 << 1, keep_dims=True)
    root = network.add_unary(total.get_output(0), trt.UnaryOperation.SQRT)
    root.get_output(0).name = "y"
    network.mark_output(root.get_output(0))
    config = builder.create_builder_config()
    config.progress_monitor = phases

    engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    context = engine.create_execution_context()
    context.profiler = times
    arrays = {"x": np.ones((64, 256), np.float32), "y": np.empty((64, 1), np.float32)}
    for name, array in arrays.items():
        context.set_tensor_address(name, array.ctypes.data)
    for _ in range(3):
        context.execute_async_v3(0)

    print("y is 16 everywhere:", bool((arrays["y"] == 16).all()))
    print("phases that moved:", any(phases.steps.values()))
    print("kernels that were timed:", len(times.total) > 0 and min(times.total.values()) > 0)
    print("warnings:", logger.lines)
    print(context)


if __name__ == "__main__":
    main()
