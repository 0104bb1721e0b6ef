"""If, Loop and Scan: loops and conditionals of the network, from graphs of the model.

The graph of a loop is added once, with tensors for its inputs in any iteration. If that is not possible,
because tensors change their shapes between iterations or sequences grow, a loop with a known number of
iterations is unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyrt.api.compose.regions import Choice, Iterations
from anyrt.api.compose.sizes import lengths
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor
from anyrt.core.counts import counts
from anyrt.core.dims import Dim, Expr, Fn
from anyrt.core.enums import DataType, SampleMode
from anyrt.core.errors import AnyrtError, ArgumentError, DTypeError, GraphError, ShapeError
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph
from anyrt.onnx.joined import JOINED, RANKED, RanksDiffer
from anyrt.onnx.node import Argument, Border, Node, importer

MOST_WRITTEN = 1024  # maximum iterations of an unrolled loop
THEN, ELSE = "then_branch", "else_branch"


@importer("If")
def if_(node: Node) -> list[Argument]:
    """A conditional; if the condition is constant, the other branch is ignored."""
    flag = node.input(0).reshape(())
    known = node.ints(flag)
    if known is not None:
        return node.body(THEN if known[0] else ELSE)(())
    before, failed = node.network.num_layers, dict[str, AnyrtError]()
    choice, branches = Choice(node, flag), dict[str, list[Argument]]()
    joined = node.has(JOINED)
    one = _is_one(node, flag)
    for name, holds in ((THEN, flag), (ELSE, ~flag)):
        enter = _narrowed(node, one, choice.enter) if name == THEN else choice.enter
        try:
            branches[name] = node.body(name)((), enter, trial=joined, holds=holds)
        except (ShapeError, ArgumentError, GraphError) as error:
            if not joined:
                raise
            failed[name] = error
    if not failed:
        return [_either(node, choice, a, b) for a, b in zip(branches[THEN], branches[ELSE], strict=True)]
    if len(failed) == 2:
        raise failed[THEN]
    state_of(node.network).retract(before)
    return _only(node, flag, one, failed)


def _only(node: Node, flag: Tensor, one: Dim | None, failed: Mapping[str, AnyrtError]) -> list[Argument]:
    """The only branch without errors, with an assertion that the condition selects it."""
    ((name, error),) = failed.items()
    right = ~flag if name == THEN else flag
    around = node.conditions
    if any(node.symbols(x) is None for x in around[1:]):
        raise error
    for x in around:
        right = right | ~x
    message = f"choose the other branch, since {name} has an error: {error}"
    node.add("add_assertion", right, message)
    border = _narrowed(node, one, lambda x: x) if name == ELSE else None
    return node.body(THEN if name == ELSE else ELSE)((), border)


def _is_one(node: Node, flag: Tensor) -> Dim | None:
    """The size that a condition compares with 1, if it does so."""
    known = node.symbols(flag)
    match None if known is None else known.reshape(-1)[0]:
        case Expr(terms=(((Fn(op="eq", args=(1, size) | (size, 1)),), 1),)):
            return size
    return None


def _narrowed(node: Node, one: Dim | None, border: Border) -> Border:
    """A border inside which this size is 1. Slices are padded, since the branch that is not selected is also
    built for tensors without elements along it."""

    def narrow(it: ITensor) -> ITensor:
        x = node.tensor(border(it))
        shape = node.value(x).shape
        if one is None or one not in shape:
            return x.it
        sizes = [1 if size == one else n for size, n in zip(shape, lengths(x), strict=True)]
        return node.slice(x, [0] * x.rank, sizes, mode=SampleMode.FILL).it

    return narrow


def _either(node: Node, choice: Choice, a: Argument, b: Argument) -> Argument:
    """The output of the selected branch."""

    def chosen(a: Tensor, b: Tensor) -> Tensor:
        if set(a.sizes) | set(b.sizes) <= {1}:  # one element each, of any rank, for operations that broadcast
            a, b = node.aligned(a, b)
        _check_alike(node, a, b)
        return choice.leave(a, b)

    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _of_any_rank(node, choice, a, b) if node.has(RANKED) else chosen(a, b)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [chosen(x, y) for x, y in zip(a, b, strict=True)]
    got = f"{_kind(a)} if true and {_kind(b)} if false"
    raise node.unsupported(
        got, "make the condition a constant of the model, or return the same kind from both branches"
    )


def _of_any_rank(node: Node, choice: Choice, a: Tensor, b: Tensor) -> Tensor:
    """The output of the selected branch, with its rank if the ranks differ."""
    is_one = a.rank == b.rank and state_of(a.it).rank is state_of(b.it).rank is None
    most, ranks = max(a.rank, b.rank), () if is_one else [_rank(node, x) for x in (a, b)]
    a, b = (x.unsqueeze(*range(x.rank, most)) for x in (a, b))
    _check_types(node, a, b)
    result = choice.leave(a, b)
    state_of(result.it).rank = state_of(choice.leave(*ranks).it) if ranks else None
    return result


def _rank(node: Node, x: Tensor) -> Tensor:
    """The rank of a tensor, which may be data-dependent."""
    rank = state_of(x.it).rank
    return node.constant(x.rank, DataType.INT64) if rank is None else node.tensor(rank.it)


def _kind(value: Argument) -> str:
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return "no value" if value is None else "a tensor"


def _check_alike(node: Node, a: Tensor, b: Tensor) -> None:
    _check_types(node, a, b)
    if a.rank == b.rank and state_of(a.it).rank is state_of(b.it).rank is None:
        return
    if not node.has(RANKED):
        raise RanksDiffer
    got, wanted = f"shape {a.sizes} if true and {b.sizes} if false", "the same rank in both branches"
    do = "reshape the output of one branch, or make the condition constant in the model"
    raise ShapeError("AR123", node.where, got, wanted, do)


def _check_types(node: Node, a: Tensor, b: Tensor) -> None:
    if a.dtype is not b.dtype:
        got = f"{a.dtype.name} if true and {b.dtype.name} if false"
        raise DTypeError("AR203", node.where, got, "one type", "cast the output of one branch")


@importer("Loop")
def loop(node: Node) -> list[Argument]:
    """A loop with recurrent tensors; the number of collected elements is that of the iterations, which may be
    data-dependent."""
    turns, go = node.optional(0), node.optional(1)
    count = None if turns is None else node.ints(turns)
    goes = (1,) if go is None else node.ints(go)
    states = [s for s in node.arguments[2:] if isinstance(s, Tensor)]
    written = count is not None and goes is not None and count[0] <= MOST_WRITTEN
    if len(states) == len(node.arguments[2:]):
        before = node.network.num_layers
        try:
            return _looped(node, turns, go, states, written)
        except AnyrtError:
            if not written:
                raise
            state_of(node.network).retract(before)
    if count is None or goes is None or not written:
        got = "sequences or optionals that iterations pass on, with a data-dependent trip count"
        raise node.unsupported(got, f"make the trip count a constant of the model, at most {MOST_WRITTEN}")
    return _written_out(node, count[0] if goes[0] else 0)


def _looped(
    node: Node, turns: Tensor | None, go: Tensor | None, states: Sequence[Tensor], trial: bool
) -> list[Argument]:
    """The loop as a loop of the network. `trial`: do not report problems, since there is an alternative."""
    part = Iterations(node)
    inner = [part.state(s) for s in states]
    results = node.body("body")([*_begin(node, part.counter()), *inner], trial=trial)
    again, nexts, collected = _results(node, results, len(states))
    collected = [_as_declared(node, 1 + len(states) + k, x) for k, x in enumerate(collected)]
    for state, first, following in zip(inner, states, nexts, strict=True):
        part.then(state, _like_first(node, first, following))
    _limit(node, part, turns, go, again)
    out = [*(part.last(s) for s in inner), *(part.all(x) for x in collected)]
    if trial:
        counted(Graph((), tuple((str(n), node.value(x)) for n, x in enumerate(out))))
    return [*out]


def _begin(node: Node, turn: Tensor) -> list[Tensor]:
    """The first two inputs of a loop's graph: the iteration, and the condition, which is True inside an
    iteration."""
    inputs = node.body_inputs("body")
    ranks = [len(v.type.tensor_type.shape.dim) for v in inputs[:2]]
    values = [turn, node.constant(True)]
    return [x.reshape((1,) * rank) for x, rank in zip(values, ranks, strict=True)]


def _results(node: Node, values: list[Argument], states: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The condition, the next states, and the collected outputs of a loop's graph, which must be tensors."""
    tensors = [x for x in values if isinstance(x, Tensor)]
    if len(tensors) < len(values):
        raise node.unsupported("a sequence as an output of an iteration", "stack its tensors")
    if len(tensors) < 1 + states:
        got = f"{len(tensors)} outputs of the body for {states} states"
        raise GraphError("AR417", node.where, got, f"a condition and {states} or more outputs")
    for x in tensors:
        _check_rank(node, x)
    return tensors[0], tensors[1 : 1 + states], tensors[1 + states :]


