"""contrib.cudnn_rnn against torch's own recurrent networks, which have the same weights."""
import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf

cudnn = tf.contrib.cudnn_rnn


def flat(network):
    """torch's weights in cuDNN's order: all kernels, then all biases."""
    names = [n for n, _ in network.named_parameters()]
    found = dict(network.named_parameters())
    order = [n for n in names if "weight" in n] + [n for n in names if "bias" in n]
    return np.concatenate([found[n].detach().numpy().ravel() for n in order])


@pytest.mark.parametrize("kind, make", [
    (cudnn.CudnnLSTM, torch.nn.LSTM), (cudnn.CudnnGRU, torch.nn.GRU), (cudnn.CudnnRNNTanh, torch.nn.RNN),
    (cudnn.CudnnRNNRelu, lambda *a, **k: torch.nn.RNN(*a, nonlinearity="relu", **k))])
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_same_as_torch(kind, make, direction):
    torch.manual_seed(0)
    network = make(3, 4, num_layers=2, bidirectional=direction == "bidirectional")
    x = np.random.RandomState(0).randn(5, 2, 3).astype(np.float32)
    layer = kind(2, 4, direction=direction)
    outputs, states = layer(tf.constant(x))
    gradient, = tf.gradients(tf.reduce_sum(outputs), layer.kernel)
    with tf.Session() as session:
        session.run(layer.kernel.assign(flat(network)))
        got, last, slope = session.run([outputs, states, gradient])
    expected, hidden = network(torch.from_numpy(x))
    expected.sum().backward()
    np.testing.assert_allclose(got, expected.detach().numpy(), atol=1e-5)
    hidden = hidden if isinstance(hidden, tuple) else (hidden,)
    for a, b in zip(last, hidden, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), atol=1e-5)
    named = list(network.named_parameters())
    wanted = [p.grad.numpy().ravel() for w in ("weight", "bias") for n, p in named if w in n]
    np.testing.assert_allclose(slope, np.concatenate(wanted), atol=1e-4)


def test_batch_major_and_first_states(run):
    x = tf.constant(np.random.RandomState(0).randn(2, 5, 3).astype(np.float32))
    layer = cudnn.CudnnGRU(1, 4, name="g")
    start = tf.ones([2, 1, 4])
    a, (h,) = layer(x, initial_state=(start,), time_major=False)
    b, (g,) = layer(tf.transpose(x, [1, 0, 2]), initial_state=(tf.transpose(start, [1, 0, 2]),))
    values, a, h, b, g = run(a, h, b, g)
    np.testing.assert_allclose(a, b.swapaxes(0, 1), atol=1e-6)
    np.testing.assert_allclose(h, g.swapaxes(0, 1), atol=1e-6)
    assert list(values) == ["g/opaque_kernel"] and values["g/opaque_kernel"].shape == (3 * 4 * (3 + 4 + 2),)


def test_compatible_cells(run):
    x = tf.constant(np.random.RandomState(0).randn(5, 2, 3).astype(np.float32))
    layer, cell = cudnn.CudnnGRU(1, 4, bias_initializer=tf.random_normal_initializer()), cudnn.CudnnCompatibleGRUCell(4)
    outputs, _ = layer(x)
    stepped, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, time_major=True)
    w, r, b_w, b_r = layer._parts()[0]
    n = 8
    copy = [(cell._gates[0], tf.concat([w[:, :n], r[:, :n]], 0)), (cell._gates[1], b_w[:n] + b_r[:n]),
            (cell._input[0], w[:, n:]), (cell._input[1], b_w[n:]), (cell._hidden[0], r[:, n:]), (cell._hidden[1], b_r[n:])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([v.assign(t) for v, t in copy])
        a, b = session.run([outputs, stepped])
    np.testing.assert_allclose(a, b, atol=1e-5)
    lstm = cudnn.CudnnCompatibleLSTMCell(4)
    _, made = run(tf.nn.dynamic_rnn(lstm, x, dtype=tf.float32, time_major=True)[0])
    assert made.shape == (5, 2, 4)


def test_what_is_refused():
    with pytest.raises(ValueError, match="Invalid direction"):
        cudnn.CudnnLSTM(1, 2, direction="both")
    with pytest.raises(tf.errors.UnimplementedError, match="dynamic_rnn"):
        cudnn.CudnnLSTM(1, 2)(tf.zeros([3, 1, 2]), sequence_lengths=[3])
