"""Each pass by itself, its switch, and what no pass may do."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.kernels import images
from penstock._src.step.ir import verify
from penstock._src.step.optimize.arithmetic import simplify_arithmetic
from penstock._src.step.optimize.common import merge_common
from penstock._src.step.optimize.dependencies import simplify_dependencies
from penstock._src.step.optimize.folding import fold_constants
from penstock._src.step.optimize.forwarding import forward_values
from penstock._src.step.optimize.fusion import fuse
from penstock._src.step.optimize.options import ALL, NONE, options_of

from .steps import after, both, config, same, step_of


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def types(fetches, feeds=None, **switches):
    """The op types in a session's program."""
    with tf.Session(config=config(**switches)) as sess:
        text = sess.explain(fetches, dict.fromkeys(feeds or (), None))
    return [line.rsplit(": ", 1)[1].split(" ")[0] for line in text.splitlines() if "  # " in line]


# -- dependencies -----------------------------------------------------------------------------------------------------
def test_what_others_only_wait_for_does_not_run():
    x = tf.placeholder(tf.float32, [2])
    waste = tf.exp(x)
    with tf.control_dependencies([waste]):
        y = tf.identity(x)
    assert "Exp" not in after(simplify_dependencies, [y], feeds=[x])


def test_waiting_for_an_op_is_waiting_for_the_effects_behind_it():
    v = tf.Variable(1.)
    add = tf.assign_add(v, 1.)
    with tf.control_dependencies([tf.exp(add)]):
        y = tf.constant(3.) * 2.
    left = after(simplify_dependencies, [y])
    assert "AssignAddVariableOp" in left and "Exp" not in left
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(y)
        assert sess.run(v) == 2.


def test_an_operation_that_was_asked_for_runs():
    x = tf.constant([1.])
    assert "Exp" in after(simplify_dependencies, [], [tf.exp(x).op])
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(tf.reshape(tf.constant([1., 2.]), tf.placeholder_with_default([3], [1])).op)


def test_a_read_that_an_assignment_waits_for_comes_before_it():
    v = tf.Variable(1., use_resource=False)
    read = v.read_value()
    with tf.control_dependencies([read]):
        add = tf.assign_add(v, 10.)
    with tf.control_dependencies([add]):
        total = read + v.read_value()
    assert same([total], init=v.initializer)[0] == 12.


def test_checks_run_though_nobody_uses_their_result():
    x = tf.placeholder(tf.float32, [])
    with tf.control_dependencies([tf.check_numerics(x, "bad")]):
        y = tf.constant(1.)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        sess.run(y, {x: np.nan})


# -- forwarding -------------------------------------------------------------------------------------------------------
def test_identities_are_taken_out():
    x = tf.placeholder(tf.float32, [2])
    y = tf.negative(tf.stop_gradient(tf.identity(tf.cast(x, tf.float32))))
    assert after(forward_values, [y], feeds=[x]) == ["Neg"]


def test_reads_and_waiting_identities_stay():
    v = tf.Variable(1., use_resource=False)
    with tf.control_dependencies([tf.assign(v, 2.)]):
        y = tf.identity(tf.constant(1.)) + tf.identity(v)
    assert after(forward_values, [y]).count("Identity") == 2


def test_a_fed_identity_is_what_was_fed():
    x = tf.constant(1.)
    y = tf.identity(x)
    with tf.Session() as sess:
        assert sess.run(-y, {y: 5.}) == -5.


# -- constants --------------------------------------------------------------------------------------------------------
def test_constants_are_folded_and_large_results_are_not():
    x = tf.placeholder(tf.float32, [2])
    y = x * (tf.constant(2.) + tf.constant(3.))
    assert after(fold_constants, [y], feeds=[x]) == ["Const", "Mul"]
    big = tf.fill([1000, 1000], 1.)
    assert "Fill" in after(fold_constants, [tf.reduce_sum(big) + 1.])


