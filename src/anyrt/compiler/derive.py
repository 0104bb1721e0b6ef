"""The computation of a refit: from weights to the constants that the compiler derived from them.

    blobs = named_blobs(graph)                 # the constants of the optimised graph
    derived = derive(blobs, request.weights)   # the constants that depend on weights, as a graph of their own

Each derived constant is computed and rounded separately, as the build did, so that a refit gives the bits of
a build with the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anyrt.ir.graph import Graph, Value, walk
from anyrt.ir.rewrite import transformed
from anyrt.ir.text import print_graph
from anyrt.plan.refit import Refit, WeightsRecord, input_name
from anyrt.prims import build
from anyrt.prims.const import Blob, Const
from anyrt.prims.table import named_blobs, vocabulary

Weights = Sequence[tuple[Blob, WeightsRecord]]


@dataclass(frozen=True, slots=True)
class Derived:
    """The part of a plan for refits, and the additional constants that this requires."""

    refit: Refit
    constants: Mapping[str, Blob]


def derive(blobs: Mapping[str, Blob], weights: Weights, *, is_free: bool, is_stripped: bool) -> Derived:
    """The constants of a graph that are derived from weights. If the weights stay those of the build,
    constants of one element are excluded, since kernels contain them as numbers."""
    walker = _Walker({id(blob): input_name(k) for k, (blob, _) in enumerate(weights)}, blobs)
    derived = [n for n, b in blobs.items() if b.origin is not None and (is_free or b.size != 1)]
    for name in derived:
        walker.output(name, blobs[name])
    # Dynamic ranges are constants, too, so that an engine knows them one by one.
    ranges = {f"range{k}": blob for k, (blob, r) in enumerate(weights) if r.range_of is not None}
    ranges = {n: blob for n, blob in ranges.items() if walker.weights[id(blob)] in walker.inputs}
    for name, blob in ranges.items():
        walker.output(name, blob)
    derived += ranges
    graph = Graph(tuple(walker.inputs.items()), tuple(walker.outputs.items()))
    names = {id(blob): name for name, blob in blobs.items()}
    more = {f"refit.{n}": b for n, b in named_blobs(graph).items() if id(b) not in names}
    text = print_graph(graph, vocabulary({**blobs, **more})) if derived else ""
    refit = Refit(tuple(r for _, r in weights), text, tuple(derived), is_free, is_stripped)
    return Derived(refit, {**more, **ranges})


@dataclass(slots=True)
class _Walker:
    """Names of the values in a refit; `weights`: those of weights, by the identity of their constants."""

    weights: Mapping[int, str]
    blobs: Mapping[str, Blob]
    inputs: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    known: dict[int, str] = field(default_factory=dict)

    def output(self, name: str, blob: Blob) -> None:
        """Compute `name` as the constant is computed."""
        self.known.setdefault(id(blob), name)
        self.outputs[name] = (
            self._input(self.weights[id(blob)], blob) if self._is_weights(blob) else self._computed(blob)
        )

    def _is_weights(self, blob: Blob) -> bool:
        return blob.origin is not None and blob.origin.value is None

    def _computed(self, blob: Blob) -> Value:
        value = None if blob.origin is None else blob.origin.value
        assert value is not None, "it depends on weights"
        for below in [v.op.blob for v in walk([value]) if isinstance(v.op, Const)]:
            if below.origin is not None and not self._is_weights(below) and id(below) not in self.known:
                self.output(f"made{len(self.known)}", below)
        whole = transformed(Graph((), (("", value),)), lambda old, new: self._read(new))
        return whole.outputs[0][1]

    def _read(self, value: Value) -> Value:
        """An input in place of a constant that is passed in, or computed before."""
        if not isinstance(value.op, Const) or value.op.blob.origin is None:
            return value
        blob, shape = value.op.blob, value.op.shape
        name = self.weights[id(blob)] if self._is_weights(blob) else self.known[id(blob)]
        return build.reshape(self._input(name, blob), shape)

    def _input(self, name: str, blob: Blob) -> Value:
        return self.inputs.setdefault(name, build.param(name, (blob.size,), blob.dtype))
