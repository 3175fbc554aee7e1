"""CuDNNLSTM and CuDNNGRU: the layers of 1.x for cuDNN's kernels; here they run on every device.

Their weights are laid out as cuDNN's: two biases for each gate, of the inputs and of the states.
"""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import initializers, regularizers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import described, dims_of, read
from penstock._src.models.keras.layers.recurrent import RNN
from penstock._src.models.keras.layers.rnn_layers import lstm_over_time
from penstock.compat import v1 as tf

_Sizes = collections.namedtuple("_Sizes", "state_size")
_WORDS = ("units", "kernel_initializer", "recurrent_initializer", "bias_initializer", "kernel_regularizer",
          "recurrent_regularizer", "bias_regularizer", "activity_regularizer", "kernel_constraint", "recurrent_constraint",
          "bias_constraint")


class _CuDNNRNN(RNN):
    """The base of both layers: there is no cell, and no mask."""

    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any

    gates = 0

    def __init__(self, units: int, return_sequences: bool, return_state: bool, go_backwards: bool, stateful: bool,
                 arguments: dict[str, Any], kwargs: dict[str, Any]):
        time_major = kwargs.pop("time_major", False)
        Layer.__init__(self, **kwargs)
        self.units = units
        self._cell = _Sizes(units if self.gates == 3 else (units, units))
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful, self.time_major = go_backwards, stateful, time_major
        self.supports_masking = False
        self.input_spec = [InputSpec(ndim=3)]
        self._prepare()
        self.activity_regularizer = regularizers.get(arguments.pop("activity_regularizer"))
        read(self, **arguments)

    @no_automatic_dependency_tracking
    def _prepare(self) -> None:
        self.state_spec = [InputSpec(shape=(None, n)) for n in self._sizes()]
        self.constants_spec, self._states, self._num_constants = None, None, 0

    @property
    def cell(self) -> Any:
        """The sizes of the states."""
        return self._cell

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and the biases."""
        super().build(input_shape)
        shape = input_shape[0] if isinstance(input_shape, list) and not isinstance(input_shape[0], int) else input_shape
        width = self.gates * self.units
        self.kernel = self._weight("kernel", (dims_of(shape)[-1], width), "kernel")
        self.recurrent_kernel = self._weight("recurrent_kernel", (self.units, width), "recurrent")
        self.bias = self.add_weight(shape=(2 * width,), name="bias", initializer=self._bias_initializer(),
                                    regularizer=self.bias_regularizer, constraint=self.bias_constraint)

    def _weight(self, name: str, shape: tuple, kind: str) -> Any:
        return self.add_weight(shape=shape, name=name, initializer=getattr(self, f"{kind}_initializer"),
                               regularizer=getattr(self, f"{kind}_regularizer"), constraint=getattr(self, f"{kind}_constraint"))

    def _bias_initializer(self) -> Any:
        return self.bias_initializer

    def call(self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None) -> Any:  # type: ignore[override]
        """The outputs of the last step or of all, and the last states if requested."""
        mask = mask[0] if isinstance(mask, list) else mask
        if mask is not None:
            raise ValueError("Masking is not supported for CuDNN RNNs.")
        inputs, states, _ = self._process_inputs(inputs, initial_state, None)
        steps = inputs if self.time_major else tf.transpose(inputs, [1, 0, 2])
        if self.go_backwards:
            steps = tf.reverse(steps, [0])
        outputs, new = self._over_time(steps, states)
        return self._finished(outputs[-1], outputs if self.time_major else tf.transpose(outputs, [1, 0, 2]), new)

    def _over_time(self, steps: Any, states: list) -> tuple:
        raise NotImplementedError

    def get_losses_for(self, inputs: Any = None) -> list:
        """The losses that depend on some inputs."""
        return Layer.get_losses_for(self, inputs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, Layer.get_config(self), (
            "return_sequences", "return_state", "go_backwards", "stateful", "time_major", *_WORDS))

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer of a configuration."""
        return cls(**config)


_SPLIT = ("units", "return_sequences", "return_state", "go_backwards", "stateful")


def _split(names: dict[str, Any]) -> tuple:
    arguments = {k: v for k, v in names.items() if k not in ("self", "kwargs", "__class__", *_SPLIT)}
    return *(names[n] for n in _SPLIT), arguments, names["kwargs"]


@export(v1=["keras.layers.CuDNNGRU"])
class CuDNNGRU(_CuDNNRNN):
    """Gated recurrent units with cuDNN's weights: the reset gate after the product, and two biases."""

    gates = 3

    def __init__(self, units: int, kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, stateful: bool = False, **kwargs: Any):
        super().__init__(*_split(locals()))

    def _over_time(self, steps: Any, states: list) -> tuple:
        width = 3 * self.units
        projected = tf.nn.bias_add(tf.tensordot(steps, self.kernel, [[2], [0]]), self.bias[:width])

        def step(x: Any, s: Any) -> tuple:
            inner = tf.nn.bias_add(tf.matmul(s[0], self.recurrent_kernel), self.bias[width:])
            x_z, x_r, x_h = tf.split(x, 3, axis=1)
            h_z, h_r, h_h = tf.split(inner, 3, axis=1)
            z = tf.sigmoid(x_z + h_z)
            new = z * s[0] + (1 - z) * tf.tanh(x_h + tf.sigmoid(x_r + h_r) * h_h)
            return new, [new]
        _, outputs, new = K.rnn(step, projected, states, time_major=True)
        return outputs, list(new)


@export(v1=["keras.layers.CuDNNLSTM"])
class CuDNNLSTM(_CuDNNRNN):
    """Long short-term memory with cuDNN's weights: two biases."""

    bias_initializer: Any
    unit_forget_bias: Any

    gates = 4

    def __init__(self, units: int, kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
                 return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False,
                 stateful: bool = False, **kwargs: Any):
        super().__init__(*_split(locals()))

    def _bias_initializer(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def initializer(_: Any, *args: Any, **kwargs: Any) -> Any:
            return tf.concat([self.bias_initializer((self.units * 5,), *args, **kwargs),
                              initializers.get("ones")((self.units,), *args, **kwargs),
                              self.bias_initializer((self.units * 2,), *args, **kwargs)], 0)
        return initializer

    def _over_time(self, steps: Any, states: list) -> tuple:
        bias = self.bias[:4 * self.units] + self.bias[4 * self.units:]
        outputs, carry = lstm_over_time(steps, states, self.kernel, self.recurrent_kernel, bias)
        return outputs, [outputs[-1], carry[-1]]

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "unit_forget_bias": self.unit_forget_bias}
