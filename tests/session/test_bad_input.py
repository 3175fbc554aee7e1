"""Wrong programs: every mistake raises an error with its cause, its line and the shapes, and leaves the session usable."""
import inspect
import traceback

import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.fixture
def sess():
    """A session on an empty graph that still works when the test is over."""
    with tf.Graph().as_default(), tf.Session() as sess:
        yield sess
    with sess.graph.as_default(), tf.Session(graph=sess.graph) as after:
        if not sess.graph.finalized:
            assert after.run(tf.constant(3) + 4) == 7


def here():
    """File and line of the caller, as errors show them."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# -- while the graph is built -----------------------------------------------------------------------------------------
BUILD = {
    "matmul": (lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([4, 5])), ["(2, 3)", "(4, 5)", "MatMul"]),
    "add": (lambda: tf.zeros([2, 3]) + tf.zeros([4, 5]), ["(2, 3)", "(4, 5)", "Add"]),
    "concat": (lambda: tf.concat([tf.zeros([2, 3]), tf.zeros([4, 5])], 0), ["(2, 3)", "(4, 5)", "Concat"]),
    "stack": (lambda: tf.stack([tf.zeros([2, 3]), tf.zeros([4, 5])]), ["(2, 3)", "(4, 5)"]),
    "reshape": (lambda: tf.reshape(tf.zeros([2, 3]), [4, 5]), ["(2, 3)", "[4,5]", "Reshape"]),
    "conv2d": (lambda: tf.nn.conv2d(tf.zeros([1, 5, 5, 3]), tf.zeros([3, 3, 4, 2]), 1, "SAME"),
               ["(1, 5, 5, 3)", "(3, 3, 4, 2)", "Conv2D"]),
    "bias": (lambda: tf.nn.bias_add(tf.zeros([2, 3]), tf.zeros([4])), ["(2, 3)", "(4,)", "BiasAdd"]),
    "xent": (lambda: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.zeros([2, 3]), logits=tf.zeros([2, 4])),
             ["(2, 3)", "(2, 4)"]),
    "where": (lambda: tf.where(tf.constant([True, False]), tf.zeros([2, 3]), tf.zeros([4, 5])), ["(2, 3)", "(4, 5)"]),
    "assign": (lambda: tf.Variable(tf.zeros([2, 3])).assign(tf.zeros([4, 5])), ["(2, 3)", "(4, 5)"]),
    "set_shape": (lambda: tf.zeros([2, 3]).set_shape([4, 5]), ["(2, 3)", "(4, 5)"]),
}


@pytest.mark.parametrize("name", BUILD)
def test_shape_mistakes_are_value_errors_with_both_shapes(sess, name):
    make, words = BUILD[name]
    with pytest.raises(ValueError) as info:
        make()
    for word in words:
        assert word in str(info.value)


TYPES = {
    "add": lambda: tf.add(tf.zeros([2]), tf.zeros([2], tf.int32)),
    "matmul": lambda: tf.matmul(tf.zeros([2, 2]), tf.zeros([2, 2], tf.float64)),
    "concat": lambda: tf.concat([tf.zeros([2]), tf.zeros([2], tf.int32)], 0),
    "sqrt of int": lambda: tf.sqrt(tf.constant(4)),
    "logical": lambda: tf.logical_and(tf.constant(1), True),
}


@pytest.mark.parametrize("name", TYPES)
def test_dtype_mistakes_are_type_errors_with_the_types(sess, name):
    with pytest.raises(TypeError, match="(?s)int32|float64"):
        TYPES[name]()


def test_a_tensor_of_another_graph_is_refused(sess):
    with tf.Graph().as_default():
        foreign = tf.constant(1.0, name="foreign")
    with pytest.raises(ValueError, match="foreign.*must be from the same graph as"):
        tf.add(tf.constant(1.0), foreign)


# -- while it runs ----------------------------------------------------------------------------------------------------
def unknown(name):
    return tf.placeholder(tf.float32, None, name=name)


RUN = {
    "add": lambda x, y: tf.add(x, y, name="bad"),
    "matmul": lambda x, y: tf.matmul(x, y, name="bad"),
    "mul": lambda x, y: tf.multiply(x, y, name="bad"),
    "concat": lambda x, y: tf.concat([x, y], 0, name="bad"),
    "maximum": lambda x, y: tf.maximum(x, y, name="bad"),
    "stack": lambda x, y: tf.stack([x, y], name="bad"),
    "less": lambda x, y: tf.less(x, y, name="bad"),
}


@pytest.mark.parametrize("name", RUN)
def test_run_time_errors_name_op_shapes_device_and_line(sess, name):
    x, y, ok = unknown("x"), unknown("y"), tf.constant(1)
    bad, line = RUN[name](x, y), here()
    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        sess.run(bad, {x: np.zeros((2, 3)), y: np.zeros((4, 5))})
    text = str(info.value)
    sizes = text.replace("(", "[").replace(")", "]").replace(",", ", ").replace("  ", " ")
    assert "[2, 3]" in sizes and "[4, 5]" in sizes
    assert "[[node bad = " in text and f" on {CPU} " in text
    defined = f"{inspect.getsourcefile(RUN[name])}:{RUN[name].__code__.co_firstlineno}"
    assert f"(defined at {defined})" in text and line.replace(":", '", line ') in text
    assert info.value.op is bad.op and info.value.node_def.name == "bad"
    assert sess.run(ok) == 1 and sess.run(bad, {x: np.zeros((3, 3)), y: np.zeros((3, 3))}) is not None


def test_an_index_out_of_range(sess):
    i = tf.placeholder(tf.int32, None)
    row = tf.gather(tf.constant([1.0, 2.0]), i, name="row")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)indices\[0\] = 7 is not in \[0, 2\).*\[\[node row = "):
        sess.run(row, {i: [7]})
    assert sess.run(row, {i: [1]}) == [2.0]


def test_a_device_that_was_asked_for_is_in_the_error(sess):
    x, y = unknown("x"), unknown("y")
    with tf.device("/cpu:0"):
        bad = tf.add(x, y, name="bad")
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"node bad = AddV2 on {CPU}"):
        sess.run(bad, {x: [1, 2], y: [1, 2, 3]})


@pytest.mark.parametrize("in_loop", [False, True])
def test_errors_inside_of_control_flow_name_the_op(sess, in_loop):
    x = unknown("x")
    if in_loop:
        out = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.add(v, x, name="bad")), [0, tf.zeros([2])],
                            shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])
    else:
        out = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.add(x, tf.zeros([2]), name="bad"), lambda: x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)bad = AddV2.*test_bad_input.py"):
        sess.run(out, {x: np.ones(3)})
    sess.run(out, {x: np.ones(2)})


def test_errors_inside_of_functions_name_the_op():
    @penstock.function
    def twice(x):
        return penstock.add(x, penstock.reshape(x, [-1])[:2], name="bad")
    with pytest.raises(penstock.errors.InvalidArgumentError, match="(?s)bad.*test_bad_input.py"):
        twice.get_concrete_function(penstock.TensorSpec(None, penstock.float32))(penstock.ones([3, 3]))


def test_eager_errors_have_both_shapes_and_the_op():
    with pytest.raises(penstock.errors.InvalidArgumentError, match=r"\(2, 3\).*\(4, 5\).*\[Op:AddV2\] name: here"):
        penstock.add(penstock.zeros([2, 3]), penstock.zeros([4, 5]), name="here")


# -- feeds, fetches, variables, finalized graphs ----------------------------------------------------------------------
def test_feeds_of_the_wrong_shape_or_type(sess):
    p = tf.placeholder(tf.float32, [2, None], name="p")
    twice = p * 2
    with pytest.raises(ValueError, match=r"\(3, 2\) for Tensor 'p:0', which has shape '\(2, None\)' .*test_bad_input.py:\d+"):
        sess.run(twice, {p: np.zeros((3, 2))})
    with pytest.raises(ValueError, match=r"\['a'\].* for Tensor 'p:0' of type float32: could not convert string to float: 'a'"):
        sess.run(twice, {p: [["a"], ["b"]]})
    with pytest.raises(ValueError, match="'p:0' .*: setting an array element with a sequence"):
        sess.run(twice, {p: [[1.0], [2.0, 3.0]]})
    with pytest.raises(TypeError, match="feed cannot be a tf.Tensor"):
        sess.run(twice, {p: tf.zeros([2, 2])})
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        sess.run(twice, {"nothing:0": 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must feed a value for placeholder tensor 'p'"):
        sess.run(twice)
    np.testing.assert_array_equal(sess.run(twice, {p: [[1], [2]]}), [[2], [4]])


def test_fetches_that_are_not_in_the_graph(sess):
    one = tf.constant(1.0, name="one")
    with tf.Graph().as_default():
        other = tf.constant(2.0)
    for wrong, kind, words in [("two:0", ValueError, "'two:0' refers to a Tensor which does not exist"),
                               ("one:1", ValueError, "one"), ("two", ValueError, "'two' refers to an Operation not in"),
                               (other, ValueError, r"not an element of this graph.*test_bad_input.py:\d+"),
                               (3, TypeError, "invalid type <class 'int'>"), (None, TypeError, "Cannot be None"),
                               ([one, {"a": None}], TypeError, "Cannot be None")]:
        with pytest.raises(kind, match=words):
            sess.run(wrong)
    assert sess.run("one:0") == 1


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("read", [lambda v: v, lambda v: v + 1.0, lambda v: v.assign_add([1.0, 1.0])])
def test_uninitialized_variables(sess, use_resource, read):
    v, line = tf.get_variable("weights", [2], use_resource=use_resource), here()
    fetch = read(v)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"weights.* \(run tf.global_variables_initializer") as info:
        sess.run(fetch)
    assert "[[node " in str(info.value) and f" on {CPU}" in str(info.value)
    assert "test_bad_input.py" in str(info.value) and line
    sess.run(v.initializer)
    assert sess.run(fetch).shape == (2,)


@pytest.mark.parametrize("use_resource", [False, True])
def test_assignments_of_the_wrong_shape_name_the_variable(sess, use_resource):
    v = tf.get_variable("weights", [2], use_resource=use_resource)
    value = tf.placeholder(tf.float32)
    assign = v.assign(value)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"variable weights"):
        sess.run(assign, {value: [1.0, 2.0, 3.0]})


def test_tensors_of_two_graphs_are_told_apart_by_their_lines():
    with tf.Graph().as_default():
        one, line = tf.constant(1.0), here()
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be from the same graph") as info:
        one + tf.constant(2.0)
    assert f"(defined at {line})" in str(info.value)


def test_a_closed_session_says_so():
    with tf.Session() as sess:
        one = tf.constant(1.0)
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session. Create a new one"):
        sess.run(one)


def test_a_finalized_graph(sess):
    one = tf.constant(1.0)
    tf.get_default_graph().finalize()
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified."):
        tf.constant(2.0)
    assert sess.run(one) == 1.0


def test_python_functions_keep_their_own_lines(sess):
    def broken(x):
        raise KeyError("my own mistake")
    y = tf.py_func(broken, [tf.constant(1.0)], tf.float32, name="mine")
    with pytest.raises(tf.errors.UnknownError, match="(?s)my own mistake.*node mine"):
        sess.run(y)


# -- NaN --------------------------------------------------------------------------------------------------------------
def test_check_numerics(sess):
    x = unknown("x")
    checked = tf.check_numerics(tf.log(x), "the logarithm", name="checked")
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="(?s)the logarithm : Tensor had Inf and NaN values.*node checked.*test_bad_input.py"):
        sess.run(checked, {x: [-1.0, 0.0]})
    assert sess.run(checked, {x: [1.0]}) == [0.0]


def test_add_check_numerics_ops_names_the_first_tensor_that_is_bad(sess):
    x = unknown("x")
    z = tf.sqrt(tf.identity(x, name="fine"), name="root") * 2
    check = tf.add_check_numerics_ops()
    with pytest.raises(tf.errors.InvalidArgumentError, match="root:0 : Tensor had NaN values"):
        sess.run([z, check], {x: -1.0})
    assert sess.run([z, check], {x: 4.0})[0] == 4.0


def test_enable_check_numerics_watches_eager_ops():
    penstock.debugging.enable_check_numerics()
    try:
        with pytest.raises(penstock.errors.InvalidArgumentError, match="(?s)Log"):
            penstock.math.log(-1.0)
        assert float(penstock.math.log(1.0)) == 0.0
    finally:
        penstock.debugging.disable_check_numerics()
    assert np.isnan(penstock.math.log(-1.0))


@pytest.mark.parametrize("name, good, bad", [
    ("assert_equal", (1, 1), (1, 2)), ("assert_none_equal", (1, 2), (1, 1)), ("assert_less", (1, 2), (2, 1)),
    ("assert_less_equal", (1, 1), (2, 1)), ("assert_greater", (2, 1), (1, 2)), ("assert_greater_equal", (1, 1), (1, 2)),
    ("assert_near", (1.0, 1.0), (1.0, 2.0)), ("assert_positive", (1,), (0,)), ("assert_negative", (-1,), (0,)),
    ("assert_non_negative", (0,), (-1,)), ("assert_non_positive", (0,), (1,)),
])
def test_debugging_asserts(sess, name, good, bad):
    values = [tf.placeholder_with_default(tf.constant(v), []) for v in bad]
    check = getattr(tf.debugging, name)(*values, message="as I said")
    with pytest.raises(tf.errors.InvalidArgumentError, match="as I said"):
        sess.run(check)
    sess.run(check, dict(zip(values, good, strict=True)))


@pytest.mark.parametrize("make", [
    lambda: tf.debugging.assert_rank(tf.zeros([2]), 2), lambda: tf.debugging.assert_rank_at_least(tf.zeros([2]), 2),
    lambda: tf.debugging.assert_rank_in(tf.zeros([2]), [0, 2]), lambda: tf.debugging.assert_scalar(tf.zeros([2])),
    lambda: tf.debugging.assert_shapes([(tf.zeros([2]), ("a", "b"))]),
], ids=["rank", "at_least", "in", "scalar", "shapes"])
def test_debugging_asserts_about_static_shapes(sess, make):
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize("make", [
    lambda: tf.debugging.assert_type(tf.zeros([2]), tf.int32), lambda: tf.debugging.assert_integer(tf.zeros([2])),
], ids=["type", "integer"])
def test_debugging_asserts_about_types(sess, make):
    with pytest.raises(TypeError):
        make()


# -- tracebacks -------------------------------------------------------------------------------------------------------
def last_lines(error):
    return [f.filename.rpartition("/")[2] for f in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("filtering", [True, False])
def test_tracebacks_end_at_the_users_line(sess, filtering):
    x, y = unknown("x"), unknown("y")
    bad = tf.add(x, y)
    (tf.debugging.enable_traceback_filtering if filtering else tf.debugging.disable_traceback_filtering)()
    try:
        assert tf.debugging.is_traceback_filtering_enabled() is filtering
        for make in (lambda: sess.run(bad, {x: [1, 2], y: [1, 2, 3]}), lambda: tf.raw_ops.Sqrt(x="text")):
            with pytest.raises((tf.errors.InvalidArgumentError, TypeError)) as info:
                make()
            frames = last_lines(info.value)
            assert ("session.py" in frames or "build.py" in frames) is not filtering
            assert info.value.__cause__ is None or not filtering
    finally:
        tf.debugging.disable_traceback_filtering()


def test_tracebacks_keep_the_frames_of_users_inside(sess):
    """A Python function that is traced: its own frames are the ones that matter."""
    @tf.function
    def inner(x):
        return tf.matmul(x, tf.zeros([4, 5]))
    tf.debugging.enable_traceback_filtering()
    try:
        with pytest.raises(ValueError) as info:
            inner(tf.zeros([2, 3]))
    finally:
        tf.debugging.disable_traceback_filtering()
    names = [f.name for f in traceback.extract_tb(info.value.__traceback__)]
    assert "inner" in names and last_lines(info.value)[-1] in ("test_bad_input.py", "matmul.py")
