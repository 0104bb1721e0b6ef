"""Each pass on a small graph: the text before it and after it."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.text import parse_graph, print_graph
from anyrt.passes import PASSES
from anyrt.passes.fold_constants import fold_constants
from anyrt.passes.narrow_constants import narrow_constants
from anyrt.passes.requirements import requirements
from anyrt.passes.simplify import simplify
from anyrt.prims import build
from anyrt.prims.checked import Checked
from anyrt.prims.const import Blob, Const
from anyrt.prims.table import named_blobs, vocabulary
from tests.messages import diagnostic


def parsed(text: str, **blobs: Blob) -> Graph:
    return parse_graph(text, vocabulary(blobs))


def printed(graph: Graph) -> list[str]:
    return print_graph(graph, vocabulary(named_blobs(graph))).splitlines()


def output(value: Value) -> Graph:
    return Graph((), (("out", value),), {})


SHUFFLE = """
v0: FLOAT[2, 3] = Param(name="x", type=FLOAT[2, 3])()
v1: FLOAT[3, 2] = View(shape=(3, 2), axes=(Axis(start=0, out=1, step=1), Axis(start=0, out=0, step=1)))(v0)
v2: FLOAT[2, 3] = View(shape=(2, 3), axes=(Axis(start=0, out=1, step=1), Axis(start=0, out=0, step=1)))(v1)
v3: FLOAT[6] = Reshape(shape=(6))(v2)
v4: FLOAT[3, 2] = Reshape(shape=(3, 2))(v3) "shuffle"
input "x" v0
output "y" v4
"""


def test_simplify_joins_transposes_and_reshapes():
    assert printed(simplify(parsed(SHUFFLE))) == [
        'v0: FLOAT[2, 3] = Param(name="x", type=FLOAT[2, 3])()',
        'v1: FLOAT[3, 2] = Reshape(shape=(3, 2))(v0) "shuffle"',
        'input "x" v0',
        'output "y" v1',
    ]


CASTS = """
v0: HALF[4] = Param(name="x", type=HALF[4])()
v1: FLOAT[4] = Map(fn="cast", dtype=FLOAT)(v0)
v2: HALF[4] = Map(fn="cast", dtype=HALF)(v1)
v3: HALF[4] = Map(fn="exp", dtype=HALF)(v2) "exp"
v4: BF16[4] = Map(fn="cast", dtype=BF16)(v3)
v5: HALF[4] = Map(fn="cast", dtype=HALF)(v4) "narrower"
input "x" v0
output "y" v5
"""


def test_simplify_drops_casts_that_keep_every_value_and_no_others():
    assert printed(simplify(parsed(CASTS))) == [
        'v0: HALF[4] = Param(name="x", type=HALF[4])()',
        'v1: HALF[4] = Map(fn="exp", dtype=HALF)(v0) "exp"',
        'v2: BF16[4] = Map(fn="cast", dtype=BF16)(v1)',
        'v3: HALF[4] = Map(fn="cast", dtype=HALF)(v2) "narrower"',
        'input "x" v0',
        'output "y" v3',
    ]


WEIGHTS = """
v0: FLOAT[2, 3] = Param(name="x", type=FLOAT[2, 3])()
v1: HALF[3] = Const(blob=@"w", shape=(3))()
v2: FLOAT[3] = Map(fn="cast", dtype=FLOAT)(v1)
v3: FLOAT[1, 3] = Reshape(shape=(1, 3))(v2)
v4: FLOAT[2, 3] = Map(fn="mul", dtype=FLOAT)(v0, v3) "scale"
input "x" v0
output "y" v4
"""


def test_constants_are_folded_to_the_type_that_the_graph_says():
    after = fold_constants(parsed(WEIGHTS, w=Blob(np.float16([1, 2.5, 3]), DataType.HALF)))
    assert printed(after) == [
        'v0: FLOAT[2, 3] = Param(name="x", type=FLOAT[2, 3])()',
        'v1: FLOAT[1, 3] = Const(blob=@"const0", shape=(1, 3))()',
        'v2: FLOAT[2, 3] = Map(fn="mul", dtype=FLOAT)(v0, v1) "scale"',
        'input "x" v0',
        'output "y" v2',
    ]
    assert named_blobs(after)["const0"].data.tolist() == [1, 2.5, 3]


def test_moved_values_keep_the_bits_of_their_nans():
    bits = np.uint32([0x7F800001, 0xFFC00007, 0x3F800000])
    c = apply(Const(Blob(bits.view(np.float32), DataType.FLOAT), (3,)))
    turned = build.reshape(build.slice_(c, (2,), (3,), (-1,)), (3, 1))
    (_, value), *_ = fold_constants(output(build.concat([turned, turned], 1))).outputs
    assert value.op.blob.data.view(np.uint32).tolist() == [bits[2]] * 2 + [bits[1]] * 2 + [bits[0]] * 2


def test_a_reshaped_constant_keeps_its_memory():
    weights = build.const(np.arange(1000.0), DataType.HALF)
    (_, value), *_ = fold_constants(
        output(build.reshape(build.reshape(weights, (10, 100)), (100, 10)))
    ).outputs
    assert (value.shape, value.op.blob) == ((100, 10), weights.op.blob)


def test_a_repeated_constant_is_not_folded():
    wide = build.expand(build.const(np.float32([[7]]), DataType.FLOAT), (5, 5))
    graph = output(build.map_("neg", build.map_("add", wide, build.param("x", (5, 5), DataType.FLOAT))))
    assert fold_constants(graph) is graph


def test_a_constant_that_would_only_grow_is_not_folded():
    row, column = (build.const(np.ones(s), DataType.FLOAT) for s in ((1, 300), (300, 1)))
    product = build.map_("mul", row, column)
    graph = output(build.map_("add", product, build.param("x", (300, 300), DataType.FLOAT)))
    assert fold_constants(graph) is graph


def test_constants_are_rounded_once_after_the_last_step():
    third = build.map_("div", build.const([1], DataType.HALF), build.const([3], DataType.HALF))
    graph = fold_constants(output(build.map_("mul", third, build.const([3], DataType.HALF))))
    assert named_blobs(graph)["const0"].data.tolist() == [1.0]


def test_a_constant_of_equal_numbers_is_one_number():
    x = build.param("x", (2, 3), DataType.FLOAT)
    graph = output(build.map_("pow", x, build.const([[2.5] * 3], x.dtype)))
    (_, value), *_ = narrow_constants(graph).outputs
    assert value.args[1].shape == (1, 1)
    assert value.args[1].op.blob.data.tolist() == [2.5]


@pytest.mark.parametrize("numbers", [[[1.0, 2.0, 1.0]], [[0.0, -0.0, 0.0]], [[3.0]]])
def test_a_constant_of_other_numbers_stays(numbers: list[list[float]]):
    x = build.param("x", (2, len(numbers[0])), DataType.FLOAT)
    graph = output(build.map_("mul", x, build.const(numbers, x.dtype)))
    assert narrow_constants(graph) is graph


def test_a_constant_that_gives_the_result_its_shape_stays():
    graph = output(
        build.map_("mul", build.param("x", (1, 1), DataType.FLOAT), build.const([[2.0] * 3], DataType.FLOAT))
    )
    assert narrow_constants(graph) is graph


@pytest.mark.parametrize("step", PASSES, ids=lambda p: p.name)
def test_a_pass_with_nothing_to_do_gives_the_same_object(step):
    graph = output(build.map_("exp", build.param("x", (3,), DataType.HALF)))
    assert step.run(graph) is graph


def test_requirements_name_the_layer_and_leave_out_what_always_holds():
    x = build.param("x", (Sym("n", 1, 8).dim, 4), DataType.FLOAT)
    flat = build.reshape(build.slice_(x, (0, 0), (1, 4), (1, 1)), (4,))
    graph = Graph((("x", x),), (("y", build.reshape(x, (8,))), ("z", flat)), {build.reshape(x, (8,)): "flat"})
    assert [(r.where, r.left, r.relation.value, r.right) for r in requirements(graph)] == [
        ("flat", 4 * Sym("n", 1, 8).dim, "=", 8)
    ]


def test_a_requirement_that_never_holds_is_the_error_it_names():
    n = Sym("n", 1, 8).dim
    rule = Requirement(n, Relation.LE, 0, "AR103", "squeeze1", "drop another axis")
    graph = output(apply(Checked((rule,)), build.param("x", (n,), DataType.FLOAT)))
    with pytest.raises(ShapeError, match=diagnostic("AR103", "squeeze1", "n", 0)):
        requirements(graph)


def test_reads_of_a_constant_at_dynamic_positions_are_not_folded():
    at = Sym("k#0", 0, 3)
    k = build.param("k", (1,), DataType.INT64, (at,))
    piece = build.slice_(build.const(np.arange(8.0), DataType.FLOAT), (at.dim,), (3,), (1,))
    graph = Graph((("k", k),), (("y", piece),))
    assert fold_constants(graph) is graph
