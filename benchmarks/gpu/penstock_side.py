"""What programs for TensorFlow share: steps of `tf.function`, of Keras and of sessions, and whether their best version runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import penstock as tf
from benchmarks.gpu.measuring import Program

K, L = tf.keras, tf.keras.layers
DEVICE = "/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0"


def program(model: Any, sizes: Any, arrays: tuple) -> Program:
    """The program of a model, with Keras's policy for the rest of the process."""
    K.mixed_precision.set_global_policy(model.POLICY)
    with tf.device(DEVICE):
        run = model.ours(sizes, arrays)
    return Program(run, Settled(), remarks)


class Settled:
    """Whether the background compiler has done what it will do."""

    def __init__(self) -> None:
        self.looked = time.perf_counter()

    def __call__(self) -> bool:
        if time.perf_counter() - self.looked < 1.0:
            return False
        self.looked = time.perf_counter()
        if any(t.name == "penstock-compile" for t in threading.enumerate()):
            return False
        every = slots()
        return all(slot._rivals is None for slot in every) and \
            any(slot.tier == 3 or any("tier 3" in r for r in slot.reasons) for slot in every)


def slots() -> list:
    """The versions of all steps."""
    from penstock._src.step.tiers import tiers

    return [slot for step in list(tiers.every) for slot in list(step._slots.values())]


def remarks() -> list[str]:
    """Which versions run, and why nothing better does."""
    return sorted({f"{s.explain()} ({len(s.step.lines)} ops)" for s in slots()})


def cross_entropy(labels: Any, logits: Any) -> Any:
    """The mean over everything, in single precision."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(logits, tf.float32)))


def trained(model: Any, loss: Callable, optimizer: Any, arrays: tuple, clip: float | None = None) -> Callable:
    """A step as a tf.function."""
    held = tuple(tf.constant(a) for a in arrays)

    @tf.function
    def step(*given: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(model, *given)
        variables = model.trainable_variables
        gradients = tape.gradient(value, variables)
        if clip is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, clip)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    return lambda: step(*held)


def fitted(model: Any, optimizer: Any, arrays: tuple, losses: Any = None) -> Callable:
    """The step of Keras's fit on one batch, by default for classes; `arrays` are x and y, or tuples of them."""
    model.compile(optimizer, losses or K.losses.SparseCategoricalCrossentropy(from_logits=True))
    function = model.make_train_function()
    held = iter(tf.data.Dataset.from_tensors(tf.nest.map_structure(tf.constant, tuple(arrays))).repeat())
    return lambda: function(held)["loss"]


def in_session(loss: Any, train: Any, config: Any = None) -> Callable:
    """A step of a session that keeps the loss in a variable; it returns what reads it, so that steps need not wait."""
    v1 = tf.compat.v1
    with v1.device(DEVICE):
        kept = v1.get_variable("loss", [], trainable=False)
        both = v1.group(train, v1.assign(kept, loss))
    session = v1.Session(config=config)
    session.run(v1.global_variables_initializer())
    run, read = session.make_callable(both), session.make_callable(kept)

    def step() -> Callable:
        run()
        return read

    return step
