"""Layered layouts: rows, boxes that do not overlap, edges that avoid nodes, time that grows with
the network."""

import random
from itertools import pairwise

import pytest

from anyrt.cli.draw.layered import LONG, Edge, Layout, Node, layered, rows


def graph(kind: str, count: int) -> list[tuple[int, int]]:
    """Edges of a network: a chain of `count` nodes, and the edges of its kind."""
    rng = random.Random(count)
    chain = [(k, k + 1) for k in range(count - 1)]
    more = {
        "chain": [],
        "residual": [(k, k + 5) for k in range(0, count - 5, 5)],
        "nested": [(k, count - 1 - k) for k in range(count // 2 - 1)],
        "from the first": [(0, k) for k in range(2, count)],
        "to the last": [(k, count - 1) for k in range(count - 2)],
        "random": [tuple(sorted(rng.sample(range(count), 2))) for _ in range(count)],
    }
    tree = [((k - 1) // 3, k) for k in range(1, count)]
    return tree if kind == "tree" else list(dict.fromkeys([*chain, *more[kind]]))


KINDS = ["chain", "residual", "nested", "from the first", "to the last", "random", "tree"]


def drawn(pairs: list[tuple[int, int]], count: int) -> tuple[list[Node], Layout]:
    nodes = [Node(40 + 7 * (n % 9), 20 + n % 3, row) for n, row in enumerate(rows(count, pairs))]
    return nodes, layered(nodes, [Edge(a, b) for a, b in pairs])


@pytest.mark.parametrize("kind", KINDS)
def test_edges_lead_to_later_rows(kind):
    ranks = rows(60, graph(kind, 60))
    assert all(ranks[a] < ranks[b] for a, b in graph(kind, 60))
    assert set(ranks) == set(range(max(ranks) + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_nodes_overlap(kind):
    nodes, layout = drawn(graph(kind, 60), 60)
    spans: dict[int, list[tuple[float, float]]] = {}
    for node, x, y in zip(nodes, layout.centres, layout.tops, strict=True):
        assert 0 <= x - node.width / 2 <= x + node.width / 2 <= layout.width
        assert 0 <= y <= y + node.height <= layout.height
        spans.setdefault(node.row, []).append((x - node.width / 2, x + node.width / 2))
    for row in spans.values():
        assert all(right < left for (_, right), (left, _) in pairwise(sorted(row)))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_touch(kind):
    nodes, layout = drawn(graph(kind, 60), 60)
    bottoms: dict[int, float] = {}
    for node, y in zip(nodes, layout.tops, strict=True):
        bottoms[node.row] = max(bottoms.get(node.row, 0), y + node.height)
    for node, y in zip(nodes, layout.tops, strict=True):
        assert node.row == 0 or y > bottoms[node.row - 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [60, 4 * LONG])
def test_routes_cross_no_node(kind, count):
    pairs = graph(kind, count)
    nodes, layout = drawn(pairs, count)
    boxes = [
        (x - n.width / 2, x + n.width / 2, y, y + n.height)
        for n, x, y in zip(nodes, layout.centres, layout.tops, strict=True)
    ]
    for route in layout.routes:
        for run in route:
            assert not any(
                left < run.x < right and run.top < bottom and top < run.bottom
                for left, right, top, bottom in boxes
            )
        for above, below in pairwise(route):  # the bend between them lies outside all boxes
            assert above.bottom < below.top
            assert not any(above.bottom < bottom and top < below.top for _, _, top, bottom in boxes)


def test_routes_begin_and_end_at_their_nodes():
    pairs = graph("random", 60)
    nodes, layout = drawn(pairs, 60)
    for (a, b), route in zip(pairs, layout.routes, strict=True):
        assert (route[0].x, route[0].top) == (layout.centres[a], layout.tops[a] + nodes[a].height)
        assert abs(route[-1].x - layout.centres[b]) < nodes[b].width / 2
        assert route[-1].bottom == layout.tops[b]


def test_a_chain_is_straight():
    _, layout = drawn(graph("chain", 20), 20)
    assert len({round(x, 3) for x in layout.centres}) == 1


def test_two_branches_that_cross_are_exchanged():
    nodes = [Node(40, 20, 0), Node(40, 20, 0), Node(40, 20, 1), Node(40, 20, 1)]
    layout = layered(nodes, [Edge(0, 3), Edge(1, 2)])
    assert (layout.centres[0] < layout.centres[1]) == (layout.centres[3] < layout.centres[2])


def test_edges_into_one_node_end_apart_and_in_order():
    nodes = [*(Node(40, 20, 0) for _ in range(4)), Node(200, 20, 1)]
    layout = layered(nodes, [Edge(n, 4) for n in range(4)])
    ends = [route[-1].x for route in layout.routes]
    assert len(set(ends)) == 4
    assert sorted(ends) == [x for _, x in sorted(zip(layout.centres, ends, strict=False))]


def test_nothing_at_all_has_a_layout():
    assert layered([], []) == Layout([], [], [], 0.0, 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_work_grows_with_the_network(kind):
    """The measure is the number of straight runs of edges, which are drawn: a long edge takes no slot in each
    row it passes."""
    runs = [sum(map(len, drawn(graph(kind, n), n)[1].routes)) for n in (300, 600)]
    assert runs[1] < 2.2 * runs[0]
