"""Transforms and frames: lengths, padding, inverses, windows, unknown shapes, wrong arguments."""
import numpy as np
import pytest

import penstock as tf
from tests.checks import raises_op

S = tf.signal
RNG = np.random.RandomState(7)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [None, 3, 8, 11])
def test_real_transforms_pad_and_cut(length):
    x = RNG.randn(2, 8).astype(np.float32)
    close(S.rfft(x, None if length is None else [length]), np.fft.rfft(x, length))
    z = (RNG.randn(2, 5) + 1j * RNG.randn(2, 5)).astype(np.complex64)
    close(S.irfft(z, None if length is None else [length]), np.fft.irfft(z, length))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_real_transforms_of_unknown_shape_and_their_gradients(rank):
    suffix = {1: "", 2: "2d", 3: "3d"}[rank]
    x = RNG.randn(2, 4, 3, 5)
    lengths = [3, 4, 6][-rank:]
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        p, n = tf.compat.v1.placeholder(tf.float64), tf.compat.v1.placeholder(tf.int32)
        spectrum = getattr(S, "rfft" + suffix)(p, n)
        back = getattr(S, "irfft" + suffix)(spectrum, n)
        w = RNG.randn(*np.fft.rfftn(x, lengths, range(-rank, 0)).shape)
        loss = tf.reduce_sum(tf.abs(spectrum) ** 2 * w) + tf.reduce_sum(back ** 3)
        gradient, = tf.gradients(loss, p)
        feeds = {p: x, n: lengths}
        close(sess.run(spectrum, feeds), np.fft.rfftn(x, lengths, range(-rank, 0)), 1e-9)
        v = RNG.randn(*x.shape)
        up, down = (sess.run(loss, {**feeds, p: x + e * v}) for e in (1e-5, -1e-5))
        close(np.sum(sess.run(gradient, feeds) * v), (up - down) / 2e-5, 1e-5)


def test_types_follow_the_input():
    assert S.rfft(tf.ones([4], tf.float64)).dtype == tf.complex128
    assert S.irfft(tf.ones([4], tf.complex128)).dtype == tf.float64
    assert S.rfft([1, 2, 3]).dtype == tf.complex64
    assert S.fft(tf.zeros([0, 3], tf.complex64)).shape == [0, 3]
    assert S.rfft(tf.zeros([0, 4])).shape == [0, 3]


def test_wrong_lengths():
    with raises_op(tf.errors.InvalidArgumentError, "must have length of at least 6 but got: 5"):
        tf.raw_ops.RFFT(input=tf.zeros([5]), fft_length=[6])
    with raises_op(tf.errors.InvalidArgumentError, "must >= 0"):
        tf.raw_ops.RFFT(input=tf.zeros([5]), fft_length=[-6])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Dimension must be 1 but is 2"):
        S.rfft(tf.zeros([5]), [5, 5])
    with pytest.raises(ValueError, match="rank"):
        S.rfft2d(tf.zeros([5]))


def test_shifts():
    x = RNG.randn(3, 4)
    close(S.fftshift(x), np.fft.fftshift(x))
    close(S.ifftshift(x, axes=0), np.fft.ifftshift(x, axes=0))
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        p = tf.compat.v1.placeholder(tf.float64)
        close(sess.run(S.fftshift(p), {p: x}), np.fft.fftshift(x))


def cosine(x, kind):
    """The cosine transform by its sum."""
    n = len(x)
    k, j = np.arange(n)[:, None], np.arange(n)[None]
    if kind == 1:
        weights = np.where((j == 0) | (j == n - 1), 1, 2)
        return (weights * np.cos(np.pi * k * j / (n - 1))) @ x
    if kind == 2:
        return 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n)) @ x
    if kind == 3:
        return (np.where(j == 0, 1, 2) * np.cos(np.pi * j * (2 * k + 1) / (2 * n))) @ x
    return 2 * np.cos(np.pi * (2 * k + 1) * (2 * j + 1) / (4 * n)) @ x


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_cosine_transforms(kind):
    x = RNG.randn(6)
    close(S.dct(x, type=kind), cosine(x, kind), 1e-9)
    close(S.dct(x, type=kind, n=4), cosine(x[:4], kind), 1e-9)
    close(S.dct(x, type=kind, n=9), cosine(np.pad(x, (0, 3)), kind), 1e-9)
    close(S.idct(S.dct(x, type=kind), type=kind) / (10 if kind == 1 else 12), x, 1e-9)
    if kind > 1:
        close(S.idct(S.dct(x, type=kind, norm="ortho"), type=kind, norm="ortho"), x, 1e-9)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"type": 5}, "types of a DCT"), ({"type": 1, "norm": "ortho"}, "Normalization"), ({"n": 0}, "positive"),
    ({"norm": "other"}, "Unknown normalization")])
def test_wrong_cosine_transforms(arguments, message):
    with pytest.raises(ValueError, match=message):
        S.dct([1.0, 2.0], **arguments)


