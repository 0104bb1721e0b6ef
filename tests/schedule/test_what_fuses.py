"""Fused kernels and their loops: statements without their expressions, written out."""

import re

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Value, walk
from anyrt.ir.kerneltext import print_kernels
from anyrt.passes.simplify import simplify
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from anyrt.schedule.fuse import schedule
from anyrt.schedule.task import Task

BILINEAR = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)

ONE_VERSION = STRATEGIES.without("precompute addresses")  # loops near the end of an operand are not shown


def kernels(out: Value) -> list[str]:
    """The kernels that compute `out`: loops as kind and length, stores and folds by the buffer's name."""
    inputs = tuple((v.op.name, v) for v in walk([out]) if isinstance(v.op, Param))
    graph = Graph(inputs, (("y", out),))

    scheduled = schedule(Task(graph, Sizes({}), REFERENCE, ONE_VERSION))
    text = print_kernels([launch.kernel for launch in scheduled.launches])
    text = re.sub(r"(for \w+) \w+ 0\.\. < (.*) {", r"\1 \2", text)
    text = re.sub(r"(store \w+|fold \w+ \w+)\b.*", r"\1", text)
    text = re.sub(r"kernel \"\w+\" \w+ 0\.\. < (.*) work .*", r"kernel: \1", text)
    text = re.sub(r"(row|acc|tags|[a-z])\d+b?\b", r"\1", text)
    lines = [line for line in text.splitlines() if re.match(r" *(kernel|for|if|store|fold)", line)]
    return [line for k, line in enumerate(lines) if line not in lines[max(0, k - 1) : k]]


def centred(x: Value, axis: int, n: int) -> tuple[Value, Value]:
    """x − mean and 1 / standard deviation."""
    mean = b.map_("mul", b.reduce_("sum", x, (axis,)), b.scalar(1 / n, x))
    d = b.map_("sub", x, mean)
    variance = b.map_("mul", b.reduce_("sum", b.map_("mul", d, d), (axis,)), b.scalar(1 / n, x))
    return d, b.map_("rsqrt", b.map_("add", variance, b.scalar(1e-5, x)))


def resized(x: Value, height: int, width: int) -> Value:
    return b.taps(b.taps(x, 3, width, BILINEAR), 2, height, BILINEAR)


def test_scale_and_activation_are_one_pass_over_memory():
    x = b.param("x", (2, 8, 4, 6), DataType.FLOAT)
    factor = b.const([[[[k]] for k in range(8)]], DataType.FLOAT)
    y = b.map_("max", b.map_("add", b.map_("mul", x, factor), factor), b.scalar(0.0, x))
    assert kernels(y) == [
        'kernel: 1',
        '  for serial 2',
        '    for serial 8',
        '      for vector 24',
        '        store out_y',
    ]  # fmt: skip


def test_layer_normalisation_keeps_a_row_in_cache_and_folds_it_twice():
    d, inverse = centred(b.param("x", (63, 512), DataType.FLOAT), 1, 512)
    assert kernels(b.map_("mul", d, inverse)) == [
        'kernel: 63',
        '  for vector 512',
        '    fold acc add',
        '  for vector 512',
        '    fold acc add',
        '  for vector 512',
        '    store out_y',
    ]  # fmt: skip


def test_many_rows_are_folded_two_at_a_time():
    d, inverse = centred(b.param("x", (65, 520), DataType.FLOAT), 1, 520)
    listing = kernels(b.map_("mul", d, inverse))
    assert listing == [
        'kernel: 33',
        '  for vector 520',
        '    fold acc add',
        '  for vector 520',
        '    fold acc add',
        '  for vector 520',
        '    store out_y',
    ]  # fmt: skip


