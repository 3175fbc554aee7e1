"""AutoGraph: what a function does in a graph is what it does in Python; errors name the user's lines."""
import functools
import pathlib
import traceback

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from tests.eager.autograph.cases import CASES, plain, tensors

C = tf.constant


@pytest.mark.parametrize("f, calls", CASES, ids=[f.__name__ for f, _ in CASES])
def test_graph_as_python(f, calls):
    traced = tf.function(f)
    for arguments in calls:
        assert plain(traced(*tensors(arguments))) == plain(f(*tensors(arguments)))
    if all(a == b for a, b in zip(calls, calls[1:], strict=False)):
        return
    assert traced.experimental_get_tracing_count() == 1                # the way through was not fixed when tracing


@pytest.mark.parametrize("f, calls", CASES, ids=[f.__name__ for f, _ in CASES])
def test_rewritten_code_executes_eagerly_too(f, calls):
    rewritten = tf.autograph.to_graph(f)
    for arguments in calls:
        assert plain(rewritten(*tensors(arguments))) == plain(f(*tensors(arguments)))


# -- beyond TensorFlow: these raise there -----------------------------------------------------------------------------
def test_loops_that_begin_in_python():
    @tf.function
    def double(x):
        n = 0
        while True:
            n += 1
            x = x * 2
            if x > 100:
                break
        return n, x
    assert plain(double(C(3))) == (6, 192)


def test_break_out_of_a_python_loop_depends_on_a_tensor():
    @tf.function
    def f(x):
        for i in [1, 2, 3, 4]:
            x += i
            if x > 6:
                break
        return x
    assert [f(C(n)).numpy() for n in (4, 0, -10)] == [7, 10, 0]


def test_endless_loop_with_return():
    @tf.function
    def f(x):
        while True:
            x = x * 2
            if x > 100:
                return x
    assert f(C(3)).numpy() == 192


def test_else_of_loops():
    @tf.function
    def f(n):
        for i in tf.range(n):
            if i == 5:
                break
        else:
            return -1
        return i
    assert [f(C(n)).numpy() for n in (3, 9)] == [-1, 5]


def test_private_names_and_super():
    class Base:
        def scale(self, x):
            return x * 2

    class Derived(Base):
        def __init__(self):
            self.__factor = 3

        def scale(self, x):
            if x > 0:
                return super().scale(x) * self.__factor
            return x

        @tf.function
        def __call__(self, x):
            return self.scale(x)
    assert [Derived()(C(n)).numpy() for n in (2, -2)] == [12, -2]


# -- effects ----------------------------------------------------------------------------------------------------------
def test_variables_in_branches_and_loops():
    v = tf.Variable(0)

    @tf.function
    def f(n):
        while v < n:
            if v % 2 == 0:
                v.assign_add(3)
            else:
                v.assign_add(1)
        return v.read_value()
    assert f(C(10)).numpy() == 11 and v.numpy() == 11


def test_a_test_with_effects_runs_once_per_iteration():
    v = tf.Variable(0)

    @tf.function
    def f():
        n = 0
        while v.assign_add(1) < 5:
            n += 1
        return n
    assert f().numpy() == 4 and v.numpy() == 5


def test_print_shows_symbolic_tensors_once_per_trace(capsys):
    @tf.function
    def f(x):
        print("tracing")
        if x > 0:
            print("value", x)
        return x
    f(C(1)), f(C(2)), f(C(-1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tracing" and len(lines) == 2
    assert lines[1].startswith("value Tensor(") and "shape=(), dtype=int32" in lines[1]


@pytest.mark.parametrize("feature", [tf.autograph.experimental.Feature.BUILTIN_FUNCTIONS,
                                     (tf.autograph.experimental.Feature.ALL,)])
def test_print_shows_values_with_the_feature_for_builtins(capsys, feature):
    @tf.function(experimental_autograph_options=feature)
    def f(x):
        print("tracing")
        if x[0] > 0:
            print("value", x, {"a": 1}, sep="|")
        return x
    f(C([1, 2])), f(C([3, 4])), f(C([-1, 0]))
    assert capsys.readouterr().out.splitlines() == ["tracing", "value|[1 2]|{'a': 1}", "value|[3 4]|{'a': 1}"]


def _finally_returns(x):
    try:
        return 2
    finally:
        if x > 0:
            return 1                # noqa: B012
        return 0                    # noqa: B012


def _finally_may_return(x):
    try:
        return x * 10
    finally:
        if x > 0:
            return x                # noqa: B012


def _returns_in_try(x):
    try:
        if x > 0:
            return 1
        return 0
    finally:
        x = x + 1


def _returns_in_handlers(x):
    try:
        if x > 0:
            return x
        x = x - 1
        return x
    except ValueError:
        return x * 5


def _returns_in_with(x):
    with tf.name_scope("a"):
        if x > 0:
            return x
        x = x - 1
        return x


@pytest.mark.parametrize("f", [_finally_returns, _finally_may_return, _returns_in_try, _returns_in_handlers,
                               _returns_in_with])
def test_returns_in_try_and_with(f):
    for x in (0, 1):
        for argument in (x, C(x)):
            assert tf.function(f)(argument).numpy() == f(x)


def test_shape_invariants_of_composite_variables():
    @tf.function
    def sparse(n):
        v = tf.SparseTensor([[0, 0], [1, 1]], [1, 2], [3, 3])
        for _ in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(v, tf.TensorShape(None))])
            v = tf.sparse.expand_dims(v)
        return v

    @tf.function
    def ragged(n):
        v, i = tf.ragged.constant([[1], [2, 3]]), 0
        while i < n:
            tf.autograph.experimental.set_loop_options(
                shape_invariants=[(v, tf.RaggedTensorSpec([None, None], tf.int32))])
            v, i = tf.concat([v, v], 0), i + 1
        return v
    assert sparse(C(2)).dense_shape.numpy().tolist() == [3, 3, 1, 1]
    assert ragged(C(1)).to_list() == [[1], [2, 3], [1], [2, 3]]


