"""Beam search: a decoder that follows the best sequences so far, and what it needs (tile_batch, gather_tree)."""
from __future__ import annotations

import collections
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.compat.contrib.seq2seq.decoding import Decoder
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn.cell import assert_like_rnncell
from penstock.compat import v1 as tf


class BeamSearchDecoderState(collections.namedtuple("BeamSearchDecoderState", (
        "cell_state", "log_probs", "finished", "lengths", "accumulated_attention_probs"))):
    """The states of all beams, their probabilities so far, whether they have ended, and their lengths."""


class BeamSearchDecoderOutput(collections.namedtuple("BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))):
    """The output of a step: scores, numbers, and from which beam each came."""


class FinalBeamSearchDecoderOutput(collections.namedtuple("FinalBeamDecoderOutput", (
        "predicted_ids", "beam_search_decoder_output"))):
    """The sequences of all beams, best first, and the outputs of the steps."""


for _class in (BeamSearchDecoderState, BeamSearchDecoderOutput, FinalBeamSearchDecoderOutput):
    export.value(_class, v1=[f"contrib.seq2seq.{_class.__name__}"])


@export(v1=["contrib.seq2seq.tile_batch"])
def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeats each member of a batch `multiplier` times, side by side; in all tensors of a nest.

    >>> tf.contrib.seq2seq.tile_batch(encoder_outputs, multiplier=beam_width)
    """
    with tf.name_scope(name, "tile_batch", [*nest.flatten(t), multiplier]):
        return nest.map_structure(lambda x: _tiled(tf.convert_to_tensor(x, name="t"), multiplier), t)


def _tiled(t: Tensor, multiplier: int) -> Tensor:
    if t.shape.ndims is None:
        raise ValueError("t must have statically known rank")
    static = t.shape.as_list()
    tiled = tf.tile(tf.expand_dims(t, 1), [1, multiplier, *[1] * (t.shape.ndims - 1)])
    tiled = tf.reshape(tiled, tf.concat([[tf.shape(t)[0] * multiplier], tf.shape(t)[1:]], 0))
    tiled.set_shape([None if static[0] is None else static[0] * multiplier, *static[1:]])
    return tiled


@export(v1=["contrib.seq2seq.gather_tree"])
def gather_tree(step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any) -> Tensor:
    """The sequences of beams, [time, batch, beam], from the numbers of each step and the beams that they came from."""
    step_ids, parent_ids = tf.convert_to_tensor(step_ids), tf.cast(parent_ids, tf.int32)
    time, batch, width = tf.unstack(tf.shape(step_ids))
    lengths = tf.minimum(tf.cast(max_sequence_lengths, tf.int32), time)[:, tf.newaxis]
    every = tf.tile(tf.range(width)[tf.newaxis], [batch, 1])
    end = tf.cast(end_token, step_ids.dtype)

    def back(t: Tensor, beams: Tensor, found: Any) -> tuple:
        inside = tf.broadcast_to(t < lengths, [batch, width])
        ids = tf.where(inside, tf.gather(step_ids[t], beams, batch_dims=1), tf.fill([batch, width], end))
        beams = tf.where(inside, tf.gather(parent_ids[t], beams, batch_dims=1), beams)
        return t - 1, beams, found.write(t, ids)

    *_, found = tf.while_loop(lambda t, *_: t >= 0, back, (time - 1, every, tf.TensorArray(step_ids.dtype, size=time)))
    ids = found.stack()
    ended = tf.cumsum(tf.cast(tf.equal(ids, end), tf.int32), axis=0, exclusive=True) > 0
    ids = tf.where(ended, tf.fill(tf.shape(ids), end), ids)
    ids.set_shape(step_ids.shape)
    return ids


@export(v1=["contrib.seq2seq.python.ops.beam_search_decoder.gather_tree_from_array"])
def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> Tensor:
    """The values [time, batch * beam, ...] or [time, batch, beam, ...] of each sequence, in the order of the final beams.

    >>> gather_tree_from_array(alignments, outputs.parent_ids, final_state.lengths)
    """
    t, parent_ids = tf.convert_to_tensor(t), tf.convert_to_tensor(parent_ids)
    time, batch, width = tf.unstack(tf.shape(parent_ids))
    own = tf.broadcast_to(tf.range(width), [time, batch, width])
    longest = tf.cast(tf.reduce_max(sequence_length, axis=1), tf.int32)
    beams = gather_tree(own, parent_ids, longest, width + 1)
    inside = tf.transpose(tf.sequence_mask(sequence_length, maxlen=time), [2, 0, 1])
    beams = tf.where(inside, beams, own)               # steps after the end keep their values
    taken = tf.gather(tf.reshape(t, tf.concat([[time, batch, width], [-1]], 0)), beams, batch_dims=2)
    taken = tf.reshape(taken, tf.shape(t))
    taken.set_shape(t.shape)
    return taken


@export(v1=["contrib.seq2seq.BeamSearchDecoder"])
class BeamSearchDecoder(Decoder):
    """Follows the `beam_width` best sequences. States and memories must be tiled with `tile_batch` before.

    >>> decoder = tf.contrib.seq2seq.BeamSearchDecoder(cell, embedding, start_tokens, end_token, state, beam_width=5)
    >>> outputs, _, _ = tf.contrib.seq2seq.dynamic_decode(decoder, maximum_iterations=20)
    """

    def __init__(self, cell: Any, embedding: Any, start_tokens: Any, end_token: Any, initial_state: Any, beam_width: int,
                 output_layer: Any = None, length_penalty_weight: float = 0.0, coverage_penalty_weight: float = 0.0,
                 reorder_tensor_arrays: bool = True):
        assert_like_rnncell("cell", cell)
        if output_layer is not None and not callable(output_layer):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        if coverage_penalty_weight:
            raise NotImplementedError("coverage_penalty_weight is not supported: leave it at 0")
        self._cell, self._output_layer, self._beam_width = cell, output_layer, beam_width
        self._length_penalty_weight, self._reorder = length_penalty_weight, reorder_tensor_arrays
        self._embedding_fn = embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)
        start_tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        if start_tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        static = start_tokens.shape.as_list()[0]
        self._static_batch, self._batch_size = static, tf.size(start_tokens) if static is None else tf.constant(static)
        self._initial_cell_state = nest.map_structure(self._split, initial_state)
        tokens = tf.tile(tf.expand_dims(start_tokens, 1), [1, beam_width])
        self._start_inputs = self._embedding_fn(tokens)

    batch_size = property(lambda self: self._batch_size)
    tracks_own_finished = property(lambda self: True)

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        """A number for each beam."""
        beams = TensorShape([self._beam_width])
        return BeamSearchDecoderOutput(scores=beams, predicted_ids=beams, parent_ids=beams)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        """The types of outputs."""
        dtype = nest.flatten(self._initial_cell_state)[0].dtype
        return BeamSearchDecoderOutput(scores=dtype, predicted_ids=tf.int32, parent_ids=tf.int32)

    def _split(self, t: Any) -> Any:
        """[batch * beam, ...] as [batch, beam, ...]; scalars and arrays stay."""
        if isinstance(t, tf.TensorArray):
            return t
        t = tf.convert_to_tensor(t)
        if t.shape.ndims is None:
            raise ValueError(f"Expected tensor ({t}) to have known rank, but ndims == None.")
        if t.shape.ndims < 1:
            return t
        static = t.shape.as_list()
        if static[0] is not None and self._static_batch is not None and static[0] != self._static_batch * self._beam_width:
            raise ValueError("Unexpected behavior when reshaping between beam width and batch size.  The reshaped tensor has "
                             f"shape: {t.shape}.  Perhaps you forgot to create a zero_state with "
                             "batch_size=encoder_batch_size * beam_width?")
        shaped = tf.reshape(t, tf.concat([[self._batch_size, self._beam_width], tf.shape(t)[1:]], 0))
        shaped.set_shape([self._static_batch, self._beam_width, *static[1:]])
        return shaped

    def _merge(self, t: Any) -> Any:
        """[batch, beam, ...] as [batch * beam, ...]."""
        if isinstance(t, tf.TensorArray) or t.shape.ndims < 2:
            return t
        merged = tf.reshape(t, tf.concat([[self._batch_size * self._beam_width], tf.shape(t)[2:]], 0))
        merged.set_shape([None if self._static_batch is None else self._static_batch * self._beam_width,
                          *t.shape.as_list()[2:]])
        return merged

    def initialize(self, name: str | None = None) -> Any:
        """(finished, first inputs, first state): at first, only one beam counts."""
        dtype = nest.flatten(self._initial_cell_state)[0].dtype
        first = tf.zeros([self._batch_size], tf.int32)
        finished = tf.one_hot(first, self._beam_width, on_value=False, off_value=True, dtype=tf.bool)
        log_probs = tf.one_hot(first, self._beam_width, on_value=tf.constant(0.0, dtype), off_value=tf.constant(-np.inf, dtype),
                               dtype=dtype)
        lengths = tf.zeros([self._batch_size, self._beam_width], tf.int64)
        return finished, self._start_inputs, BeamSearchDecoderState(self._initial_cell_state, log_probs, finished, lengths, ())

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """One step of all beams."""
        with tf.name_scope(name, "BeamSearchDecoderStep"):
            outputs, cell_state = self._cell(nest.map_structure(self._merge, inputs),
                                             nest.map_structure(self._merge, state.cell_state))
            outputs, cell_state = nest.map_structure(self._split, outputs), nest.map_structure(self._split, cell_state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            found, new = self._best(outputs, cell_state, state)
            following = tf.cond(tf.reduce_all(new.finished), lambda: self._start_inputs,
                                lambda: self._embedding_fn(found.predicted_ids))
        return found, new, following, new.finished

    def _best(self, logits: Tensor, cell_state: Any, state: Any) -> tuple[Any, Any]:
        """The best continuations of all beams together."""
        width, vocabulary = self._beam_width, logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        ended = state.finished
        # A beam that has ended continues with the end token alone, at no cost.
        only_end = tf.one_hot(tf.fill([self._batch_size, width], self._end_token), vocabulary, on_value=tf.constant(0.0,
                                                                                                                    logits.dtype),
                              off_value=tf.constant(logits.dtype.min, logits.dtype), dtype=logits.dtype)
        log_probs = tf.where_v2(ended[:, :, tf.newaxis], only_end, tf.nn.log_softmax(logits))
        total = state.log_probs[:, :, tf.newaxis] + log_probs
        longer = tf.cast(~ended, tf.int64)[:, :, tf.newaxis] * tf.cast(tf.not_equal(tf.range(vocabulary), self._end_token),
                                                                       tf.int64)
        scores = total / _length_penalty(state.lengths[:, :, tf.newaxis] + longer, self._length_penalty_weight, total.dtype)
        best, where = tf.nn.top_k(tf.reshape(scores, [self._batch_size, -1]), k=width)
        best.set_shape([self._static_batch, width])
        where.set_shape([self._static_batch, width])
        words, parents = tf.floormod(where, vocabulary), tf.floordiv(where, vocabulary)

        def of_parents(t: Any) -> Any:
            if isinstance(t, tf.TensorArray) or t.shape.ndims < 2:
                return t
            taken = tf.gather(t, parents, batch_dims=1)
            taken.set_shape(t.shape)
            return taken

        was_ended = of_parents(ended)
        new = BeamSearchDecoderState(
            cell_state=nest.map_structure(of_parents, cell_state),
            log_probs=tf.gather(tf.reshape(total, [self._batch_size, -1]), where, batch_dims=1),
            lengths=of_parents(state.lengths) + tf.cast(~was_ended, tf.int64),
            finished=tf.logical_or(was_ended, tf.equal(words, self._end_token)), accumulated_attention_probs=())
        return BeamSearchDecoderOutput(scores=best, predicted_ids=words, parent_ids=parents), new

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """The sequences of the beams."""
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder:
            final_state = final_state._replace(cell_state=nest.map_structure(
                lambda t: self._reordered(t, outputs.parent_ids, final_state.lengths), final_state.cell_state))
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def _reordered(self, t: Any, parent_ids: Tensor, lengths: Tensor) -> Any:
        """An array of all steps (the history of alignments) as a tensor in the order of the final beams; others stay."""
        if not isinstance(t, tf.TensorArray):
            return t
        found = t.stack()
        if found.shape.ndims is not None and found.shape.ndims < 2:
            return t
        return gather_tree_from_array(found, parent_ids, lengths)


def _length_penalty(lengths: Tensor, weight: float, dtype: Any) -> Any:
    """((5 + length) / 6) ** weight."""
    if not tf.is_tensor(weight) and weight == 0:
        return 1.0
    return tf.pow((5.0 + tf.cast(lengths, dtype)) / 6.0, tf.cast(weight, dtype))