def test_many_short_rows_are_folded_in_batches():
    d, inverse = centred(b.param("x", (13, 5, 512), DataType.FLOAT), 2, 512)
    listing = kernels(b.map_("mul", d, inverse))
    assert listing == [
        'kernel: 9',
        '  for serial 8',
        '    for vector 512',
        '      fold acc add',
        '    store sum',
        '  for serial 8',
        '    for vector 512',
        '      fold acc add',
        '    store sum',
        '  for serial 8',
        '    for vector 512',
        '      store out_y',
    ]  # fmt: skip


def test_the_channels_of_a_photograph_are_one_flat_row():
    x = b.cast(b.param("x", (1, 20, 30, 3), DataType.UINT8), DataType.FLOAT)
    listing = kernels(b.taps(b.taps(x, 2, 60, BILINEAR), 1, 40, BILINEAR))
    assert [line for line in listing if "vector" in line] == [
        '      for vector 180',
        '      for vector 180',
        '    for vector 180',
    ]  # fmt: skip


def test_planes_of_a_photograph_share_the_rows_that_are_kept():
    x = b.cast(b.param("x", (1, 20, 30, 3), DataType.UINT8), DataType.FLOAT)
    listing = kernels(resized(b.transpose(x, (0, 3, 1, 2)), 40, 60))
    assert [line for line in listing if "vector" in line or "serial 3" in line] == [
        '      for vector 180',
        '      for vector 180',
        '    for serial 3',
        '      for vector 60',
    ]  # fmt: skip


def test_a_photograph_is_taken_apart_piece_by_piece():
    x = b.param("x", (100, 200, 3), DataType.UINT8)
    assert kernels(b.transpose(x, (2, 0, 1))) == [
        'kernel: 15',
        '  for serial 3',
        '    for vector min(1344, 20000 + -1344*b)',
        '      store out_y',
    ]  # fmt: skip


def test_group_normalisation_folds_its_groups_and_stores_through_both_reshapes():
    x = b.reshape(b.param("x", (2, 8, 16, 16), DataType.FLOAT), (2, 4, 512))
    d, inverse = centred(x, 2, 512)
    assert kernels(b.reshape(b.map_("mul", d, inverse), (2, 8, 16, 16))) == [
        'kernel: 8',
        '  for vector 512',
        '    fold acc add',
        '  for vector 512',
        '    fold acc add',
        '  for vector 512',
        '    store out_y',
    ]  # fmt: skip


def powers(shape: tuple[int, ...], axis: int) -> Value:
    x = b.param("x", shape, DataType.FLOAT)
    risen = b.map_("exp", b.map_("sub", x, b.reduce_("max", x, (axis,))))
    return b.map_("div", risen, b.reduce_("sum", risen, (axis,)))


def test_powers_are_computed_again_where_storing_them_would_part_a_kernel():
    of_long_rows, of_columns = kernels(powers((16, 50000), 1)), kernels(powers((8, 64, 1000), 1))
    assert [line for line in of_long_rows if line.startswith("kernel")] == ["kernel: 16"]
    assert [line for line in of_columns if line.startswith("kernel")] == ["kernel: 32"]


def test_rows_of_powers_are_folded_one_at_a_time():
    assert kernels(powers((512, 1000), 1))[0] == "kernel: 512"


def test_statistics_that_a_resize_reads_are_folded_in_a_kernel_of_their_own():
    x = b.reshape(b.param("x", (1, 8, 16, 16), DataType.FLOAT), (1, 4, 512))
    d, inverse = centred(x, 2, 512)
    listing = kernels(resized(b.reshape(b.map_("mul", d, inverse), (1, 8, 16, 16)), 32, 32))
    assert [line for line in listing if line.startswith(("kernel", "  store v", "  for vector 512"))] == [
        'kernel: 4',
        '  for vector 512',
        '  for vector 512',
        '  store v',
        'kernel: 16',
    ]  # fmt: skip


