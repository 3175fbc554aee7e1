"""Cells beyond those of tf.nn.rnn_cell. Names of variables are TensorFlow's."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.rnn.linear import depth_of, linear
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.rnn.cell import LayerRNNCell, RNNCell, input_depth
from penstock._src.models.rnn.cells import LSTMStateTuple
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.rnn.{cls.__name__}"])(cls)


def _norm(x: Tensor, scope: str, gain: float, shift: float) -> Tensor:
    """Layer normalization with the variables `gamma` and `beta` of a scope."""
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", x.shape[-1:], dtype=x.dtype, initializer=tf.constant_initializer(gain))
        beta = tf.get_variable("beta", x.shape[-1:], dtype=x.dtype, initializer=tf.constant_initializer(shift))
        mean, variance = tf.nn.moments(x, [1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def _clipped(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else tf.clip_by_value(x, -limit, limit)


class _OneState(RNNCell):
    """A cell whose output and state have `num_units` numbers."""

    state_size = property(lambda self: self._num_units)
    output_size = property(lambda self: self._num_units)


class _Lstm(RNNCell):
    """A cell with the state of an LSTM, which may be projected."""

    _num_proj: int | None = None

    @property
    def state_size(self) -> Any:
        """The sizes of memory and output."""
        return LSTMStateTuple(self._num_units, self._num_proj or self._num_units)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._num_proj or self._num_units


@_export
class LayerNormBasicLSTMCell(_Lstm):
    """An LSTM with layer normalization of its gates, and recurrent dropout of what is new.

    >>> tf.contrib.rnn.LayerNormBasicLSTMCell(8, dropout_keep_prob=0.9)
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, input_size: Any = None, activation: Any = tf.tanh,
                 layer_norm: bool = True, norm_gain: float = 1.0, norm_shift: float = 0.0, dropout_keep_prob: Any = 1.0,
                 dropout_prob_seed: int | None = None, reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._num_units, self._forget_bias, self._activation = num_units, forget_bias, activation
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift
        self._keep_prob, self._seed, self._reuse = dropout_keep_prob, dropout_prob_seed, reuse

    def _normalized(self, x: Tensor, scope: str) -> Tensor:
        return _norm(x, scope, self._gain, self._shift) if self._layer_norm else x

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        c, h = state
        gates = linear([inputs, h], 4 * self._num_units, False)
        if not self._layer_norm:                       # its initializer is that of the scope
            gates = tf.nn.bias_add(gates, tf.get_variable("bias", [4 * self._num_units], dtype=gates.dtype))
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
        i, j, f, o = (self._normalized(x, name) for x, name in ((i, "input"), (j, "transform"), (f, "forget"), (o, "output")))
        g = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            g = tf.nn.dropout(g, rate=1 - self._keep_prob, seed=self._seed)
        new_c = self._normalized(c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * g, "state")
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


