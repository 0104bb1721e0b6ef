"""For budgets in MiB, prints by how many MiB an inference of 16 products of 4 MiB increases the
peak memory."""

import re
import sys
from pathlib import Path

import numpy as np

import anyrt as trt

LOGGER = trt.Logger(trt.Logger.ERROR)


def build(path):
    builder, random, none = trt.Builder(LOGGER), np.random.default_rng(0), trt.MatrixOperation.NONE
    net = builder.create_network()
    y = net.add_input("x", trt.float32, (4, 1024))
    for _ in range(16):
        w = net.add_constant((1024, 1024), random.standard_normal((1024, 1024), np.float32) / 32)
        y = net.add_matrix_multiply(y, none, w.get_output(0), none).get_output(0)
        y = net.add_activation(y, trt.ActivationType.TANH).get_output(0)
    y.name = "y"
    net.mark_output(y)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.WEIGHT_STREAMING)
    path.write_bytes(builder.build_serialized_network(net, config))


def mib(fact):
    return int(re.search(rf"{fact}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10


def main():
    path = Path(sys.argv[1])
    build(path)
    engine = trt.Runtime(LOGGER).deserialize_cuda_engine(path)
    x = np.ones((4, 1024), np.float32)
    expected = engine.run(x=x)["y"]
    engine.weight_streaming_budget_v2 = 0
    least = mib("VmRSS")
    for budget in (0, 8, 32):
        engine.weight_streaming_budget_v2 = budget << 20
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        assert (engine.run(x=x)["y"] == expected).all()
        print(budget, mib("VmHWM") - least)


if __name__ == "__main__":
    main()
