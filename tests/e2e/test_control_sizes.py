"""Loops and conditionals with layers of data-dependent dimensions, compared with NumPy."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import ShapeError
from anyrt.ops.nms import NMSAttrs, ref
from tests.e2e.test_control import COUNT, OP, WHILE, Writer

F = trt.float32
REDUCE = trt.ReduceOperation
SPARSE = np.random.default_rng(3).standard_normal((5, 4, 6)).astype(np.float32).clip(0)


@pytest.fixture
def w(net):
    return Sized(net)


class Sized(Writer):
    """A writer with layers whose dimensions depend on data."""

    def nonzero(self, x):
        return self.net.add_non_zero(x).get_output(0)

    def picked(self, x):
        """The nonzero elements, as a row."""
        where = self.net.add_shuffle(self.nonzero(x))
        where.first_transpose = (1, 0)
        return self.net.add_gather_v2(x, where.get_output(0), trt.GatherMode.ND).get_output(0)

    def total(self, x, how=REDUCE.SUM):
        return self.net.add_reduce(x, how, (1 << len(x.shape)) - 1, False).get_output(0)

    def shaped(self, x, shape):
        layer = self.net.add_shuffle(x)
        layer.reshape_dims = shape
        return layer.get_output(0)

    def size(self, x, axis):
        shape = self.net.add_shape(x).get_output(0)
        return self.scalar(self.net.add_slice(shape, (axis,), (1,), (1,)).get_output(0))


def over_rows(w, rows, count, make):
    """A loop over rows that applies `make` to each and concatenates the results."""
    loop = w.net.add_loop()
    row = loop.add_iterator(rows).get_output(0)
    loop.add_trip_limit(count, COUNT)
    return [w.collected(loop, built, 5) for built in make(row)]


def test_an_iteration_reduces_a_data_dependent_number_of_elements(w, engine_of):
    rows = w.net.add_input("rows", F, (5, 4, 6))
    built = over_rows(w, rows, w.number(5), lambda row: (w.total(w.picked(row)), w.size(w.nonzero(row), 1)))
    engine = engine_of(w.net, *built, verify="full")
    for rows in (SPARSE, SPARSE * 0, SPARSE[::-1] * (np.arange(6) < 2)):
        outputs = engine.run(rows=rows)
        np.testing.assert_allclose(outputs["y"], rows.sum((1, 2)), rtol=1e-5)
        assert outputs["y1"].tolist() == [np.count_nonzero(row) for row in rows]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("turns", [0, 1, 3, 5])
def test_an_iteration_that_did_not_run_has_size_0(w, engine_of, turns):
    """The loop returns the elements of the last iteration and the number of elements; for iterations that do
    not run, the number is 0."""
    rows, count = w.net.add_input("rows", F, (5, 4, 6)), w.net.add_input("count", trt.int32, (1,))
    loop = w.net.add_loop()
    picked = w.picked(loop.add_iterator(rows).get_output(0))
    loop.add_trip_limit(w.scalar(count), COUNT)
    last, sums = w.last(loop, picked), w.collected(loop, w.total(picked), 5)
    assert tuple(last.shape) == (-1,)
    engine = engine_of(w.net, last, sums, w.size(last, 0), w.total(last), verify="full")
    actual = engine.run(rows=SPARSE, count=np.int32([turns]))
    want = SPARSE[turns - 1][SPARSE[turns - 1] > 0] if turns else np.zeros(0, np.float32)
    assert (actual["y"] == want).all()
    np.testing.assert_allclose(actual["y1"], SPARSE.sum((1, 2)) * (np.arange(5) < turns), 1e-5)
    assert actual["y2"] == len(want)
    np.testing.assert_allclose(actual["y3"], want.sum(), rtol=1e-5)


def test_a_branch_finds_what_the_other_one_has_not(w, engine_of):
    """The nonzero elements, or all of them; and their number."""
    x, flag = w.net.add_input("x", F, (4, 6)), w.net.add_input("flag", trt.bool, (1,))
    conditional = w.net.add_if_conditional()
    conditional.set_condition(w.scalar(flag))
    inside = conditional.add_input(x).get_output(0)
    y = conditional.add_output(w.picked(inside), w.shaped(inside, (24,))).get_output(0)
    size = conditional.add_output(w.size(w.nonzero(inside), 1), w.number(24, np.int64)).get_output(0)
    assert tuple(y.shape) == (-1,)
    engine = engine_of(w.net, y, w.add(y, y), size, verify="full")
    for value, x in ((True, SPARSE[0]), (False, SPARSE[0]), (True, SPARSE[1]), (True, SPARSE[0] * 0)):
        actual, want = engine.run(x=x, flag=np.array([value])), x[x > 0] if value else x.reshape(-1)
        assert (actual["y"] == want).all()
        assert (actual["y1"] == want + want).all()
        assert actual["y2"] == len(want)


def test_both_branches_may_find_the_same(w, engine_of):
    x, flag = w.net.add_input("x", F, (4, 6)), w.net.add_input("flag", trt.bool, (1,))
    conditional = w.net.add_if_conditional()
    conditional.set_condition(w.scalar(flag))
    picked = w.picked(conditional.add_input(x).get_output(0))
    y = conditional.add_output(picked, w.add(picked, picked)).get_output(0)
    engine = engine_of(w.net, y, verify="full")
    want = SPARSE[0][SPARSE[0] > 0]
    for value in (True, False):
        assert (engine.run(x=SPARSE[0], flag=np.array([value]))["y"] == want * (2 - value)).all()


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_with_a_constant_condition_has_known_sizes(w, engine_of, flag):
    x = w.net.add_input("x", F, (4, 6))
    conditional = w.net.add_if_conditional()
    conditional.set_condition(w.number(flag, np.bool_))
    inside = conditional.add_input(x).get_output(0)
    size = conditional.add_output(w.size(w.nonzero(inside), 1), w.number(7, np.int64)).get_output(0)
    engine = engine_of(w.net, w.add(size, size), verify="full")
    assert engine.run(x=SPARSE[0])["y"] == 2 * (np.count_nonzero(SPARSE[0]) if flag else 7)


def test_a_loop_goes_on_while_something_is_found(w, engine_of):
    """Each iteration subtracts 1 from the elements above 0; the loop ends when the shape says that there are
    none."""
    x = w.net.add_input("x", F, (4, 6))
    loop = w.net.add_loop()
    state, turns = loop.add_recurrence(x), loop.add_recurrence(w.number(0))
    now = state.get_output(0)
    some = w.op(w.size(w.nonzero(now), 1), w.number(0, np.int64), OP.GREATER)
    loop.add_trip_limit(some, WHILE)
    less = w.op(now, w.net.add_constant((1, 1), np.float32([[1]])).get_output(0), OP.SUB)
    state.set_input(1, w.net.add_activation(less, trt.ActivationType.RELU).get_output(0))
    turns.set_input(1, w.add(turns.get_output(0), w.number(1)))
    engine = engine_of(w.net, w.last(loop, turns.get_output(0)), verify="full")
    for x in (SPARSE[0], SPARSE[0] * 0, SPARSE[1] * 9):
        assert engine.run(x=x)["y"] == np.ceil(x.max())


def test_loops_nest_around_what_they_find(w, engine_of):
    """For each row and each line: the number of nonzero elements of the row times the sum of those of the
    line."""
    rows = w.net.add_input("rows", F, (5, 4, 6))
    outer = w.net.add_loop()
    row = outer.add_iterator(rows).get_output(0)
    outer.add_trip_limit(w.number(5), COUNT)
    inner = w.net.add_loop()
    line = inner.add_iterator(row).get_output(0)
    inner.add_trip_limit(w.number(4), COUNT)
    many = w.net.add_cast(w.size(w.nonzero(row), 1), F).get_output(0)
    sums = w.collected(inner, w.op(w.total(w.picked(line)), many, OP.PROD), 4)
    output = w.op(
        sums,
        w.net.add_gather(w.picked(row), w.net.add_constant((1,), np.int32([0])).get_output(0), 0).get_output(
            0
        ),
        OP.SUM,
    )
    engine = engine_of(w.net, w.collected(outer, output, 5), verify="full")
    want = [r.sum(1) * np.count_nonzero(r) + r[r > 0][0] for r in SPARSE]
    np.testing.assert_allclose(engine.run(rows=SPARSE)["y"], want, rtol=1e-5)


def boxes(seed, count=12):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(count * 2).reshape(1, count, 2) / 256
    return rng.integers(0, 12, (1, count, 4)).astype(np.float32), scores.astype(np.float32)


def suppressed(w, value, scores):
    layer = w.net.add_nms(value, scores, w.number(3))
    layer.set_input(3, w.number(0.37, np.float32))
    layer.set_input(4, w.number(0.01, np.float32))
    return layer.get_output(0), layer.get_output(1)


def nms_of(value, scores):
    """The reference of the layer itself."""
    return ref(NMSAttrs(), (value, scores, np.array(3), np.array(0.37), np.array(0.01)))


def test_boxes_are_suppressed_in_a_branch(w, engine_of):
    tensor, scores = w.net.add_input("boxes", F, (1, 12, 4)), w.net.add_input("scores", F, (1, 12, 2))
    flag = w.scalar(w.net.add_input("flag", trt.bool, (1,)))
    conditional = w.net.add_if_conditional()
    conditional.set_condition(flag)
    kept, count = suppressed(w, *(conditional.add_input(x).get_output(0) for x in (tensor, scores)))
    none = w.net.add_constant((0, 3), np.zeros((0, 3), np.int32)).get_output(0)
    y = conditional.add_output(kept, none).get_output(0)
    y1 = conditional.add_output(count, w.number(0)).get_output(0)
    engine = engine_of(w.net, y, y1, verify="full")
    for seed, value in ((0, True), (1, False), (2, True)):
        tensor, scores = boxes(seed)
        want = nms_of(tensor, scores)[0] if value else np.zeros((0, 3))
        actual = engine.run(boxes=tensor, scores=scores, flag=np.array([value]))
        assert actual["y"].tolist() == want.tolist()
        assert actual["y1"] == len(want)


def test_boxes_of_each_image_are_suppressed_in_an_iteration(w, engine_of):
    """The number of boxes kept for each image, and the sums of their coordinates."""
    tensor, scores = w.net.add_input("boxes", F, (4, 12, 4)), w.net.add_input("scores", F, (4, 12, 2))
    loop = w.net.add_loop()
    image, score = (loop.add_iterator(x).get_output(0) for x in (tensor, scores))
    loop.add_trip_limit(w.number(4), COUNT)
    kept, count = suppressed(w, w.shaped(image, (1, 12, 4)), w.shaped(score, (1, 12, 2)))
    at = w.net.add_gather(kept, w.number(2), 1).get_output(0)
    sums = w.net.add_reduce(w.net.add_gather(image, at, 0).get_output(0), REDUCE.SUM, 1, False)
    outputs = (w.collected(loop, x, 4) for x in (count, sums.get_output(0)))
    engine = engine_of(w.net, *outputs, verify="full")
    every = [boxes(seed) for seed in range(4)]
    tensor, scores = (np.concatenate(x) for x in zip(*every, strict=True))
    result, kept = engine.run(boxes=tensor, scores=scores), [nms_of(*pair)[0][:, 2] for pair in every]
    assert result["y"].tolist() == [len(k) for k in kept]
    assert (result["y1"] == [g[k].sum(0) for g, k in zip(tensor, kept, strict=True)]).all()


def of_iterator(w, rows):
    loop = w.net.add_loop()
    row = loop.add_iterator(rows).get_output(0)
    loop.add_trip_limit(w.number(5), COUNT)
    return loop, row


def test_slices_whose_sizes_differ_between_iterations_are_not_concatenated(w, log, golden_text):
    loop, row = of_iterator(w, w.net.add_input("rows", F, (5, 4, 6)))
    assert w.collected(loop, w.nonzero(row), 5).shape.rank == -1
    (line,) = [line for line in log.lines if "[AR123]" in line]
    golden_text(line)


def test_a_recurrence_of_data_dependent_size_ends_the_inference_where_the_size_changes(w, engine_of):
    x = w.net.add_input("x", F, (9,))
    loop = w.net.add_loop()
    state = loop.add_recurrence(x)
    state.set_input(1, w.picked(state.get_output(0)))
    loop.add_trip_limit(w.number(5), COUNT)
    engine = engine_of(w.net, w.last(loop, state.get_output(0)))
    whole = np.arange(1, 10, dtype=np.float32)
    assert engine.run(x=whole)["y"].tolist() == whole.tolist()
    with pytest.raises(ShapeError, match="AR123"):
        engine.run(x=whole * (whole > 2))


def test_a_size_computed_in_an_iteration_is_not_read_outside(w, builder, log):
    loop, row = of_iterator(w, w.net.add_input("rows", F, (5, 4, 6)))
    size, y = w.size(w.nonzero(row), 1), w.collected(loop, w.total(row), 5)
    w.net.mark_output(w.op(y, w.shaped(w.net.add_cast(size, F).get_output(0), (1,)), OP.PROD))
    assert builder.build_serialized_network(w.net, builder.create_builder_config()) is None
    assert any("[AR414]" in line for line in log.lines), log.lines


def faded(w, loop, x):
    """x loses a quarter of its largest element in each iteration while more than two positive elements are
    left; the state, its positive elements, and their total number over all iterations."""
    state, sizes = loop.add_recurrence(x), loop.add_recurrence(w.number(0, np.int64))
    now, picked = state.get_output(0), w.picked(state.get_output(0))
    loop.add_trip_limit(w.op(w.size(picked, 0), w.number(2, np.int64), OP.GREATER), WHILE)
    most = w.net.add_reduce(picked, REDUCE.MAX, 1, True).get_output(0)
    quarter = w.op(most, w.net.add_constant((1,), np.float32([0.25])).get_output(0), OP.PROD)
    less = w.net.add_activation(w.op(now, quarter, OP.SUB), trt.ActivationType.RELU)
    state.set_input(1, less.get_output(0))
    sizes.set_input(1, w.add(sizes.get_output(0), w.size(picked, 0)))
    return now, picked, sizes.get_output(0)


def test_sizes_of_an_iteration_differ_from_those_of_the_next_condition(w, engine_of):
    loop = w.net.add_loop()
    outputs = (w.last(loop, x) for x in faded(w, loop, w.net.add_input("x", F, (9,))))
    engine = engine_of(w.net, *outputs, verify="full")
    for seed in range(4):
        x = np.random.default_rng(seed).integers(-2, 9, 9).astype(np.float32)
        actual, total, last = engine.run(x=x), 0, np.zeros(0)
        while np.count_nonzero(x) > 2:
            last, total = x[x != 0], total + np.count_nonzero(x)
            x = (x - last.max() / 4).clip(0)
        for got, want in zip(actual.values(), (x, last, total), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(2, 3), (0, 3), (7, 40), (64, 64)])
def test_dynamic_dimensions_bound_the_sizes_of_an_iteration(w, engine_of, size):
    rows = w.net.add_input("rows", F, (5, -1, -1))
    loop = w.net.add_loop()
    row = loop.add_iterator(rows).get_output(0)
    loop.add_trip_limit(w.number(5), COUNT)
    picked = w.picked(row)
    y, sums = w.last(loop, picked), w.collected(loop, w.total(w.unary(picked, trt.UnaryOperation.SQRT)), 5)
    engine = engine_of(w.net, y, sums, verify="full", rows=[(5, 0, 1), (5, 7, 40), (5, 64, 64)])
    rows = np.random.default_rng(1).standard_normal((5, *size)).astype(np.float32).clip(0)
    outputs = engine.run(rows=rows)
    assert (outputs["y"] == rows[-1][rows[-1] > 0]).all()
    np.testing.assert_allclose(outputs["y1"], np.sqrt(rows).sum((1, 2)), rtol=1e-4)


def test_sizes_that_do_not_fit_in_an_iteration_end_the_inference(w, engine_of):
    """Three elements of each row are reshaped to a row; if there are not as many, the error names
    the layer."""
    rows = w.net.add_input("rows", F, (5, 6))
    loop = w.net.add_loop()
    row = loop.add_iterator(rows).get_output(0)
    loop.add_trip_limit(w.number(5), COUNT)
    y = w.collected(loop, w.shaped(w.picked(row), (3, 1)), 5)
    engine = engine_of(w.net, y, verify="full")
    rows = np.float32([[0, 1, 0, 2, 3, 0]] * 5)
    assert (engine.run(rows=rows)["y"][..., 0] == [1, 2, 3]).all()
    rows[3, 1] = 0
    with pytest.raises(Exception, match=r"AR\d+.*Shuffle"):
        engine.run(rows=rows)


def test_a_branch_in_an_iteration_may_have_either_size(w, engine_of):
    """The nonzero elements of even rows, all elements of odd ones; the sum of both branches, and the last
    one."""
    rows = w.net.add_input("rows", F, (5, 4, 6))
    loop = w.net.add_loop()
    row, turn = loop.add_iterator(rows).get_output(0), loop.add_recurrence(w.number(0))
    now = turn.get_output(0)
    turn.set_input(1, w.op(w.number(1), now, OP.SUB))
    loop.add_trip_limit(w.number(5), COUNT)
    conditional = w.net.add_if_conditional()
    conditional.set_condition(w.op(now, w.number(0), OP.EQUAL))
    inside = conditional.add_input(row).get_output(0)
    y = conditional.add_output(w.picked(inside), w.shaped(inside, (24,))).get_output(0)
    built = w.collected(loop, w.size(y, 0), 5), w.last(loop, y), w.collected(loop, w.total(y), 5)
    result = engine_of(w.net, *built, verify="full").run(rows=SPARSE)
    assert result["y"].tolist() == [24 if k % 2 else np.count_nonzero(r) for k, r in enumerate(SPARSE)]
    assert (result["y1"] == SPARSE[4][SPARSE[4] > 0]).all()
    np.testing.assert_allclose(result["y2"], SPARSE.sum((1, 2)), rtol=1e-5)


def test_iterations_are_counted_while_elements_are_found(w, engine_of):
    """An output with an element per iteration, of a loop whose condition counts elements."""
    loop = w.net.add_loop()
    now, picked, _ = faded(w, loop, w.net.add_input("x", F, (9,)))
    y = loop.add_loop_output(w.total(picked), trt.LoopOutput.CONCATENATE).get_output(0)
    engine = engine_of(w.net, y, w.last(loop, now), verify="full")
    for seed in range(3):
        x, want = np.random.default_rng(seed).integers(-2, 9, 9).astype(np.float32), []
        actual = engine.run(x=x)
        while np.count_nonzero(x) > 2:
            want.append(x.sum())
            x = (x - x.max() / 4).clip(0)
        assert actual["y"].shape == (len(want),)
        np.testing.assert_allclose(actual["y"], want, rtol=1e-5)


def test_layers_of_one_name_around_each_other_are_rejected(w, builder, log):
    """Otherwise the dimension of the inner one would replace that of the outer one."""
    loop, row = of_iterator(w, w.net.add_input("rows", F, (5, 6, 6)))
    inner, line = of_iterator(w, row)
    sizes = []
    for x in (line, row):
        layer = w.net.add_non_zero(w.shaped(x, (6, 6)) if x is row else x)
        layer.name = "found"
        sizes.append(w.size(layer.get_output(0), 1))
    many = w.total(w.collected(inner, sizes[0], 5))
    w.net.mark_output(w.collected(loop, w.add(many, sizes[1]), 5))
    assert builder.build_serialized_network(w.net, builder.create_builder_config()) is None
    assert any("[AR402] found#count" in line for line in log.lines), log.lines


def test_a_size_without_a_bound_is_found_before_the_loop(w, builder, log, golden_text):
    sizes = w.net.add_input("sizes", trt.int32, (5, 1))
    loop, size = of_iterator(w, sizes)
    fill = w.net.add_fill((-1,), trt.FillOperation.LINSPACE)
    fill.set_input(0, size)
    fill.set_input(1, w.number(1, np.float32))
    fill.set_input(2, w.net.add_constant((1,), np.float32([1])).get_output(0))
    w.net.mark_output(w.collected(loop, w.total(fill.get_output(0)), 5))
    assert builder.build_serialized_network(w.net, builder.create_builder_config()) is None
    (line,) = [line for line in log.lines if "[AR901]" in line]
    golden_text(line)
