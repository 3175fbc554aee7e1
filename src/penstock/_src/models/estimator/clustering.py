"""K-means: the graph of it (`tf.contrib.factorization.KMeans`) and an estimator around it (`estimator.experimental.KMeans`)."""
from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import export
from penstock._src.models.estimator.estimator import Estimator
from penstock._src.models.estimator.export_outputs import PredictOutput
from penstock._src.models.estimator.spec import EstimatorSpec
from penstock.compat import v1 as tf

SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = "squared_euclidean", "cosine"
RANDOM_INIT, KMEANS_PLUS_PLUS_INIT, KMC2_INIT = "random", "kmeans_plus_plus", "kmc2"
CLUSTERS_VAR_NAME = "clusters"
_EPSILON = 1e-6                       # points of a cluster that has none, so that its mean is a number


class KMeans:
    """The graph of k-means: whole batches (Lloyd's algorithm), or mini-batches that move the centers a little each.

    With mini-batches and several steps per iteration, points are assigned to centers that are fixed for an iteration, while a
    second copy of them moves.

    >>> scores, index, distances, initialized, init, train = KMeans(x, 3).training_graph()
    """

    def __init__(self, inputs: Any, num_clusters: Any, initial_clusters: Any = RANDOM_INIT,
                 distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, use_mini_batch: bool = False,
                 mini_batch_steps_per_iteration: int = 1, random_seed: int = 0, kmeans_plus_plus_num_retries: int = 2,
                 kmc2_chain_length: int = 200):
        if isinstance(initial_clusters, str) and initial_clusters not in (RANDOM_INIT, KMEANS_PLUS_PLUS_INIT, KMC2_INIT):
            raise ValueError(f"Unsupported initialization algorithm '{initial_clusters}'")
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError(f"Unsupported distance metric '{distance_metric}'")
        self._inputs = inputs if isinstance(inputs, list) else [inputs]
        self._num_clusters, self._initial = num_clusters, initial_clusters
        self._cosine = distance_metric == COSINE_DISTANCE
        self._mini, self._period = use_mini_batch, int(mini_batch_steps_per_iteration)
        self._seed = tf.get_seed(random_seed)[0]
        self._retries, self._chain = kmeans_plus_plus_num_retries, kmc2_chain_length

    @property
    def _two_copies(self) -> bool:
        return self._mini and self._period > 1

    def training_graph(self) -> tuple:
        """Distances to all centers, the nearest center and its distance (each a list, as the inputs are), whether all centers
        are chosen, the op that chooses some, and the op that trains."""
        if not isinstance(self._initial, str) and not callable(self._initial):
            self._initial = tf.convert_to_tensor(self._initial)
            count = tf.shape(self._initial)[0]
        else:
            count = tf.convert_to_tensor(self._num_clusters)
        self._make_variables(count)
        init = self._choose(count)
        inputs, centers = self._inputs, self._centers
        if self._cosine:
            inputs = [tf.nn.l2_normalize(x, dim=1) for x in inputs]
            if not self._kept_normal:
                centers = tf.nn.l2_normalize(centers, dim=1)
        scores, distances, nearest = zip(*(self._assign(x, centers) for x in inputs))
        train = self._train_mini(inputs, nearest) if self._mini else self._train_whole(inputs, nearest, count)
        return scores, nearest, distances, self._initialized, init, train

    @property
    def _kept_normal(self) -> bool:
        """Whether the centers in the variable have length 1."""
        return self._cosine and (not self._mini or self._two_copies)

    def _make_variables(self, count: Any) -> None:
        nothing = tf.placeholder_with_default(tf.zeros([0]), shape=None)
        variable = tf.get_variable_scope().use_resource
        make = lambda value, **kwargs: tf.Variable(value, use_resource=variable, **kwargs)  # noqa: E731
        self._centers = self._moving = make(nothing, name=CLUSTERS_VAR_NAME, validate_shape=False)
        self._initialized = make(False, dtype=tf.bool, name="initialized")
        if self._two_copies:
            self._moving = make(nothing, name="clusters_updated", validate_shape=False)
            self._left = make(self._period, dtype=tf.int64, name="update_in_steps")
            self._counts = make(tf.zeros(tf.reshape(count, [1]), tf.int64))
        elif self._mini:
            self._counts = make(tf.ones(tf.reshape(count, [1]), tf.int64))

    def _assign(self, x: Any, centers: Any) -> tuple:
        """Distances of points to all centers, and the nearest one."""
        products = tf.matmul(x, centers, transpose_b=True)
        if self._cosine:
            scores = 1 - products
        else:
            scores = tf.reduce_sum(tf.square(x), 1, keepdims=True) - 2 * products + tf.reduce_sum(tf.square(centers), 1)
        index, distance = tf.raw_ops.NearestNeighbors(points=x, centers=centers, k=tf.constant(1, tf.int64))
        distance = tf.squeeze(distance, [-1])
        return scores, distance * 0.5 if self._cosine else distance, tf.squeeze(index, [-1])

    def _train_whole(self, inputs: list, nearest: Any, count: Any) -> Any:
        sums = tf.add_n([tf.unsorted_segment_sum(x, i, count) for x, i in zip(inputs, nearest)])
        sizes = tf.add_n([tf.unsorted_segment_sum(tf.ones([tf.shape(x)[0], 1]), i, count) for x, i in zip(inputs, nearest)])
        means = sums / (tf.cast(sizes, sums.dtype) + _EPSILON)
        return tf.assign(self._centers, tf.nn.l2_normalize(means, dim=1) if self._cosine else means)

    def _train_mini(self, inputs: list, nearest: Any) -> Any:
        with tf.control_dependencies([self._synchronize()] if self._two_copies else []):
            return tf.group(*[self._move(x, tf.reshape(i, [-1])) for x, i in zip(inputs, nearest)])

    def _move(self, x: Any, nearest: Any) -> Any:
        """Moves each center towards the mean of its new points, by their part in all that it has seen."""
        ids, place = tf.unique(nearest)
        number = tf.size(ids)
        new = tf.unsorted_segment_sum(tf.ones_like(place, dtype=tf.int64), place, number)
        seen = tf.gather(self._counts, ids) + new
        shift = tf.unsorted_segment_sum(x, place, number) - tf.cast(new, x.dtype)[:, None] * tf.gather(self._moving, ids)
        step = shift / tf.cast(seen, x.dtype)[:, None]
        with tf.control_dependencies([step]):               # counts and centers are read before they change
            return tf.group(tf.scatter_add(self._counts, ids, new), tf.scatter_add(self._moving, ids, step))

    def _synchronize(self) -> Any:
        """At the end of an iteration, the moving copy becomes the centers, and the counts start again."""
        def copy() -> Any:
            moved = tf.nn.l2_normalize(self._moving, dim=1) if self._cosine else tf.identity(self._moving)
            with tf.control_dependencies([tf.assign(self._left, self._period - 1),
                                          tf.assign(self._centers, moved, validate_shape=False)]):
                with tf.control_dependencies([tf.assign(self._counts, tf.zeros_like(self._counts))]):
                    return tf.identity(self._left)
        return tf.cond(self._left <= 0, copy, lambda: tf.identity(tf.assign_sub(self._left, 1)))

    def _choose(self, count: Any) -> Any:
        """The op that chooses centers from the inputs, as many as there are, until all are chosen."""
        selected = tf.shape(self._centers)[0]
        return tf.cond(tf.equal(count, selected), lambda: tf.identity(self._initialized),
                       lambda: self._choose_some(count, selected)).op

    def _choose_some(self, count: Any, selected: Any) -> Any:
        """Chooses some of the missing centers; returns whether all are chosen."""
        wanted = count - selected
        with tf.control_dependencies([tf.assert_positive(wanted)]):
            wanted = tf.identity(wanted)
            new = self._kmc2(wanted) if isinstance(self._initial, str) and self._initial == KMC2_INIT else self._sample(wanted)
            if self._cosine:
                new = tf.nn.l2_normalize(new, dim=1)
            everything = tf.cond(tf.equal(selected, 0), lambda: new, lambda: tf.concat([self._centers, new], 0))
            done = tf.assign(self._centers, everything, validate_shape=False)
            if self._two_copies:
                done = tf.assign(self._moving, done, validate_shape=False)
            return tf.identity(tf.assign(self._initialized, tf.equal(count, tf.shape(done)[0])))

    def _sample(self, wanted: Any) -> Any:
        """Up to `wanted` of the points."""
        if callable(self._initial):
            return self._initial(self._inputs, wanted)
        if not isinstance(self._initial, str):
            with tf.control_dependencies([tf.assert_equal(wanted, tf.shape(self._initial)[0])]):
                return tf.identity(self._initial)
        there = tf.add_n([tf.shape(x)[0] for x in self._inputs])
        if self._initial == RANDOM_INIT:
            return tf.cond(there <= wanted, lambda: tf.concat(self._inputs, 0), lambda: tf.gather(
                tf.concat(self._inputs, 0), tf.random_uniform(tf.reshape(wanted, [1]), maxval=tf.cast(there, tf.int64),
                                                              seed=self._seed, dtype=tf.int64)))
        first = tf.nn.l2_normalize(self._inputs[0], dim=1) if self._cosine else self._inputs[0]
        with tf.control_dependencies([tf.assert_greater_equal(there, wanted)]):
            return tf.raw_ops.KmeansPlusPlusInitialization(
                points=first, num_to_sample=tf.cast(wanted, tf.int64), seed=tf.constant(self._seed or 0, tf.int64),
                num_retries_per_sample=tf.constant(self._retries, tf.int64))

    def _kmc2(self, wanted: Any) -> Any:
        """New centers by Markov chains, one chain for each part of the batch; the first of all is the first point."""
        points, size = self._inputs[0], self._chain
        if self._cosine:
            points = tf.nn.l2_normalize(points, dim=1)
        chains = tf.maximum(tf.minimum(wanted, tf.shape(points)[0] // size), 1)
        before = tf.reshape(self._centers, [-1, tf.shape(points)[1]])

        def body(i: Any, new: Any) -> tuple:
            part, all_ = points[i * size:(i + 1) * size], tf.concat([before, new], 0)

            def chain() -> Any:
                _, distances = tf.raw_ops.NearestNeighbors(points=part, centers=all_, k=tf.constant(1, tf.int64))
                index = tf.raw_ops.KMC2ChainInitialization(distances=tf.squeeze(distances, [-1]),
                                                           seed=tf.constant(self._seed or 0, tf.int64))
                return tf.reshape(part[index], [1, -1])
            one = tf.cond(tf.equal(tf.shape(all_)[0], 0), lambda: tf.reshape(points[0], [1, -1]), chain)
            return i + 1, tf.concat([new, one], 0)
        width = points.shape[1]
        return tf.while_loop(lambda i, new: i < chains, body, [0, tf.zeros([0, tf.shape(points)[1]])],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, width])])[1]


