"""Variables that begin with values of another run: init_from_checkpoint, warm_start, remapped vocabularies."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.base import errors


@pytest.fixture
def old(tmp_path):
    """A checkpoint with a matrix of four words, and their vocabulary."""
    tf.disable_v2_behavior()
    (tmp_path / "old.txt").write_text("a\nb\nc\nd\n")
    (tmp_path / "new.txt").write_text("c\nx\na\n")
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("s/words", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
        tf.get_variable("s/b", initializer=5.0)
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(tmp_path / "m"))
    return tmp_path


def test_names_scopes_and_variables(old):
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = tf.get_variable("new/words", [4, 2]), tf.get_variable("other", [])
        tf.train.init_from_checkpoint(str(old), {"s/words": "new/words", "s/b": b})
        sess.run(tf.global_variables_initializer())
        assert sess.run(a).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]] and sess.run(b) == 5.0
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = tf.get_variable("new/words", [4, 2]), tf.get_variable("new/b", [])
        tf.train.init_from_checkpoint(str(old / "m"), {"s/": "new/"})
        sess.run(tf.global_variables_initializer())
        assert sess.run(b) == 5.0
        with pytest.raises(ValueError, match="is not found"):
            tf.train.init_from_checkpoint(str(old), {"nothing": a})
        with pytest.raises(ValueError, match="doesn't match with shape"):
            tf.train.init_from_checkpoint(str(old), {"s/words": b})


@pytest.mark.parametrize("parts", [1, 2])
def test_a_changed_vocabulary(old, parts):
    with tf.Graph().as_default(), tf.Session() as sess:
        with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(parts)):
            words = tf.get_variable("words", [4, 2], initializer=tf.ones_initializer())
        info = tf.train.VocabInfo(str(old / "new.txt"), 3, 1, str(old / "old.txt"),
                                  backup_initializer=tf.constant_initializer(9.0))
        tf.train.warm_start(str(old), vars_to_warm_start=".*words.*", var_name_to_vocab_info={"s/words": info})
        sess.run(tf.global_variables_initializer())
        assert sess.run(tf.convert_to_tensor(words)).tolist() == [[4, 5], [9, 9], [0, 1], [9, 9]]


def test_warm_start_by_pattern(old):
    with tf.Graph().as_default(), tf.Session() as sess:
        b = tf.get_variable("s/b", [])
        tf.train.warm_start(str(old))
        sess.run(tf.global_variables_initializer())
        assert sess.run(b) == 5.0
        with pytest.raises(ValueError, match="that were not used"):
            tf.train.warm_start(str(old), var_name_to_prev_var_name={"typo": "s/b"})


def test_remapping_is_checked(old):
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(errors.UnimplementedError, match="more than once"):
            sess.run(tf.raw_ops.LoadAndRemapMatrix(ckpt_path=str(old / "m"), old_tensor_name="s/words", row_remapping=[0, 0],
                                                   col_remapping=tf.zeros([0], tf.int64), initializing_values=tf.zeros([0]),
                                                   num_rows=2, num_cols=2))
        swapped = tf.raw_ops.LoadAndRemapMatrix(ckpt_path=[str(old / "m")], old_tensor_name="s/words", row_remapping=[1, 0],
                                                col_remapping=tf.zeros([0], tf.int64), initializing_values=tf.zeros([0]),
                                                num_rows=2, num_cols=2)
        np.testing.assert_array_equal(sess.run(swapped), tf.train.load_variable(str(old / "m"), "s/words")[[1, 0]])
        remapping, present = sess.run(tf.raw_ops.GenerateVocabRemapping(
            new_vocab_file=str(old / "new.txt"), old_vocab_file=str(old / "old.txt"), new_vocab_offset=0, num_new_vocab=3))
        assert remapping.tolist() == [2, -1, 0] and present == 2


def test_two_variables_start_from_one(old):
    with tf.Graph().as_default(), tf.Session() as sess:
        same, other = tf.get_variable("s/b", []), tf.get_variable("t", [])
        tf.train.warm_start(str(old), vars_to_warm_start=["s/b", "t"], var_name_to_prev_var_name={"t": "s/b"})
        sess.run(tf.global_variables_initializer())
        assert sess.run([same, other]) == [5.0, 5.0]
