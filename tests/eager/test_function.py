"""tf.function: traces, arguments, captures, variables, gradients of every order, FunctionDefs."""
import collections
import gc
import weakref

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.graph import context
from penstock._src.graph.functions import as_function
from penstock._src.step import called


@pytest.fixture(autouse=True)
def eager():
    with context.enter(None):
        yield


def test_one_trace_per_dtype_shape_and_python_value():
    traces = []

    @tf.function
    def f(x, scale=2.0):
        traces.append(1)
        return x * scale
    assert f(tf.constant([1.0])).numpy() == [2]
    f(tf.constant([5.0]))
    assert len(traces) == 1
    f(tf.constant([1.0, 2.0]))
    f(tf.constant([1.0]), 3.0)
    f(tf.constant([1.0]), scale=3.0)
    assert len(traces) == 3
    assert f.experimental_get_tracing_count() == 3


def test_relaxed_shapes():
    @tf.function(reduce_retracing=True)
    def f(x):
        return tf.reduce_sum(x)
    for n in range(1, 8):
        assert f(tf.ones([n])).numpy() == n
    assert f.experimental_get_tracing_count() == 2


def test_structures_in_and_out():
    Pair = collections.namedtuple("Pair", "a b")

    @tf.function
    def f(pair, d):
        return {"sum": pair.a + d["x"][0], "pair": Pair(pair.b, None), "list": [d["x"][1]]}
    out = f(Pair(tf.constant(1.0), tf.constant(2.0)), {"x": [np.float32(10), tf.constant(20.0)]})
    assert out["sum"].numpy() == 11 and out["list"][0].numpy() == 20
    assert out["pair"].a.numpy() == 2 and out["pair"].b is None


def test_composite_tensors_go_through():
    @tf.function
    def f(s):
        return tf.SparseTensor(s.indices, s.values * 2.0, s.dense_shape)
    out = f(tf.SparseTensor([[0, 1]], [3.0], [2, 2]))
    assert out.values.numpy().tolist() == [6]


def test_input_signature():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x):
        assert x.shape.as_list() == [None]
        return x + 1.0
    assert f([1.0, 2.0]).numpy().tolist() == [2, 3]
    assert f(tf.constant([1.0])).numpy().tolist() == [2]
    assert f.experimental_get_tracing_count() == 1
    with pytest.raises(ValueError, match="incompatible with input_signature"):
        f(tf.constant([[1.0]]))
    with pytest.raises(ValueError, match="incompatible with input_signature"):
        f(tf.constant([1]))
    with pytest.raises(TypeError):
        f(tf.constant([1.0]), tf.constant([1.0]))
    with pytest.raises(TypeError, match="tuple or a list"):
        tf.function(lambda x: x, input_signature=tf.TensorSpec([]))


def test_concrete_functions():
    @tf.function
    def f(x, k):
        return x * k
    c = f.get_concrete_function(tf.TensorSpec([None], tf.float32), 3.0)
    assert c(tf.constant([2.0])).numpy().tolist() == [6]
    assert c(x=tf.constant([2.0, 1.0])).numpy().tolist() == [6, 3]
    assert c.structured_input_signature == ((tf.TensorSpec([None], tf.float32, "x"), 3.0), {})
    assert [t.dtype for t in c.outputs] == [tf.float32] and c.output_shapes.as_list() == [None]
    assert f.get_concrete_function(tf.TensorSpec([None], tf.float32), 3.0) is c
    with pytest.raises(tf.errors.InvalidArgumentError, match="dtype int32, expected float32"):
        c(tf.constant([1]))
    with pytest.raises(TypeError):
        c()


def test_captures_are_by_reference():
    outer = tf.constant([3.0])
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        return x * outer * v
    assert f(tf.constant(1.0)).numpy() == [6]
    v.assign(5.0)
    assert f(tf.constant(1.0)).numpy() == [15]
    c = f.get_concrete_function(tf.TensorSpec([], tf.float32))
    assert len(c.captured_inputs) == 2 and c.variables == (v,)


