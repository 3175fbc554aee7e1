"""Convolutions of compiled steps: both gradients are one call, no permutation undoes another, and the numbers stay."""
import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.step.tiers import convolutions, tiers

aten = torch.ops.aten
K, L = tf.keras, tf.keras.layers


def backward(graph):
    """The gradients of convolutions that a graph computes, each as a mask."""
    return [list(n.args[10]) for n in graph.graph.find_nodes(op="call_function", target=aten.convolution_backward.default)]


def trained(layers, x, compiled, steps=3):
    """Losses and variables after some steps."""
    tf.random.set_seed(4)
    model = K.Sequential([*[type(layer).from_config(layer.get_config()) for layer in layers], L.Flatten(), L.Dense(3)])
    labels, optimizer = tf.constant([0, 2, 1], tf.int64), K.optimizers.SGD(0.05, momentum=0.9)
    model(x)

    @tf.function(jit_compile=compiled)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(x, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return [float(step(x)) for _ in range(steps)], [v.numpy() for v in model.variables]


STACKS = {
    "plain": (4, [L.Conv2D(6, 3), L.ReLU(), L.Conv2D(5, 3, padding="same")]),
    "normalized": (4, [L.Conv2D(6, 1), L.BatchNormalization(), L.ReLU(), L.Conv2D(4, 3, padding="same"),
                       L.BatchNormalization()]),
    "uneven padding": (4, [L.Conv2D(6, 3, strides=2, padding="same"), L.ReLU(), L.Conv2D(5, 3, strides=2, padding="same")]),
    "dilated": (4, [L.Conv2D(6, 3), L.Conv2D(5, 3, dilation_rate=2, padding="same")]),
    "depthwise": (4, [L.Conv2D(6, 3), L.DepthwiseConv2D(3, padding="same", depth_multiplier=2), L.Conv2D(4, 2)]),
    "grouped": (4, [L.Conv2D(6, 3), L.Conv2D(6, 3, groups=3)]),
    "one dimension": (3, [L.Conv1D(6, 3), L.ReLU(), L.Conv1D(5, 3, padding="same")]),
    "three dimensions": (5, [L.Conv3D(4, 2), L.ReLU(), L.Conv3D(3, 2, padding="same")]),
}


@pytest.mark.parametrize("name", STACKS)
def test_both_gradients_are_one_call(graphs, name):
    rank, layers = STACKS[name]
    x = tf.constant(np.random.RandomState(0).randn(3, *[6] * (rank - 2), 4), tf.float32)
    before = dict(tiers.refused)
    losses, values = trained(layers, x, True)
    assert dict(tiers.refused) == before
    masks = backward(graphs[-1])
    inner = sum("Conv" in type(layer).__name__ for layer in layers) - 1
    assert masks.count([True, True, False]) == inner                         # images of the first have no gradient
    assert masks.count([False, True, False]) == 1 and len(masks) == inner + 1
    expected, wanted = trained(layers, x, None)
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(values, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_transposed_convolutions_keep_their_calls(graphs):
    """The result of a transposed convolution is a gradient itself; the one for its filter comes later."""
    layers = [L.Conv2D(6, 3), L.Conv2DTranspose(5, 3, strides=2), L.ReLU(), L.Conv2DTranspose(4, 2)]
    x = tf.constant(np.random.RandomState(0).randn(3, 5, 5, 4), tf.float32)
    losses, _ = trained(layers, x, True)
    np.testing.assert_allclose(losses, trained(layers, x, None)[0], rtol=1e-4)
    assert [True, False, False] in backward(graphs[-1])


def test_permutations_that_undo_each_other_go(graphs):
    _, layers = STACKS["normalized"]
    trained(layers, tf.constant(np.random.RandomState(0).randn(3, 6, 6, 4), tf.float32), True, 2)
    for node in graphs[-1].graph.find_nodes(op="call_function", target=aten.permute.default):
        assert node.args[0].target is not aten.permute.default
    assert convolutions.channels_last(graphs[-1])


def test_layouts_of_channels_first_are_left_to_inductor():
    class Net(torch.nn.Module):
        def forward(self, x, w):
            return torch.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    from torch.fx.experimental.proxy_tensor import make_fx
    w = torch.randn(4, 3, 2, 2)
    x = torch.randn(2, 3, 5, 5)
    assert not convolutions.channels_last(make_fx(Net())(x, w))
    assert convolutions.channels_last(make_fx(Net())(x.contiguous(memory_format=torch.channels_last), w))
