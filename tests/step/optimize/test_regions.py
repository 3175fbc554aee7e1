"""Regions: loops return the same values with and without them, for all kinds of ops that a region may contain."""
from __future__ import annotations

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import regions
from penstock._src.step.compile import program
from penstock._src.step.optimize import regions as regions_pass

pytestmark = pytest.mark.skipif(not regions.available(), reason="needs compiled kernels and sgemm of torch's library")


def _w(*dims, seed=0):
    return (np.random.RandomState(seed).randn(*dims) * 0.3).astype("f")


def _unit(size, like):
    return tf.eye(size, dtype=like.dtype)


def _square(h, w):
    return tf.matmul(h @ w, h, transpose_b=True) * 0.1


BODIES = {
    "products": lambda h, w: tf.tanh(h @ w) + tf.matmul(h, w, transpose_b=True) * 0.5,
    "transposed": lambda h, w: tf.transpose(tf.matmul(w, tf.transpose(h), transpose_a=True)) + tf.matmul(h @ w, w) * 0.1,
    "split_and_join": lambda h, w: tf.concat([tf.sigmoid(p) for p in tf.split(h @ w, [2, 3, 2], 1)][::-1], 1) - h,
    "equal_parts": lambda h, w: tf.add_n([
        tf.tile(p * 2.0, [2, 1]) for p in tf.split(tf.concat([h, h @ w], 0), 2, 0)])[:5] * 0.3,
    "slices": lambda h, w: tf.pad(tf.tanh(h[1:, ::2] @ w[:4, 1:]), [[1, 0], [0, 1]]) + 0.1 * h[:, :1] + h[..., 2, None] * 0.2,
    "reductions": lambda h, w: h * 0.5 + tf.reduce_sum(h @ w, 1, keepdims=True) * 0.1 + tf.reduce_mean(h, 0)
    - tf.reduce_max(tf.abs(h)) * tf.reduce_sum(tf.square(w)) * 0.01,
    "softmax": lambda h, w: tf.nn.softmax(h @ w) - tf.nn.log_softmax(h) * 0.1,
    "batched": lambda h, w: tf.squeeze(tf.matmul(h[:, None, :] * 0.5, tf.tile(w[None], [5, 1, 1])), 1) + tf.einsum(
        "ij,kj->ik", h, w),
    "stacked": lambda h, w: tf.stack(tf.unstack(tf.nn.relu(h @ w + 0.1), axis=1)[::-1], axis=1) * 0.7,
    "norms": lambda h, w: h / (tf.norm(h @ w) + tf.nn.l2_loss(h)) + tf.math.rsqrt(
        tf.reduce_sum(h * h, -1, keepdims=True) + 1.0),
    "masks": lambda h, w: tf.where((h @ w) > 0.0, tf.exp(-tf.square(h)), tf.math.log1p(tf.abs(h))) * 0.9,
    "rows": lambda h, w: tf.compat.v1.where(h[:, 0] > 0.0, tf.tanh(_square(h, w)) + 0.1, _square(h, w)) @ h * 0.5,
    "layer_norm": lambda h, w: (h - tf.reduce_mean(h, -1, keepdims=True)) * tf.math.rsqrt(tf.math.reduce_variance(
        h @ w, -1, keepdims=True) + 0.5),
    "solves": lambda h, w: tf.linalg.solve(_square(h, w) * 0.3 + 3.0 * _unit(5, h), h) + tf.transpose(
        tf.linalg.solve(tf.stack([w + 3.0 * _unit(7, h)] * 2), tf.stack([tf.transpose(h)] * 2), adjoint=True)[1]) * 0.2,
    "cholesky": lambda h, w: tf.linalg.cholesky(_square(h, w) @ tf.transpose(_square(h, w)) + _unit(5, h)) @ h * 0.2 + (
        tf.linalg.logdet(_square(h, w) @ tf.transpose(_square(h, w)) + _unit(5, h)) * 0.1),
    "triangles": lambda h, w: tf.linalg.triangular_solve(
        tf.linalg.band_part(w, -1, 1) + 3.0 * _unit(7, h), tf.transpose(h))[:5, :1] + tf.transpose(
            tf.linalg.triangular_solve(w + 3.0 * _unit(7, h), tf.transpose(h) * 0.1, lower=False, adjoint=True)),
    "diagonals": lambda h, w: h @ tf.linalg.set_diag(w, h[0]) * 0.3 + h @ tf.linalg.diag(tf.linalg.diag_part(w) * h[1]) + (
        tf.linalg.diag_part(h)[:, None] * 0.1),
    "einsums": lambda h, w: tf.einsum("ij,jk->ik", h, w) * 0.3 + tf.einsum("ij,ij->i", h, h)[:, None] * 0.1 + tf.einsum(
        "ij,kj->ki", h * 0.1, w)[:1, :1] + tf.einsum("ijk,ik->ij", tf.stack([w] * 5), h) * 0.2,
    "bands": lambda h, w: tf.linalg.band_part(h, 1, 2) @ w * 0.5 + tf.linalg.band_part(h, 0, -1) * 0.3,
    "bias": lambda h, w: tf.nn.relu(tf.nn.bias_add(tf.matmul(h, w), w[0])) * 0.3 + tf.nn.bias_add(h, w[1]),
}


