"""Attention over a memory: mechanisms (Bahdanau, Luong, monotonic ones) and the cell that uses them."""
from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.compat.contrib.framework.tensors import with_same_shape
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn.cell import RNNCell, assert_like_rnncell, zeros_of
from penstock.compat import v1 as tf


def _export(thing: Any) -> Any:
    return export(v1=[f"contrib.seq2seq.{thing.__name__}"])(thing)


@_export
class AttentionMechanism:
    """Base class of attention mechanisms: called with a query and a state, returns alignments and the next state."""

    @property
    def alignments_size(self) -> Any:
        """The number of places in the memory."""
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        """The size of the state."""
        raise NotImplementedError


class _Memory(AttentionMechanism):
    """A mechanism with a memory: keys that queries are compared with, and values."""

    def __init__(self, num_units: int, query_layer: bool, memory: Any, memory_sequence_length: Any, probability_fn: Callable,
                 score_mask_value: float | None, dtype: Any, custom_key_value_fn: Callable | None, name: str):
        self.dtype = tf.float32 if dtype is None else dtype
        dense = functools.partial(tf.layers.Dense, num_units, use_bias=False, dtype=self.dtype)
        self._query_layer = dense(name="query_layer") if query_layer else None
        self._memory_layer = dense(name="memory_layer")
        self._num_units, self._name = num_units, name
        if not callable(probability_fn):
            raise TypeError(f"probability_fn must be callable, saw type: {type(probability_fn).__name__}")
        mask_value = -np.inf if score_mask_value is None else score_mask_value
        with tf.name_scope(name, "BaseAttentionMechanismInit", nest.flatten(memory)):
            memory = tf.convert_to_tensor(memory, name="memory")
            if not memory.shape[2:].is_fully_defined():
                raise ValueError(f"Expected memory {memory.name} to have fully defined inner dims, but saw shape: "
                                 f"{memory.shape}")
            self._values = memory
            if memory_sequence_length is not None:
                memory_sequence_length = tf.convert_to_tensor(memory_sequence_length, name="memory_sequence_length")
                mask = tf.sequence_mask(memory_sequence_length, maxlen=tf.shape(memory)[1], dtype=memory.dtype)
                self._values = memory * mask[:, :, tf.newaxis]
            self._keys = self._memory_layer(self._values)
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
            shape = self._keys.shape.as_list()
            self._batch_size = shape[0] or tf.shape(self._keys)[0]
            self._alignments_size = shape[1] or tf.shape(self._keys)[1]

        def probabilities(score: Tensor, previous: Tensor) -> Tensor:
            if memory_sequence_length is not None:
                positive = tf.assert_positive(memory_sequence_length, message="All values in memory_sequence_length must be "
                                                                              "greater than zero.")
                with tf.control_dependencies([positive]):
                    inside = tf.sequence_mask(memory_sequence_length, maxlen=tf.shape(score)[1])
                score = tf.where(inside, score, mask_value * tf.ones_like(score))
            return probability_fn(score, previous)

        self._probability_fn = probabilities

    memory_layer = property(lambda self: self._memory_layer)
    query_layer = property(lambda self: self._query_layer)
    values = property(lambda self: self._values)
    keys = property(lambda self: self._keys)
    batch_size = property(lambda self: self._batch_size)
    alignments_size = property(lambda self: self._alignments_size)
    state_size = property(lambda self: self._alignments_size)

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """Zeros."""
        return zeros_of(batch_size, self._alignments_size, dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Tensor:
        """The alignments before the first step."""
        return self.initial_alignments(batch_size, dtype)


def _plain(probability_fn: Callable | None) -> Callable:
    function = probability_fn or tf.nn.softmax
    return lambda score, _: function(score)


def _luong_score(query: Tensor, keys: Tensor, scale: Any) -> Tensor:
    depth, units = query.shape.as_list()[-1], keys.shape.as_list()[-1]
    if depth != units:
        raise ValueError(f"Incompatible or unknown inner dimensions between query and keys.  Query ({query}) has units: "
                         f"{depth}.  Keys ({keys}) have units: {units}.  Perhaps you need to set num_units to the keys' "
                         f"dimension "
                         f"({units})?")
    score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), keys, transpose_b=True), [1])
    return score if scale is None else scale * score


def _bahdanau_score(query: Tensor, keys: Tensor, units: int, normalize: bool) -> Tensor:
    v = tf.get_variable("attention_v", [units], dtype=query.dtype)
    query = tf.expand_dims(query, 1)
    if not normalize:
        return tf.reduce_sum(v * tf.tanh(keys + query), [2])
    g = tf.get_variable("attention_g", dtype=query.dtype, initializer=tf.constant_initializer(math.sqrt(1.0 / units)), shape=())
    b = tf.get_variable("attention_b", [units], dtype=query.dtype, initializer=tf.zeros_initializer())
    return tf.reduce_sum(g * v * tf.rsqrt(tf.reduce_sum(tf.square(v))) * tf.tanh(keys + query + b), [2])


