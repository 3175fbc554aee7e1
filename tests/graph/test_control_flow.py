"""cond, case and while_loop: as Switch and Merge (compiled, and on the executor), as functional ops, in functions, eagerly."""
import contextlib
from unittest import mock

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.graph import context


class Mode:
    """One way to build and run: `run(f, *arrays)` returns the value of f(tensors), `grads` also its gradients."""

    def __init__(self, name):
        self.name = name

    def run(self, f, *arrays):
        return self._run(f, arrays, False)

    def grads(self, f, *arrays):
        return self._run(f, arrays, True)

    def _run(self, f, arrays, grads):
        if self.name in ("eager", "function"):
            return self._eager(tf.function(f) if self.name == "function" else f, arrays, grads)
        context.process.v2_control_flow = self.name == "v2"
        executor = mock.patch("penstock._src.step.compiler.write_structured", lambda *_: None)
        with tf.Graph().as_default(), executor if self.name == "executor" else contextlib.nullcontext():
            xs = [tf.placeholder(np.asarray(a).dtype, np.shape(a)) for a in arrays]
            y = f(*xs)
            out = (y, tf.gradients(y, xs)) if grads else y
            with tf.Session() as sess:
                return sess.run(out, dict(zip(xs, arrays, strict=True)))

    def _eager(self, f, arrays, grads):
        with context.enter(None):
            xs = [tf.constant(a) for a in arrays]
            with tf.GradientTape() as tape:
                tape.watch(xs)
                y = f(*xs)
            value = tf.nest.map_structure(lambda t: t.numpy(), y)
            return (value, [g.numpy() for g in tape.gradient(y, xs)]) if grads else value


MODES = ("v1", "executor", "v2", "function", "eager")
modes = pytest.mark.parametrize("mode", [Mode(n) for n in MODES], ids=MODES)
graphs = pytest.mark.parametrize("mode", [Mode(n) for n in MODES[:-1]], ids=MODES[:-1])
F = np.float32


@pytest.fixture(autouse=True)
def _v1_control_flow():
    """Tests that build a graph themselves build Switch and Merge, unless they say otherwise."""
    context.process.v2_control_flow = False


@modes
def test_cond_takes_one_branch(mode):
    def f(x):
        return tf.cond(x < 0.0, lambda: -x * x, lambda: x + 1.0)
    assert mode.run(f, F(-3)) == -9
    assert mode.run(f, F(3)) == 4
    assert mode.grads(f, F(-3)) == (-9, [6])
    assert mode.grads(f, F(3)) == (4, [1])


@modes
def test_cond_gives_structures(mode):
    def f(x):
        return tf.cond(x > 0.0, lambda: {"a": x, "b": (x * 2.0, x * 3.0)}, lambda: {"a": -x, "b": (x, x)})
    assert mode.run(f, F(1)) == {"a": 1, "b": (2, 3)}
    assert mode.run(f, F(-1)) == {"a": 1, "b": (-1, -1)}


@graphs
def test_only_the_taken_branch_runs(mode):
    ran = []

    def side(name):
        def note(x):
            ran.append(name)
            return x
        return lambda: tf.py_func(note, [tf.constant(1.0)], tf.float32)

    def f(p):
        return tf.cond(p, side("true"), side("false"))
    mode.run(f, np.bool_(True))
    assert ran == ["true"]
    mode.run(f, np.bool_(False))
    assert ran == ["true", "false"]


@modes
def test_conds_nest(mode):
    def f(x):
        return tf.cond(x > 0.0, lambda: tf.cond(x > 10.0, lambda: x * 2.0, lambda: x * 3.0), lambda: x * x)
    for x, y, g in ((20, 40, 2), (5, 15, 3), (-4, 16, -8)):
        assert mode.grads(f, F(x)) == (y, [g])


@graphs
def test_an_outer_tensor_may_be_a_result(mode):
    assert mode.grads(lambda x, y: tf.cond(x > y, lambda: x, lambda: y), F(1), F(2)) == (2, [0, 1])


def test_branches_must_agree():
    with tf.Graph().as_default():
        p = tf.placeholder(tf.bool)
        with pytest.raises(ValueError, match="must have the same type: float32, int32"):
            tf.cond(p, lambda: 1.0, lambda: 1)
        with pytest.raises(ValueError, match="Incompatible return values"):
            tf.cond(p, lambda: (1.0, 2.0), lambda: (1.0, 2.0, 3.0))
        with pytest.raises(ValueError, match="must have a return value"):
            tf.cond(p, lambda: None, lambda: None)
        with pytest.raises(TypeError, match="must not be a Python bool"):
            tf.cond(True, lambda: 1, lambda: 2)
        with pytest.raises(TypeError, match="false_fn argument required"):
            tf.cond(p, lambda: 1)


