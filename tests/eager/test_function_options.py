"""Options of tf.function in copies, pickles and attributes; and errors of traces for wrong arguments."""
import pickle
import threading

import pytest

import penstock as tf
from tests.checks import eventually


def double(x):
    return x * 2


def test_a_function_is_pickled_without_its_traces():
    f = tf.function(double, input_signature=[tf.TensorSpec([])], reduce_retracing=True, experimental_implements="a.b")
    assert float(f(2.0)) == 4.0
    g = pickle.loads(pickle.dumps(f))
    assert g.experimental_get_tracing_count() == 0
    assert g.input_signature == f.input_signature
    assert float(g(3.0)) == 6.0


def test_a_clone_may_have_another_python_function():
    f = tf.function(double)
    f(tf.constant(1.0))
    clone = f._clone(lambda x: x + 1)
    assert clone.experimental_get_tracing_count() == 0
    assert float(clone(tf.constant(1.0))) == 2.0


def test_attributes_reach_the_function_def():
    f = tf.function(double, experimental_implements="embed", experimental_attributes={"_size": 3})
    definition = f.get_concrete_function(tf.TensorSpec([])).function_def
    assert definition.attr["api_implements"].s == b"embed"
    assert definition.attr["_size"].i == 3


@pytest.mark.parametrize("args, kwargs, message", [
    ((), {}, "missing a required argument: 'x'"),
    ((tf.constant(1.0), tf.constant(1.0), tf.constant(1.0)), {}, "too many positional arguments"),
    ((tf.constant(1.0), tf.constant(1.0)), {"z": tf.constant(1.0)}, "unexpected keyword argument 'z'"),
    ((tf.constant(1.0),), {"x": tf.constant(1.0)}, "unexpected keyword argument 'x'"),
])
def test_a_trace_names_the_argument(args, kwargs, message):
    concrete = tf.function(lambda x, y: x + y).get_concrete_function(tf.TensorSpec([]), tf.TensorSpec([]))
    with pytest.raises(TypeError, match=message):
        concrete(*args, **kwargs)


def test_a_trace_has_a_function_type():
    concrete = tf.function(double).get_concrete_function(tf.TensorSpec([None], tf.float32))
    assert str(concrete.function_type) == ("(x: TensorSpec(shape=(None,), dtype=tf.float32, name=None)) -> "
                                           "TensorSpec(shape=(None,), dtype=tf.float32, name=None)")
    assert float(concrete.inference_fn(tf.constant([3.0]))[0]) == 6.0
    pruned = tf.compat.v1.wrap_function(double, [tf.TensorSpec([])]).prune([], [])
    assert list(pruned.function_type.parameters) == []


