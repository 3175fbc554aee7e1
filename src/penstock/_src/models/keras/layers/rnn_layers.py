"""SimpleRNN, GRU and LSTM: the cells over time.

The inputs of all time steps are projected in one product; the loop computes only the states. Without recurrent dropout, a
SimpleRNN and a GRU whose reset gate comes after the product are one op (`fused_recurrent.py`). An LSTM as it is by default in
2.x (tanh, sigmoid) is one op, too, BlockLSTMV2. A masked step leaves the states alone, so that op computes a masked sequence
over its valid steps, moved to the front (`Valid`), and each step's output is looked up afterwards.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import activations, regularizers
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers import fused_recurrent
from penstock._src.models.keras.layers.parts import described, named, passed
from penstock._src.models.keras.layers.recurrent import RNN, of_cell
from penstock._src.models.keras.layers.rnn_cells import (
    DropoutRNNCellMixin,
    GRUCell,
    GRUCellV1,
    LSTMCell,
    LSTMCellV1,
    SimpleRNNCell,
    with_activity,
)
from penstock._src.models.keras.utils.generic_utils import to_snake_case
from penstock._src.ops.registry import get
from penstock.compat import v1 as tf

_LAYER_WORDS = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major")


def _delegated(cls: Any) -> Any:
    """A decorator: the arguments of a layer's cell can be read from the layer."""
    for name in cls._cell_class._words:
        setattr(cls, name, of_cell(name))
    return cls