def _as_declared(node: Node, output: int, x: Tensor) -> Tensor:
    """Output `output` of an iteration, with the declared sizes for data-dependent ones, since all iterations
    have the same shape. One axis at a time: other shapes have the same volume."""
    dims = node.body_outputs("body")[output].type.tensor_type.shape.dim
    axes = [axis for axis, size in enumerate(node.value(x).shape) if counts(size)]
    if len(dims) != x.rank or not all(dims[axis].HasField("dim_value") for axis in axes):
        return x
    for axis in axes:
        sizes = lengths(x)
        sizes[axis] = dims[axis].dim_value
        x = x.reshape(sizes)
    return x


def _limit(node: Node, part: Iterations, turns: Tensor | None, go: Tensor | None, again: Tensor) -> None:
    """Add the trip limits of the loop."""
    goes = None if go is None else go.reshape(())
    if node.ints(again) == (1,):  # the condition before the first iteration is the only one
        if turns is None:
            got = "a loop without a trip count, whose condition is always true"
            raise GraphError("AR417", node.where, got, "a loop with an end")
        if goes is not None and node.ints(goes) != (1,):
            turns = node.where_(goes, turns.reshape(()), node.constant(0, turns.dtype))
        part.limit(turns)
        return
    state = part.state(node.constant(True) if goes is None else goes)
    part.then(state, again.reshape(()))
    if turns is not None:
        part.limit(turns)
    part.go_on(state)


