"""Updates run behind the uses of what was read before (step/optimize/reads_first.py), so that variables stay in place."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.step import compiler
from penstock._src.step.ir import StepGraph
from penstock._src.step.optimize import on_device, pipeline, reads_first
from tests.step.optimize.test_on_device import HOST

K, L = tf.keras, tf.keras.layers


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The passes of GPUs, on the host."""
    monkeypatch.setattr(on_device, "_is_on_gpu", lambda op: True)
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p[1].__name__ not in HOST))


@pytest.fixture
def steps(monkeypatch):
    """The optimized steps."""
    seen, usual = [], compiler.optimized

    def optimized(*args, **kw):
        seen.append(usual(*args, **kw))
        return seen[-1]
    monkeypatch.setattr(compiler, "optimized", optimized)
    return seen


OPTIMIZERS = {
    "AdamW": lambda: K.optimizers.AdamW(1e-2, weight_decay=0.1),
    "SGD": lambda: K.optimizers.SGD(1e-2, momentum=0.9, weight_decay=0.1),
    "by hand": lambda: None,
}


def trained(name, steps_of_training=4):
    """Losses and weights of a network with layer norms, and where its variables are after each step."""
    K.utils.set_random_seed(1)
    x = i = K.Input([8])
    for _ in range(3):
        x = L.Dense(16, "gelu")(L.LayerNormalization()(x))
    model = K.Model(i, L.Dense(1)(x))
    optimizer = OPTIMIZERS[name]()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        pairs = list(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        if optimizer is None:
            for g, v in pairs:
                v.assign_sub(0.1 * v)
                v.assign_sub(0.01 * g)
        else:
            optimizer.apply_gradients(pairs)
        return loss
    draw = np.random.RandomState(0)
    data = draw.randn(32, 8).astype("f"), draw.randn(32, 1).astype("f")
    losses, places = [], []
    for _ in range(steps_of_training):
        losses.append(step(*map(tf.constant, data)).numpy())
        places.append([v.handle._value.value.data_ptr() for v in model.trainable_variables])
    return losses, model.get_weights(), places


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_variables_stay_in_place(name, as_on_a_gpu, monkeypatch):
    losses, weights, places = trained(name)
    assert places[1:] == places[:-1]
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p[1] not in (
        reads_first.use_reads_first, on_device.join_on_device)))
    expected, values, _ = trained(name)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for a, b in zip(weights, values):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_weights_decay_in_one_op(as_on_a_gpu, steps):
    trained("AdamW", 1)
    kinds = [op.type for op in max(steps, key=lambda s: len(s.ops)).ops]
    assert [k for k in kinds if "Decay" in k or "Assign" in k] == ["_DecayWeightsOfAll", "AssignAddVariableOp"]


@settings(max_examples=60)
@given(st.integers(3, 12), st.randoms(use_true_random=False))
def test_ops_stay_in_an_order_in_which_they_can_run(n, draw):
    """Whatever updates wait for, even for each other."""
    with tf1.Graph().as_default() as g:
        ops = []
        for i in range(n):
            with tf1.control_dependencies(draw.sample(ops, min(len(ops), draw.randint(0, 2)))):
                ops.append(tf1.no_op(name=f"op{i}"))
    step = StepGraph(g.get_operations(), [], g.get_operations(), [])
    waits = {op: draw.sample(step.ops, draw.randint(1, 3)) for op in draw.sample(step.ops, draw.randint(1, n))}
    expected = {op: {c for c in late if c is not op} for op, late in waits.items()}
    sorted_ops = reads_first._sorted(step, {op: list(late) for op, late in expected.items() if late})
    place = {op: i for i, op in enumerate(sorted_ops)}
    assert set(sorted_ops) == set(step.ops) and len(sorted_ops) == n
    assert all(place[c] < place[op] for op in step.ops for c in op.control_inputs)
