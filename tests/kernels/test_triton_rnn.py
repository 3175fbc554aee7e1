"""The kernels of recurrent layers for GPUs compute what separate ops do."""
import itertools

import pytest
import torch

from penstock._src.kernels import recurrent, triton_rnn
from penstock._src.ops.nn import recurrent_layer, rnn_block

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
CASES = itertools.product([rnn_block.ICFO, rnn_block.IFCO], [(5, 0.0), (3, 0.4), (0, 0.0)],
                          [(torch.float32, 2e-3), (torch.bfloat16, 5e-2)], [(3, 4, 6), (33, 8, 40)])


def both(monkeypatch, n, x, c, h, w, b, layout, clip, grads):
    """The results and gradients of the kernels, then those of separate ops in float64."""
    for there in (True, False):
        if not there:
            monkeypatch.setattr(triton_rnn, "fits", lambda *tensors: False)
            x, c, h, w, b, *grads = (t.double() for t in (x, c, h, w, b, *grads))
        state = rnn_block._plain_over_time(n, x, c, h, w, b, layout, 0.5, clip)
        nothing = (torch.zeros_like(b[:c.shape[1]]),) * 3
        yield [*state, *rnn_block._plain_back_in_time(layout, n, x, c, h, w, nothing, state, *grads)]


@pytest.mark.parametrize("layout, run, kind, sizes", list(CASES))
def test_kernels_agree_with_separate_ops(monkeypatch, layout, run, kind, sizes):
    (n, clip), (dtype, tolerance), (batch, size, units) = run, kind, sizes
    torch.manual_seed(1)
    made = [torch.randn(s, device="cuda").to(dtype) for s in (
        (5, batch, size), (batch, units), (batch, units), (size + units, 4 * units), (4 * units,),
        (5, batch, units), (5, batch, units))]
    made[3] = made[3] / (size + units) ** 0.5
    assert triton_rnn.fits(*made) and not recurrent.fits(*made)
    got, wanted = both(monkeypatch, n, *made[:5], layout, clip, made[5:])
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if i < 7:
            a, b = a[:n], b[:n]                                             # the states of the steps that were taken
        assert float((a.double() - b).norm()) <= tolerance * (float(b.norm()) + 1), i


LAYERS = itertools.product(["simple", "gru"], [("tanh", "sigmoid"), ("relu", "hard_sigmoid"), ("linear", "sigmoid")],
                           [False, True], [(torch.float32, 2e-3), (torch.bfloat16, 0.1)], [(5, 3, 6), (7, 33, 40), (0, 2, 3)])


def layer_results(monkeypatch, kind, names, made, mask, grad):
    """The results and gradients of a layer by the kernels, then by separate ops in float64."""
    attrs = {"kind": kind, "activation": names[0], "gate_activation": names[1]}
    for there in (True, False):
        if not there:
            monkeypatch.setattr(triton_rnn, "fits", lambda *tensors: False)
            made, grad = [t.double() for t in made], grad.double()
        x, h0, weights, bias = made
        out = recurrent_layer._layer_kernel(x, h0, weights, bias, mask, **attrs)
        yield [out[0], *recurrent_layer._layer_grad_kernel(h0, weights, bias, mask, *out, grad, **attrs)]


@pytest.mark.parametrize("kind, names, masked, precision, sizes", list(LAYERS))
def test_layers_agree_with_separate_ops(monkeypatch, kind, names, masked, precision, sizes):
    (dtype, tolerance), (steps, batch, units) = precision, sizes
    torch.manual_seed(2)
    wide = units * (3 if kind == "gru" else 1)
    made = [0.5 * torch.randn(s, device="cuda").to(dtype) for s in (
        (steps, batch, wide), (batch, units), (units, wide), (wide if kind == "gru" else 0,))]
    made[2] = made[2] / units ** 0.5
    mask = torch.rand(steps, batch, device="cuda") < 0.6 if masked else torch.zeros(0, dtype=torch.bool, device="cuda")
    assert triton_rnn.fits(*made) and not recurrent.fits(*made)
    got, wanted = layer_results(monkeypatch, kind, names, made, mask, torch.randn(steps, batch, units, device="cuda").to(dtype))
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert a.shape == b.shape and float((a.double() - b).norm()) <= tolerance * (float(b.norm()) + 1), i