def _like_first(node: Node, first: Tensor, following: Tensor) -> Tensor:
    """The recurrent tensor of an iteration, with the shape of the initial tensor."""
    a, b = node.value(first).type, node.value(following).type
    if a == b:
        return following
    pairs = zip(a.shape, b.shape, strict=False)
    differ = any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in pairs)
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape) or differ:
        do = "make the trip count a constant of the model, so that the loop can be unrolled"
        raise ShapeError(
            "AR123",
            node.where,
            f"{b} as the result of an iteration",
            f"{a}, the shape before the first iteration",
            do,
        )
    return following  # the recurrence checks that its sizes equal these, axis by axis


def _written_out(node: Node, count: int) -> list[Argument]:
    """The unrolled loop."""
    states = list(node.arguments[2:])
    collected: list[list[Tensor]] = [[] for _ in node.outputs_named[len(states) :]]
    for turn in range(count):
        begin = _begin(node, node.constant(turn, DataType.INT64))
        again, *results = node.body("body")([*begin, *states])
        states = results[: len(states)]
        for kept, x in zip(collected, results[len(states) :], strict=True):
            kept.append(_tensor(node, x).unsqueeze(0))
        goes = node.ints(_tensor(node, again))
        if goes is None:
            got = "a data-dependent condition in a loop that must be unrolled"
            raise node.unsupported(got, "use recurrent tensors of one shape")
        if not goes[0]:
            break
    if not all(collected):
        raise node.unsupported("no iteration, for outputs of unknown sizes", "remove the loop")
    return [*states, *(node.concat(kept, 0) for kept in collected)]


