"""Lists of strings in C: the values of numpy and Python."""
from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pytest

import penstock as tf
from penstock._src.kernels import hashing
from penstock._src.kernels.host_threads import compiled
from penstock._src.ops.strings import strings

pytestmark = pytest.mark.skipif(compiled("_text") is None, reason="needs compiled kernels")


def test_fingerprints_of_all_lengths():
    r = random.Random(0)
    texts = [r.randbytes(n) for n in [*range(200), 255, 256, 257, 1000, 4096]]
    np.testing.assert_array_equal(hashing.fingerprint64(texts), hashing.fingerprint64_by_numpy(texts))
    with pytest.raises(TypeError):
        hashing.fingerprint64(["text"])


@pytest.mark.parametrize("texts", [["1", "-2.5", "+0.125", "007", "123456789012345678.000000000000000001"], ["1e5", "inf"], [],
                                   [" 7", "3"], [".5"], ["5."]])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_numbers(texts, dtype):
    found = tf.strings.to_number(tf.constant(texts, tf.string), dtype)
    np.testing.assert_array_equal(found, np.array([float(t) for t in texts], dtype.as_numpy_dtype))


def test_what_is_no_number_is_named():
    with pytest.raises(tf.errors.InvalidArgumentError, match="1,5"):
        tf.strings.to_number(["1", "1,5"])


@pytest.mark.parametrize("widths", [2, [1, 3], [4]])
@pytest.mark.parametrize("separator", [" ", "", "ab"])
def test_runs_of_words(widths, separator):
    words = tf.ragged.constant([["a", "bb", ""], [], ["c"], ["d", "e", "f", "g"]])
    with mock.patch.object(strings, "compiled", lambda name: None):
        expected = tf.strings.ngrams(words, widths, separator).to_list()
    assert tf.strings.ngrams(words, widths, separator).to_list() == expected
    assert expected[3][:2] != expected[3][1:3]
