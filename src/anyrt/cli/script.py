"""Builds networks that Python files define, for commands that take one.

def define(network):                 # or define(network, config), to add optimization profiles
    x = network.add_input("x", anyrt.float32, (2, 3))
    network.mark_output(network.add_identity(x).get_output(0))
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anyrt.api.building.builder import Builder
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.run.source import mixer
from anyrt.cli.progress import described, talk
from anyrt.core.errors import CompileError
from anyrt.core.flags import strict
from anyrt.onnx.script import call_user, split_place
from anyrt.plan.file import PlanFile, map_plan, read_plan


def plan_source(place: str) -> bytes | Path:
    """Build a Python file or an ONNX model and return the plan, or return the path of a plan file."""
    path, function = split_place(place)
    if path.suffix == ".py":
        return build_script(path, function)
    return build_model(path) if path.suffix == ".onnx" else path


def plan_file(source: bytes | Path) -> PlanFile:
    """Read a plan, with its name for displays."""
    file = read_plan(source, mixer=mixer) if isinstance(source, bytes) else map_plan(source, mixer=mixer)
    return replace(file, plan=replace(file.plan, name=file.shown))


def build_model(path: Path) -> bytes:
    """The plan of an ONNX model; raises all errors."""
    from anyrt import init_libnvinfer_plugins
    from anyrt.onnx.session import build

    logger, monitor = talk()
    init_libnvinfer_plugins(logger, "")
    with strict(), described(path.name, monitor):
        return bytes(memoryview(build(path, logger, monitor=monitor)))


def build_script(path: Path, function: str) -> bytes:
    """The plan of the network that a function in a Python file defines; raises all errors."""
    logger, monitor = talk()
    with strict():
        builder = Builder(logger)
        network, config = INetworkDefinition(builder, 0), builder.create_builder_config()
        network.name, config.progress_monitor = path.stem, monitor
        state_of(network).is_judged = True
        call_user(path, function, network, config)
        plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise CompileError("AR807", str(path), got="the builder returned neither a plan nor an error")
    return bytes(memoryview(plan))
