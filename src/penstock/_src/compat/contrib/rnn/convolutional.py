"""LSTM cells whose products are convolutions, over one to three dimensions."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn.cell import RNNCell
from penstock._src.models.rnn.cells import LSTMStateTuple
from penstock.compat import v1 as tf


@export(v1=["contrib.rnn.ConvLSTMCell"])
class ConvLSTMCell(RNNCell):
    """A convolutional LSTM (https://arxiv.org/abs/1506.04214).

    >>> tf.contrib.rnn.ConvLSTMCell(2, input_shape=[8, 8, 3], output_channels=4, kernel_shape=[3, 3])
    """

    def __init__(self, conv_ndims: int, input_shape: Any, output_channels: int, kernel_shape: Any, use_bias: bool = True,
                 skip_connection: bool = False, forget_bias: float = 1.0, initializers: Any = None,
                 name: str = "conv_lstm_cell"):
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._kernel_shape, self._use_bias, self._forget_bias = list(kernel_shape), use_bias, forget_bias
        self._output_channels, self._skip_connection = output_channels, skip_connection
        spatial = list(input_shape[:-1])
        state = TensorShape([*spatial, output_channels])
        self._state_size = LSTMStateTuple(state, state)
        self._output_size = TensorShape([*spatial, output_channels + (input_shape[-1] if skip_connection else 0)])

    state_size = property(lambda self: self._state_size)
    output_size = property(lambda self: self._output_size)

    def call(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """One step."""
        c, h = state
        gates = self._convolved(tf.concat([inputs, h], axis=-1))
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=-1)
        new_c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        output = tf.tanh(new_c) * tf.sigmoid(o)
        if self._skip_connection:
            output = tf.concat([output, inputs], axis=-1)
        return output, LSTMStateTuple(new_c, output)

    def _convolved(self, x: Tensor) -> Tensor:
        features = 4 * self._output_channels
        kernel = tf.get_variable("kernel", [*self._kernel_shape, x.shape.as_list()[-1], features], dtype=x.dtype)
        product = tf.nn.convolution(x, kernel, padding="SAME")
        if not self._use_bias:
            return product
        return product + tf.get_variable("biases", [features], dtype=x.dtype,
                                         initializer=tf.constant_initializer(0.0, dtype=x.dtype))


def _of_dims(dims: int) -> type:
    def __init__(self: Any, name: str = f"conv_{dims}d_lstm_cell", **kwargs: Any) -> None:
        ConvLSTMCell.__init__(self, conv_ndims=dims, name=name, **kwargs)

    doc = f"A convolutional LSTM over {dims} dimension{'s' if dims > 1 else ''}."
    return export(v1=[f"contrib.rnn.Conv{dims}DLSTMCell"])(
        type(f"Conv{dims}DLSTMCell", (ConvLSTMCell,), {"__init__": __init__, "__doc__": doc, "__module__": __name__}))


Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = (_of_dims(dims) for dims in (1, 2, 3))