def test_arguments_that_do_not_fit():
    f = tf.function(double, input_signature=[tf.TensorSpec([None])])
    for error in (TypeError, ValueError):                              # the second until TensorFlow 2.12
        with pytest.raises(error, match="incompatible with input_signature"):
            f(tf.constant(1.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="'x' has dtype int32, expected float32"):
        f.get_concrete_function()(tf.constant([1]))


def test_defaults_of_arguments_that_a_signature_names():
    @tf.function(input_signature=[tf.TensorSpec([None, 1]), tf.TensorSpec([]), tf.TensorSpec([])])
    def f(x, a=1.0, b=0.0):
        return a * x + b
    x = tf.constant([[3.0]])
    assert [float(v[0, 0]) for v in (f(x), f(x, 2.0), f(x, b=2.0), f(x, 2.0, 1.0))] == [3, 6, 5, 7]
    assert f.experimental_get_tracing_count() == 1
    with pytest.raises(TypeError, match="missing arguments"):
        f(a=1.0)


def test_shapes_that_a_function_leaves_open_follow_from_its_arguments():
    @tf.function(input_signature=[tf.TensorSpec([None, 1]), tf.TensorSpec(None)])
    def f(x, y):
        return tf.concat([x, x], 1), tf.reduce_sum(x), y + 1.0

    @tf.function
    def outer(x, y):
        return f(x, y)
    graph = tf.Graph()
    with graph.as_default():
        made = f(tf.compat.v1.placeholder(tf.float32, [10, 1]), tf.compat.v1.placeholder(tf.float32, [None, 3]))
        assert [t.shape.as_list() for t in made] == [[10, 2], [], [None, 3]]
        unknown = f(tf.compat.v1.placeholder(tf.float32), tf.compat.v1.placeholder(tf.float32))
        assert [t.shape.rank for t in unknown] == [2, 0, None]
    nested = outer.get_concrete_function(tf.TensorSpec([4, 1]), tf.TensorSpec([2]))
    assert [s.as_list() for s in nested.output_shapes] == [[4, 2], [], [2]]


def test_ragged_arguments_of_a_signature_have_its_shape():
    seen = []

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def sums(x):
        seen.append(x.shape.as_list())
        return tf.reduce_sum(x, axis=1)
    for rows in ([[1, 2]], [[1], [2, 3], []], [[4, 5, 6]] * 4):
        assert sums(tf.ragged.constant(rows, tf.int32)).numpy().tolist() == [sum(r) for r in rows]
    assert seen == [[None, None]]
    assert sums.get_concrete_function().structured_input_signature[0] == (tf.RaggedTensorSpec([None, None], tf.int32, 1),)


def test_ragged_arguments_are_traced_by_shape_not_by_number_of_values():
    seen = []

    def sums(x):
        seen.append(x.shape.as_list())
        return tf.reduce_sum(x, axis=1)
    function, rows = tf.function(sums), tf.RaggedTensor.from_row_splits
    uniform = tf.RaggedTensor.from_uniform_row_length(tf.range(6), 3)
    for x, want in ((uniform, [3, 12]), (rows(tf.range(6), [0, 1, 6]), [0, 15]), (rows(tf.range(7), [0, 2, 7]), [1, 20])):
        assert function(x).numpy().tolist() == want
    assert seen == [[2, 3], [2, None]]
    seen.clear()
    function = tf.function(sums, reduce_retracing=True)
    for n in range(1, 6):
        assert function(tf.ragged.constant([[1, 2]] * n)).numpy().tolist() == [3] * n
    assert seen == [[1, None], [None, None]]


def test_concrete_functions_take_arguments_as_the_python_function_does():
    @tf.function
    def f(x, y):
        return x["a"] + x["b"], y[0] + y[1]
    a, b = {"a": 5000, "b": 500}, (50, 5)
    bound = f.get_concrete_function(a, b)
    for out in (bound(), bound(a, b), bound(x=a, y=b)):
        assert [int(v) for v in out] == [5500, 55]
    with pytest.raises(TypeError, match=r"Can not cast 51 to Literal\[50\]"):
        bound(a, (51, 5))


def test_parameters_come_before_names_of_specs():
    @tf.function
    def f(x, y):
        return x * 10 + y
    swapped = f.get_concrete_function(x=tf.TensorSpec(None, tf.int32, name="y"), y=tf.TensorSpec(None, tf.int32, name="x"))
    assert int(swapped(x=tf.constant(5), y=tf.constant(6))) == 56


def test_many_traces_in_few_calls_are_worth_two_warnings(caplog):
    @tf.function
    def f(x):
        return x
    for i in range(4):
        f(i)
    for _ in range(20):
        f(3)
    for i in range(4):
        f(10 + i)
    assert not caplog.records
    for i in range(10):
        f(20 + i)
    assert len(caplog.records) == 2
    assert "5 out of the last 5 calls to f triggered tf.function retracing" in caplog.text


def test_threads_that_wait_for_a_trace_have_not_traced(caplog):
    f = tf.function(lambda x: x + 1)
    threads = [threading.Thread(target=f, args=(tf.constant(1.0),)) for _ in range(8)]
    with f._lock:                                              # nobody traces before all have begun their call
        for t in threads:
            t.start()
        assert eventually(lambda: f._history.calls == 8)
    for t in threads:
        t.join()
    assert f.experimental_get_tracing_count() == 1 and not caplog.records


def test_functions_created_in_a_loop_share_a_history(caplog):
    for i in range(5):
        @tf.function
        def f(x):
            return x
        f(i)
    assert "Tracing is expensive" in caplog.text


def test_a_trace_serves_the_shapes_that_it_covers():
    @tf.function
    def f(x):
        return x + 1
    general = f.get_concrete_function(tf.TensorSpec([None, None], tf.int32, name="named"))
    rows = f.get_concrete_function(tf.TensorSpec([None, 3], tf.int32))
    assert rows is general
    assert f.get_concrete_function(tf.TensorSpec([2, 3], tf.int32, name="other")) is not general
    assert f(tf.ones([4, 3], tf.int32)).shape == (4, 3)
    assert f.experimental_get_tracing_count() == 2


def test_concrete_functions_in_graphs_check_shapes():
    @tf.function
    def f(x):
        return x + 1.
    concrete = f.get_concrete_function(tf.TensorSpec([1], tf.float32))

    @tf.function
    def g():
        return concrete(tf.constant([1., 2.]))
    with pytest.raises(TypeError, match=r"Can not cast TensorSpec\(shape=\(2,\).* to TensorSpec\(shape=\(1,\)"):
        g()


@pytest.mark.parametrize("args, kwargs, message", [
    ((1,), {}, r"f\(x, y\) missing required arguments: y"),
    ((1,), {"x": 1, "y": 1}, r"f\(x, y\) got two values for 'x'"),
    ((1, 2, 3), {}, r"f\(x, y\) takes 2 .* got 3"),
    ((1, 2), {"c": 3}, r"f\(x, y\) got unexpected keyword arguments: c")])
def test_tensors_one_by_one(args, kwargs, message):
    @tf.function
    def f(x, y=5, *rest, **more):
        return x
    concrete = f.get_concrete_function(tf.constant(1), tf.constant(2))
    with pytest.raises(TypeError, match=message):
        concrete(*map(tf.constant, args), **{k: tf.constant(v) for k, v in kwargs.items()})


def test_what_cannot_be_an_argument():
    import weakref
    with pytest.raises(TypeError, match="not a callable object"):
        tf.function(1)
    same = tf.function(lambda x: 1.)
    for x in (set(), weakref.ref(same)):
        with pytest.raises(TypeError, match="TraceType"):
            same(x)
    with pytest.raises(ValueError, match="collision"):
        tf.function(lambda **names: 1.)(**{"a_b": 1, "a/b": 2})


def test_a_function_may_not_change_its_arguments():
    @tf.function
    def move(n):
        n[0].append(n[1].pop(0))
    one = tf.constant(1)
    with pytest.raises(ValueError, match="move.* should not modify"):
        move([[one], [one, one]])


def test_recursion_without_end_is_a_recursion_error():
    @tf.function(autograph=False)
    def again(n):
        return again(n - 1)
    with pytest.raises(RecursionError, match="again"):
        again(tf.constant(5))


def test_the_compiled_program_as_text():
    f = tf.function(lambda x: 2.0 * x, jit_compile=True)
    get = f.experimental_get_compiler_ir(tf.constant([1.0, 2.0]))
    assert "Mul" in get(stage="hlo") and get(stage="optimized_hlo") == f.explain(tf.constant([1.0, 2.0]))
    for stage in ("optimized_hlo_dot", "hlo_serialized"):
        with pytest.raises(ValueError, match="requested stage is not supported"):
            get(stage=stage)
    with pytest.raises(ValueError, match="requested stage is not supported"):
        get(stage="optimized_hlo", platform_name="GPU")
    with pytest.raises(ValueError, match="jit_compile=True"):
        tf.function(lambda x: x).experimental_get_compiler_ir(1.0)


@pytest.mark.parametrize("given", [(["a"],), (tf.constant(1),), (), (1.0, 2.0)])
def test_arguments_that_do_not_fit_a_signature(given):
    f = tf.function(lambda x: x, input_signature=[tf.TensorSpec(None)])
    for error in (TypeError, ValueError):
        with pytest.raises(error, match="Binding inputs to tf.function failed due to"):
            f(*given)