def _tensor(node: Node, value: Argument) -> Tensor:
    if not isinstance(value, Tensor):
        raise node.unsupported("a sequence as a condition or as a collected output", "use tensors")
    _check_rank(node, value)
    return value


def _check_rank(node: Node, x: Tensor) -> None:
    """Raise an error if a recurrent tensor has a data-dependent rank."""
    if state_of(x.it).rank is not None:
        got, do = f"{x.it.name}, whose rank is data-dependent", "reshape the output of one branch of its If"
        raise ShapeError("AR123", node.where, got, "the same rank in every iteration", do)


@importer("Scan")
def scan(node: Node) -> list[Argument]:
    """A loop along axes of tensors."""
    if node.version < 9:
        return _scan_of_batches(node)
    inputs = node.present()
    states = len(inputs) - node.required("num_scan_inputs", 1)
    along = inputs[states:]
    declared = node.attr("scan_input_axes", (0,) * len(along))
    axes = [a % x.rank for a, x in zip(declared, along, strict=True)]
    return _scanned(node, inputs[:states], along, axes, None)


def _scanned(
    node: Node, first: Sequence[Tensor], along: Sequence[Tensor], axes: Sequence[int], count: Tensor | None
) -> list[Argument]:
    """The final states and the collected outputs; `count`: the iterations, if there are no slices."""
    sizes = {x.sizes[axis] for x, axis in zip(along, axes, strict=True)} - {-1}
    if len(sizes) > 1:
        raise ShapeError(
            "AR123", node.where, f"slices of {sorted(sizes)}", "equal numbers of slices", "slice the inputs"
        )
    part = Iterations(node, along[0].size(axes[0]))
    every = part.length
    if count is not None:
        part = Iterations(node, count)
        part.length = every
    older = node.version < 9
    ways = node.attr("directions" if older else "scan_input_directions", (0,) * len(along))
    inner = [part.state(s) for s in first]
    slices = [part.each(x, a, bool(w)) for x, a, w in zip(along, axes, ways, strict=True)]
    results = [_tensor(node, x) for x in node.body("body")([*inner, *slices])]
    for state, start, following in zip(inner, first, results, strict=False):
        part.then(state, _like_first(node, start, following))
    collected = results[len(inner) :]
    out_axes = node.attr("scan_output_axes", (0,) * len(collected))
    out_ways = node.attr("scan_output_directions", (0,) * len(collected))
    return [
        *(part.last(s) for s in inner),
        *(
            part.all(x, a % (x.rank + 1), bool(w))
            for x, a, w in zip(collected, out_axes, out_ways, strict=True)
        ),
    ]


def _scan_of_batches(node: Node) -> list[Argument]:
    """Scan of opset 8: separate for each batch element, along the second axis."""
    lengths, inputs = node.optional(0), [node.input(i) for i in range(1, len(node.arguments))]
    states = len(inputs) - node.required("num_scan_inputs", 1)
    if lengths is not None and any(node.attr("directions", (0,))):
        raise node.unsupported("sequence_lens with a backward scan", "use opset 9")
    outer = Iterations(node, inputs[0].size(0))
    entries = [outer.each(x) for x in inputs]
    count = None if lengths is None else outer.each(lengths)
    along = entries[states:]
    results = _scanned(node, entries[:states], along, [0] * len(along), count)
    return [outer.all(_tensor(node, x)) for x in results]
