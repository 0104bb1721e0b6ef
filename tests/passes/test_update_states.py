"""Loop states of which an iteration changes some elements, updated in place."""

import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, apply_all
from anyrt.passes.update_states import update_states
from anyrt.prims import build as b
from anyrt.prims.repeated import Repeated

F, INT, B = DataType.FLOAT, DataType.INT64, DataType.BOOL


def looped(following, also=lambda cache: cache):
    """Four iterations in which `following(turn, cache)` replaces a cache, and `also` is computed from the old
    one."""
    go, turn = b.param("go", (), B), b.param("turn", (), INT)
    cache, other = b.param("cache", (4, 3), F), b.param("other", (4, 3), F)
    then = b.map_("add", turn, b.scalar(1, turn))
    ends = (
        ("go", b.map_("lt", then, b.scalar(4, then))),
        ("turn", then),
        ("cache", following(turn, cache)),
        ("other", b.map_("abs", also(other)) if also(cache) is cache else also(cache)),
    )
    body = Graph((("go", go), ("turn", turn), ("cache", cache), ("other", other)), ends)
    x = b.param("x", (4, 3), F)
    built = apply_all(Repeated(body), b.const(True, B), b.scalar(0, turn), x, x)
    return Graph((("x", x),), (("y", built[2]), ("z", built[3])))


def updates(graph):
    ((_, y), *_) = graph.outputs
    return dict(y.op.body.updates)


def new_row(turn, cache):
    here = b.map_("eq", b.iota((4, 1), 0, INT), b.reshape(turn, (1, 1)))
    return b.map_("select", here, b.const(np.ones((1, 3), np.float32), F), cache)


def kept_row(turn, cache):
    here = b.map_("ne", b.iota((4, 1), 0, INT), b.reshape(turn, (1, 1)))
    return b.map_("select", here, cache, b.const(np.ones((1, 3), np.float32), F))


@pytest.mark.parametrize("following", [new_row, kept_row])
def test_a_selection_between_a_state_and_something_new_updates_it(following):
    assert updates(update_states(looped(following))) == {"cache": "cache"}


LEFT = {
    "all of it is new": (lambda turn, cache: b.map_("neg", cache), lambda cache: cache),
    "something else reads what was there": (new_row, lambda cache: b.map_("neg", cache)),
    "its rows are exchanged": (
        lambda turn, cache: new_row(turn, b.slice_(cache, (3, 0), (4, 3), (-1, 1))),
        lambda cache: cache,
    ),
}


@pytest.mark.parametrize(("following", "also"), LEFT.values(), ids=LEFT)
def test_others_are_not_updated_in_place(following, also):
    graph = looped(following, also)
    assert update_states(graph) is graph
