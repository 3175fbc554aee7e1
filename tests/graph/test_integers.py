"""Integers with more bits than a type are errors, wherever a Python or numpy value becomes a tensor.

TensorFlow 2.21 raises the same ValueError for what does not fit in int64, and wraps around below that. The bits of a type may
be given as signed or as unsigned integers, there and here.
"""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1

BIG = 2**32 + 5
WORDS = "out-of-range integer"
KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def forms(value):
    """A value as Python, numpy and nested values."""
    yield from (value, [value], [[0], [value]], [0, np.int64(value) if -2**63 <= value < 2**63 else value])
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= value <= np.iinfo(kind).max:
            yield from (kind(value), np.array([value], kind), np.array([[0], [value]], kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph", [False, True])
def test_the_limits_of_every_type(kind, graph):
    dtype = tf.as_dtype(kind)
    with tf.Graph().as_default() if graph else v1.name_scope("eager"):
        for good in (dtype.min, dtype.max):
            for value in forms(int(good)):
                array = np.asarray(value)
                if array.dtype.kind not in "iu":
                    continue                                   # numpy has no type for the list
                made = tf.constant(value, dtype)
                assert made.shape == array.shape
                if not graph:
                    assert made.numpy().ravel()[-1] == good
        bits = 8 * dtype.size
        for bad in (-2**(bits - 1) - 1, 2**bits, -2**64, 2**64, 2**100):
            for value in forms(bad):
                with pytest.raises(ValueError, match=WORDS):
                    tf.constant(value, dtype)
                with pytest.raises(ValueError, match=WORDS):
                    tf.convert_to_tensor(value, dtype)


def test_bits_may_be_given_as_signed_or_unsigned():
    for value, kind, right in ((-1, tf.uint8, 255), ([-128], tf.uint8, [128]), (255, tf.int8, -1), (0xFFFFFFFF, tf.int32, -1),
                               (np.int64(-1), tf.uint32, 2**32 - 1), ([0x80000000, 1], tf.int32, [-2**31, 1])):
        assert tf.constant(value, kind).numpy().tolist() == right
        with tf.Graph().as_default(), v1.Session() as sess:
            assert sess.run(tf.constant(value, kind)).tolist() == right


@pytest.mark.parametrize("call", [
    lambda: tf.constant(2**63, tf.int64), lambda: tf.constant([[2**63]], tf.int64),
    lambda: tf.constant([0, 2**64 - 1], tf.int64),
    lambda: tf.convert_to_tensor(2**63, tf.int64), lambda: tf.constant(1, tf.int64) + 2**63,
    lambda: tf.Variable(1, dtype=tf.int64).assign(2**63), lambda: tf.data.Dataset.range(2**63)])
def test_python_integers_above_int64_are_errors(call):
    with pytest.raises(ValueError, match=WORDS):
        call()
    assert tf.constant(np.uint64(2**63), tf.int64).numpy() == -2**63


def test_the_default_type_is_wide_enough_or_an_error():
    assert tf.constant(BIG).dtype == tf.int64 and int(tf.constant(BIG)) == BIG
    for value in (2**63, [1, 2**63], -2**63 - 1, 2**64):
        with pytest.raises(ValueError, match=WORDS):
            tf.constant(value)
    with tf.Graph().as_default():
        assert tf.constant(2**63).dtype == tf.uint64           # as in TensorFlow's graphs


CALLS = {
    "add": lambda x: x + BIG, "radd": lambda x: BIG + x, "less": lambda x: x < BIG,
    "equal": lambda x: tf.equal(x, BIG), "maximum": lambda x: tf.maximum(x, BIG), "where": lambda x: tf.where(True, x, BIG),
    "list": lambda x: x + [1, BIG], "stack": lambda x: tf.stack([x, BIG]), "pack": lambda x: tf.convert_to_tensor([x, BIG]),
    "clip": lambda x: tf.clip_by_value(x, 0, BIG), "numpy": lambda x: x + np.int64(BIG),
    "array": lambda x: tf.equal(x, np.array([BIG])), "scatter": lambda x: tf.tensor_scatter_nd_update([x, x], [[1]], [BIG]),
    "attribute": lambda x: tf.raw_ops.Unpack(value=[x], num=2**64), "proto": lambda x: tf.make_tensor_proto(BIG, tf.int32),
    "attributes": lambda x: tf.nn.max_pool(tf.zeros([1, 2, 2, 1]), [1, 2**64, 1, 1], 1, "VALID"),
    "ragged": lambda x: tf.ragged.constant([[1], [BIG]], tf.int32), "fill": lambda x: tf.fill([2**64], x),
    "zeros": lambda x: tf.zeros([2**64]), "range": lambda x: tf.range(2**64, 2**64 + 2),
    "gather": lambda x: tf.gather([x], 2**64),
    "slice": lambda x: tf.stack([x])[:2**64], "dataset": lambda x: tf.data.Dataset.from_tensors(2**64),
    "elements": lambda x: tf.data.Dataset.from_tensor_slices([1, 2**63]),
    "batch": lambda x: tf.data.Dataset.range(2).batch(2**64),
}


@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize("graph", [False, True])
def test_operators_and_arguments(name, graph):
    with tf.Graph().as_default() if graph else v1.name_scope("eager"), \
            pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)):
        CALLS[name](tf.constant(5))


def test_comparing():
    with pytest.raises(ValueError, match=WORDS):
        _ = tf.constant(5) == BIG


def test_tile_repeats_as_often_as_asked_for_or_not_at_all():
    """`[1]` 2**40 + 2 times: more than there is memory for, not 2 elements."""
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.tile([1], [2**40 + 2])


