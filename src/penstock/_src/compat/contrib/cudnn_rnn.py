"""tf.contrib.cudnn_rnn: layers of several recurrent networks, with cuDNN's weights in one vector; they run on every device.

The vector holds the kernels of all layers and directions (for each, those of the inputs, then of the states, gate by gate),
then their biases in the same order.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.compat.contrib import deeper
from penstock._src.compat.contrib.rnn.block import LSTMBlockCell
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.layers.rnn_layers import lstm_over_time
from penstock._src.models.layers.base import Layer
from penstock._src.models.rnn.cell import LayerRNNCell
from penstock.compat import v1 as tf

CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION = "unidirectional", "bidirectional"
for _name, _value in (("CUDNN_RNN_UNIDIRECTION", CUDNN_RNN_UNIDIRECTION), ("CUDNN_RNN_BIDIRECTION", CUDNN_RNN_BIDIRECTION),
                      ("CUDNN_INPUT_LINEAR_MODE", "linear_input"), ("CUDNN_LSTM", "lstm"), ("CUDNN_GRU", "gru"),
                      ("CUDNN_RNN_RELU", "rnn_relu"), ("CUDNN_RNN_TANH", "rnn_tanh")):
    export.value(_value, v1=[f"contrib.cudnn_rnn.{_name}"])


class _CudnnRNN(Layer):
    """The common part of all kinds. A kind has a number of gates, a number of states, and a function that runs one layer in one
    direction."""

    rnn_mode, gates, states = "", 0, 1

    def __init__(self, num_layers: int, num_units: int, input_mode: str = "linear_input",
                 direction: str = CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0, seed: int | None = None,
                 dtype: Any = tf.float32, kernel_initializer: Any = None, bias_initializer: Any = None,
                 name: str | None = None):
        super().__init__(dtype=dtype, name=name)
        if direction not in (CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION):
            raise ValueError(f"Invalid direction {direction}, expecting {CUDNN_RNN_UNIDIRECTION} or {CUDNN_RNN_BIDIRECTION}")
        if input_mode != "linear_input":
            raise ValueError(f"Invalid input_mode {input_mode}: only linear_input is supported.")
        if tf.as_dtype(dtype) not in (tf.float16, tf.float32, tf.float64):
            raise ValueError(f"Only support float16, float32, float64, provided {dtype}")
        self.num_layers, self.num_units, self.input_mode, self.direction = num_layers, num_units, input_mode, direction
        self._dropout, self._seed, self._input_size = dropout, seed, None
        self._kernel_initializer = kernel_initializer or tf.glorot_uniform_initializer(seed=seed, dtype=dtype)
        self._bias_initializer = bias_initializer or tf.zeros_initializer(dtype=dtype)

    num_dirs = property(lambda self: 1 if self.direction == CUDNN_RNN_UNIDIRECTION else 2, doc="1, or 2 if bidirectional.")

    @property
    def input_size(self) -> int:
        """The number of features."""
        if self._input_size is None:
            raise ValueError("'input_size' is unknown since layer has not been built.")
        return self._input_size

    @property
    def canonical_weight_shapes(self) -> list[tuple[int, int]]:
        """The shapes of all kernels, in their order."""
        shapes: list[tuple[int, int]] = []
        for i in range(self.num_layers):
            inputs = self.num_units * self.num_dirs if i else self.input_size
            one = [(self.num_units, inputs)] * self.gates + [(self.num_units, self.num_units)] * self.gates
            shapes += one * self.num_dirs
        return shapes

    @property
    def canonical_bias_shapes(self) -> list[list[int]]:
        """The shapes of all biases, in their order."""
        return [[self.num_units]] * (2 * self.gates * self.num_dirs * self.num_layers)

    def state_shape(self, batch_size: Any) -> tuple:
        """The shapes of the states of all layers."""
        return ([self.num_layers * self.num_dirs, batch_size, self.num_units],) * self.states

    def build(self, input_shape: Any) -> None:
        """Makes the vector of all weights."""
        shape = tf.TensorShape(input_shape)
        if shape.ndims != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {shape.ndims}")
        if shape.as_list()[-1] is None:
            raise ValueError("The last dimension of the inputs to `CudnnRNN` should be defined. Found `None`.")
        self._input_size = shape.as_list()[-1]

        def initial(_: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            kernels = [self._kernel_initializer(s, dtype=dtype) for s in self.canonical_weight_shapes]
            biases = [self._bias_initializer(s, dtype=dtype) for s in self.canonical_bias_shapes]
            return tf.concat([tf.reshape(p, [-1]) for p in kernels + biases], 0)

        shapes = [*self.canonical_weight_shapes, *self.canonical_bias_shapes]
        self.kernel = self.add_variable("opaque_kernel", [sum(int(np.prod(s)) for s in shapes)], initializer=initial)
        self.built = True

    def _parts(self) -> list[tuple]:
        """For each layer and direction: kernels of the inputs and of the states, [from, to], and their biases."""
        shapes = [*self.canonical_weight_shapes, *self.canonical_bias_shapes]
        flat = tf.split(self.kernel, [int(np.prod(s)) for s in shapes])
        kernels = [tf.reshape(p, s) for p, s in zip(flat, self.canonical_weight_shapes, strict=False)]
        biases, n = flat[len(kernels):], self.gates
        return [(tf.transpose(tf.concat(kernels[i:i + n], 0)), tf.transpose(tf.concat(kernels[i + n:i + 2 * n], 0)),
                 tf.concat(biases[i:i + n], 0), tf.concat(biases[i + n:i + 2 * n], 0)) for i in range(0, len(kernels), 2 * n)]

    def call(self, inputs: Any, initial_state: Any = None, sequence_lengths: Any = None, time_major: bool = True,
             training: Any = True) -> tuple:
        """The outputs of the last layer, [time, rows, directions * units], and the last states of all layers."""
        if initial_state is not None and not isinstance(initial_state, tuple):
            raise TypeError(f"Invalid initial_state type: {initial_state}, expecting tuple.")
        if sequence_lengths is not None:
            raise errors.UnimplementedError(None, None, "sequence_lengths: use tf.nn.dynamic_rnn with CudnnCompatible cells.")
        x = tf.convert_to_tensor(inputs, dtype=self.dtype)
        if not time_major:
            x, initial_state = _swapped(x), initial_state and tuple(_swapped(s) for s in initial_state)
        if initial_state is None:
            initial_state = tuple(tf.zeros(s, self.dtype) for s in self.state_shape(tf.shape(x)[1]))
        parts, last = self._parts(), []
        for i in range(self.num_layers):
            if i and self._dropout:
                x = tf.layers.dropout(x, self._dropout, seed=self._seed, training=training)
            outputs = []
            for d in range(self.num_dirs):
                at = i * self.num_dirs + d
                steps = tf.reverse(x, [0]) if d else x
                out, states = self._over_time(steps, [s[at] for s in initial_state], *parts[at])
                outputs.append(tf.reverse(out, [0]) if d else out)
                last.append(states)
            x = tf.concat(outputs, 2) if len(outputs) > 1 else outputs[0]
        found = tuple(tf.stack(s) for s in zip(*last, strict=True))
        return (x, found) if time_major else (_swapped(x), tuple(_swapped(s) for s in found))

    def _over_time(self, x: Any, states: list, w: Any, r: Any, b_w: Any, b_r: Any) -> tuple[Any, list]:
        """The outputs of all steps, and the last states."""
        projected = tf.nn.bias_add(tf.tensordot(x, w, [[2], [0]]), b_w)

        def step(now: Any, state: Any) -> tuple:
            new = self._step(now, state[0], tf.nn.bias_add(tf.matmul(state[0], r), b_r))
            return new, [new]
        _, outputs, new = K.rnn(step, projected, states, time_major=True)
        return outputs, list(new)

    def _step(self, x: Any, h: Any, inner: Any) -> Any:
        raise NotImplementedError


def _swapped(x: Any) -> Any:
    return tf.transpose(x, [1, 0, 2])


@export(v1=["contrib.cudnn_rnn.CudnnLSTM"])
class CudnnLSTM(_CudnnRNN):
    """Long short-term memory; its gates are input, forget, cell, output.

    >>> outputs, (h, c) = tf.contrib.cudnn_rnn.CudnnLSTM(2, 128, direction="bidirectional")(inputs)
    """

    rnn_mode, gates, states = "lstm", 4, 2

    def _over_time(self, x: Any, states: list, w: Any, r: Any, b_w: Any, b_r: Any) -> tuple[Any, list]:
        outputs, carries = lstm_over_time(x, states, w, r, b_w + b_r)
        return outputs, [outputs[-1], carries[-1]]


@export(v1=["contrib.cudnn_rnn.CudnnGRU"])
class CudnnGRU(_CudnnRNN):
    """Gated recurrent units; the gates are reset, update, candidate, and the reset is after the product."""

    rnn_mode, gates = "gru", 3

    def _step(self, x: Any, h: Any, inner: Any) -> Any:
        x_r, x_u, x_c = tf.split(x, 3, axis=1)
        h_r, h_u, h_c = tf.split(inner, 3, axis=1)
        u = tf.sigmoid(x_u + h_u)
        return u * h + (1 - u) * tf.tanh(x_c + tf.sigmoid(x_r + h_r) * h_c)


@export(v1=["contrib.cudnn_rnn.CudnnRNNTanh"])
class CudnnRNNTanh(_CudnnRNN):
    """The plain recurrent network, with tanh."""

    rnn_mode, gates = "rnn_tanh", 1

    def _step(self, x: Any, h: Any, inner: Any) -> Any:
        return tf.tanh(x + inner)


@export(v1=["contrib.cudnn_rnn.CudnnRNNRelu"])
class CudnnRNNRelu(_CudnnRNN):
    """The plain recurrent network, with relu."""

    rnn_mode, gates = "rnn_relu", 1

    def _step(self, x: Any, h: Any, inner: Any) -> Any:
        return tf.nn.relu(x + inner)


@export(v1=["contrib.cudnn_rnn.CudnnCompatibleLSTMCell"])
class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """A cell with the same computation as a layer of CudnnLSTM."""

    def __init__(self, num_units: int, reuse: Any = None):
        super().__init__(num_units, forget_bias=0, cell_clip=None, use_peephole=False, reuse=reuse,
                         name="cudnn_compatible_lstm_cell")


@export(v1=["contrib.cudnn_rnn.CudnnCompatibleGRUCell"])
class CudnnCompatibleGRUCell(LayerRNNCell):
    """A cell with the same computation as a layer of CudnnGRU."""

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None):
        super().__init__(_reuse=reuse, name="cudnn_compatible_gru_cell")
        self._num_units, self._kernel_initializer = num_units, kernel_initializer

    state_size = output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Makes the weights of the gates, and of the two parts of the candidate."""
        n, depth = self._num_units, tf.TensorShape(inputs_shape).as_list()[-1]

        def pair(name: str, rows: int, columns: int, start: Any) -> tuple:
            return (self.add_variable(f"{name}/kernel", [rows, columns], initializer=self._kernel_initializer),
                    self.add_variable(f"{name}/bias", [columns], initializer=start))
        self._gates = pair("gates", depth + n, 2 * n, tf.constant_initializer(1.0, dtype=self.dtype))
        self._input = pair("candidate/input_projection", depth, n, tf.zeros_initializer(dtype=self.dtype))
        self._hidden = pair("candidate/hidden_projection", n, n, tf.zeros_initializer(dtype=self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple:
        """The new state, twice."""
        r, u = tf.split(tf.sigmoid(tf.nn.xw_plus_b(tf.concat([inputs, state], 1), *self._gates)), 2, axis=1)
        candidate = tf.tanh(tf.nn.xw_plus_b(inputs, *self._input) + r * tf.nn.xw_plus_b(state, *self._hidden))
        new = (1 - u) * candidate + u * state
        return new, new


deeper("cudnn_rnn", "layers.cudnn_rnn", "ops.cudnn_rnn_ops")