def _run(body, steps, gradients=True, dtype="float32"):
    x, w = tf.constant(_w(5, 7, seed=1).astype(dtype)), tf.Variable(_w(7, 7, seed=2).astype(dtype))

    @tf.function
    def f(x, steps):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = tf.TensorArray(x.dtype, 0, dynamic_size=True, element_shape=[5, 7])
            h = x
            for t in tf.range(steps):
                h = body(h, w)
                h.set_shape([5, 7])
                outputs = outputs.write(t, h * 2.0)
            loss = tf.reduce_sum(h * h) + tf.reduce_sum(outputs.stack())
        return (loss, h, *tape.gradient(loss, [x, w])) if gradients else (loss, h)
    return [np.asarray(v) for v in f(x, tf.constant(steps))]


def _without(monkeypatch, *args, **options):
    with monkeypatch.context() as patch:
        patch.setattr(regions, "available", lambda: False)
        return _run(*args, **options)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("steps, dtype", [(0, "float32"), (1, "float32"), (4, "float32"), (4, "float64")])
def test_loops_give_the_same(monkeypatch, name, steps, dtype):
    made = []
    keep = regions_pass._made
    monkeypatch.setattr(regions_pass, "_made", lambda *args: made.append(keep(*args)) or made[-1])
    found = _run(BODIES[name], steps, dtype=dtype)
    assert any(m is not None for m in made)
    near = 2e-5 if dtype == "float32" else 1e-12
    for a, b in zip(found, _without(monkeypatch, BODIES[name], steps, dtype=dtype), strict=True):
        np.testing.assert_allclose(a, b, rtol=near, atol=near)


def test_a_region_is_one_op_of_an_iteration():
    w = tf.Variable(_w(7, 7))

    @tf.function
    def f(x):
        for _ in tf.range(3):
            a, b = tf.split(tf.sigmoid(x @ w), [3, 4], 1)
            x = tf.concat([tf.tanh(b), a], 1) * x
        return x
    text = _body_text(f, tf.constant(_w(5, 7)))
    assert text.count("_Region") == 1 and "MatMul" not in text and "ConcatV2" not in text


def _body_text(f, *args):
    return _body_texts(f, *args)[0]


def _body_texts(f, *args):
    """The programs of the loops of a function."""
    made = []
    keep = program.Program.__init__

    def note(self, *given, **more):
        keep(self, *given, **more)
        made.append(self.source)
    program.Program.__init__ = note
    try:
        f(*args)
    finally:
        program.Program.__init__ = keep
    return [text for text in made if "while True" in text]


def test_invariants_stay_before_the_loop_and_sums_behind_it():
    w = tf.Variable(_w(7, 7))

    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            h = x
            for _ in tf.range(3):
                h = tf.tanh(h @ (w @ w)) + tf.tanh(x @ w) * tf.square(h)
            loss = tf.reduce_sum(h)
        return tape.gradient(loss, w)
    text = _body_text(f, tf.constant(_w(5, 7)))
    before, inside = text.split("while True")
    assert before.count("MatMul") == 2 and "_Region" in inside