class _ChooseCenters(tf.train.SessionRunHook):
    """The chief chooses centers until there are enough; others wait for it."""

    def __init__(self, init: Any, initialized: Any, chief: bool):
        self._init, self._initialized, self._chief = init, initialized, chief

    def after_create_session(self, session: Any, coord: Any) -> None:
        while not session.run(self._initialized):
            if self._chief:
                session.run(self._init)
            else:
                time.sleep(0.2)


class _StopIfStill(tf.train.SessionRunHook):
    """Stops when the relative change of the loss is small."""

    def __init__(self, loss: Any, tolerance: float):
        self._loss, self._tolerance, self._before = loss, tolerance, None

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        loss = run_values.results
        if self._before and abs(loss - self._before) / (1 + abs(self._before)) < self._tolerance:
            run_context.request_stop()
        self._before = loss


@export("estimator.experimental.KMeans")
class KMeansClustering(Estimator):
    """K-means as an estimator: `train`, then `cluster_centers`, `predict_cluster_index`, `score` and `transform`.

    >>> model = tf.estimator.experimental.KMeans(num_clusters=3, use_mini_batch=False)
    >>> model.train(input_fn, steps=10).cluster_centers()
    """

    SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE
    RANDOM_INIT, KMEANS_PLUS_PLUS_INIT = RANDOM_INIT, KMEANS_PLUS_PLUS_INIT
    SCORE, CLUSTER_INDEX, ALL_DISTANCES = "score", "cluster_index", "all_distances"
    CLUSTER_CENTERS_VAR_NAME = CLUSTERS_VAR_NAME

    def __init__(self, num_clusters: Any, model_dir: Any = None, initial_clusters: Any = RANDOM_INIT,
                 distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, seed: int | None = None, use_mini_batch: bool = True,
                 mini_batch_steps_per_iteration: int = 1, kmeans_plus_plus_num_retries: int = 2,
                 relative_tolerance: float | None = None, config: Any = None, feature_columns: Any = None):
        def model_fn(features: Any, mode: str, config: Any) -> EstimatorSpec:
            points = _points(features, feature_columns)
            scores, index, losses, initialized, init, train = KMeans(
                points, num_clusters, initial_clusters, distance_metric, use_mini_batch, mini_batch_steps_per_iteration,
                seed, kmeans_plus_plus_num_retries).training_graph()           # type: ignore[arg-type]
            loss = tf.reduce_sum(losses)
            tf.summary.scalar("loss/raw", loss)
            hooks: list = [_ChooseCenters(init, initialized, config.is_chief)]
            if relative_tolerance is not None:
                hooks.append(_StopIfStill(loss, relative_tolerance))
            return EstimatorSpec(
                mode, predictions={self.ALL_DISTANCES: scores[0], self.CLUSTER_INDEX: index[0]}, loss=loss,
                train_op=tf.group(train, tf.assign_add(tf.train.get_global_step(), 1)),
                eval_metric_ops={self.SCORE: tf.metrics.mean(loss)}, training_hooks=hooks,
                export_outputs={self.ALL_DISTANCES: PredictOutput(scores[0]), self.CLUSTER_INDEX: PredictOutput(index[0]),
                                "serving_default": PredictOutput(index[0])})
        super().__init__(model_fn, model_dir=model_dir, config=config)

    def predict_cluster_index(self, input_fn: Any) -> Iterator[Any]:
        """The nearest center of each point."""
        for row in self.predict(input_fn, [self.CLUSTER_INDEX]):
            yield row[self.CLUSTER_INDEX]

    def score(self, input_fn: Any) -> Any:
        """The sum of the distances of the points to their centers."""
        return self.evaluate(input_fn, steps=1)[self.SCORE]

    def transform(self, input_fn: Any) -> Iterator[Any]:
        """The distances of each point to all centers."""
        for row in self.predict(input_fn, [self.ALL_DISTANCES]):
            yield row[self.ALL_DISTANCES]

    def cluster_centers(self) -> Any:
        """The centers."""
        return self.get_variable_value(CLUSTERS_VAR_NAME)


def _points(features: Any, columns: Any) -> Any:
    """Features as one matrix, in the order of their names."""
    if not isinstance(features, dict):
        return features
    if columns:
        return tf.feature_column.input_layer(features, columns)
    return tf.concat([features[k] for k in sorted(features)], axis=1)
