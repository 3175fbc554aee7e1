"""The graphs of a random forest: its trees are variables, which a Python op grows (growing.py)."""
from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.contrib.tensor_forest import growing
from penstock.compat import v1 as tf

_MODULE = ("contrib.tensor_forest.python.tensor_forest", "contrib.tensor_forest.tensor_forest")


def _export(thing: Any) -> Any:
    return export(v1=[f"{m}.{thing.__name__}" for m in _MODULE])(thing)


@_export
class ForestHParams:
    """The parameters of a forest: `num_classes` and `num_features` (and `regression`) must be given; `fill` computes the rest.

    >>> ForestHParams(num_classes=3, num_features=4, num_trees=10, max_nodes=100).fill()
    """

    def __init__(self, num_trees: int = 100, max_nodes: int = 10000, bagging_fraction: float = 1.0,
                 num_splits_to_consider: int = 0, feature_bagging_fraction: float = 1.0, max_fertile_nodes: int = 0,
                 split_after_samples: int = 250, valid_leaf_threshold: int = 1, **others: Any):
        self.num_trees, self.max_nodes, self.bagging_fraction = num_trees, max_nodes, bagging_fraction
        self.num_splits_to_consider, self.feature_bagging_fraction = num_splits_to_consider, feature_bagging_fraction
        self.max_fertile_nodes, self.split_after_samples = max_fertile_nodes, split_after_samples
        self.valid_leaf_threshold, self.regression, self.base_random_seed = valid_leaf_threshold, False, 0
        self.__dict__.update(others)

    def values(self) -> dict[str, Any]:
        """All of it, by name."""
        return self.__dict__

    def fill(self) -> ForestHParams:
        """Computes the parameters that were not given."""
        for name in ("num_classes", "num_features"):
            if not hasattr(self, name):
                raise AttributeError(f"ForestHParams needs {name}")
        self.bagged_num_features = int(self.feature_bagging_fraction * self.num_features)
        self.bagged_features = [random.sample(range(self.num_features), self.bagged_num_features)
                                for _ in range(self.num_trees)] if self.feature_bagging_fraction < 1.0 else None
        self.num_outputs = self.num_classes if self.regression else 1
        self.num_output_columns = self.num_classes + 1
        self.num_splits_to_consider = self.num_splits_to_consider or min(
            max(10, math.floor(math.sqrt(self.num_features))), 1000)
        return self

    num_classes: int
    num_features: int


class _TreeGraphs:
    """One tree: a variable for each of its arrays."""

    def __init__(self, params: Any, number: int):
        self.params, self.number = params, number
        targets = 1 + 2 * params.num_classes if params.regression else params.num_classes
        self.variables = growing.Tree(*(
            tf.get_variable(f"tree-{number}/{name}", trainable=False, validate_shape=False,
                            initializer=tf.placeholder_with_default(array, [None, *array.shape[1:]]))
            for name, array in growing.seedling(targets, params.num_splits_to_consider)._asdict().items()))

    def training_graph(self, x: Any, y: Any, seed: int) -> Any:
        """The op that grows the tree by a batch."""
        p = self.params
        if p.regression:
            y = tf.reshape(tf.cast(y, tf.float32), [-1, p.num_classes])
            targets = tf.concat([tf.ones_like(y[:, :1]), y, tf.square(y)], 1)
        else:
            targets = tf.one_hot(tf.reshape(tf.cast(y, tf.int32), [-1]), p.num_classes)

        def grow(x: Any, targets: Any, *arrays: Any) -> list:
            tree = growing.Tree(*arrays)
            steps = int(tree.sums[:, 0].sum()) if seed else random.getrandbits(31)
            return list(growing.grow(tree, x, targets, seed + steps, p.max_nodes, float(p.split_after_samples), p.regression))
        new = tf.py_func(grow, [x, targets, *map(tf.identity, self.variables)], [v.dtype.base_dtype for v in self.variables])
        return tf.group(*[tf.assign(v, value, validate_shape=False) for v, value in zip(self.variables, new)])

    def inference_graph(self, x: Any) -> tuple:
        """Probabilities (or values), and the leaf of each example."""
        tree, rows = self.variables, tf.range(tf.shape(x)[0])

        def down(node: Any) -> Any:
            feature = tf.gather(tree.feature, node)
            value = tf.gather_nd(x, tf.stack([rows, tf.maximum(feature, 0)], 1))
            right = tf.cast(value > tf.gather(tree.threshold, node), tf.int32)
            return tf.where(feature >= 0, tf.gather(tree.child, node) + right, node)
        leaf = tf.while_loop(lambda node: tf.reduce_any(tf.gather(tree.feature, node) >= 0), down, [tf.zeros_like(rows)],
                             back_prop=False)
        sums = tf.gather(tree.sums, leaf)
        n = self.params.num_classes
        if self.params.regression:
            return sums[:, 1:1 + n] / tf.maximum(sums[:, :1], 1e-9), leaf
        return (sums + 1e-9) / tf.reduce_sum(sums + 1e-9, 1, keepdims=True), leaf

    def size(self) -> Any:
        """The number of nodes."""
        return tf.size(self.variables.feature)

    def feature_usage_counts(self) -> Any:
        """How many tests inspect each feature."""
        used = tf.boolean_mask(tf.identity(self.variables.feature), self.variables.feature >= 0)
        return tf.bincount(used, minlength=self.params.num_features, maxlength=self.params.num_features)


