"""Products of a loop's slices with loop invariants, computed for all slices at once before the loop.

    again: y[t] = gather(x, t) · w        ->        z = x · w
                                                    again: y[t] = gather(z, t)

A recurrent layer multiplies each step's input by weights that would be read again in every iteration. One
product of all steps reads them once, and has enough rows for the registers. A hoisted value is computed for
every slice of the tensor that the loop indexes with its counter, for any number of iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anyrt.ir.compute import only_moves
from anyrt.ir.counted import computed_sizes, mentioned, results
from anyrt.ir.graph import Graph, Node, Value, apply, apply_all, users, walk
from anyrt.ir.rewrite import transformed
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.const import Const, Param
from anyrt.prims.contract import Contract
from anyrt.prims.gather import Gather
from anyrt.prims.map import Map, fn_of
from anyrt.prims.repeated import Repeated
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View, moving


def hoist_products(graph: Graph) -> Graph:
    """The graph with such products before its loops."""
    done: dict[Node, Sequence[Value]] = {}

    def change(_: Value, new: Value) -> Value:
        if not isinstance(new.op, Repeated):
            return new
        if new.node not in done:
            done[new.node] = _hoisted(new.node, new.op)
        return done[new.node][new.index]

    return transformed(graph, change)


def _hoisted(node: Node, op: Repeated) -> Sequence[Value]:
    """The results of a loop whose products were hoisted."""
    turn = _Turn(op.body, node.args)
    moved = turn.moved()
    if not moved:
        return [Value(node, k) for k in range(len(node.types))]
    inputs, instead = list(op.body.inputs), dict[Value, Value]()
    for n, (value, whole) in enumerate(moved.items()):
        name = f"hoisted{n}"
        inputs.append((name, build.param(name, whole.shape, whole.dtype)))
        instead[value] = turn.slice(value, inputs[-1][1])
    body = transformed(
        Graph(
            tuple(inputs), op.body.outputs, op.body.names, op.body.symbols, op.body.makers, op.body.updates
        ),
        lambda old, new: instead.get(old, new),
    )
    return apply_all(Repeated(body, op.name), *node.args, *moved.values())


@dataclass(slots=True)
class _Turn:
    """A loop's body, with the operands of its node. `whole`: the values of one iteration as values of all
    iterations, along a new first axis; `at`: the scalar that selects the iteration; `heavy`: those with
    products."""

    body: Graph
    args: Sequence[Value]
    whole: dict[Value, Value] = field(default_factory=dict)
    at: dict[Value, Value] = field(default_factory=dict)
    heavy: set[Value] = field(default_factory=set)

    def moved(self) -> Mapping[Value, Value]:
        """The last values with products that depend only on slices, with their values for all iterations."""
        inputs = [v for _, v in self.body.inputs]
        count = len(results(self.body))
        around = dict(zip(inputs[count:], self.args[count:], strict=True))
        ends = [v for _, v in self.body.outputs]
        order, own = list(walk(ends)), {sym for sym, _ in computed_sizes(self.body)}
        counted = {s for s, v in zip(inputs, ends, strict=False) if _counts(s, v)}
        known = {v for v in order if not v.args and v not in inputs}
        for value in order:
            if not own.isdisjoint(mentioned((value,))):  # of a size that each iteration computes
                continue
            if _is_free(value) and around.keys() >= {*value.args}:
                around[value] = apply_all(value.op, *(around[a] for a in value.args))[value.index]
            if value.args and {*value.args} - counted <= known:
                counted.add(value)
            self._learn(value, around, counted)
        uses = users(self.body)
        last = [v for v in order if v in self.heavy and (v in ends or not self.heavy.issuperset(uses[v]))]
        return {v: self.whole[v] for v in last}

    def slice(self, value: Value, whole: Value) -> Value:
        """The value of an iteration, selected from those of all iterations."""
        index = build.reshape(self.at[value], (1,) * whole.type.rank)
        # With no slices there is no iteration, or it would have read one before.
        taken = build.gather(
            whole, build.expand(index, (1, *whole.shape[1:])), 0, guarded=whole.shape[0] == 0
        )
        return build.reshape(taken, value.shape)

    def _learn(self, value: Value, around: Mapping[Value, Value], counted: set[Value]) -> None:
        """A value for all iterations: for a slice the tensor, otherwise computed from such values."""
        if isinstance(value.op, Gather):
            self._learn_slice(value, value.op.axis, around.get(value.args[0]), counted)
            return
        sliced = [a for a in value.args if a in self.whole]
        at = {self.at[a] for a in sliced}
        if len(at) != 1 or not {*value.args} - self.whole.keys() <= around.keys():
            return
        whole = self._in_all_turns(value, around)
        if whole is not None:
            self.whole[value], self.at[value] = whole, at.pop()
            if isinstance(value.op, Contract) or not self.heavy.isdisjoint(sliced):
                self.heavy.add(value)

    def _in_all_turns(self, value: Value, around: Mapping[Value, Value]) -> Value | None:
        return _along(value, [self.whole.get(a) for a in value.args], [around.get(a, a) for a in value.args])

    def _learn_slice(self, value: Value, axis: int, tensor: Value | None, counted: set[Value]) -> None:
        index = _scalar(value.args[1])
        if tensor is not None and index in counted and value.shape[axis] == 1:
            order = (axis, *(k for k in range(tensor.type.rank) if k != axis))
            whole = build.transpose(tensor, order)
            self.whole[value] = build.reshape(whole, (tensor.shape[axis], *value.shape))
            self.at[value] = index


def _is_free(value: Value) -> bool:
    """True for values that depend only on their operands, wherever they are computed."""
    return not isinstance(value.op, Param) and (not value.args or only_moves(value.compute))


def _along(value: Value, whole: Sequence[Value | None], args: Sequence[Value]) -> Value | None:
    """A value along a new first axis, which some operands have (`whole`) and the others of `args` lack; None
    if that is not known."""
    operands = [x if w is None else w for w, x in zip(whole, args, strict=True)]
    size = next(w.shape[0] for w in whole if w is not None)
    match value.op:
        case Map():
            wide = (x if x in whole else build.reshape(x, (1, *x.shape)) for x in operands)
            return apply(value.op, *wide)
        case Contract() as op:
            return apply(_with_turns(op, *(w is not None for w in whole)), *operands)
        case Reshape(shape):
            return build.reshape(operands[0], (size, *shape))
        case View(shape, axes):
            more = (moving(a.start, [(k + 1, step) for k, step in a.terms]) for a in axes)
            return apply(View((size, *shape), (moving(0, [(0, 1)]), *more)), operands[0])
        case _:
            return None


def _with_turns(op: Contract, in_left: bool, in_right: bool) -> Contract:
    """The same for all iterations, along a first axis of the left factor, of the right one, or of both."""
    new = (1 + max((*op.left, *op.right)),)
    left, right = new * in_left + op.left, new * in_right + op.right
    return replace(op, left=left, right=right, out=new + op.out)


def _counts(state: Value, then: Value) -> bool:
    """True if each iteration adds 1 to a state."""
    if fn_of(then) != "add" or state not in then.args:
        return False
    others = [a for a in then.args if a != state]
    return len(others) == 1 and isinstance(others[0].op, Const) and number(others[0]) == 1


def _scalar(value: Value) -> Value:
    """The number that is repeated to a tensor, through moves."""
    while value.type.rank and only_moves(value.compute) and len(value.args) == 1:
        value = value.args[0]
    return value
