"""tf.contrib.crf: linear-chain conditional random fields: scores, likelihoods, and the best sequence of tags (Viterbi)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(function: Callable) -> Callable:
    return export(v1=[f"contrib.crf.{function.__name__}"])(function)


def _mask(sequence_lengths: Any, inputs: Tensor) -> Tensor:
    return tf.sequence_mask(sequence_lengths, maxlen=tf.shape(inputs)[1], dtype=inputs.dtype)


@_export
def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Tensor:
    """The sum of the inputs (batch, time, tags) at the tags of each sequence."""
    inputs = tf.convert_to_tensor(inputs)
    hot = tf.one_hot(tag_indices, tf.shape(inputs)[2], dtype=inputs.dtype)
    return tf.reduce_sum(tf.reduce_sum(inputs * hot, -1) * _mask(sequence_lengths, inputs), 1)


@_export
def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """The sum of the scores of transitions between neighbouring tags."""
    transitions = tf.convert_to_tensor(transition_params)
    tags = tf.convert_to_tensor(tag_indices)
    steps = tf.gather(tf.reshape(transitions, [-1]), tags[:, :-1] * tf.cast(tf.shape(transitions)[0], tags.dtype) + tags[:, 1:])
    mask = tf.sequence_mask(tf.maximum(tf.cast(sequence_lengths, tf.int32) - 1, 0), tf.shape(tags)[1] - 1, dtype=steps.dtype)
    return tf.reduce_sum(steps * mask, 1)


@_export
def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """The score of sequences of tags."""
    score = crf_unary_score(tag_indices, sequence_lengths, inputs) + \
        crf_binary_score(tag_indices, sequence_lengths, transition_params)
    return tf.where(tf.cast(sequence_lengths, tf.int32) <= 0, tf.zeros_like(score), score)


def _forward(inputs: Tensor, sequence_lengths: Any, transitions: Tensor) -> Tensor:
    """The logarithms of the sums over all sequences that end in each tag."""
    lengths = tf.cast(sequence_lengths, tf.int32)

    def step(t: Tensor, alphas: Tensor) -> tuple[Tensor, Tensor]:
        new = inputs[:, t] + tf.reduce_logsumexp(alphas[:, :, tf.newaxis] + transitions[tf.newaxis], axis=1)
        return t + 1, tf.where(t < lengths, new, alphas)

    _, alphas = tf.while_loop(lambda t, _: t < tf.shape(inputs)[1], step, (tf.constant(1), inputs[:, 0]))
    return alphas


@_export
def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """The logarithm of the sum over all sequences of tags."""
    norm = tf.reduce_logsumexp(_forward(tf.convert_to_tensor(inputs), sequence_lengths,
                                        tf.convert_to_tensor(transition_params)), 1)
    return tf.where(tf.cast(sequence_lengths, tf.int32) <= 0, tf.zeros_like(norm), norm)


@_export
def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """The logarithm of the sum over all sequences whose tags are allowed: `tag_bitmap` is (batch, time, tags).

    >>> tf.contrib.crf.crf_multitag_sequence_score(inputs, tf.ones_like(inputs, tf.bool), lengths, transitions)
    """
    inputs = tf.convert_to_tensor(inputs)
    allowed = tf.where(tag_bitmap, inputs, tf.fill(tf.shape(inputs), tf.constant(-np.inf, inputs.dtype)))
    return crf_log_norm(allowed, sequence_lengths, transition_params)


@_export
def crf_log_likelihood(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None) -> tuple[Tensor,
                                                                                                                     Any]:
    """The log likelihood of sequences of tags, and the transition scores, a variable `transitions` if none were given.

    >>> log_likelihood, transitions = tf.contrib.crf.crf_log_likelihood(scores, tags, lengths)
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        tags = inputs.shape.as_list()[2]
        transition_params = tf.get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


@_export
def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Tensor, Tensor]:
    """The best tags of sequences, [batch, time], and their scores."""
    inputs, transitions = tf.convert_to_tensor(potentials), tf.convert_to_tensor(transition_params)
    lengths, steps = tf.cast(sequence_length, tf.int32), tf.shape(inputs)[1]
    batch, tags = tf.shape(inputs)[0], tf.shape(inputs)[2]
    stay = tf.tile(tf.range(tags)[tf.newaxis], [batch, 1])

    def forward(t: Tensor, best: Tensor, pointers: Any) -> tuple:
        candidates = best[:, :, tf.newaxis] + transitions[tf.newaxis]
        new = inputs[:, t] + tf.reduce_max(candidates, 1)
        came_from = tf.argmax(candidates, 1, output_type=tf.int32)
        inside = t < lengths
        return t + 1, tf.where(inside, new, best), pointers.write(t, tf.where(inside, came_from, stay))

    pointers = tf.TensorArray(tf.int32, size=steps, element_shape=[None, None], clear_after_read=False).write(0, stay)
    _, best, pointers = tf.while_loop(lambda t, *_: t < steps, forward, (tf.constant(1), inputs[:, 0], pointers))
    last = tf.argmax(best, 1, output_type=tf.int32)
    table = pointers.stack()

    def backward(t: Tensor, tag: Tensor, found: Any) -> tuple:
        found = found.write(t, tf.where(t < lengths, tag, tf.zeros_like(tag)))
        return t - 1, tf.gather(table[t], tag, batch_dims=1), found

    *_, found = tf.while_loop(lambda t, *_: t >= 0, backward, (steps - 1, last, tf.TensorArray(tf.int32, size=steps)))
    decoded = tf.transpose(found.stack(), [1, 0])
    decoded.set_shape(inputs.shape[:2])
    return decoded, tf.reduce_max(best, 1)


@_export
def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], float]:
    """The best tags of one sequence and their score, in numpy."""
    score, transitions = np.asarray(score), np.asarray(transition_params)
    best, pointers = score[0], []
    for row in score[1:]:
        candidates = best[:, None] + transitions
        pointers.append(candidates.argmax(0))
        best = row + candidates.max(0)
    path = [int(best.argmax())]
    for pointer in reversed(pointers):
        path.append(int(pointer[path[-1]]))
    return path[::-1], best.max()
