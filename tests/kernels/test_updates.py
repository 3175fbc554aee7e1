"""Compiled updates (kernels/updates.py) against the rules that define them, which torch computes in double precision."""
import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import updates
from penstock._src.ops import rules

if not updates.available():
    pytest.skip("penstock is installed without compiled kernels", allow_module_level=True)

NUMBERS = {"lr": 0.05, "momentum": 0.8, "rho": 0.9, "epsilon": 1e-3, "beta1": 0.9, "beta2": 0.98, "beta_1": 0.9, "beta_2": 0.97,
           "beta1_power": 0.9 ** 3, "beta2_power": 0.98 ** 3, "l1": 0.02, "l2": 0.1, "l2_shrinkage": 0.05, "lr_power": -0.5,
           "now": 0.85, "then": 0.87, "product": 0.6, "next_product": 0.5, "alpha": 0.07, "sign_decay": 0.6, "beta": 0.9,
           "logbase": 1.1, "global_step": 3, "periods": 1.0, "decay_rate": 0.5, "baseline": 0.2}
OPS = sorted((o for o in rules.updates.compiled if o.name.lstrip("_").startswith("Resource") and not o.name.endswith("ToAll")),
             key=lambda o: o.name)
SHAPES = [(7,), (5, 1), (40, 9), (6, 3, 2), (3, 300)]


def flags_of(opdef):
    """All values of the attributes that choose between rules."""
    names = [n for n in ("use_nesterov", "update_slots") if n in opdef.attrs]
    return [dict.fromkeys(names, v) for v in ((False, True) if names else (False,))]


def states_of(opdef):
    return [a for a in opdef.inputs if a.type == tf.resource]


def updated(opdef, dtype, states, grad, indices, flags):
    held = [tf.Variable(s.astype(dtype)) for s in states]
    grad = tf.constant(grad.astype(dtype))
    given = {"grad": grad, "delta": grad, "indices": indices, "global_step": tf.constant(NUMBERS["global_step"], tf.int64)}
    args = [given[a.name] if a.name in given else tf.constant(NUMBERS[a.name], dtype) for a in opdef.inputs[len(held):]]
    opdef(*[v.handle for v in held], *args, **flags)
    return [v.numpy() for v in held]


