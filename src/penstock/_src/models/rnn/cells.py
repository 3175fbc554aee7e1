"""The cells of tf.nn.rnn_cell: basic, GRU, LSTM, and stacks of cells.

Names of variables (`kernel`, `bias`, `gates/kernel`, `w_f_diag`, `projection/kernel`, ...) are TensorFlow's, so that
checkpoints can be exchanged.
"""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule, export
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.engine.base_layer import Layer as KerasLayer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.rnn.cell import LayerRNNCell, RNNCell, check_floating, check_inputs, input_depth
from penstock.compat import v1 as tf

activations = LazyModule("penstock._src.models.keras.activations")
initializers = LazyModule("penstock._src.models.keras.initializers")


def _activation(activation: Any) -> Any:
    return activations.get(activation) if activation else tf.tanh


def _zeros(dtype: Any) -> Any:
    return tf.zeros_initializer() if dtype is None else tf.zeros_initializer(dtype=dtype)


@export(v1=["nn.rnn_cell.BasicRNNCell"])
class BasicRNNCell(LayerRNNCell):
    """The simplest cell: `output = state = activation(W * input + U * state + b)`.

    Args:
        num_units: Size of the state.
        activation: Function of the sum, tanh by default.
        reuse: Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.
        name: Name of the layer.
        dtype: Element type of the variables.
        **kwargs: Passed to the base class.

    >>> with tf.Graph().as_default():
    ...     outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape, state.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 4]))
    """

    def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None,
                 **kwargs: Any):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        check_floating(self.dtype)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._activation = num_units, _activation(activation)

    state_size = property(lambda self: self._num_units)
    output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Creates the variables."""
        depth = input_depth(inputs_shape)
        check_floating(self.dtype)
        self._kernel = self.add_weight("kernel", shape=[depth + self._num_units, self._num_units])
        self._bias = self.add_weight("bias", shape=[self._num_units], initializer=_zeros(self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        check_inputs(inputs, state)
        output = self._activation(tf.nn.bias_add(tf.matmul(tf.concat([inputs, state], 1), self._kernel), self._bias))
        return output, output

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the cell."""
        return {**super().get_config(), "num_units": self._num_units, "activation": activations.serialize(self._activation),
                "reuse": self._reuse}


@export(v1=["nn.rnn_cell.GRUCell"])
class GRUCell(LayerRNNCell):
    """The gated recurrent unit (http://arxiv.org/abs/1406.1078).

    Args:
        num_units: Size of the state.
        activation: Function of the candidate state, tanh by default.
        reuse: Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.
        kernel_initializer: Initializer of the weights.
        bias_initializer: Initializer of the bias.
        name: Name of the layer.
        dtype: Element type of the variables.
        **kwargs: Passed to the base class.

    >>> with tf.Graph().as_default():
    ...     outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape, state.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 4]))
    """

    def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, kernel_initializer: Any = None,
                 bias_initializer: Any = None, name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        check_floating(self.dtype)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._activation = num_units, _activation(activation)
        self._kernel_initializer = initializers.get(kernel_initializer)
        self._bias_initializer = initializers.get(bias_initializer)

    state_size = property(lambda self: self._num_units)
    output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Creates the variables."""
        depth, n = input_depth(inputs_shape), self._num_units
        check_floating(self.dtype)
        bias = self._bias_initializer
        self._gate_kernel = self.add_weight("gates/kernel", shape=[depth + n, 2 * n], initializer=self._kernel_initializer)
        self._gate_bias = self.add_weight("gates/bias", shape=[2 * n], initializer=bias if bias is not None else
                                          tf.constant_initializer(1.0, dtype=self.dtype or tf.float32))
        self._candidate_kernel = self.add_weight("candidate/kernel", shape=[depth + n, n], initializer=self._kernel_initializer)
        self._candidate_bias = self.add_weight("candidate/bias", shape=[n],
                                               initializer=bias if bias is not None else _zeros(self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        check_inputs(inputs, state)
        gates = tf.sigmoid(tf.nn.bias_add(tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel), self._gate_bias))
        reset, update = tf.split(value=gates, num_or_size_splits=2, axis=1)
        candidate = tf.matmul(tf.concat([inputs, reset * state], 1), self._candidate_kernel)
        candidate = self._activation(tf.nn.bias_add(candidate, self._candidate_bias))
        new = update * state + (1 - update) * candidate
        return new, new

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the cell."""
        return {**super().get_config(), "num_units": self._num_units, "activation": activations.serialize(self._activation),
                "kernel_initializer": initializers.serialize(self._kernel_initializer),
                "bias_initializer": initializers.serialize(self._bias_initializer), "reuse": self._reuse}


_LSTMStateTuple = collections.namedtuple("_LSTMStateTuple", ("c", "h"))


