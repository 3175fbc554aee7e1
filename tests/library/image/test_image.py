"""Image functions against numpy and against their own definitions."""
import colorsys

import numpy as np
import pytest

import penstock as tf
from penstock._src.graph import context


@pytest.fixture(autouse=True)
def _eager():
    with context.enter(None):
        yield


RNG = np.random.RandomState(0)
IMAGE = RNG.rand(6, 8, 3).astype(np.float32)


@pytest.mark.parametrize("function, expected", [
    (tf.image.flip_left_right, lambda x: x[:, ::-1]), (tf.image.flip_up_down, lambda x: x[::-1]),
    (tf.image.transpose, lambda x: x.transpose(1, 0, 2)), (tf.image.rot90, lambda x: np.rot90(x)),
    (lambda x: tf.image.rot90(x, 3), lambda x: np.rot90(x, 3))])
def test_geometry_of_one_image_and_of_a_batch(function, expected):
    np.testing.assert_array_equal(function(IMAGE), expected(IMAGE))
    np.testing.assert_array_equal(function(np.stack([IMAGE, IMAGE]))[1], expected(IMAGE))


def test_crops_and_pads():
    np.testing.assert_array_equal(tf.image.crop_to_bounding_box(IMAGE, 1, 2, 3, 4), IMAGE[1:4, 2:6])
    padded = tf.image.pad_to_bounding_box(IMAGE, 1, 2, 10, 12).numpy()
    np.testing.assert_array_equal(padded[1:7, 2:10], IMAGE)
    assert padded.sum() == pytest.approx(IMAGE.sum(), rel=1e-5)
    np.testing.assert_array_equal(tf.image.central_crop(IMAGE, 0.5), IMAGE[1:5, 2:6])
    assert tf.image.resize_with_crop_or_pad(IMAGE, 4, 10).shape == (4, 10, 3)


@pytest.mark.parametrize("bad", [(-1, 0, 3, 3), (0, 0, 7, 3), (0, 6, 3, 3), (0, 0, 0, 3)])
def test_bad_boxes_are_refused(bad):
    with pytest.raises(ValueError):
        tf.image.crop_to_bounding_box(IMAGE, *bad)


@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic", "area", "lanczos3", "gaussian", "mitchellcubic"])
def test_a_constant_image_stays_constant(method):
    flat = np.full((5, 7, 2), 0.25, np.float32)
    np.testing.assert_allclose(tf.image.resize(flat, [11, 3], method=method), np.full((11, 3, 2), 0.25), rtol=1e-5)


def test_upscaling_by_repetition_and_downscaling_by_means():
    np.testing.assert_array_equal(tf.image.resize(IMAGE, [12, 16], method="nearest"), IMAGE.repeat(2, 0).repeat(2, 1))
    means = IMAGE.reshape(3, 2, 4, 2, 3).mean((1, 3))
    np.testing.assert_allclose(tf.image.resize(IMAGE, [3, 4], method="area"), means, rtol=1e-5)


def test_aspect_ratio_is_kept():
    assert tf.image.resize(IMAGE, [3, 100], preserve_aspect_ratio=True).shape == (3, 4, 3)


def test_colour_spaces():
    hsv = tf.image.rgb_to_hsv(IMAGE).numpy()
    np.testing.assert_allclose(hsv[2, 3], colorsys.rgb_to_hsv(*IMAGE[2, 3]), rtol=1e-5)
    np.testing.assert_allclose(tf.image.hsv_to_rgb(hsv), IMAGE, atol=1e-5)
    np.testing.assert_allclose(tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(IMAGE)), IMAGE, atol=1e-4)
    grey = tf.image.rgb_to_grayscale(IMAGE).numpy()
    np.testing.assert_allclose(grey[..., 0], IMAGE @ np.array([0.2989, 0.587, 0.114], np.float32), rtol=1e-4)
    assert tf.image.grayscale_to_rgb(grey).shape == (6, 8, 3)


def test_adjustments():
    np.testing.assert_allclose(tf.image.adjust_brightness(IMAGE, 0.1), IMAGE + 0.1, rtol=1e-5)
    mean = IMAGE.mean((0, 1), keepdims=True)
    np.testing.assert_allclose(tf.image.adjust_contrast(IMAGE, 2.0), (IMAGE - mean) * 2 + mean, rtol=1e-4, atol=1e-5)
    standard = tf.image.per_image_standardization(IMAGE).numpy()
    assert abs(standard.mean()) < 1e-5 and standard.std() == pytest.approx(1, rel=1e-4)


def test_codecs_lose_nothing_where_they_should_not():
    pixels = RNG.randint(0, 256, (5, 4, 3)).astype(np.uint8)
    np.testing.assert_array_equal(tf.image.decode_png(tf.image.encode_png(pixels)), pixels)
    deep = RNG.randint(0, 65536, (5, 4, 1)).astype(np.uint16)
    np.testing.assert_array_equal(tf.image.decode_png(tf.image.encode_png(deep), dtype=tf.uint16), deep)
    smooth = np.full((16, 16, 3), 100, np.uint8)
    near = tf.image.decode_jpeg(tf.image.encode_jpeg(smooth)).numpy().astype(int)
    assert np.abs(near - 100).max() <= 2