@_export
class LuongAttention(_Memory):
    """Multiplicative attention (https://arxiv.org/abs/1508.04025).

    >>> tf.contrib.seq2seq.LuongAttention(8, memory=tf.ones([2, 5, 8]))
    """

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
                 probability_fn: Callable | None = None, score_mask_value: float | None = None, dtype: Any = None,
                 custom_key_value_fn: Callable | None = None, name: str = "LuongAttention"):
        super().__init__(num_units, False, memory, memory_sequence_length, _plain(probability_fn), score_mask_value, dtype,
                         custom_key_value_fn, name)
        self._scale = scale

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        with tf.variable_scope(None, "luong_attention", [query]):
            g = tf.get_variable("attention_g", dtype=query.dtype, initializer=tf.ones_initializer(),
                                shape=()) if self._scale else None
            alignments = self._probability_fn(_luong_score(query, self._keys, g), state)
        return alignments, alignments


@_export
class BahdanauAttention(_Memory):
    """Additive attention (https://arxiv.org/abs/1409.0473).

    >>> tf.contrib.seq2seq.BahdanauAttention(8, memory=tf.ones([2, 5, 8]), memory_sequence_length=[3, 5])
    """

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
                 probability_fn: Callable | None = None, score_mask_value: float | None = None, dtype: Any = None,
                 custom_key_value_fn: Callable | None = None, name: str = "BahdanauAttention"):
        super().__init__(num_units, True, memory, memory_sequence_length, _plain(probability_fn), score_mask_value, dtype,
                         custom_key_value_fn, name)
        self._normalize = normalize

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            score = _bahdanau_score(self._query_layer(query), self._keys, self._num_units, self._normalize)
            alignments = self._probability_fn(score, state)
        return alignments, alignments


@_export
def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """A cumulative product in log space, which keeps gradients finite."""
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


@_export
def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Tensor:
    """The alignments of monotonic attention (https://arxiv.org/abs/1704.00784) from the probabilities of stopping."""
    p = tf.convert_to_tensor(p_choose_i, name="p_choose_i")
    previous = tf.convert_to_tensor(previous_attention, name="previous_attention")
    if mode == "recursive":
        batch = p.shape.as_list()[0] or tf.shape(p)[0]
        shifted = tf.concat([tf.ones([batch, 1], p.dtype), 1 - p[:, :-1]], 1)
        return p * tf.transpose(tf.scan(lambda x, yz: tf.reshape(yz[0] * x + yz[1], [batch]),
                                        [tf.transpose(shifted), tf.transpose(previous)], tf.zeros([batch], p.dtype)))
    if mode == "parallel":
        through = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * through * tf.cumsum(previous / tf.clip_by_value(through, 1e-10, 1.0), axis=1)
    if mode == "hard":
        p = p * tf.cumsum(previous, axis=1)
        return p * tf.cumprod(1 - p, axis=1, exclusive=True)
    raise ValueError("Unknown mode: it is 'recursive', 'parallel' or 'hard'.")


def _monotonic(sigmoid_noise: float, mode: str, seed: int | None) -> Callable:
    def probabilities(score: Tensor, previous: Tensor) -> Tensor:
        if sigmoid_noise > 0:
            score = score + sigmoid_noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=seed)
        p = tf.cast(score > 0, score.dtype) if mode == "hard" else tf.sigmoid(score)
        return monotonic_attention(p, previous, mode)
    return probabilities


class _Monotonic(_Memory):
    """Begins at the first place of the memory."""

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """One at the first place."""
        return tf.one_hot(tf.zeros([batch_size], tf.int32), self._alignments_size, dtype=dtype)


@_export
class BahdanauMonotonicAttention(_Monotonic):
    """Monotonic attention with the score of Bahdanau."""

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
                 score_mask_value: float | None = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: int | None = None,
                 score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None,
                 name: str = "BahdanauMonotonicAttention"):
        super().__init__(num_units, True, memory, memory_sequence_length, _monotonic(sigmoid_noise, mode, sigmoid_noise_seed),
                         score_mask_value, dtype, None, name)
        self._normalize, self._bias = normalize, score_bias_init

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        with tf.variable_scope(None, "bahdanau_monotonic_attention", [query]):
            score = _bahdanau_score(self._query_layer(query), self._keys, self._num_units, self._normalize)
            score += tf.get_variable("attention_score_bias", dtype=score.dtype, shape=(),
                                     initializer=tf.constant_initializer(self._bias))
            alignments = self._probability_fn(score, state)
        return alignments, alignments


