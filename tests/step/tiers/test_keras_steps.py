"""Training steps of every layer, optimizer and loss of Keras are compiled whole: no value is read on the host."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.step.ir import StepGraph
from penstock._src.step.tiers import lower
from tests.oracle.layer_table import ROWS

layers, keras = tf.keras.layers, tf.keras
WITHOUT_WORK = {"identity"}                       # too short to be compiled


def classes(module, base):
    """The public subclasses of a class."""
    found = {n: getattr(module, n) for n in sorted(set(dir(module)))}
    return {n: c for n, c in found.items() if isinstance(c, type) and issubclass(c, base) and c is not base}


OPTIMIZERS = {n: c for n, c in classes(keras.optimizers, keras.optimizers.Optimizer).items()
              if n not in ("Optimizer", "LossScaleOptimizer")}
LOSSES = classes(keras.losses, keras.losses.Loss)


@pytest.fixture(autouse=True)
def on_device(monkeypatch):
    """What kernels create is on the device, as it is on GPUs."""
    monkeypatch.setattr(StepGraph, "on_host", lambda self, op: False)
    monkeypatch.setattr(lower, "_SMALL", 0)


def some(names):
    """Every sixth; the others are slow tests."""
    return [pytest.param(n, marks=[pytest.mark.slow] if k % 6 else []) for k, n in enumerate(names)]


def train(predict, inputs, variables, loss_of, optimizer):
    """Four steps; the losses."""
    @tf.function(jit_compile=True)
    def step(*given):
        with tf.GradientTape() as tape:
            loss = loss_of(predict(*given))
        found = variables()
        if found:
            optimizer.apply_gradients(zip(tape.gradient(loss, found), found, strict=True))
        return loss
    return [float(step(*inputs)) for _ in range(4)]


def mean_of_squares(y):
    return tf.add_n([tf.reduce_mean(tf.square(tf.cast(v, tf.float32))) for v in tf.nest.flatten(y)])


@pytest.mark.parametrize("name", some([row["name"] for row in ROWS]))
def test_layers(name, graphs):
    row = next(r for r in ROWS if r["name"] == name)
    draw = np.random.RandomState(0)
    inputs = [tf.constant(draw.randint(0, row["ints"], s)) if row["ints"] else tf.constant(draw.randn(*s), tf.float32)
              for s in row["shapes"]]
    call = dict(row["call"])
    if row["masked"]:
        call["mask"] = tf.sequence_mask([3] * row["shapes"][0][0], row["shapes"][0][1])
    layer = row["make"](layers)
    together = len(inputs) > 1 and not row["spread"]
    assert np.isfinite(train(lambda *x: layer(list(x), **call) if together else layer(*x, **call), inputs,
                             lambda: layer.trainable_variables, mean_of_squares, keras.optimizers.SGD(0.01))).all()
    assert bool(graphs) != (name in WITHOUT_WORK)


def classifier():
    """A model of two layers and its inputs."""
    model = keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(3, activation="softmax")])
    return model, tf.constant(np.random.RandomState(0).randn(8, 6), tf.float32)


@pytest.mark.parametrize("name", some(OPTIMIZERS))
def test_optimizers(name, graphs):
    model, x = classifier()
    train(model, [x], lambda: model.trainable_variables, mean_of_squares, OPTIMIZERS[name]())
    assert graphs


@pytest.mark.parametrize("name", some(LOSSES))
def test_losses(name, graphs):
    model, x = classifier()
    labels = tf.constant([0, 1, 2, 0, 1, 2, 1, 1])
    labels = labels if "Sparse" in name else tf.one_hot(labels, 3)
    train(model, [x], lambda: model.trainable_variables, lambda y: LOSSES[name]()(labels, y), keras.optimizers.SGD(0.01))
    assert graphs
