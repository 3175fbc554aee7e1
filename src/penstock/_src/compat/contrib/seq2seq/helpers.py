"""Helpers choose the next inputs of a decoder: the given ones in training, its own outputs otherwise."""
from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn.steps import transpose_batch_time
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.seq2seq.{cls.__name__}"])(cls)


@_export
class Helper(metaclass=abc.ABCMeta):
    """The first inputs, the choice of numbers from outputs, and the next inputs."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """The number of sequences."""

    sample_ids_shape = property(lambda self: TensorShape([]))
    sample_ids_dtype = property(lambda self: tf.int32)

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs)."""

    @abc.abstractmethod
    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """The numbers that outputs represent."""

    @abc.abstractmethod
    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """(finished, next inputs, state)."""


@_export
class CustomHelper(Helper):
    """A helper of three functions."""

    def __init__(self, initialize_fn: Callable, sample_fn: Callable, next_inputs_fn: Callable, sample_ids_shape: Any = None,
                 sample_ids_dtype: Any = None):
        self._initialize_fn, self._sample_fn, self._next_inputs_fn = initialize_fn, sample_fn, next_inputs_fn
        self._shape, self._dtype, self._batch_size = TensorShape(sample_ids_shape or []), sample_ids_dtype or tf.int32, None

    sample_ids_shape = property(lambda self: self._shape)
    sample_ids_dtype = property(lambda self: self._dtype)

    @property
    def batch_size(self) -> Any:
        """The number of sequences, known after `initialize`."""
        if self._batch_size is None:
            raise ValueError("batch_size is known after initialize()")
        return self._batch_size

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs)."""
        finished, inputs = self._initialize_fn()
        if self._batch_size is None:
            self._batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """The numbers that outputs represent."""
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """(finished, next inputs, state)."""
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


@_export
class TrainingHelper(Helper):
    """Gives the inputs of a sequence, [batch, time, ...], in sequence.

    >>> helper = tf.contrib.seq2seq.TrainingHelper(inputs, lengths)
    """

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None):
        with tf.name_scope(name, "TrainingHelper", [*nest.flatten(inputs), sequence_length]):
            inputs = nest.map_structure(tf.convert_to_tensor, inputs)
            self._inputs = inputs if time_major else nest.map_structure(transpose_batch_time, inputs)
            self._sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.ndims != 1:
                raise ValueError(f"Expected sequence_length to be a vector, but received shape: {self._sequence_length.shape}")
            self._arrays = nest.map_structure(lambda x: tf.TensorArray(x.dtype, size=tf.shape(x)[0], element_shape=x.shape[1:])
                                              .unstack(x), self._inputs)
            self._zero_inputs = nest.map_structure(lambda x: tf.zeros_like(x[0, :]), self._inputs)
            self._batch_size = tf.size(self._sequence_length)

    inputs = property(lambda self: self._inputs)
    sequence_length = property(lambda self: self._sequence_length)
    batch_size = property(lambda self: self._batch_size)

    def _read(self, finished: Tensor, time: Any) -> Any:
        return tf.cond(tf.reduce_all(finished), lambda: self._zero_inputs,
                       lambda: nest.map_structure(lambda a: a.read(time), self._arrays))

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs)."""
        finished = tf.equal(0, self._sequence_length)
        return finished, self._read(finished, 0)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """The highest output."""
        return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """(finished, next inputs, state)."""
        finished = time + 1 >= tf.cast(self._sequence_length, tf.int32)
        return finished, self._read(finished, time + 1), state