def test_known_shapes_are_constants():
    x = tf.placeholder(tf.float32, [2, 3])
    y = tf.shape(x) + tf.size(x) + tf.rank(x)
    assert after(fold_constants, [y * 1], feeds=[x]) == ["Const", "Const", "Mul"]
    assert same([y], {x: np.zeros((2, 3))})[0].tolist() == [10, 11]


def test_nothing_with_state_is_folded():
    assert "RandomUniform" in after(fold_constants, [tf.random_uniform([2]) * 1.])
    r = tf.random_uniform([])
    with tf.Session() as sess:
        assert sess.run(r) != sess.run(r)


def test_what_fails_fails_when_it_is_run():
    y = tf.gather([1, 2], tf.constant(1) + 4)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(y + 1)


def test_a_fed_constant_is_not_folded():
    c = tf.constant(2.)
    y = c * 3. + 1.
    with tf.Session() as sess:
        assert sess.run(y) == 7.
        assert sess.run(y, {c: 10.}) == 31.


# -- common subexpressions ---------------------------------------------------------------------------------------------
def test_twins_are_merged():
    x = tf.placeholder(tf.float32, [2])
    y = tf.exp(x) + tf.exp(x)
    assert after(merge_common, [y], feeds=[x]) == ["Exp", "AddV2"]


def test_ops_that_differ_are_not_merged():
    x = tf.placeholder(tf.float32, [2, 2])
    y = tf.matmul(x, x) + tf.matmul(x, x, transpose_a=True) + tf.constant(1.) + tf.constant(2.)
    left = after(merge_common, [y], feeds=[x])
    assert left.count("MatMul") == 2 and left.count("Const") == 2
    rates = tf.constant(1.) / tf.constant(0.) + tf.constant(1.) / tf.constant(-0.)
    assert np.isnan(same([rates])[0])


def test_random_ops_are_not_merged():
    y = tf.random_uniform([], seed=1) - tf.random_uniform([], seed=1)
    assert after(merge_common, [y]).count("RandomUniform") == 2


# -- arithmetic -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("build", [
    lambda x: x * 1., lambda x: 1. * x, lambda x: x / 1., lambda x: x - 0., lambda x: tf.negative(tf.negative(x)),
    lambda x: tf.transpose(tf.transpose(x)), lambda x: tf.reshape(x, [2, 3]), lambda x: tf.reshape(tf.reshape(x, [6]), [2, 3]),
    lambda x: tf.reshape(tf.expand_dims(x, 0), [2, 3])])
def test_what_changes_nothing_goes(build):
    x = tf.placeholder(tf.float32, [2, 3])
    left = types(tf.exp(build(x)), [x])
    assert left == ["Exp"]
    same([tf.exp(build(x))], {x: np.arange(6.).reshape(2, 3)})


def test_a_product_with_ones_of_a_known_shape_goes():
    x = tf.placeholder(tf.float32, [3, 2])
    y = tf.broadcast_to(1., [3, 2]) * x
    assert after(simplify_arithmetic, [y + 1.], feeds=[x]) == ["Const", "AddV2"]
    assert "Mul" in after(simplify_arithmetic, [tf.broadcast_to(2., [3, 2]) * x + 1.], feeds=[x])
    assert "Mul" in after(simplify_arithmetic, [tf.broadcast_to(1., [4, 3, 2]) * x + 1.], feeds=[x])


@pytest.mark.parametrize("build", [
    lambda x: x + 0., lambda x: x * 0., lambda x: x * [[1.], [2.]], lambda x: x - tf.zeros([4, 2, 3]), lambda x: 1. / x,
    lambda x: tf.transpose(x), lambda x: tf.reshape(x, [3, 2])])
def test_what_changes_something_stays(build):
    x = tf.placeholder(tf.float32, [2, 3])
    assert len(types(tf.exp(build(x)), [x])) > 1
    same([build(x)], {x: -np.zeros((2, 3))})


def test_transposes_behind_each_other_are_one():
    x = tf.placeholder(tf.float32, [2, 3, 4])
    y = tf.transpose(tf.transpose(x, [1, 2, 0]), [0, 2, 1])
    assert types(y * 2., [x]).count("Transpose") == 1
    same([y], {x: np.random.RandomState(0).randn(2, 3, 4)})


