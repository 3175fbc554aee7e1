"""Which graph is the default one, and what is known of values and their types before a run."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.base import nest


def test_leaving_a_graph_that_is_entered_twice_goes_back_to_eager_execution():
    graph = tf.Graph()
    outer, inner = graph.as_default(), graph.as_default()
    outer.__enter__()
    inner.__enter__()
    assert not tf.executing_eagerly()
    outer.__exit__(None, None, None)
    assert tf.executing_eagerly()
    with graph.as_default():
        assert not tf.executing_eagerly()
    inner.__exit__(None, None, None)
    assert tf.executing_eagerly()


def test_leaving_another_graph_than_the_innermost_is_an_error():
    first, second = tf.Graph().as_default(), tf.Graph().as_default()
    first.__enter__()
    second.__enter__()
    with pytest.raises(AssertionError, match="Nesting violated"):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    from penstock._src.graph import context
    context.state.graphs.clear()


def test_shapes_in_loops_know_constants_from_outside():
    shapes = []
    with tf.Graph().as_default():
        dims = tf.constant([3, 4])

        def body(i, _):
            made = tf.fill(tf.concat([[5], dims], 0), 1.)
            shapes.append(made.shape.as_list())
            return i + 1, made
        tf.disable_control_flow_v2()
        try:
            tf.while_loop(lambda i, _: i < 2, body, [0, tf.zeros([5, 3, 4])])
        finally:
            tf.enable_control_flow_v2()
    assert shapes[0] == [5, 3, 4]


def test_static_values_are_of_constants():
    assert tf.get_static_value(3) == 3
    assert tf.get_static_value(tf.Variable(1.)) is None
    with tf.Graph().as_default():
        assert tf.get_static_value(tf.Variable(1.)) is None
        assert tf.get_static_value(tf.constant(2)) == 2


def test_specs_of_values():
    sparse = tf.SparseTensorValue([[0, 1]], [10], [2, 3])
    assert tf2.type_spec_from_value(sparse) == tf.SparseTensorSpec([2, 3], tf.int32)
    assert tf2.type_spec_from_value(sparse._replace(values=np.array([1.]))) == tf.SparseTensorSpec([2, 3], tf.float64)
    ragged = tf2.type_spec_from_value(tf.ragged.constant_value([[1], [2, 3]]))
    assert ragged == tf.RaggedTensorSpec([2, None], tf.int64, 1)


@pytest.mark.parametrize("dense_shape", [None, [10, 2]])
def test_indexed_slices_are_nested_as_their_spec(dense_shape):
    value = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 2, 3]), None if dense_shape is None else tf.constant(dense_shape))
    nest.assert_same_structure(value, tf2.type_spec_from_value(value), expand_composites=True)


def test_attributes_below_their_minimum():
    with pytest.raises(tf.errors.InvalidArgumentError, match="'num_split' of -1 must be at least minimum 1"):
        tf.split([1, 2, 3], -1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="'num_split' passed -1 less than minimum 1"):
        tf.split([1, 2, 3], -1)


def test_references_to_stacks_have_names_of_their_own():
    with tf.Graph().as_default(), tf.Session() as sess:
        first, second = (tf.raw_ops.Stack(elem_type=tf.float32, stack_name="s") for _ in range(2))
        a, b = sess.run([first, second])
    assert a.shape == b.shape == (2,) and a[1] != b[1] and a[1].startswith(b"s_")


def test_the_name_of_the_open_scope():
    assert tf.get_current_name_scope() == ""
    with tf.name_scope("a"), tf.name_scope("b"):
        assert tf.get_current_name_scope() == "a/b"
    with tf.Graph().as_default(), tf.name_scope("c"):
        assert tf.get_current_name_scope() == "c"
        with tf.name_scope("d"):
            assert tf.get_current_name_scope() == "c/d"


def test_eager_ops_ignore_names_that_are_no_strings():
    x = tf.reshape(tf.range(4), [1, 2, 2])
    assert tf.linalg.matrix_transpose(x, (0, 2, 1)).numpy().tolist() == [[[0, 2], [1, 3]]]
    with pytest.raises(ValueError, match="must be a string"), tf2.name_scope((0, 1)):
        pass


def test_eager_scalars_are_numpy_scalars_to_libraries():
    for value in (3, 1.5, "word"):
        assert tf2.constant(value)._numpy().__class__ is tf2.constant(value).numpy().__class__
    shared = tf2.constant([1, 2])._numpy()
    assert isinstance(shared, np.ndarray) and shared.tolist() == [1, 2]
