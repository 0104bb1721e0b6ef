"""`anyrt explain NETWORK`: a network at every stage, from the graph to the assembly.

anyrt explain net.py                        all stages of the network that define(network) makes
anyrt explain net.py:tiny --stage kernels   the fused kernels of the network that tiny(network) makes
anyrt explain net.py --node norm --stage loops   its kernel after each step that transforms loops
anyrt explain net.plan --node conv1 --stage asm --cpu neon
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anyrt.cli.command import Command
from anyrt.cli.show import print_heading

STAGES = ("graph", "kernels", "program", "llvm", "asm")
LOOPS = "loops"  # long, and only printed when asked for


def options(parser: ArgumentParser) -> None:
    """The network, and what of it to print."""
    parser.description = __doc__
    parser.add_argument("network", help="FILE.py or FILE.py:FUNCTION (default: define), or a plan file")
    parser.add_argument("--node", metavar="NAME", help="only this layer or input")
    parser.add_argument(
        "--stage",
        choices=(*STAGES, LOOPS, "all"),
        default="all",
        help="only this stage; loops: the steps that make each kernel (default: all but loops)",
    )
    parser.add_argument(
        "--cpu", metavar="LEVEL", help="for this feature level instead of this machine's: avx2 …"
    )


def run(args: Namespace) -> None:
    """Print the stages that are asked for."""
    from anyrt.cli.script import build_script, split_place
    from anyrt.cli.stages import Stages, choose_target, values_of
    from anyrt.compiler.driver import lower_plan
    from anyrt.plan.file import map_plan, read_plan

    path, function = split_place(args.network)
    file = read_plan(build_script(path, function)) if path.suffix == ".py" else map_plan(path)
    target = choose_target(args.cpu)
    stages = Stages(lower_plan(file, target), target, args.node)
    if args.node is not None:
        values_of(stages.lowered.graph, args.node)  # an unknown name is an error before anything is printed
    found = (stages.graph, stages.kernels, stages.program, stages.llvm, stages.assembly)
    texts = {**dict(zip(STAGES, found, strict=True)), LOOPS: stages.loops}
    wanted = STAGES if args.stage == "all" else (args.stage,)
    for name in wanted:
        if len(wanted) > 1:
            print_heading(name)
        print(texts[name](), end="")


COMMAND = Command("print a network as graph, kernels, host program, LLVM text and assembly", options, run)