# -- branches ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("outcome", [True, False])
def test_a_conditional_on_a_constant_keeps_one_branch(outcome):
    tf.disable_control_flow_v2()
    x = tf.placeholder(tf.float32, [])
    y = tf.cond(tf.constant(outcome), lambda: tf.exp(x), lambda: tf.sin(x) + 1.)
    left = types(y * 2., [x])
    assert ("Exp" in left) is outcome and ("Sin" in left) is not outcome and "Merge" not in left
    same([y], {x: 2.})


def test_effects_on_the_other_branch_do_not_happen():
    tf.disable_control_flow_v2()
    v = tf.Variable(1.)
    y = tf.cond(tf.constant(False), lambda: tf.identity(tf.assign_add(v, 5.)), lambda: tf.constant(2.))
    assert same([y], init=v.initializer) == [2.]
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(y)
        assert sess.run(v) == 1.


# -- fusion -----------------------------------------------------------------------------------------------------------
def test_a_product_with_bias_and_activation_is_one_kernel():
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.nn.relu(tf.matmul(x, tf.constant(np.ones((3, 2), np.float32))) + tf.constant([1., -9.]))
    assert after(fuse, [y * 1.], feeds=[x]).count("_FusedMatMul") == 1
    assert "Relu" not in after(fuse, [y * 1.], feeds=[x])
    assert same([y], {x: np.ones((2, 3))})[0].tolist() == [[4, 0], [4, 0]]


def test_a_result_that_others_use_is_not_fused_away():
    x = tf.placeholder(tf.float32, [2, 2])
    product = tf.matmul(x, x)
    y = tf.nn.relu(product + tf.constant([1., 2.]))
    assert "MatMul" in after(fuse, [y, product], feeds=[x])
    same([y, product], {x: [[1, -2], [3, 4]]})


@pytest.fixture(params=["own", "ATen's"])
def pooling(request, monkeypatch):
    """The names of the ops that pool and spread gradients, with custom kernels and without."""
    if request.param == "own":
        if not images.available():
            pytest.skip("penstock was installed without a compiler")
        return "_MaxPoolPlaces", "_MaxPoolGradPlaces"
    monkeypatch.setattr(images, "_kernels", lambda: None)
    return "_MaxPoolWithIndices", "_MaxPoolGradWithIndices"


