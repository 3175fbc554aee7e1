"""Cells that are one op each (LSTMBlockCell, GRUBlockCell), and whole sequences as one op (LSTMBlockFusedCell)."""
from __future__ import annotations

import abc
from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import as_shape
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.layers.base import Layer
from penstock._src.models.rnn.cell import LayerRNNCell, input_depth
from penstock._src.models.rnn.cells import LSTMStateTuple
from penstock._src.ops.registry import get
from penstock.compat import v1 as tf


def _lstm_variables(layer: Any, depth: int, use_peephole: bool) -> None:
    n = layer._num_units
    layer._kernel = layer.add_weight("kernel", [depth + n, 4 * n])
    layer._bias = layer.add_weight("bias", [4 * n], initializer=tf.constant_initializer(0.0))
    if use_peephole:
        layer._w_i_diag, layer._w_f_diag, layer._w_o_diag = (layer.add_weight(f"w_{g}_diag", [n]) for g in "ifo")
    layer.built = True


def _lstm_inputs(layer: Any, dtype: Any) -> dict[str, Any]:
    if layer._use_peephole:
        diagonal = {"wci": layer._w_i_diag, "wcf": layer._w_f_diag, "wco": layer._w_o_diag}
    else:
        diagonal = dict.fromkeys(("wci", "wcf", "wco"), tf.zeros([layer._num_units], dtype))
    return {"w": layer._kernel, "b": layer._bias, **diagonal, "forget_bias": layer._forget_bias,
            "cell_clip": layer._cell_clip, "use_peephole": layer._use_peephole}


@export(v1=["contrib.rnn.LSTMBlockCell"])
class LSTMBlockCell(LayerRNNCell):
    """An LSTM step as one op, with the variables of LSTMCell.

    Args:
        num_units: Number of units of the cell.
        forget_bias: Added to the bias of the forget gate.
        cell_clip: Limit of the cell's values; none by default.
        use_peephole: Whether gates see the cell's state.
        dtype: Type of the values.
        reuse: Whether to use existing variables of the scope.
        name: Name of the operation.

    >>> with tf.Graph().as_default():
    ...     cell = tf.contrib.rnn.LSTMBlockCell(8)
    ...     outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape
    TensorShape([2, 5, 8])
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False,
                 dtype: Any = None, reuse: Any = None, name: str = "lstm_cell"):
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units, self._forget_bias, self._use_peephole = num_units, forget_bias, use_peephole
        self._cell_clip = -1 if cell_clip is None else cell_clip
        self.input_spec = InputSpec(ndim=2)

    state_size = property(lambda self: LSTMStateTuple(self._num_units, self._num_units))
    output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables."""
        _lstm_variables(self, input_depth(inputs_shape), self._use_peephole)

    def call(self, inputs: Any, state: Any) -> Any:
        """One step."""
        if len(state) != 2:
            raise ValueError("Expecting state to be a tuple with length 2.")
        results = get("LSTMBlockCell")(x=inputs, cs_prev=state[0], h_prev=state[1], **_lstm_inputs(self, inputs.dtype))
        return results[6], LSTMStateTuple(results[1], results[6])


@export(v1=["contrib.rnn.GRUBlockCellV2"])
class GRUBlockCellV2(LayerRNNCell):
    """A GRU step as one op, with the variables of GRUCell."""

    def __init__(self, num_units: int | None = None, cell_size: int | None = None, reuse: Any = None, name: str = "gru_cell"):
        super().__init__(_reuse=reuse, name=name)
        if (num_units is None) == (cell_size is None):
            raise ValueError("Only one of num_units or cell_size can be provided.")
        self._cell_size = cell_size if num_units is None else num_units
        self.input_spec = InputSpec(ndim=2)

    _names = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")
    state_size = property(lambda self: self._cell_size)
    output_size = property(lambda self: self._cell_size)

    def build(self, input_shape: Any) -> None:
        """Makes the variables."""
        depth, n = input_depth(input_shape), self._cell_size
        w_ru, b_ru, w_c, b_c = self._names
        self._gate_kernel = self.add_weight(w_ru, [depth + n, 2 * n])
        self._gate_bias = self.add_weight(b_ru, [2 * n], initializer=tf.constant_initializer(1.0))
        self._candidate_kernel = self.add_weight(w_c, [depth + n, n])
        self._candidate_bias = self.add_weight(b_c, [n], initializer=tf.constant_initializer(0.0))
        self.built = True

    def call(self, inputs: Any, h_prev: Any) -> Any:
        """One step."""
        *_, h = get("GRUBlockCell")(x=inputs, h_prev=h_prev, w_ru=self._gate_kernel, w_c=self._candidate_kernel,
                                    b_ru=self._gate_bias, b_c=self._candidate_bias)
        return h, h