def test_values_that_stay_are_not_saved_in_lists():
    w = tf.Variable(_w(7, 7))

    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            h = x
            for _ in tf.range(3):
                h = tf.tanh(h @ w)
            loss = tf.reduce_sum(h)
        g = tape.gradient(loss, w)
        w.assign_add(tf.ones([7, 7]))                     # after the loop has read it
        return g
    x, start = tf.constant(_w(5, 7)), w.numpy()
    text = _body_text(f, x)
    assert text.count(".step(") <= 2                      # h, before and after tanh
    h, states = x.numpy(), []
    w.assign(start)
    for _ in range(3):
        states.append(h)
        h = np.tanh(h @ start)
    grad, expected = np.ones_like(h), np.zeros_like(start)
    for before in reversed(states):
        grad = grad * (1 - np.tanh(before @ start) ** 2)
        expected += before.T @ grad
        grad = grad @ start.T
    np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_variable_that_the_loop_writes_is_saved_in_each_iteration():
    w = tf.Variable(_w(4, 4))

    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = x
            for _ in tf.range(3):
                h = tf.tanh(h @ w)
                w.assign_add(0.1 * tf.ones([4, 4]))
            loss = tf.reduce_sum(h)
        return tape.gradient(loss, x)
    x, start = _w(2, 4, seed=3), w.numpy()
    grad = f(tf.constant(x)).numpy()
    h, seen = x, []
    for i in range(3):
        now = start + 0.1 * i
        h = np.tanh(h @ now)
        seen.append((h, now))
    back = np.ones_like(h)
    for h, now in reversed(seen):
        back = (back * (1 - h ** 2)) @ now.T
    np.testing.assert_allclose(grad, back, rtol=1e-4, atol=1e-5)


def test_second_derivatives_pass_through_values_that_stay():
    w = tf.Variable([[0.3, -0.2], [0.1, 0.4]])

    @tf.function
    def second(x):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                h = x
                for _ in tf.range(3):
                    h = tf.tanh(h @ w)
                loss = tf.reduce_sum(h)
            first = inner.gradient(loss, w)
            total = tf.reduce_sum(first * first)
        return first, outer.gradient(total, w)
    x = tf.constant([[1.0, 2.0]])
    first, found = second(x)
    eps = 1e-3
    expected = np.zeros([2, 2])
    for i in range(2):
        for j in range(2):
            ends = []
            for sign in (1, -1):
                start = w.numpy()
                moved = start.copy()
                moved[i, j] += sign * eps
                w.assign(moved)
                ends.append(float(tf.reduce_sum(tf.square(second(x)[0]))))
                w.assign(start)
            expected[i, j] = (ends[0] - ends[1]) / (2 * eps)
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("kind", [regions.FLOAT, regions.DOUBLE])
@pytest.mark.parametrize("dims", [(1, 1), (3, 5), (17, 33), (2, 3, 9)])
def test_builder_against_numpy(dims, kind):
    b = regions.Builder()
    x = b.value(dims, kind)
    turned = b.permuted(x, list(range(len(dims)))[::-1])
    double = b.terms(turned.dims, [turned, 2.0], lambda terms, a, n: terms.step_of("MUL", a, n))
    total = b.reduced(double, [0])
    middle = b.reduced(x, [len(dims) - 1], greatest=True)
    both = b.reduced(x, [0, len(dims) - 1], scale=0.5)
    part = b.part(x, -1, 0, (dims[-1] + 1) // 2, 2)
    joined = b.joined([part, x], -1)
    wide = b.reshaped(x, (int(np.prod(dims[:-1])), dims[-1]))
    square = b.product(wide, wide, turn_a=True)
    region = b.finish([double, total, middle, both, joined, square, x])
    value = _w(*dims).astype("f" if kind == regions.FLOAT else "d")
    near = 1e-5 if kind == regions.FLOAT else 1e-13
    found = [t.numpy() for t in region.run([torch.tensor(value)])]
    flat = value.reshape(-1, dims[-1])
    expected = [2 * value.T, (2 * value.T).sum(0, keepdims=True), value.max(-1, keepdims=True),
                0.5 * value.sum((0, len(dims) - 1), keepdims=True), np.concatenate([value[..., ::2], value], -1),
                flat.T @ flat, value]
    for a, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=near, atol=near)
    strided = torch.tensor(np.ascontiguousarray(value.T)).permute(*range(len(dims))[::-1])
    np.testing.assert_allclose(region.run([strided])[5].numpy(), flat.T @ flat, rtol=near, atol=near)


