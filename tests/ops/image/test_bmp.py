"""BMP files; the expected pixels are those that TensorFlow 2.21 decodes."""
import struct

import numpy as np
import pytest

import penstock as tf


def bmp(width, height, bits, data, palette=b""):
    """A file with a header of 40 bytes."""
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + len(palette)) + struct.pack(
        "<IiiHHIIIIII", 40, width, height, 1, bits, 0, 0, 0, 0, 0, 0) + palette + data


GREY = bytes([1, 2, 0, 0, 3, 4, 0, 0])


@pytest.mark.parametrize("decode", [tf.io.decode_bmp, tf.io.decode_image])
@pytest.mark.parametrize(("data", "channels", "expected"), [
    (bmp(2, 2, 8, GREY), 0, [[[3], [4]], [[1], [2]]]),
    (bmp(2, -2, 8, GREY), 0, [[[1], [2]], [[3], [4]]]),
    (bmp(2, 2, 8, GREY, bytes(range(256)) * 4), 0, [[[3], [4]], [[1], [2]]]),
    (bmp(2, 2, 8, GREY), 3, [[[3] * 3, [4] * 3], [[1] * 3, [2] * 3]]),
    (bmp(1, 1, 24, bytes([1, 2, 3, 0])), 0, [[[3, 2, 1]]]),
    (bmp(1, 1, 24, bytes([1, 2, 3, 0])), 4, [[[3, 2, 1, 255]]]),
    (bmp(1, 1, 32, bytes([1, 2, 3, 9])), 0, [[[3, 2, 1, 9]]])])
def test_pixels(decode, data, channels, expected):
    assert decode(data, channels=channels).numpy().tolist() == expected


@pytest.mark.parametrize(("data", "channels", "why"), [
    (bmp(1, 1, 24, bytes([1, 2, 3, 0])), 1, "channels=1"),
    (bmp(1, 1, 16, bytes([1, 2, 3, 0])), 0, "got 16"),
    (bmp(1, 1, 24, bytes([1, 2])), 0, "58 are needed"),
    (bmp(0, 1, 24, bytes([1, 2])), 0, "0 x 1"),
    (bmp(1 << 15, 1 << 15, 24, bytes([1, 2])), 0, "too large"),
    (b"BM12", 0, "4 bytes")])
def test_damaged_files_are_refused(data, channels, why):
    with pytest.raises(tf.errors.InvalidArgumentError, match=why):
        tf.io.decode_bmp(data, channels=channels)


def test_rows_are_padded_to_four_bytes():
    pixels = np.arange(3 * 5 * 3, dtype=np.uint8).reshape(3, 5, 3)
    rows = b"".join(row[:, ::-1].tobytes() + b"\0" for row in pixels[::-1])
    assert np.array_equal(tf.io.decode_bmp(bmp(5, 3, 24, rows)).numpy(), pixels)
