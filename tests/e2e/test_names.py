"""A kernel has the same name in the report, in profilers, in the inspector, in every listing and in
assembly."""

import json
import re

import numpy as np
import pytest

import anyrt as trt
from anyrt.backends.cpu.processors import Level
from anyrt.cli.stages import Stages
from anyrt.plan.file import read_plan
from tests.native import lower_plan
from tests.targets import forced

ODD = [
    '"quoted"',
    "back\\slash",
    "new\nline",
    "größe ☃",
    "a+b",
    "a",
    "llvm.sqrt.f32",
    "3x",
    " ",
    "table0",
    "(x)",
]
SHOWN = ['"quoted"', "back\\slash", r"new\nline", *ODD[3:8], "' '", *ODD[9:]]


class Times(trt.IProfiler):
    def __init__(self):
        trt.IProfiler.__init__(self)
        self.names = []

    def report_layer_time(self, layer_name, ms):
        self.names.append(layer_name)


def built(net):
    config = net.builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    return bytes(net.builder.build_serialized_network(net, config))


def profiled(plan):
    """The profiler's entries for one inference of zeros."""
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    context.profiler = times = Times()
    memory = {n: np.zeros((*engine.get_tensor_shape(n),), np.float32) for n in engine}
    assert all(context.set_tensor_address(n, a.ctypes.data) for n, a in memory.items())
    assert context.execute_async_v3(0)
    return times.names


def inspected(plan, format):
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)
    return engine.create_engine_inspector().get_engine_information(format)


def labels(assembly):
    """The function labels in a processor's assembly, and their aliases."""
    matches = re.findall(r'^("?)(\S.*?)\1(?::(?: .*)?| = .*)$', assembly, re.MULTILINE)
    return {json.loads(f'"{name}"') for _, name in matches if not name.startswith(".L")}


def odd_network(net):
    """A network with one kernel for each name."""
    for n, name in enumerate(ODD):
        layer = net.add_scale(
            net.add_input(f"x{n}", trt.float32, (1, 1, 3 + n, 5)),
            trt.ScaleMode.UNIFORM,
            scale=np.float32([2]),
        )
        layer.name = name
        net.mark_output(layer.get_output(0))


def shared_network(net):
    """Kernels that fuse layers, that share a function, that write pieces, and that need filled tables."""
    x, y = (net.add_input(name, trt.float32, (1, 4, 6, 8)) for name in "xy")
    first, second = (net.add_activation(v, trt.ActivationType.TANH) for v in (x, y))
    first.name, second.name = "first", "second"
    total = net.add_elementwise(first.get_output(0), second.get_output(0), trt.ElementWiseOperation.SUM)
    total.name = "total"
    resize = net.add_resize(total.get_output(0))
    resize.name, resize.scales, resize.resize_mode = "larger", (1, 1, 2, 2), trt.InterpolationMode.LINEAR
    both = net.add_concatenation([x, total.get_output(0)])
    both.name = "both"
    same, twin = net.add_identity(x), net.add_identity(y)
    same.name = twin.name = "same"
    for layer in (first, second, resize, both, same, twin):
        net.mark_output(layer.get_output(0))


@pytest.mark.parametrize("define", [odd_network, shared_network])
def test_a_kernel_is_called_the_same_everywhere(net, define):
    define(net)
    plan = built(net)
    whole = json.loads(inspected(plan, trt.LayerInformationFormat.JSON))
    names = [layer["Name"] for layer in whole["Layers"]]
    stages = Stages(lower_plan(read_plan(plan)), forced(Level.AVX2))
    lines = inspected(plan, trt.LayerInformationFormat.ONELINE).splitlines()
    assert profiled(plan) == names
    assert [line.split(", LayerType: ")[0] for line in lines if ", LayerType: " in line] == [
        f"Name: {name}" for name in names
    ]
    assert [name for name in names if name not in whole["Report"]] == []
    kernels = [json.loads(text) for text in re.findall(r'^kernel (".*") \w+ 0\.\.', stages.kernels(), re.M)]
    fills = [name for name in kernels if name not in names]
    assert [name for name in kernels if name in names] == names
    program = stages.program()
    run = program[program.index("\nrun:\n") :].splitlines()[2:]
    assert [line[2 : 2 + len(name)] for line, name in zip(run, names, strict=True)] == names
    assert labels(stages.assembly()) == {*names, *fills}
    assert {n for n in names if n.isidentifier()} <= {*re.findall(r"@(\w+)", stages.llvm())}


def test_odd_names_are_shown_in_one_line(net):
    odd_network(net)
    names = profiled(built(net))
    assert sorted(names) == sorted(SHOWN)


def test_names_of_fused_layers_pieces_and_copies(net):
    shared_network(net)
    assert sorted(profiled(built(net))) == [
        "both[0]",
        "first",
        "same",
        "same#2",
        "second",
        "total+both[1]",
        "total+larger",
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", ["avx2", "neon"])
@pytest.mark.parametrize("name", ODD)
def test_a_layer_of_an_odd_name_is_found_at_every_stage(net, name, level):
    odd_network(net)
    target = forced(Level(level))
    stages = Stages(lower_plan(read_plan(built(net)), target), target, name)
    assert stages.kernels().count("\nkernel ") == 1
    assert stages.program().count("\n") == 1
    assert stages.llvm().count("define ") == 1
    assert stages.assembly().count("\n\t.size\t") == 1


def test_a_layer_that_shares_its_kernel_is_found_beside_the_first_one(net):
    shared_network(net)
    stages = Stages(lower_plan(read_plan(built(net))), forced(Level.AVX2), "second")
    assert stages.kernels().count('kernel "second"') == 1
    assert "@second = alias void (ptr, i64, i64, ptr), ptr @first" in stages.llvm().splitlines()
    assert stages.assembly().splitlines()[-2] == "second = first"
