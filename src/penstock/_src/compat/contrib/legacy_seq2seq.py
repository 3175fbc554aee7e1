"""tf.contrib.legacy_seq2seq: sequence to sequence models that are unrolled over lists of inputs."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.compat.contrib.rnn.linear import linear
from penstock._src.compat.contrib.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn.cell import RNNCell
from penstock.compat import v1 as tf


def _export(function: Callable) -> Callable:
    return export(v1=[f"contrib.legacy_seq2seq.{function.__name__}", f"nn.seq2seq.{function.__name__}"])(function)


def _feed_best(embedding: Any, output_projection: Any = None, update_embedding: bool = True) -> Callable:
    """A loop function: the embedding of the most likely symbol is the next input."""
    def loop_function(prev: Tensor, _: int) -> Tensor:
        if output_projection is not None:
            prev = tf.nn.xw_plus_b(prev, output_projection[0], output_projection[1])
        embedded = tf.nn.embedding_lookup(embedding, tf.argmax(prev, 1))
        return embedded if update_embedding else tf.stop_gradient(embedded)
    return loop_function


def _either(feed_previous: Any, decode: Callable, count: int, state_like: Any) -> tuple[list, Any]:
    """Decodes with or without feeding back, as a tensor says in the step; both ways share their variables."""
    def branch(feeds: bool) -> list:
        with tf.variable_scope(tf.get_variable_scope(), reuse=None if feeds else True):
            outputs, state = decode(feeds)
            return outputs + nest.flatten(state)

    found = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    return list(found[:count]), nest.pack_sequence_as(state_like, list(found[count:]))


@_export
def rnn_decoder(decoder_inputs: Any, initial_state: Any, cell: Any, loop_function: Callable | None = None,
                scope: Any = None) -> tuple[list, Any]:
    """Runs a cell over a list of inputs; `loop_function(previous output, i)` returns the next input, if any.

    Args:
        decoder_inputs: List of tensors [batch, size].
        initial_state: First state of the cell.
        cell: Cell to run.
        loop_function: Function of the last output and the step's number that returns the next input; by default the list's.
        scope: Prefix of the names of the layer's variables and operations.

    Returns:
        A list of outputs and the last state.

    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(4)
    ...     inputs = [tf.ones([2, 3])] * 5
    ...     outputs, state = tf.contrib.legacy_seq2seq.rnn_decoder(inputs, cell.zero_state(2, tf.float32), cell)
    >>> len(outputs), state.shape
    (5, TensorShape([2, 4]))
    """
    with tf.variable_scope(scope or "rnn_decoder"):
        state, outputs, previous = initial_state, [], None
        for i, each in enumerate(decoder_inputs):
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    each = loop_function(previous, i)
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(each, state)
            outputs.append(output)
            previous = output if loop_function is not None else None
    return outputs, state


@_export
def basic_rnn_seq2seq(encoder_inputs: Any, decoder_inputs: Any, cell: Any, dtype: Any = tf.float32,
                      scope: Any = None) -> tuple[list, Any]:
    """An encoder whose last state is the first of a decoder."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