def test_a_bilinear_resize_keeps_the_rows_that_it_reads_again():
    listing = kernels(resized(b.param("x", (1, 3, 20, 30), DataType.FLOAT), 40, 60))
    assert [line for line in listing if "for serial" not in line and "kernel" not in line] == [
        '  store tags',
        '    if ne(tags[mod(v.0, 2)], e) {',
        '      for vector 60',
        '        store row',
        '      store tags',
        '    if ne(tags[mod(v.3, 2)], e) {',
        '      for vector 60',
        '        store row',
        '      store tags',
        '    for vector 60',
        '      store out_y',
    ]  # fmt: skip


def test_a_heavy_operand_of_a_resize_is_computed_once_for_each_row():
    x = b.param("x", (1, 3, 20, 30), DataType.FLOAT)
    listing = kernels(resized(b.map_("mul", x, b.map_("sigmoid", x)), 40, 60))
    assert [line for line in listing if "for vector" in line] == [
        '      for vector 30',
        '      for vector 60',
        '      for vector 30',
        '      for vector 60',
        '    for vector 60',
    ]  # fmt: skip


def test_an_image_that_grows_is_transposed_while_it_is_small():
    x = b.param("x", (1, 64, 16, 16), DataType.FLOAT)
    large = b.transpose(resized(b.map_("tanh", x), 32, 48), (0, 2, 3, 1))
    small = simplify(Graph((("x", x),), (("y", large),))).outputs[0][1]
    assert kernels(small) == [
        'kernel: 16',
        '  for serial 1',
        '    for vector 64',
        '      for tile 16',
        '        store v',
        'kernel: 32',
        '  for serial 48',
        '    for vector 64',
        '      store out_y',
    ]  # fmt: skip


def test_a_photograph_that_grows_is_transposed_by_the_kernel_that_resizes():
    x = b.param("x", (1, 3, 16, 16), DataType.FLOAT)
    large = b.transpose(resized(x, 32, 48), (0, 2, 3, 1))
    listing = kernels(simplify(Graph((("x", x),), (("y", large),))).outputs[0][1])
    assert [line for line in listing if "kernel" in line] == ["kernel: 8"]


def test_a_factor_for_each_channel_is_not_computed_again_by_every_tile():
    x, c = (b.param(n, (1, 64, s, s), DataType.FLOAT) for n, s in (("x", 32), ("c", 1)))
    y = b.transpose(b.map_("mul", x, b.map_("rsqrt", c)), (0, 2, 3, 1))
    assert [line for line in kernels(y) if "kernel" in line] == ["kernel: 1", "kernel: 16"]


def test_values_that_are_used_twice_in_a_row_are_looked_at_once_each():
    """Visiting them once per path would take years for 40."""
    y = b.param("x", (64, 96), DataType.FLOAT)
    for _ in range(40):
        y = b.map_("add", y, y)
    assert [line for line in kernels(b.transpose(y, (1, 0))) if "kernel" in line] == ["kernel: 6"]


def test_a_transpose_reads_and_writes_whole_cache_lines():
    assert "tile" in "".join(kernels(b.transpose(b.param("x", (100, 200), DataType.FLOAT), (1, 0))))


def test_parts_of_a_concatenation_are_written_in_place_with_what_computes_them():
    x, y = b.param("x", (100, 200), DataType.FLOAT), b.param("y", (30, 200), DataType.FLOAT)
    listing = kernels(b.concat([b.map_("neg", x), y], 0))
    assert [line for line in listing if "for" not in line] == [
        'kernel: 5',
        '    store out_y',
        'kernel: 1',
        '    store out_y',
    ]  # fmt: skip


def test_views_between_two_maps_cost_nothing():
    x = b.param("x", (6, 4), DataType.FLOAT)
    y = b.map_("neg", b.reshape(b.slice_(b.map_("exp", x), (0, 0), (3, 4), (2, 1)), (12,)))
    assert [line for line in kernels(y) if "kernel" in line] == ["kernel: 1"]


def test_a_costly_value_with_many_users_is_stored_once():
    x = b.param("x", (64, 64), DataType.FLOAT)
    costly = b.map_("tanh", b.map_("exp", x))
    y = b.concat([b.map_("neg", costly), b.map_("abs", costly), b.map_("square", costly)], 0)
    assert [line for line in kernels(y) if "kernel" in line or "store" in line][:2] == [
        'kernel: 1',
        '    store v',
    ]  # fmt: skip


