"""Kernels that are generated from the rules of optimizers: their text, and on a GPU what they compute."""
import pytest
import torch

from penstock._src.kernels import triton_updates
from penstock._src.ops.nn import training

RULES = {
    "momentum": (training._momentum_update, 2, {"use_nesterov": True}, ["lr", None, "momentum"]),
    "adam": (training._adam_update, 3, {"use_nesterov": False}, ["p1", "p2", "lr", "beta1", "beta2", "epsilon", None]),
    "amsgrad": (training._adam_with_amsgrad_update, 4, {}, ["p1", "p2", "lr", "beta1", "beta2", "epsilon", None]),
    "adamax": (training._ada_max_update, 3, {}, ["p1", "lr", "beta1", "beta2", "epsilon", None]),
    "proximal adagrad": (training._proximal_adagrad_update, 2, {}, ["lr", "l1", "l2", None]),
    "adadelta": (training._adadelta_update, 3, {}, ["lr", "rho", "epsilon", None]),
    "rmsprop": (training._rms_prop_update, 3, {}, ["lr", "rho", "momentum", "epsilon", None]),
    "centered": (training._centered_rms_prop_update, 4, {}, ["lr", "rho", "momentum", "epsilon", None]),
    "decay": (training._adagrad_decay_update, 3, {}, ["lr", "periods", "rate", "baseline", None]),
    "sign": (training._add_sign_update, 2, {}, ["lr", "alpha", "decay", "beta", None]),
}
NUMBERS = {"lr": 0.1, "momentum": 0.9, "p1": 0.8, "p2": 0.99, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3, "l1": 0.01,
           "l2": 0.1, "rho": 0.9, "periods": 2.0, "rate": 0.5, "baseline": 0.1, "alpha": 1.0, "decay": 0.7, "beta": 0.9}


def text_of(name, as_tensors):
    rule, count, chosen, order = RULES[name]
    text = triton_updates._Text()
    terms = [triton_updates._Term(text, f"s{i}") for i in range(count)]
    kind = torch.tensor if as_tensors else float
    given = [triton_updates._Term(text, "g") if n is None else kind(NUMBERS[n]) for n in order]
    rule(*terms, *given, **chosen)
    return text, terms


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_the_text_of_a_rule_computes_what_the_rule_does(name, as_tensors):
    """The lines are Python, too: they run on tensors of the host."""
    rule, count, chosen, order = RULES[name]
    text, terms = text_of(name, as_tensors)
    torch.manual_seed(0)
    states = [(torch.rand(20) + 0.1) * (0.1 if i == 1 else 1.0) for i in range(count)]
    grad = torch.randn(20)

    class tl:
        sqrt, abs, exp = torch.sqrt, torch.abs, torch.exp

        @staticmethod
        def where(condition, a, b):
            return torch.where(condition, torch.as_tensor(a), torch.as_tensor(b))
    scope = {"tl": tl, "g": grad, **{f"s{i}": s.clone() for i, s in enumerate(states)},
             **{f"n{i}": n for i, n in enumerate(text.numbers)}}
    exec("\n".join(text.lines), scope)                       # our own text
    wanted = [s.clone() for s in states]
    rule(*wanted, *[grad.clone() if n is None else NUMBERS[n] for n in order], **chosen)
    for term, want in zip(terms, wanted, strict=True):
        torch.testing.assert_close(scope[term.now], want, rtol=1e-5, atol=1e-6)


def test_one_text_for_all_numbers():
    sources = [triton_updates._source(*text_of("adam", True)) for _ in range(2)]
    assert sources[0] == sources[1] and "tl.store(p2 + at" in sources[0]
    text, terms = text_of("momentum", False)
    assert "q0" not in triton_updates._source(text, terms)


def test_what_a_kernel_cannot_do_is_left_to_torch():
    text = triton_updates._Text()
    with pytest.raises(triton_updates._Unknown):
        triton_updates._Term(text, "s0").pow(0.3)
    assert not triton_updates.update(lambda var, grad: var.add_(grad), [[torch.ones(2)]], [None], 0, [torch.ones(2)], {})


def test_memory_without_gaps():
    x = torch.empty(3, 4, 5)
    assert triton_updates._dense(x) and triton_updates._dense(x.permute(2, 0, 1)) and triton_updates._dense(torch.empty(0, 2))
    assert not triton_updates._dense(x[:, ::2]) and not triton_updates._dense(torch.ones(1).expand(3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("name", RULES)
def test_kernels_on_a_gpu(name, dtype, tolerance):
    rule, count, chosen, order = RULES[name]
    torch.manual_seed(0)
    shapes = [(5,), (33, 70), (2, 3, 4), (1,)]
    small = name == "centered"                               # the square of its first slot is less than the second
    states = [[((torch.rand(s) + 0.5) * (0.1 if small and i == 1 else 1.0)).to(dtype) for s in shapes] for i in range(count)]
    grads = [torch.randn(s).sign().mul(torch.rand(s) + 0.5).to(dtype) for s in shapes]      # signs do not depend on rounding
    there = [[t.cuda() for t in s] for s in states]
    there = [[t.mT.contiguous().mT if t.dim() == 3 else t for t in s] for s in there]       # another layout
    numbers = [None if n is None else torch.tensor(NUMBERS[n], device="cuda") for n in order]
    assert triton_updates.update(rule, there, numbers, order.index(None), [g.cuda() for g in grads], chosen)
    for i, grad in enumerate(grads):
        wanted = [s[i].double() for s in states]
        rule(*wanted, *[grad.double() if n is None else NUMBERS[n] for n in order], **chosen)
        for found, want in zip(there, wanted, strict=True):
            torch.testing.assert_close(found[i].cpu().double(), want, rtol=tolerance, atol=tolerance)
