"""Constants derived from weights: serialized as a graph, read back, and computed for new weights."""

import numpy as np
import pytest

from anyrt.compiler.derive import derive
from anyrt.compiler.recipe import read_recipe
from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError, RefitError
from anyrt.ir.graph import Graph, apply
from anyrt.ir.text import print_graph
from anyrt.plan.plan import Plan, lay_out
from anyrt.plan.refit import Refit, WeightsRecord
from anyrt.prims import build
from anyrt.prims.closed import constant
from anyrt.prims.const import Blob, Const, Origin
from anyrt.prims.table import vocabulary
from tests.messages import diagnostic

F, H = DataType.FLOAT, DataType.HALF


def weights(count):
    return Blob(np.arange(count, dtype=np.float32), F, origin=Origin())


def value(blob, *shape):
    return apply(Const(blob, shape or (blob.size,)))


def plan_of(blobs, *weights, is_free=True):
    """A plan with these constants, derived from these weights."""
    named = [(w, WeightsRecord(f"n{k}", w.dtype, w.size, ())) for k, w in enumerate(weights)]
    derived = derive(blobs, named, is_free=is_free, is_stripped=False)
    every = {**blobs, **derived.constants}
    plan = Plan("net", "", lay_out((n, b.dtype, b.size) for n, b in every.items()), refit=derived.refit)
    return plan, lambda record: every[record.name].data


def blob_of(built):
    return built.op.blob


def test_steps_round_where_the_build_did():
    w = weights(4)
    half = constant(build.cast(build.map_("mul", value(w), build.const([1 / 3] * 4, F)), H))
    back = constant(build.map_("mul", build.cast(half, F), build.const([3.0] * 4, F)))
    plan, held = plan_of({"back": blob_of(back)}, w)
    ((_, array),) = read_recipe(plan, held).make({0: np.float32([1, 2, 3, 5])}, (), held)
    third = (np.float64([1, 2, 3, 5]) * np.float32(1 / 3)).astype(np.float16)
    assert array.tolist() == (3 * third.astype(np.float32)).tolist()


def test_moved_weights_are_a_view_of_the_array_of_the_user():
    w, new = weights(6), np.float32([6, 5, 4, 3, 2, 1])
    turned = constant(build.transpose(value(w, 2, 3), (1, 0)))
    plan, held = plan_of({"turned": blob_of(turned)}, w)
    ((record, array),) = read_recipe(plan, held).make({0: new}, (), held)
    assert (record.name, array.tolist()) == ("turned", [[6, 3], [5, 2], [4, 1]])
    assert np.shares_memory(array, new)


def test_weights_that_are_joined_are_wanted_together_and_what_is_held_is_not():
    a, b, c = weights(3), weights(3), weights(3)
    total = constant(build.map_("add", value(a), value(b)))
    plan, held = plan_of({"total": blob_of(total), "c": c}, a, b, c)
    recipe = read_recipe(plan, held)
    assert (recipe.missing([0], ()), recipe.missing([2], ()), recipe.missing([], ())) == ([1], [], [])
    assert recipe.missing([2], ["total", "c"]) == [0, 1]
    with pytest.raises(RefitError, match=diagnostic("AR844", "refit", "'n1'")):
        recipe.make({0: np.zeros(3, np.float32)}, (), held)


def test_weights_that_the_engine_holds_as_they_are_need_not_be_given():
    a, b = weights(3), weights(3)
    total = constant(build.map_("add", value(a), value(b)))
    plan, held = plan_of({"total": blob_of(total), "b": b}, a, b)
    pieces = read_recipe(plan, held).make({0: np.float32([10, 10, 10])}, (), held)
    assert [(r.name, x.tolist()) for r, x in pieces] == [("total", [10, 11, 12])]


def test_single_numbers_stay_where_weights_are_those_of_the_build():
    one, many = Blob(np.ones(1, np.float32), F, origin=Origin(None, False)), weights(2)
    plan, _ = plan_of({"one": one, "many": many}, one, many, is_free=False)
    assert plan.refit.derived == ("many",)


@pytest.mark.parametrize(
    ("name", "size", "output"),
    [("w0", 2, "c"), ("w7", 3, "c"), ("w0", 3, "d")],
    ids=["size", "name", "output"],
)
def test_recipes_that_do_not_fit_are_rejected(name, size, output):
    x = build.param(name, (size,), F)
    text = print_graph(Graph(((name, x),), ((output, x),)), vocabulary({}))
    refit = Refit((WeightsRecord("w", F, 3, ()),), text, ("c",))
    with pytest.raises(PlanError, match="AR607"):
        read_recipe(Plan("net", "", lay_out([("c", F, 3)]), refit=refit), lambda record: np.zeros(3, "f4"))