@_export
class LuongMonotonicAttention(_Monotonic):
    """Monotonic attention with the score of Luong."""

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
                 score_mask_value: float | None = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: int | None = None,
                 score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None,
                 name: str = "LuongMonotonicAttention"):
        super().__init__(num_units, False, memory, memory_sequence_length, _monotonic(sigmoid_noise, mode, sigmoid_noise_seed),
                         score_mask_value, dtype, None, name)
        self._scale, self._bias = scale, score_bias_init

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        with tf.variable_scope(None, "luong_monotonic_attention", [query]):
            g = tf.get_variable("attention_g", dtype=query.dtype, initializer=tf.ones_initializer(),
                                shape=()) if self._scale else None
            score = _luong_score(query, self._keys, g)
            score += tf.get_variable("attention_score_bias", dtype=query.dtype, shape=(),
                                     initializer=tf.constant_initializer(self._bias))
            alignments = self._probability_fn(score, state)
        return alignments, alignments


@_export
def hardmax(logits: Any, name: str | None = None) -> Tensor:
    """One at the highest logit."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits, name="logits")
        depth = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)


@_export
class AttentionWrapperState(collections.namedtuple("AttentionWrapperState", (
        "cell_state", "attention", "time", "alignments", "alignment_history", "attention_state"))):
    """The state of an AttentionWrapper."""

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """The same with some parts replaced, by others of the same shape."""
        def same(old: Any, new: Any) -> Any:
            if not (tf.is_tensor(old) and tf.is_tensor(new)):
                return new
            if not context.executing_eagerly():
                return with_same_shape(old, new)
            if old.shape.as_list() != new.shape.as_list():
                raise ValueError(f"The shape of the AttentionWrapperState is expected to be same as the one to clone. "
                                 f"self.shape: {old.shape}, input.shape: {new.shape}")
            return new
        return nest.map_structure(same, self, self._replace(**kwargs))


_TILE = "  Are you using the BeamSearchDecoder?  You may need to tile it via tf.contrib.seq2seq.tile_batch."


@_export
class AttentionWrapper(RNNCell):
    """A cell that attends to memories after each step; what it attended to goes into the next input.

    >>> cell = tf.contrib.seq2seq.AttentionWrapper(tf.contrib.rnn.LSTMCell(8), mechanism, attention_layer_size=8)
    """

    def __init__(self, cell: Any, attention_mechanism: Any, attention_layer_size: Any = None, alignment_history: bool = False,
                 cell_input_fn: Callable | None = None, output_attention: bool = True, initial_cell_state: Any = None,
                 name: str | None = None, attention_layer: Any = None, attention_fn: Callable | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        assert_like_rnncell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._attention_mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        for each in self._attention_mechanisms:
            if not isinstance(each, AttentionMechanism):
                raise TypeError("attention_mechanism must be an AttentionMechanism or list of multiple AttentionMechanism "
                                f"instances, saw type: {type(each).__name__}")
        if cell_input_fn is not None and not callable(cell_input_fn):
            raise TypeError(f"cell_input_fn must be callable, saw type: {type(cell_input_fn).__name__}")
        self._cell, self._attention_fn = cell, attention_fn or _attend
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._output_attention, self._alignment_history = output_attention, alignment_history
        self._set_layers(attention_layer_size, attention_layer)
        self._initial_cell_state = None
        if initial_cell_state is not None:
            last = nest.flatten(initial_cell_state)[-1]
            size = last.shape.as_list()[0] or tf.shape(last)[0]
            with tf.name_scope(name, "AttentionWrapperInit"), tf.control_dependencies(self._checks(
                    size, f"When constructing AttentionWrapper {self._base_name}: Non-matching batch sizes between the memory "
                          f"(encoder output) and initial_cell_state.{_TILE}")):
                self._initial_cell_state = nest.map_structure(tf.identity, initial_cell_state)

    def _set_layers(self, sizes: Any, layers: Any) -> None:
        if sizes is not None and layers is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        count = len(self._attention_mechanisms)
        if sizes is not None:
            sizes = tuple(sizes) if isinstance(sizes, (list, tuple)) else (sizes,)
            if len(sizes) != count:
                raise ValueError("If provided, attention_layer_size must contain exactly one integer per attention_mechanism, "
                                 f"saw: {len(sizes)} vs {count}")
            self._attention_layers = tuple(tf.layers.Dense(size, name="attention_layer", use_bias=False, dtype=m.dtype)
                                           for size, m in zip(sizes, self._attention_mechanisms, strict=True))
            self._attention_layer_size = sum(sizes)
        elif layers is not None:
            self._attention_layers = tuple(layers) if isinstance(layers, (list, tuple)) else (layers,)
            if len(self._attention_layers) != count:
                raise ValueError("If provided, attention_layer must contain exactly one layer per attention_mechanism, saw: "
                                 f"{len(self._attention_layers)} vs {count}")
            widths = [self._cell.output_size + m.values.shape.as_list()[-1] for m in self._attention_mechanisms]
            self._attention_layer_size = sum(TensorShape(layer.compute_output_shape([None, w])).as_list()[-1]
                                             for layer, w in zip(self._attention_layers, widths, strict=True))
        else:
            self._attention_layers = (None,) * count
            self._attention_layer_size = sum(m.values.shape.as_list()[-1] for m in self._attention_mechanisms)

    def _checks(self, batch_size: Any, message: str) -> list:
        return [tf.assert_equal(batch_size, m.batch_size, message=message) for m in self._attention_mechanisms]

    def _one_or_all(self, parts: Any) -> Any:
        parts = tuple(parts)
        return parts if self._is_multi else parts[0]

    @property
    def output_size(self) -> Any:
        """That of the attention, or of the cell."""
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        """The sizes of all parts."""
        mechanisms = self._attention_mechanisms
        return AttentionWrapperState(
            cell_state=self._cell.state_size, time=TensorShape([]), attention=self._attention_layer_size,
            alignments=self._one_or_all(m.alignments_size for m in mechanisms),
            attention_state=self._one_or_all(m.state_size for m in mechanisms),
            alignment_history=self._one_or_all(m.alignments_size if self._alignment_history else () for m in mechanisms))

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """The state before the first step."""
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            state = self._initial_cell_state
            if state is None:
                state = self._cell.get_initial_state(batch_size=batch_size, dtype=dtype) \
                    if hasattr(self._cell, "get_initial_state") else self._cell.zero_state(batch_size, dtype)
            checks = self._checks(batch_size,
                                  f"When calling zero_state of AttentionWrapper {self._base_name}: Non-matching batch "
                                              f"sizes between the memory (encoder output) and the requested batch size.{_TILE}")
            with tf.control_dependencies(checks):
                state = nest.map_structure(tf.identity, state)
            alignments = [m.initial_alignments(batch_size, dtype) for m in self._attention_mechanisms]
            return AttentionWrapperState(
                cell_state=state, time=tf.zeros([], tf.int32), attention=zeros_of(batch_size, self._attention_layer_size,
                                                                                  dtype),
                alignments=self._one_or_all(alignments),
                attention_state=self._one_or_all(m.initial_state(batch_size, dtype) for m in self._attention_mechanisms),
                alignment_history=self._one_or_all(
                    tf.TensorArray(dtype, size=0, dynamic_size=True, element_shape=a.shape) if self._alignment_history else ()
                    for a in alignments))

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(f"Expected state to be instance of AttentionWrapperState. Received type {type(state)} instead.")
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        size = output.shape.as_list()[0] or tf.shape(output)[0]
        with tf.control_dependencies(self._checks(size, f"When applying AttentionWrapper {self.name}: Non-matching batch sizes "
                                                        f"between the memory (encoder output) and the query.{_TILE}")):
            output = tf.identity(output, name="checked_cell_output")
        states = state.attention_state if self._is_multi else [state.attention_state]
        histories = state.alignment_history if self._is_multi else [state.alignment_history]
        attentions, alignments, next_states, next_histories = [], [], [], []
        for mechanism, layer, previous, history in zip(self._attention_mechanisms, self._attention_layers, states, histories,
                                                       strict=True):
            attention, alignment, following = self._attention_fn(mechanism, output, previous, layer)
            attentions.append(attention)
            alignments.append(alignment)
            next_states.append(following)
            next_histories.append(history.write(state.time, alignment) if self._alignment_history else ())
        attention = tf.concat(attentions, 1)
        new = AttentionWrapperState(
            time=state.time + 1, cell_state=cell_state, attention=attention, alignments=self._one_or_all(alignments),
            attention_state=self._one_or_all(next_states), alignment_history=self._one_or_all(next_histories))
        return (attention if self._output_attention else output), new


def _attend(mechanism: Any, output: Tensor, state: Any, layer: Any) -> tuple[Tensor, Tensor, Any]:
    """The attention, the alignments, and the next state of the mechanism."""
    alignments, following = mechanism(output, state=state)
    found = tf.squeeze(tf.matmul(tf.expand_dims(alignments, 1), mechanism.values), [1])
    return (found if layer is None else layer(tf.concat([output, found], 1))), alignments, following
