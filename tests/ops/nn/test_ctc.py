"""CTC: the loss against a sum over all alignments, the decoders against the search of all labellings."""
import itertools

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.kernels import ctc

rng = np.random.RandomState(8)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def labelling(path, blank, merge=True):
    out = [p for i, p in enumerate(path) if not (merge and i and path[i - 1] == p)]
    return tuple(p for p in out if p != blank)


def probabilities(logits, merge=True):
    """The probability of every labelling, by going through all alignments."""
    lp, found = log_softmax(logits), {}
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        p = np.exp(sum(lp[t, c] for t, c in enumerate(path)))
        key = labelling(path, logits.shape[1] - 1, merge)
        found[key] = found.get(key, 0) + p
    return found


def sparse(rows):
    indices = [[b, i] for b, row in enumerate(rows) for i in range(len(row))]
    return tf.SparseTensor(np.array(indices, np.int64), np.array(sum(rows, []), np.int32),
                           [len(rows), max(map(len, rows))])


@pytest.mark.parametrize("merge", [True, False])
def test_loss_sums_all_alignments(merge):
    x, rows, lengths = rng.randn(5, 3, 4), [[0, 1], [2, 2], [1]], [5, 4, 3]
    loss = tf1.nn.ctc_loss(sparse(rows), x, np.array(lengths, np.int32), ctc_merge_repeated=merge).numpy()
    for b, (row, n) in enumerate(zip(rows, lengths, strict=True)):
        expect = -np.log(probabilities(x[:n, b], merge)[tuple(row)])
        np.testing.assert_allclose(loss[b], expect, rtol=1e-6)


