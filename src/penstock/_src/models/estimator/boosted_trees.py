"""Gradient boosted trees as estimators: the ensemble is variables, a Python op lets it grow, the graph walks through it."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.models.estimator import boosting
from penstock._src.models.estimator.canned import _class_head
from penstock._src.models.estimator.estimator import Estimator
from penstock._src.models.estimator.head import RegressionHead
from penstock._src.models.estimator.spec import ModeKeys

_DEFAULT = object()
_NAMES = ("feature", "threshold", "child", "value", "gain", "root", "state", "bias")
SCOPE = "boosted_trees"


def matrix(features: Any, columns: Any) -> tuple[Any, list[str]]:
    """Features as columns of numbers, and the name of each: buckets by their place, categories as zeros and ones."""
    if columns is None:
        parts = {name: features[name] for name in sorted(features)} if isinstance(features, dict) else {"features": features}
        made = {n: tf.reshape(tf.cast(x, tf.float32), [tf.shape(x)[0], int(np.prod(x.shape[1:].as_list() or [1]))])
                for n, x in parts.items()}
    else:
        made = {c.name: _column(features, c) for c in sorted(columns, key=lambda c: c.name)}
    names = [n if x.shape[1] == 1 else f"{n}:{k}" for n, x in made.items() for k in range(x.shape[1])]
    return tf.concat(list(made.values()), 1), names


def _column(features: Any, column: Any) -> Any:
    dense = tf.feature_column.input_layer(features, [column])
    if hasattr(column, "boundaries"):
        buckets = len(column.boundaries) + 1
        return tf.cast(tf.argmax(tf.reshape(dense, [tf.shape(dense)[0], dense.shape[1] // buckets, buckets]), 2), tf.float32)
    return dense


class EnsembleGraph:
    """The variables of an ensemble in the default graph."""

    def __init__(self, width: int, logits: int):
        start = boosting.seedling(width, logits)
        with tf.variable_scope(SCOPE):
            self.variables: Any = boosting.Ensemble(*(
                tf.get_variable(name, trainable=False, validate_shape=False, initializer=tf.placeholder_with_default(
                    array, [None, *array.shape[1:]] if name not in ("state", "bias") else array.shape))
                for name, array in start._asdict().items()))

    def logits(self, x: Any) -> Any:
        """The prediction of all trees together."""
        e, rows = self.variables, tf.range(tf.shape(x)[0])
        trees = tf.size(e.root)
        node = tf.tile(tf.reshape(e.root, [1, -1]), [tf.shape(x)[0], 1])
        example = tf.tile(rows[:, None], [1, trees])

        def down(node: Any) -> Any:
            feature = tf.gather(e.feature, node)
            seen = tf.gather_nd(x, tf.stack([example, tf.maximum(feature, 0)], 2))
            right = tf.cast(seen > tf.gather(e.threshold, node), tf.int32)
            return tf.where(feature >= 0, tf.gather(e.child, node) + right, node)
        leaf = tf.while_loop(lambda node: tf.reduce_any(tf.gather(e.feature, node) >= 0), down, [node], back_prop=False)
        return tf.reduce_sum(tf.gather(e.value, leaf), 1) + e.bias

    def grow(self, x: Any, gradients: Any, hessians: Any, rules: boosting.Rules, ready: Any, center: bool) -> Any:
        """The op that takes a batch in, and grows a layer when `ready(batches, examples)`."""
        def step(x: Any, g: Any, h: Any, *arrays: Any) -> list:
            e = boosting.collected(boosting.Ensemble(*arrays), x, g, h)
            if not ready(int(e.state[2]), len(e.rows)):
                return list(e)
            if center and not len(e.root):
                moved, more = boosting.centered(e, rules)
                if more:
                    return list(moved)
            return list(boosting.with_layer(e, rules))
        types = [v.dtype.base_dtype for v in self.variables]
        new = tf.py_func(step, [x, gradients, hessians, *map(tf.identity, self.variables)], types)
        return tf.group(*[tf.assign(v, value, validate_shape=False) for v, value in zip(self.variables, new)])

    def finished(self, trees: int) -> Any:
        """Whether all trees are finished."""
        return tf.logical_and(tf.size(self.variables.root) >= trees, tf.equal(self.variables.state[1], 1))


class StopWhenGrown(tf.train.SessionRunHook):
    """Ends training when all trees are finished."""

    def __init__(self, finished: Any):
        self._finished = finished

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._finished)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results:
            run_context.request_stop()


def derivatives(loss: Any, logits: Any) -> tuple[Any, Any]:
    """The gradient of the loss by each logit, and the diagonal of its second derivative."""
    gradients = tf.gradients(loss, logits)[0]
    hessians = [tf.gradients(gradients[:, k], logits)[0][:, k] for k in range(logits.shape[1])]
    return gradients, tf.stack(hessians, 1)


def model(features: Any, labels: Any, mode: str, head: Any, columns: Any, rules: boosting.Rules, ready: Any,
          center: bool) -> Any:
    """The EstimatorSpec of an ensemble."""
    x, names = matrix(features, columns)
    graph = EnsembleGraph(x.shape[1], head.logits_dimension)
    tf.get_variable(f"{SCOPE}/feature_names", initializer=tf.constant(names), trainable=False)
    logits = tf.stop_gradient(graph.logits(x))
    logits.set_shape([None, head.logits_dimension])

    def train(loss: Any) -> Any:
        return tf.group(graph.grow(x, *derivatives(loss, logits), rules, ready, center),
                        tf.assign_add(tf.train.get_global_step(), 1))
    spec = head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train)
    if mode == ModeKeys.TRAIN:
        spec = spec._replace(training_hooks=[*spec.training_hooks, StopWhenGrown(graph.finished(rules.trees))])
    return spec


class _BoostedTrees(Estimator):
    """The base of the estimators."""

    def _begin(self, head: Any, columns: Any, batches: int, model_dir: Any, config: Any, rules: boosting.Rules,
               center: bool) -> None:
        if rules.prune not in ("none", "pre", "post"):
            raise ValueError(f"pruning_mode must be one of: none, pre, post. Got {rules.prune}")
        if rules.prune != "none" and rules.complexity <= 0:
            raise ValueError("For pruning, tree_complexity must be positive.")
        self._columns = list(columns)

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return model(features, labels, mode, head, self._columns, rules, lambda seen, _: seen >= batches, center)
        Estimator.__init__(self, model_fn, model_dir, config)

    def _ensemble(self) -> boosting.Ensemble:
        if not self.latest_checkpoint():
            raise ValueError(f"Could not find trained model at {self.model_dir}.")
        found = {name: self.get_variable_value(f"{SCOPE}/{name}") for name in _NAMES}
        return boosting.seedling(1, 1)._replace(**found)

    def experimental_feature_importances(self, normalize: bool = False) -> tuple[Any, Any]:
        """Names of features and the gain of their tests, most important first.

        >>> names, gains = model.experimental_feature_importances(normalize=True)
        """
        e = self._ensemble()
        names = [n.decode() for n in self.get_variable_value(f"{SCOPE}/feature_names")]
        inner = e.feature >= 0
        gains = np.bincount(e.feature[inner], e.gain[inner], minlength=len(names))
        owners = [n.rpartition(":")[0] or n for n in names]
        table = {n: float(sum(g for o, g in zip(owners, gains) if o == n)) for n in dict.fromkeys(owners)}
        order = sorted((n for n in table if table[n] > 0), key=lambda n: -table[n])
        values = np.array([table[n] for n in order])
        return np.array(order), values / values.sum() if normalize and len(values) else values

    def experimental_predict_with_explanations(self, input_fn: Any, predict_keys: Any = None, hooks: Any = None,
                                               checkpoint_path: Any = None) -> Iterator[dict]:
        """Predictions, with what each feature adds to the logit (`dfc`) on the way from the roots (`bias`).

        >>> next(model.experimental_predict_with_explanations(input_fn))["dfc"]
        """
        e = self._ensemble()
        with tf.Graph().as_default(), tf.Session() as sess:
            given = input_fn()
            if isinstance(given, DatasetV2):
                given = tf.data.make_initializable_iterator(given)
                sess.run([given.initializer, tf.tables_initializer()])
                given = given.get_next()
            x, names = matrix(given[0] if isinstance(given, tuple) else given, self._columns)
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coordinator)
            try:
                rows = sess.run(x)
            finally:
                coordinator.request_stop()
                coordinator.join(threads, ignore_live_threads=True)
        owners = [n.rpartition(":")[0] or n for n in names]
        added = contributions(e, rows)
        for row, answer in zip(added, self.predict(input_fn, predict_keys, hooks, checkpoint_path)):
            dfc = {n: float(sum(v for o, v in zip(owners, row) if o == n)) for n in dict.fromkeys(owners)}
            yield {**answer, "dfc": dict(sorted(dfc.items(), key=lambda item: -abs(item[1]))), "bias": float(row[-1])}


def contributions(e: boosting.Ensemble, rows: np.ndarray) -> np.ndarray:
    """What the tests on each feature add to the logit of each example; the last column is the rest."""
    added = np.zeros((len(rows), rows.shape[1] + 1))
    added[:, -1] = e.bias[0]
    for root in e.root:
        node = np.full(len(rows), root)
        added[:, -1] += e.value[root, 0]
        while (inner := np.flatnonzero(e.feature[node] >= 0)).size:
            at, feature = node[inner], e.feature[node[inner]]
            node[inner] = e.child[at] + (rows[inner, feature] > e.threshold[at])
            np.add.at(added, (inner, feature), e.value[node[inner], 0] - e.value[at, 0])
    return added


@export("estimator.BoostedTreesClassifier")
class BoostedTreesClassifier(_BoostedTrees):
    """Boosted trees for classification.

    >>> model = tf.estimator.BoostedTreesClassifier([column], n_batches_per_layer=1, n_trees=50, max_depth=3)
    """

    def __init__(self, feature_columns: Any, n_batches_per_layer: int, model_dir: Any = None, n_classes: Any = _DEFAULT,
                 weight_column: Any = None, label_vocabulary: Any = None, n_trees: int = 100, max_depth: int = 6,
                 learning_rate: float = 0.1, l1_regularization: float = 0.0, l2_regularization: float = 0.0,
                 tree_complexity: float = 0.0, min_node_weight: float = 0.0, config: Any = None, center_bias: bool = False,
                 pruning_mode: str = "none", quantile_sketch_epsilon: float = 0.01, train_in_memory: bool = False):
        head = _class_head(2 if n_classes is _DEFAULT else n_classes, weight_column, label_vocabulary, "weighted_sum")
        self._begin(head, feature_columns, n_batches_per_layer, model_dir, config, boosting.Rules(
            learning_rate, l1_regularization, l2_regularization, tree_complexity, min_node_weight, max_depth, n_trees,
            round(1 / quantile_sketch_epsilon), pruning_mode), center_bias)


@export("estimator.BoostedTreesRegressor")
class BoostedTreesRegressor(_BoostedTrees):
    """Boosted trees for regression."""

    def __init__(self, feature_columns: Any, n_batches_per_layer: int, model_dir: Any = None, label_dimension: Any = _DEFAULT,
                 weight_column: Any = None, n_trees: int = 100, max_depth: int = 6, learning_rate: float = 0.1,
                 l1_regularization: float = 0.0, l2_regularization: float = 0.0, tree_complexity: float = 0.0,
                 min_node_weight: float = 0.0, config: Any = None, center_bias: bool = False, pruning_mode: str = "none",
                 quantile_sketch_epsilon: float = 0.01, train_in_memory: bool = False):
        head = RegressionHead(1 if label_dimension is _DEFAULT else label_dimension, weight_column, "weighted_sum")
        self._begin(head, feature_columns, n_batches_per_layer, model_dir, config, boosting.Rules(
            learning_rate, l1_regularization, l2_regularization, tree_complexity, min_node_weight, max_depth, n_trees,
            round(1 / quantile_sketch_epsilon), pruning_mode), center_bias)


@export("estimator.BoostedTreesEstimator")
class BoostedTreesEstimator(_BoostedTrees):
    """Boosted trees with a custom head."""

    def __init__(self, feature_columns: Any, n_batches_per_layer: int, head: Any, model_dir: Any = None,
                 weight_column: Any = None, n_trees: int = 100, max_depth: int = 6, learning_rate: float = 0.1,
                 l1_regularization: float = 0.0, l2_regularization: float = 0.0, tree_complexity: float = 0.0,
                 min_node_weight: float = 0.0, config: Any = None, center_bias: bool = False, pruning_mode: str = "none",
                 quantile_sketch_epsilon: float = 0.01):
        self._begin(head, feature_columns, n_batches_per_layer, model_dir, config, boosting.Rules(
            learning_rate, l1_regularization, l2_regularization, tree_complexity, min_node_weight, max_depth, n_trees,
            round(1 / quantile_sketch_epsilon), pruning_mode), center_bias)