@pytest.mark.parametrize("data", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 20, b"\xff\xd8\xff\xe0 cut",
                                  b"GIF89a\xff"])
def test_broken_files_give_typed_errors(data):
    for decode in (tf.image.decode_png, tf.image.decode_jpeg, tf.image.decode_gif, tf.image.decode_bmp, tf.image.decode_image):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode(data)


def test_similarity():
    assert float(tf.image.psnr(IMAGE, IMAGE + 0.1, 1.0)) == pytest.approx(20, rel=1e-3)
    big = RNG.rand(24, 24, 1).astype(np.float32)
    assert float(tf.image.ssim(big, big, 1.0)) == pytest.approx(1.0, rel=1e-5)
    assert float(tf.image.ssim(big, 1 - big, 1.0)) < 0.2
    assert float(tf.image.total_variation(np.full((4, 4, 1), 2.0, np.float32))) == 0


def test_padded_suppression_of_batches():
    """Values recorded from TensorFlow 2.21."""
    half, same = [[0, 0, 2, 2], [0, 0, 1, 2]], [[0, 0, 2, 2], [0, 0, 2, 2]]
    for boxes, scores, size, threshold, lowest, expected in (
            ([same], [[.5, .9]], 4, 1.0, -np.inf, ([[1, 0, 0, 0]], [1])),
            ([half], [[.5, .9]], 4, 0.5, -np.inf, ([[1, 0, 0, 0]], [1])),
            ([half], [[.5, .9]], 3, 0.6, -np.inf, ([[1, 0, 0]], [2])),
            ([half], [[.5, .9]], 4, 0.6, 0.5, ([[1, 0, 0, 0]], [1])),
            ([half], [[-1., -2.]], 3, 0.6, -np.inf, ([[0, 1, 0]], [2])),
            ([[[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]], [[.5, .9, .1]], 3, 0.5, -np.inf, ([[2, 0, 0]], [1])),
            (half, [.5, .9], 4, 0.5, -np.inf, ([1, 0, 0, 0], 1)),
            ([[half, same], [same, half]], [[[.5, .9], [.3, .2]], [[.1, .2], [.5, .4]]], 3, .45, -np.inf,
             ([[[1, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]]], [[1, 1], [1, 1]]))):
        made = tf.image.non_max_suppression_padded(np.array(boxes, "f"), np.array(scores, "f"), size, threshold, lowest, True)
        assert tuple(t.numpy().tolist() for t in made) == expected

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None])])
    def padded(boxes, scores):
        indices, counts = tf.image.non_max_suppression_padded(boxes, scores, 3, 0.4, pad_to_max_output_size=True)
        assert indices.shape.as_list() == [None, 3] and counts.shape.as_list() == [None]
        return indices, counts
    assert [t.numpy().tolist() for t in padded([half, same], [[.5, .9], [.9, .5]])] == [[[1, 0, 0], [0, 0, 0]], [1, 1]]
    with pytest.raises(ValueError, match="must be True for batched input"):
        tf.image.non_max_suppression_padded([half], [[.5, .9]], 3)


def test_suppression_keeps_the_best_of_each_cluster():
    boxes = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]], np.float32)
    assert tf.image.non_max_suppression(boxes, [0.5, 0.9, 0.7], 3, 0.5).numpy().tolist() == [1, 2]
    assert tf.image.non_max_suppression(boxes, [0.5, 0.9, 0.7], 1, 0.5).numpy().tolist() == [1]
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.image.non_max_suppression(boxes, [0.5, 0.9, 0.7], 3, 1.5)


# What real TensorFlow 2.21 returns for a ramp of 2 x 4 x 3, by seed: which of six copies are turned, where the crop begins, the
# first element with another brightness and contrast.
STATELESS = {(1, 2): ([1, 0, 1, 0, 0, 1], 0.25, 0.34406042, 0.12843412),
             (7, 9): ([1, 1, 1, 0, 1, 1], 0.625, 0.1783272, 0.1719391),
             (3, 5): ([0, 0, 0, 0, 1, 1], 0.125, -0.19133246, 0.26897478)}