class _Layer(RNN):
    """A cell of ours over time."""

    activation: Any
    dropout: Any
    recurrent_dropout: Any

    _cell_class: Any = None

    def __init__(self, arguments: dict[str, Any]):
        words = {n: arguments.pop(n) for n in _LAYER_WORDS if n in arguments}
        own = {n: arguments.pop(n) for n in list(arguments) if n not in self._cell_class._words}
        activity = own.pop("activity_regularizer", None)
        if arguments.get("implementation") == 0:
            logging.warning("`implementation=0` is deprecated; `implementation=1` is used instead.")
            arguments["implementation"] = 1
        if context.eager_outside_functions():
            arguments["name"] = to_snake_case(self._cell_class.__name__)
        cell = self._cell_class(dtype=own.get("dtype"), trainable=own.get("trainable", True), **arguments)
        super().__init__(cell, **words, **own)
        self.activity_regularizer = regularizers.get(activity)
        self.input_spec = [InputSpec(ndim=3)]

    def call(self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None) -> Any:  # type: ignore[override]
        """The outputs of the last step or of all, and the last states if requested."""
        from_zero = initial_state is None and not isinstance(inputs, list) and not self.stateful
        inputs, mask, lengths = self._padded(inputs, mask[0] if isinstance(mask, list) else mask)
        inputs, initial_state, _ = self._process_inputs(inputs, initial_state, None)
        self._check_unroll(inputs)
        self._reset_dropout()
        if self.could_use_cudnn and self.dropout:
            inputs, training = self._dropped(inputs, training), False
        steps = inputs if self.time_major else tf.transpose(inputs, [1, 0, 2])
        if mask is not None and not self.time_major:
            mask = tf.transpose(mask, [1, 0, *range(2, len(mask.shape))])
        if self._is_fusible(steps, mask):
            last, outputs, states = self._fused(steps, initial_state, training, mask, from_zero)
        else:
            projected = self.cell.project(steps, training, mask_like=steps[0])
            last, outputs, states = K.rnn(
                lambda x, s: self.cell.advance(x, s, training), projected, initial_state, go_backwards=self.go_backwards,
                mask=mask, unroll=self.unroll, time_major=True, zero_output_for_mask=self.zero_output_for_mask)
        return self._finished(last, outputs if self.time_major else tf.transpose(outputs, [1, 0, 2]), states, lengths)

    could_use_cudnn = False          # whether the arguments are those of cuDNN, with which the layer drops other inputs

    def _dropped(self, inputs: Any, training: Any) -> Any:
        """Inputs of which each step is dropped by itself. tf_keras draws a mask per gate, and uses the first."""
        dropped = inputs * self.cell.get_dropout_mask_for_cell(inputs, training, count=self.cell.gates)[0]
        self._reset_dropout()
        return dropped

    _fused_kind = ""                # of the op that computes the layer over time, if it can

    def _is_fusible(self, steps: Any, mask: Any) -> bool:
        """Whether one op computes the layer."""
        return bool(self._fused_kind) and not self.unroll and self.recurrent_dropout == 0 and \
            fused_recurrent.name_of(self.activation) is not None and steps.dtype.base_dtype == tf.float32 and \
            K.int_shape(steps)[0] != 0

    def _gate_activation(self) -> str | None:
        return "sigmoid"

    def _recurrent_bias(self) -> Any:
        return None

    def _fused(self, steps: Any, states: list, training: Any, mask: Any, from_zero: bool) -> tuple:
        """The last output, all outputs and the last states. `from_zero`: the first states are zeros."""
        projected = self.cell.project(steps, training, mask_like=steps[0])
        if self.go_backwards:
            projected, mask = tf.reverse(projected, [0]), None if mask is None else tf.reverse(mask, [0])
        mask = mask if mask is None or len(mask.shape) == 2 else tf.squeeze(mask, -1)
        activation, gate_activation = fused_recurrent.name_of(self.activation), self._gate_activation()
        assert activation is not None and gate_activation is not None     # else the layer is not fusible
        after = fused_recurrent.over_time(self._fused_kind, activation, gate_activation, projected, states[0],
                                          self.cell.recurrent_kernel, self._recurrent_bias(), mask)
        outputs = after
        if mask is not None and self.zero_output_for_mask:
            outputs = tf.where_v2(mask[..., None], after, tf.zeros_like(after))
        elif mask is not None and not from_zero:                         # before the first valid step, outputs are zeros
            seen = tf.cumsum(tf.cast(mask, tf.int32), axis=0) > 0
            outputs = tf.where_v2(seen[..., None], after, tf.zeros_like(after))
        return outputs[-1], outputs, [after[-1]]

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), with_activity(self._cell_class._words))
        del config["cell"]
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer of a configuration."""
        return cls(**config)


@export("keras.layers.SimpleRNN")
@_delegated
class SimpleRNN(_Layer):
    """A fully connected recurrent layer: the output is fed back.

    Inputs are [batch, time, features] and may be masked. The output is [batch, units], or [batch, time, units] with
    `return_sequences`. The state is the output.

    Args:
        units: Size of the output.
        activation: Function of the output, by default tanh.
        use_bias: Whether to add a bias vector.
        kernel_initializer: Initializer of the input weights.
        recurrent_initializer: Initializer of the recurrent weights.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        recurrent_regularizer: Function of the recurrent weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        recurrent_constraint: Function applied to the recurrent weights after each update.
        bias_constraint: Function applied to the bias after each update.
        dropout: Fraction of the inputs that is dropped while training.
        recurrent_dropout: Fraction of the recurrent state that is dropped while training; disables the fused kernel.
        return_sequences: Whether to return the outputs of all steps instead of the last one.
        return_state: Whether to return the final states after the output.
        go_backwards: Whether to process the sequence from its end, and return it reversed.
        stateful: Whether the final states of a batch are the initial states of the next one; needs a fixed batch size.
        unroll: Whether to unroll the loop; faster for short sequences, and needs a fixed number of steps.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.SimpleRNN(32, return_sequences=True)
    """

    _cell_class = SimpleRNNCell
    _fused_kind = "simple"

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.,
                 recurrent_dropout: float = 0., return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, stateful: bool = False, unroll: bool = False, **kwargs: Any):
        if "implementation" in kwargs:
            kwargs.pop("implementation")
            logging.warning("`implementation` of `SimpleRNN` is deprecated and ignored.")
        super().__init__(passed(locals()))


# -- GRU ------------------------------------------------------------------------------------------------------------------
@export(v1=["keras.layers.GRU"])
@named("GRU")
@_delegated
class GRUV1(_Layer):
    """Gated recurrent units; with the reset gate before the product, unless `reset_after`."""

    recurrent_activation: Any
    reset_after: Any
    units: Any

    _cell_class = GRUCellV1
    _fused_kind = "gru"

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.,
                 recurrent_dropout: float = 0., implementation: int = 1, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
                 reset_after: bool = False, **kwargs: Any):
        super().__init__(passed(locals()))


    def _is_fusible(self, steps: Any, mask: Any) -> bool:
        return self.reset_after and fused_recurrent.name_of(self.recurrent_activation) is not None and \
            super()._is_fusible(steps, mask)

    def _gate_activation(self) -> str | None:
        return fused_recurrent.name_of(self.recurrent_activation)

    def _recurrent_bias(self) -> Any:
        return tf.zeros([3 * self.units]) if self.cell.bias is None else self.cell.bias[1]


class _Dropping(DropoutRNNCellMixin):
    """The methods of the cell that layers of 2.x have, too."""


@export(v2=["keras.layers.GRU"])
@_delegated
class GRU(_Dropping, GRUV1):
    """Gated recurrent units, as cuDNN has them: the reset gate after the product.

    Inputs are [batch, time, features] and may be masked. The output is [batch, units], or [batch, time, units] with
    `return_sequences`. The state is the output. With the default arguments the layer is one fused op.

    Args:
        units: Size of the output.
        activation: Function of the candidate, by default tanh.
        recurrent_activation: Function of the gates, by default sigmoid.
        use_bias: Whether to add a bias vector.
        kernel_initializer: Initializer of the input weights.
        recurrent_initializer: Initializer of the recurrent weights.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        recurrent_regularizer: Function of the recurrent weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        recurrent_constraint: Function applied to the recurrent weights after each update.
        bias_constraint: Function applied to the bias after each update.
        dropout: Fraction of the inputs that is dropped while training.
        recurrent_dropout: Fraction of the recurrent state that is dropped while training; disables the fused kernel.
        implementation: 1 draws a dropout mask for each gate, 2 one for all of them.
        return_sequences: Whether to return the outputs of all steps instead of the last one.
        return_state: Whether to return the final states after the output.
        go_backwards: Whether to process the sequence from its end, and return it reversed.
        stateful: Whether the final states of a batch are the initial states of the next one; needs a fixed batch size.
        unroll: Whether to unroll the loop; faster for short sequences, and needs a fixed number of steps.
        time_major: Whether inputs and outputs are [time, batch, ...].
        reset_after: Whether the reset gate is applied after the matrix product, as in cuDNN.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.GRU(32, return_sequences=True, return_state=True)
    """

    _cell_class = GRUCell

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.,
                 recurrent_dropout: float = 0., implementation: int = 2, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
                 time_major: bool = False, reset_after: bool = True, **kwargs: Any):
        super().__init__(**passed(locals()))
        self.could_use_cudnn = (activation == "tanh" and recurrent_activation == "sigmoid" and recurrent_dropout == 0
                                and not unroll and use_bias and reset_after and context.eager_outside_functions())


# -- LSTM -----------------------------------------------------------------------------------------------------------------
def lstm_over_time(steps: Any, states: list, kernel: Any, recurrent_kernel: Any, bias: Any) -> tuple:
    """All outputs and carries of an LSTM (tanh, sigmoid) over [time, batch, features], as one op."""
    units, n = K.int_shape(recurrent_kernel)[0], K.int_shape(steps)[0]
    none = tf.zeros([units], steps.dtype)
    length = tf.shape(steps, out_type=tf.int64)[0] if n is None else tf.constant(n, tf.int64)
    result = get("BlockLSTMV2")(length, steps, states[1], states[0], tf.concat([kernel, recurrent_kernel], 0), none, none, none,
                                bias, cell_clip=0.)
    return result.h, result.cs


class Valid:
    """The steps of masked sequences [time, batch, ...] that count.

    `first` moves them to the front, in order. After a recurrent computation over the result, `each` returns every step the
    value after the newest valid step up to it, and `last` the value after the last valid one.
    """

    def __init__(self, mask: Any):
        self.mask = mask if len(mask.shape) == 2 else tf.squeeze(mask, -1)
        valid = tf.cast(self.mask, tf.int32)
        self._steps, self._batch = tf.unstack(tf.shape(valid))
        self._seen = tf.cumsum(valid, axis=0)                          # valid steps up to and including each one
        self._column = tf.range(self._batch)

    def first(self, x: Any) -> Any:
        """The valid steps, followed by the others."""
        behind = (1 - tf.cast(self.mask, tf.int32)) * self._steps
        order = tf.argsort(tf.range(self._steps)[:, None] + behind, axis=0)
        return self._rows(x, order, x)

    def each(self, x: Any, before: Any) -> Any:
        """For every step, the value after the newest valid step; `before` if there was none."""
        return tf.where_v2((self._seen > 0)[..., None], self._rows(x, tf.maximum(self._seen - 1, 0), x), before[None])

    def last(self, x: Any, before: Any) -> Any:
        """The value after the last valid step; `before` if there was none."""
        seen = self._seen[-1]
        return tf.where_v2((seen > 0)[:, None], self._rows(x, tf.maximum(seen - 1, 0), before), before)

    def _rows(self, x: Any, time: Any, like: Any) -> Any:
        """x[time[..., b], b], with the static shape of `like`."""
        flat = tf.reshape(x, [self._steps * self._batch, K.int_shape(x)[-1]])
        rows = tf.gather(flat, time * self._batch + self._column)
        if not context.executing_eagerly():
            rows.set_shape(K.int_shape(like))
        return rows


@export(v1=["keras.layers.LSTM"])
@named("LSTM")
@_delegated
class LSTMV1(_Layer):
    """Long short-term memory."""

    dropout: Any
    recurrent_activation: Any
    units: Any

    _cell_class = LSTMCellV1

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
                 dropout: float = 0., recurrent_dropout: float = 0., implementation: int = 1, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
                 **kwargs: Any):
        super().__init__(passed(locals()))

    def _is_fusible(self, steps: Any, mask: Any) -> bool:
        return (not self.unroll and self.activation is activations.tanh
                and self.recurrent_activation is activations.sigmoid and self.recurrent_dropout == 0
                and steps.dtype.base_dtype == tf.float32 and K.int_shape(steps)[0] != 0)

    def _fused(self, steps: Any, states: list, training: Any, mask: Any, from_zero: bool) -> tuple:
        cell = self.cell
        drops = self.dropout and not self.could_use_cudnn
        masks = cell.get_dropout_mask_for_cell(steps[0], training, count=1) if drops else None
        if masks is not None:
            steps = steps * masks
        if self.go_backwards:
            steps = tf.reverse(steps, [0])
        bias = tf.zeros([4 * self.units], steps.dtype) if cell.bias is None else cell.bias
        if mask is None:
            outputs, carry = lstm_over_time(steps, states, cell.kernel, cell.recurrent_kernel, bias)
            return outputs[-1], outputs, [outputs[-1], carry[-1]]
        valid = Valid(tf.reverse(mask, [0]) if self.go_backwards else mask)
        outputs, carry = lstm_over_time(valid.first(steps), states, cell.kernel, cell.recurrent_kernel, bias)
        none = tf.zeros_like(states[0])
        last, each = valid.last(outputs, none), valid.each(outputs, none)
        if self.zero_output_for_mask:
            last, each = (tf.where_v2(m[..., None], x, tf.zeros_like(x))
                          for m, x in ((valid.mask[-1], last), (valid.mask, each)))
        return last, each, [valid.last(outputs, states[0]), valid.last(carry, states[1])]


@export(v2=["keras.layers.LSTM"])
@_delegated
class LSTM(_Dropping, LSTMV1):
    """Long short-term memory.

    Inputs are [batch, time, features] and may be masked. The output is [batch, units], or [batch, time, units] with
    `return_sequences`. The states are the output and the carry. With the default activations, without recurrent dropout,
    the layer is one fused op.

    Args:
        units: Size of the output and of the carry.
        activation: Function of the candidate and of the carry, by default tanh.
        recurrent_activation: Function of the gates, by default sigmoid.
        use_bias: Whether to add a bias vector.
        kernel_initializer: Initializer of the input weights.
        recurrent_initializer: Initializer of the recurrent weights.
        bias_initializer: Initializer of the bias.
        unit_forget_bias: Whether the bias of the forget gate begins at 1.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        recurrent_regularizer: Function of the recurrent weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        recurrent_constraint: Function applied to the recurrent weights after each update.
        bias_constraint: Function applied to the bias after each update.
        dropout: Fraction of the inputs that is dropped while training.
        recurrent_dropout: Fraction of the recurrent state that is dropped while training; disables the fused kernel.
        implementation: 1 draws a dropout mask for each gate, 2 one for all of them.
        return_sequences: Whether to return the outputs of all steps instead of the last one.
        return_state: Whether to return the final states after the output.
        go_backwards: Whether to process the sequence from its end, and return it reversed.
        stateful: Whether the final states of a batch are the initial states of the next one; needs a fixed batch size.
        time_major: Whether inputs and outputs are [time, batch, ...].
        unroll: Whether to unroll the loop; faster for short sequences, and needs a fixed number of steps.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.LSTM(32, return_sequences=True)
    """

    _cell_class = LSTMCell

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
                 dropout: float = 0., recurrent_dropout: float = 0., implementation: int = 2, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, stateful: bool = False, time_major: bool = False,
                 unroll: bool = False, **kwargs: Any):
        super().__init__(**passed(locals()))
        self._set_state_spec([InputSpec(shape=(None, units)) for _ in range(2)])
        self.could_use_cudnn = (activation == "tanh" and recurrent_activation == "sigmoid" and recurrent_dropout == 0
                                and not unroll and use_bias and context.eager_outside_functions())