def test_side_effects_happen_in_order():
    v, log = tf.Variable(1.0), []

    @tf.function
    def f():
        v.assign_add(1.0)
        a = v * 10.0
        v.assign(v * 2.0)
        tf.py_function(lambda: log.append(float(v)), [], [])
        v.assign_sub(0.5)
        return a
    assert f().numpy() == 20 and v.numpy() == 3.5 and log == [4]


def test_variables_are_created_once():
    made = []

    @tf.function
    def f(x):
        if not made:
            made.append(tf.Variable(x * 2.0))
        return made[0] + x
    assert f(tf.constant(1.0)).numpy() == 3
    assert f(tf.constant([5.0])).numpy() == [7]
    assert made[0].numpy() == 2

    @tf.function
    def always(x):
        return tf.Variable(1.0) + x
    with pytest.raises(ValueError, match="tried to create variables on non-first call"):
        always(tf.constant(1.0))


def test_methods_have_traces_per_instance_and_let_it_go():
    class Model:
        def __init__(self, k):
            self.k = k

        @tf.function
        def f(self, x):
            return x * self.k
    a, b = Model(2.0), Model(3.0)
    assert a.f(tf.constant(1.0)).numpy() == 2 and b.f(tf.constant(1.0)).numpy() == 3
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None


def test_functions_call_functions():
    @tf.function
    def inner(x):
        return x * x

    @tf.function
    def outer(x):
        return inner(x) + inner(inner(x))
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = outer(x)
    assert y.numpy() == 90 and tape.gradient(y, x).numpy() == 6 + 108


def test_arguments_may_not_be_changed():
    @tf.function
    def f(xs):
        xs.append(xs[0])
        return xs[0]
    with pytest.raises(ValueError, match="should not modify structure"):
        f([tf.constant(1.0)])


def test_results_must_be_tensors():
    with pytest.raises(TypeError, match="must return zero or more Tensors"):
        tf.function(lambda: object())()


def test_a_tensor_may_not_leave_its_function():
    kept = []

    @tf.function
    def f(x):
        kept.append(x * 2.0)
        return x
    f(tf.constant(1.0))
    with pytest.raises(TypeError):
        tf.constant(1.0) + kept[0]

    @tf.function
    def g(x):
        return tf.cond(x > 0.0, lambda: kept.append(x * 2.0) or x, lambda: x) + kept[-1]
    with pytest.raises(ValueError, match="defined in another function or code block"):
        g(tf.constant(1.0))


def test_errors_at_run_time_name_the_op_inside():
    @tf.function
    def f(x, n):
        return tf.reshape(x, [n, n], name="inside")
    assert f(tf.ones([4]), tf.constant(2)).shape == (2, 2)
    with pytest.raises(tf.errors.InvalidArgumentError) as e:
        f(tf.ones([4]), tf.constant(3))
    assert "inside" in str(e.value) and "test_function.py" in str(e.value)
    assert f(tf.ones([9]), tf.constant(3)).shape == (3, 3)


# -- gradients --------------------------------------------------------------------------------------------------------
def orders(f, x, n):
    """f and its first n derivatives by nested tapes."""
    if n == 0:
        return [f(x)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = orders(f, x, n - 1)
    return [*values, tape.gradient(values[-1], x)]


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["outside", "inside"])
def test_derivatives_of_every_order(wrap):
    f = tf.function(lambda x: tf.exp(2.0 * x) * x)
    found = wrap(lambda x: orders(f, x, 3))(tf.constant(0.5))
    e = np.exp(1.0)
    np.testing.assert_allclose([t.numpy() for t in found], [e * 0.5, e * 2, e * 6, e * 16], rtol=1e-5)


def test_gradients_of_variables_and_unconnected_sources():
    v, w = tf.Variable(2.0), tf.Variable(1.0)
    f = tf.function(lambda x: v * x * x)
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    dv, dw, dx = tape.gradient(y, [v, w, x])
    assert dv.numpy() == 9 and dw is None and dx.numpy() == 12
    assert set(map(id, tape.watched_variables())) == {id(v)}