@pytest.mark.parametrize("seed", STATELESS)
def test_random_changes_that_a_seed_fixes(seed):
    ramp = np.arange(24, dtype="f").reshape(2, 4, 3) / 24
    turned, corner, bright, contrast = STATELESS[seed]
    batch = tf.image.stateless_random_flip_left_right(np.stack([ramp] * 6), seed).numpy()
    for image, was in zip(batch, turned):
        np.testing.assert_array_equal(image, ramp[:, ::-1] if was else ramp)
    np.testing.assert_allclose(tf.image.stateless_random_crop(ramp, [1, 2, 3], seed).numpy()[0, 0, 0], corner, rtol=1e-6)
    np.testing.assert_allclose(tf.image.stateless_random_brightness(ramp, 0.5, seed).numpy()[0, 0, 0], bright, rtol=1e-6)
    np.testing.assert_allclose(tf.image.stateless_random_contrast(ramp, 0.2, 0.8, seed).numpy()[0, 0, 0], contrast, rtol=1e-5)
    for change in (tf.image.stateless_random_hue, tf.image.stateless_random_flip_up_down):
        more = () if "flip" in change.__name__ else (0.3,)
        np.testing.assert_array_equal(change(ramp, *more, seed=seed), change(ramp, *more, seed=seed))


@pytest.mark.parametrize("size, offset, centered, expected", [      # as TensorFlow 2.21 answers
    (3, [1, 0], False, [[5, 6, 7], [10, 11, 12], [15, 16, 17]]),
    (4, [0, 0], True, [[12, 13, 14, 0], [17, 18, 19, 0], [22, 23, 24, 0], [0, 0, 0, 0]]),
])
def test_glimpses_in_pixels_begin_at_the_offset(size, offset, centered, expected):
    image = np.arange(25, dtype=np.float32).reshape(1, 5, 5, 1)
    got = tf.image.extract_glimpse(image, [size, size], np.float32([offset]), centered=centered, normalized=False,
                                   noise="zero")
    np.testing.assert_array_equal(np.asarray(got)[0, :, :, 0], expected)


PIXELS = np.array([[[.2, .5, .9], [.7, .7, .7], [-.2, .4, .1], [-.5, -.1, -.3]]], np.float32)


@pytest.mark.parametrize("change, expected", [
    (lambda x: tf.image.adjust_saturation(x, 1.7), [[0, .385714, .9], [.7] * 3, [0, .4, .2], [-.1] * 3]),
    (lambda x: tf.image.adjust_saturation(x, .25), [[.725, .8, .9], [.7] * 3, [.25, .4, .325], [-.1] * 3]),
    (lambda x: tf.image.adjust_hue(x, .3), [[.9, .2, .64], [.7] * 3, [-.02, -.2, .4], [-.38, -.5, -.1]])])
def test_colours_outside_of_the_range(change, expected):
    """Recorded from TensorFlow, which changes saturation and hue of negative numbers differently."""
    np.testing.assert_allclose(change(PIXELS), [expected], atol=2e-6)


@pytest.mark.parametrize("adjust", [tf.image.adjust_contrast, tf.image.adjust_hue, tf.image.adjust_saturation])
def test_adjustments_have_no_gradient(adjust):
    image = tf.Variable(IMAGE)
    with tf.GradientTape() as tape:
        adjusted = adjust(image, 0.5)
    with pytest.raises(LookupError, match="Adjust"):
        tape.gradient(adjusted, image)


def test_the_map_of_similarities_has_their_mean():
    a, b = (np.random.RandomState(i).rand(2, 14, 13, 3).astype(np.float32) for i in range(2))
    local = tf.image.ssim(a, b, 1., return_index_map=True)
    assert local.shape == (2, 4, 3)
    np.testing.assert_allclose(np.mean(local, (1, 2)), tf.image.ssim(a, b, 1.), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64])
def test_sobel_edges_of_other_types(dtype):
    image = np.arange(16.).reshape(1, 4, 4, 1)
    out = tf.image.sobel_edges(tf.constant(image, dtype))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, tf.image.sobel_edges(tf.constant(image, tf.float32)))


def test_the_method_of_decoding_may_be_given():
    image = tf.constant(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    np.testing.assert_array_equal(tf.image.adjust_jpeg_quality(image, 90, dct_method="INTEGER_ACCURATE"),
                                  tf.image.adjust_jpeg_quality(image, 90))


@pytest.mark.parametrize("channels", [3, 4])
def test_colours_of_16_bits_keep_all_of_them(channels):
    image = np.random.RandomState(5).randint(0, 1 << 16, (5, 7, channels)).astype(np.uint16)
    data = tf.io.encode_png(image)
    np.testing.assert_array_equal(tf.io.decode_png(data, dtype=tf.uint16), image)
    np.testing.assert_array_equal(tf.io.decode_image(data, dtype=tf.uint16), image)
    np.testing.assert_array_equal(tf.io.decode_png(data, 3, tf.uint16), image[:, :, :3])
    np.testing.assert_array_equal(tf.io.decode_png(data, 4, tf.uint16)[:, :, 3], image[:, :, 3] if channels == 4 else 65535)
    grey = tf.io.decode_png(data, 1, tf.uint16)
    np.testing.assert_allclose(grey[:, :, 0], image[:, :, :3] @ np.array([0.299, 0.587, 0.114]), rtol=0, atol=8)
    np.testing.assert_allclose(tf.io.decode_image(data, dtype=tf.float32), image / 65535, rtol=1e-6, atol=1e-7)
