"""Splits a graph of PyTorch into engines for supported operators, and parts in PyTorch for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from anyrt.integrations.torch_engine import Refused, Run, engine_of, lowered

Say = Callable[[str], None]


def parts_of(module: GraphModule, inputs: Sequence[torch.Tensor], refused: Refused, say: Say) -> Run:
    """The function that executes the graph, with engines around the unsupported operators. If there are none,
    the whole graph stays in PyTorch."""
    if not refused.operators:
        return _run_of(module)
    graph = lowered(module, inputs).module(check_guards=False)
    assert isinstance(graph, GraphModule), "an exported program has a graph"
    fused = CapabilityBasedPartitioner(graph, _Supported(refused.operators)).partition_and_fuse()
    for name, part in fused.named_children():
        if isinstance(part, GraphModule):
            setattr(fused, name, _Part(part, say))
    return _run_of(fused)


def _run_of(module: torch.nn.Module) -> Run:
    run: Run = module
    return run


class _Supported(OperatorSupportBase):  # type: ignore[misc]  # PyTorch is not installed during type checks
    """Accepts every operator except the unsupported ones."""

    def __init__(self, blamed: frozenset[str]) -> None:
        self._blamed = blamed

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        """Whether an engine may compute the node."""
        return node.op == "call_function" and str(node.target) not in self._blamed


class _Part(torch.nn.Module):  # type: ignore[misc]  # as above
    """A part of a graph, from which the first call builds an engine."""

    def __init__(self, part: GraphModule, say: Say) -> None:
        super().__init__()
        self._part = part
        self._say = say
        self._run: Run | None = None
        (output,) = part.graph.find_nodes(op="output")
        self._gives_one = isinstance(output.args[0], Node)

    def forward(self, *inputs: Any) -> Any:  # Any: tensors, and numbers for dynamic sizes
        if self._run is None:
            try:
                run = engine_of(self._part, inputs)
            except Refused as refused:
                self._say(f"{refused}; a part stays in PyTorch")
                run = self._part
            self._run = run
        outputs = self._run(*inputs)
        return outputs[0] if self._gives_one and isinstance(outputs, list) else outputs