def test_sparse_gradients_stay_sparse():
    table = tf.Variable(tf.ones([5, 2]))
    f = tf.function(lambda i: tf.reduce_sum(tf.gather(table, i)))
    with tf.GradientTape() as tape:
        y = f(tf.constant([1, 3]))
    g = tape.gradient(y, table)
    assert isinstance(g, tf.IndexedSlices) and sorted(g.indices.numpy()) == [1, 3]


def test_only_some_outputs_have_gradients():
    f = tf.function(lambda x: (x * 2.0, tf.cast(x, tf.int32), x * x))
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)[2]
    assert tape.gradient(y, x).numpy() == 6


def test_random_numbers_are_drawn_once_for_value_and_gradient():
    f = tf.function(lambda x: x * tf.random.uniform([100]))
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), y.numpy().sum(), rtol=1e-5, atol=1e-6)


def test_gradients_in_a_v1_graph():
    with tf1.Graph().as_default(), tf1.Session() as sess:
        x = tf1.placeholder(tf.float32, [])
        f = tf.function(lambda a: tf.tanh(a) * a)
        y = f(x) + f(2.0 * x)
        g, = tf1.gradients(y, x)
        gg, = tf1.gradients(g, x)
        found = sess.run([y, g, gg], {x: 0.3})

    def one(a):
        return np.tanh(a) * a
    e = 1e-4
    value = [one(0.3) + one(0.6), (one(0.3 + e) - one(0.3 - e) + one(0.6 + 2 * e) - one(0.6 - 2 * e)) / (2 * e)]
    np.testing.assert_allclose(found[:2], value, rtol=1e-4)
    second = (one(0.3 + e) + one(0.3 - e) - 2 * one(0.3) + one(0.6 + 2 * e) + one(0.6 - 2 * e) - 2 * one(0.6)) / e ** 2
    np.testing.assert_allclose(found[2], second, rtol=1e-3)


def test_gradients_inside_of_a_function():
    @tf.function
    def f(x):
        y = x * x * x
        return tf1.gradients(y, x)[0]
    assert f(tf.constant(2.0)).numpy() == 12


def test_a_gradient_goes_through_branches_to_tensors_outside():
    @tf.function
    def f(x):
        y = x * x
        return tf.cond(x > 0.0, lambda: tf1.gradients(y * y, x)[0], lambda: x)
    assert f(tf.constant(2.0)).numpy() == 32


# -- FunctionDefs -------------------------------------------------------------------------------------------------------
def test_function_def_round_trip():
    with tf1.Graph().as_default() as g:
        x = tf1.placeholder(tf.float32, [None], "x")
        f = tf.function(lambda a: tf.split(a * 2.0, 2)[1] + tf.cond(a[0] > 0.0, lambda: a[0], lambda: 0.0))
        tf.identity(f(x), name="y")
        message = g.as_graph_def()
    assert any("inference" in d.signature.name for d in message.library.function)
    with tf1.Graph().as_default() as g, tf1.Session() as sess:
        tf1.import_graph_def(type(message).FromString(message.SerializeToString()), name="")
        assert sess.run("y:0", {"x:0": [1.0, 2.0, 3.0, 4.0]}).tolist() == [7, 9]
        again = g.as_graph_def()
    assert {d.signature.name for d in again.library.function} == {d.signature.name for d in message.library.function}


def test_a_function_with_attributes_is_filled_in():
    text = """library { function {
        signature { name: 'Twice' input_arg { name: 'x' type_attr: 'T' } output_arg { name: 'y' type_attr: 'T' }
                    attr { name: 'T' type: 'type' } }
        node_def { name: 'a' op: 'AddV2' input: 'x' input: 'x' attr { key: 'T' value { placeholder: 'T' } } }
        ret { key: 'y' value: 'a:z:0' } } }"""
    from google.protobuf import text_format
    message = text_format.Parse(text, tf1.GraphDef())
    with tf1.Graph().as_default() as g:
        tf1.import_graph_def(message, name="")
        call = tf1.NameAttrList(name="Twice")
        call.attr["T"].type = tf.int64.as_datatype_enum
        f = as_function(call, g)
        assert f.outputs[0].dtype == tf.int64
        with pytest.raises(tf.errors.NotFoundError, match="Thrice is not defined"):
            as_function("Thrice", g)


