"""The CTC loss on a GPU: the same as on the host, in one kernel, without waits for the device."""
import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import ctc

pytestmark = pytest.mark.gpu


def batch(steps, examples, classes, most, seed=0):
    draw = np.random.RandomState(seed)
    counts = draw.randint(0, most + 1, examples)
    counts[0] = most
    lengths = draw.randint(0, steps + 1, examples)
    lengths[0] = steps
    labels = draw.randint(0, max(1, classes - 1), [examples, most])
    return draw.randn(steps, examples, classes).astype("f"), labels, counts, lengths


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("blank", [0, 5])
@pytest.mark.parametrize("steps, most", [(1, 1), (7, 3), (40, 40), (65, 20), (3, 0)])
def test_loss_and_gradient_are_those_of_the_host(steps, most, blank):
    logits, labels, counts, lengths = batch(steps, 9, 6, most)
    given = [torch.from_numpy(a) for a in (logits, labels, counts, lengths)]
    loss, gradient = ctc.dense_loss_and_gradient(*given, blank)
    on_gpu = [t.cuda() for t in given]
    ctc.dense_loss_and_gradient(*on_gpu, blank)                    # compiles the kernel
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = ctc.dense_loss_and_gradient(*on_gpu, blank)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(found[0].cpu(), loss, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[1].cpu(), gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("blank", [0, 2, -1])
def test_dense_labels_on_both_devices(blank):
    logits, labels, counts, lengths = batch(30, 8, 6, 12, seed=1)
    counts[1], lengths[2], lengths[3] = 0, 0, 2                    # no labels; no time; too little of it

    def both(device):
        with tf.device(device):
            x = tf.constant(logits)
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.nn.ctc_loss(tf.constant(labels), x, tf.constant(counts), tf.constant(lengths), blank_index=blank)
            return loss.numpy(), tape.gradient(loss, x).numpy()
    for ours, host in zip(both("/gpu:0"), both("/cpu:0"), strict=True):
        np.testing.assert_allclose(ours, host, rtol=1e-4, atol=1e-4)


def test_a_step_with_the_loss_is_captured():
    logits, labels, counts, lengths = batch(20, 8, 6, 5, seed=2)
    with tf.device("/gpu:0"):
        x = tf.Variable(logits)

        @tf.function
        def step(labels, counts, lengths):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.nn.ctc_loss(labels, x, counts, lengths))
            x.assign_sub(0.1 * tape.gradient(loss, x))
            return loss
        given = tf.constant(labels), tf.constant(counts), tf.constant(np.maximum(lengths, 10))
        losses = [float(step(*given)) for _ in range(6)]
        text = step.explain(*given)                                # a trace belongs to the device that it was made on
    assert losses == sorted(losses, reverse=True) and "replayed as a CUDA graph" in text