def test_a_read_of_what_the_step_has_assigned_is_the_assigned_value():
    a, b = tf.Variable(_w(3, 4)), tf.Variable(_w(3, 4, seed=1))

    @tf.function
    def f(x):
        a.assign(0.9 * a + 0.1 * x)
        b.assign_add(tf.sqrt(tf.abs(a)) * x)
        a.assign(a * 2.0)                                # a second one: reads stay
        return a + b
    x, first, second = _w(3, 4, seed=2), a.numpy(), b.numpy()
    for _ in range(3):
        first = 0.9 * first + 0.1 * x
        second = second + np.sqrt(np.abs(first)) * x
        first = first * 2
        np.testing.assert_allclose(f(tf.constant(x)).numpy(), first + second, rtol=1e-5)
    np.testing.assert_allclose(a.numpy(), first, rtol=1e-5)

    @tf.function
    def g(x):
        a.assign(0.5 * a + x)
        b.assign_sub(a * x / (tf.norm(a) + 1.0))
        return tf.reduce_sum(a)
    for _ in range(3):
        first = 0.5 * first + x
        second = second - first * x / (np.linalg.norm(first) + 1)
        np.testing.assert_allclose(g(tf.constant(x)).numpy(), first.sum(), rtol=1e-4)
    np.testing.assert_allclose(b.numpy(), second, rtol=1e-4, atol=1e-6)