def by_torch(opdef, *given):
    """The same in double precision, by the rule alone."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("dense", "rows"):
            patch.setattr(updates, name, lambda *args: False)
        return updated(opdef, "float64", *given)


@pytest.fixture
def compiled_calls(monkeypatch):
    """Which calls the compiled kernels have done."""
    done = []
    for name in ("dense", "rows"):
        def call(*args, usual=getattr(updates, name)):
            done.append(usual(*args))
            return done[-1]
        monkeypatch.setattr(updates, name, call)
    return done


def test_other_powers_than_the_root(monkeypatch, compiled_calls):
    monkeypatch.setitem(NUMBERS, "lr_power", -0.4)
    for opdef in OPS:
        if "Ftrl" in opdef.name:
            compare(opdef, compiled_calls, atol=2e-5)       # a difference of numbers up to 20 is rounded as they are


@pytest.mark.parametrize("opdef", OPS, ids=lambda o: o.name)
def test_compiled_rules_are_those_of_torch(opdef, compiled_calls):
    compare(opdef, compiled_calls)


def compare(opdef, compiled_calls, atol=2e-6):
    draw = np.random.RandomState(0)
    for shape in SHAPES:
        for flags in flags_of(opdef):
            states = [draw.randn(*shape), *[draw.rand(*shape) * (0.1 if a.name == "mg" else 1.0) + 0.1
                                            for a in states_of(opdef)[1:]]]                # a mean is below the mean square
            indices = draw.randint(0, shape[0], 5).astype(draw.choice(["int32", "int64"])) if "Sparse" in opdef.name else None
            grad = draw.randn(*(shape if indices is None else (5, *shape[1:])))
            wanted = by_torch(opdef, states, grad, indices, flags)
            for dtype, smaller in (("float32", 1.0), ("float64", 1e-6)):
                found = updated(opdef, dtype, states, grad, indices, flags)
                assert compiled_calls.pop()
                for a, b in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(a, b, rtol=2e-5 * smaller, atol=atol * smaller,
                                               err_msg=f"{opdef.name} {dtype} {shape} {flags}")


@pytest.mark.parametrize("name", ["ResourceSparseApplyAdagrad", "_ResourceSparseApplyKerasAdam"])
def test_many_rows_with_few_and_with_many_indices(name):
    """Rows are found by hashing where there are many more rows than indices, and by a table of all rows elsewhere."""
    opdef = next(o for o in OPS if o.name == name)
    draw = np.random.RandomState(1)
    for rows, count, width in ((5000, 40, 3), (5000, 4000, 3), (20, 400, 2), (3000, 3000, 33)):
        states = [draw.randn(rows, width), *[draw.rand(rows, width) + 0.1 for _ in states_of(opdef)[1:]]]
        indices = (draw.randint(0, rows, count) ** 2 // rows).astype("int64")              # small ones come often
        grad = draw.randn(count, width) * 0.1
        flags = flags_of(opdef)[-1]
        wanted = by_torch(opdef, states, grad, indices, flags)
        for dtype, rtol in (("float32", 1e-4), ("float64", 1e-10)):
            for a, b in zip(updated(opdef, dtype, states, grad, indices, flags), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize("name", ["ResourceSparseApplyAdagrad", "_ResourceSparseApplyKerasAdam"])
def test_an_index_that_is_no_row_changes_nothing(name):
    opdef = next(o for o in OPS if o.name == name)
    held = [tf.Variable(np.ones([4, 2], "f")) for _ in states_of(opdef)]
    numbers = [tf.constant(NUMBERS[a.name]) for a in opdef.inputs[len(held):] if a.name not in ("grad", "indices")]
    for bad in (4, -1):
        with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
            opdef(*[v.handle for v in held], *numbers, np.ones([2, 2], "f"), np.array([0, bad]))
        for v in held:
            np.testing.assert_array_equal(v.numpy(), np.ones([4, 2]))


def test_nothing_to_do():
    held = [tf.Variable(np.ones([4, 2], "f")) for _ in range(2)]
    opdef = next(o for o in OPS if o.name == "_ResourceSparseApplyKerasAdagrad")
    opdef(*[v.handle for v in held], tf.constant(0.1), tf.constant(0.1), np.zeros([0, 2], "f"), np.zeros([0], "int64"))
    np.testing.assert_array_equal(held[0].numpy(), np.ones([4, 2]))
    empty = [tf.Variable(np.ones([0, 2], "f")) for _ in range(2)]
    dense = next(o for o in OPS if o.name == "_ResourceApplyKerasAdagrad")
    dense(*[v.handle for v in empty], tf.constant(0.1), tf.constant(0.1), np.ones([0, 2], "f"))
    assert empty[0].shape == [0, 2]


@pytest.mark.parametrize("order", [(3, 0, 1, 2), (3, 2, 0, 1), (1, 0, 3, 2)])
@pytest.mark.parametrize("dims", [(3, 3, 5, 8), (3, 1, 1, 4), (1, 1, 2, 3), (2, 0, 3, 4)])
def test_filters_that_lie_in_another_order(order, dims):
    def tensor(lying):
        values = torch.from_numpy(random.randn(*dims).astype("f"))
        back = sorted(range(4), key=order.__getitem__)
        return values.permute(order).contiguous().permute(back) if lying else values
    random = np.random.RandomState(0)
    var, slot, grad = (tensor(True) for _ in range(3))
    expected_slot = 0.8 * slot + grad
    expected = var - 0.05 * expected_slot
    chosen = ("MOMENTUM", (0.05, 0.8))
    assert updates.dense(chosen, [[var], [slot]], [grad])
    np.testing.assert_allclose(slot.numpy(), expected_slot.numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(var.numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)


def test_variables_of_double_precision_are_one_call(compiled_calls):
    """As those of floats are; one optimizer may have both."""
    held = [tf.Variable(np.full(n, 0.5, t)) for n, t in ((3, "float64"), (4, "float64"), (2, "float32"), (5, "float32"))]
    optimizer = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step():
        optimizer.apply_gradients([(tf.ones_like(v), v) for v in held])
    step()
    assert compiled_calls == [True, True]
    for v in held:
        np.testing.assert_allclose(v.numpy(), 0.49, rtol=1e-5)


def test_tensors_in_different_orders_are_not_taken():
    var, slot = torch.zeros(2, 3, 4).permute(2, 0, 1), torch.zeros(4, 2, 3)
    assert not updates.dense(("MOMENTUM", (0.05, 0.8)), [[var], [slot]], [torch.ones_like(var)])
    spread = torch.zeros(1, 3).expand(2, 3)
    assert not updates.dense(("MOMENTUM", (0.05, 0.8)), [[spread], [spread]], [spread])
    assert not var.any() and not slot.any() and not spread.any()