def test_windows():
    n = np.arange(8)
    close(S.hann_window(8), 0.5 - 0.5 * np.cos(2 * np.pi * n / 8))
    close(S.hamming_window(8, periodic=False), np.hamming(8))
    close(S.kaiser_window(8, beta=5.0), np.kaiser(8, 5.0))
    kbd = S.kaiser_bessel_derived_window(8).numpy()
    close(kbd[:4] ** 2 + kbd[4:] ** 2, np.ones(4))
    assert S.hann_window(1).numpy().tolist() == [1.0]
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        p = tf.compat.v1.placeholder(tf.int32, [])
        window = S.hann_window(p)
        assert sess.run(window, {p: 1}).tolist() == [1.0]
        close(sess.run(window, {p: 8}), 0.5 - 0.5 * np.cos(2 * np.pi * n / 8))
    with pytest.raises(ValueError, match="floating"):
        S.hann_window(8, dtype=tf.int32)


def test_frames():
    x = np.arange(10)
    assert S.frame(x, 4, 3).numpy().tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert S.frame(x, 4, 6, pad_end=True, pad_value=-1).numpy().tolist() == [[0, 1, 2, 3], [6, 7, 8, 9]]
    assert S.frame(x[:5], 3, 3, pad_end=True, pad_value=-1).numpy().tolist() == [[0, 1, 2], [3, 4, -1]]
    assert S.frame(x[:3], 4, 3).shape == [0, 4]
    assert S.frame(np.zeros((2, 7, 3)), 3, 2, axis=1).shape == [2, 3, 3, 3]
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        p = tf.compat.v1.placeholder(tf.int32)
        frames = S.frame(p, 3, 3, pad_end=True, axis=0)
        assert sess.run(frames, {p: x[:5]}).tolist() == [[0, 1, 2], [3, 4, 0]]
    with pytest.raises(ValueError, match="must be an integer"):
        S.frame(x, 2.0, 1)


def test_overlap_and_add():
    frames = RNG.randn(2, 4, 5)
    for step in (1, 2, 3, 5, 7):
        expected = np.zeros((2, 5 + 3 * step))
        for k in range(4):
            expected[:, k * step:k * step + 5] += frames[:, k]
        close(S.overlap_and_add(frames, step), expected, 1e-12)
        with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
            p, s = tf.compat.v1.placeholder(tf.float64), tf.compat.v1.placeholder(tf.int32, [])
            close(sess.run(S.overlap_and_add(p, s), {p: frames, s: step}), expected, 1e-12)


def test_short_time_transforms_are_undone():
    x = RNG.randn(2, 400).astype(np.float32)
    spectra = S.stft(x, 32, 8)
    assert spectra.shape == [2, 47, 17]
    back = S.inverse_stft(spectra, 32, 8, window_fn=S.inverse_stft_window_fn(8))
    close(np.asarray(back)[:, 32:-32], x[:, 32:-32], 1e-4)
    window = S.mdct(x, 32)
    assert window.shape == [2, 24, 16]
    close(np.asarray(S.inverse_mdct(window))[:, 16:-16], x[:, 16:-16], 1e-4)


def test_mel_weights():
    weights = S.linear_to_mel_weight_matrix(10, 65, 8000, 100.0, 3800.0).numpy()
    assert weights.shape == (65, 10) and (weights >= 0).all() and (weights[0] == 0).all()
    assert (np.diff(weights.argmax(0)) > 0).all() and weights.max() <= 1
    for bad in ({"num_mel_bins": 0}, {"sample_rate": 0}, {"lower_edge_hertz": -1.0}, {"upper_edge_hertz": 100.0},
                {"upper_edge_hertz": 9000.0}):
        with pytest.raises(ValueError, match="edge|positive"):
            S.linear_to_mel_weight_matrix(**bad)


def test_mfccs():
    x = RNG.randn(3, 20)
    close(S.mfccs_from_log_mel_spectrograms(x), np.stack([cosine(row, 2) for row in x]) / np.sqrt(40), 1e-9)


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_a_signal_comes_back_from_cosine_transforms_without_a_window(norm):
    signal = np.random.RandomState(0).randn(400)
    there = tf.signal.mdct(signal, 64, window_fn=None, norm=norm)
    back = np.asarray(tf.signal.inverse_mdct(there, window_fn=None, norm=norm))
    np.testing.assert_allclose(back[32:-32], signal[32:len(back) - 32], atol=1e-9)


def test_overlap_and_add_of_unknown_shapes():
    signature = [tf.TensorSpec(None, tf.float32)]
    frames = np.ones([3, 4], np.float32)
    for step, expected in ((2, [1, 1, 2, 2, 2, 2, 1, 1]), (4, [1] * 12)):
        add = tf.function(lambda x, step=step: tf.signal.overlap_and_add(x, step), input_signature=signature)
        np.testing.assert_array_equal(add(frames), expected)