def test_rules_written_out_for_many_variables_are_one_region():
    params = [tf.Variable(_w(4, 6, seed=i)) for i in range(5)]
    moments = [tf.Variable(tf.zeros([4, 6])) for _ in params]
    x = tf.constant(_w(3, 4, seed=9))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_mean(tf.square(tf.tanh(x @ p))) for p in params])
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, params), 0.5)
        for p, g, m in zip(params, grads, moments, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            change = m / (tf.sqrt(tf.square(m)) + 1e-3) + 0.01 * p
            p.assign_sub(1e-2 * tf.norm(p) / (tf.norm(change) + 1e-6) * change)
        return loss
    ours = [p.numpy().astype("d") for p in params]
    slots = [np.zeros([4, 6]) for _ in ours]
    for _ in range(4):
        loss = float(step(x))
        states = [np.tanh(x.numpy() @ p) for p in ours]
        np.testing.assert_allclose(loss, sum((s ** 2).mean() for s in states), rtol=1e-4)
        grads = [x.numpy().T @ (2 * s / s.size * (1 - s ** 2)) for s in states]
        norm = np.sqrt(sum((g ** 2).sum() for g in grads))
        grads = [g * min(1.0, 0.5 / norm) for g in grads]
        for i, g in enumerate(grads):
            slots[i] = 0.9 * slots[i] + 0.1 * g
            change = slots[i] / (np.abs(slots[i]) + 1e-3) + 0.01 * ours[i]
            ours[i] = ours[i] - 1e-2 * np.linalg.norm(ours[i]) / (np.linalg.norm(change) + 1e-6) * change
    for p, expected in zip(params, ours, strict=True):
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_lists_of_loops_that_are_used_again_stay_as_they_are():
    """A persistent tape takes two gradients from the values that one loop has saved."""
    w = tf.Variable(_w(3, 3))

    @tf.function
    def f(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            h = x
            for _ in tf.range(4):
                h = tf.sin(h @ w) * h
            one, two = tf.reduce_sum(h), tf.reduce_sum(h * h)
        return tape.gradient(one, x), tape.gradient(two, x), tape.gradient(one, w)
    x = tf.constant(_w(2, 3, seed=4))
    found = [v.numpy() for v in f(x)]
    again = [v.numpy() for v in f(x)]
    for a, b in zip(found, again, strict=True):
        np.testing.assert_array_equal(a, b)
    eager = []
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        h = x
        for _ in range(4):
            h = tf.sin(h @ w) * h
        one, two = tf.reduce_sum(h), tf.reduce_sum(h * h)
    eager = [tape.gradient(one, x), tape.gradient(two, x), tape.gradient(one, w)]
    for a, b in zip(found, eager, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-6)


def test_gradients_of_reads_are_added_to_one_element():
    @tf.function
    def f(x, order):
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = tf.TensorArray(tf.float32, 4, element_shape=[3], clear_after_read=False).unstack(x)
            total = tf.zeros([3])
            for t in tf.range(6):
                total = total * 0.5 + tf.square(rows.read(order[t]))            # some rows twice, one never
            loss = tf.reduce_sum(total)
        return tape.gradient(loss, x)
    x, order = _w(4, 3), np.array([0, 2, 2, 0, 1, 2])
    text = _body_texts(f, tf.constant(x), tf.constant(order, tf.int32))
    assert any(": _TensorListAddElement" in t and ": AddN" not in t for t in text)
    weights = np.zeros([4, 1])
    for t, row in enumerate(order):
        weights[row] += 0.5 ** (5 - t)
    np.testing.assert_allclose(f(tf.constant(x), tf.constant(order, tf.int32)).numpy(), 2 * x * weights, rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_index_that_counts_is_a_number_and_gradients_are_added_in_place(axis, sign):
    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.zeros([])
            for t in tf.range(1, 4):
                i = t * sign
                part = x[i] if axis == 0 else x[:, i] if axis == 1 else x[:, :, i]
                total = total * 0.5 + tf.reduce_sum(tf.square(part))
        return total, tape.gradient(total, x)
    x = _w(4, 5, 6)
    text = _body_texts(f, tf.constant(x))
    assert any(": _SelectAt" in t for t in text) and any(": _AddAt" in t for t in text)
    expected, total = np.zeros_like(x), 0.0
    for n, t in enumerate(range(1, 4)):
        at = (slice(None),) * axis + (t * sign,)
        total = total * 0.5 + (x[at] ** 2).sum()
        expected[at] += 2 * x[at] * 0.5 ** (2 - n)
    for _ in range(2):
        found, grad = f(tf.constant(x))
        np.testing.assert_allclose(found.numpy(), total, rtol=1e-5)
        np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-5)


def test_an_index_out_of_bounds():
    @tf.function
    def f(x, n):
        total = tf.zeros([])
        for t in tf.range(n):
            total += x[t]
        return total
    assert float(f(tf.constant([1.0, 2.0]), tf.constant(2))) == 3.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="slice index 2 of dimension 0 out of bounds"):
        f(tf.constant([1.0, 2.0]), tf.constant(3))


@pytest.mark.parametrize("dims,places,batch", [((3, 5, 4), (3, 2), 1), ((2, 3, 5), (2, 3, 4), 2), ((3, 5), (3, 2, 2), 1)])
def test_gathers_in_batches(dims, places, batch):
    x, at = _w(*dims), np.random.RandomState(1).randint(0, dims[batch], places)

    @tf.function(input_signature=[tf.TensorSpec(dims), tf.TensorSpec(places, tf.int64)])
    def f(x, at):
        return tf.gather(x, at, axis=batch, batch_dims=batch)
    flat = x.reshape(-1, *dims[batch:])
    expected = np.stack([row[i] for row, i in zip(flat, at.reshape(-1, *places[batch:]), strict=True)])
    np.testing.assert_array_equal(f(x, at).numpy(), expected.reshape(*places, *dims[batch + 1:]))
    at.flat[-1] = dims[batch]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, "):
        f(x, at)


def test_branches_inside_of_loops_are_joined():
    @tf.function
    def f(x):
        total = tf.zeros_like(x)
        for i in tf.range(5):
            if tf.reduce_mean(total) > 2.0:
                total = tf.tanh(total * 0.5) - x
            else:
                total = total + tf.square(x) * tf.cast(i, tf.float32) * 0.5
        return total
    x = _w(6)
    assert any("_Region" in t or "_Pointwise" in t for t in _body_texts(f, tf.constant(x)))
    total = np.zeros_like(x)
    for i in range(5):
        total = np.tanh(total * 0.5) - x if total.mean() > 2 else total + x ** 2 * i * 0.5
    np.testing.assert_allclose(f(tf.constant(x)).numpy(), total, rtol=1e-5, atol=1e-6)


# -- systems of equations ------------------------------------------------------------------------------------------------------
def _iterated(body, x, steps=2):
    @tf.function
    def f(x):
        for _ in tf.range(steps):
            x = body(x)
        return x
    return f(tf.constant(x))


@pytest.mark.parametrize("size", [1, 2, 5, 32])
@pytest.mark.parametrize("kind", ["f", "d"])
def test_systems_against_numpy(size, kind):
    builder = regions.Builder()
    r = np.random.RandomState(size)
    a = r.randn(3, size, size).astype(kind)
    a[0] = a[0][:, ::-1] + np.eye(size) * 0.01                              # wants pivots
    s, b = (a @ a.transpose(0, 2, 1) + np.eye(size) * size).astype(kind), r.randn(3, size, 4).astype(kind)
    of_a, of_s, of_b = (builder.value(v.shape, regions.FLOAT if kind == "f" else regions.DOUBLE) for v in (a, s, b))
    region = builder.finish([
        builder.solved(of_a, of_b, False, ""), builder.solved(builder.permuted(of_a, [0, 2, 1]), of_b, True, ""),
        builder.cholesky(of_s), builder.solved_triangular(of_s, of_b, True, False),
        builder.solved_triangular(of_s, of_b, False, False), builder.solved_triangular(of_s, of_b, True, True)])
    solved, again, factor, lower, upper, turned = (v.numpy() for v in region.run([torch.tensor(v) for v in (a, s, b)]))
    wide, near = a.astype("d"), 1e-3 if kind == "f" else 1e-9
    np.testing.assert_allclose(wide @ solved, b, atol=20 * near)
    np.testing.assert_allclose(wide @ again, b, atol=20 * near)
    np.testing.assert_allclose(factor, np.linalg.cholesky(s.astype("d")), rtol=near, atol=near / 10)
    np.testing.assert_allclose(np.tril(s) @ lower, b, rtol=near, atol=near)
    np.testing.assert_allclose(np.triu(s) @ upper, b, rtol=near, atol=near)
    np.testing.assert_allclose(np.tril(s).transpose(0, 2, 1) @ turned, b, rtol=near, atol=near)


@pytest.mark.parametrize("dims", [(1, 1), (5, 7), (2, 40, 33), (3, 2, 9, 50)])
@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "bool"])
def test_bands_against_numpy(dims, kind):
    value = (np.random.RandomState(0).randn(*dims) * 5).astype(kind)
    rows, columns = dims[-2:]
    bounds = [(0, 0), (-1, 0), (0, -1), (-1, -1), (rows, 1), (2, columns), (1, min(3, columns))]
    bounds = [(a, b) for a, b in bounds if a <= rows]
    builder = regions.Builder()
    x = builder.value(dims, regions.KINDS[getattr(torch, kind)])
    region = builder.finish([builder.band(x, rows if a < 0 else a, columns if b < 0 else b) for a, b in bounds])
    at = np.arange(columns) - np.arange(rows)[:, None]
    for (a, b), found in zip(bounds, region.run([torch.tensor(value)]), strict=True):
        kept = (at >= -(rows if a < 0 else a)) & (at <= (columns if b < 0 else b))
        np.testing.assert_array_equal(found, np.where(kept, value, np.zeros((), kind)))


