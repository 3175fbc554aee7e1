"""How a random tree grows from batches of examples, in NumPy.

A tree is a handful of arrays, a row per node: the feature and threshold of its test (feature -1: a leaf), its left child (the
right one is the next), the sums of the targets that reached it, and its row of the statistics. A leaf collects
candidate tests, one from each of the first examples that reach it: a random feature, and that example's value. From then on
each candidate counts the targets on both sides. After enough examples, the best candidate becomes the leaf's test.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock._src.models.estimator.boosting import leaves_of


class Tree(NamedTuple):
    """A tree, and the statistics of its leaves."""
    feature: np.ndarray         # int32 [nodes]
    threshold: np.ndarray       # float32 [nodes]
    child: np.ndarray           # int32 [nodes]
    sums: np.ndarray            # float32 [nodes, targets]
    row: np.ndarray             # int32 [nodes]: of the arrays below, -1 for a node that is no leaf
    candidate: np.ndarray       # int32 [leaves, candidates]: features, -1 where there is none yet
    value: np.ndarray           # float32 [leaves, candidates]: thresholds
    left: np.ndarray            # float32 [leaves, candidates, targets]: sums of those at most the threshold
    right: np.ndarray           # float32 [leaves, candidates, targets]


def seedling(targets: int, candidates: int) -> Tree:
    """A tree with one leaf."""
    return Tree(np.full(1, -1, np.int32), np.zeros(1, np.float32), np.full(1, -1, np.int32), np.zeros((1, targets), np.float32),
                np.zeros(1, np.int32), np.full((1, candidates), -1, np.int32), np.zeros((1, candidates), np.float32),
                np.zeros((1, candidates, targets), np.float32), np.zeros((1, candidates, targets), np.float32))


def grow(tree: Tree, x: np.ndarray, targets: np.ndarray, seed: int, max_nodes: int, split_after: float,
         regression: bool) -> Tree:
    """The tree after a batch: `targets` are rows that are summed up, one-hot classes or (1, y, y²)."""
    if not len(x):
        return tree
    tree = Tree(*(a.copy() for a in tree))
    node = leaves_of(tree, x)
    np.add.at(tree.sums, node, targets)
    row = tree.row[node]
    _add_candidates(tree, row, x, np.random.default_rng(seed))
    _count(tree, row, x, targets)
    return _split(tree, np.unique(node), max_nodes, split_after, regression)


def _add_candidates(tree: Tree, row: np.ndarray, x: np.ndarray, draw: Any) -> None:
    order = np.argsort(row, kind="stable")
    there = (tree.candidate >= 0).sum(1)
    first = np.searchsorted(row[order], row[order])
    place = there[row[order]] + np.arange(len(order)) - first
    new = place < tree.candidate.shape[1]
    example, place = order[new], place[new]
    feature = draw.integers(0, x.shape[1], len(example)).astype(np.int32)
    tree.candidate[row[example], place] = feature
    tree.value[row[example], place] = x[example, feature]


def _count(tree: Tree, row: np.ndarray, x: np.ndarray, targets: np.ndarray) -> None:
    leaves, candidates = tree.candidate.shape
    feature = tree.candidate[row]
    below = x[np.arange(len(x))[:, None], feature] <= tree.value[row]
    place = row[:, None] * candidates + np.arange(candidates)
    for side, chosen in ((tree.left, below & (feature >= 0)), (tree.right, ~below & (feature >= 0))):
        example, _ = np.nonzero(chosen)
        where, flat = place[chosen], side.reshape(leaves * candidates, -1)
        for k in range(targets.shape[1]):
            weights = targets[example, k]
            if weights.any():
                flat[:, k] += np.bincount(where, weights, minlength=leaves * candidates).astype(np.float32)


def _impurity(sums: np.ndarray, regression: bool) -> np.ndarray:
    """How much the targets of a side differ: Gini's index or the variance, times their number."""
    if regression:
        count, outputs = np.maximum(sums[..., :1], 1e-9), (sums.shape[-1] - 1) // 2
        return (sums[..., 1 + outputs:] - sums[..., 1:1 + outputs] ** 2 / count).sum(-1)
    count = np.maximum(sums.sum(-1), 1e-9)
    return count - (sums ** 2).sum(-1) / count


def _split(tree: Tree, nodes: np.ndarray, max_nodes: int, split_after: float, regression: bool) -> Tree:
    """Splits those leaves that have seen enough, while there is room."""
    sums = tree.sums[nodes]
    seen = sums[:, 0] if regression else sums.sum(1)
    mixed = np.ones(len(nodes), bool) if regression else (sums > 0).sum(1) > 1
    ready = nodes[(seen >= split_after) & mixed][:max(0, (max_nodes - len(tree.feature)) // 2)]
    rows = tree.row[ready]
    left, right = tree.left[rows], tree.right[rows]
    amount = (lambda s: s[..., 0]) if regression else (lambda s: s.sum(-1))
    score = _impurity(left, regression) + _impurity(right, regression)
    score = np.where((amount(left) > 0) & (amount(right) > 0), score, np.inf)
    best = score.argmin(1) if len(ready) else np.zeros(0, int)
    good = np.isfinite(score[np.arange(len(ready)), best])
    ready, rows, best = ready[good], rows[good], best[good]
    if not len(ready):
        return tree
    return _with_children(tree, ready, rows, best)


def _with_children(tree: Tree, nodes: np.ndarray, rows: np.ndarray, best: np.ndarray) -> Tree:
    many, size, leaves = len(nodes), len(tree.feature), len(tree.candidate)
    tree.feature[nodes], tree.threshold[nodes] = tree.candidate[rows, best], tree.value[rows, best]
    tree.child[nodes], tree.row[nodes] = size + 2 * np.arange(many), -1
    sums = np.stack([tree.left[rows, best], tree.right[rows, best]], 1).reshape(2 * many, -1)
    new_rows = np.stack([rows, leaves + np.arange(many)], 1).reshape(-1).astype(np.int32)  # the left child takes the row
    for array, empty in ((tree.candidate, -1), (tree.value, 0), (tree.left, 0), (tree.right, 0)):
        array[rows] = empty

    def longer(array: np.ndarray, value: Any, count: int) -> np.ndarray:
        return np.concatenate([array, np.full((count, *array.shape[1:]), value, array.dtype)])
    return Tree(longer(tree.feature, -1, 2 * many), longer(tree.threshold, 0, 2 * many), longer(tree.child, -1, 2 * many),
                np.concatenate([tree.sums, sums]), np.concatenate([tree.row, new_rows]), longer(tree.candidate, -1, many),
                longer(tree.value, 0, many), longer(tree.left, 0, many), longer(tree.right, 0, many))
