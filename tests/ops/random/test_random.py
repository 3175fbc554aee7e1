"""Random ops: TensorFlow's numbers for its seeds, streams per session, distributions without seeds, wrong arguments."""
import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.execute.context import eager_context
from penstock._src.ops.random import random
from penstock._src.ops.registry import get
from tests.checks import raises_op

SEEDS = {"seed": 3, "seed2": 9}


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


# What TensorFlow 2.21 returns, in two executions of one op.
@pytest.mark.parametrize(("op", "first", "second"), [
    ("RandomUniform", [0.8105223, 0.083281994, 0.31473887, 0.37518275, 0.3050822, 0.57146573],
     [0.63984776, 0.37902987, 0.66873574, 0.46483195, 0.31837344, 0.70980906]),
    ("RandomStandardNormal", [0.32391489, 0.56145519, 1.0739447, -1.0764138, -0.66889203, -1.3881396],
     [0.65109307, -0.68492907, 0.19661386, -0.87525749, -1.4649791, -0.37801686]),
    ("TruncatedNormal", [0.32391489, 0.56145519, 1.0739447, -1.0764138, 0.58993447, -0.67394453],
     [0.65109307, -0.68492907, 0.19661386, -0.87525749, 0.58219504, 1.3600032]),
])
def test_seeded_numbers(op, first, second):
    with tf.Graph().as_default(), tf.Session() as sess:
        drawn = get(op)([6], dtype=tf.float32, **SEEDS)
        close(sess.run(drawn), first)
        close(sess.run(drawn), second)


def test_seeded_numbers_of_other_distributions():
    with tf.Graph().as_default(), tf.Session() as sess:
        def run(op, *inputs, **attrs):
            return sess.run(get(op)(*inputs, **attrs, **SEEDS))
        assert run("RandomUniformInt", [6], -7, 1000).tolist() == [172, 948, 633, 301, 987, 551]
        close(run("RandomGamma", [2], [0.5, 1.0, 3.0]),
              [[0.056825325, 1.8091555, 7.5398326], [0.87003314, 1.8271703, 2.3615499]])
        assert run("RandomPoissonV2", [3], [0.5, 9.0, 40.0]).tolist() == [[0, 11, 37], [0, 9, 43], [1, 14, 44]]
        assert run("RandomShuffle", np.arange(8)).tolist() == [2, 0, 3, 5, 7, 1, 6, 4]
        assert run("Multinomial", [[0.0, 1.0, 2.0]], 8).tolist() == [[2, 2, 2, 1, 2, 1, 2, 1]]


def test_graph_seed():
    for _ in range(2):                        # each session starts again
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(5)
            a, b = tf.random.normal([2]), tf.random.uniform([2], seed=8)
            close(sess.run([a, b]), [[-1.7138785, -0.6787023], [0.62689674, 0.72792137]])
            close(sess.run([a, b]), [[-0.2950869, -0.21065663], [0.9379747, 0.8808279]])


def test_eager_seed():
    for _ in range(2):                        # set_seed starts again
        tf2.random.set_seed(12)
        close(tf2.random.uniform([3]), [0.47720265, 0.33357763, 0.49608231])
        close(tf2.random.uniform([3], seed=1), [0.77498245, 0.87076151, 0.49108636])
        close(tf2.random.uniform([3], seed=1), [0.42381775, 0.68760061, 0.12309337])
    tf2.random.set_seed(None)


def test_eager_ops_without_seeds_of_their_own_leave_nothing_behind():
    resources = eager_context().resources
    tf2.random.set_seed(12)
    before = len(resources.items())
    for _ in range(5):
        tf2.random.uniform([3])
    assert len(resources.items()) == before
    tf2.random.set_seed(None)


def test_get_seed():
    with tf.Graph().as_default() as g:
        assert tf.get_seed(None) == (None, None)
        assert tf.get_seed(7) == (87654321, 7)
        g.seed = 0
        assert tf.get_seed(0) == (0, 2**31 - 1)          # not (0, 0), which would mean "no seed"
        assert tf.get_seed(2**31 + 4) == (0, 5)


