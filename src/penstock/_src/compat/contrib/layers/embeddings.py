"""Embeddings of sequences and of sparse ids."""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.framework.variables import model_variable
from penstock._src.compat.contrib.layers.support import layer, public
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


@layer("embed_sequence")
def embed_sequence(ids: Any, vocab_size: int | None = None, embed_dim: int | None = None, unique: bool = False,
                   initializer: Any = None, regularizer: Any = None, trainable: bool = True, scope: Any = None,
                   reuse: Any = None) -> Tensor:
    """The rows of a variable `embeddings` at each of the ids.

    >>> tf.contrib.layers.embed_sequence(tf.constant([[1, 2], [3, 0]]), vocab_size=4, embed_dim=8)
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError("Must specify vocab size and embedding dimension when not reusing. Got "
                         f"vocab_size={vocab_size} and embed_dim={embed_dim}")
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = None if vocab_size is None or embed_dim is None else [vocab_size, embed_dim]
        embeddings = model_variable("embeddings", shape=shape, initializer=initializer, regularizer=regularizer,
                                    trainable=trainable)
        return embedding_lookup_unique(embeddings, ids) if unique else tf.nn.embedding_lookup(embeddings, ids)


@layer("bow_encoder")
def bow_encoder(ids: Any, vocab_size: int, embed_dim: int, sparse_lookup: bool = True, initializer: Any = None,
                regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None) -> Tensor:
    """The mean of the embeddings of all ids in a row."""
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = model_variable("embeddings", shape=[vocab_size, embed_dim], initializer=initializer,
                                    regularizer=regularizer, trainable=trainable)
        if not sparse_lookup:
            if isinstance(ids, tf.SparseTensor):
                raise TypeError(f"ids are expected to be dense Tensor, got: {ids}")
            return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), axis=1)
        if not isinstance(ids, tf.SparseTensor):
            ids = tf.sparse.from_dense(ids)
        return tf.nn.safe_embedding_lookup_sparse(embeddings, ids, combiner="mean", default_id=0)


@public("embedding_lookup_unique")
def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Tensor:
    """As `tf.nn.embedding_lookup`, reading each row once however often its id occurs."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        unique, index = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(tf.nn.embedding_lookup(params, unique, partition_strategy=partition_strategy), index)
        found = tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0))
        found.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return found


@public("safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None,
                                 combiner: str | None = None, default_id: int | None = None, name: str | None = None,
                                 partition_strategy: str = "div", max_norm: float | None = None) -> Tensor:
    """Embeddings of rows of ids, of which some are empty or hold invalid ids."""
    return tf.nn.safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights, combiner=combiner or "mean",
                                              default_id=default_id, name=name, partition_strategy=partition_strategy,
                                              max_norm=max_norm)