def test_names_and_contexts_are_tensorflows():
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [], "x")
        seen = []

        def branch():
            seen.append(g._get_control_flow_context())
            return x * 2.0
        y = tf.cond(x > 0.0, branch, lambda: x)
        i = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        assert y.name == "cond/Merge:0" and i.name == "while/Exit:0"
        assert seen[0].branch == 1 and seen[0].pred.name == "cond/pred_id:0" and seen[0].IsCondContext()
        names = {op.name: op.type for op in g.get_operations()}
        assert names["cond/Switch"] == "Switch" and names["while/NextIteration"] == "NextIteration"
        assert names["while/LoopCond"] == "LoopCond" and names["while/Enter"] == "Enter"
        loop = g.get_operation_by_name("while/Merge")._get_control_flow_context()
        assert loop.GetWhileContext() is loop and loop.name == "while/while_context"
        with pytest.raises(ValueError, match="not fetchable"):
            tf.Session().run(g.get_tensor_by_name("while/Identity:0"))


@modes
def test_case(mode):
    def f(x):
        return tf.case([(x < 1.0, lambda: x * 2.0), (x < 5.0, lambda: x * 3.0)], default=lambda: x)
    for x, y, g in ((0.5, 1, 2), (2, 6, 3), (9, 9, 1)):
        assert mode.grads(f, F(x)) == (y, [g])


def test_case_checks_its_predicates():
    with tf.Graph().as_default(), tf.Session() as sess:
        t, f = tf.constant(True), tf.constant(False)
        y = tf.case([(t, lambda: 1), (t, lambda: 2)], default=lambda: 3, exclusive=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="more than 1 conditions"):
            sess.run(y)
        with pytest.raises(tf.errors.InvalidArgumentError, match="None of conditions evaluated as True"):
            sess.run(tf.case([(f, lambda: tf.constant(1)), (f, lambda: tf.constant(2))]))
        with pytest.raises(TypeError, match="must be a Tensor"):
            tf.case([(True, lambda: 1)])


@modes
def test_switch_case(mode):
    def f(i, x):
        return tf.switch_case(tf.cast(i, tf.int32), [lambda: x, lambda: x * x, lambda: x * x * x], default=lambda: -x)
    values = [mode.run(f, np.int32(i), F(2)) for i in (0, 1, 2, 3, -1)]
    assert values == [2, 4, 8, -2, -2]


@graphs
def test_switch_case_gradient(mode):
    for i, g in ((0, 1), (1, 6), (2, 27)):
        def f(x, i=i):
            return tf.switch_case(tf.constant(i), [lambda: x, lambda: x * x, lambda: x * x * x])
        assert mode.grads(f, F(3))[1] == [g]


# -- loops ----------------------------------------------------------------------------------------------------------
@modes
def test_a_loop_counts(mode):
    assert mode.run(lambda n: tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0)]), np.int32(7)) == 7
    assert mode.run(lambda n: tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(5)]), np.int32(3)) == 5


@modes
def test_loop_variables_are_structures(mode):
    def f(x):
        def body(i, pair):
            return i + 1, {"a": pair["b"], "b": pair["a"] + pair["b"]}
        return tf.while_loop(lambda i, pair: i < 6, body, (tf.constant(0), {"a": x, "b": x}))
    i, pair = mode.run(f, F(1))
    assert i == 6 and pair == {"a": 13, "b": 21}


@modes
def test_maximum_iterations(mode):
    def f(n):
        return tf.while_loop(lambda i: i < 100, lambda i: i + 1, [tf.constant(0)], maximum_iterations=n)
    assert mode.run(f, np.int32(5)) == 5


@modes
@pytest.mark.parametrize("parallel", [1, 10])
def test_loop_gradient(mode, parallel):
    def f(x, w):
        _, y = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, tf.tanh(a * w) + x), (tf.constant(0), x),
                             parallel_iterations=parallel)
        return tf.reduce_sum(y)
    x, w = np.array([0.1, -0.4], F), 0.7
    value, (dx, dw) = mode.grads(f, x, F(w))

    def reference(x, w):
        a = x.astype(float)
        for _ in range(4):
            a = np.tanh(a * w) + x
        return a.sum()
    e = 1e-5
    np.testing.assert_allclose(value, reference(x, w), rtol=1e-5)
    np.testing.assert_allclose(dw, (reference(x, w + e) - reference(x, w - e)) / (2 * e), rtol=1e-3)
    for k in range(2):
        d = np.zeros(2)
        d[k] = e
        np.testing.assert_allclose(dx[k], (reference(x + d, w) - reference(x - d, w)) / (2 * e), rtol=1e-3)


