"""Variable scopes: names, reuse, defaults, getters, partitions, threads."""
import threading

import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_names():
    with tf.variable_scope("a") as a:
        v = tf.get_variable("v", [1])
        with tf.variable_scope("b"), tf.name_scope("n"):
            w = tf.get_variable("w", [1])
            c = tf.constant(1., name="c")
    with tf.variable_scope(a), tf.variable_scope("b"):
        d = tf.constant(1., name="d")
    assert [v.name, w.name, c.name, d.name] == ["a/v:0", "a/b/w:0", "a/b/n/c:0", "a_1/b/d:0"]
    assert a.name == "a" and a.original_name_scope == "a/"


def test_default_names_are_made_unique():
    names = []
    for _ in range(2):
        with tf.variable_scope(None, "layer"):
            names.append(tf.get_variable("v", [1]).name)
    assert names == ["layer/v:0", "layer_1/v:0"]
    with pytest.raises(TypeError, match="name_or_scope is required"):
        tf.variable_scope(None)
    with pytest.raises(ValueError, match="reuse=True cannot be used without a name_or_scope"):
        with tf.variable_scope(None, "layer", reuse=True):
            pass


def test_reuse():
    with tf.variable_scope("s"):
        v = tf.get_variable("v", [2])
        with pytest.raises(ValueError, match="already exists, disallowed"):
            tf.get_variable("v", [2])
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("v", [2]) is v
        with pytest.raises(ValueError, match="does not exist"):
            tf.get_variable("w", [2])
        with pytest.raises(ValueError, match=r"specified shape \(3,\) and found shape \(2,\)"):
            tf.get_variable("v", [3])
        with pytest.raises(ValueError, match="specified dtype int32 and found dtype float32"):
            tf.get_variable("v", [2], tf.int32)
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE), tf.variable_scope("t"):
        assert tf.get_variable("u", [1]) is tf.get_variable("u", [1])
    with tf.variable_scope("s") as s:
        s.reuse_variables()
        assert tf.get_variable("v") is v
    with pytest.raises(ValueError, match="reuse parameter"):
        tf.variable_scope("s", reuse=3)


def test_defaults_are_inherited():
    with tf.variable_scope("a", initializer=tf.constant_initializer(3.), regularizer=lambda v: tf.reduce_sum(v),
                           dtype=tf.float64, use_resource=True):
        with tf.variable_scope("b"):
            v = tf.get_variable("v", [2])
        w = tf.get_variable("w", [2], regularizer=tf.no_regularizer, initializer=tf.ones_initializer())
    assert v.dtype == tf.float64 and hasattr(v, "handle") and hasattr(w, "handle")
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(tf.losses.get_regularization_loss() if hasattr(tf, "losses") else
                        tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)[0]) == 6.
        np.testing.assert_array_equal(sess.run(v.value()), [3, 3])


def test_initializers_of_every_form():
    v = tf.get_variable("a", initializer=tf.constant([1., 2.]))
    w = tf.get_variable("b", [2], initializer=tf.ones_initializer)
    u = tf.get_variable("c", initializer=lambda: tf.ones([3]))
    assert v.shape == [2] and w.shape == [2] and u.shape == [3]
    assert tf.get_variable("d", [2], tf.int32).dtype.base_dtype == tf.int32
    with pytest.raises(ValueError, match="do not specify shape"):
        tf.get_variable("e", [2], initializer=tf.constant([1., 2.]))
    with pytest.raises(ValueError, match="don't match"):
        tf.get_variable("f", dtype=tf.int32, initializer=tf.constant([1., 2.]))
    with pytest.raises(ValueError, match="did not get an initializer"):
        tf.get_variable("g")
    with pytest.raises(ValueError, match="initializer for variable h of"):
        tf.get_variable("h", [1], tf.complex64)


def test_custom_getters_are_nested():
    calls = []

    def getter(tag):
        def get(getter, name, *args, **kwargs):
            calls.append((tag, name))
            return getter(name, *args, **kwargs) * 2.
        return get
    with tf.variable_scope("s", custom_getter=getter("outer")):
        with tf.variable_scope("t", custom_getter=getter("inner")):
            v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    assert calls == [("inner", "s/t/v"), ("outer", "s/t/v")]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(v) == 4.
    with pytest.raises(ValueError, match="not callable"):
        tf.get_variable("w", [1], custom_getter=3)


