"""Linear estimators trained by stochastic dual coordinate ascent instead of an optimizer."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.head import BinaryClassHead, Head, RegressionHead
from penstock._src.models.feature_column.base import Batch, CategoricalColumn, DenseColumn


@export("estimator.experimental.LinearSDCA")
class LinearSDCA:
    """Stochastic dual coordinate ascent, as the `optimizer` of `LinearClassifier` (two classes) or `LinearRegressor`.

    It needs no learning rate. Each example has a dual variable, which is found by the id of the example in later steps.

    Args:
        example_id_column: Name of the feature with the ids of examples, strings.
        num_loss_partitions: Number of workers that train at the same time.
        num_table_shards: Accepted; the table of dual variables has one part.
        symmetric_l1_regularization: L1 regularization.
        symmetric_l2_regularization: L2 regularization, positive.
        adaptive: Accepted; examples are visited in their order.

    >>> sdca = tf.estimator.experimental.LinearSDCA("id", symmetric_l2_regularization=0.5)
    >>> tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x")], optimizer=sdca)
    """

    def __init__(self, example_id_column: str, num_loss_partitions: int = 1, num_table_shards: int | None = None,
                 symmetric_l1_regularization: float = 0.0, symmetric_l2_regularization: float = 1.0, adaptive: bool = False):
        if symmetric_l2_regularization <= 0:
            raise ValueError("symmetric_l2_regularization should be positive.")
        if symmetric_l1_regularization < 0:
            raise ValueError("symmetric_l1_regularization should not be negative.")
        self._example_id_column, self._partitions = example_id_column, num_loss_partitions
        self._l1, self._l2, self._adaptive = symmetric_l1_regularization, symmetric_l2_regularization, adaptive

    def check(self, head: Head, sparse_combiner: str) -> None:
        """ValueError if a model cannot be trained this way."""
        if sparse_combiner != "sum":
            raise ValueError('sparse_combiner must be "sum" when optimizer is a LinearSDCA object.')
        if not isinstance(head, (BinaryClassHead, RegressionHead)):
            raise ValueError(f"LinearSDCA cannot be used in a multi-class setting. Unsupported head type: {head}")
        if head.logits_dimension > 1:
            raise ValueError("LinearSDCA can only be used with one-dimensional label.")

    def train_op(self, head: Head, features: Any, labels: Any, variables: dict[Any, Any]) -> Any:
        """The op of a step for the variables of a linear model by column, "bias" among them."""
        class Weights:
            """The variables of columns, as get_train_step requests them."""

            @staticmethod
            def get_variable(column: Any, name: str) -> Any:
                """The weights of a column."""
                return variables[column]
        kind = "logistic_loss" if isinstance(head, BinaryClassHead) else "squared_loss"
        columns = [c for c in variables if c != "bias"]
        return self.get_train_step(Weights, head._weight_column, kind, columns, features, head._labels(labels),
                                   variables["bias"], tf.train.get_global_step())[1]

    def get_train_step(self, state_manager: Any, weight_column_name: Any, loss_type: str, feature_columns: Any, features: Any,
                       targets: Any, bias_var: Any, global_step: Any) -> tuple[Any, Any]:
        """This object, and the op of a step."""
        batch, rows = Batch(features), tf.shape(targets)[0]
        sparse, dense, owners = [], [], ([], [])                    # type: ignore[var-annotated]
        for column in sorted(feature_columns, key=lambda c: c.name):
            variable = _parts(state_manager.get_variable(column, "weights"))
            if isinstance(column, CategoricalColumn):
                sparse.append(_merged(column.sparse(batch)))
                owners[0].append(variable)
            elif isinstance(column, DenseColumn):
                dense.append(tf.reshape(column.dense(batch, None), [rows, column.variable_shape.num_elements()]))
                owners[1].append(variable)
            else:
                raise ValueError(f"LinearSDCA does not support column type {type(column).__name__}.")
        dense.append(tf.ones(tf.stack([rows, 1])))
        owners[1].append(_parts(bias_var))
        weights = tf.ones([rows]) if weight_column_name is None else tf.reshape(
            tf.cast(features[getattr(weight_column_name, "key", weight_column_name)], tf.float32), [-1])
        return self, self._step(sparse, dense, owners, weights, tf.cast(tf.reshape(targets, [-1]), tf.float32),
                                tf.reshape(features[self._example_id_column], [-1]), loss_type, global_step)

    def _step(self, sparse: list, dense: list, owners: tuple[list, list], weights: Any, labels: Any, example_ids: Any,
              loss_type: str, global_step: Any) -> Any:
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, [0.0] * 4, name="sdca_examples")
        kept = ([self._unshrunk(v) for v in owners[0]], [self._unshrunk(v) for v in owners[1]])
        ids = [tf.unique(feature)[0] for _, feature, _ in sparse]
        state, sparse_changes, dense_changes = tf.raw_ops.SdcaOptimizerV2(
            sparse_example_indices=[e for e, _, _ in sparse], sparse_feature_indices=[f for _, f, _ in sparse],
            sparse_feature_values=[v for _, _, v in sparse], dense_features=dense, example_weights=weights,
            example_labels=labels, sparse_indices=ids,
            sparse_weights=[tf.gather(_flat(v), i) for v, i in zip(kept[0], ids, strict=True)],
            dense_weights=[_flat(v) for v in kept[1]], example_state_data=table.lookup(example_ids), loss_type=loss_type,
            l1=self._l1, l2=self._l2, num_loss_partitions=self._partitions, num_inner_iterations=1, adaptive=self._adaptive)
        updates = [table.insert(example_ids, state)]
        for variable, i, change in zip(kept[0], ids, sparse_changes, strict=True):
            size = sum(p.shape.num_elements() for p in variable)
            updates += _add(variable, tf.unsorted_segment_sum(change, i, size)) if len(variable) > 1 else [
                tf.scatter_add(variable[0], i, tf.expand_dims(change, -1))]
        for variable, change in zip(kept[1], dense_changes, strict=True):
            updates += _add(variable, change)
        with tf.control_dependencies(updates):
            pairs = [pair for mine, theirs in zip(owners, kept, strict=True) for vs, ks in zip(mine, theirs, strict=True)
                     for pair in zip(vs, ks, strict=True)]
            shrunk = [tf.assign(v, _shrunk(k.read_value(), self._l1 / self._l2)) for v, k in pairs if v is not k]
            with tf.control_dependencies(shrunk):
                return tf.assign_add(global_step, 1).op

    def _unshrunk(self, parts: list) -> list:
        """The weights before L1 regularization, which are variables next to the weights."""
        if not self._l1:
            return parts
        return [tf.get_variable(f"{p.op.name}_unshrunk", initializer=tf.zeros(p.shape), trainable=False,
                                partitioner=None, use_resource=True) for p in parts]


def _shrunk(weights: Any, by: float) -> Any:
    return tf.sign(weights) * tf.maximum(tf.abs(weights) - by, 0.0)


@export(v1=["train.sdca_shrink_l1"])
def sdca_shrink_l1(weights: Any, l1: float, l2: float, name: str | None = None) -> Any:
    """Moves weights towards zero by l1 / l2, in place.

    Args:
        weights: Variables.
        l1: L1 regularization.
        l2: L2 regularization, positive.
        name: Name of the op.

    Returns:
        The op.
    """
    with tf.name_scope(name or "sdca_shrink_l1"):
        return tf.group(*(tf.assign(w, _shrunk(tf.convert_to_tensor(w), l1 / l2)) for w in weights))


def _parts(variable: Any) -> list:
    """The parts of a variable that may be partitioned."""
    if isinstance(variable, (list, tuple)):
        return list(variable)
    return list(variable) if hasattr(variable, "_get_variable_list") else [variable]


def _flat(parts: list) -> Any:
    return tf.concat([tf.reshape(p, [-1]) for p in parts], 0) if len(parts) > 1 else tf.reshape(parts[0], [-1])


def _add(parts: list, change: Any) -> list:
    sizes = [p.shape.num_elements() for p in parts]
    pieces = tf.split(tf.reshape(change, [-1]), sizes) if len(parts) > 1 else [change]
    return [tf.assign_add(p, tf.reshape(c, p.shape)) for p, c in zip(parts, pieces, strict=True)]


def _merged(pair: Any) -> tuple[Any, Any, Any]:
    """Examples, ids and values of a sparse column: ids that an example has several times are one, and negative ids none."""
    ids = pair.id_tensor
    values = tf.ones_like(ids.values, tf.float32) if pair.weight_tensor is None else pair.weight_tensor.values
    inside = ids.values >= 0
    feature, example = tf.cast(tf.boolean_mask(ids.values, inside), tf.int64), tf.boolean_mask(ids.indices[:, 0], inside)
    width = tf.reduce_max(tf.concat([feature, [0]], 0)) + 1
    merged, place = tf.unique(example * width + feature)
    return merged // width, merged % width, tf.unsorted_segment_sum(tf.boolean_mask(values, inside), place, tf.size(merged))
