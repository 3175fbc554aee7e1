"""Decoders, and the loop that runs one until all sequences have ended."""
from __future__ import annotations

import abc
import collections
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn import steps
from penstock._src.models.rnn.cell import assert_like_rnncell, zeros_of
from penstock.compat import v1 as tf


@export(v1=["contrib.seq2seq.Decoder"])
class Decoder(metaclass=abc.ABCMeta):
    """Base class of decoders for `dynamic_decode`: `initialize` returns the first inputs; `step` outputs, states and the next
    inputs."""

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The sizes of outputs, in their structure."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """The types of outputs, in their structure."""
        raise NotImplementedError

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs, first state)."""

    @abc.abstractmethod
    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """(outputs, next state, next inputs, finished)."""

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Postprocesses all outputs at the end."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether a sequence that has ended may continue in another place, as beams do."""
        return False


class BasicDecoderOutput(collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))):
    """The output of the cell (and of the output layer), and the number that was chosen."""


export.value(BasicDecoderOutput, v1=["contrib.seq2seq.BasicDecoderOutput"])


def layer_output_size(cell: Any, output_layer: Any) -> Any:
    """The size of outputs after a layer."""
    if output_layer is None:
        return cell.output_size
    shape = nest.map_structure(lambda s: TensorShape([None]).concatenate(s), cell.output_size)
    return nest.map_structure(lambda s: TensorShape(s)[1:], output_layer.compute_output_shape(shape))


@export(v1=["contrib.seq2seq.BasicDecoder"])
class BasicDecoder(Decoder):
    """A cell, a helper that chooses the next inputs, and perhaps an output layer.

    >>> decoder = tf.contrib.seq2seq.BasicDecoder(cell, helper, initial_state, tf.layers.Dense(vocabulary))
    """

    def __init__(self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None):
        assert_like_rnncell("cell", cell)
        if output_layer is not None and not callable(output_layer):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        self._cell, self._helper, self._initial_state, self._output_layer = cell, helper, initial_state, output_layer

    batch_size = property(lambda self: self._helper.batch_size)

    @property
    def output_size(self) -> BasicDecoderOutput:
        """The sizes of outputs."""
        return BasicDecoderOutput(layer_output_size(self._cell, self._output_layer), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        """The types of outputs."""
        dtype = nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(nest.map_structure(lambda _: dtype, layer_output_size(self._cell, self._output_layer)),
                                  self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs, first state)."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """One step."""
        with tf.name_scope(name, "BasicDecoderStep", (time, *nest.flatten(inputs))):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            ids = self._helper.sample(time=time, outputs=outputs, state=state)
            finished, following, state = self._helper.next_inputs(time=time, outputs=outputs, state=state, sample_ids=ids)
        return BasicDecoderOutput(outputs, ids), state, following, finished


@export(v1=["contrib.seq2seq.dynamic_decode"])
def dynamic_decode(decoder: Any, output_time_major: bool = False, impute_finished: bool = False,
                   maximum_iterations: Any = None, parallel_iterations: int = 32, swap_memory: bool = False,
                   scope: Any = None) -> tuple[Any, Any, Any]:
    """Runs a decoder until all sequences have ended: returns outputs, the last state, and the lengths.

    >>> outputs, state, lengths = tf.contrib.seq2seq.dynamic_decode(decoder, maximum_iterations=20)
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"decoder must be a Decoder, got {type(decoder)}")
    with tf.variable_scope(scope, "decoder") as varscope:
        steps.cache_variables(varscope)
        if maximum_iterations is not None:
            maximum_iterations = tf.convert_to_tensor(maximum_iterations, tf.int32, name="maximum_iterations")
            if maximum_iterations.shape.ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        zeros = nest.map_structure(lambda size, dtype: zeros_of(decoder.batch_size, size, dtype), decoder.output_size,
                                   decoder.output_dtype)
        if maximum_iterations is not None:
            finished = tf.logical_or(finished, 0 >= maximum_iterations)
        lengths = tf.zeros_like(finished, dtype=tf.int32)
        batch = tf.get_static_value(decoder.batch_size) if tf.is_tensor(decoder.batch_size) else decoder.batch_size
        static = None if batch is None else int(batch)

        def array(size: Any, dtype: Any) -> Any:
            return tf.TensorArray(dtype, size=0, dynamic_size=True, element_shape=steps.element_shape(static, size))

        arrays = nest.map_structure(array, decoder.output_size, decoder.output_dtype)

        def body(time: Tensor, arrays: Any, state: Any, inputs: Any, finished: Tensor, lengths: Tensor) -> tuple:
            outputs, new_state, following, now_finished = decoder.step(time, inputs, state)
            ended = now_finished if decoder.tracks_own_finished else tf.logical_or(now_finished, finished)
            lengths = tf.where(tf.logical_not(finished), tf.fill(tf.shape(lengths), time + 1), lengths)
            nest.assert_same_structure(state, new_state)
            nest.assert_same_structure(inputs, following)
            if impute_finished:
                outputs = nest.map_structure(lambda out, zero: tf.where(finished, zero, out), outputs, zeros)
                new_state = _kept(finished, state, new_state)
            arrays = nest.map_structure(lambda a, out: a.write(time, out), arrays, outputs)
            if maximum_iterations is not None:
                ended = tf.logical_or(ended, time + 1 >= maximum_iterations)
            return time + 1, arrays, new_state, following, ended, lengths

        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda time, arrays, state, inputs, finished, lengths: tf.logical_not(tf.reduce_all(finished)), body,
            (tf.constant(0, tf.int32), arrays, state, inputs, finished, lengths), parallel_iterations=parallel_iterations,
            swap_memory=swap_memory)
        outputs = nest.map_structure(lambda a: a.stack(), arrays)
        try:
            outputs, state = decoder.finalize(outputs, state, lengths)
        except NotImplementedError:
            pass
        if not output_time_major:
            outputs = nest.map_structure(steps.transpose_batch_time, outputs)
    return outputs, state, lengths


def _kept(finished: Tensor, old: Any, new: Any) -> Any:
    """The old state of sequences that have ended; shapes stay as they were."""
    def one(before: Any, after: Any) -> Any:
        if isinstance(before, tf.TensorArray) or before.shape.ndims in (0, None):
            return after
        after.set_shape(before.shape)
        return tf.where(finished, before, after)
    return nest.map_structure(one, old, new)