@export(v1=["nn.rnn_cell.LSTMStateTuple"])
class LSTMStateTuple(_LSTMStateTuple):
    """The state of an LSTM: the memory `c` and the output `h`.

    Args:
        c: Memory [batch, units].
        h: Output [batch, units].

    >>> state = tf.nn.rnn_cell.LSTMStateTuple(c=tf.zeros([2, 4]), h=tf.zeros([2, 4]))
    >>> state.h.shape
    TensorShape([2, 4])
    """

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of both."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


@export(v1=["nn.rnn_cell.BasicLSTMCell"])
class BasicLSTMCell(LayerRNNCell):
    """An LSTM without peepholes, clipping and projection (http://arxiv.org/abs/1409.2329).

    Args:
        num_units: Size of the output and of the memory.
        forget_bias: Number added to the forget gate's bias.
        state_is_tuple: Whether states are `LSTMStateTuple`s instead of one matrix.
        activation: Function of the new memory, tanh by default.
        reuse: Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.
        name: Name of the layer.
        dtype: Element type of the variables.
        **kwargs: Passed to the base class.

    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.BasicLSTMCell(4)
    ...     outputs, (c, h) = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape, c.shape, h.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 4]), TensorShape([2, 4]))
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True, activation: Any = None,
                 reuse: Any = None, name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        check_floating(self.dtype)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._forget_bias, self._state_is_tuple = num_units, forget_bias, state_is_tuple
        self._activation = _activation(activation)

    @property
    def state_size(self) -> Any:
        """The sizes of memory and output."""
        return LSTMStateTuple(self._num_units, self._num_units) if self._state_is_tuple else 2 * self._num_units

    output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Creates the variables."""
        depth = input_depth(inputs_shape)
        check_floating(self.dtype)
        self._kernel = self.add_weight("kernel", shape=[depth + self._num_units, 4 * self._num_units])
        self._bias = self.add_weight("bias", shape=[4 * self._num_units], initializer=_zeros(self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        check_inputs(inputs, state)
        c, h = state if self._state_is_tuple else tf.split(value=state, num_or_size_splits=2, axis=1)
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
        forget_bias = tf.constant(self._forget_bias, dtype=f.dtype)
        new_c = c * tf.sigmoid(f + forget_bias) + tf.sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else tf.concat([new_c, new_h], 1)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the cell."""
        return {**super().get_config(), "num_units": self._num_units, "forget_bias": self._forget_bias,
                "state_is_tuple": self._state_is_tuple, "activation": activations.serialize(self._activation),
                "reuse": self._reuse}


@export(v1=["nn.rnn_cell.LSTMCell"])
class LSTMCell(LayerRNNCell):
    """An LSTM that may have peepholes, clipping, and a projection of its output.

    Args:
        num_units: Size of the memory.
        use_peepholes: Whether gates see the memory.
        cell_clip: Largest absolute value of the memory.
        initializer: Initializer of the weights.
        num_proj: Size of a projection of the output.
        proj_clip: Largest absolute value of the projection.
        num_unit_shards: Unused.
        num_proj_shards: Unused.
        forget_bias: Number added to the forget gate's bias.
        state_is_tuple: Whether states are `LSTMStateTuple`s instead of one matrix.
        activation: Function of the new memory, tanh by default.
        reuse: Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.
        name: Name of the layer.
        dtype: Element type of the variables.
        **kwargs: Passed to the base class.

    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.LSTMCell(4, use_peepholes=True, num_proj=2)
    ...     outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape, state.c.shape
    (TensorShape([2, 5, 2]), TensorShape([2, 4]))
    """

    def __init__(self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None, initializer: Any = None,
                 num_proj: int | None = None, proj_clip: float | None = None, num_unit_shards: int | None = None,
                 num_proj_shards: int | None = None, forget_bias: float = 1.0, state_is_tuple: bool = True,
                 activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        check_floating(self.dtype)
        if num_unit_shards is not None or num_proj_shards is not None:
            logging.warn("%s: The num_unit_shards and proj_unit_shards parameters are deprecated and will be removed in Jan "
                         "2017.  Use a variable scope with a partitioner instead.", self)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._use_peepholes, self._cell_clip = num_units, use_peepholes, cell_clip
        self._initializer = initializers.get(initializer)
        self._num_proj, self._proj_clip = num_proj, proj_clip
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple
        self._activation = _activation(activation)
        self._output_size = num_proj or num_units

    @property
    def state_size(self) -> Any:
        """The sizes of memory and output."""
        both = (self._num_units, self._output_size)
        return LSTMStateTuple(*both) if self._state_is_tuple else sum(both)

    output_size = property(lambda self: self._output_size)

    def build(self, inputs_shape: Any) -> None:
        """Creates the variables."""
        depth, n = input_depth(inputs_shape), self._num_units
        check_floating(self.dtype)
        self._kernel = self.add_weight("kernel", shape=[depth + self._output_size, 4 * n], initializer=self._initializer,
                                       partitioner=_shards(self._num_unit_shards))
        self._bias = self.add_weight("bias", shape=[4 * n], initializer=_zeros(self.dtype))
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_weight(f"w_{gate}_diag", shape=[n], initializer=self._initializer) for gate in "fio")
        if self._num_proj is not None:
            self._proj_kernel = self.add_weight("projection/kernel", shape=[n, self._num_proj], initializer=self._initializer,
                                                partitioner=_shards(self._num_proj_shards))
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        check_inputs(inputs, state)
        if inputs.shape.with_rank(2).as_list()[1] is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        c_prev, m_prev = state if self._state_is_tuple else (
            tf.slice(state, [0, 0], [-1, self._num_units]), tf.slice(state, [0, self._num_units], [-1, self._output_size]))
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, m_prev], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
        f = f + self._forget_bias
        if self._use_peepholes:
            f, i = f + self._w_f_diag * c_prev, i + self._w_i_diag * c_prev
        c = tf.sigmoid(f) * c_prev + tf.sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            c = tf.clip_by_value(c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + self._w_o_diag * c
        m = tf.sigmoid(o) * self._activation(c)
        if self._num_proj is not None:
            m = tf.matmul(m, self._proj_kernel)
            if self._proj_clip is not None:
                m = tf.clip_by_value(m, -self._proj_clip, self._proj_clip)
        return m, LSTMStateTuple(c, m) if self._state_is_tuple else tf.concat([c, m], 1)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the cell."""
        return {**super().get_config(), "num_units": self._num_units, "use_peepholes": self._use_peepholes,
                "cell_clip": self._cell_clip, "initializer": initializers.serialize(self._initializer),
                "num_proj": self._num_proj, "proj_clip": self._proj_clip, "num_unit_shards": self._num_unit_shards,
                "num_proj_shards": self._num_proj_shards, "forget_bias": self._forget_bias,
                "state_is_tuple": self._state_is_tuple, "activation": activations.serialize(self._activation),
                "reuse": self._reuse}


def _shards(number: int | None) -> Any:
    return None if number is None else tf.fixed_size_partitioner(number)


@export(v1=["nn.rnn_cell.MultiRNNCell"])
class MultiRNNCell(RNNCell):
    """Stacked cells: the output of one is the input of the next.

    Args:
        cells: List of cells, the lowest first.
        state_is_tuple: Whether states are tuples instead of one matrix.

    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.GRUCell(2)])
    ...     outputs, states = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape, [s.shape.as_list() for s in states]
    (TensorShape([2, 5, 2]), [[2, 4], [2, 2]])
    """

    def __init__(self, cells: Any, state_is_tuple: bool = True):
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not nest.is_nested(cells):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        if len({id(cell) for cell in cells}) < len(cells):
            logging.log_first_n(logging.WARN, "MultiRNNCell contains the same cell object more than once: its weights are "
                                              "shared.", 1)
        self._cells, self._state_is_tuple = cells, state_is_tuple
        for number, cell in enumerate(cells):
            if hasattr(cell, "_checkpoint_dependencies"):
                self._track_trackable(cell, name=f"cell-{number}")
        if not state_is_tuple and any(nest.is_nested(c.state_size) for c in cells):
            raise ValueError("Some cells return tuples of states, but the flag state_is_tuple is not set.  State sizes are: "
                             f"{[c.state_size for c in cells]}")

    @property
    def state_size(self) -> Any:
        """The sizes of the states of all cells."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    output_size = property(lambda self: self._cells[-1].output_size)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros for all cells."""
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def _of_cells(self, what: str) -> list:
        return [w for cell in self._cells if isinstance(cell, KerasLayer) for w in getattr(cell, what)]

    @property
    def trainable_weights(self) -> list:
        """Those of all cells."""
        return self._of_cells("trainable_weights") if self.trainable else []

    @property
    def non_trainable_weights(self) -> list:
        """Those of all cells; all weights, when the whole is not to be trained."""
        frozen = self._of_cells("non_trainable_weights")
        return frozen if self.trainable else self._of_cells("trainable_weights") + frozen

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        """One step of all cells."""
        position, states = 0, []
        for number, cell in enumerate(self._cells):
            with tf.variable_scope(f"cell_{number}"):
                if self._state_is_tuple:
                    if not nest.is_nested(state):
                        raise ValueError(f"Expected state to be a tuple of length {len(self.state_size)}, but received: "
                                         f"{state}")
                    mine = state[number]
                else:
                    mine = tf.slice(state, [0, position], [-1, cell.state_size])
                    position += cell.state_size
                inputs, new = cell(inputs, mine)
                states.append(new)
        return inputs, tuple(states) if self._state_is_tuple else tf.concat(states, 1)