def test_a_generator_cannot_be_a_function():
    @tf.function
    def f(x):
        yield x
    with pytest.raises(TypeError, match="is a generator"):
        f(C(1))


def test_assert():
    @tf.function
    def f(x):
        assert x > 0, "must be positive"
        return x
    assert f(C(1)).numpy() == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"):
        f(C(-1))
    with pytest.raises(AssertionError, match="never"):
        tf.function(_fails)(C(1))


def _fails(x):
    assert x is None, "never"


def test_variable_of_a_loop_that_does_not_run():
    @tf.function
    def f(n):
        for i in tf.range(n):
            t = i
        return t
    with pytest.raises(tf.errors.InvalidArgumentError, match="loop must iterate at least once to initialize"):
        f(C(0))


def test_variable_that_is_none_before_a_loop():
    """It gets the type of its first value, as in TensorFlow; a variable that stays None is None."""
    @tf.function
    def last(n):
        found = other = None
        for i in tf.range(n):
            found = [i, tf.cast(i, tf.float32) * 2.0]
        return found, other
    found, other = last(C(3))
    assert [x.numpy() for x in found] == [2, 4.0] and other is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least once to initialize .*found"):
        last(C(0))

    @tf.function
    def largest(x):
        best = None
        while x > 0:
            best = x if best is None else tf.maximum(best, x)
            x -= 1
        return best
    assert largest(C(4)).numpy() == 4
    with pytest.raises(ValueError, match="'y' is None at the end of the iteration"):
        tf.function(_becomes_none)(C(2))


def _becomes_none(n):
    y = C(1)
    for _ in tf.range(n):
        y = None
    return y


# -- errors -----------------------------------------------------------------------------------------------------------
def _one_branch(x):
    if x > 3:
        y = x
    return y  # noqa: F821


def _no_return(x):
    if x > 3:
        return x


def _none(x):
    y = None
    if x > 3:
        y = x
    return y


def _types(x):
    if x > 3:
        y = 1
    else:
        y = 2.0
    return y


def _structures(x):
    if x > 3:
        y = (x, x)
    else:
        y = x
    return y


def _loop_type(x):
    y = C(1)
    while x > 0:
        y = y / 2
        x -= 1
    return y


def _loop_shape(x):
    y = tf.zeros([1])
    while x > 0:
        y = tf.concat([y, y], 0)
        x -= 1
    return y


def _list_in_loop(x):
    found = []
    for i in tf.range(x):
        found.append(i)
    return tf.stack(found)


def _number(x):
    return 1 if x else 2


@pytest.mark.parametrize("f, error, text", [
    (_number, ValueError, "condition of if statement expected to be `tf.bool` scalar"),
    (_one_branch, ValueError, "'y' must also be initialized in the else branch"),
    (_no_return, ValueError, "the else branch must also have a return statement"),
    (_none, ValueError, "'y' is None at the end of the else branch"),
    (_types, TypeError, "'y' has dtype int32 in the main branch, but dtype float32 in the else branch"),
    (_structures, TypeError, "'y' does not have the same nested structure"),
    (_loop_type, TypeError, "'y' has dtype int32 before the loop, but dtype float64 after one iteration"),
    (_loop_shape, ValueError, r"'y' has shape \(1,\) before the loop, but shape \(2,\) after one iteration"),
    (_list_in_loop, Exception, "cannot be accessed here"),
])
def test_what_is_refused(f, error, text):
    with pytest.raises(error, match=text):
        tf.function(f)(C(5))


def _fails_in_a_loop(x):
    for i in tf.range(3):
        if i > x:
            y = tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))
        else:
            y = tf.zeros([2, 3])
    return y