def test_sessions_and_programs_share_no_stream_or_one():
    with tf.Graph().as_default():
        x = tf.random.uniform([3], seed=4)
        y = x * 2.0
        with tf.Session() as one, tf.Session() as other:
            first, second = one.run(x), one.run(y) / 2       # two programs of one session: one stream
            close(other.run(x), first)
            close(other.run(x), second)
            assert not np.allclose(first, second)


def test_unseeded_ops_differ():
    a, b = tf2.random.normal([50]), tf2.random.normal([50])
    assert not np.allclose(a, b)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(("draw", "mean", "deviation"), [
    (lambda n, seed: tf2.random.uniform([n], -1.0, 3.0, seed=seed), 1.0, 4 / 12**0.5),
    (lambda n, seed: tf2.random.normal([n], 2.0, 3.0, seed=seed), 2.0, 3.0),
    (lambda n, seed: tf2.random.truncated_normal([n], seed=seed), 0.0, 0.8796),
    (lambda n, seed: tf2.random.uniform([n], -5, 6, tf2.int32, seed=seed), 0.0, 10**0.5),
    (lambda n, seed: tf2.random.gamma([n], 0.7, 2.0, seed=seed), 0.35, 0.7**0.5 / 2),
    (lambda n, seed: tf2.random.gamma([n], 9.0, seed=seed), 9.0, 3.0),
    (lambda n, seed: tf2.random.poisson([n], 4.0, seed=seed), 4.0, 2.0),
    (lambda n, seed: tf2.random.poisson([n], 25.0, seed=seed), 25.0, 5.0),
    (lambda n, seed: tf2.random.categorical(tf2.math.log([[0.2, 0.3, 0.5]]), n, seed=seed), 1.3, 0.781),
], ids=["uniform", "normal", "truncated", "int", "gamma-small", "gamma-large", "poisson-small", "poisson-large", "classes"])
def test_moments(draw, mean, deviation, seed):
    n = 20000
    x = np.asarray(draw(n, seed), np.float64)
    assert abs(x.mean() - mean) < 5 * deviation / n**0.5
    assert abs(x.std() - deviation) < 0.05 * deviation


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.5), (3.0, 4.0), (-9.0, -8.0), (-np.inf, 1.0), (6.0, np.inf)])
@pytest.mark.parametrize("seed", [0, 1])
def test_parameterized_truncated_normal(low, high, seed):
    x = get("ParameterizedTruncatedNormal")([5000], np.float64(0), np.float64(1), np.float64(low), np.float64(high),
                                            seed=seed).numpy()
    grid = np.linspace(max(low, -12), min(high, 12), 200001)
    density = np.exp(-grid**2 / 2 + np.min(grid**2) / 2)
    assert x.min() >= low and x.max() <= high
    assert abs(x.mean() - np.average(grid, weights=density)) < 0.05


def test_whole_range_of_int64():
    for seed in (None, 3):
        x = tf2.random.uniform([1000], tf2.int64.min, tf2.int64.max, tf2.int64, seed=seed).numpy()
        assert (x < 0).any() and (x > 0).any()


def test_shuffle_keeps_elements_and_rows():
    for seed in (None, 3):
        x = tf2.random.shuffle(np.arange(20).reshape(10, 2), seed=seed).numpy()
        assert sorted(x[:, 0].tolist()) == list(range(0, 20, 2))
        assert (x[:, 1] == x[:, 0] + 1).all()
        words = tf2.random.shuffle(tf2.constant(["a", "b", "c"]), seed=seed).numpy()
        assert sorted(words.tolist()) == [b"a", b"b", b"c"]


def test_classes_with_infinite_logits_are_not_drawn():
    x = tf2.random.categorical([[-np.inf, 0.0, -np.inf]], 100).numpy()
    assert (x == 1).all()