@_export
def tied_rnn_seq2seq(encoder_inputs: Any, decoder_inputs: Any, cell: Any, loop_function: Callable | None = None,
                     dtype: Any = tf.float32, scope: Any = None) -> tuple[list, Any]:
    """The same, with one set of variables for both."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=scope)


@_export
def embedding_rnn_decoder(decoder_inputs: Any, initial_state: Any, cell: Any, num_symbols: int, embedding_size: int,
                          output_projection: Any = None, feed_previous: bool = False,
                          update_embedding_for_previous: bool = True, scope: Any = None) -> tuple[list, Any]:
    """A decoder of symbols, which are embedded; with `feed_previous`, it reads its own best symbols."""
    with tf.variable_scope(scope or "embedding_rnn_decoder"):
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = _feed_best(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        embedded = [tf.nn.embedding_lookup(embedding, i) for i in decoder_inputs]
        return rnn_decoder(embedded, initial_state, cell, loop_function=loop)


@_export
def embedding_rnn_seq2seq(encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_encoder_symbols: int,
                          num_decoder_symbols: int, embedding_size: int, output_projection: Any = None,
                          feed_previous: Any = False, dtype: Any = None, scope: Any = None) -> tuple[list, Any]:
    """An encoder and a decoder of symbols, each with its own embedding."""
    with tf.variable_scope(scope or "embedding_rnn_seq2seq") as inner:
        if dtype is not None:
            inner.set_dtype(dtype)
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=dtype or inner.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(feeds: bool, update: bool = True) -> tuple[list, Any]:
            return embedding_rnn_decoder(decoder_inputs, state, cell, num_decoder_symbols, embedding_size, output_projection,
                                         feeds, update)

        if isinstance(feed_previous, bool):
            return decode(feed_previous)
        return _either(feed_previous, lambda feeds: decode(feeds, False), len(decoder_inputs), state)


@_export
def embedding_tied_rnn_seq2seq(encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_symbols: int, embedding_size: int,
                               num_decoder_symbols: int | None = None, output_projection: Any = None,
                               feed_previous: Any = False, dtype: Any = None, scope: Any = None) -> tuple[list, Any]:
    """The same, with one embedding and one set of variables for both."""
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as inner:
        dtype = inner.dtype
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype=dtype)
        encoded = [tf.nn.embedding_lookup(embedding, x) for x in encoder_inputs]
        decoded = [tf.nn.embedding_lookup(embedding, x) for x in decoder_inputs]
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_symbols if num_decoder_symbols is None else num_decoder_symbols)

        def decode(feeds: bool, update: bool = True) -> tuple[list, Any]:
            loop = _feed_best(embedding, output_projection, update) if feeds else None
            return tied_rnn_seq2seq(encoded, decoded, cell, loop_function=loop, dtype=dtype)

        if isinstance(feed_previous, bool):
            return decode(feed_previous)
        return _either(feed_previous, lambda feeds: decode(feeds, False), len(decoder_inputs), cell.state_size)


class _Attention:
    """Attention over encoder states, with some heads; variables are created in the scope where it is made and called."""

    def __init__(self, attention_states: Tensor, num_heads: int, dtype: Any):
        self._size = attention_states.shape.as_list()[2]
        self._length = attention_states.shape.as_list()[1] or tf.shape(attention_states)[1]
        self._hidden = tf.reshape(attention_states, [-1, self._length, 1, self._size])
        self._dtype, self._features, self._v = dtype, [], []
        for head in range(num_heads):
            k = tf.get_variable(f"AttnW_{head}", [1, 1, self._size, self._size], dtype=dtype)
            self._features.append(tf.nn.conv2d(self._hidden, k, [1, 1, 1, 1], "SAME"))
            self._v.append(tf.get_variable(f"AttnV_{head}", [self._size], dtype=dtype))

    def zeros(self, batch_size: Any) -> list[Tensor]:
        """What is attended to before the first step."""
        made = [tf.zeros(tf.stack([batch_size, self._size]), dtype=self._dtype) for _ in self._v]
        for each in made:
            each.set_shape([None, self._size])
        return made

    def __call__(self, query: Any) -> list[Tensor]:
        query = tf.concat(nest.flatten(query), 1) if nest.is_nested(query) else query
        found = []
        for head, (features, v) in enumerate(zip(self._features, self._v, strict=True)):
            with tf.variable_scope(f"Attention_{head}"):
                y = tf.cast(tf.reshape(linear(query, self._size, True), [-1, 1, 1, self._size]), self._dtype)
                weights = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(features + y), [2, 3]))
                mean = tf.reduce_sum(tf.reshape(weights, [-1, self._length, 1, 1]) * self._hidden, [1, 2])
                found.append(tf.reshape(mean, [-1, self._size]))
        return found


@_export
def attention_decoder(decoder_inputs: Any, initial_state: Any, attention_states: Any, cell: Any, output_size: int | None = None,
                      num_heads: int = 1, loop_function: Callable | None = None, dtype: Any = None, scope: Any = None,
                      initial_state_attention: bool = False) -> tuple[list, Any]:
    """A decoder that attends to the states of an encoder in each step (https://arxiv.org/abs/1412.7449)."""
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("Attention needs at least one head; use another decoder without attention.")
    if attention_states.shape.as_list()[2] is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as inner:
        attention = _Attention(attention_states, num_heads, inner.dtype)
        state, outputs, previous = initial_state, [], None
        attended = attention(initial_state) if initial_state_attention else attention.zeros(tf.shape(decoder_inputs[0])[0])
        for i, each in enumerate(decoder_inputs):
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    each = loop_function(previous, i)
            size = each.shape.with_rank(2).as_list()[1]
            if size is None:
                raise ValueError(f"Could not infer input size from input: {each.name}")
            output, state = cell(linear([tf.cast(e, inner.dtype) for e in (each, *attended)], size, True), state)
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if i == 0 and initial_state_attention else None):
                attended = attention(state)
            with tf.variable_scope("AttnOutputProjection"):
                output = linear([tf.cast(output, inner.dtype), *attended], output_size, True)
            previous = output if loop_function is not None else None
            outputs.append(output)
    return outputs, state


