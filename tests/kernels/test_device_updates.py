"""Kernels that are generated from the rules of optimizers, compiled for the host by a C++ compiler, and on a GPU."""
import ctypes
import shutil

import pytest
import torch

from penstock._src.kernels import device_updates
from penstock._src.ops.nn import training
from tests.kernels.cuda_on_host import compiled

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
    text = device_updates._Text()
    terms = [device_updates._Term(text, f"s{i}") for i in range(count)]
    kind = torch.tensor if as_tensors else float
    given = [device_updates._Term(text, "g") if n is None else kind(NUMBERS[n]) for n in order]
    rule(*terms, *given, **chosen)
    return text, terms


def on_host(name, as_tensors, types, shapes, folder):
    """Variables before, and after a kernel that runs on the host, and their gradients."""
    _, count, _, order = RULES[name]
    text, terms = text_of(name, as_tensors)
    draw = torch.Generator().manual_seed(0)
    states = [[((torch.rand(s, generator=draw) + 0.5) * (0.1 if i == 1 else 1.0)).to(t) for s in shapes]
              for i, t in enumerate(types[:-1])]
    grads = [(torch.randn(s, generator=draw).sign() * (torch.rand(s, generator=draw) + 0.5)).to(types[-1]) for s in shapes]
    after = [[t.clone() for t in s] for s in states]
    numbers = "".join(f", (float *)n[{i}]" if isinstance(n, torch.Tensor) else f", *(float *)n[{i}]"
                      for i, n in enumerate(text.numbers))
    library = compiled(device_updates.source(text, terms, types) + """
extern "C" void run(Table *table, void **n, unsigned blocks) {
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x) update(*table""" + numbers + """);
}""", folder)
    values = [torch.tensor(float(n)) for n in text.numbers]
    places = (ctypes.c_void_p * len(values))(*(v.data_ptr() for v in values))
    for table, blocks in device_updates._tables(list(zip(*after, grads, strict=True))):
        library.run(ctypes.byref(table), places, blocks)
    return states, after, grads


def by_rule(name, states, grads):
    rule, _, chosen, order = RULES[name]
    wanted = [[t.double() for t in s] for s in states]
    for i, grad in enumerate(grads):
        rule(*[s[i] for s in wanted], *[grad.double() if n is None else NUMBERS[n] for n in order], **chosen)
    return wanted


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_the_kernel_of_a_rule_computes_what_the_rule_does(name, as_tensors, tmp_path):
    types = [torch.float32] * RULES[name][1] + [torch.bfloat16 if as_tensors else torch.float32]
    states, after, grads = on_host(name, as_tensors, types, [(5,), (33, 70), (2048,), (1,), (4, 513)], tmp_path)
    for found, wanted in zip(after, by_rule(name, states, grads), strict=True):
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_more_variables_than_a_table_has_room_for(tmp_path):
    shapes = [(i % 7 + 1, 3) for i in range(2 * device_updates.room(4) + 5)]
    states, after, grads = on_host("adam", False, [torch.float32] * 4, shapes, tmp_path)
    for found, wanted in zip(after, by_rule("adam", states, grads), strict=True):
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-6)


def test_one_text_for_all_numbers():
    types = [torch.float32] * 4
    sources = [device_updates.source(*text_of("adam", True), types) for _ in range(2)]
    assert sources[0] == sources[1] and "put(v2.x[k]" in sources[0]
    assert "q0" not in device_updates.source(*text_of("momentum", False), types[:3])


def test_what_a_kernel_cannot_do_is_left_to_torch():
    text = device_updates._Text()
    with pytest.raises(device_updates._Unknown):
        device_updates._Term(text, "s0").pow(0.3)
    assert not device_updates.update(lambda var, grad: var.add_(grad), [[torch.ones(2)]], [None], 0, [torch.ones(2)], {})


def test_memory_without_gaps():
    x = torch.empty(3, 4, 5)
    assert device_updates._dense(x) and device_updates._dense(x.permute(2, 0, 1)) and device_updates._dense(torch.empty(0, 2))
    assert not device_updates._dense(x[:, ::2]) and not device_updates._dense(torch.ones(1).expand(3))


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
    assert device_updates.update(rule, there, numbers, order.index(None), [g.cuda() for g in grads], chosen)
    for i, grad in enumerate(grads):
        wanted = [s[i].double() for s in states]
        rule(*wanted, *[grad.double() if n is None else NUMBERS[n] for n in order], **chosen)
        for found, want in zip(there, wanted, strict=True):
            torch.testing.assert_close(found[i].cpu().double(), want, rtol=tolerance, atol=tolerance)
