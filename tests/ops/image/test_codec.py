"""Image files: the fast decoder of JPEGs returns what Pillow returns, and passes unsupported files to Pillow."""
import io

import numpy as np
import pytest
from PIL import Image

import penstock as tf
from penstock._src.ops.image import codec


def jpeg(mode, quality=90, **options):
    pixels = np.random.RandomState(0).randint(0, 255, (37, 53, 3)).astype("uint8")
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, "JPEG", quality=quality, **options)
    return out.getvalue()


@pytest.mark.parametrize("channels", [0, 1, 3])
@pytest.mark.parametrize("data", [jpeg("RGB"), jpeg("RGB", subsampling=0), jpeg("RGB", progressive=True), jpeg("L"),
                                  jpeg("CMYK")], ids=["420", "444", "progressive", "grey", "cmyk"])
def test_both_decoders_agree(data, channels, monkeypatch):
    fast = tf.io.decode_jpeg(data, channels=channels).numpy()
    monkeypatch.setattr(codec, "_simplejpeg", lambda: None)
    np.testing.assert_array_equal(fast, tf.io.decode_jpeg(data, channels=channels).numpy())


def test_broken_and_other_data():
    data = jpeg("RGB")
    for bad in (data[:200], b"\xff\xd8\xff" + b"x" * 100, b"", data[:300] + b"\x00" * 50):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.io.decode_jpeg(bad)
    png = tf.io.encode_png(np.zeros((2, 3, 3), "uint8")).numpy()
    assert tf.io.decode_jpeg(png).shape == (2, 3, 3)


def test_arrays_of_16_bits_are_encoded_with_16_bits():
    pixels = (np.arange(12).reshape(2, 2, 3) * 20).astype(np.uint16)            # they fit 8 bits, too
    assert np.array_equal(tf.io.decode_png(tf.io.encode_png(pixels), dtype=tf.uint16), pixels)
    assert np.array_equal(tf.function(lambda: tf.io.decode_png(tf.io.encode_png(pixels), dtype=tf.uint16))(), pixels)


@pytest.mark.parametrize("name", ["decode_png", "decode_jpeg", "decode_gif"])
def test_a_bitmap_is_not_decoded_by_ops_of_other_formats(name):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Trying to decode BMP format using a wrong op.*Decode"):
        getattr(tf.io, name)(b"BM" + bytes(60))


def test_other_formats_are_not_decoded_as_bitmaps():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Trying to decode PNG format using DecodeBmp op"):
        tf.io.decode_bmp(tf.io.encode_png(np.zeros((2, 2, 3), np.uint8)))