@modes
def test_gradient_of_a_loop_in_a_loop_with_a_cond(mode):
    def f(x):
        def outer(i, a):
            _, b = tf.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b * x), (tf.constant(0), a))
            return i + 1, tf.cond(i < 2, lambda: b * 2.0, lambda: b + x)
        return tf.while_loop(lambda i, a: i < 4, outer, (tf.constant(0), tf.constant(1.0)))[1]

    def reference(x):
        a = 1.0
        for i in range(4):
            a *= x ** i
            a = a * 2 if i < 2 else a + x
        return a
    value, (g,) = mode.grads(f, F(1.1))
    np.testing.assert_allclose(value, reference(1.1), rtol=1e-5)
    np.testing.assert_allclose(g, (reference(1.1 + 1e-6) - reference(1.1 - 1e-6)) / 2e-6, rtol=1e-3)


@graphs
def test_gradient_of_a_loop_in_a_branch(mode):
    def f(x):
        def loop():
            return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (tf.constant(0), x))[1]
        return tf.cond(x > 0.0, loop, lambda: x)
    assert mode.grads(f, F(2)) == (16, [32])
    assert mode.grads(f, F(-2)) == (-2, [1])


@graphs
def test_a_loop_that_does_not_run_has_a_gradient(mode):
    def f(x):
        return tf.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * x), (tf.constant(0), x))[1]
    assert mode.grads(f, F(3)) == (3, [1])


@graphs
def test_only_one_of_several_results_is_differentiated(mode):
    def f(x):
        _, a, _ = tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a * x, b * 2.0),
                                (tf.constant(0), x, tf.constant(1.0)))
        return a
    assert mode.grads(f, F(2))[1] == [32]


def test_gradient_of_an_embedding_in_a_loop_stays_sparse():
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.placeholder(tf.float32, [4, 2])
        _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.gather(table, i)),
                             (tf.constant(0), tf.zeros([2])))
        g, = tf.gradients(y, [table])
        assert isinstance(g, tf.IndexedSlices)
        dense = sess.run(tf.convert_to_tensor(g), {table: np.zeros((4, 2), F)})
    np.testing.assert_array_equal(dense, [[1, 1], [1, 1], [1, 1], [0, 0]])


@modes
def test_growing_shapes_need_invariants(mode):
    def f(x, invariants):
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.concat([a, x], 0)), (tf.constant(0), x),
                             shape_invariants=invariants)[1]
    grown = (tf.TensorShape([]), tf.TensorShape([None]))
    np.testing.assert_array_equal(mode.run(lambda x: f(x, grown), np.array([1, 2], F)), [1, 2] * 4)
    if mode.name != "eager":
        with pytest.raises(ValueError, match=r"shape \(2,\), but has shape \(4,\) after one iteration"):
            mode.run(lambda x: f(x, None), np.array([1, 2], F))
        with pytest.raises(ValueError, match="not compatible with the initial shape"):
            mode.run(lambda x: f(x, (tf.TensorShape([]), tf.TensorShape([3]))), np.array([1, 2], F))


def test_bad_loops():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="No loop variables"):
            tf.while_loop(lambda: True, lambda: (), [])
        with pytest.raises(TypeError, match="cond must be callable"):
            tf.while_loop(True, lambda i: i, [1])
        with pytest.raises(TypeError, match="positive integer"):
            tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=0)
        with pytest.raises(ValueError, match="maximum_iterations must be a scalar"):
            tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], maximum_iterations=[3])


def test_values_of_a_loop_stay_inside():
    with tf.Graph().as_default():
        inside = []

        def body(i):
            inside.append(i * 2)
            return i + 1
        tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
        with pytest.raises(ValueError, match="is in a while loop"):
            tf.add(inside[0], 1)


@graphs
def test_second_derivatives(mode):
    def f(x):
        y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (tf.constant(0), x))[1]
        return tf.gradients(y, x)[0]
    if mode.name in ("v1", "executor"):
        with pytest.raises(TypeError, match="Second-order gradient for while loops not supported"):
            mode.grads(f, F(2))
    else:
        assert mode.grads(f, F(2)) == (32, [48])


def test_third_derivative_of_a_functional_loop():
    mode = Mode("v2")

    def f(x):
        y = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x), (tf.constant(0), x))[1]
        return tf.gradients(tf.gradients(y, x)[0], x)[0]
    assert mode.grads(f, F(2)) == (160, [240])


