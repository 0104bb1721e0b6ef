"""Attention of every kind at sizes for which its rows are computed in tiles."""

from dataclasses import replace

import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import AttentionNormalizationOp, CausalMaskKind, DataType, LayerType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import Layer
from anyrt.passes import PASSES
from anyrt.prims.build import param
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

SMALL = replace(REFERENCE, l2_bytes=1 << 15)  # so that a few rows count as many
F, BOOL, INT32 = DataType.FLOAT, DataType.BOOL, DataType.INT32
ATTENTION = OPS[LayerType.ATTENTION_INPUT]
S, T = Sym("query.2", 0, 300), Sym("key.2", 0, 300)
UPPER, LOWER = CausalMaskKind.UPPER_LEFT, CausalMaskKind.LOWER_RIGHT
# Attributes, number of key heads, additional operands with their types.
KINDS = {
    "plain": ({}, 4, {}),
    "upper left": ({"causal_kind": UPPER}, 4, {}),
    "lower right": ({"causal_kind": LOWER}, 4, {}),
    "groups": ({"causal_kind": UPPER}, 2, {}),
    "mask of bools": ({}, 2, {3: ((1, 4, S.dim, T.dim), BOOL)}),
    "mask of floats": ({}, 4, {3: ((2, 1, S.dim, T.dim), F)}),
    "lengths": ({"causal_kind": LOWER}, 4, {6: ((2,), INT32)}),
    "no softmax": ({"norm_op": AttentionNormalizationOp.NONE, "causal_kind": UPPER}, 4, {}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_attention_is_made_in_tiles_and_agrees_with_the_interpreter(kind):
    values, heads, others = KINDS[kind]
    shapes = {
        0: ((2, 4, S.dim, 16), F),
        1: ((2, heads, T.dim, 16), F),
        2: ((2, heads, T.dim, 16), F),
        **others,
    }
    operands = [param(ATTENTION.inputs[k].name, *shapes[k]) if k in shapes else None for k in range(7)]
    (y,) = expand_layer(ATTENTION, Layer("layer", ATTENTION.attrs(**values), tuple(operands)))
    inputs = tuple((x.op.name, x) for x in operands if x is not None)
    graph = Graph(inputs, (("y", y),), {}, (Symbol(S, "query", 2), Symbol(T, "key", 2)))
    for step in PASSES:
        graph = step.run(graph)
    usual = Sizes({S.name: 70, T.name: 90})
    lowered = native.lower(graph, constant_offsets(graph), usual, machine=SMALL)
    assert "fused tile" in {x.kind for x in lowered.schedules[0].launches}
    sizes = [{S.name: s, T.name: t} for s, t in ((70, 40), (1, 200), (33, 0))]
    assert [(m.kernel, m.finding, m.sizes) for m in verify(lowered, host(), sizes)] == []