@_export
class RandomForestGraphs:
    """A forest in the default graph: `training_graph`, `inference_graph`, and what is known of its trees.

    >>> forest = RandomForestGraphs(params)
    >>> train = forest.training_graph(x, y); probabilities, _, _ = forest.inference_graph(x)
    """

    def __init__(self, params: Any, device_assigner: Any = None, training: bool = True, **others: Any):
        self.params = params
        tf.logging.info("Constructing forest with params = ")
        tf.logging.info(params.__dict__)
        self.trees = [_TreeGraphs(params, i) for i in range(params.num_trees)]

    def _features(self, tree: int, x: Any) -> Any:
        bagged = self.params.bagged_features
        return tf.gather(x, np.array(bagged[tree]), axis=1) if bagged else x

    def training_graph(self, input_data: Any, input_labels: Any, num_trainers: int = 1, trainer_id: int = 0) -> Any:
        """The op that trains all trees, or this trainer's, with a batch, or with a part of it (`bagging_fraction`)."""
        x, made = _matrix(input_data), []
        for i in range(int(trainer_id * self.params.num_trees / num_trainers),
                       int((trainer_id + 1) * self.params.num_trees / num_trainers)):
            seed = self.params.base_random_seed + i if self.params.base_random_seed else 0
            data, labels = x, tf.convert_to_tensor(input_labels)
            if self.params.bagging_fraction < 1.0:
                taken = tf.where(tf.random_uniform([tf.shape(x)[0]], seed=seed) < self.params.bagging_fraction)[:, 0]
                data, labels = tf.gather(data, taken), tf.gather(labels, taken)
            made.append(self.trees[i].training_graph(self._features(i, data), labels, seed))
        return tf.group(*made, name="train")

    def inference_graph(self, input_data: Any) -> tuple:
        """The mean of the trees, the leaf in each of them, and the variance among them."""
        x = _matrix(input_data)
        values, leaves = zip(*(tree.inference_graph(self._features(i, x)) for i, tree in enumerate(self.trees)))
        all_ = tf.stack(values, 1)
        mean = tf.reduce_mean(all_, 1, name="probabilities")
        return mean, tf.stack(leaves, 1), tf.maximum(0.0, tf.reduce_mean(tf.square(all_), 1) - tf.square(mean))

    def average_size(self) -> Any:
        """The mean number of nodes of a tree."""
        return tf.reduce_mean(tf.cast(tf.stack([tree.size() for tree in self.trees]), tf.float32))

    def training_loss(self, features: Any, labels: Any, name: str = "training_loss") -> Any:
        """A quantity that falls while the forest grows: minus the mean size of its trees."""
        return tf.negative(self.average_size(), name=name)

    validation_loss = training_loss

    def feature_importances(self) -> Any:
        """The part of all tests that inspect each feature."""
        counts = tf.cast(tf.add_n([tree.feature_usage_counts() for tree in self.trees]), tf.float32)
        return counts / tf.maximum(tf.reduce_sum(counts), 1)


def _matrix(data: Any) -> Any:
    """Features as one matrix of floats, in the order of their names."""
    if not isinstance(data, dict):
        data = {"": data}
    parts = [tf.cast(tf.convert_to_tensor(data[k]), tf.float32) for k in sorted(data)]
    parts = [x if x.shape.rank != 1 else x[:, None] for x in parts]
    return parts[0] if len(parts) == 1 else tf.concat(parts, 1)