def test_run_functions_eagerly():
    ran = []
    f = tf.function(lambda x: ran.append(1) or x + 1.0)
    tf.config.run_functions_eagerly(True)
    try:
        f(tf.constant(1.0))
        f(tf.constant(1.0))
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(ran) == 2 and not tf.config.functions_run_eagerly()


def test_a_function_given_to_an_op_is_in_the_library():
    double = tf.function(lambda x: x * 2.0).get_concrete_function(tf.TensorSpec([], tf.float32))
    with tf1.Graph().as_default() as g:
        tf.raw_ops.Case(branch_index=0, input=[3.0], branches=[double], Tout=[tf.float32])
        names = [f.signature.name for f in g.as_graph_def().library.function]
    assert names == [tf.compat.as_str(double.name)]


def test_a_function_under_a_tape_is_compiled_once(monkeypatch):
    made = []
    compile_step = called.compile_step
    monkeypatch.setattr(called, "compile_step", lambda spec, env: made.append(spec) or compile_step(spec, env))
    v = tf.Variable(2.)
    f = tf.function(lambda x: tf.reduce_sum(tf.sin(x) * v))
    for _ in range(4):
        with tf.GradientTape() as tape:
            out = f(tf.constant([0.5, -1.]))
        np.testing.assert_allclose(tape.gradient(out, v), np.sin(0.5) - np.sin(1.), rtol=1e-6)
    assert len(made) == 2                                    # forward and backward


def test_shapes_see_constants_and_shapes_outside_of_the_function():
    seen = []

    def body(i, u):
        dims = tf.concat([[5], inner], 0)
        seen.extend(t.shape.as_list() for t in (tf.fill(dims, 1.), tf1.random_uniform(dims), tf.ones(sizes)))
        return i + 1, u
    tf1.enable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            inner, sizes = tf.constant([3, 4]), tf.shape(tf1.placeholder(tf.float32, [None, 7]))
            tf1.while_loop(lambda i, u: i < 3, body, [0, 0.])
            with pytest.raises(TypeError, match="enters the loop with type <dtype: 'float32'> but has type <dtype: 'float64'>"):
                tf1.while_loop(lambda i, u: i < 3, lambda i, u: (i + 1, tf.cast(u, tf.float64)), [0, tf.constant(0.)])
    finally:
        tf1.disable_control_flow_v2()
    assert seen[:3] == [[5, 3, 4], [5, 3, 4], [None, 7]]


def test_variables_of_a_function_are_all_it_reads_or_writes():
    read, trained, written, rows = (tf.Variable([1.0], trainable=t) for t in (False, True, False, False))

    @tf.function
    def inner():
        written.assign(read).assign_add([1.0])
        return trained + read

    @tf.function
    def outer():
        rows.scatter_nd_update([[0]], [2.0])
        return inner()

    for f, wanted in ((inner, {0, 1, 2}), (outer, {0, 1, 2, 3})):
        concrete = f.get_concrete_function()
        order = {id(v): i for i, v in enumerate((read, trained, written, rows))}
        assert {order[id(v)] for v in concrete.variables} == wanted and len(concrete.variables) == len(wanted)
        assert [order[id(v)] for v in concrete.trainable_variables] == [1]
        assert f._list_all_concrete_functions() == [concrete]
    with tf.GradientTape() as tape:
        outer()
    assert [id(v) for v in tape.watched_variables()] == [id(trained)]


def test_an_optional_takes_the_type_of_its_values_later():
    """As Keras 3 does in its loop over several steps."""
    @tf.function(autograph=False)
    def f(n):
        empty = tf.experimental.Optional.empty(None)

        def body(i, optional):
            def value():
                made = tf.experimental.Optional.from_value({"loss": tf.cast(i, tf.float32)})
                empty._element_spec = made.element_spec
                return made

            def nothing():
                optional._element_spec = empty._element_spec
                return optional
            return i + 1, tf.cond(i < 2, value, nothing)
        _, last = tf.while_loop(lambda i, _: i < n, body, [tf.constant(0), empty])
        last._element_spec = empty.element_spec
        return last

    assert f(tf.constant(5)).get_value()["loss"].numpy() == 1
    assert not f(tf.constant(0)).has_value().numpy()


