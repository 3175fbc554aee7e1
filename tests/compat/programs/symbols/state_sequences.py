"""Sequence models of tf.contrib, by the names that programs use most."""
import numpy as np


def _run(tf, fetches):
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return sess.run(fetches)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def losses(tf):
    draw = np.random.RandomState(0)
    logits = draw.randn(3, 2, 5).astype(np.float32)                         # steps, batch, classes
    targets = np.array([[1, 0], [4, 2], [3, 3]], np.int32)
    weights = np.array([[1, 1], [1, 0], [0.5, 0]], np.float32)
    each = -np.log(np.take_along_axis(_softmax(logits), targets[..., None], -1))[..., 0]
    got = _run(tf, [
        tf.contrib.legacy_seq2seq.sequence_loss_by_example(list(map(tf.constant, logits)), list(targets), list(weights)),
        tf.contrib.seq2seq.sequence_loss(logits.transpose(1, 0, 2), targets.T, weights.T)])
    np.testing.assert_allclose(got[0], (each * weights).sum(0) / weights.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[1], (each * weights).sum() / weights.sum(), rtol=1e-5, atol=1e-5)


def decoders(tf):
    cell = tf.nn.rnn_cell.BasicRNNCell(2)
    inputs = [tf.ones([1, 3]), tf.ones([1, 3]) * 2]
    fed, state = tf.contrib.legacy_seq2seq.rnn_decoder(inputs, tf.zeros([1, 2]), cell)
    looped, _ = tf.contrib.legacy_seq2seq.rnn_decoder(inputs, tf.zeros([1, 2]), cell, scope="other",
                                                      loop_function=lambda output, i: tf.zeros([1, 3]))
    kernel, bias = tf.trainable_variables()[:2]
    fed, state, looped, kernel = _run(tf, [fed, state, looped, kernel])
    first = np.tanh(np.ones([1, 3]) @ kernel[:3])
    second = np.tanh(np.concatenate([np.full([1, 3], 2), first], 1) @ kernel)
    np.testing.assert_allclose(fed, [first, second], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state, fed[1], rtol=1e-6, atol=1e-6)
    assert looped[0].shape == looped[1].shape == (1, 2)


def buckets(tf):
    s = tf.nn.seq2seq
    words = [tf.placeholder(tf.int32, [None], name=f"w{i}") for i in range(5)]
    weights = [tf.ones([2])] * 5

    def model(encoder, decoder):
        return s.embedding_attention_seq2seq(encoder, decoder, tf.nn.rnn_cell.GRUCell(4), 7, 6, 3)
    outputs, costs = s.model_with_buckets(words[:3], words[:4], words[1:], weights, [(2, 2), (3, 4)], model)
    assert [len(o) for o in outputs] == [2, 4] and len(costs) == 2
    feed = {w: [i % 6, (i + 1) % 6] for i, w in enumerate(words)}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        logits, cost = sess.run([outputs[0], costs[0]], feed)
    wanted = [-np.log(_softmax(np.float64(step))[range(2), feed[words[i + 1]]]) for i, step in enumerate(logits)]
    np.testing.assert_allclose(cost, np.mean(wanted), rtol=1e-4, atol=1e-4)


def attention(tf):
    memory = np.random.RandomState(0).randn(2, 4, 3).astype(np.float32)
    mechanism = tf.contrib.seq2seq.BahdanauAttention(5, memory, memory_sequence_length=[4, 2])
    cell = tf.contrib.seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(6), mechanism, alignment_history=True)
    output, state = cell(tf.ones([2, 2]), cell.zero_state(2, tf.float32))
    output, weights, context = _run(tf, [output, state.alignments, state.attention])
    np.testing.assert_allclose(weights.sum(1), [1, 1], rtol=1e-5, atol=1e-5)
    assert (weights[1, 2:] == 0).all() and (weights[1, :2] > 0).all()
    np.testing.assert_allclose(output, np.einsum("bt,btd->bd", weights, memory), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(context, output, rtol=1e-6, atol=1e-6)
    tiled = _run(tf, tf.contrib.seq2seq.tile_batch(tf.constant([[1, 2], [3, 4]]), 2))
    assert tiled.tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]


def cudnn(tf):
    x = np.random.RandomState(0).randn(4, 2, 3).astype(np.float32)
    layer = tf.contrib.cudnn_rnn.CudnnLSTM(1, 5)
    outputs, (h, c) = layer(tf.constant(x))
    outputs, h, c = _run(tf, [outputs, h, c])
    assert outputs.shape == (4, 2, 5) and c.shape == (1, 2, 5)
    np.testing.assert_allclose(h[0], outputs[-1], rtol=1e-6, atol=1e-6)


def normal(tf):
    d = tf.contrib.distributions.Normal(loc=[1.0, 0.0], scale=2.0)
    got = _run(tf, [d.log_prob([1.0, 2.0]), d.mean(), d.stddev(), d.sample(20000, seed=1)])
    most = -np.log(2) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(got[0], [most, most - 0.5], rtol=1e-5, atol=1e-5)
    assert got[1].tolist() == [1, 0] and got[2].tolist() == [2, 2]
    np.testing.assert_allclose(got[3].mean(0), [1, 0], atol=0.1)
