"""contrib.seq2seq and contrib.legacy_seq2seq: losses and searches by hand, decoders from end to end."""
import itertools

import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(0)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_losses(run):
    logits, targets = RNG.randn(2, 3, 5).astype(np.float32), RNG.randint(0, 5, [2, 3])
    weights = np.array([[1, 1, 0], [1, 1, 1]], np.float32)
    cross = -np.take_along_axis(log_softmax(logits), targets[..., None], -1)[..., 0] * weights
    whole = tf.contrib.seq2seq.sequence_loss(tf.constant(logits), tf.constant(targets), tf.constant(weights))
    rows = tf.contrib.seq2seq.sequence_loss(tf.constant(logits), tf.constant(targets), tf.constant(weights),
                                            average_across_batch=False)
    legacy = tf.contrib.legacy_seq2seq.sequence_loss_by_example(
        list(tf.unstack(logits, axis=1)), list(tf.unstack(targets, axis=1)), list(tf.unstack(weights, axis=1)))
    _, a, b, c = run(whole, rows, legacy)
    np.testing.assert_allclose(a, cross.sum() / 5, rtol=1e-5)
    np.testing.assert_allclose(b, cross.sum(1) / weights.sum(1), rtol=1e-5)
    np.testing.assert_allclose(c, b, rtol=1e-5)


@pytest.mark.parametrize("mechanism", ["BahdanauAttention", "LuongAttention", "BahdanauMonotonicAttention",
                                       "LuongMonotonicAttention"])
def test_attention_aligns_to_the_memory(mechanism, run):
    seq2seq = tf.contrib.seq2seq
    memory = RNG.randn(2, 4, 6).astype(np.float32)
    made = getattr(seq2seq, mechanism)(6, memory, memory_sequence_length=[2, 4])
    cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.LSTMCell(6), made, attention_layer_size=5, alignment_history=True)
    inputs = tf.constant(RNG.randn(2, 3, 4), tf.float32)
    helper = seq2seq.TrainingHelper(inputs, [3, 2])
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), tf.layers.Dense(7))
    outputs, state, lengths = seq2seq.dynamic_decode(decoder, impute_finished="Monotonic" in mechanism)
    w, out, history, n = run(outputs, state.alignment_history.stack(), lengths)
    assert out.rnn_output.shape == (2, 3, 7) and out.sample_id.shape == (2, 3) and n.tolist() == [3, 2]
    assert history.shape == (3, 2, 4) and (history[:, 0, 2:] == 0).all()
    if "Monotonic" not in mechanism:
        np.testing.assert_allclose(history.sum(-1), 1, rtol=1e-5)
    assert w["memory_layer/kernel"].shape == (6, 6)
    assert w["decoder/attention_wrapper/attention_layer/kernel"].shape == (12, 5)


def test_bahdanau_by_hand(run):
    memory, query = RNG.randn(1, 3, 4).astype(np.float32), RNG.randn(1, 5).astype(np.float32)
    made = tf.contrib.seq2seq.BahdanauAttention(4, memory)
    alignments, _ = made(tf.constant(query), state=made.initial_state(1, tf.float32))
    w, found = run(alignments)
    hidden = np.tanh(memory @ w["memory_layer/kernel"] + (query @ w["bahdanau_attention/query_layer/kernel"])[:, None])
    score = hidden @ w["bahdanau_attention/attention_v"]
    np.testing.assert_allclose(found, np.exp(log_softmax(score)), rtol=1e-4)


class Table(tf.nn.rnn_cell.RNNCell):
    """A cell without variables: the logits of the next symbol depend on the last one alone."""

    state_size = property(lambda self: 1)
    output_size = property(lambda self: 4)

    def __init__(self, logits):
        super().__init__()
        self._logits = tf.constant(logits)

    def call(self, inputs, state):
        return tf.matmul(inputs, self._logits), state + 1


def test_greedy_and_beam_search_against_all_sequences(run):
    seq2seq, steps, end = tf.contrib.seq2seq, 4, 3
    logits = RNG.randn(4, 4).astype(np.float32) * 2
    table = log_softmax(logits)
    embedding = tf.eye(4)
    greedy = seq2seq.BasicDecoder(Table(logits), seq2seq.GreedyEmbeddingHelper(embedding, [0, 1], end), tf.zeros([2, 1]))
    found, _, lengths = seq2seq.dynamic_decode(greedy, maximum_iterations=steps)
    beams = seq2seq.BeamSearchDecoder(Table(logits), embedding, [0, 1], end, seq2seq.tile_batch(tf.zeros([2, 1]), 64), 64)
    best, final, _ = seq2seq.dynamic_decode(beams, maximum_iterations=steps)
    _, ids, n, sequences, log_probs = run(found.sample_id, lengths, best.predicted_ids, final.log_probs)

    for row, start in enumerate((0, 1)):
        last, expected = start, []
        while len(expected) < n[row]:
            last = int(table[last].argmax())
            expected.append(last)
        assert ids[row, :n[row]].tolist() == expected
        scores = {}
        for sequence in itertools.product(range(4), repeat=steps):
            if end in sequence:
                sequence = sequence[:sequence.index(end) + 1]
            scores[sequence] = sum(table[a, b] for a, b in zip((start, *sequence), sequence))
        winner = max(scores, key=scores.get)
        assert sequences[row, :, 0].tolist()[:len(winner)] == list(winner)
        np.testing.assert_allclose(log_probs[row, 0], scores[winner], rtol=1e-4)