def test_convolutions_pools_and_their_gradients(pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 2])
    w = tf.constant(np.random.RandomState(0).randn(3, 3, 2, 4).astype(np.float32))
    b = tf.constant([0.1, -0.2, 0.3, 0.])
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"), b))
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [y, *tf.gradients(tf.reduce_sum(tf.square(y)), [x, w, b])]
    left = types(fetches, [x])
    assert "_FusedConv2D" in left and pooling[1] in left
    a = np.random.RandomState(1).randn(2, 6, 6, 2).astype(np.float32)
    same(fetches, {x: a})
    a[0, 0, 0, 0] = np.nan
    for u, v in zip(*both(fetches, {x: a}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window, padding", [(2, "SAME"), (3, "VALID"), (3, "SAME")])
@pytest.mark.parametrize("biased", [True, False])
def test_a_relu_works_on_what_the_pooling_behind_it_leaves(window, padding, biased, pooling):
    x = tf.placeholder(tf.float32, [None, 7, 7, 2])
    b = tf.constant([0.1, -0.2, 0.3, 0.])
    h = tf.nn.conv2d(x, tf.constant(np.random.RandomState(0).randn(3, 3, 2, 4).astype(np.float32)), [1, 1, 1, 1], "SAME")
    h = tf.nn.relu(tf.nn.bias_add(h, b) if biased else h)
    y = tf.nn.max_pool(h, [1, window, window, 1], [1, 2, 2, 1], padding)
    trained = [y, *tf.gradients(tf.reduce_sum(tf.square(y) * 0.5 + y), [x, b] if biased else [x])]
    step = step_of(trained, feeds=[x])
    fuse(step)
    verify(step)
    if pooling[0] == "_MaxPoolPlaces":
        assert [op.attrs["bias"] for op in step.ops if op.type == pooling[1]] == [biased]
        assert not {"ReluGrad", "BiasAddGrad"} & {op.type for op in step.ops}
    else:
        assert [op.outputs[0].static_dims for op in step.ops if op.type == "ReluGrad"] == [tuple(y.shape.as_list())]
    assert [op.attrs["relu"] for op in step.ops if op.type == pooling[0]] == [True]
    assert not any(op.type == "Relu" or "Relu" in op.attrs.get("fused_ops", ()) for op in step.ops)
    assert "_MaxPoolRelu" in types(y, [x])
    draw = np.random.RandomState(1)
    for values in (draw.randn(3, 7, 7, 2), draw.randint(-1, 2, (3, 7, 7, 2)), np.full((1, 7, 7, 2), -5.)):
        same([y], {x: values})
        for u, v in zip(*both(trained, {x: values}), strict=True):
            np.testing.assert_allclose(u, v, rtol=1e-5, atol=1e-5)


def test_a_relu_that_others_see_stays_in_front_of_its_pooling(pooling):
    x = tf.placeholder(tf.float32, [2, 4, 4, 3])
    h = tf.nn.relu(x)
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [y, h, *tf.gradients(tf.square(y), [x])]
    assert "Relu" in after(fuse, fetches, feeds=[x])
    values = np.random.RandomState(0).randn(2, 4, 4, 3)
    for u, v in zip(*both(fetches, {x: values}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-6)


@pytest.mark.parametrize("pooled", [False, True])
def test_a_relu_behind_a_normalization_is_part_of_it(pooled, pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 4])
    scale, offset = tf.constant([1., -2., 0.5, 3.]), tf.constant([0.1, 0.2, -0.3, 0.])
    h = tf.nn.relu(tf.nn.fused_batch_norm(x, scale, offset)[0])
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME") if pooled else h
    fetches = [y, *tf.gradients(tf.reduce_sum(tf.square(y) + y * 0.5), [x, scale, offset])]
    left = types(fetches, [x])
    assert "_FusedBatchNormRelu" in left and "Relu" not in left
    if not pooled:
        assert "_FusedBatchNormGradRelu" in left and "ReluGrad" not in left
    values = np.random.RandomState(0).randn(3, 6, 6, 4)
    for u, v in zip(*both(fetches, {x: values}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-4)


def test_a_normalization_whose_result_others_see_keeps_it(pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 4])
    h = tf.nn.fused_batch_norm(x, tf.ones(4), tf.zeros(4))[0]
    y = tf.nn.relu(h)
    assert "Relu" in types([h, y], [x])
    same([h, y], {x: np.random.RandomState(0).randn(3, 6, 6, 4)})


def test_a_gradient_of_a_relu_that_others_see_stays_in_front_of_a_normalization(pooling):
    x = tf.placeholder(tf.float32, [None, 6, 6, 4])
    h = tf.nn.fused_batch_norm(x, tf.ones(4), tf.zeros(4))[0]
    y = tf.nn.relu(h)
    fetches = [*tf.gradients(tf.square(y), [x, h])]
    assert "ReluGrad" in types(fetches, [x])
    for u, v in zip(*both(fetches, {x: np.random.RandomState(0).randn(3, 6, 6, 4)}), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-5)


def test_a_relu_between_two_gradients_of_a_pooling_stays_out_of_the_places(pooling):
    x = tf.placeholder(tf.float32, [None, 4, 4, 3])
    h = tf.nn.relu(x)
    y = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [*tf.gradients(y, [x]), *tf.gradients(y * 2., [h]), *tf.gradients(tf.square(y), [x])]
    for values in (-np.ones((2, 4, 4, 3)), np.random.RandomState(0).randn(2, 4, 4, 3)):
        for u, v in zip(*both(fetches, {x: values}), strict=True):
            np.testing.assert_allclose(u, v, rtol=1e-6)


def test_images_of_unknown_size_are_pooled(pooling):
    x = tf.placeholder(tf.float32, [None, None, None, 3])
    y = tf.nn.max_pool(tf.nn.relu(x), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    fetches = [y, *tf.gradients(tf.square(y), [x])]
    same(fetches, {x: np.random.RandomState(0).randn(2, 5, 4, 3)})
    same(fetches, {x: np.zeros((0, 5, 4, 3))})


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_gradient_that_is_a_product_goes_into_the_variable(use_resource):
    x = tf.placeholder(tf.float32, [None, 3])
    v = tf.Variable(np.ones((3, 2), np.float32), use_resource=use_resource)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(tf.matmul(x, v)))
    assert any("Product" in t for t in types(train, [x]))
    with tf.Session() as sess:
        sess.run(v.initializer)
        before = sess.run(v)
        sess.run(train, {x: np.ones((4, 3))})
        np.testing.assert_array_equal(sess.run(v), before - 2.)


@pytest.mark.parametrize("use_resource", [True, False])
def test_rows_times_a_number_are_subtracted_at_once(use_resource):
    table = tf.Variable(np.arange(12, dtype=np.float32).reshape(6, 2), use_resource=use_resource)
    ids, rate = tf.placeholder(tf.int64, [None]), tf.placeholder_with_default(0.5, [])
    loss = tf.reduce_sum(tf.square(tf.gather(table, ids)))
    steps = [tf.train.GradientDescentOptimizer(r).minimize(loss) for r in (0.5, rate)]
    rows = np.array([3, 0, 3])
    for step in steps:
        assert any(t.endswith("ScatterSubScaled") for t in types([step], [ids]))
        want = np.arange(12, dtype=np.float32).reshape(6, 2)
        np.subtract.at(want, rows, want[rows])
        with tf.Session() as sess:
            sess.run(table.initializer)
            sess.run(step, {ids: rows})
            np.testing.assert_array_equal(sess.run(table), want)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[1\] = 6 is not in \[0, 6\)"):
                sess.run(step, {ids: [0, 6]})


# -- switches ---------------------------------------------------------------------------------------------------------
def test_every_pass_has_its_switch():
    x = tf.placeholder(tf.float32, [2])
    y = tf.exp(tf.identity(x)) + tf.exp(tf.identity(x)) * (tf.constant(1.) + tf.constant(2.))
    feeds = [x]
    assert types(y, feeds, all=False).count("Identity") == 2
    assert "Identity" not in types(y, feeds)
    assert types(y, feeds, arithmetic_optimization=False).count("Exp") == 1
    assert types(y, feeds, constant_folding=False).count("AddV2") == 2
    assert types(y, feeds).count("AddV2") == 1


def test_options_of_sessions():
    assert options_of(None) == ALL and options_of(config(all=False)) == NONE
    made = tf.ConfigProto()
    made.graph_options.optimizer_options.opt_level = -1       # L0
    chosen = options_of(made)
    assert not chosen.constant_folding and not chosen.common_subexpressions and chosen.dependency_optimization
    made.graph_options.optimizer_options.do_constant_folding = True
    assert options_of(made).constant_folding


# -- the user's graph -------------------------------------------------------------------------------------------------
def test_the_graph_is_not_changed_and_errors_name_its_ops():
    x = tf.placeholder(tf.float32, None)
    y = tf.identity(tf.reshape(x, [2 + 1], name="here")) + 1.
    before = tf.get_default_graph().as_graph_def().SerializeToString(deterministic=True)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="here") as e:
        sess.run(y, {x: [1.]})
    assert e.value.op is tf.get_default_graph().get_operation_by_name("here")
    assert tf.get_default_graph().as_graph_def().SerializeToString(deterministic=True) == before


def test_many_products_with_one_matrix_are_all_fused():
    x, w, b = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [3, 3]), tf.placeholder(tf.float32, [3])
    sums = [tf.nn.relu(tf.matmul(x * float(i), w) + b) for i in range(50)]
    found = types([tf.add_n(sums)], [x, w, b])
    assert found.count("_FusedMatMul") == 50 and not {"MatMul", "Relu", "BiasAdd"} & set(found)