def test_a_trace_prints_its_signature():
    f = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec([None, 2])])
    concrete = f.get_concrete_function()
    assert concrete.pretty_printed_signature() == f.pretty_printed_concrete_signatures()
    assert "TensorSpec(shape=(None, 2)" in concrete.pretty_printed_signature()
    assert "\n" not in concrete.pretty_printed_signature(False)


def _sparse(rows, count=1):
    return tf.SparseTensor([[0, i] for i in range(count)], [1.0] * count, [rows, 4])


def test_the_shape_of_sparse_arguments_is_known_and_the_number_of_values_is_not_part_of_a_trace():
    seen = []

    @tf.function
    def f(x):
        seen.append((x.shape.as_list(), x.values.shape.as_list(), x.dense_shape.shape.as_list()))
        return tf.reduce_sum(x.values)
    assert [float(f(_sparse(3, n))) for n in (1, 2, 3)] == [1.0, 2.0, 3.0]
    assert seen == [([3, 4], [None], [2])]
    f({"a": 1.0, "x": _sparse(5)}["x"])
    assert seen[1:] == [([5, 4], [None], [2])]


def test_retracing_is_reduced_by_the_shapes_of_sparse_arguments():
    seen = []

    @tf.function(reduce_retracing=True)
    def f(pair, *, last):
        seen.append((pair["x"].shape.as_list(), last.shape.as_list()))
        return tf.reduce_sum(pair["x"].values) + tf.reduce_sum(last.values)
    for rows in (3, 4, 5, 6):
        assert float(f({"x": _sparse(rows, 2)}, last=_sparse(7))) == 3.0
    assert seen == [([3, 4], [7, 4]), ([None, 4], [7, 4])]


def test_the_shape_of_a_sparse_signature_is_known():
    @tf.function(input_signature=[tf.SparseTensorSpec([None, 4], tf.float32)])
    def f(x):
        assert x.shape.as_list() == [None, 4]
        return tf.reduce_sum(x.values)
    assert float(f(_sparse(3, 2))) == 2.0 and float(f(_sparse(4))) == 1.0
    assert f.experimental_get_tracing_count() == 1


def test_signatures_may_name_some_tensors_of_an_argument():
    spec = {"a": tf.TensorSpec([], tf.float32, name="x"), "b": tf.TensorSpec([], tf.float32)}
    made = tf.function(lambda d: d["a"] - d["b"], input_signature=[spec]).get_concrete_function()
    assert [t.name for t in made.inputs] == ["x:0", "d:0"]
    assert made(tf.constant(3.0), tf.constant(1.0)).numpy() == 2.0


def test_outputs_have_nodes_with_the_names_that_programs_expect():
    @tf.function
    def f(x, y):
        return {"same": x, "sum": x + y, "none": None, "sparse": tf.sparse.from_dense(y)}
    made = f.get_concrete_function(tf.TensorSpec([2]), tf.TensorSpec([2]))
    assert [t.name for t in made.outputs] == ["Identity:0", *(f"Identity_{i}:0" for i in range(1, 5))]
    found = f(tf.constant([1.0, 2.0]), tf.constant([0.0, 5.0]))
    np.testing.assert_array_equal(found["sum"], [1, 7])
    np.testing.assert_array_equal(tf.sparse.to_dense(found["sparse"]), [0, 5])
    assert found["none"] is None


def test_arguments_of_variadic_functions_are_parameters_of_their_own():
    @tf.function
    def f(x, *more, k=1, **named):
        return x

    f(tf.constant([1.0]), 3, k=2, z="s")
    lines = f.pretty_printed_concrete_signatures().splitlines()
    assert lines[1:5] == [
        "  x (POSITIONAL_ONLY): TensorSpec(shape=(1,), dtype=tf.float32, name=None)",
        "  more_0 (POSITIONAL_ONLY): Literal[3]",
        "  k (KEYWORD_ONLY): Literal[2]",
        "  z (KEYWORD_ONLY): Literal['s']",
    ]
