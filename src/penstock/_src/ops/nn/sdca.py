"""Stochastic dual coordinate ascent (SDCA) of linear models: one step in the dual variable of each example of a batch.

The primal weights are sums of the examples, scaled by their dual variables and divided by the L2 regularization. A step
maximizes the dual objective in one variable, in closed form or by Newton's method, so there is no learning rate. The steps of a
batch depend on each other through the weights, and run in the order of the examples. L1 regularization shrinks weights where
they are read (Shalev-Shwartz and Zhang, 2013 and 2014).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.text import shown_text
from penstock._src.kernels.bridge import to_numpy
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

_NEWTON_STEPS = 10
_INPUTS = ("sparse_example_indices: num_sparse_features * int64, sparse_feature_indices: num_sparse_features * int64, "
           "sparse_feature_values: num_sparse_features_with_values * float32, dense_features: num_dense_features * float32, "
           "example_weights: float32, example_labels: float32, sparse_indices: num_sparse_features * int64, "
           "sparse_weights: num_sparse_features * float32, dense_weights: num_dense_features * float32, "
           "example_state_data: float32 -> out_example_state_data: float32, "
           "out_delta_sparse_weights: num_sparse_features * float32, out_delta_dense_weights: num_dense_features * float32")
_ATTRS = ("loss_type: string in {logistic_loss squared_loss hinge_loss smooth_hinge_loss poisson_loss}, %s: bool = True, "
          "num_sparse_features: int >= 0, num_sparse_features_with_values: int >= 0, num_dense_features: int >= 0, l1: float, "
          "l2: float, num_loss_partitions: int >= 1, num_inner_iterations: int >= 1")
sdca_optimizer_op = op("SdcaOptimizer", _INPUTS, _ATTRS % "adaptative", gpu=False).no_gradient()
sdca_optimizer_v2_op = op("SdcaOptimizerV2", _INPUTS, _ATTRS % "adaptive", gpu=False).no_gradient()


class _Loss(NamedTuple):
    """A loss: the label that its formulas take, the dual variable after a step, and the values of both objectives.

    `step(label, dual, wx, norm)` gets the product of weights and features, and the squared norm of the features over L2, times
    the weight of the example and the number of partitions. The others are per unit of weight.
    """
    label: Callable[[float], float]
    step: Callable[[float, float, float, float], float]
    primal: Callable[[float, float], float]             # of label, wx
    dual: Callable[[float, float], float]               # of label, dual


def _sign_of(label: float) -> float:
    if label not in (0.0, 1.0):
        raise errors.invalid(f"Only labels of 0.0 or 1.0 are supported right now. Found example with label: {label}")
    return 1.0 if label else -1.0


def _count_of(label: float) -> float:
    if label < 0 or label != math.floor(label):
        raise errors.invalid(f"Only non-negative integer labels are supported for Poisson log loss. Found example with label: "
                             f"{label}")
    return label


def _newton(x: float, residual: Callable[[float], tuple[float, float]]) -> float:
    """The root of a function from its value and derivative; convergence is quadratic."""
    for _ in range(_NEWTON_STEPS):
        value, slope = residual(x)
        x -= value / slope
    return x


def _logistic_step(y: float, dual: float, wx: float, norm: float) -> float:
    def residual(x: float) -> tuple[float, float]:
        t = math.tanh(x)
        return -2 * y * x - wx - norm * (0.5 * (1 + t) / y - dual), -2 * y - norm * (1 - t * t) * 0.5 / y
    return 0.5 * (1 + math.tanh(_newton(0.0, residual))) / y


def _poisson_step(y: float, dual: float, wx: float, norm: float) -> float:
    def residual(x: float) -> tuple[float, float]:
        return x - wx - norm * (y - dual - math.exp(x)), 1 + norm * math.exp(x)
    return y - math.exp(_newton(math.log(y - dual) if y > dual else 0.0, residual))


def _clipped(y: float, dual: float) -> float:
    """A dual variable of a hinge loss: between 0 and the label."""
    return y * min(max(y * dual, 0.0), 1.0)


def _entropy(p: float) -> float:
    return p * math.log(p) if p > 0 else 0.0


def _log1p_exp(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _smooth_hinge(margin: float) -> float:
    return 0.0 if margin >= 1 else 0.5 - margin if margin <= 0 else 0.5 * (1 - margin) ** 2


LOSSES = {
    "squared_loss": _Loss(float, lambda y, a, wx, norm: a + (y - a - wx) / (1 + norm), lambda y, wx: 0.5 * (y - wx) ** 2,
                          lambda y, a: a * (0.5 * a - y)),
    "logistic_loss": _Loss(_sign_of, _logistic_step, lambda y, wx: _log1p_exp(-y * wx),
                           lambda y, a: _entropy(a * y) + _entropy(1 - a * y)),
    "hinge_loss": _Loss(_sign_of, lambda y, a, wx, norm: _clipped(y, a + (y - wx) / norm) if norm else y,
                        lambda y, wx: max(0.0, 1 - y * wx), lambda y, a: -y * a if 0 <= y * a <= 1 else math.inf),
    "smooth_hinge_loss": _Loss(_sign_of, lambda y, a, wx, norm: _clipped(y, a + (y - wx - a) / (norm + 1)),
                               lambda y, wx: _smooth_hinge(y * wx),
                               lambda y, a: -y * a + 0.5 * a * a if 0 <= y * a <= 1 else math.inf),
    "poisson_loss": _Loss(_count_of, _poisson_step, lambda y, wx: math.exp(wx) - y * wx,
                          lambda y, a: _entropy(y - a) - (y - a) if y >= a else math.inf),
}


class _Rows(NamedTuple):
    """The features of all examples as rows: positions among all weights, and values, from `starts[i]` to `starts[i + 1]`."""
    starts: np.ndarray
    positions: np.ndarray
    values: np.ndarray


def _rows(count: int, sparse: list[tuple], dense: list[np.ndarray], ids: list[np.ndarray]) -> _Rows:
    examples, positions, values, offset = [], [], [], 0
    for (example, feature, value), known in zip(sparse, ids, strict=True):
        order = np.argsort(known, kind="stable")
        at = np.searchsorted(known, feature, sorter=order)
        place = order[np.minimum(at, len(known) - 1)] if len(known) else at
        if len(feature) and (not len(known) or (known[place] != feature).any()):
            raise errors.invalid("A feature index is not among sparse_indices")
        examples.append(example)
        positions.append(offset + place)
        values.append(np.ones(len(feature), np.float32) if value is None else value)
        offset += len(known)
    for matrix in dense:
        width = matrix.shape[1]
        examples.append(np.repeat(np.arange(count), width))
        positions.append(np.tile(np.arange(offset, offset + width), count))
        values.append(matrix.ravel())
        offset += width
    example = np.concatenate([np.zeros(0, np.int64), *examples])
    if len(example) and not 0 <= example.min() <= example.max() < count:
        raise errors.invalid(f"Example indices must be between 0 and {count - 1}")
    order = np.argsort(example, kind="stable")
    starts = np.searchsorted(example[order], np.arange(count + 1))
    return _Rows(starts, np.concatenate([np.zeros(0, np.int64), *positions])[order],
                 np.concatenate([np.zeros(0), *values])[order].astype(np.float64))


def _shrunk(weights: np.ndarray, shrinkage: float) -> np.ndarray:
    return weights if not shrinkage else np.sign(weights) * np.maximum(np.abs(weights) - shrinkage, 0.0)


def _ascend(rows: _Rows, weights: np.ndarray, labels: np.ndarray, strengths: np.ndarray, state: np.ndarray, loss: _Loss,
            l1: float, l2: float, partitions: int) -> tuple[np.ndarray, np.ndarray]:
    """The state of the examples after the steps, and what the weights change by."""
    shrinkage, state, change = l1 / l2, state.astype(np.float64), np.zeros(len(weights))
    before = _shrunk(weights, shrinkage)
    labels = np.array([loss.label(float(label)) for label in labels])
    squares = np.concatenate([[0.0], np.cumsum(rows.values ** 2)])
    norms = (squares[rows.starts[1:]] - squares[rows.starts[:-1]]) / l2
    for i in range(len(labels)):
        at, x = (a[rows.starts[i]:rows.starts[i + 1]] for a in (rows.positions, rows.values))
        now = _shrunk(weights[at] + change[at] * partitions, shrinkage)
        old, y, strength = float(state[i, 0]), float(labels[i]), float(strengths[i])
        new = loss.step(y, old, float(now @ x), partitions * norms[i] * strength)
        np.add.at(change, at, x * ((new - old) * strength / l2))
        primal = loss.primal(y, float(before[at] @ x))
        state[i] = new, primal * strength, loss.dual(y, old) * strength, strength
    return state, change


def _optimize(sparse_example_indices: Any, sparse_feature_indices: Any, sparse_feature_values: Any, dense_features: Any,
              example_weights: Any, example_labels: Any, sparse_indices: Any, sparse_weights: Any, dense_weights: Any,
              example_state_data: Any, *, loss_type: Any, l1: float, l2: float, num_loss_partitions: int) -> tuple:
    labels, strengths, state = (to_numpy(t) for t in (example_labels, example_weights, example_state_data))
    count = len(labels)
    if labels.ndim != 1 or strengths.shape != labels.shape or state.shape != (count, 4):
        raise errors.invalid(f"{count} examples need as many weights, and [{count}, 4] state data; got {strengths.shape} and "
                             f"{state.shape}")
    if not l2 > 0 or l1 < 0:
        raise errors.invalid(f"l2 must be positive, and l1 not negative; got {l2} and {l1}")
    if (strengths < 0).any():
        raise errors.invalid("Example weights must not be negative")
    dense = [to_numpy(t) for t in dense_features]
    dense = [d[:, None] if d.ndim == 1 else d for d in dense]
    if any(d.shape[0] != count for d in dense):
        raise errors.invalid(f"Dense features must have {count} rows")
    found = [to_numpy(t) for t in sparse_feature_values]
    sparse = [(to_numpy(e), to_numpy(f), found[i] if i < len(found) else None)
              for i, (e, f) in enumerate(zip(sparse_example_indices, sparse_feature_indices, strict=True))]
    given = [*sparse_weights, *dense_weights]
    sizes = [[len(t) for t in sparse_indices], [d.shape[1] for d in dense]]
    uneven = any(len({len(a) for a in s if a is not None}) > 1 for s in sparse)
    if uneven or [t.numel() for t in given] != sizes[0] + sizes[1]:
        raise errors.invalid("Weights, indices and values of features must have the same sizes")
    weights = np.concatenate([np.zeros(0), *(to_numpy(t).ravel() for t in given)]).astype(np.float64)
    rows = _rows(count, sparse, dense, [to_numpy(t) for t in sparse_indices])
    state, change = _ascend(rows, weights, labels, strengths, state, LOSSES[shown_text(loss_type)], l1, l2, num_loss_partitions)
    parts = torch.from_numpy(change.astype(np.float32)).split([t.numel() for t in given]) if given else ()
    changes = [p.reshape(t.shape) for p, t in zip(parts, given, strict=True)]
    return torch.from_numpy(state.astype(np.float32)), changes[:len(sparse)], changes[len(sparse):]


for _op in (sdca_optimizer_op, sdca_optimizer_v2_op):
    _op.kernel(device="cpu")(_optimize)
    _op.shape(lambda sparse_example_indices, sparse_feature_indices, sparse_feature_values, dense_features, example_weights,
              example_labels, sparse_indices, sparse_weights, dense_weights, example_state_data:
              [example_state_data, *sparse_weights, *dense_weights])


@export(v1=["train.sdca_optimizer"])
@dispatched
def sdca_optimizer(sparse_example_indices: Any, sparse_feature_indices: Any, sparse_feature_values: Any, dense_features: Any,
                   example_weights: Any, example_labels: Any, sparse_indices: Any, sparse_weights: Any, dense_weights: Any,
                   example_state_data: Any, loss_type: str, l1: float, l2: float, num_loss_partitions: int,
                   num_inner_iterations: int, adaptative: bool = True, name: str | None = None) -> Any:
    """One step of stochastic dual coordinate ascent for each example of a batch.

    Args:
        sparse_example_indices: For each group of sparse features, the examples of its values.
        sparse_feature_indices: For each group, the features of its values.
        sparse_feature_values: For the first groups, the values; 1 in the others.
        dense_features: Matrices [examples, features].
        example_weights: Weight of each example.
        example_labels: Label of each example; 0 or 1 for losses of classes.
        sparse_indices: For each group, the features that it has weights for.
        sparse_weights: For each group, the weights of these features.
        dense_weights: For each matrix, a weight for each column.
        example_state_data: What the last call returned for the examples [examples, 4]; zeros at first.
        loss_type: "logistic_loss", "squared_loss", "hinge_loss", "smooth_hinge_loss" or "poisson_loss".
        l1: L1 regularization.
        l2: L2 regularization, positive.
        num_loss_partitions: How many such ops update the weights at the same time.
        num_inner_iterations: Accepted; there is one pass over the batch, as TensorFlow's op makes.
        adaptative: Accepted; examples are visited in their order.
        name: Name of the op.

    Returns:
        The state data of the examples, and what the weights change by: a list for the groups, and one for the matrices.
    """
    return sdca_optimizer_op(sparse_example_indices, sparse_feature_indices, sparse_feature_values, dense_features,
                             example_weights, example_labels, sparse_indices, sparse_weights, dense_weights, example_state_data,
                             loss_type=loss_type, l1=l1, l2=l2, num_loss_partitions=num_loss_partitions,
                             num_inner_iterations=num_inner_iterations, adaptative=adaptative, name=name)