def test_rows_whose_reductions_differ_get_kernels_of_their_own():
    x = b.param("x", (32, 48), DataType.FLOAT)
    y = b.map_("add", b.map_("sub", x, b.reduce_("sum", x, (0,))), b.reduce_("max", x, (1,)))
    results = [line.strip() for line in kernels(y) if "for" not in line]
    assert results == [
        "kernel: 32",
        "fold acc max",
        "store v",
        "kernel: 1",
        "fold acc add",
        "store out_y",
    ]


def test_gates_of_channels_are_contracted_before_all_that_they_scale():
    x, p = b.param("x", (1, 32, 24, 24), DataType.FLOAT), b.param("p", (1, 8, 1, 1), DataType.FLOAT)
    gate = b.contract("bkyx,kc->bcyx", p, b.param("w", (8, 32), DataType.FLOAT))
    for one in (gate, b.map_("tanh", gate)):
        first, second = " ".join(kernels(b.map_("mul", x, one))).split("kernel")[1:]
        assert ("fold" in first, "fold" in second) == (True, False)


def test_matrices_that_are_chosen_for_products_are_not_copied():
    x, w = b.param("x", (6, 8, 32), DataType.FLOAT), b.param("w", (3, 32, 48), DataType.FLOAT)
    at = b.param("at", (6, 1, 1), DataType.INT32)
    y = b.contract("bmh,bhi->bmi", x, b.gather(w, b.expand(at, (6, 32, 48)), 0))
    assert len([line for line in kernels(y) if "kernel" in line]) == 1


def test_rows_that_are_chosen_for_a_product_are_copied_first():
    x, w = b.param("x", (64, 8), DataType.FLOAT), b.param("w", (100, 64), DataType.FLOAT)
    at = b.param("at", (48, 1), DataType.INT32)
    y = b.contract("kn,mk->mn", x, b.gather(w, b.expand(at, (48, 64)), 0))
    assert len([line for line in kernels(y) if "kernel" in line]) == 2


def narrowed_product(rows: int) -> Value:
    """Rows of float32 times a matrix, both as bfloat16."""
    narrow = [
        b.cast(b.param(n, s, DataType.FLOAT), DataType.BF16) for n, s in (("x", (rows, 64)), ("w", (64, 32)))
    ]
    return b.cast(b.contract("mk,kn->mn", *narrow), DataType.FLOAT)


def test_rows_that_dots_sum_are_stored_as_these_read_them():
    listing = kernels(narrowed_product(8))
    assert sum("kernel" in line for line in listing) == 3
    assert [line.strip() for line in listing if "store" in line] == [
        "store v",
        "store v",
        "store panel",
        "store out_y",
    ]


def test_a_few_rows_are_narrowed_where_they_are_read():
    assert sum("kernel" in line for line in kernels(narrowed_product(7))) == 2


def test_a_residual_sum_that_two_kernels_read_is_stored_by_the_product_that_it_holds():
    x, w = (b.param(n, s, DataType.BF16) for n, s in (("x", (16, 64)), ("w", (64, 32))))
    total = b.map_(
        "add", b.contract("mk,kn->mn", x, w, DataType.FLOAT), b.param("r", (16, 32), DataType.FLOAT)
    )
    more = b.contract(
        "mn,no->mo", b.cast(total, DataType.BF16), b.param("u", (32, 32), DataType.BF16), DataType.FLOAT
    )
    y = b.map_("add", more, total)
    inputs = tuple((v.op.name, v) for v in walk([y]) if isinstance(v.op, Param))
    scheduled = schedule(Task(Graph(inputs, (("y", y),)), Sizes({}), REFERENCE, ONE_VERSION))
    assert [launch.root for launch in scheduled.launches] == [total, more.args[0], y]
