"""tf.nn.RNNCellDropoutWrapper, RNNCellResidualWrapper and RNNCellDeviceWrapper: wrappers around Keras cells, as cells for RNN.

What they do is shared with the wrappers of TensorFlow 1 (`wrappers.py`); here the wrapped cell is built with the wrapper.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.layers.recurrent import AbstractRNNCell
from penstock._src.models.keras.layers.rnn_cells import LSTMCell
from penstock._src.models.keras.layers.serialization import deserialize
from penstock._src.models.rnn.cell import assert_like_rnncell
from penstock._src.models.rnn.wrappers import Dropping, OnDevice, Residual
from penstock.compat import v1 as tf


class _Wrapper(AbstractRNNCell):
    """A Keras cell around another one."""

    _around: Any

    def __init__(self, cell: Any, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert_like_rnncell("cell", cell)
        self.cell = cell

    wrapped_cell = property(lambda self: self.cell)
    state_size = property(lambda self: self.cell.state_size)
    output_size = property(lambda self: self.cell.output_size)

    def build(self, inputs_shape: Any) -> None:
        """Builds the cell."""
        if not self.cell.built:
            with tf.name_scope(self.cell.name):
                self.cell.build(inputs_shape)
            self.cell.built = True
        self.built = True

    def call(self, inputs: Any, state: Any, **kwargs: Any) -> Any:            # type: ignore[override]
        """The output and the new state."""
        return self._around(inputs, state, self.cell.call, **kwargs)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The initial state."""
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if hasattr(self.cell, "zero_state"):
                return self.cell.zero_state(batch_size, dtype)
            return self.cell.get_initial_state(None, batch_size, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the wrapper again."""
        return {**super().get_config(), "cell": {"class_name": type(self.cell).__name__, "config": self.cell.get_config()}}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """A wrapper, and its cell, from a configuration."""
        config = dict(config)
        return cls(deserialize(config.pop("cell"), custom_objects=custom_objects), **config)


@export(v2=["nn.RNNCellDropoutWrapper"])
class RNNCellDropoutWrapper(Dropping, _Wrapper):
    """Drops inputs, outputs and states of a cell.

    >>> tf.keras.layers.RNN(tf.nn.RNNCellDropoutWrapper(tf.keras.layers.GRUCell(4), output_keep_prob=0.5))
    """

    def __init__(self, cell: Any, *args: Any, **kwargs: Any):
        if isinstance(cell, LSTMCell):
            raise ValueError("keras LSTM cell does not work with DropoutWrapper. Please use LSTMCell(dropout=x, "
                             "recurrent_dropout=y) instead.")
        super().__init__(cell, *args, **kwargs)


@export(v2=["nn.RNNCellResidualWrapper"])
class RNNCellResidualWrapper(Residual, _Wrapper):
    """Adds the inputs of a cell to its outputs.

    >>> tf.keras.layers.RNN(tf.nn.RNNCellResidualWrapper(tf.keras.layers.LSTMCell(4)))
    """


@export(v2=["nn.RNNCellDeviceWrapper"])
class RNNCellDeviceWrapper(OnDevice, _Wrapper):
    """Runs a cell on a device.

    >>> tf.keras.layers.RNN(tf.nn.RNNCellDeviceWrapper(tf.keras.layers.GRUCell(4), "/cpu:0"))
    """