def test_random_crop():
    image = np.arange(24).reshape(4, 6)
    patch = tf2.image.random_crop(image, [2, 3]).numpy()
    y, x = divmod(int(patch[0, 0]), 6)
    np.testing.assert_array_equal(patch, image[y:y + 2, x:x + 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Need value.shape >= size"):
        tf2.image.random_crop(image, [5, 3])


def test_gamma_gradient_by_alpha_and_beta():
    # E x = alpha / beta: the mean of the samples' derivatives is that of the mean
    alpha, beta = tf2.constant(2.5), tf2.constant(4.0)
    with tf2.GradientTape() as tape:
        tape.watch([alpha, beta])
        mean = tf2.reduce_mean(tf2.random.gamma([20000], alpha, beta, seed=7))
    by_alpha, by_beta = tape.gradient(mean, [alpha, beta])
    assert float(by_alpha) == pytest.approx(1 / 4, abs=0.01)
    assert float(by_beta) == pytest.approx(-2.5 / 16, abs=0.01)


def test_limits_of_gamma_and_poisson():
    x = tf2.random.gamma([2], [0.0, np.inf, -1.0, np.nan]).numpy()
    assert (x[:, 0] < 1e-30).all() and np.isinf(x[:, 1]).all() and np.isnan(x[:, 2:]).all()
    y = tf2.random.poisson([2], [-1.0, np.inf]).numpy()
    assert (y[:, 0] == 0).all() and np.isinf(y[:, 1]).all()
    with raises_op(tf.errors.InvalidArgumentError, "rate must be finite"):
        tf2.random.poisson([2], [np.nan], dtype=tf2.int32)


def test_wrong_arguments():
    with raises_op(tf.errors.InvalidArgumentError, "Need minval < maxval, got 3 >= 3"):
        tf2.random.uniform([2], 3, 3, tf2.int32)
    with pytest.raises(ValueError, match="Must specify maxval"):
        tf2.random.uniform([2], dtype=tf2.int32)
    with pytest.raises(ValueError, match="Invalid dtype"):
        tf2.random.uniform([2], dtype=tf2.complex64)
    with raises_op(tf.errors.InvalidArgumentError, "must be >= 0"):
        tf2.random.uniform([2, -1])
    with raises_op(tf.errors.ResourceExhaustedError, "OOM"):
        tf2.random.uniform([1 << 20, 1 << 25])
    with raises_op(tf.errors.InvalidArgumentError, "num_samples should be nonnegative"):
        tf2.random.categorical([[1.0]], -1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="rank 1"):
        get("RandomUniform")(3, dtype=tf.float32)


def test_raw_ops_need_seeds_where_results_must_repeat():
    tf2.config.experimental.enable_op_determinism()
    try:
        with pytest.raises(tf2.errors.InvalidArgumentError, match="must have a seed specified"):
            tf2.raw_ops.RandomStandardNormal(shape=[1], dtype=tf2.float32)
        assert tf2.raw_ops.RandomStandardNormal(shape=[1], dtype=tf2.float32, seed=3).shape == [1]
    finally:
        tf2.config.experimental.disable_op_determinism()


def test_few_and_many_classes_are_drawn_alike(monkeypatch):
    logits = np.random.RandomState(0).randn(6, 5) * 3
    logits[0, 1], logits[1], logits[2, 0], logits[3, 4] = -np.inf, -np.inf, np.inf, np.nan
    drawn = torch.tensor(np.random.RandomState(1).rand(6, 40))
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        found = []
        for most in (random._SMALL, 0):
            monkeypatch.setattr(random, "_SMALL", most)
            given = torch.tensor(logits, dtype=dtype)
            found.append(random.draw_classes(given, torch.tensor(40), torch.int64, lambda *_: drawn))
        assert found[0].dtype == torch.int64 and found[0].tolist() == found[1].tolist()
        monkeypatch.undo()


@pytest.mark.parametrize("draw", [lambda s, p: tf2.random.poisson(s, p), lambda s, p: tf2.random.gamma(s, p)])
def test_sizes_that_no_number_holds(draw):
    with pytest.raises(tf.errors.InvalidArgumentError, match="overflow when multiplying 4840914843677363160 with 4"):
        draw([46902, 51188, 34063, 59195], tf2.ones([4, 4]))
    with pytest.raises(tf.errors.ResourceExhaustedError):
        draw([1 << 20, 1 << 15], tf2.ones([1 << 10]))