@_export
class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Training inputs, in place of which come, at random, embeddings of the decoder's own choices."""

    def __init__(self, inputs: Any, sequence_length: Any, embedding: Any, sampling_probability: Any, time_major: bool = False,
                 seed: int | None = None, scheduling_seed: int | None = None, name: str | None = None):
        super().__init__(inputs, sequence_length, time_major, name)
        self._embedding_fn = embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)
        self._probability = tf.convert_to_tensor(sampling_probability, name="sampling_probability")
        if self._probability.shape.ndims not in (0, 1):
            raise ValueError(f"sampling_probability must be either a scalar or a vector. saw shape: {self._probability.shape}")
        self._seed, self._scheduling_seed = seed, scheduling_seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """A random choice by the outputs where it will be used, else -1."""
        chosen = tf.random_uniform([self.batch_size], seed=self._scheduling_seed) < self._probability
        drawn = tf.cast(tf.multinomial(outputs, 1, seed=self._seed)[:, 0], tf.int32)
        return tf.where(chosen, drawn, tf.fill([self.batch_size], -1))

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """(finished, next inputs, state)."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        own = self._embedding_fn(tf.maximum(sample_ids, 0))
        return finished, tf.where(sample_ids > -1, own, given), state


@_export
class ScheduledOutputTrainingHelper(TrainingHelper):
    """Training inputs, in place of which come, at random, the decoder's own outputs."""

    def __init__(self, inputs: Any, sequence_length: Any, sampling_probability: Any, time_major: bool = False,
                 seed: int | None = None, next_inputs_fn: Callable | None = None, auxiliary_inputs: Any = None,
                 name: str | None = None):
        self._probability, self._seed, self._next_inputs_fn = sampling_probability, seed, next_inputs_fn
        self._auxiliary = auxiliary_inputs
        if auxiliary_inputs is not None:               # they follow the inputs, and the outputs that replace them
            inputs, more = tf.convert_to_tensor(inputs, name="inputs"), tf.convert_to_tensor(auxiliary_inputs)
            inputs = tf.concat([inputs, more], -1)
            more = more if time_major else transpose_batch_time(more)
            self._auxiliary = tf.TensorArray(more.dtype, size=tf.shape(more)[0], element_shape=more.shape[1:]).unstack(more)
        super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Which sequences read their own output."""
        return tf.cast(tf.random_uniform([self.batch_size], seed=self._seed) < self._probability, tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """(finished, next inputs, state)."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        chosen = tf.cast(sample_ids, tf.bool)
        unused = tf.logical_or(tf.reduce_all(finished), tf.logical_not(tf.reduce_any(chosen)))
        return finished, tf.cond(unused, lambda: given, lambda: tf.where(chosen, self._own(time, outputs), given)), state

    def _own(self, time: Any, outputs: Any) -> Tensor:
        """The inputs that the decoder makes of its outputs."""
        own = outputs if self._next_inputs_fn is None else self._next_inputs_fn(outputs)
        return own if self._auxiliary is None else tf.concat([own, self._auxiliary.read(time + 1)], -1)


@_export
class GreedyEmbeddingHelper(Helper):
    """The embedding of the most likely number is the next input.

    >>> helper = tf.contrib.seq2seq.GreedyEmbeddingHelper(embedding, start_tokens=tf.fill([batch], 1), end_token=2)
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any):
        self._embedding_fn = embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)
        self._start_tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        if self._start_tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._batch_size = tf.size(self._start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    batch_size = property(lambda self: self._batch_size)

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs)."""
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """The highest output."""
        return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """(finished, next inputs, state)."""
        finished = tf.equal(sample_ids, self._end_token)
        following = tf.cond(tf.reduce_all(finished), lambda: self._start_inputs, lambda: self._embedding_fn(sample_ids))
        return finished, following, state


@_export
class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """The embedding of a number drawn by the outputs is the next input."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any, softmax_temperature: Any = None,
                 seed: int | None = None):
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """A number drawn by the outputs, which are logits."""
        logits = outputs if self._temperature is None else outputs / self._temperature
        return tf.cast(tf.multinomial(logits, 1, seed=self._seed)[:, 0], tf.int32)


@_export
class InferenceHelper(Helper):
    """The outputs themselves, or what a function draws from them, are the next inputs."""

    def __init__(self, sample_fn: Callable, sample_shape: Any, sample_dtype: Any, start_inputs: Any, end_fn: Callable,
                 next_inputs_fn: Callable | None = None):
        self._sample_fn, self._end_fn, self._next_inputs_fn = sample_fn, end_fn, next_inputs_fn
        self._shape, self._dtype = TensorShape(sample_shape), sample_dtype
        self._start_inputs = tf.convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = tf.shape(self._start_inputs)[0]

    batch_size = property(lambda self: self._batch_size)
    sample_ids_shape = property(lambda self: self._shape)
    sample_ids_dtype = property(lambda self: self._dtype)

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs)."""
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """What the function draws."""
        return self._sample_fn(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """(finished, next inputs, state)."""
        return self._end_fn(sample_ids), sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids), state
