"""Arguments that request more time or memory than anyone has: a typed error, or an answer, at once."""
import zlib

import numpy as np
import pytest

import penstock as tf
from penstock._src.io import paths
from penstock._src.kernels import strings
from tests.checks import within_memory

v1 = tf.compat.v1
EMPTY = np.zeros([2], np.uint8)


def quantized(op):
    x = tf.bitcast(EMPTY, tf.quint8)
    return op(x=x, y=x, min_x=0., max_x=0., min_y=0., max_y=0.)


def array_write(index):
    return tf.TensorArray(tf.float32, 0, dynamic_size=True).write(index, 1.0)


def array_in_graph(index):
    with tf.Graph().as_default(), v1.Session() as sess:
        handle, flow = tf.raw_ops.TensorArrayV3(size=0, dtype=tf.float32, dynamic_size=True)
        return sess.run(tf.raw_ops.TensorArrayWriteV3(handle=handle, index=index, value=1.0, flow_in=flow))


def calls_itself(x):
    return ENDLESS(x)


ENDLESS = tf.function(calls_itself, input_signature=[tf.TensorSpec([], tf.int32)], autograph=False)
CALLS = {
    "width": lambda: tf.strings.as_string([1], width=2_000_000_000),
    "precision": lambda: tf.strings.as_string([1.5], precision=2_000_000_000),
    "raw": lambda: tf.io.decode_raw("a", tf.uint8, fixed_length=2**31 - 2),
    "raws": lambda: tf.io.decode_raw(["a"] * 100, tf.uint8, fixed_length=2**31 - 2),
    "rewrite": lambda: tf.strings.regex_replace("a" * 100_000, "a", "b" * 100_000),
    "pattern": lambda: tf.io.matching_files("[a" * 5000),
    "step": lambda: tf.signal.frame(tf.zeros([10]), 3, 0), "stft": lambda: tf.signal.stft(tf.zeros([10]), 3, 0),
    "add": lambda: quantized(tf.raw_ops.QuantizedAdd), "mul": lambda: quantized(tf.raw_ops.QuantizedMul),
    "write": lambda: array_write(2**31 - 1), "size": lambda: tf.TensorArray(tf.float32, 2**31 - 1),
    "graph": lambda: array_in_graph(2**31 - 1), "recursion": lambda: ENDLESS(1),
    "identity": lambda: tf.eye(2**31 - 1), "identities": lambda: tf.eye(2**31 - 1, 2**30, batch_shape=[9]),
    "text": lambda: tf.linalg.diag(["a", "b"]), "cast": lambda: tf.cast(["a"], tf.int32),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_an_error_at_once(name):
    with within_memory(1 << 30), pytest.raises(tf.errors.OpError):
        CALLS[name]()


def test_attempts_end():
    """No box can cover twice of what there is: the answer is the whole image, as after any number of attempts."""
    begin, size, _ = tf.image.sample_distorted_bounding_box([100, 100, 3], [[[0., 0., 1., 1.]]], min_object_covered=2.0,
                                                            max_attempts=2**31 - 1)
    assert begin.numpy().tolist() == [0, 0, 0] and size.numpy().tolist() == [100, 100, -1]


@pytest.mark.parametrize("many", [1, 8])
def test_bombs(monkeypatch, many):
    """One string, and many of which each is small enough."""
    monkeypatch.setattr(strings, "MAX_BYTES", 1 << 20)
    data = zlib.compress(bytes((1 << 21) // many))
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.io.decode_compressed([data] * many, "ZLIB")
    assert tf.io.decode_compressed([zlib.compress(b"a" * 99)] * 3, "ZLIB").numpy().tolist() == [b"a" * 99] * 3


def test_patterns_look_at_so_many_names(monkeypatch, tmp_path):
    for i in range(20):
        (tmp_path / f"{i}").mkdir()
    assert len(tf.io.matching_files(f"{tmp_path}/*")) == 20
    monkeypatch.setattr(paths, "_NAMES", 10)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="names"):
        tf.io.matching_files(f"{tmp_path}/*/x")


@pytest.mark.parametrize("pattern", ["*", "./*", "src/*/", "src//*", "tests/[a-c]*/*.py", "nope/*", "src/**/_*", "[", "*/",
                                     "src/.*"])
def test_patterns_match_as_the_standard_library_does(pattern):
    import glob
    assert paths.glob(pattern) == sorted(glob.glob(pattern))
