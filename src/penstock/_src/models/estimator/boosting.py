"""How an ensemble of boosted trees grows, layer by layer, in NumPy and torch.

An ensemble is a handful of arrays, a row per node of all its trees: the feature and threshold of a node's test (feature -1: a
leaf), its left child (the right one is the next), what it adds to the logits, the gain of its test. Gradients and hessians of
the examples of a layer are collected first; then each leaf of the last layer gets the test that gains most, of all values of
the features, or of their quantiles if there are many, and its children the Newton step -G / (H + l2), shrunk by the learning
rate.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

_CELLS = 1 << 23                    # of a histogram that is created at once


class Ensemble(NamedTuple):
    """Trees, and the examples that the next layer will be made from."""
    feature: np.ndarray         # int32 [nodes]
    threshold: np.ndarray       # float32 [nodes]
    child: np.ndarray           # int32 [nodes]
    value: np.ndarray           # float32 [nodes, logits]
    gain: np.ndarray            # float32 [nodes]
    root: np.ndarray            # int32 [trees]
    state: np.ndarray           # int32 [3]: layers of the last tree, whether it is finished, batches collected
    bias: np.ndarray            # float32 [logits]
    rows: np.ndarray            # float32 [examples, features]
    gradients: np.ndarray       # float32 [examples, logits]
    hessians: np.ndarray        # float32 [examples, logits]


class Rules(NamedTuple):
    """How trees grow."""
    learning_rate: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    complexity: float = 0.0             # what a test costs
    min_weight: float = 0.0             # hessians that a child must have
    max_depth: int = 6
    trees: int = 100
    quantiles: int = 100
    prune: str = "none"                 # none, pre or post


def seedling(features: int, logits: int) -> Ensemble:
    """No tree yet."""
    empty = np.zeros(0, np.int32)
    return Ensemble(empty, np.zeros(0, np.float32), empty, np.zeros((0, logits), np.float32), np.zeros(0, np.float32), empty,
                    np.array([0, 1, 0], np.int32), np.zeros(logits, np.float32), np.zeros((0, features), np.float32),
                    np.zeros((0, logits), np.float32), np.zeros((0, logits), np.float32))


def collected(e: Ensemble, rows: np.ndarray, gradients: np.ndarray, hessians: np.ndarray) -> Ensemble:
    """The ensemble with a batch more to learn from."""
    return e._replace(rows=np.concatenate([e.rows, rows]), gradients=np.concatenate([e.gradients, gradients]),
                      hessians=np.concatenate([e.hessians, hessians]), state=e.state + np.array([0, 0, 1], np.int32))


def _cleared(e: Ensemble) -> Ensemble:
    return e._replace(rows=e.rows[:0], gradients=e.gradients[:0], hessians=e.hessians[:0],
                      state=np.array([*e.state[:2], 0], np.int32))


def centered(e: Ensemble, rules: Rules) -> tuple[Ensemble, bool]:
    """The ensemble with its bias moved by a Newton step, and whether that changed much."""
    step = _steps(e.gradients.sum(0), e.hessians.sum(0), rules)
    return _cleared(e._replace(bias=(e.bias + step).astype(np.float32))), bool((np.abs(step) > 0.01).any())


def leaves_of(e: Any, rows: np.ndarray, root: int = 0) -> np.ndarray:
    """The leaf of one tree that each example reaches; `e` has the arrays feature, threshold and child."""
    node = np.full(len(rows), root, np.int32)
    while True:
        feature = e.feature[node]
        inner = np.flatnonzero(feature >= 0)
        if not len(inner):
            return node
        at = node[inner]
        node[inner] = e.child[at] + (rows[inner, feature[inner]] > e.threshold[at])


def with_layer(e: Ensemble, rules: Rules) -> Ensemble:
    """The ensemble with one layer more, made from what was collected; a new tree, if the last one is finished."""
    if e.state[1]:
        if len(e.root) >= rules.trees:
            return _cleared(e)
        e = _extended(e, np.zeros((1, e.value.shape[1]), np.float32))
        e = e._replace(root=np.append(e.root, np.int32(len(e.feature) - 1)), state=np.array([0, 0, e.state[2]], np.int32))
    node = leaves_of(e, e.rows, int(e.root[-1]))
    leaves, index = np.unique(node, return_inverse=True)
    gain, feature, threshold, left, right = _best_tests(e, index, len(leaves), rules)
    good = gain > (rules.complexity if rules.prune == "pre" else 0)
    layers = int(e.state[0]) + 1
    if good.any():
        e = _split(e, leaves[good], gain[good], feature[good], threshold[good], left[good], right[good], rules)
    done = layers >= rules.max_depth or not good.any()
    e = e._replace(state=np.array([layers, done, 0], np.int32))
    return _cleared(_pruned(e, rules) if done and rules.prune == "post" else e)


def _extended(e: Ensemble, value: np.ndarray) -> Ensemble:
    """The ensemble with new leaves."""
    def more(array: np.ndarray, fill: float) -> np.ndarray:
        return np.append(array, np.full(len(value), fill, array.dtype))
    return e._replace(feature=more(e.feature, -1), threshold=more(e.threshold, 0), child=more(e.child, -1),
                      gain=more(e.gain, 0), value=np.concatenate([e.value, value.astype(np.float32)]))


def _split(e: Ensemble, leaves: np.ndarray, gain: np.ndarray, feature: np.ndarray, threshold: np.ndarray, left: np.ndarray,
           right: np.ndarray, rules: Rules) -> Ensemble:
    first, logits = len(e.feature), e.value.shape[1]
    sides = np.stack([left, right], 1).reshape(-1, 2 * logits)
    value = _steps(sides[:, :logits], sides[:, logits:], rules) * rules.learning_rate
    e = _extended(e, value + np.repeat(e.value[leaves], 2, 0))
    e.feature[leaves], e.threshold[leaves], e.gain[leaves] = feature, threshold, gain
    e.child[leaves] = first + 2 * np.arange(len(leaves))
    return e


def _pruned(e: Ensemble, rules: Rules) -> Ensemble:
    """The ensemble without tests of the last tree that gain less than they cost, from the leaves up."""
    e = e._replace(feature=e.feature.copy())
    for node in range(len(e.feature) - 1, int(e.root[-1]) - 1, -1):
        child = e.child[node]
        if e.feature[node] >= 0 and (e.feature[child:child + 2] < 0).all() and e.gain[node] <= rules.complexity:
            e.feature[node] = -1
    return e


def _soft(g: np.ndarray, l1: float) -> np.ndarray:
    return np.sign(g) * np.maximum(np.abs(g) - l1, 0) if l1 else g


def _steps(g: np.ndarray, h: np.ndarray, rules: Rules) -> np.ndarray:
    """Newton's step for sums of gradients and hessians."""
    weight = h + rules.l2
    return np.where(weight > 1e-12, -_soft(g, rules.l1) / np.maximum(weight, 1e-12), 0)


