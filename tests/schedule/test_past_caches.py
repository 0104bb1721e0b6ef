"""Outputs that are written with non-temporal stores."""

from anyrt.core.enums import DataType
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule import nontemporal


def test_a_network_whose_bytes_have_no_short_formula_writes_into_the_caches(monkeypatch):
    def endless(size, least):
        raise NotSupportedError("AR901", "sizes", "a size with 71517 characters", "at most 65536")

    x = b.param("x", (1 << 24,), DataType.FLOAT)
    y = b.map_("exp", x)
    graph = Graph((("x", x),), (("y", y),))
    assert nontemporal.past_caches(graph, REFERENCE, {})[y] != nontemporal.NOT_PAST
    monkeypatch.setattr(nontemporal, "_reaches", endless)
    assert nontemporal.past_caches(graph, REFERENCE, {}) == {y: nontemporal.NOT_PAST}
