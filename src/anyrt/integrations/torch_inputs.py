"""Reduces the inputs and outputs of a graph of PyTorch's compiler to tensors.

Weights become constants and settings of modules become numbers. Sizes are read from the tensors that have
them. PyTorch computes the outputs that are numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from anyrt.integrations.torch_engine import Run


def is_weight(node: Node) -> bool:
    """Whether an input is a parameter or a buffer."""
    return "_dynamo_static_input_type" in (node.meta.get("tensor_dict") or {})


def is_number(node: Node) -> bool:
    """Whether an input is a number in a tensor, which all uses convert back to a number."""
    value = node.meta.get("example_value")
    is_scalar = isinstance(value, torch.Tensor) and value.dim() == 0 and not node.meta.get("tensor_dict")
    return is_scalar and all(user.target == "item" for user in node.users)


def with_constants(graph: GraphModule, inputs: Sequence[Any]) -> GraphModule:  # Any: tensors and sizes
    """The graph as a function of the tensors of a call, with the other inputs replaced by those in
    `inputs`."""
    out = GraphModule(graph, copy.deepcopy(graph.graph))
    nodes = list(out.graph.find_nodes(op="placeholder"))
    sizes = _sizes(nodes)
    for i, (node, value) in enumerate(zip(nodes, inputs, strict=True)):
        with out.graph.inserting_after(nodes[-1]):
            if is_weight(node):
                out.register_buffer(f"weight_{i}", value.detach())
                node.replace_all_uses_with(out.graph.get_attr(f"weight_{i}"))
            elif is_number(node):
                _put(node, value.item())
            elif not isinstance(value, torch.Tensor):
                _ask(out.graph, node, sizes)
    for node in nodes:
        if not node.users and not _is_argument(node):
            out.graph.erase_node(node)
    out.recompile()
    return out


def with_numbers(graph: GraphModule, built: Callable[[GraphModule], Run]) -> Run:
    """The function that executes a graph: `built` computes outputs that are tensors, PyTorch computes
    numbers."""
    (output,) = graph.graph.find_nodes(op="output")
    places = [i for i, x in enumerate(output.args[0]) if not _is_tensor(x)]
    if not places:
        return built(graph)
    tensors = built(_only(graph, [i for i in range(len(output.args[0])) if i not in places]))
    numbers = _only(graph, places)

    def both(*inputs: Any) -> list[Any]:  # Any: tensors and numbers
        outputs = list(tensors(*inputs))
        for i, number in zip(places, numbers(*inputs), strict=True):
            outputs.insert(i, number)
        return outputs

    return both


def _only(graph: GraphModule, places: Sequence[int]) -> GraphModule:
    """The part of the graph that computes the outputs at `places`."""
    out = GraphModule(graph, copy.deepcopy(graph.graph))
    (output,) = out.graph.find_nodes(op="output")
    output.args = (tuple(output.args[0][i] for i in places),)
    out.graph.eliminate_dead_code()
    out.recompile()
    return out


def _is_tensor(output: object) -> bool:
    if not isinstance(output, Node):
        return False
    return output.op == "get_attr" or isinstance(output.meta.get("example_value"), torch.Tensor)


def _is_argument(node: Node) -> bool:
    is_tensor = isinstance(node.meta.get("example_value"), torch.Tensor)
    return is_tensor and not is_weight(node) and not is_number(node)


def _sizes(nodes: Sequence[Node]) -> dict[str, tuple[Node, int]]:
    """For each dynamic size, a tensor and an axis from which it can be read."""
    tensors = [node for node in nodes if _is_argument(node)]
    return {
        str(n): (node, axis)
        for node in reversed(tensors)
        for axis, n in enumerate(node.meta["example_value"].shape)
        if not isinstance(n, int)
    }


def _ask(graph: Graph, node: Node, sizes: dict[str, tuple[Node, int]]) -> None:
    """Replace a size by that of a tensor; a size that no tensor has stays an input, which is rejected
    later."""
    asked = sizes.get(str(node.meta.get("example_value")))
    if asked is not None:
        node.replace_all_uses_with(graph.call_function(torch.ops.aten.sym_size.int, asked))


def _put(node: Node, number: float) -> None:
    """Replace the operators that read a number from its tensor by the number."""
    for taken in list(node.users):
        for user in list(taken.users):
            user.args = map_arg(user.args, lambda n, taken=taken: number if n is taken else n)
            user.kwargs = map_arg(user.kwargs, lambda n, taken=taken: number if n is taken else n)
        taken.graph.erase_node(taken)