@_export
class LayerNormLSTMCell(_Lstm):
    """An LSTM with peepholes, clipping and projection, whose gates may be normalized."""

    def __init__(self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None, initializer: Any = None,
                 num_proj: int | None = None, proj_clip: float | None = None, forget_bias: float = 1.0, activation: Any = None,
                 layer_norm: bool = False, norm_gain: float = 1.0, norm_shift: float = 0.0, reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._cell_clip = num_units, use_peepholes, cell_clip
        self._initializer, self._num_proj, self._proj_clip = initializer, num_proj, proj_clip
        self._forget_bias, self._activation = forget_bias, activation or tf.tanh
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        c_prev, m_prev = state
        depth_of(inputs)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gates = linear([inputs, m_prev], 4 * self._num_units, not self._layer_norm)
            i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
            if self._layer_norm:
                i, j, f, o = (_norm(x, name, self._gain, self._shift) for x, name in
                              ((i, "input"), (j, "transform"), (f, "forget"), (o, "output")))
            f = f + self._forget_bias
            if self._use_peepholes:
                w_f, w_i, w_o = (tf.get_variable(f"w_{g}_diag", [self._num_units], dtype=inputs.dtype) for g in "fio")
                f, i = f + w_f * c_prev, i + w_i * c_prev
            c = tf.sigmoid(f) * c_prev + tf.sigmoid(i) * self._activation(j)
            if self._layer_norm:
                c = _norm(c, "state", self._gain, self._shift)
            c = _clipped(c, self._cell_clip)
            m = tf.sigmoid(o + w_o * c if self._use_peepholes else o) * self._activation(c)
            if self._num_proj is not None:
                with tf.variable_scope("projection"):
                    m = _clipped(linear(m, self._num_proj, bias=False), self._proj_clip)
        return m, LSTMStateTuple(c, m)


@_export
class CoupledInputForgetGateLSTMCell(RNNCell):
    """An LSTM with coupled input and forget gates."""

    def __init__(self, num_units: int, use_peepholes: bool = False, initializer: Any = None, num_proj: int | None = None,
                 proj_clip: float | None = None, num_unit_shards: int = 1, num_proj_shards: int = 1, forget_bias: float = 1.0,
                 state_is_tuple: bool = True, activation: Any = tf.tanh, reuse: Any = None, layer_norm: bool = False,
                 norm_gain: float = 1.0, norm_shift: float = 0.0):
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._initializer = num_units, use_peepholes, initializer
        self._num_proj, self._proj_clip, self._forget_bias = num_proj, proj_clip, forget_bias
        self._state_is_tuple, self._activation = state_is_tuple, activation
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift

    @property
    def state_size(self) -> Any:
        """The sizes of memory and output."""
        both = (self._num_units, self._num_proj or self._num_units)
        return LSTMStateTuple(*both) if self._state_is_tuple else sum(both)

    output_size = property(lambda self: self._num_proj or self._num_units)

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        n, dtype = self._num_units, inputs.dtype
        c_prev, m_prev = state if self._state_is_tuple else tf.split(state, [n, self.output_size], axis=1)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            w = tf.get_variable("W_0", [depth_of(inputs) + self.output_size, 3 * n], dtype=dtype)
            b = tf.get_variable("B", [3 * n], initializer=tf.zeros_initializer(), dtype=dtype)
            gates = tf.matmul(tf.concat([inputs, m_prev], 1), w)
            j, f, o = tf.split(value=gates if self._layer_norm else tf.nn.bias_add(gates, b), num_or_size_splits=3, axis=1)
            if self._layer_norm:
                j, f, o = (_norm(x, name, self._gain, self._shift) for x, name in
                           ((j, "transform"), (f, "forget"), (o, "output")))
            if self._use_peepholes:
                w_f, w_o = (tf.get_variable(f"W_{g}_diag", [n], dtype=dtype) for g in "FO")
                f = f + w_f * c_prev
            kept = tf.sigmoid(f + self._forget_bias)
            c = kept * c_prev + (1 - kept) * self._activation(j)
            if self._layer_norm:
                c = _norm(c, "state", self._gain, self._shift)
            m = tf.sigmoid(o + w_o * c if self._use_peepholes else o) * self._activation(c)
            if self._num_proj is not None:
                m = _clipped(tf.matmul(m, tf.get_variable("W_P_0", [n, self._num_proj], dtype=dtype)), self._proj_clip)
        return m, LSTMStateTuple(c, m) if self._state_is_tuple else tf.concat([c, m], 1)


@_export
class TimeFreqLSTMCell(RNNCell):
    """An LSTM that also runs over overlapping pieces of its input features."""

    def __init__(self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None, initializer: Any = None,
                 num_unit_shards: int = 1, forget_bias: float = 1.0, feature_size: int | None = None, frequency_skip: int = 1,
                 reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._num_units, self._use_peepholes, self._cell_clip = num_units, use_peepholes, cell_clip
        self._initializer, self._forget_bias = initializer, forget_bias
        self._feature_size, self._frequency_skip = feature_size, frequency_skip

    state_size = property(lambda self: 2 * self._num_units)
    output_size = property(lambda self: self._num_units)

    def _pieces(self, inputs: Tensor) -> list[Tensor]:
        size = inputs.shape.with_rank(2).dims[-1].value
        if size is None:
            raise ValueError("The size of the input is not known.")
        count = int((size - self._feature_size) / self._frequency_skip) + 1
        return [tf.slice(inputs, [0, f * self._frequency_skip], [-1, self._feature_size]) for f in range(count)]

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        n, dtype, pieces = self._num_units, inputs.dtype, self._pieces(inputs)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            w = tf.get_variable("W_0", [pieces[0].shape.as_list()[1] + 2 * n, 4 * n], dtype=dtype)
            b = tf.get_variable("B", [4 * n], initializer=tf.zeros_initializer(), dtype=dtype)
            peep = {g: tf.get_variable(f"W_{g}_diag", [n], dtype=dtype) if self._use_peepholes else 0.0 for g in "FIO"}
        below = tf.zeros([inputs.shape.dims[0].value or tf.shape(inputs)[0], n], dtype)
        states, outputs = [], []
        for k, piece in enumerate(pieces):
            c_prev = tf.slice(state, [0, 2 * k * n], [-1, n])
            m_prev = tf.slice(state, [0, (2 * k + 1) * n], [-1, n])
            gates = tf.nn.bias_add(tf.matmul(tf.concat([piece, m_prev, below], 1), w), b)
            i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
            c = tf.sigmoid(f + self._forget_bias + peep["F"] * c_prev) * c_prev + \
                tf.sigmoid(i + peep["I"] * c_prev) * tf.tanh(j)
            c = _clipped(c, self._cell_clip)
            below = tf.sigmoid(o + peep["O"] * c) * tf.tanh(c)
            states += [c, below]
            outputs.append(below)
        return tf.concat(outputs, 1), tf.concat(states, 1)


@_export
class UGRNNCell(_OneState):
    """The update gate RNN (https://arxiv.org/abs/1611.09913)."""

    def __init__(self, num_units: int, initializer: Any = None, forget_bias: float = 1.0, activation: Any = tf.tanh,
                 reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer = num_units, initializer
        self._forget_bias, self._activation = forget_bias, activation

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        depth_of(inputs)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            g, c = tf.split(linear(tf.concat([inputs, state], 1), 2 * self._num_units, True), 2, axis=1)
            g = tf.sigmoid(g + self._forget_bias)
            new = g * state + (1.0 - g) * self._activation(c)
        return new, new


@_export
class IntersectionRNNCell(_OneState):
    """The intersection RNN: gates across depth and across time (https://arxiv.org/abs/1611.09913)."""

    def __init__(self, num_units: int, num_in_proj: int | None = None, initializer: Any = None, forget_bias: float = 1.0,
                 y_activation: Any = tf.nn.relu, reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._num_units, self._num_input_proj, self._initializer = num_units, num_in_proj, initializer
        self._forget_bias, self._y_activation = forget_bias, y_activation

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        n = self._num_units
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            if depth_of(inputs) != n:
                if not self._num_input_proj:
                    raise ValueError("Must have input size == output size for Intersection RNN. To fix, num_in_proj should be "
                                     "set to num_units at cell init.")
                with tf.variable_scope("in_projection"):
                    inputs = linear(inputs, n, True)
            gh, h, gy, y = tf.split(linear(tf.concat([inputs, state], 1), 4 * n, True), 4, axis=1)
            gh, gy = tf.sigmoid(gh + self._forget_bias), tf.sigmoid(gy + self._forget_bias)
            new_state = gh * state + (1.0 - gh) * tf.tanh(h)
            return gy * inputs + (1.0 - gy) * self._y_activation(y), new_state


@_export
class PhasedLSTMCell(_Lstm):
    """An LSTM whose units open at their own times (https://arxiv.org/abs/1610.09513); inputs are `(time, x)`."""

    def __init__(self, num_units: int, use_peepholes: bool = False, leak: float = 0.001, ratio_on: float = 0.1,
                 trainable_ratio_on: bool = True, period_init_min: float = 1.0, period_init_max: float = 1000.0,
                 reuse: Any = None):
        super().__init__(_reuse=reuse, autocast=False)
        self._num_units, self._use_peepholes, self._leak = num_units, use_peepholes, leak
        self._ratio_on, self._trainable_ratio_on = ratio_on, trainable_ratio_on
        self._period = (period_init_min, period_init_max)

    def _first_period(self, shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> Tensor:
        low, high = (tf.log(tf.constant(p, dtype)) for p in self._period)
        return tf.exp(tf.random_uniform(shape, dtype=dtype) * (high - low) + low)

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        (c_prev, h_prev), (time, x), n = state, inputs, self._num_units
        with tf.variable_scope("mask_gates"):
            gates = linear([x, h_prev, c_prev] if self._use_peepholes else [x, h_prev], 2 * n, True)
            input_gate, forget_gate = tf.split(tf.sigmoid(gates), 2, axis=1)
        with tf.variable_scope("new_input"):
            new_c = c_prev * forget_gate + input_gate * tf.tanh(linear([x, h_prev], n, True))
        with tf.variable_scope("output_gate"):
            output_gate = tf.sigmoid(linear([x, h_prev, new_c] if self._use_peepholes else [x, h_prev], n, True))
        new_h = tf.tanh(new_c) * output_gate
        period = tf.get_variable("period", [n], initializer=self._first_period)
        phase = tf.get_variable("phase", [n], initializer=lambda shape, dtype=tf.float32, partition_info=None:
                                tf.random_uniform(shape, dtype=dtype) * period.initialized_value())
        ratio_on = tf.get_variable("ratio_on", [n], initializer=tf.constant_initializer(self._ratio_on),
                                   trainable=self._trainable_ratio_on)
        passed, cycle = time - tf.cast(phase, time.dtype), tf.cast(period, time.dtype)
        ratio = tf.cast((tf.stop_gradient(tf.floormod(passed, cycle) - passed) + passed) / cycle, tf.float32)
        rising = 2 * ratio / ratio_on
        k = tf.where(ratio < 0.5 * ratio_on, rising, tf.where(ratio < ratio_on, 2 - rising, self._leak * ratio))
        new_c, new_h = k * new_c + (1 - k) * c_prev, k * new_h + (1 - k) * h_prev
        return new_h, LSTMStateTuple(new_c, new_h)


@_export
class GLSTMCell(_Lstm):
    """A group LSTM: inputs and states in groups, each with separate weights (https://arxiv.org/abs/1703.10722)."""

    def __init__(self, num_units: int, initializer: Any = None, num_proj: int | None = None, number_of_groups: int = 1,
                 forget_bias: float = 1.0, activation: Any = tf.tanh, reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer, self._num_proj = num_units, initializer, num_proj
        self._groups, self._forget_bias, self._activation = number_of_groups, forget_bias, activation
        if num_units % number_of_groups:
            raise ValueError("num_units must be divisible by number_of_groups")
        if num_proj and num_proj % number_of_groups:
            raise ValueError("num_proj must be divisible by number_of_groups")

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        c_prev, m_prev = state
        size, dtype = depth_of(inputs), inputs.dtype
        if size % self._groups:
            raise ValueError(f"input size ({size}) must be divisible by number_of_groups ({self._groups})")
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            parts = []
            for k, (x, m) in enumerate(zip(tf.split(inputs, self._groups, 1), tf.split(m_prev, self._groups, 1), strict=True)):
                with tf.variable_scope(f"group{k}"):
                    product = linear(tf.concat([x, m], axis=1), 4 * self._num_units // self._groups, False)
                    parts.append(tf.split(product, 4, 1))
            i, j, f, o = (tf.nn.bias_add(tf.concat(gate, axis=1), tf.get_variable(
                f"bias_{name}", [self._num_units], dtype=dtype, initializer=tf.constant_initializer(0.0, dtype=dtype)))
                for name, gate in zip("ijfo", zip(*parts, strict=True), strict=True))
        c = tf.sigmoid(f + self._forget_bias) * c_prev + tf.sigmoid(i) * tf.tanh(j)
        m = tf.sigmoid(o) * self._activation(c)
        if self._num_proj is not None:
            with tf.variable_scope("projection"):
                m = linear(m, self._num_proj, False)
        return m, LSTMStateTuple(c, m)


@_export
class NASCell(LayerRNNCell):
    """The cell that neural architecture search found (https://arxiv.org/abs/1611.01578).

    Args:
        num_units: Number of units of the cell.
        num_proj: Number of outputs, if they are projected.
        use_bias: Whether to add biases.
        reuse: Whether to use existing variables of the scope.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> with tf.Graph().as_default():
    ...     outputs, state = tf.nn.dynamic_rnn(tf.contrib.rnn.NASCell(4), tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape
    TensorShape([2, 5, 4])
    """

    def __init__(self, num_units: int, num_proj: int | None = None, use_bias: bool = False, reuse: Any = None, **kwargs: Any):
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units, self._num_proj, self._use_bias, self._reuse = num_units, num_proj, use_bias, reuse

    state_size = property(lambda self: LSTMStateTuple(self._num_units, self._num_proj or self._num_units))
    output_size = property(lambda self: self._num_proj or self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        n, depth = self._num_units, input_depth(inputs_shape)
        self.recurrent_kernel = self.add_weight("recurrent_kernel", shape=[self.output_size, 8 * n])
        self.kernel = self.add_weight("kernel", shape=[depth, 8 * n])
        if self._use_bias:
            self.bias = self.add_weight("bias", shape=[8 * n], initializer=tf.zeros_initializer())
        if self._num_proj is not None:
            self.projection_weights = self.add_weight("projection_weights", shape=[n, self._num_proj])
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        c_prev, m_prev = state
        m = tf.matmul(m_prev, self.recurrent_kernel)
        m = tf.split(tf.nn.bias_add(m, self.bias) if self._use_bias else m, 8, axis=1)
        x = tf.split(tf.matmul(inputs, self.kernel), 8, axis=1)
        a = tf.tanh(tf.sigmoid(x[0] + m[0]) * tf.nn.relu(x[1] + m[1]))
        b = tf.tanh(tf.sigmoid(x[2] + m[2]) + tf.nn.relu(x[3] * m[3]))
        c = tf.tanh(tf.tanh(x[4] + m[4]) * tf.sigmoid(x[5] + m[5]))
        d = tf.sigmoid(tf.tanh(x[6] + m[6]) + tf.sigmoid(x[7] + m[7]))
        new_c = tf.tanh(a + c_prev) * b
        new_m = tf.tanh(new_c * tf.tanh(c + d))
        if self._num_proj is not None:
            new_m = tf.matmul(new_m, self.projection_weights)
        return new_m, LSTMStateTuple(new_c, new_m)


@_export
class IndRNNCell(LayerRNNCell):
    """An RNN whose units depend only on their own past (https://arxiv.org/abs/1803.04831)."""

    def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._activation = num_units, activation or tf.tanh

    state_size = property(lambda self: self._num_units)
    output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        own = tf.random_uniform_initializer(minval=-1, maxval=1, dtype=self.dtype or tf.float32)
        self._kernel_w = self.add_weight("kernel_w", shape=[input_depth(inputs_shape), self._num_units])
        self._kernel_u = self.add_weight("kernel_u", shape=[1, self._num_units], initializer=own)
        self._bias = self.add_weight("bias", shape=[self._num_units], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        output = self._activation(tf.nn.bias_add(tf.matmul(inputs, self._kernel_w) + state * self._kernel_u, self._bias))
        return output, output


class _Minimal(LayerRNNCell):
    """The common part of cells that have few gates, whose biases start at one."""

    def __init__(self, units: int, activation: Any = "tanh", kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "ones", name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self.units, self.activation = units, tf.keras.activations.get(activation)
        self.kernel_initializer = tf.keras.initializers.get(kernel_initializer)
        self.bias_initializer = tf.keras.initializers.get(bias_initializer)

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self.units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self.units


@_export
class MinimalRNNCell(_Minimal):
    """A cell with one gate between its last state and the new inputs (https://arxiv.org/abs/1711.06788).

    >>> tf.contrib.rnn.MinimalRNNCell(8)
    """

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        depth = input_depth(inputs_shape)
        self.kernel = self.add_weight("kernel", shape=[depth + 2 * self.units, self.units], initializer=self.kernel_initializer)
        self.bias = self.add_weight("bias", shape=[self.units], initializer=self.bias_initializer)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        of_inputs, of_gate = tf.split(self.kernel, [depth_of(inputs), 2 * self.units], axis=0)
        new = self.activation(tf.matmul(inputs, of_inputs))
        keep = tf.sigmoid(tf.nn.bias_add(tf.matmul(tf.concat([new, state], 1), of_gate), self.bias))
        output = keep * state + (1 - keep) * new
        return output, output


@_export
class CFNCell(_Minimal):
    """A chaos free network: its state decays without inputs (https://arxiv.org/abs/1612.06212).

    >>> tf.contrib.rnn.CFNCell(8)
    """

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        n, kernel = self.units, self.kernel_initializer
        self.kernel = self.add_weight("kernel", shape=[input_depth(inputs_shape), 3 * n], initializer=kernel)
        self.recurrent_kernel = self.add_weight("recurrent_kernel", shape=[n, 2 * n], initializer=kernel)
        self.bias = self.add_weight("bias", shape=[2 * n], initializer=self.bias_initializer)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        of_gates, of_inputs = tf.split(self.kernel, [2 * self.units, self.units], axis=1)
        gates = tf.matmul(state, self.recurrent_kernel) + tf.matmul(inputs, of_gates)
        forget, closed = tf.split(tf.sigmoid(tf.nn.bias_add(gates, self.bias)), 2, axis=1)
        output = forget * self.activation(state) + (1 - closed) * self.activation(tf.matmul(inputs, of_inputs))
        return output, output


class _Independent(LayerRNNCell):
    """The common part of the other independently recurrent cells: gates in which each unit depends only on its own last
    state."""

    def __init__(self, num_units: int, activation: Any, reuse: Any, kernel_initializer: Any, bias_initializer: Any,
                 name: str | None, dtype: Any):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._activation = num_units, activation or tf.tanh
        self._initializers = kernel_initializer, bias_initializer

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def _gates(self, scope: str, count: int, inputs_shape: Any, bias: Any, kernel: str = "kernel_w") -> tuple[Any, Any, Any]:
        """The variables of `count` gates: of inputs, of the state, and the bias."""
        size = count * self._num_units
        return (self.add_weight(scope + kernel, shape=[input_depth(inputs_shape), size], initializer=self._initializers[0]),
                self.add_weight(f"{scope}kernel_u", shape=[1, size], initializer=tf.random_uniform_initializer(-1, 1)),
                self.add_weight(f"{scope}bias", shape=[size], initializer=self._initializers[1] or bias))


def _gated(inputs: Any, state: Any, variables: tuple[Any, Any, Any], count: int) -> list[Tensor]:
    w, u, bias = variables
    return tf.split(tf.nn.bias_add(tf.matmul(inputs, w) + tf.tile(state, [1, count]) * u, bias), count, axis=1)


@_export
class IndyGRUCell(_Independent):
    """A GRU whose units depend only on their own last state."""

    def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, kernel_initializer: Any = None,
                 bias_initializer: Any = None, name: str | None = None, dtype: Any = None):
        super().__init__(num_units, activation, reuse, kernel_initializer, bias_initializer, name, dtype)

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Creates the variables."""
        self._gate = self._gates("gates/", 2, inputs_shape, tf.constant_initializer(1.0))
        self._candidate = self._gates("candidate/", 1, inputs_shape, tf.zeros_initializer(), "kernel")
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        reset, update = (tf.sigmoid(g) for g in _gated(inputs, state, self._gate, 2))
        candidate, = _gated(inputs, reset * state, self._candidate, 1)
        new = update * state + (1 - update) * self._activation(candidate)
        return new, new


@_export
class IndyLSTMCell(_Independent):
    """An LSTM whose units depend only on their own last state."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, activation: Any = None, reuse: Any = None,
                 kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None, dtype: Any = None):
        super().__init__(num_units, activation, reuse, kernel_initializer, bias_initializer, name, dtype)
        self._forget_bias = forget_bias

    @property
    def state_size(self) -> LSTMStateTuple:
        """The sizes of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Creates the variables."""
        self._gate = self._gates("", 4, inputs_shape, tf.zeros_initializer())
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        c, h = state
        i, j, f, o = _gated(inputs, h, self._gate, 4)
        new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


@_export
class SRUCell(LayerRNNCell):
    """The simple recurrent unit (https://arxiv.org/abs/1709.02755): no product with the state."""

    def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None, **kwargs: Any):
        super().__init__(_reuse=reuse, name=name, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._activation = num_units, activation or tf.tanh

    state_size = property(lambda self: self._num_units)
    output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        self._kernel = self.add_weight("kernel", shape=[input_depth(inputs_shape), 4 * self._num_units])
        self._bias = self.add_weight("bias", shape=[2 * self._num_units], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        x, f, r, through = tf.split(tf.matmul(inputs, self._kernel), 4, axis=1)
        f, r = tf.split(tf.sigmoid(tf.nn.bias_add(tf.concat([f, r], 1), self._bias)), 2, axis=1)
        c = f * state + (1.0 - f) * x
        return r * self._activation(c) + (1.0 - r) * through, c


@_export
class WeightNormLSTMCell(_Lstm):
    """An LSTM whose weights have a direction and their own length (https://arxiv.org/abs/1602.07868)."""

    def __init__(self, num_units: int, norm: bool = True, use_peepholes: bool = False, cell_clip: float | None = None,
                 initializer: Any = None, num_proj: int | None = None, proj_clip: float | None = None, forget_bias: float = 1,
                 activation: Any = None, reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._num_units, self._norm, self._use_peepholes, self._cell_clip = num_units, norm, use_peepholes, cell_clip
        self._initializer, self._num_proj, self._proj_clip = initializer, num_proj, proj_clip
        self._forget_bias, self._activation = forget_bias, activation or tf.tanh

    def _product(self, args: list[Tensor], size: int, bias: bool) -> Tensor:
        depths, dtype = [depth_of(a) for a in args], args[0].dtype
        kernel = tf.get_variable("kernel", [sum(depths), size], dtype=dtype)
        if self._norm:
            lengths = [tf.get_variable(f"norm_{k}", [size], dtype=dtype) for k in range(len(args))]
            kernel = tf.concat([tf.nn.l2_normalize(w, axis=0) * g for w, g in
                                zip(tf.split(kernel, depths, axis=0), lengths, strict=True)], 0)
        product = tf.matmul(tf.concat(args, 1), kernel)
        if not bias:
            return product
        return tf.nn.bias_add(product, tf.get_variable("bias", [size], dtype=dtype, initializer=tf.zeros_initializer()))

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        (c, h), n = state, self._num_units
        with tf.variable_scope("wn_lstm_cell", initializer=self._initializer):
            i, j, f, o = tf.split(self._product([inputs, h], 4 * n, True), 4, axis=1)
            f = f + self._forget_bias
            if self._use_peepholes:
                w_f, w_i, w_o = (tf.get_variable(f"w_{g}_diag", [n], dtype=inputs.dtype) for g in "fio")
                f, i = f + w_f * c, i + w_i * c
            new_c = _clipped(c * tf.sigmoid(f) + tf.sigmoid(i) * self._activation(j), self._cell_clip)
            new_h = tf.sigmoid(o + w_o * new_c if self._use_peepholes else o) * self._activation(new_c)
            if self._num_proj is not None:
                with tf.variable_scope("projection"):
                    new_h = _clipped(self._product([new_h], self._num_proj, False), self._proj_clip)
        return new_h, LSTMStateTuple(new_c, new_h)
