"""The compiled recurrent layers against a plain loop and torch's autograd."""
import itertools

import pytest
import torch

from penstock._src.kernels import recurrent
from penstock._src.kernels.recurrent import GATES, GRU, LSTM, SIMPLE, Layer

pytestmark = pytest.mark.skipif(not recurrent.fits(), reason="penstock was installed without a compiler")
FUNCTIONS = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "linear": lambda x: x,
             "hard_sigmoid": lambda x: torch.clamp(x * 0.2 + 0.5, 0, 1)}


def loop(layer, x, h, c, weights, bias, mask):
    """All outputs and carries, one step after the other."""
    act, gate = FUNCTIONS[layer.activation], FUNCTIONS[layer.gate_activation]
    outputs, carries = [], []
    for t in range(x.shape[0]):
        inner = h @ weights
        if layer.kind == SIMPLE:
            new, new_c = act(x[t] + inner), c
        elif layer.kind == LSTM:
            parts = (x[t] + inner).chunk(4, 1)
            i, g, f, o = (parts[k] for k in layer.place)
            new_c = gate(i) * act(g) + gate(f) * c
            new_c = new_c.clamp(-layer.clip, layer.clip) if layer.clip else new_c
            new = gate(o) * act(new_c)
        else:
            (xz, xr, xh), (hz, hr, hh) = x[t].chunk(3, 1), (inner + bias).chunk(3, 1)
            z, candidate = gate(xz + hz), act(xh + gate(xr + hr) * hh)
            new, new_c = z * h + (1 - z) * candidate, c
        keep = torch.ones_like(new, dtype=torch.bool) if mask is None else mask[t][:, None].expand_as(new)
        h, c = torch.where(keep, new, h), torch.where(keep, new_c, c)
        outputs.append(h)
        carries.append(c)
    return torch.stack(outputs), torch.stack(carries)


CASES = [Layer(SIMPLE, "tanh"), Layer(SIMPLE, "relu"), Layer(SIMPLE, "linear"), Layer(LSTM), Layer(LSTM, place=(0, 2, 1, 3)),
         Layer(LSTM, "tanh", "hard_sigmoid"), Layer(GRU), Layer(GRU, "relu", "hard_sigmoid")]


@pytest.mark.parametrize(("layer", "masked"), list(itertools.product(CASES, (False, True))), ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 7), (4, 19, 33), (3, 8, 64), (2, 33, 200)], ids=str)
def test_values_and_gradients(layer, masked, shape):
    steps, batch, units = shape
    torch.manual_seed(units)
    gates = GATES[layer.kind]

    def normal(*size):
        return (torch.randn(*size) * 0.5).requires_grad_()
    x, h0, c0 = normal(steps, batch, gates * units), normal(batch, units), normal(batch, units)
    weights, bias = (normal(units, gates * units) * units ** -0.5).detach().requires_grad_(), normal(gates * units)
    mask = torch.rand(steps, batch) > 0.4 if masked else None
    h, c = loop(layer, x, h0, c0, weights, bias, mask)
    dh, dc = torch.randn(h.shape), torch.randn(c.shape)
    of = ([h, c], [dh, dc]) if layer.kind == LSTM else ([h], [dh])
    wanted = torch.autograd.grad(of[0], [x, h0, weights], of[1])

    first_c = c0.detach() if layer.kind == LSTM else None
    values = h0.detach(), first_c, weights.detach()
    with torch.no_grad():
        kept = recurrent.forward(layer, steps, x.detach(), *values, bias.detach() if layer.kind == GRU else None, mask)
        dx, dh0, _, inner = recurrent.backward(layer, steps, kept, *values, dh, dc if layer.kind == LSTM else None, mask)
    torch.testing.assert_close(kept[0], h.detach(), rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(dx, wanted[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(dh0, wanted[1], rtol=1e-4, atol=1e-4)
    recurrent_grad = dx if layer.kind != GRU else torch.cat([dx[..., :2 * units], inner], 2)
    before = torch.cat([h0[None], h[:-1]]).detach()
    torch.testing.assert_close(torch.einsum("tbi,tbj->ij", before, recurrent_grad), wanted[2], rtol=1e-4, atol=2e-4)


def test_clip_and_fewer_steps():
    layer = Layer(LSTM, clip=0.25)
    torch.manual_seed(0)
    x, h0, c0, weights = torch.randn(6, 4, 20), torch.randn(4, 5), torch.randn(4, 5), torch.randn(5, 20)
    h, gates, c, _ = recurrent.forward(layer, 4, x, h0, c0, weights)
    wanted, carries = loop(layer, x[:4], h0, c0, weights, None, None)
    torch.testing.assert_close(h[:4], wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(c[:4], carries, rtol=1e-5, atol=1e-5)
    assert not h[4:].any() and not c[4:].any() and not gates[4:].any()


def test_threads_do_not_change_results():
    torch.manual_seed(0)
    x, h0, weights = torch.randn(20, 40, 96), torch.randn(40, 32), torch.randn(32, 96)
    found = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(recurrent.forward(Layer(GRU), 20, x, h0, None, weights)[0])
    torch.set_num_threads(before)
    assert torch.equal(*found)