@_export
def embedding_attention_decoder(decoder_inputs: Any, initial_state: Any, attention_states: Any, cell: Any, num_symbols: int,
                                embedding_size: int, num_heads: int = 1, output_size: int | None = None,
                                output_projection: Any = None, feed_previous: bool = False,
                                update_embedding_for_previous: bool = True, dtype: Any = None, scope: Any = None,
                                initial_state_attention: bool = False) -> tuple[list, Any]:
    """A decoder of symbols with attention."""
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = _feed_best(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        embedded = [tf.nn.embedding_lookup(embedding, i) for i in decoder_inputs]
        return attention_decoder(embedded, initial_state, attention_states, cell, output_size=output_size, num_heads=num_heads,
                                 loop_function=loop, initial_state_attention=initial_state_attention)


@_export
def embedding_attention_seq2seq(encoder_inputs: Any, decoder_inputs: Any, cell: Any, num_encoder_symbols: int,
                                num_decoder_symbols: int, embedding_size: int, num_heads: int = 1,
                                output_projection: Any = None, feed_previous: Any = False, dtype: Any = None, scope: Any = None,
                                initial_state_attention: bool = False) -> tuple[list, Any]:
    """An encoder of symbols, and a decoder that attends to its states."""
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as inner:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        outputs, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=inner.dtype)
        states = tf.concat([tf.reshape(e, [-1, 1, cell.output_size]) for e in outputs], 1)
        output_size = None
        if output_projection is None:
            cell, output_size = OutputProjectionWrapper(cell, num_decoder_symbols), num_decoder_symbols

        def decode(feeds: bool, update: bool = True) -> tuple[list, Any]:
            return embedding_attention_decoder(decoder_inputs, state, states, cell, num_decoder_symbols, embedding_size,
                                               num_heads, output_size, output_projection, feeds, update,
                                               initial_state_attention=initial_state_attention)

        if isinstance(feed_previous, bool):
            return decode(feed_previous)
        return _either(feed_previous, lambda feeds: decode(feeds, False), len(decoder_inputs), state)