def test_gather_tree_follows_parents(run):
    ids = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]])
    parents = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]]])
    found = run(tf.contrib.seq2seq.gather_tree(ids, parents, [3], 10))[1]
    np.testing.assert_array_equal(found[:, 0].T, [[2, 6, 7], [2, 5, 8], [2, 6, 9]])


def test_tile_batch(run):
    t = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(run(tf.contrib.seq2seq.tile_batch(tf.constant(t), 2))[1], np.repeat(t, 2, 0))


@pytest.mark.parametrize("feed", [False, True, "tensor"])
def test_legacy_attention_model_with_buckets(feed):
    legacy = tf.contrib.legacy_seq2seq
    feed_previous = tf.placeholder_with_default(False, []) if feed == "tensor" else feed
    encoder = [tf.constant(RNG.randint(0, 5, [2]), tf.int32) for _ in range(3)]
    decoder = [tf.constant(RNG.randint(0, 4, [2]), tf.int32) for _ in range(3)]

    def seq2seq(x, y):
        return legacy.embedding_attention_seq2seq(x, y, tf.contrib.rnn.GRUCell(6), 5, 4, 3, feed_previous=feed_previous)

    outputs, losses = legacy.model_with_buckets(encoder, decoder, decoder, [tf.ones([2])] * 3, [(2, 2), (3, 3)], seq2seq)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(losses[-1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(losses)
        for _ in range(20):
            session.run(train)
        assert session.run(losses[-1]) < before[-1]
    assert [len(o) for o in outputs] == [2, 3] and outputs[0][0].shape == (2, 4)
    assert "embedding_attention_seq2seq/embedding_attention_decoder/embedding" in {v.op.name for v in tf.trainable_variables()}


def test_legacy_decoder_feeds_itself(run):
    embedding = tf.eye(4)
    logits = RNG.randn(4, 4).astype(np.float32)
    loop = lambda previous, i: tf.gather(embedding, tf.argmax(previous, 1))
    outputs, _ = tf.contrib.legacy_seq2seq.rnn_decoder([tf.gather(embedding, [0])] * 3, tf.zeros([1, 1]), Table(logits), loop)
    found = run(outputs)[1]
    at = 0
    for output in found:
        np.testing.assert_allclose(output[0], logits[at], rtol=1e-6)
        at = int(logits[at].argmax())


@pytest.mark.parametrize("merged", [True, False])
def test_values_of_steps_follow_the_final_beams(merged, run):
    time, batch, width = 4, 2, 3
    lengths = np.array([[4, 2, 3], [1, 3, 4]])
    parents, values = RNG.randint(0, width, [time, batch, width]), RNG.randn(time, batch, width, 2).astype(np.float32)
    wanted = values.copy()
    for b, k in itertools.product(range(batch), range(width)):
        beam = k
        for t in range(lengths[b].max() - 1, -1, -1):
            if t < lengths[b, k]:
                wanted[t, b, k] = values[t, b, beam]
            beam = parents[t, b, beam]
    from penstock._src.compat.contrib.seq2seq.beam_search import gather_tree_from_array
    given = values.reshape([time, batch * width, 2]) if merged else values
    _, found = run(gather_tree_from_array(tf.constant(given), tf.constant(parents, tf.int32), tf.constant(lengths)))
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_beam_search_returns_alignments_of_the_final_beams(run):
    seq2seq = tf.contrib.seq2seq
    memory = seq2seq.tile_batch(tf.constant(RNG.randn(2, 5, 4), tf.float32), 3)
    cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), seq2seq.LuongAttention(4, memory), alignment_history=True)
    decoder = seq2seq.BeamSearchDecoder(cell, tf.constant(RNG.randn(6, 4), tf.float32), tf.fill([2], 1), 2,
                                        cell.zero_state(6, tf.float32), 3, tf.layers.Dense(6))
    outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
    _, found, ids = run(state.cell_state.alignment_history, outputs.predicted_ids)
    assert found.shape == (ids.shape[1], 6, 5)
    np.testing.assert_allclose(found.sum(-1), np.ones([ids.shape[1], 6]), rtol=1e-5)


@pytest.mark.parametrize("probability", [0.0, 1.0])
@pytest.mark.parametrize("halve", [False, True])
def test_auxiliary_inputs_follow_inputs_and_outputs(probability, halve, run):
    inputs, more = RNG.randn(2, 3, 4).astype(np.float32), RNG.randn(2, 3, 2).astype(np.float32)
    outputs = RNG.randn(2, 4).astype(np.float32)
    helper = tf.contrib.seq2seq.ScheduledOutputTrainingHelper(
        inputs, [3, 3], probability, next_inputs_fn=(lambda x: x / 2) if halve else None, auxiliary_inputs=more)
    _, first = helper.initialize()
    chosen = helper.sample(0, outputs, ())
    _, following, _ = helper.next_inputs(0, tf.constant(outputs), (), chosen)
    _, first, following = run(first, following)
    np.testing.assert_array_equal(first, np.concatenate([inputs[:, 0], more[:, 0]], 1))
    own = (outputs / 2 if halve else outputs) if probability else inputs[:, 1]
    np.testing.assert_array_equal(following, np.concatenate([own, more[:, 1]], 1))