@export(v1=["contrib.rnn.GRUBlockCell"])
class GRUBlockCell(GRUBlockCellV2):
    """The same, with older names of variables."""

    _names = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(self, num_units: int | None = None, cell_size: int | None = None, reuse: Any = None,
                 name: str = "gru_cell"):
        super().__init__(num_units, cell_size, reuse, name)


@export(v1=["contrib.rnn.LSTMBlockWrapper"])
class LSTMBlockWrapper(Layer, metaclass=abc.ABCMeta):
    """A layer that runs an LSTM over whole sequences, [time, batch, ...] or a list of steps."""

    @property
    @abc.abstractmethod
    def num_units(self) -> int:
        """The size of the state."""

    @abc.abstractmethod
    def _call_cell(self, inputs: Tensor, initial_cell_state: Tensor, initial_output: Tensor, dtype: Any,
                   sequence_length: Any) -> tuple[Tensor, Tensor]:
        """All memories and outputs."""

    def call(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None) -> Any:
        """All outputs and the last state."""
        is_list = isinstance(inputs, list)
        inputs = tf.stack(inputs) if is_list else inputs
        shape = inputs.shape.with_rank(3)
        batch, time = (shape.dims[k].value if shape.dims[k].value is not None else tf.shape(inputs)[k] for k in (1, 0))
        if initial_state is None:
            if dtype is None:
                raise ValueError("Either initial_state or dtype needs to be specified")
            zeros = tf.zeros(tf.stack([batch, self.num_units]), dtype)
            initial_state = (zeros, zeros)
        elif len(initial_state) != 2:
            raise ValueError("Expecting initial_state to be a tuple with length 2 or None")
        dtype = dtype or initial_state[0].dtype
        if sequence_length is not None:
            sequence_length = tf.convert_to_tensor(sequence_length)
        memories, outputs = self._call_cell(inputs, *initial_state, dtype, sequence_length)
        if sequence_length is None:
            last = LSTMStateTuple(memories[-1], outputs[-1])
        else:
            mask = tf.transpose(tf.sequence_mask(sequence_length, time, dtype=dtype), [1, 0])
            outputs = outputs * mask[:, :, tf.newaxis]
            where = tf.stack([sequence_length, tf.range(batch, dtype=sequence_length.dtype)], axis=1)
            last = LSTMStateTuple(*(tf.gather_nd(tf.concat([tf.expand_dims(first, 0), all_], 0), where)
                                    for first, all_ in zip(initial_state, (memories, outputs), strict=True)))
        return tf.unstack(outputs) if is_list else outputs, last


@export(v1=["contrib.rnn.LSTMBlockFusedCell"])
class LSTMBlockFusedCell(LSTMBlockWrapper):
    """An LSTM over a whole sequence as one op.

    >>> outputs, state = tf.contrib.rnn.LSTMBlockFusedCell(8)(tf.ones([5, 2, 3]), dtype=tf.float32)
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False,
                 reuse: Any = None, dtype: Any = None, name: str = "lstm_fused_cell"):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units, self._forget_bias, self._use_peephole = num_units, forget_bias, use_peephole
        self._cell_clip = -1 if cell_clip is None else cell_clip

    num_units = property(lambda self: self._num_units)

    def build(self, input_shape: Any) -> None:
        """Makes the variables."""
        first = input_shape[0] if isinstance(input_shape, (list, tuple)) and input_shape and not isinstance(
            input_shape[0], (int, type(None))) else input_shape
        _lstm_variables(self, as_shape(first).as_list()[-1], self._use_peephole)

    def _call_cell(self, inputs: Tensor, initial_cell_state: Tensor, initial_output: Tensor, dtype: Any,
                   sequence_length: Any) -> tuple[Tensor, Tensor]:
        steps = tf.shape(inputs)[0] if sequence_length is None else tf.reduce_max(sequence_length)
        results = get("BlockLSTM")(seq_len_max=tf.cast(steps, tf.int64), x=inputs, cs_prev=initial_cell_state,
                                   h_prev=initial_output, **_lstm_inputs(self, dtype))
        return results[1], results[6]