def test_errors_while_tracing_name_the_line():
    with pytest.raises(ValueError) as e:
        tf.function(_fails_in_a_loop)(C(1))
    mine = [f for f in traceback.extract_tb(e.value.__traceback__) if f.filename == __file__]
    assert "tf.matmul(" in mine[-1].line


def _fails_at_run_time(x):
    if x > 0:
        y = tf.reshape(tf.range(x), [3])        # here
    else:
        y = tf.zeros([3], tf.int32)
    return y


def test_errors_while_running_name_the_line():
    f = tf.function(_fails_at_run_time)
    assert f(C(3)).numpy().tolist() == [0, 1, 2]
    line = 1 + next(i for i, s in enumerate(pathlib.Path(__file__).read_text().splitlines()) if s.endswith("# here"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"test_autograph.py:{line}"):
        f(C(4))


# -- what is rewritten ------------------------------------------------------------------------------------------------
def test_do_not_convert():
    @tf.autograph.experimental.do_not_convert
    def f(x):
        return 1 if x > 0 else 2
    with pytest.raises(TypeError, match="bool"):
        tf.function(f)(C(1))
    with pytest.raises(TypeError, match="bool"):
        tf.function(lambda x: f(x))(C(1))
    with pytest.raises(TypeError, match="bool"):
        tf.function(_no_return, autograph=False)(C(1))


def test_partials_methods_and_callables():
    class Scaled:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k if x > 0 else x

    def add(a, b):
        return a + b if a > 0 else b
    f = tf.function(lambda x: (functools.partial(add, b=x)(x), Scaled(3)(x), Scaled(4).__call__(x)))
    assert plain(f(C(2))) == (4, 6, 8) and plain(f(C(-2))) == (-2, -2, -2)


def test_generators_run_as_they_are():
    def numbers(n):
        yield from range(n)

    @tf.function
    def f(x):
        for i in numbers(3):
            if x > 1:
                x = x + i
        return x
    assert [f(C(n)).numpy() for n in (2, 0)] == [5, 0]


def test_to_code_and_a_function_without_source():
    assert "ag__.if_stmt" in tf.autograph.to_code(_types)
    scope = {}
    exec("def f(x): return x + 1", scope)
    assert tf.function(scope["f"])(C(1)).numpy() == 2
    with pytest.raises(ValueError, match="source"):
        tf.autograph.to_graph(scope["f"])


def test_v1_graphs():
    with tf1.Graph().as_default():
        x = tf1.placeholder(tf.int32, [])
        y = tf1.autograph.to_graph(CASES[5][0])(tf1.placeholder_with_default([[1., 2.], [3., 4.]], [None, 2]))
        steps = tf1.autograph.to_graph(next(f for f, _ in CASES if f.__name__ == "while_with_return"))(x)
        with tf1.Session() as sess:
            np.testing.assert_array_equal(sess.run(y), [4, 6])
            assert [sess.run(steps, {x: n}) for n in (1, 6, 27)] == [-1, 5, 5]


def test_loop_over_ragged_rows():
    @tf.function
    def f(rows):
        n = 0
        for row in rows:
            n += tf.reduce_sum(row) * tf.size(row)
        return n
    assert f(tf.ragged.constant([[1, 2], [], [3]])).numpy() == 9


def test_nothing_grows_when_functions_are_made_again():
    from penstock._src.eager.autograph import convert

    def make():
        def f(x):
            if x > 0:
                x = x + 1
            return x
        return f
    for _ in range(3):
        convert.converted(make())
    size = len(convert._rewritten)
    convert.converted(make())
    assert len(convert._rewritten) == size


def test_arrays_of_graphs_without_functional_loops():
    def squares(x):
        found, i = tf1.TensorArray(tf1.float32, size=tf.shape(x)[0]), 0
        for row in x:
            found = found.write(i, row * row)
            i += 1
        return found.stack()
    tf1.disable_control_flow_v2()
    with tf.Graph().as_default(), tf1.Session() as sess:
        x = tf1.placeholder(tf1.float32, [None, 2])
        y = tf1.autograph.to_graph(squares)(x)
        value, slope = sess.run([y, tf1.gradients(y, x)[0]], {x: [[1, 2], [3, 4]]})
    assert value.tolist() == [[1, 4], [9, 16]] and slope.tolist() == [[2, 4], [6, 8]]


def test_annotated_variables_of_blocks():
    @tf.function
    def f(x, n):
        if tf.reduce_sum(x) > 0:
            y: tf.Tensor = x * 2.0
        else:
            y: tf.Tensor
            y = -x
        total: tf.Tensor = C(0.0)
        for i in tf.range(n):
            step: tf.Tensor = tf.cast(i, tf.float32)
            total = total + step
        return y, total
    y, total = f(C([1.0, 2.0]), C(4))
    assert y.numpy().tolist() == [2.0, 4.0] and total == 6.0
    y, total = f(C([-1.0, -2.0]), C(3))
    assert y.numpy().tolist() == [1.0, 2.0] and total == 3.0
