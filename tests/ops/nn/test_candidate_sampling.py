"""Candidate sampling: distributions, distinct draws, seeds, and losses that become the full ones."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.kernels import philox

TRUE = np.array([[1], [0], [4]], np.int64)


@pytest.mark.parametrize("sampler, probability", [
    (tf.random.uniform_candidate_sampler, lambda k: np.full(len(k), 0.1)),
    (tf.random.log_uniform_candidate_sampler, lambda k: np.log((k + 2) / (k + 1)) / np.log(11))])
def test_distribution(sampler, probability):
    drawn, of_true, of_drawn = sampler(TRUE, 1, 20000, False, 10, seed=3)
    share = np.bincount(drawn.numpy(), minlength=10) / 20000
    np.testing.assert_allclose(share, probability(np.arange(10)), atol=0.015)
    np.testing.assert_allclose(of_true.numpy()[:, 0], probability(TRUE[:, 0]) * 20000, rtol=1e-5)
    np.testing.assert_allclose(of_drawn.numpy(), probability(drawn.numpy()) * 20000, rtol=1e-5)


def test_fixed_weights(tmp_path):
    weights = [1.0, 3.0, 0.0, 4.0]
    drawn, of_true, _ = tf.random.fixed_unigram_candidate_sampler([[1]], 1, 20000, False, 4, unigrams=weights, seed=1)
    np.testing.assert_allclose(np.bincount(drawn.numpy(), minlength=4) / 20000, np.array(weights) / 8, atol=0.015)
    assert of_true.numpy() == 20000 * 3 / 8
    file = tmp_path / "vocab.csv"
    file.write_text("a,1\nb,3\nc,0\nd,4\n")
    again, _, _ = tf.random.fixed_unigram_candidate_sampler([[1]], 1, 50, False, 4, vocab_file=str(file), seed=1)
    np.testing.assert_array_equal(again.numpy(), tf.random.fixed_unigram_candidate_sampler(
        [[1]], 1, 50, False, 4, unigrams=weights, seed=1)[0].numpy())
    for bad in ({}, {"unigrams": weights, "vocab_file": str(file)}, {"unigrams": weights[:2]}, {"unigrams": [0.0] * 4}):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.random.fixed_unigram_candidate_sampler([[1]], 1, 2, False, 4, **bad)
    with pytest.raises(tf.errors.NotFoundError):
        tf.random.fixed_unigram_candidate_sampler([[1]], 1, 2, False, 4, vocab_file=str(tmp_path / "none"))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="distinct"):
        tf.random.fixed_unigram_candidate_sampler([[1]], 1, 4, True, 4, unigrams=weights)


def test_learned_weights_follow_the_data():
    with tf1.Graph().as_default():
        drawn, count, _ = tf1.nn.learned_unigram_candidate_sampler(np.full([1000, 1], 2), 1, 1000, False, 5)
        with tf1.Session() as sess:
            first, then = sess.run([drawn, count]), sess.run([drawn, count])
        assert abs((first[0] == 2).mean() - 0.2) < 0.06 and (then[0] == 2).mean() > 0.95
        np.testing.assert_allclose(then[1][0], 1000 * 1001 / 1005, rtol=1e-5)
        with tf1.Session() as sess:
            assert (sess.run(drawn) == 2).mean() < 0.3              # another session starts afresh


def test_distinct_draws():
    drawn, _, _ = tf.random.log_uniform_candidate_sampler(TRUE, 1, 50, True, 50)
    assert sorted(drawn.numpy()) == list(range(50))
    with pytest.raises(tf.errors.InvalidArgumentError, match="too small"):
        tf.random.uniform_candidate_sampler(TRUE, 1, 51, True, 50)
    with pytest.raises(tf.errors.InvalidArgumentError, match="matrix|rank"):
        tf.random.uniform_candidate_sampler([1], 1, 2, True, 50)


def test_seeds():
    with tf1.Graph().as_default():
        a, b = (tf1.nn.uniform_candidate_sampler(TRUE, 1, 8, False, 1000, seed=4)[0] for _ in range(2))
        c = tf1.nn.uniform_candidate_sampler(TRUE, 1, 8, False, 1000)[0]
        with tf1.Session() as sess:
            (x, y, z), later, more = sess.run([a, b, c]), sess.run(a), sess.run(c)
        assert (x == y).all() and (x != later).any() and (z != more).any()
        with tf1.Session() as sess:
            np.testing.assert_array_equal(sess.run(a), x)


def test_sampling_all_classes_gives_the_full_loss():
    rng = np.random.RandomState(0)
    w, b, x = rng.randn(6, 3), rng.randn(6), rng.randn(4, 3)
    labels = np.array([[0], [5], [2], [2]])
    every = tf.random.all_candidate_sampler(labels, 1, 6, True)
    found = tf.nn.sampled_softmax_loss(w, b, labels, x, 6, 6, sampled_values=every)
    full = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], x @ w.T + b)
    np.testing.assert_allclose(found.numpy(), full.numpy(), rtol=1e-6)
    logits = x @ w.T + b
    own = np.take_along_axis(logits, labels, 1)
    softplus = lambda v: np.log1p(np.exp(v))  # noqa: E731
    nce = tf.nn.nce_loss(w, b, labels, x, 6, 6, sampled_values=every)
    np.testing.assert_allclose(nce.numpy(), softplus(-own)[:, 0] + softplus(logits).sum(1), rtol=1e-6)


def test_losses_train():
    """Gradients reach weights, biases and inputs; partitioned weights work."""
    rng = np.random.RandomState(1)
    with tf1.Graph().as_default():
        parts = [tf.constant(rng.randn(5, 3).astype(np.float32)) for _ in range(2)]
        b, x = tf.constant(np.zeros(10, np.float32)), tf.constant(rng.randn(4, 3).astype(np.float32))
        labels = np.array([[0, 9], [5, 1], [2, 3], [2, 4]])
        loss = tf1.nn.nce_loss(parts, b, labels, x, 4, 10, num_true=2) + \
            tf1.nn.sampled_softmax_loss(parts, b, labels, x, 4, 10, num_true=2)
        grads = [tf.convert_to_tensor(g) for g in tf1.gradients(loss, [*parts, b, x])]
        with tf1.Session() as sess:
            values = sess.run([loss, *grads])
        assert values[0].shape == (4,) and all(np.isfinite(v).all() for v in values)


def test_words_computed_ahead_are_those_of_their_place():
    ahead, plain = philox.Stream(5, 7), philox.Stream(5, 7)
    for i in range(20):
        first = 5 if i != 11 else 9                        # another length in between
        place, words = ahead.reserve_words(100, first)
        assert place == plain.reserve(100)
        np.testing.assert_array_equal(words[:4 * first], place.words(first).numpy().reshape(-1))


def test_accidental_hits_of_repeated_candidates():
    true, drawn = np.array([[1, 2], [3, 1]], np.int64), np.array([1, 5, 1, 3], np.int64)
    rows, ids, weights = tf.nn.compute_accidental_hits(true, drawn, 2)
    assert (rows.numpy().tolist(), ids.numpy().tolist()) == ([0, 1, 1], [2, 3, 2])
    np.testing.assert_array_equal(weights.numpy(), np.full(3, np.finfo(np.float32).min))


@pytest.mark.parametrize("sampled", [[3, 1, 7, 0], [3, 1, 3, 0], [9, 9, 9, 9]])
def test_accidental_hits_among_zeros(sampled):
    """As one op in a step and op by op outside: candidates that come twice are hit once, at their last place."""
    import penstock as tf2
    from penstock._src.ops.nn.candidate_sampling import hits_to_dense
    true = np.array([[3, 0], [1, 1], [5, 9]])
    rows, columns, weights = tf2.nn.compute_accidental_hits(true, np.array(sampled), num_true=2)
    want = np.zeros([3, 4], "f")
    want[rows.numpy(), columns.numpy()] = weights.numpy()
    found = hits_to_dense(true, np.array(sampled), np.array([3, 4]), num_true=2).numpy()
    np.testing.assert_array_equal(found, want)
    assert not np.signbit(found[found == 0]).any()
