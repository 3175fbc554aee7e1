"""TensorArray in v1 graphs, functions and eager mode; the list ops below it; map_fn and folds."""
import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.ops.registry import get
from tests.graph.test_control_flow import F, Mode, graphs, modes

Mode.__test__ = False


@pytest.fixture(autouse=True)
def _v1_control_flow():
    context.process.v2_control_flow = False


@modes
def test_write_read_stack(mode):
    def f(x):
        ta = tf.TensorArray(tf.float32, 3, clear_after_read=False).write(0, x).write(2, x * 3.0).write(1, x * 2.0)
        return ta.stack(), ta.read(1), ta.gather([2, 0]), ta.size()
    stacked, one, some, size = mode.run(f, np.array([1, 2], F))
    assert stacked.tolist() == [[1, 2], [2, 4], [3, 6]] and one.tolist() == [2, 4]
    assert some.tolist() == [[3, 6], [1, 2]] and size == 3


@modes
def test_unstack_scatter_split_concat(mode):
    def f(x):
        a = tf.TensorArray(tf.float32, 3).unstack(x).stack()
        b = tf.TensorArray(tf.float32, 3).scatter([2, 0, 1], x).stack()
        c = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 2]).concat()
        return a, b, c
    x = np.arange(6, dtype=F).reshape(3, 2)
    a, b, c = mode.run(f, x)
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, x[[1, 2, 0]])
    np.testing.assert_array_equal(c, x)


@modes
def test_gradients(mode):
    def f(x):
        ta = tf.TensorArray(tf.float32, 2, clear_after_read=False).write(0, x).write(1, x * x)
        return tf.reduce_sum(ta.stack() * [[1.0], [10.0]]) + tf.reduce_sum(ta.read(1))
    x = np.array([2, 3], F)
    np.testing.assert_allclose(mode.grads(f, x)[1][0], 1 + 11 * 2 * x, rtol=1e-6)


@modes
def test_gradients_through_a_loop(mode):
    def f(x):
        rows = tf.TensorArray(tf.float32, 3).unstack(x)
        out = tf.TensorArray(tf.float32, 3)
        _, out = tf.while_loop(lambda i, _: i < 3, lambda i, o: (i + 1, o.write(i, tf.square(rows.read(i)))),
                               (tf.constant(0), out))
        return tf.reduce_sum(out.stack())
    x = np.array([1, 2, 3], F)
    value, (g,) = mode.grads(f, x)
    assert value == 14 and g.tolist() == [2, 4, 6]


@modes
def test_growing(mode):
    def f(x):
        ta = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        _, ta = tf.while_loop(lambda i, _: i < 4, lambda i, t: (i + 1, t.write(i, x)), (tf.constant(0), ta))
        return ta.stack()
    assert mode.run(f, F(2)).tolist() == [2] * 4


def test_misuse_of_v1_arrays_is_told():
    with tf.Graph().as_default(), tf.Session() as sess:
        def fails(text, t):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                sess.run(t)
        ta = tf.TensorArray(tf.float32, 2, infer_shape=False)
        fails("Tried to write to index 2 but array is not resizeable and size is: 2", ta.write(2, 1.0).flow)
        fails("Tried to read from index 5 but array size is: 2", ta.read(5))
        fails("has already been written to", ta.write(0, 1.0).write(0, 2.0).flow)
        w = ta.write(0, 1.0)
        first = w.read(0)
        with tf.control_dependencies([first]):
            fails("Could not read index 0 twice", w.read(0))
        fails("the element shape is not fully defined", ta.read(1))
        fails("inconsistent shapes", ta.write(0, 1.0).write(1, [1.0]).stack())
        fails("TensorArray dtype is float but Op is trying to write dtype int32",
              get("TensorArrayWriteV3")(ta.handle, 0, tf.constant(1), ta.flow))
        fails("sum of lengths", tf.TensorArray(tf.float32, 2).split([1.0, 2.0, 3.0], [1, 1]).flow)
        with tf.control_dependencies([tf.TensorArray(tf.float32, 2).close()]):
            pass
        with pytest.raises(ValueError, match="Inconsistent shapes"):
            tf.TensorArray(tf.float32, 2).write(0, 1.0).write(1, [1.0])


def test_misuse_of_eager_arrays_is_told():
    with context.enter(None):
        ta = tf.TensorArray(tf.float32, 1)
        with pytest.raises(tf.errors.OutOfRangeError):
            ta.write(1, 1.0)
        with pytest.raises(tf.errors.OutOfRangeError):
            ta.read(-1)
        ta.write(0, 1.0).read(0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="twice"):
            ta.read(0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="dtype"):
            ta.write(0, tf.constant(1))