# -- sums of gradients of slices ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cuts", [[2], [1, 4], [0, 3]])
def test_gradients_of_slices_side_by_side_are_joined(cuts):
    x = tf.placeholder(tf.float32, [5, 2])
    bounds = [0, *cuts, 5]
    loss = sum(tf.reduce_sum(tf.square(x[a:b]) * (i + 1.)) for i, (a, b) in enumerate(zip(bounds, bounds[1:])))
    grad, = tf.gradients(loss, x)
    assert "_JoinedRows" in types([grad], [x]) and "StridedSliceGrad" not in types([grad], [x])
    value = np.random.RandomState(1).randn(5, 2).astype(np.float32)
    got, = same([grad], {x: value})
    factor = np.concatenate([np.full(b - a, 2. * (i + 1)) for i, (a, b) in enumerate(zip(bounds, bounds[1:]))])
    np.testing.assert_allclose(got, value * factor[:, None], rtol=1e-6)


@pytest.mark.parametrize("parts", [[(0, 3), (2, 5)], [(0, 2), (3, 5)], [(0, 5), (0, 5)]])
def test_gradients_of_slices_that_overlap_or_leave_gaps_are_added(parts):
    x = tf.placeholder(tf.float32, [5, 2])
    loss = sum(tf.reduce_sum(tf.square(x[a:b]) * (i + 1.)) for i, (a, b) in enumerate(parts))
    grad, = tf.gradients(loss, x)
    assert "_JoinedRows" not in types([grad], [x])
    value = np.random.RandomState(1).randn(5, 2).astype(np.float32)
    want = np.zeros_like(value)
    for i, (a, b) in enumerate(parts):
        want[a:b] += 2 * (i + 1) * value[a:b]
    np.testing.assert_allclose(same([grad], {x: value})[0], want, rtol=1e-6)


