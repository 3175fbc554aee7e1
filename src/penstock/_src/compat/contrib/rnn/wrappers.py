"""Wrappers around a cell: projections, embeddings, attention over the last outputs, highways."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.compat.contrib.rnn.linear import linear
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn.cell import RNNCell, assert_like_rnncell
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.rnn.{cls.__name__}"])(cls)


class _Around(RNNCell):
    """A cell around another one, with additional variables."""

    def __init__(self, cell: Any, reuse: Any = None):
        super().__init__(_reuse=reuse)
        assert_like_rnncell("cell", cell)
        self._cell = cell

    state_size = property(lambda self: self._cell.state_size)
    output_size = property(lambda self: self._cell.output_size)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The size of the cell's state."""
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)


@_export
class EmbeddingWrapper(_Around):
    """Looks up the inputs, which are numbers of classes, in a table."""

    def __init__(self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None, reuse: Any = None):
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, {embedding_size}.")
        self._shape, self._initializer = [embedding_classes, embedding_size], initializer

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        with tf.device("/cpu:0"):
            initializer = self._initializer or tf.get_variable_scope().initializer or \
                tf.random_uniform_initializer(-math.sqrt(3), math.sqrt(3))
            table = tf.get_variable("embedding", self._shape, initializer=initializer, dtype=nest.flatten(state)[0].dtype)
            return self._cell(tf.nn.embedding_lookup(table, tf.reshape(inputs, [-1])), state)


@_export
class InputProjectionWrapper(_Around):
    """Projects the inputs of a cell to `num_proj` numbers."""

    def __init__(self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None, reuse: Any = None):
        super().__init__(cell, reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        projected = linear(inputs, self._num_proj, True)
        return self._cell(self._activation(projected) if self._activation else projected, state)


@_export
class OutputProjectionWrapper(_Around):
    """Projects the outputs of a cell to `output_size` numbers.

    >>> tf.contrib.rnn.OutputProjectionWrapper(tf.contrib.rnn.GRUCell(100), output_size=1)
    """

    def __init__(self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None):
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: {output_size}.")
        self._output_size, self._activation = output_size, activation

    output_size = property(lambda self: self._output_size)

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        output, state = self._cell(inputs, state)
        projected = linear(output, self._output_size, True)
        return self._activation(projected) if self._activation else projected, state


@_export
class AttentionCellWrapper(_Around):
    """Attends to the last `attn_length` outputs of a cell (https://arxiv.org/abs/1601.06733)."""

    def __init__(self, cell: Any, attn_length: int, attn_size: int | None = None, attn_vec_size: int | None = None,
                 input_size: int | None = None, state_is_tuple: bool = True, reuse: Any = None):
        super().__init__(cell, reuse)
        if nest.is_nested(cell.state_size) and not state_is_tuple:
            raise ValueError("Cell returns tuple of states, but the flag state_is_tuple is not set. State size is: "
                             f"{cell.state_size}")
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._attn_size = cell.output_size if attn_size is None else attn_size
        self._attn_vec_size = self._attn_size if attn_vec_size is None else attn_vec_size
        self._attn_length, self._input_size, self._state_is_tuple = attn_length, input_size, state_is_tuple

    @property
    def state_size(self) -> Any:
        """The state of the cell, what was attended to, and the last outputs."""
        sizes = (self._cell.state_size, self._attn_size, self._attn_size * self._attn_length)
        return sizes if self._state_is_tuple else sum(sizes)

    output_size = property(lambda self: self._attn_size)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros."""
        return RNNCell.zero_state(self, batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        if not self._state_is_tuple:
            state = tf.split(state, [self._cell.state_size, self._attn_size, self._attn_size * self._attn_length], axis=1)
        state, attended, last = state
        last = tf.reshape(last, [-1, self._attn_length, self._attn_size])
        inputs = linear([inputs, attended], self._input_size or inputs.shape.as_list()[1], True)
        output, new_state = self._cell(inputs, state)
        attended, last = self._attention(tf.concat(nest.flatten(new_state), 1), last)
        with tf.variable_scope("attn_output_projection"):
            output = linear([output, attended], self._attn_size, True)
        last = tf.reshape(tf.concat([last, tf.expand_dims(output, 1)], 1), [-1, self._attn_length * self._attn_size])
        new = (new_state, attended, last)
        return output, new if self._state_is_tuple else tf.concat(list(new), 1)

    def _attention(self, query: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        with tf.variable_scope("attention"):
            k = tf.get_variable("attn_w", [1, 1, self._attn_size, self._attn_vec_size])
            v = tf.get_variable("attn_v", [self._attn_vec_size])
            hidden = tf.reshape(last, [-1, self._attn_length, 1, self._attn_size])
            features = tf.nn.conv2d(hidden, k, [1, 1, 1, 1], "SAME")
            y = tf.reshape(linear(query, self._attn_vec_size, True), [-1, 1, 1, self._attn_vec_size])
            weights = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(features + y), [2, 3]))
            mean = tf.reduce_sum(tf.reshape(weights, [-1, self._attn_length, 1, 1]) * hidden, [1, 2])
            return tf.reshape(mean, [-1, self._attn_size]), tf.slice(last, [0, 1, 0], [-1, -1, -1])


@_export
class HighwayWrapper(_Around):
    """Mixes the inputs of a cell into its outputs, by learned gates (https://arxiv.org/abs/1505.00387)."""

    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0):
        super().__init__(cell)
        self._coupled, self._bias = couple_carry_transform_gates, carry_bias_init

    def _gate(self, inputs: Tensor, name: str, bias: float) -> Tensor:
        size = inputs.shape.with_rank(2).dims[1].value
        w = tf.get_variable(f"{name}_w", [size, size])
        b = tf.get_variable(f"{name}_b", [size], initializer=tf.constant_initializer(bias))
        return tf.sigmoid(tf.nn.xw_plus_b(inputs, w, b))

    def _highway(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        inputs.shape.assert_is_compatible_with(outputs.shape)
        carry = self._gate(inputs, "carry", self._bias)
        transform = 1 - carry if self._coupled else self._gate(inputs, "transform", -self._bias)
        return inputs * carry + outputs * transform

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        outputs, new_state = self._cell(inputs, state, scope=scope)
        nest.assert_same_structure(inputs, outputs)
        return nest.map_structure(self._highway, inputs, outputs), new_state


@_export
class CompiledWrapper(_Around):
    """The cell itself: steps are compiled in any case."""

    def __init__(self, cell: Any, compile_stateful: bool = False):
        super().__init__(cell)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        return self._cell(inputs, state, scope=scope)
