"""tf.sysconfig, tf.resource_loader, tf.load_op_library, tf.xla, tf.vectorized_map."""
import os
import pathlib

import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf


def test_sysconfig():
    assert os.path.isdir(tf.sysconfig.get_include()) and os.path.isdir(penstock.sysconfig.get_lib())
    assert tf.sysconfig.get_compile_flags() == tf.sysconfig.get_link_flags() == []
    assert (tf.CXX11_ABI_FLAG, tf.MONOLITHIC_BUILD) == (tf.sysconfig.CXX11_ABI_FLAG, tf.sysconfig.MONOLITHIC_BUILD)


def test_files_beside_the_program():
    here = pathlib.Path(__file__)
    assert tf.resource_loader.get_data_files_path() == str(here.parent)
    assert tf.resource_loader.get_path_to_datafile("a.txt") == str(here.parent / "a.txt")
    assert tf.resource_loader.load_resource(here.name) == here.read_bytes()
    assert os.path.isdir(tf.resource_loader.get_root_dir_with_all_resources())


def test_compiled_libraries_are_refused(tmp_path):
    library = tmp_path / "ops.so"
    with pytest.raises(tf.errors.NotFoundError, match="ops.so: cannot open"):
        tf.load_op_library(str(library))
    library.write_bytes(b"")
    for load in (tf.load_op_library, tf.load_library, penstock.load_library):
        with pytest.raises(tf.errors.UnimplementedError, match="tf.py_func"):
            load(str(library))
    with pytest.raises(tf.errors.UnimplementedError, match="fsspec"):
        tf.load_file_system_library(str(library))


def test_xla_gives_the_same():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [2])
        with tf.xla.experimental.jit_scope():
            y = x * 3
        double, triple = tf.xla.experimental.compile(lambda a, b: [a * 2, b], [x, y])
        assert [v.tolist() for v in sess.run([double, triple], {x: [1, 2]})] == [[2, 4], [3, 6]]
        [only] = tf.xla.experimental.compile(lambda a: a + 1, [x])
        assert sess.run(only, {x: [1, 2]}).tolist() == [2, 3]


def test_jit_is_remembered():
    tf.config.optimizer.set_jit(True)
    assert penstock.config.optimizer.get_jit() is True
    tf.config.optimizer.set_jit(False)
    assert tf.config.optimizer.get_jit() is False


def test_vectorized_map():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    w = penstock.constant([1.0, 0.0, 2.0, 0.0])
    both = penstock.vectorized_map(lambda row: (penstock.reduce_sum(row * w), penstock.cast(row[0], penstock.int32)),
                                   penstock.constant(x))
    assert both[0].numpy().tolist() == (x @ w.numpy()).tolist() and both[1].numpy().tolist() == [0, 4, 8]
    pairs = penstock.vectorized_map(lambda p: p["a"] + p["b"], {"a": penstock.constant(x), "b": penstock.ones([3, 4])})
    assert np.array_equal(pairs.numpy(), x + 1)
    with tf.Graph().as_default(), tf.Session() as sess:
        a = tf.placeholder(tf.float32, [None, 4])
        y = tf.vectorized_map(lambda row: tf.tensordot(row, row, 1), a)
        value, slope = sess.run([y, tf.gradients(y, a)[0]], {a: x})
        np.testing.assert_allclose(value, (x * x).sum(1), rtol=1e-6)
        np.testing.assert_allclose(slope, 2 * x, rtol=1e-6)


def test_log_dir_is_the_programs_flag():
    """absl's logging defines a flag of this name, too."""
    import absl.flags
    import absl.logging  # noqa: F401
    before = absl.flags.FLAGS["log_dir"]
    try:
        tf.flags.DEFINE_string("log_dir", "./logs", "where summaries go")
        assert absl.flags.FLAGS["log_dir"].value == "./logs"
        with pytest.raises(absl.flags.DuplicateFlagError):
            tf.flags.DEFINE_integer("stderrthreshold", 3, "absl's own")
    finally:
        before.allow_override = True
        absl.flags.FLAGS["log_dir"] = before
        before.allow_override = False
