"""`anyrt explain NETWORK`: show a network on one page, or stage by stage.

anyrt explain net.py               layers and kernels of define(network)
anyrt explain net.py --node conv   layers with "conv" in their names
anyrt explain net.py --stage all   the graph, the kernels … the assembly
anyrt explain net.py:tiny --stage kernels
                                   the fused kernels of tiny(network)
anyrt explain net.py --node norm --stage loops
                                   a kernel after each loop transformation
anyrt explain net.plan --node conv1 --stage asm --cpu neon
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anyrt.cli.command import Command
from anyrt.cli.show import print_heading, print_json
from anyrt.core.errors import ArgumentError
from anyrt.ir.graph import Graph
from anyrt.plan.plan import Plan

STAGES = ("graph", "kernels", "program", "llvm", "asm")
LOOPS, STEPS = "loops", "steps"  # long, and only printed on request


def options(parser: ArgumentParser) -> None:
    """The network, and the stages to print."""
    parser.description = __doc__
    parser.add_argument(
        "network", help="FILE.py, FILE.py:FUNCTION (default function: define), an ONNX model or a plan"
    )
    parser.add_argument(
        "--node", metavar="NAME", help="show only the layers and inputs whose names contain NAME"
    )
    parser.add_argument(
        "--stage",
        choices=(*STAGES, LOOPS, STEPS, "all"),
        help="stage to print; loops: each kernel after every transformation; steps: only after those that "
        "applied; all: graph to asm (default: a summary page)",
    )
    parser.add_argument(
        "--cpu",
        metavar="LEVEL",
        help="compile for this feature level, such as avx2 (default: that of this machine)",
    )


def run(args: Namespace) -> None:
    """Print the requested stages."""
    from anyrt.cli.page import Page
    from anyrt.cli.script import plan_file, plan_source
    from anyrt.cli.stages import Stages, choose_target
    from anyrt.compiler.driver import lower_plan

    file = plan_file(plan_source(args.network))
    target = choose_target(args.cpu)
    stages = Stages(lower_plan(file, target), target, args.node)
    if args.node is not None:
        _check_node(args.node, file.plan, stages.lowered.graph)
    if args.stage is None:
        page = Page(file.plan, stages, f"anyrt explain {args.network}")
        if args.json:
            print_json(page.as_json())
        else:
            page.print()
        return
    methods = (stages.graph, stages.kernels, stages.program, stages.llvm, stages.assembly)
    texts = {**dict(zip(STAGES, methods, strict=True)), LOOPS: stages.loops, STEPS: stages.steps}
    stage_names = STAGES if args.stage == "all" else (args.stage,)
    if args.json:
        print_json({name: texts[name]() for name in stage_names})
        return
    for name in stage_names:
        if len(stage_names) > 1:
            print_heading(name)
        print(texts[name](), end="")


def _check_node(node: str, plan: Plan, graph: Graph) -> None:
    """Raise AR304 for an unknown name, and for a layer that the passes removed, before printing."""
    from anyrt.cli.stages import named_like, names_of

    if node in {layer.name for layer in plan.layers} and node not in names_of(graph):
        got = f"{node!r}, which is not in the optimized graph"
        do = "see `--stage graph`: a pass replaced it, an equal layer computes it, or no output needs it"
        raise ArgumentError("AR304", "--node", got, "a layer of the optimized graph", do)
    named_like(graph, node)


COMMAND = Command("show a network's layers, kernels, LLVM text and assembly", options, run)