def _scores(sums: torch.Tensor, rules: Rules) -> torch.Tensor:
    """The gain of a Newton step, for gradients and hessians concatenated along the last dimension."""
    g, h = sums.chunk(2, -1)
    if rules.l1:
        g = torch.sign(g) * torch.clamp(g.abs() - rules.l1, min=0)
    return torch.where(h + rules.l2 > 1e-12, g * g / torch.clamp(h + rules.l2, min=1e-12), 0).sum(-1)


def _best_tests(e: Ensemble, index: np.ndarray, leaves: int, rules: Rules) -> tuple:
    """For each leaf the best test: its gain, feature, threshold, and the sums of both sides."""
    rows = torch.from_numpy(np.ascontiguousarray(e.rows.T))                            # [features, examples]
    sums = torch.from_numpy(np.concatenate([e.gradients, e.hessians], 1)).double()     # [examples, 2 logits]
    where, width = torch.from_numpy(index.reshape(-1).astype(np.int64)), sums.shape[1]
    total = torch.zeros(leaves, width, dtype=torch.float64).index_add_(0, where, sums)
    best = [np.full(leaves, -np.inf), np.zeros(leaves, np.int32), np.zeros(leaves, np.float32),
            np.zeros((leaves, width)), np.zeros((leaves, width))]
    few = rows.shape[1] <= leaves * (rules.quantiles + 1)                              # examples, against cells of a histogram
    search = _search_all if few else _search_quantiles
    chunk = max(1, _CELLS // (min(rows.shape[1], leaves * (rules.quantiles + 1)) * width))
    useful = torch.nonzero(rows.amin(1) < rows.amax(1)).squeeze(1) if rows.shape[1] else torch.zeros(0, dtype=torch.int64)
    for some in useful.split(chunk):
        for mine, theirs in zip(best, search(rows[some], some, sums, where, total, rules, best[0])):
            leaf, value = theirs
            mine[leaf] = value
    return tuple(best)


def _gains(left: torch.Tensor, right: torch.Tensor, total: torch.Tensor, rules: Rules) -> torch.Tensor:
    """The gain of a split; minus infinity if the hessian of one side is too small."""
    half = left.shape[-1] // 2
    weight = torch.minimum(left[..., half:].sum(-1), right[..., half:].sum(-1))
    gain = _scores(left, rules) + _scores(right, rules) - _scores(total, rules)
    return torch.where(weight > max(rules.min_weight, 1e-12), gain, -torch.inf)


def _search_all(rows: torch.Tensor, names: torch.Tensor, sums: torch.Tensor, where: torch.Tensor, total: torch.Tensor,
                rules: Rules, least: np.ndarray) -> list:
    """Better tests among some of the features: every value of an example is tried."""
    order = rows.argsort(1)
    order = order.gather(1, where[order].argsort(dim=1, stable=True))                      # by leaf, then by value
    leaf, value = where.sort().values, rows.gather(1, order)
    before = total.cumsum(0) - total
    left = sums[order].cumsum(1) - before[leaf]
    gain = _gains(left, total[leaf] - left, total[leaf], rules)
    last = torch.ones_like(value, dtype=torch.bool)
    last[:, :-1] = (leaf[1:] == leaf[:-1]) & (value[:, 1:] > value[:, :-1])
    last[:, -1] = False
    top, feature = torch.where(last, gain, -torch.inf).max(0)
    ranked = np.lexsort((top.numpy(), leaf.numpy()))                                   # the best of each leaf comes last
    at = ranked[np.flatnonzero(np.append(leaf.numpy()[1:] != leaf.numpy()[:-1], True))]
    leaves = leaf.numpy()[at]
    better = top.numpy()[at] > least[leaves] + 1e-9
    at, leaves, f = at[better], leaves[better], feature.numpy()[at[better]]
    sides = left[f, at]
    return [(leaves, v) for v in (top.numpy()[at], names.numpy()[f], value[f, at].numpy(), sides.numpy(),
                                  (total[leaves] - sides).numpy())]


def _search_quantiles(rows: torch.Tensor, names: torch.Tensor, sums: torch.Tensor, where: torch.Tensor, total: torch.Tensor,
                      rules: Rules, least: np.ndarray) -> list:
    """Better tests among some of the features: quantiles of their values are tried."""
    features, leaves, width = len(rows), len(total), sums.shape[1]
    edges = _edges(rows, rules.quantiles)                                              # [features, edges], at most these values
    bins = torch.searchsorted(edges, rows)                                             # x <= edge: bin at most its place
    cells = edges.shape[1] + 1
    place = (torch.arange(features)[:, None] * leaves + where) * cells + bins
    histogram = torch.zeros(features * leaves * cells, width, dtype=torch.float64)
    histogram.index_add_(0, place.reshape(-1), sums.repeat(features, 1))
    left = histogram.reshape(features, leaves, cells, width).cumsum(2)[:, :, :-1]
    gain = _gains(left, total[None, :, None] - left, total[None, :, None], rules)
    top, at = gain.permute(1, 0, 2).reshape(leaves, -1).max(1)
    better = torch.from_numpy(np.flatnonzero(top.numpy() > least + 1e-9))
    f, edge = at[better] // gain.shape[2], at[better] % gain.shape[2]
    sides = left[f, better, edge]
    return [(better.numpy(), v.numpy()) for v in (top[better], names[f], edges[f, edge], sides, total[better] - sides)]


def _edges(rows: torch.Tensor, quantiles: int) -> torch.Tensor:
    """Values of each feature that cut its examples into parts of the same size."""
    ordered = rows.sort(1).values
    count = ordered.shape[1]
    places = torch.linspace(0, count - 1, min(quantiles, count) + 1)[:-1].ceil().long()
    return ordered[:, places].contiguous()