def test_columns_and_steps_are_added():
    x = tf.placeholder(tf.float32, [4, 4])
    for a, b in ((x[:, :2], x[:, 2:]), (x[::2], x[1::2]), (x[0], x[1:]), (x[::-1], x[:0])):
        grad, = tf.gradients(tf.reduce_sum(tf.square(a)) + 3. * tf.reduce_sum(tf.square(b)), x)
        assert "_JoinedRows" not in types([grad], [x])
        same([grad], {x: np.arange(16.).reshape(4, 4)})


# -- fills ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.bool, tf.complex64, tf.bfloat16])
def test_fills_of_known_shapes_are_constants(dtype):
    x = tf.placeholder(dtype, [2, 3])
    zeros, ones = tf.raw_ops.ZerosLike(x=x), tf.raw_ops.OnesLike(x=x)
    made = tf.identity(tf.stack([zeros, ones]))
    assert types([made], [x]) == ["Identity"]
    got, = same([made], {x: np.ones((2, 3))})
    assert got.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(got.astype(np.complex64).real, [np.zeros((2, 3)), np.ones((2, 3))])


def test_large_fills_and_fills_of_open_shapes_stay():
    x, y = tf.placeholder(tf.float32, [1 << 20]), tf.placeholder(tf.float32, [None])
    assert "ZerosLike" in types([tf.raw_ops.ZerosLike(x=x) + x], [x])
    assert "ZerosLike" in types([tf.raw_ops.ZerosLike(x=y) + y], [y])


def test_checks_that_cannot_fail_are_dropped_and_what_waits_for_them_still_runs():
    with tf.Graph().as_default(), tf.Session() as sess:
        x, counter = tf.placeholder(tf.float32, [3]), tf.Variable(0, use_resource=True)
        first = counter.assign_add(1)
        with tf.control_dependencies([first]):
            check = tf.raw_ops.Assert(condition=tf.constant(True), data=[x])
        with tf.control_dependencies([check]):
            y = x + tf.cast(counter.read_value(), tf.float32)
        sess.run(counter.initializer)
        np.testing.assert_array_equal(sess.run(y, {x: [1, 2, 3]}), [2, 3, 4])
        assert "Assert" not in sess.explain(y, [x])
        failing = tf.raw_ops.Assert(condition=tf.constant(False), data=[x])
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            sess.run(failing, {x: [1, 2, 3]})
