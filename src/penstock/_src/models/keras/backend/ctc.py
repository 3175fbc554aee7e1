"""Connectionist temporal classification, on dense labels and probabilities."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.backend.config import epsilon
from penstock.compat import v1 as tf


@export("keras.backend.ctc_label_dense_to_sparse")
def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> Any:
    """Labels [batch, longest] as a SparseTensor of their first `label_lengths` columns."""
    dims = tf.shape(labels)
    lengths = tf.cast(tf.reshape(label_lengths, [-1]), tf.int32)
    indices = tf.where(tf.sequence_mask(lengths, dims[1]))
    return tf.SparseTensor(indices, tf.gather_nd(labels, indices), tf.cast(dims, tf.int64))


def _log_time_major(y_pred: Any) -> Any:
    return tf.log(tf.transpose(y_pred, [1, 0, 2]) + epsilon())


@export("keras.backend.ctc_batch_cost")
def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Any:
    """The CTC loss of each element of the batch, [batch, 1]; lengths are [batch, 1]."""
    lengths = [tf.cast(tf.squeeze(n, axis=-1), tf.int32) for n in (label_length, input_length)]
    labels = tf.cast(ctc_label_dense_to_sparse(y_true, lengths[0]), tf.int32)
    loss = tf.nn.ctc_loss(inputs=_log_time_major(y_pred), labels=labels, sequence_length=lengths[1])
    return tf.expand_dims(loss, 1)


@export("keras.backend.ctc_decode")
def ctc_decode(y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1) -> Any:
    """The likeliest labels (dense, -1 after the end) and the logarithms of their probabilities."""
    y_pred, input_length = _log_time_major(y_pred), tf.cast(input_length, tf.int32)
    if greedy:
        decoded, log_prob = tf.nn.ctc_greedy_decoder(inputs=y_pred, sequence_length=input_length)
    else:
        decoded, log_prob = tf.nn.ctc_beam_search_decoder(inputs=y_pred, sequence_length=input_length, beam_width=beam_width,
                                                          top_paths=top_paths)
    return [tf.sparse_tensor_to_dense(s, default_value=-1) for s in decoded], log_prob
