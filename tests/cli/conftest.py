"""A small network as a file and as a plan, and an input for it."""

from pathlib import Path

import numpy as np
import pytest

from anyrt.cli import progress
from anyrt.cli.script import build_script

NETWORK = """
import numpy as np
import anyrt as trt


def define(network):
    x = network.add_input("x", trt.float32, (1, 2, 2, 2))
    scale = network.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.array([2], np.float32))
    scale.name = "double"
    relu = network.add_activation(scale.get_output(0), trt.ActivationType.RELU)
    relu.name = "relu"
    relu.get_output(0).name = "y"
    network.mark_output(relu.get_output(0))


def dynamic(network, config):
    x, y = (network.add_input(name, trt.float32, (-1, 8)) for name in "xy")
    total = network.add_elementwise(x, y, trt.ElementWiseOperation.SUM)
    total.name = "total"
    network.mark_output(total.get_output(0))
    profile = network.builder.create_optimization_profile()
    for name in "xy":
        profile.set_shape(name, (1, 8), (64, 8), (512, 8))
    config.add_optimization_profile(profile)


def wrong(network):
    network.add_input("x", trt.float32, (1, 2))
    network.nonsense


def refused(network):
    x = network.add_input("x", trt.float32, (1, 2))
    network.mark_output(network.add_scale(x, trt.ScaleMode.UNIFORM).get_output(0))


def long(network):
    x = network.add_input("x", trt.float32, (16, 16))
    for n in range(24):
        total = network.add_reduce(x, trt.ReduceOperation.SUM, 1 + n % 2, True)
        product = network.add_elementwise(total.get_output(0), x, trt.ElementWiseOperation.PROD)
        tanh = network.add_activation(product.get_output(0), trt.ActivationType.TANH)
        total.name, product.name, tanh.name = f"sum{n}", f"product{n}", f"row{n}"
        x = tanh.get_output(0)
    network.mark_output(x)


def left_out(network):
    x = network.add_input("x", trt.float32, (1, 2))
    network.add_identity(x).name = "gone"
    network.mark_output(network.add_activation(x, trt.ActivationType.RELU).get_output(0))


def means(network, config):
    x = network.add_input("x", trt.float32, (4, -1))
    for name in ("first", "second"):
        mean = network.add_reduce(x, trt.ReduceOperation.AVG, 2, True)
        mean.name = name
        twice = network.add_elementwise(x, mean.get_output(0), trt.ElementWiseOperation.SUB)
        x = network.add_activation(twice.get_output(0), trt.ActivationType.TANH).get_output(0)
    network.mark_output(x)
    network.mark_output(mean.get_output(0))
    profile = network.builder.create_optimization_profile()
    profile.set_shape("x", (4, 1), (4, 300), (4, 5000))
    config.add_optimization_profile(profile)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "PATIENCE", 1e9)
    Path("net.py").write_text(NETWORK)
    np.save("x.npy", np.float32([-1, 1, -2, 2, -3, 3, -4, 4]).reshape(1, 2, 2, 2))
    return tmp_path


@pytest.fixture
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty kernel cache."""
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(folder / "cache"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("net") / "net.py"
    path.write_text(NETWORK)
    return build_script(path, "define")


@pytest.fixture
def plan(folder: Path, built: bytes) -> str:
    (folder / "net.plan").write_bytes(built)
    return "net.plan"