def test_partitions():
    v = tf.get_variable("v", [5, 2], partitioner=tf.fixed_size_partitioner(2),
                        initializer=lambda shape, dtype, partition_info: tf.fill(
                            shape, tf.cast(partition_info.single_offset(shape), dtype)))
    parts = list(v)
    assert [p.name for p in parts] == ["v/part_0:0", "v/part_1:0"] and [p.shape.as_list() for p in parts] == [[3, 2], [2, 2]]
    assert parts[1]._get_save_slice_info().spec == "5 2 3,2:0,2"
    assert len(v) == 2 and v.get_shape() == [5, 2]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(tf.convert_to_tensor(v))[:, 0], [0, 0, 0, 3, 3])
        sess.run([a.op for a in v.assign(np.arange(10, dtype=np.float32).reshape(5, 2))])
        np.testing.assert_array_equal(sess.run(v.as_tensor()), np.arange(10).reshape(5, 2))
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        assert tf.get_variable("v", [5, 2]) is v
        with pytest.raises(ValueError, match="specified partitions"):
            tf.get_variable("v", [5, 2], partitioner=tf.fixed_size_partitioner(3))
    with pytest.raises(ValueError, match="partitioned version of the variable was found"):
        tf.get_variable("v", [5, 2])


def test_partitioned_slots_keep_the_partition():
    v = tf.get_variable("v", [4, 2], partitioner=tf.fixed_size_partitioner(2))
    opt = tf.train.MomentumOptimizer(0.1, 0.9)
    opt.minimize(tf.reduce_sum(v))
    slot = opt.get_slot(list(v)[1], "momentum")
    assert slot._get_save_slice_info().full_name == "v/Momentum" and slot.shape == [2, 2]


@pytest.mark.parametrize("partitioner, shape, want", [
    (tf.fixed_size_partitioner(5, axis=1), [2, 3], [1, 3]),
    (tf.variable_axis_size_partitioner(16), [8, 2], [4, 1]),
    (tf.variable_axis_size_partitioner(4, max_shards=3), [8, 2], [3, 1]),
    (tf.min_max_variable_partitioner(max_partitions=4, min_slice_size=8), [8, 2], [4, 1]),
    (tf.min_max_variable_partitioner(max_partitions=100, min_slice_size=32), [8, 2], [2, 1]),
])
def test_partitioners(partitioner, shape, want):
    assert partitioner(shape=tf.TensorShape(shape), dtype=tf.float32) == want


@pytest.mark.parametrize("bad, text", [
    (lambda **kw: 3, "must return a sequence"), (lambda **kw: [2], "does not match the Variable's rank"),
    (lambda **kw: [0, 1], "zero partitions"), (lambda **kw: [2, 2], "along one dimension"), (3, "must be callable")])
def test_bad_partitioners(bad, text):
    with pytest.raises(ValueError, match=text):
        tf.get_variable("v", [4, 4], partitioner=bad)


def test_local_variables():
    v = tf.get_local_variable("v", [1])
    assert tf.local_variables() == [v] and not tf.global_variables() and not tf.trainable_variables()


def test_a_new_thread_begins_at_the_root():
    found = []
    with tf.variable_scope("s") as s:
        def work(g=tf.get_default_graph()):
            with g.as_default():
                found.append(tf.get_variable_scope().name)
        t = threading.Thread(target=work)
        t.start()
        t.join()
        assert s.name == "s"
    assert found == [""]


def test_nesting_is_checked():
    a = tf.variable_scope("a")
    a.__enter__()
    with tf.variable_scope("b"):
        with pytest.raises(RuntimeError, match="Improper nesting"):
            a.__exit__(None, None, None)
    a.__exit__(None, None, None)
    assert tf.get_variable_scope().name == ""


def test_templates_share_variables():
    scale = tf.make_template("scale", lambda x, by: x * tf.get_variable("s", [], initializer=tf.ones_initializer()) * by,
                             by=2.)
    first, second = scale(tf.constant(1.)), scale(tf.constant(2.))
    other = tf.make_template("scale", lambda: tf.get_variable("s", []))
    assert [v.name for v in scale.variables] == ["scale/s:0"] == [v.name for v in scale.trainable_variables]
    assert other().name == "scale_1/s:0"
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run([first, second]) == [2., 4.]


def test_a_template_must_not_make_variables_later():
    bad = tf.make_template("bad", lambda: tf.Variable(1.))
    bad()
    with pytest.raises(ValueError, match=r"(?s)Trainable variable created.*originally defined at:.*test_scope"):
        bad()


def test_initializers_get_partition_info_only_by_name():
    seen = []

    def strict(shape, dtype=None, **kwargs):
        seen.append(kwargs)
        return tf.zeros(shape, dtype)

    def informed(shape, dtype=None, partition_info=None):
        return tf.zeros(shape, dtype)
    tf.get_variable("a", [2], initializer=strict)
    tf.get_variable("b", [2], initializer=informed)
    assert seen == [{}]
