"""ConvLSTM1D, 2D and 3D: long short-term memory whose products are convolutions."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import initializers, regularizers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import (
    data_format_of,
    described,
    dims_of,
    numbers,
    output_length,
    padding_of,
    passed,
    read,
)
from penstock._src.models.keras.layers.recurrent import RNN, of_cell
from penstock._src.models.keras.layers.rnn_cells import DropoutRNNCellMixin, with_activity
from penstock.compat import v1 as tf


class ConvLSTMCell(DropoutRNNCellMixin, Layer):
    """One step: [batch, *space, channels] and two states of the size of the output."""

    activation: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    recurrent_activation: Any
    recurrent_constraint: Any
    recurrent_initializer: Any
    recurrent_regularizer: Any
    unit_forget_bias: Any
    use_bias: Any

    _words = ("filters", "kernel_size", "strides", "padding", "data_format", "dilation_rate", "activation",
              "recurrent_activation", "use_bias", "kernel_initializer", "recurrent_initializer", "bias_initializer",
              "unit_forget_bias", "kernel_regularizer", "recurrent_regularizer", "bias_regularizer", "kernel_constraint",
              "recurrent_constraint", "bias_constraint", "dropout", "recurrent_dropout")

    def __init__(self, rank: int, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: Any = None, dilation_rate: Any = 1, activation: Any = "tanh",
                 recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.,
                 recurrent_dropout: float = 0., **kwargs: Any):
        super().__init__(**kwargs)
        self.rank, self.filters = rank, filters
        self.kernel_size = numbers(kernel_size, rank, "kernel_size")
        self.strides = numbers(strides, rank, "strides")
        self.padding = padding_of(padding)
        self.data_format = data_format_of(data_format)
        self.dilation_rate = numbers(dilation_rate, rank, "dilation_rate")
        read(self, activation=activation, recurrent_activation=recurrent_activation, use_bias=use_bias,
             kernel_initializer=kernel_initializer, recurrent_initializer=recurrent_initializer,
             bias_initializer=bias_initializer, unit_forget_bias=unit_forget_bias, kernel_regularizer=kernel_regularizer,
             recurrent_regularizer=recurrent_regularizer, bias_regularizer=bias_regularizer,
             kernel_constraint=kernel_constraint, recurrent_constraint=recurrent_constraint, bias_constraint=bias_constraint)
        self.dropout, self.recurrent_dropout = min(1., max(0., dropout)), min(1., max(0., recurrent_dropout))
        self._set_sizes()

    @no_automatic_dependency_tracking
    def _set_sizes(self) -> None:
        self.state_size = (self.filters, self.filters)

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and the bias."""
        channels = dims_of(input_shape)[1 if self.data_format == "channels_first" else -1]
        if channels is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        self.kernel_shape = (*self.kernel_size, channels, self.filters * 4)
        self.kernel = self.add_weight(shape=self.kernel_shape, initializer=self.kernel_initializer, name="kernel",
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        self.recurrent_kernel = self.add_weight(
            shape=(*self.kernel_size, self.filters, self.filters * 4), initializer=self.recurrent_initializer,
            name="recurrent_kernel", regularizer=self.recurrent_regularizer, constraint=self.recurrent_constraint)
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(shape=(self.filters * 4,), name="bias", initializer=self._bias_initializer(),
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint)
        super().build(input_shape)

    def _bias_initializer(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def initializer(_: Any, *args: Any, **kwargs: Any) -> Any:
            return tf.concat([self.bias_initializer((self.filters,), *args, **kwargs),
                              initializers.get("ones")((self.filters,), *args, **kwargs),
                              self.bias_initializer((self.filters * 2,), *args, **kwargs)], 0)
        return initializer

    def input_conv(self, x: Any, w: Any, b: Any = None, padding: str = "valid") -> Any:
        """The convolution of the inputs."""
        y = self._convolved(x, w, strides=self.strides, padding=padding, dilation_rate=self.dilation_rate)
        return y if b is None else K.bias_add(y, b, data_format=self.data_format)

    def recurrent_conv(self, x: Any, w: Any) -> Any:
        """The convolution of the state."""
        return self._convolved(x, w, strides=(1,) * self.rank, padding="same")

    def _convolved(self, x: Any, w: Any, **options: Any) -> Any:
        if self.rank == 1:
            options = {n: v[0] if isinstance(v, tuple) else v for n, v in options.items()}
        return (K.conv1d, K.conv2d, K.conv3d)[self.rank - 1](x, w, data_format=self.data_format, **options)

    def call(self, inputs: Any, states: Any, training: Any = None) -> tuple:
        """The output and the new states."""
        h, c = states
        masks = self.get_dropout_mask_for_cell(inputs, training, count=4)
        recurrent_masks = self.get_recurrent_dropout_mask_for_cell(h, training, count=4)
        axis = 1 if self.data_format == "channels_first" else self.rank + 1
        if masks is None:
            x = tf.split(self.input_conv(inputs, self.kernel, self.bias, padding=self.padding), 4, axis=axis)
        else:
            biases = [None] * 4 if self.bias is None else tf.split(self.bias, 4, axis=0)
            x = [self.input_conv(inputs * m, k, b, padding=self.padding)
                 for m, k, b in zip(masks, tf.split(self.kernel, 4, axis=-1), biases)]
        if recurrent_masks is None:
            r = tf.split(self.recurrent_conv(h, self.recurrent_kernel), 4, axis=axis)
        else:
            r = [self.recurrent_conv(h * m, k) for m, k in zip(recurrent_masks, tf.split(self.recurrent_kernel, 4, axis=-1))]
        i, f = self.recurrent_activation(x[0] + r[0]), self.recurrent_activation(x[1] + r[1])
        c = f * c + i * self.activation(x[2] + r[2])
        h = self.recurrent_activation(x[3] + r[3]) * self.activation(c)
        return h, [h, c]

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the cell."""
        return described(self, super().get_config(), self._words)


class ConvRNN(RNN):
    """A convolutional cell over the time axis of [batch, time, *space, channels]."""

    def __init__(self, cell: Any, return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False,
                 stateful: bool = False, unroll: bool = False, **kwargs: Any):
        if unroll:
            raise TypeError("Convolutional recurrent layers cannot be unrolled.")
        if isinstance(cell, (list, tuple)):
            raise TypeError("It is not possible at the moment to stack convolutional cells.")
        super().__init__(cell, return_sequences, return_state, go_backwards, stateful, unroll, **kwargs)
        self.input_spec = [InputSpec(ndim=cell.rank + 3)]

    def _state_dims(self, input_shape: Any) -> list:
        """The shape of a state for inputs of a shape."""
        cell, dims = self.cell, dims_of(input_shape)
        first = cell.data_format == "channels_first"
        space = dims[3:] if first else dims[2:-1]
        space = [output_length(d, k, cell.padding, s, r) for d, k, s, r in
                 zip(space, cell.kernel_size, cell.strides, cell.dilation_rate)]
        return [dims[0], cell.filters, *space] if first else [dims[0], *space, cell.filters]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output, and of the states if they are returned."""
        if isinstance(input_shape, list) and not all(d is None or isinstance(d, int) for d in input_shape):
            input_shape = input_shape[0]
        state = self._state_dims(input_shape)
        steps = dims_of(input_shape)[1]
        output = tf.TensorShape([state[0], steps, *state[1:]] if self.return_sequences else state)
        return [output, tf.TensorShape(state), tf.TensorShape(state)] if self.return_state else output

    def build(self, input_shape: Any) -> None:
        """Builds the cell for one time step."""
        if isinstance(input_shape, list) and not all(d is None or isinstance(d, int) for d in input_shape):
            input_shape = input_shape[0]
        dims = dims_of(input_shape)
        self.input_spec[0] = InputSpec(shape=(dims[0] if self.stateful else None, None, *dims[2:]))
        if isinstance(self.cell, Layer) and not self.cell.built:
            self.cell.build((dims[0], *dims[2:]))
            self.cell.built = True
        sizes = self._sizes()
        axis = 1 if self.cell.data_format == "channels_first" else self.cell.rank + 1
        if self.state_spec is not None:
            if [spec.shape[axis] for spec in self.state_spec] != sizes:
                raise ValueError("An initial_state was passed that is not compatible with `cell.state_size`. Received "
                                 f"`state_spec`={[spec.shape for spec in self.state_spec]}; However `cell.state_size` is "
                                 f"{self.cell.state_size}")
        else:
            axes = range(self.cell.rank + 2)
            self._set_state_spec([InputSpec(shape=tuple(n if i == axis else None for i in axes)) for n in sizes])
        if self.stateful:
            self.reset_states()
        Layer.build(self, input_shape)

    def get_initial_state(self, inputs: Any) -> list:
        """Zero states."""
        sizes = K.mixed_shape(inputs)
        known = self._state_dims([d if isinstance(d, int) else None for d in sizes])
        if None not in known[1:]:
            zeros = tf.zeros([sizes[0], *known[1:]], inputs.dtype)
        else:                                               # their sizes are those of what the kernel makes of a step
            kernel = tf.zeros([*self.cell.kernel_shape[:-1], self.cell.filters], inputs.dtype)
            zeros = self.cell.input_conv(tf.zeros_like(inputs[:, 0]), kernel, padding=self.cell.padding)
        return [zeros for _ in self._sizes()]

    def reset_states(self, states: Any = None) -> None:
        """Sets the states that last from batch to batch, to zeros if none are given."""
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        dims = self._state_dims(self.input_spec[0].shape)
        if None in dims:
            raise ValueError("If a RNN is stateful, it needs to know its batch size. Specify the batch size of your input "
                             "tensors: \n- If using a Sequential model, specify the batch size by passing a "
                             "`batch_input_shape` argument to your first layer.\n- If using the functional API, specify the "
                             "time dimension by passing a `batch_shape` argument to your Input layer.\nThe same thing goes for "
                             "the number of rows and columns.")
        if self.states[0] is None:
            self.states = [K.zeros(dims) for _ in self._sizes()]
            if states is None:
                return
        states = [np.zeros(dims)] * len(self.states) if states is None else states
        states = list(states) if isinstance(states, (list, tuple)) else [states]
        if len(states) != len(self.states):
            raise ValueError(f"Layer {self.name} expects {len(self.states)} states, but it received {len(states)} state "
                             f"values. Input received: {states}")
        for i, value in enumerate(states):
            if tuple(value.shape) != tuple(dims):
                raise ValueError(f"State {i} is incompatible with layer {self.name}: expected shape={tuple(dims)}, found shape="
                                 f"{value.shape}")
        K.batch_set_value(list(zip(self.states, states)))


class _ConvLSTM(ConvRNN):
    """What they share; `_rank` is the number of axes of space."""

    _rank = 2

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: Any = None,
                 dilation_rate: Any = (1, 1), activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
                 return_sequences: bool = False, go_backwards: bool = False, stateful: bool = False, dropout: float = 0.,
                 recurrent_dropout: float = 0., **kwargs: Any):
        arguments = passed(locals())
        for name in ("strides", "dilation_rate"):               # whose default is written as for two axes
            arguments[name] = 1 if arguments[name] == (1, 1) else arguments[name]
        words = {n: arguments.pop(n) for n in ("return_sequences", "return_state", "go_backwards", "stateful")
                 if n in arguments}
        own = {n: arguments.pop(n) for n in list(arguments) if n not in ConvLSTMCell._words}
        activity = own.pop("activity_regularizer", None)
        super().__init__(ConvLSTMCell(self._rank, dtype=own.get("dtype"), **arguments), **words, **own)
        self.activity_regularizer = regularizers.get(activity)

    def call(self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None) -> Any:  # type: ignore[override]
        """The outputs of the last step or of all, and the last states if requested."""
        return super().call(inputs, mask=mask, training=training, initial_state=initial_state)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), with_activity(ConvLSTMCell._words))
        del config["cell"]
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer of a configuration."""
        return cls(**config)


for _name in ConvLSTMCell._words:
    setattr(_ConvLSTM, _name, of_cell(_name))


@export("keras.layers.ConvLSTM1D")
class ConvLSTM1D(_ConvLSTM):
    """Long short-term memory whose products are convolutions, over [batch, time, steps, channels].

    >>> tf.keras.layers.ConvLSTM1D(16, 3, padding="same", return_sequences=True)
    """

    _rank = 1


@export("keras.layers.ConvLSTM2D")
class ConvLSTM2D(_ConvLSTM):
    """Long short-term memory whose products are convolutions, over [batch, time, rows, columns, channels].

    >>> tf.keras.layers.ConvLSTM2D(16, 3, padding="same", return_sequences=True)
    """

    _rank = 2


@export("keras.layers.ConvLSTM3D")
class ConvLSTM3D(_ConvLSTM):
    """Long short-term memory whose products are convolutions, over [batch, time, depth, rows, columns, channels].

    >>> tf.keras.layers.ConvLSTM3D(16, 3, padding="same", return_sequences=True)
    """

    _rank = 3