# -- lists ----------------------------------------------------------------------------------------------------------
def items(handle, shape=-1):
    return get("TensorListStack")(handle, shape, element_dtype=tf.float32).numpy().tolist()


def empty(shape=()):
    return get("EmptyTensorList")(tf.constant(shape, tf.int32), -1, element_dtype=tf.float32)


def test_lists_are_values():
    with context.enter(None):
        push, pop = get("TensorListPushBack"), get("TensorListPopBack")
        a = push(push(empty(), 1.0), 2.0)
        b = push(a, 3.0)
        rest, last = pop(a, [], element_dtype=tf.float32)
        c = push(rest, 9.0)
        assert items(a) == [1, 2] and items(b) == [1, 2, 3] and items(c) == [1, 9] and last.numpy() == 2
        d = get("TensorListSetItem")(b, 0, 7.0)
        assert items(d) == [7, 2, 3] and items(b) == [1, 2, 3]
        assert items(get("TensorListResize")(b, 2)) == [1, 2]
        assert items(get("TensorListConcatLists")(a, b, element_dtype=tf.float32)) == [1, 2, 1, 2, 3]
        assert get("TensorListLength")(b).numpy() == 3


def test_unset_elements_are_zeros():
    with context.enter(None):
        r = get("TensorListReserve")([2], 3, element_dtype=tf.float32)
        r = get("TensorListSetItem")(r, 1, [1.0, 2.0])
        assert items(r) == [[0, 0], [1, 2], [0, 0]]
        g = get("TensorListGather")(r, [1, 0], [2], element_dtype=tf.float32)
        assert g.numpy().tolist() == [[1, 2], [0, 0]]
        s = get("TensorListScatterV2")([[5.0, 6.0]], [2], [2], -1)
        assert items(s) == [[0, 0], [0, 0], [5, 6]]


def test_misuse_of_lists_is_told():
    with context.enter(None):
        def fails(text, op, *args, **attrs):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                get(op)(*args, **attrs)
        a = empty([2])
        fails("incompatible shape", "TensorListPushBack", a, [1.0])
        fails("Invalid data types", "TensorListPushBack", a, [1, 2])
        fails("empty list", "TensorListPopBack", a, [2], element_dtype=tf.float32)
        fails("Trying to access element 0 in a list with 0 elements", "TensorListGetItem", a, 0, [2], element_dtype=tf.float32)
        fails("non negative", "TensorListReserve", [2], -1, element_dtype=tf.float32)
        fails("full list", "TensorListPushBack", get("EmptyTensorList")(tf.constant([], tf.int32), 0, element_dtype=tf.float32),
              1.0)
        with pytest.raises(tf.errors.ResourceExhaustedError):
            get("TensorListReserve")([2], 2 ** 31 - 1, element_dtype=tf.float32)


def test_list_gradients():
    with context.enter(None):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = get("TensorListFromTensor")(x, [2])
            one = get("TensorListGetItem")(h, 1, [2], element_dtype=tf.float32)
            h = get("TensorListPushBack")(h, x[0] * one)
            y = tf.reduce_sum(get("TensorListStack")(h, [2], element_dtype=tf.float32))
        assert tape.gradient(y, x).numpy().tolist() == [[4, 5], [2, 3]]


# -- over rows --------------------------------------------------------------------------------------------------------
@modes
def test_map_fn(mode):
    x = np.array([[1, 2], [3, 4], [5, 6]], F)
    value, (g,) = mode.grads(lambda x: tf.map_fn(lambda r: tf.reduce_sum(r * r), x), x)
    assert value.tolist() == [5, 25, 61] and g.tolist() == (2 * x).tolist()
    a, b = mode.run(lambda x: tf.map_fn(lambda r: (r[0][0], r[1]), (x, x * 2.0), dtype=(tf.float32, tf.float32)), x)
    assert a.tolist() == [1, 3, 5] and b.tolist() == (2 * x).tolist()


@modes
def test_folds_and_scan(mode):
    x = np.array([1, 2, 3], F)
    assert mode.grads(lambda x: tf.foldl(lambda a, r: a * r, x), x)[1][0].tolist() == [6, 3, 2]
    assert mode.run(lambda x: tf.foldr(lambda a, r: a - r, x, initializer=10.0), x) == 4
    assert mode.run(lambda x: tf.scan(lambda a, r: a + r, x), x).tolist() == [1, 3, 6]
    assert mode.run(lambda x: tf.scan(lambda a, r: a + r, x, initializer=1.0, reverse=True), x).tolist() == [7, 6, 4]