@graphs
def test_assignments_in_loops_are_ordered(mode):
    if mode.name == "function":
        with context.enter(None):
            v = tf.Variable(1.0)

            @tf.function
            def f():
                tf.while_loop(lambda i: i < 3, lambda i: (v.assign(v * 2.0), i + 1)[1], [tf.constant(0)])
                return v.read_value()
            assert f().numpy() == 8
        return
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0, use_resource=True)

        def body(i):
            with tf.control_dependencies([v.assign(v.read_value() * 2.0)]):
                return i + 1
        loop = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
        sess.run(v.initializer)
        sess.run(loop)
        assert sess.run(v) == 8


@pytest.mark.parametrize("v2", [False, True])
def test_graphdef_round_trip_with_gradient(v2):
    context.process.v2_control_flow = v2
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [], "x")
        _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.cond(a > 9.0, lambda: a, lambda: a * x)),
                             (tf.constant(0), x))
        tf.stack([y, tf.gradients(y, x)[0]], name="r")
        message = g.as_graph_def()
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(message, name="")
        np.testing.assert_allclose(sess.run("r:0", {"x:0": 2.0}), [16, 32], rtol=1e-6)


@pytest.mark.parametrize("scope", ["", "imported"])
def test_contexts_as_messages_keep_an_imported_loop_differentiable(scope):
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [], "x")
        _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.cond(a > 9.0, lambda: a, lambda: a * x)),
                             (tf.constant(0), x))
        tf.identity(y, "y")
        message = g.as_graph_def()
        loops = [c.to_proto() for c in g.get_collection(tf.GraphKeys.WHILE_CONTEXT)]
    assert len(loops) == 1 and len(loops[0].nested_contexts) == 2
    with tf.Graph().as_default(), tf.Session() as sess:
        x, y = tf.import_graph_def(message, return_elements=["x:0", "y:0"], name=scope)
        from penstock._src.graph.while_context import WhileContext
        made = WhileContext.from_proto(type(loops[0]).FromString(loops[0].SerializeToString()), scope or None)
        assert made.to_proto(scope or None) == loops[0]
        g, = tf.gradients(y, x)
        assert sess.run([y, g], {x: 2.0}) == [16, 32]


@modes
@pytest.mark.parametrize("body", [lambda i, x: (i, i, x), lambda i, x: (i,), lambda i, x: (i + 1.0, [x, x])],
                         ids=["more", "fewer", "nested"])
def test_loops_keep_their_structure(mode, body):
    """An eager loop whose body adds variables would never end."""
    with pytest.raises((ValueError, TypeError), match="structure|iterate|expected"):
        mode.run(lambda i: tf.while_loop(lambda i, *x: i < 10.0, body, [i, tf.constant([2.0, 4.0])]), F(0))


def test_a_loop_may_add_rows_to_a_ragged_tensor_with_an_invariant():
    def run(x):
        return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, tf.concat([y, y], axis=0)), [tf.constant(0), x],
                             shape_invariants=[tf.TensorSpec([], tf.int32), tf.RaggedTensorSpec([None, None])])
    rows = tf.function(run)(tf.ragged.constant([[1., 2.], [3.]]))[1]
    assert rows.to_list() == [[1., 2.], [3.]] * 4
    with tf.Graph().as_default(), pytest.raises(TypeError, match="not compatible"):
        run(tf.ragged.constant([[1, 2], [3]]))


@pytest.mark.parametrize("v2", [False, True])
def test_slices_of_branches_have_indices_of_one_type(v2, monkeypatch):
    """One branch finds its rows with `where` (int64), the other has them from a lookup (int32)."""
    monkeypatch.setattr(context.process, "v2_control_flow", v2)
    with tf.Graph().as_default(), tf.Session() as sess:
        few, rows = tf.placeholder(tf.bool, []), tf.constant([2, 0])
        values = tf.constant([[1.0], [2.0], [3.0]])
        some = tf.cond(few, lambda: tf.IndexedSlices(values, tf.squeeze(tf.where([True, True, True]), -1), tf.constant([3, 1])),
                       lambda: tf.IndexedSlices(tf.gather(values, rows), rows, tf.constant([3, 1])))
        assert some.indices.dtype == tf.int64
        dense = tf.convert_to_tensor(some)
        assert sess.run(dense, {few: True}).tolist() == [[1.0], [2.0], [3.0]]
        assert sess.run(dense, {few: False}).tolist() == [[1.0], [0.0], [3.0]]