LISTS = {
    "tile": lambda n: tf.tile([1], [n]),
    "pad": lambda n: tf.pad([1], [[n, 0]]),
    "mirror": lambda n: tf.pad([1, 2, 3], [[n, 0]], "REFLECT"),
    "fill": lambda n: tf.fill([n], 0),
    "reshape": lambda n: tf.reshape([0], [n]),
    "broadcast": lambda n: tf.reduce_sum(tf.broadcast_to(1, [n])),
    "slice": lambda n: tf.slice([1, 2, 3], [n], [1]),
    "gather": lambda n: tf.gather([1, 2], [n]),
}


@pytest.mark.parametrize("name", LISTS)
def test_integers_in_lists_of_tensors(name):
    """The list of an op that takes int32 by default keeps int64: `n` is a huge size, not 0."""
    n = tf.constant(2**62, tf.int64)
    wide = (tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError)
    with pytest.raises(wide):
        LISTS[name](n)
    with pytest.raises(wide):
        tf.function(LISTS[name])(n)


def test_a_list_of_tensors_has_their_type():
    """TensorFlow's results: a list whose tensors an op does not take is converted."""
    wide, narrow = tf.constant(2, tf.int64), tf.constant(3)
    with v1.Graph().as_default():
        z = tf.zeros([6])
        assert [tf.reshape(z, shape).op.inputs[1].dtype for shape in ([tf.constant(6, tf.int64)], [tf.constant(6)])] == \
            [tf.int64, tf.int32]
        assert tf.reshape(z, [tf.constant(2, tf.int64), tf.constant(3)]).op.inputs[1].dtype == tf.int32
        assert tf.reshape(z, [tf.constant(2.0), 3]).op.inputs[1].dtype == tf.int32
    np.testing.assert_array_equal(tf.tile([1], [wide]), [1, 1])
    np.testing.assert_array_equal(tf.fill([wide, 3], 1), tf.ones([2, 3]))
    np.testing.assert_array_equal(tf.range(wide, narrow), [2])


@pytest.mark.parametrize("value", [BIG, np.int64(BIG), np.array(BIG), 2**63])
def test_assignments(value):
    v = tf.Variable(5)
    for write in (v.assign, v.assign_add, v.assign_sub):
        with pytest.raises(ValueError, match=WORDS):
            write(value)
    with pytest.raises(ValueError, match=WORDS):
        tf.Variable(value, dtype=tf.int32)
    assert int(v) == 5


@pytest.mark.parametrize("value", [BIG, [BIG], np.int64(BIG), np.array([BIG]), [[2**64]], -2**31 - 1])
def test_feeds(value):
    with tf.Graph().as_default(), v1.Session() as sess:
        x = v1.placeholder(tf.int32, None)
        with pytest.raises((ValueError, TypeError)):
            sess.run(x + 0, {x: value})
        assert sess.run(x + 0, {x: np.array([7])}).tolist() == [7]


def test_generators_and_functions():
    made = tf.data.Dataset.from_generator(lambda: iter([7, BIG]), output_signature=tf.TensorSpec([], tf.int32))
    elements = iter(made)
    assert int(next(elements)) == 7
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not be converted"):
        next(elements)
    traced = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec([], tf.int32)])
    with pytest.raises(ValueError):
        traced(BIG)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.py_function(lambda: BIG, [], tf.int32)


def test_floats_and_casts_are_as_before():
    assert tf.constant(np.array([1.5]), tf.int32).numpy().tolist() == [1]
    assert int(tf.cast(BIG, tf.int32)) == 5                 # what cast is for
    assert tf.constant(2**64, tf.float32).numpy() == np.float32(2**64)


def test_arrays_of_generators_and_weights():
    """Where TensorFlow lets NumPy convert an array, whose integers then wrap."""
    wide = np.array([2**32 + 5, 1])
    for value in (wide, np.int64(2**32 + 5)):
        signature = tf.TensorSpec(np.shape(value), tf.int32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="could not be converted"):
            list(tf.data.Dataset.from_generator(lambda value=value: iter([value]), output_signature=signature))
    fitting = tf.data.Dataset.from_generator(lambda: iter([np.array([7, -7])]), output_signature=tf.TensorSpec([2], tf.int32))
    assert next(iter(fitting)).numpy().tolist() == [7, -7]
    counts = tf.Variable([0, 0])
    with pytest.raises(ValueError, match="out-of-range integer"):
        tf.keras.backend.set_value(counts, wide)
    tf.keras.backend.set_value(counts, np.array([3, -4]))
    assert counts.numpy().tolist() == [3, -4]
    double = tf.keras.backend.function([x := tf.compat.v1.keras.Input((), dtype="int32")], [x * 2])
    with pytest.raises(ValueError, match="out-of-range integer"):
        double([wide])


@pytest.mark.parametrize("graph", [False, True])
def test_integer_attributes_take_floats(graph):
    def both(f):
        return (tf.function(f) if graph else f)().numpy()
    assert both(lambda: tf.raw_ops.Pack(values=[[1, 2], [3, 4]], axis=1.9)).tolist() == [[1, 3], [2, 4]]
    assert both(lambda: tf.squeeze([[1]], np.float32(0))).shape == (1,)
    assert both(lambda: tf.nn.max_pool2d(tf.ones([1, 4, 4, 1]), 2.0, [2.0, 2], "SAME")).shape == (1, 2, 2, 1)
    tf.random.set_seed(1.0)
    drawn = both(lambda: tf.random.uniform([2], seed=3.7))
    tf.random.set_seed(1)
    assert drawn.tolist() == both(lambda: tf.random.uniform([2], seed=3)).tolist()
    for wrong in ("0", float("nan"), float("inf")):
        with pytest.raises((TypeError, ValueError), match="axis"):
            both(lambda wrong=wrong: tf.raw_ops.Pack(values=[1, 2], axis=wrong))
