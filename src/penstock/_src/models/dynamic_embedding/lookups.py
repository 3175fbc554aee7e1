"""Lookups in dynamic_embedding variables, and the optimizer around others, which changes nothing here."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.state.embeddings.variable import LOOKUPS


def _with_trainable(out: Any, params: Any, wanted: bool) -> Any:
    """The result, with what optimizers are to change if it is requested: the table, or a list of them."""
    if not wanted:
        return out
    tables = params.tables
    return out, tables[0] if len(tables) == 1 else tables


@export("dynamic_embedding.embedding_lookup")
def embedding_lookup(params: Any, ids: Any, partition_strategy: Any = None, name: str | None = None,
                     validate_indices: Any = None, max_norm: float | None = None, return_trainable: bool = False) -> Any:
    """The embeddings of keys, which get rows if they have none.

    >>> rows, trainable = tf.dynamic_embedding.embedding_lookup(table, ids, name="rows", return_trainable=True)
    """
    return _with_trainable(tf.nn.embedding_lookup(params, ids, name=name, max_norm=max_norm), params, return_trainable)


@export("dynamic_embedding.enable_train_mode")
def enable_train_mode() -> None:
    """Lookups make rows for new keys, which is the default."""
    LOOKUPS.make_rows = True


@export("dynamic_embedding.enable_inference_mode")
def enable_inference_mode() -> None:
    """Lookups that are built or run eagerly from now on make no rows: new keys have initial values."""
    LOOKUPS.make_rows = False


@export("dynamic_embedding.embedding_lookup_unique")
def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: Any = None, name: str | None = None,
                            validate_indices: Any = None, max_norm: float | None = None, return_trainable: bool = False) -> Any:
    """embedding_lookup that looks each key up once."""
    ids = tf.convert_to_tensor(ids)
    keys, where = tf.unique(tf.reshape(ids, [-1]))
    rows = tf.gather(tf.nn.embedding_lookup(params, keys, name=name, max_norm=max_norm), tf.reshape(where, tf.shape(ids)))
    return _with_trainable(rows, params, return_trainable)


@export("dynamic_embedding.embedding_lookup_sparse")
def embedding_lookup_sparse(params: Any, sp_ids: Any, sp_weights: Any, partition_strategy: Any = None,
                            name: str | None = "embedding_lookup_sparse", combiner: str | None = "mean",
                            max_norm: float | None = None, return_trainable: bool = False) -> Any:
    """The embeddings of the keys in each row, weighted and combined."""
    out = tf.nn.embedding_lookup_sparse(params, sp_ids, sp_weights, name=name, combiner=combiner, max_norm=max_norm)
    return _with_trainable(out, params, return_trainable)


@export("dynamic_embedding.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None, combiner: str = "mean",
                                 default_id: Any = None, name: str | None = "safe_embedding_lookup_sparse",
                                 partition_strategy: Any = None, max_norm: float | None = None,
                                 return_trainable: bool = False) -> Any:
    """embedding_lookup_sparse that takes rows without keys; every key is valid."""
    out = tf.nn.safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights, combiner, default_id, name,
                                             max_norm=max_norm)
    return _with_trainable(out, embedding_weights, return_trainable)


@export("dynamic_embedding.DynamicEmbeddingOptimizer")
def DynamicEmbeddingOptimizer(self: Any, bp_v2: bool = False, synchronous: bool = False, **kwargs: Any) -> Any:
    """The optimizer itself: every optimizer updates embedding variables.

    >>> optimizer = tf.dynamic_embedding.DynamicEmbeddingOptimizer(tf.keras.optimizers.Adam())
    """
    return self
