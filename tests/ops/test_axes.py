"""Named axes of operands: ranks and equal dimensions, as records declare them."""

import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import walk
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import Layer
from anyrt.prims.build import param
from anyrt.prims.checked import Checked
from tests.messages import diagnostic

F, I32, I64 = DataType.FLOAT, DataType.INT32, DataType.INT64
QUERY = (2, 4, 5, 8)


def expanded(kind, shapes, dtypes):
    op = OPS[kind]
    names = [x.name for x in op.inputs]
    inputs = tuple(param(n, s, t) for n, s, t in zip(names, shapes, dtypes, strict=False) if s is not None)
    attrs = {spec.name: spec.enum(0) for spec in op.specs() if spec.name == "cache_mode"}
    attrs |= {"axis": 0} if kind is LayerType.ONE_HOT else {}
    return expand_layer(op, Layer("layer", op.attrs(**attrs), inputs))


def attention(*shapes):
    return expanded(LayerType.ATTENTION_INPUT, shapes, [F] * 4)


@pytest.mark.parametrize(
    ("shapes", "values"),
    [
        (
            [(3, 4, 7, 8)] * 2,
            ("key", (3, 4, 7, 8), "batch = 2", "query"),
        ),
        ([(2, 4, 7, 9)] * 2, ("key", (2, 4, 7, 9), "head_size = 8", "query")),
        ([(2, 4, 7, 8), (2, 4, 6, 8)], ("value", (2, 4, 6, 8), "keys = 7", "key")),
        ([(2, 4, 8)] * 2, ("key", (2, 4, 8), "(batch, key_heads, keys, head_size)")),
        (
            [(2, 4, 7, 8), (2, 4, 7, 8), (1, 2, 5, 7)],
            ("mask", (1, 2, 5, 7), 1, "heads = 4", "query"),
        ),
        (
            [(2, 4, 7, 8), (2, 4, 7, 8), (1, 1, 1, 7)],
            ("mask", (1, 1, 1, 7), "queries = 5", "query"),
        ),
    ],
)
def test_messages_name_the_axis_and_the_operand_that_decides_its_size(shapes, values):
    with pytest.raises(ShapeError, match=diagnostic("AR123", "layer", *values)):
        attention(QUERY, *shapes)


def test_an_axis_that_may_be_1_has_size_1_or_that_of_its_name():
    (y,) = attention(QUERY, (2, 4, 7, 8), (2, 4, 7, 8), (1, 1, 5, 7))
    assert y.shape == QUERY


def test_a_number_is_a_size():
    with pytest.raises(ShapeError, match=diagnostic("AR123", "layer", "values", (3,), 2, 0)):
        expanded(LayerType.ONE_HOT, [(4,), (3,), ()], [I32, F, I64])


def test_sizes_that_a_run_gives_become_conditions():
    batch = Sym("update.0", 0, 9)
    shapes = [(2, 4, 16, 8), (batch.dim, 4, 3, 8), (2,)]
    (y,) = expanded(LayerType.KV_CACHE_UPDATE, shapes, [F, F, I32])
    rules = [rule for v in walk([y]) if isinstance(v.op, Checked) for rule in v.op.requirements]
    results = [(rule.left, rule.right, rule.do) for rule in rules if rule.code == "AR123"]
    assert results == [(batch.dim, 2, "make batch of update and cache equal")]