@_export
def one2many_rnn_seq2seq(encoder_inputs: Any, decoder_inputs_dict: dict, enc_cell: Any, dec_cells_dict: dict,
                         num_encoder_symbols: int, num_decoder_symbols_dict: dict, embedding_size: int,
                         feed_previous: Any = False, dtype: Any = None, scope: Any = None) -> tuple[dict, dict]:
    """One encoder and several decoders."""
    if set(dec_cells_dict) != set(decoder_inputs_dict):
        raise ValueError("keys of dec_cells_dict != keys of decoder_inputs_dict")
    for cell in (enc_cell, *dec_cells_dict.values()):
        if not isinstance(cell, RNNCell):
            raise TypeError(f"cell is not an RNNCell: {type(cell)}")
    outputs, states = {}, {}
    with tf.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as inner:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, encoded = tf.nn.static_rnn(encoder, encoder_inputs, dtype=inner.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            with tf.variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)

                def decode(feeds: bool, inputs: Any = inputs, cell: Any = cell, symbols: int = symbols) -> tuple[list, Any]:
                    return embedding_rnn_decoder(inputs, encoded, cell, symbols, embedding_size, feed_previous=feeds)

                outputs[name], states[name] = decode(feed_previous) if isinstance(feed_previous, bool) else \
                    _either(feed_previous, decode, len(inputs), encoded)
    return outputs, states


@_export
def sequence_loss_by_example(logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True,
                             softmax_loss_function: Callable | None = None, name: str | None = None) -> Tensor:
    """The weighted cross entropy of sequences, for each member of the batch: lists over time steps.

    Args:
        logits: List of tensors [batch, classes].
        targets: List of vectors of class numbers.
        weights: List of vectors of weights.
        average_across_timesteps: Whether to divide by the sum of the weights.
        softmax_loss_function: Function of labels and logits instead of the cross entropy.
        name: Name of the operation.

    Returns:
        A vector with the loss of each sequence.

    >>> logits, targets, weights = [tf.zeros([2, 5])] * 3, [tf.constant([1, 2])] * 3, [tf.ones([2])] * 3
    >>> tf.contrib.legacy_seq2seq.sequence_loss_by_example(logits, targets, weights).numpy()
    array([1.609438, 1.609438], dtype=float32)
    """
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, "
                         f"{len(targets)}.")
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(target, [-1]), logits=logit)
            else:
                loss = softmax_loss_function(labels=target, logits=logit)
            losses.append(loss * weight)
        total = tf.add_n(losses)
        return total / (tf.add_n(list(weights)) + 1e-12) if average_across_timesteps else total


@_export
def sequence_loss(logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True,
                  average_across_batch: bool = True, softmax_loss_function: Callable | None = None,
                  name: str | None = None) -> Tensor:
    """The same, summed or averaged over the batch."""
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost = tf.reduce_sum(sequence_loss_by_example(logits, targets, weights, average_across_timesteps,
                                                      softmax_loss_function))
        return cost / tf.cast(tf.shape(targets[0])[0], cost.dtype) if average_across_batch else cost


@_export
def model_with_buckets(encoder_inputs: Any, decoder_inputs: Any, targets: Any, weights: Any, buckets: Any, seq2seq: Callable,
                       softmax_loss_function: Callable | None = None, per_example_loss: bool = False,
                       name: str | None = None) -> tuple[list, list]:
    """A model for each bucket of lengths (encoder, decoder), all with the same variables: returns outputs and losses."""
    for what, given, needed in (("encoder_inputs", encoder_inputs, buckets[-1][0]), ("targets", targets, buckets[-1][1]),
                                ("weights", weights, buckets[-1][1])):
        if len(given) < needed:
            raise ValueError(f"Length of {what} ({len(given)}) must be at least that of last bucket ({needed}).")
    losses, outputs = [], []
    measure = sequence_loss_by_example if per_example_loss else sequence_loss
    with tf.name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for j, (source, target) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if j > 0 else None):
                found, _ = seq2seq(encoder_inputs[:source], decoder_inputs[:target])
                outputs.append(found)
                losses.append(measure(found, targets[:target], weights[:target], softmax_loss_function=softmax_loss_function))
    return outputs, losses
