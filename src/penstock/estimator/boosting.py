"""How an ensemble of boosted trees grows, layer by layer, in NumPy and torch.

An ensemble is a handful of arrays, a row per node of all its trees: the feature and threshold of a node's test (feature -1: a
leaf), its left child (the right one is the next), what it adds to the logits, the gain of its test. Gradients and hessians of
the examples of a layer are collected first; then each leaf of the last layer gets the test that gains most, by histograms over
quantiles of the features, and its children the Newton step -G / (H + l2), shrunk by the learning rate.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

_CELLS = 1 << 23                    # of a histogram that is made at once


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


def leaves_of(e: Ensemble, rows: np.ndarray, root: int) -> np.ndarray:
    """The leaf of one tree that each example reaches."""
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
    """How much a Newton step gains, for gradients and hessians side by side in the last dimension."""
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
    chunk = max(1, _CELLS // (leaves * (rules.quantiles + 1) * width))
    for start in range(0, len(rows), chunk):
        _search(rows[start:start + chunk], start, sums, where, total, rules, best)
    return tuple(best)


def _search(rows: torch.Tensor, start: int, sums: torch.Tensor, where: torch.Tensor, total: torch.Tensor, rules: Rules,
            best: list[np.ndarray]) -> None:
    """Looks for better tests among some of the features."""
    features, leaves, width = len(rows), len(total), sums.shape[1]
    edges = _edges(rows, rules.quantiles)                                              # [features, edges], at most these values
    bins = torch.searchsorted(edges, rows)                                             # x <= edge: bin at most its place
    cells = edges.shape[1] + 1
    place = (torch.arange(features)[:, None] * leaves + where) * cells + bins
    histogram = torch.zeros(features * leaves * cells, width, dtype=torch.float64)
    histogram.index_add_(0, place.reshape(-1), sums.repeat(features, 1))
    left = histogram.reshape(features, leaves, cells, width).cumsum(2)[:, :, :-1]
    right = total[None, :, None] - left
    gain = _scores(left, rules) + _scores(right, rules) - _scores(total, rules)[None, :, None]
    weights = torch.minimum(left[..., width // 2:].sum(-1), right[..., width // 2:].sum(-1))
    gain = torch.where(weights > max(rules.min_weight, 1e-12), gain, -torch.inf)
    flat = gain.permute(1, 0, 2).reshape(leaves, -1)
    top, at = flat.max(1)
    better = np.flatnonzero(top.numpy() > best[0] + 1e-9)
    f, edge = at[better] // gain.shape[2], at[better] % gain.shape[2]
    best[0][better], best[1][better] = top.numpy()[better], (f + start).numpy()
    best[2][better] = edges[f, edge].numpy()
    best[3][better], best[4][better] = left[f, better, edge].numpy(), right[f, better, edge].numpy()


def _edges(rows: torch.Tensor, quantiles: int) -> torch.Tensor:
    """Values of each feature that cut its examples into parts of the same size."""
    ordered = rows.sort(1).values
    count = ordered.shape[1]
    places = torch.linspace(0, count - 1, min(quantiles, count) + 1)[:-1].ceil().long()
    return ordered[:, places].contiguous()
