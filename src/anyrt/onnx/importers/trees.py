"""Ensembles of trees: all trees are descended simultaneously, step by step, with tables of their nodes.

A leaf leads to itself, so that after as many steps as the deepest tree has, every tree is at a leaf. The
weights of the leaves are then gathered from a table, (leaves, targets), and summed. Comparisons and sums are
in float64 if rows or tables are, otherwise in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, GatherMode, ReduceOperation, UnaryOperation
from anyrt.core.errors import GraphError
from anyrt.onnx.importers.ml import finished, judged, labels, ml, rows
from anyrt.onnx.node import Node
from anyrt.ops._record import Array

INT64, FLOAT, DOUBLE = DataType.INT64, DataType.FLOAT, DataType.DOUBLE
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER = MODES.index("BRANCH_MEMBER")
MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Forest:
    """The nodes of all trees: the feature of each, its comparison (an index into MODES), the value to compare
    with, and the next nodes. members: the set to compare with, one row per node. roots: those of the trees;
    weights: those of nodes for each target, 0 for nodes that are not leaves."""

    feature: Array
    mode: Array
    split: Array
    yes: Array
    no: Array
    missing: Array
    roots: Array
    weights: Array
    members: Array | None = None

    @property
    def of_float64(self) -> bool:
        """Whether a table holds float64."""
        return np.float64 in (self.split.dtype, self.weights.dtype)

    def cast(self, dtype: type[np.floating]) -> Forest:
        """The tables for comparisons and sums in another type."""
        members = None if self.members is None else self.members.astype(dtype)
        return replace(
            self, split=self.split.astype(dtype), weights=self.weights.astype(dtype), members=members
        )

    def depth(self) -> int:
        """The number of steps from the roots to the deepest leaf."""
        at, steps = np.unique(self.roots), 0
        while np.any((self.yes[at] != at) | (self.no[at] != at)):
            at, steps = np.unique([self.yes[at], self.no[at]]), steps + 1
            if steps > MOST_STEPS:
                return steps
        return steps


def leaves(node: Node, x: Tensor, forest: Forest) -> Tensor:
    """The leaf of each tree for each row: (N, trees). Rows have the type of the tables."""
    steps = forest.depth()
    if steps > MOST_STEPS:
        raise node.unsupported(f"trees of more than {MOST_STEPS} levels", "train trees with a smaller depth")
    at = node.constant(forest.roots[None], INT64)
    at = node.expand(at, [x.size(0), forest.roots.size])
    for _ in range(steps):
        value = node.layer("add_gather_v2", x, _read(node, forest.feature, at), GatherMode.ELEMENT, axis=1)
        chosen = _compared(node, value, at, forest)
        at = node.where_(chosen, _read(node, forest.yes, at), _read(node, forest.no, at))
    return at


def _read(node: Node, table: Array, at: Tensor) -> Tensor:
    """The entries of a table for nodes; one number if all entries are equal."""
    if np.all(table == table[0]) and table.size:
        return node.expand(node.constant(table[:1].reshape(1, 1)), at.shape())
    return node.gather(node.constant(table), at, 0)


def _compared(node: Node, value: Tensor, at: Tensor, forest: Forest) -> Tensor:
    """The results of the comparisons of nodes with rows."""
    split, mode = _read(node, forest.split, at), _read(node, forest.mode, at)
    kinds = [int(m) for m in np.unique(forest.mode[forest.yes != np.arange(forest.yes.size)])]
    result: Tensor | None = None
    for kind in kinds:
        here = _member(node, value, at, forest) if kind == MEMBER else _judge(value, split, kind)
        result = here if result is None else node.where_(mode.equal(kind), here, result)
    assert result is not None, "some node compares"
    if forest.missing.any():
        tracks = _read(node, forest.missing.astype(np.int64), at) > 0
        result = result | (node.unary(UnaryOperation.ISNAN, value) & tracks)
    return result


def _judge(value: Tensor, split: Tensor, kind: int) -> Tensor:
    less, same, more = value < split, value.equal(split), value > split
    return (less | same, less, more | same, more, same, ~same)[kind]


def _member(node: Node, value: Tensor, at: Tensor, forest: Forest) -> Tensor:
    assert forest.members is not None, "nodes that compare with sets have some"
    sets = node.gather(node.constant(forest.members), at, 0)
    same = value.unsqueeze(2).equal(sets).cast(INT64)
    return node.reduce(ReduceOperation.MAX, same, [2], keep=False) > 0


def summed(node: Node, x: Tensor, forest: Forest, how: str) -> Tensor:
    """The aggregated weights of the leaves of all trees: (N, targets)."""
    wide = x.dtype is DOUBLE or forest.of_float64
    dtype = DOUBLE if wide else FLOAT
    forest = forest.cast(np.float64 if wide else np.float32)
    worth = node.gather(node.constant(forest.weights), leaves(node, x.cast(dtype), forest), 0)
    ops = {"SUM": "SUM", "AVERAGE": "AVG", "MIN": "MIN", "MAX": "MAX"}
    if how not in ops:
        raise node.unsupported(f"aggregate_function {how}", f"use one of {', '.join(ops)}")
    return node.reduce(ReduceOperation[ops[how]], worth, [1], keep=False)


# ---- what attributes say --------------------------------------------------------------------------


def _column(node: Node, name: str) -> Array:
    """An attribute with a value for each node, a list of float32 or a tensor."""
    if node.has(f"{name}_as_tensor"):
        return node.array(f"{name}_as_tensor").reshape(-1)
    return np.array(node.attr(name, ()), np.float32)


def _forest(node: Node, prefix: str, ids: str, targets: int) -> Forest:
    """The trees of TreeEnsembleRegressor (`target`) and TreeEnsembleClassifier (`class`)."""
    tree, own = (np.array(node.attr(f"nodes_{n}", ()), np.int64) for n in ("treeids", "nodeids"))
    place = {pair: k for k, pair in enumerate(zip(tree.tolist(), own.tolist(), strict=True))}
    modes: tuple[str, ...] = node.attr("nodes_modes", ())
    leaf = np.array([m == "LEAF" for m in modes])
    each = np.arange(tree.size)
    ways = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        to = np.array(node.attr(name, ()), np.int64)
        ways.append(np.array([k if leaf[k] else place.get((tree[k], to[k]), k) for k in each], np.int64))
    named = {m: k for k, m in enumerate(MODES)}
    split, worth = _column(node, "nodes_values"), _column(node, f"{prefix}_weights")
    weights = np.zeros((tree.size, targets), np.result_type(worth, np.float32))
    of = zip(*(np.array(node.attr(f"{prefix}_{n}", ()), np.int64) for n in ("treeids", "nodeids", ids)),
             worth, strict=True)  # fmt: skip
    for t, n, target, weight in of:
        weights[place[int(t), int(n)], int(target)] += weight
    missing = np.array(node.attr("nodes_missing_value_tracks_true", ()) or np.zeros(tree.size), np.int64)
    roots = each[np.sort(np.unique(tree, return_index=True)[1])]
    mode = np.array([named.get(m, 0) for m in modes], np.int64)
    feature = np.array(node.attr("nodes_featureids", ()), np.int64)
    return Forest(feature, mode, split, ways[0], ways[1], missing, roots, weights)


def _with_base(node: Node, y: Tensor) -> Tensor:
    base = _column(node, "base_values")
    return y + node.constant(base, y.dtype) if base.size else y


@ml("TreeEnsembleRegressor")
def tree_regressor(node: Node) -> Tensor:
    """The sum, or another reduction, of the weights of leaves."""
    forest = _forest(node, "target", "ids", node.attr("n_targets", 1))
    y = summed(node, rows(node), forest, node.attr("aggregate_function", "SUM"))
    return finished(node, _with_base(node, y)).cast(FLOAT)


@ml("TreeEnsembleClassifier")
def tree_classifier(node: Node) -> list[Tensor]:
    """The class with the largest sum, and all sums."""
    of, ids = labels(node), np.unique(node.attr("class_ids", ()))
    forest = _forest(node, "class", "ids", of.size)
    positive = bool(np.all(np.greater_equal(forest.weights, 0)))
    if of.size == 2 and ids.size == 1:  # one score for two classes
        forest = replace(forest, weights=np.ascontiguousarray(forest.weights[:, ids[0] : ids[0] + 1]))
    y = _with_base(node, summed(node, rows(node), forest, "SUM"))
    return judged(node, y, of, positive)


@ml("TreeEnsemble")
def tree_ensemble(node: Node) -> Tensor:
    """TreeEnsemble, with separate leaves, and with nodes that test the membership in sets."""
    forest = _with_leaves(node)
    folds, ends = ("AVERAGE", "SUM", "MIN", "MAX"), ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    x = node.input(0)
    y = summed(node, rows(node), forest, folds[node.attr("aggregate_function", 1)])
    return finished(node, y, ends[node.attr("post_transform", 0)]).cast(x.dtype)


def _with_leaves(node: Node) -> Forest:
    """The trees, with leaves numbered after the nodes."""
    splits = node.array("nodes_splits").reshape(-1)
    count, targets = splits.size, np.array(node.attr("leaf_targetids", ()), np.int64)
    each, none = np.arange(count, count + targets.size), np.zeros(targets.size, np.int64)
    ways = []
    for way in ("true", "false"):
        to, leaf = (np.array(node.attr(f"nodes_{way}{n}", ()), np.int64) for n in ("nodeids", "leafs"))
        ways.append(np.concatenate([to + count * leaf, each]))
    worth = node.array("leaf_weights").reshape(-1)
    weights = np.zeros((count + targets.size, node.required("n_targets", 0)), worth.dtype)
    weights[each, targets] = worth
    modes = node.array("nodes_modes").reshape(-1).astype(np.int64)
    missing = np.array(node.attr("nodes_missing_value_tracks_true", ()) or np.zeros(count), np.int64)
    wide = [np.concatenate([a, none.astype(a.dtype)]) for a in
            (np.array(node.attr("nodes_featureids", ()), np.int64), modes, splits)]  # fmt: skip
    if np.any([w.size != weights.shape[0] for w in (*wide, *ways)]):
        raise GraphError("AR417", node.where, "attributes of several lengths", f"{count} nodes")
    roots = np.array(node.attr("tree_roots", ()), np.int64)
    members = _members(node, modes, weights.shape[0]) if (modes == MEMBER).any() else None
    feature, mode, split = wide
    missing = np.concatenate([missing, none])
    return Forest(feature, mode, split, ways[0], ways[1], missing, roots, weights, members)


def _members(node: Node, modes: Array, count: int) -> Array:
    """The set of each node, padded with NaN, which equals nothing."""
    members: list[list[float]] = [[]]
    for value in node.array("membership_values").reshape(-1).tolist():
        if np.isnan(value):
            members.append([])
        else:
            members[-1].append(value)
    out = np.full((count, max(map(len, members))), np.nan)
    for at, held in zip(np.flatnonzero(modes == MEMBER), members, strict=False):
        out[at, : len(held)] = held
    return out