@graphs
def test_map_fn_of_an_unknown_number_of_rows(mode):
    def f(x):
        y = tf.map_fn(lambda r: r * 2, tf.boolean_mask(x, x > 0))
        assert y.shape.as_list() == [None]
        return y
    assert mode.run(f, np.array([1, -1, 3], np.int32)).tolist() == [2, 6]


def test_map_fn_wants_rows():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="not scalars"):
            tf.map_fn(lambda x: x, tf.constant(1.0))
        with pytest.raises(TypeError, match="fn must be callable"):
            tf.map_fn(3, tf.constant([1.0]))
        with pytest.raises((ValueError, TypeError), match="structure"):
            tf.map_fn(lambda x: (x, x), tf.constant([1.0]))


def test_the_length_of_a_stack_is_known_after_writes():
    @penstock.function
    def stacked():
        array = penstock.TensorArray(penstock.float32, size=3).write(0, penstock.constant([1.0, 2.0]))
        out = array.stack()
        assert out.shape.as_list() == [3, 2]
        return out
    np.testing.assert_array_equal(stacked().numpy(), [[1, 2], [0, 0], [0, 0]])


def test_set_item_may_grow_a_list():
    """As graphs of TensorFlow 2.x write to arrays of dynamic size; the gradient has the size that the list had before."""
    raw = penstock.raw_ops
    first, last = penstock.constant([1.0, 2.0]), penstock.constant([3.0, 4.0])
    with penstock.GradientTape() as tape:
        tape.watch([first, last])
        items = raw.TensorListReserve(element_shape=[2], num_elements=1, element_dtype=penstock.float32)
        items = raw.TensorListSetItem(input_handle=items, index=0, item=first)
        items = raw.TensorListSetItem(input_handle=items, index=2, item=last, resize_if_index_out_of_bounds=True)
        stacked = raw.TensorListStack(input_handle=items, element_shape=[2], element_dtype=penstock.float32)
        total = penstock.reduce_sum(stacked * [[1.0], [10.0], [100.0]])
    assert stacked.numpy().tolist() == [[1, 2], [0, 0], [3, 4]]
    assert [g.numpy().tolist() for g in tape.gradient(total, [first, last])] == [[1, 1], [100, 100]]
    with pytest.raises(penstock.errors.InvalidArgumentError):
        raw.TensorListSetItem(input_handle=items, index=3, item=last)


def test_an_array_of_dynamic_size_grows_without_changing_older_ones():
    """Each write is one op, as in graphs of TensorFlow 2.x. A list that is used again is copied before it grows."""
    @penstock.function
    def grown(n):
        start = penstock.TensorArray(penstock.int32, size=0, dynamic_size=True, clear_after_read=False).write(0, 7)
        array = start
        for i in penstock.range(n):
            array = array.write(2 * i + 1, i)
        return start.stack(), array.stack(), array.size()
    start, stacked, size = grown(penstock.constant(3))
    assert start.numpy().tolist() == [7] and stacked.numpy().tolist() == [7, 0, 0, 1, 0, 2] and size.numpy() == 6
    functions = grown.get_concrete_function(penstock.constant(3)).graph.as_graph_def().library.function
    kinds = {node.op for f in functions for node in f.node_def}
    assert "TensorListSetItem" in kinds and not kinds & {"TensorListResize", "TensorListLength"}


def test_the_gradient_through_an_array_that_grows():
    @penstock.function
    def slope(x):
        with penstock.GradientTape() as tape:
            tape.watch(x)
            array = penstock.TensorArray(penstock.float32, size=0, dynamic_size=True)
            for i in penstock.range(4):
                array = array.write(i, x[i] * x[i])
            total = penstock.reduce_sum(array.stack() * [1.0, 2.0, 3.0, 4.0])
        return tape.gradient(total, x)
    np.testing.assert_allclose(slope(penstock.constant([1.0, -2.0, 0.5, 3.0])), [2, -8, 3, 24], rtol=1e-6, atol=1e-6)


def test_arrays_that_cannot_grow_have_static_shapes():
    with tf.Graph().as_default():
        tf.disable_control_flow_v2()
        for size, dynamic, rows in ((4, False, 4), (4, True, None), (tf.placeholder(tf.int32, []), False, None), (0, False, 0)):
            array = tf.TensorArray(tf.float32, size, dynamic_size=dynamic).write(0, np.ones([2, 3]))
            assert array.stack().shape.as_list() == [rows, 2, 3]
            assert array.concat().shape.as_list() == [rows and 2 * rows, 3]
        assert tf.TensorArray(tf.float32, 2, infer_shape=False).stack().shape.rank is None
        assert tf.TensorArray(tf.float32, 2, element_shape=[None, 3]).concat().shape.as_list() == [None, 3]