def test_a_matrix_without_an_inverse_names_the_op():
    def body(x):
        return tf.linalg.solve(x - x[:1] + 0.0 * tf.tanh(x), x, name="the_one") + tf.tanh(x @ x) * 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="not invertible") as failed:
        _iterated(body, _w(3, 3))
    assert "the_one" in str(failed.value) and failed.value.op.type == "MatrixSolve"


@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_special_numbers_stay_in_their_matrix(monkeypatch, value):
    x = np.stack([np.eye(3, dtype="f") * 2.0, np.eye(3, dtype="f")])
    x[0, 1, 1] = value

    def body(x):
        factor = tf.linalg.cholesky(x * 1.0)
        return tf.linalg.band_part(factor, -1, 0) + tf.linalg.solve(x, x * 2.0) * 0.5
    found = _iterated(body, x, 1).numpy()
    monkeypatch.setattr(regions, "available", lambda: False)
    wanted = _iterated(body, x, 1).numpy()
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)
    assert np.isnan(np.tril(found[0])[np.tril_indices(3)]).all() and np.isnan(wanted[0][np.tril_indices(3)]).all()


@pytest.mark.parametrize("dims", [(600, 1), (40, 1), (2, 300, 1)])
def test_columns_of_one_number_are_whole_arrays(dims):
    """Choices and sums over arrays with one column fit a region: their rows are joined."""
    x = tf.constant(_w(*dims))

    @tf.function
    def f(x):
        h = x
        for _ in tf.range(3):
            h = tf.where(tf.math.is_finite(tf.exp(h)), tf.tanh(h) + x, x * 2.0) - tf.reduce_mean(h)
        return h
    text = _body_text(f, x)
    assert text.count("_Region") == 1 and "Select" not in text
    want = x.numpy()
    for _ in range(3):
        want = np.tanh(want) + x.numpy() - want.mean()
    np.testing.assert_allclose(f(x), want, rtol=2e-5, atol=2e-6)


def test_a_result_in_another_shape_is_part_of_its_region():
    w = _w(7, 7, seed=3)

    @tf.function
    def f(x):
        for _ in tf.range(3):
            x = tf.linalg.matvec(w, tf.tanh(x))
        return x
    x = _w(7)
    text = _body_text(f, tf.constant(x))
    assert ": _Region" in text and ": Squeeze" not in text
    expected = x
    for _ in range(3):
        expected = w @ np.tanh(expected)
    np.testing.assert_allclose(f(tf.constant(x)), expected, rtol=1e-4, atol=1e-5)