@pytest.mark.parametrize("merge", [True, False])
def test_gradient(merge):
    x, labels, lengths = tf.constant(rng.randn(6, 2, 4)), sparse([[0, 1], [2, 2]]), np.array([6, 5], np.int32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf1.nn.ctc_loss(labels, x, lengths, ctc_merge_repeated=merge)
    g, v = tape.gradient(loss, x).numpy(), rng.randn(6, 2, 4) * 1e-5
    hi, lo = (tf1.nn.ctc_loss(labels, x.numpy() + s * v, lengths, ctc_merge_repeated=merge).numpy().sum() for s in (1, -1))
    np.testing.assert_allclose((g * v).sum(), (hi - lo) / 2, rtol=1e-5)
    assert (g[5, 1] == 0).all()


def test_both_recursions_agree():
    import torch
    x = torch.tensor(rng.randn(8, 3, 5))
    labels = torch.tensor([[0, 0, 1], [3, 2, 0], [1, 0, 0]])
    args = labels, torch.tensor([3, 2, 1]), torch.tensor([8, 6, 7])
    lp = torch.log_softmax(x, 2)
    ours, atens = ctc._recursive_loss(lp, *args, True, 4), ctc._aten_loss(lp, *args, 4)
    torch.testing.assert_close(ours[0], atens[0])
    torch.testing.assert_close(ours[1][:6], atens[1][:6])


def test_dense_labels():
    x, dense = rng.randn(5, 3, 4), np.array([[1, 2], [3, 3], [1, 0]], np.int32)
    loss = tf.nn.ctc_loss(dense, x, np.array([2, 2, 0]), np.array([5, 5, 4])).numpy()
    for b, row in enumerate([(1, 2), (3, 3), ()]):
        moved = np.concatenate([x[:, b, 1:], x[:, b, :1]], 1)[:5 if b < 2 else 4]
        np.testing.assert_allclose(loss[b], -np.log(probabilities(moved)[tuple(v - 1 for v in row)]), rtol=1e-6)
    last = tf.nn.ctc_loss(dense[:2] - 1, np.roll(x, -1, 2)[:, :2], np.array([2, 2]), np.array([5, 5]), blank_index=-1)
    np.testing.assert_allclose(last.numpy(), loss[:2], rtol=1e-6)
    major = tf.nn.ctc_loss(dense, x.transpose(1, 0, 2), np.array([2, 2, 0]), np.array([5, 5, 4]), logits_time_major=False)
    np.testing.assert_allclose(major.numpy(), loss, rtol=1e-6)


@pytest.mark.parametrize("blank, losses, last_gradient", [
    (0, [5.4871, 5.2480, 708.2894, -0.1474],
     [[0.2693, 0.3289, 0.4018], [0.2693, 0.3289, 0.4018], [-0.1320, 0.3289, -0.1969], [0.1929, 0.3289, 0.4018]]),
    (1, [707.8262, 708.5636, 708.7491, 1.2171],
     [[-0.1187, -0.1015, 0.2202], [-0.2248, -0.1601, 0.3848], [0.2693, -0.1212, -0.1481], [0.2693, 0.1878, 0.4018]])])
def test_dense_labels_that_are_blanks_or_no_classes_or_too_many(blank, losses, last_gradient):
    """The values are real TensorFlow's."""
    x = tf.constant((np.arange(48).reshape(4, 4, 3) % 7 / 5 - .5).astype(np.float32))
    labels = np.array([[1, 2, 1, 0], [1, 0, 2, 0], [2, 2, 2, 2], [1, 5, -1, 2]], np.int32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.nn.ctc_loss(labels, x, [4, 4, 4, 3], [4, 4, 4, 4], blank_index=blank)
    np.testing.assert_allclose(loss.numpy(), losses, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(tape.gradient(loss, x).numpy()[3], last_gradient, rtol=1e-3, atol=2e-4)


def test_loss_errors():
    x = np.zeros([3, 2, 3], np.float32)
    seven = np.array([3, 3], np.int32)
    for rows, lengths, message in (([[0, 0, 1, 1], [1]], seven, "Not enough time"), ([[-1], [1]], seven, "nonnegative"),
                                   ([[2, 0], [1]], seven, "following a null label"), ([[0], [1]], [4, 3], "<= 3")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            tf1.nn.ctc_loss(sparse(rows), x, np.array(lengths, np.int32))
    with pytest.raises(TypeError, match="SparseTensor"):
        tf1.nn.ctc_loss([[0]], x, seven)
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of order"):
        tf.raw_ops.CTCLoss(inputs=x, labels_indices=[[1, 0], [0, 0]], labels_values=[0, 0], sequence_length=seven)
    ignored = tf1.nn.ctc_loss(sparse([[0, 0, 1, 1], [1]]), x, seven, ignore_longer_outputs_than_inputs=True).numpy()
    assert ignored[0] == 0 and ignored[1] > 0


def test_greedy():
    x = np.full([5, 1, 3], -1.0, np.float32)
    for t, c in enumerate([0, 0, 2, 0, 1]):
        x[t, 0, c] = t + 1
    (merged,), score = tf.nn.ctc_greedy_decoder(x, [5])
    assert merged.values.numpy().tolist() == [0, 0, 1] and score.numpy().tolist() == [[-15]]
    (plain,), _ = tf.nn.ctc_greedy_decoder(x, [5], merge_repeated=False)
    assert plain.values.numpy().tolist() == [0, 0, 0, 1] and plain.dense_shape.numpy().tolist() == [1, 4]


def test_beam_search_finds_the_likeliest_labellings():
    """With a beam as wide as there are labellings, the search is exact."""
    x, lengths = rng.randn(5, 2, 3), [5, 4]
    paths, scores = tf.nn.ctc_beam_search_decoder(x, lengths, beam_width=200, top_paths=4)
    for b, n in enumerate(lengths):
        best = sorted(probabilities(x[:n, b]).items(), key=lambda kv: -kv[1])[:4]
        np.testing.assert_allclose(scores.numpy()[b], np.log([p for _, p in best]), rtol=1e-6)
        for path, (labels, _) in zip(paths, best, strict=True):
            rows = path.indices.numpy()[:, 0] == b
            assert tuple(path.values.numpy()[rows]) == labels


def test_decoder_errors():
    x = np.zeros([2, 1, 2], np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more paths"):
        tf.nn.ctc_beam_search_decoder(x, [2], beam_width=1, top_paths=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Less leaves"):
        tf.nn.ctc_beam_search_decoder(x, [2], beam_width=50, top_paths=40)
    with pytest.raises(tf.errors.FailedPreconditionError, match="<= 2"):
        tf.nn.ctc_greedy_decoder(x, [3])


def test_label_helpers():
    out, lengths = tf.nn.collapse_repeated([[1, 1, 2, 2], [3, 4, 4, 3]], [3, 4])
    assert out.numpy().tolist() == [[1, 2, 0], [3, 4, 3]] and lengths.numpy().tolist() == [2, 3]
    y, place = tf.nn.ctc_unique_labels([[3, 4, 4, 3], [1, 2, 3, 1]])
    assert y.numpy().tolist() == [[3, 4, 0, 0], [1, 2, 3, 0]] and place.numpy().tolist() == [[0, 1, 1, 0], [0, 1, 2, 0]]


def test_greedy_decoding_with_another_blank():
    logits = np.full((4, 1, 3), -5.0, np.float32)
    logits[np.arange(4), 0, [0, 1, 1, 2]] = 5.0
    for blank, want in ((None, [0, 1]), (0, [1, 2]), (-2, [0, 2])):
        (decoded,), _ = tf.nn.ctc_greedy_decoder(logits, [4], blank_index=blank)
        assert decoded.values.numpy().tolist() == want
    with pytest.raises(tf.errors.InvalidArgumentError, match="blank_index"):
        tf.nn.ctc_greedy_decoder(logits, [4], blank_index=3)


def test_one_class_is_all_blank():
    loss, gradient = tf.raw_ops.CTCLoss(inputs=[[[-1.0]]], labels_indices=tf.constant([[0, 0]], tf.int64), labels_values=[0],
                                        sequence_length=[1], ctc_merge_repeated=False)
    assert loss.numpy().tolist() == [0.0] and gradient.numpy().tolist() == [[[0.0]]]


def test_half_precision():
    # Recorded from TensorFlow 2.21.
    logits = tf.zeros([3, 1, 4], tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.nn.ctc_loss([[1, 2]], logits, [2], [3], blank_index=0)
    assert loss.dtype == tf.float16
    np.testing.assert_allclose(loss, [2.549], atol=2e-3)
    np.testing.assert_allclose(tape.gradient(loss, logits)[1, 0], [0.05, -0.15, -0.15, 0.25], atol=2e-3)


@pytest.mark.parametrize("shape, blank, words", [
    ((1, 1, 3), -4, r"must be in range \[-3, 3\)"), ((1, 1, 0), 0, "at least 1 class")])
def test_blank_index_is_checked(shape, blank, words):
    with pytest.raises(ValueError, match=words):
        tf.nn.ctc_loss([[0]], tf.zeros(shape), [1], [1], blank_index=blank)
