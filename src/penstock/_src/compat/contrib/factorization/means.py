"""K-means, as a graph and as an estimator."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.estimator import clustering

for _name in ("KMeans", "SQUARED_EUCLIDEAN_DISTANCE", "COSINE_DISTANCE", "RANDOM_INIT", "KMEANS_PLUS_PLUS_INIT", "KMC2_INIT"):
    export.value(getattr(clustering, _name), v1=[f"contrib.factorization.{_name}"])


@export(v1=["contrib.factorization.KMeansClustering"])
class KMeansClustering(clustering.KMeansClustering):
    """K-means as an estimator: `tf.estimator.experimental.KMeans`, whose seed is called `random_seed` here.

    >>> tf.contrib.factorization.KMeansClustering(num_clusters=5, use_mini_batch=False)
    """

    def __init__(self, num_clusters: Any, model_dir: Any = None, initial_clusters: Any = clustering.RANDOM_INIT,
                 distance_metric: str = clustering.SQUARED_EUCLIDEAN_DISTANCE, random_seed: int = 0,
                 use_mini_batch: bool = True, mini_batch_steps_per_iteration: int = 1, kmeans_plus_plus_num_retries: int = 2,
                 relative_tolerance: float | None = None, config: Any = None, feature_columns: Any = None):
        super().__init__(num_clusters, model_dir, initial_clusters, distance_metric, random_seed, use_mini_batch,
                         mini_batch_steps_per_iteration, kmeans_plus_plus_num_retries, relative_tolerance, config,
                         feature_columns)
