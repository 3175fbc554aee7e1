"""Tables of rows by key: the compiled core against the plain one, on random sequences of calls; threads; bounded memory."""
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._src.base import dtypes, errors
from penstock._src.kernels import keyed, strings
from penstock._src.kernels.keyed import KeyedConfig, KeyedTable
from penstock._src.ops import rules
from penstock._src.ops.state import keyed as ops

NEEDED = pytest.mark.skipif(keyed._kernels() is None, reason="needs the compiled kernels")


def _table(config, text=False, core=None):
    made = KeyedTable("t", config, text, dtypes.float32)
    made.core = (core or keyed.Compiled)(config, text, torch.float32, None)
    return made


CONFIGS = st.builds(
    KeyedConfig, dim=st.sampled_from([1, 3, 16]), seed=st.integers(0, 3), start=st.integers(0, 3), start_a=st.just(0.1),
    start_b=st.just(0.7), capacity=st.sampled_from([0, 5, 40, 9000]), policy=st.integers(0, 1), admission=st.integers(0, 3),
    threshold=st.integers(0, 4), probability=st.just(0.5), bloom_items=st.just(100))
CALLS = st.lists(st.tuples(st.sampled_from(["slot", "lookup", "lookup", "peek", "write", "put", "remove", "evict", "read"]),
                           st.lists(st.integers(-30, 30), max_size=20)), max_size=25)


def _same(a, b, what):
    torch.testing.assert_close(a.double(), b.double(), rtol=1e-5, atol=1e-6, msg=lambda m: f"{what}: {m}")


def _call(table, what, keys, step, values):
    """Runs one call; returns what can be compared."""
    if what == "slot":
        return [torch.tensor(len(table.slots) if table.add_slot(f"s{step % 3}", 0.5) is None else 0)]
    if what in ("lookup", "peek"):
        return [table.lookup(keys, step, insert=what == "lookup")]
    if what in ("write", "put"):
        table.write(keys, values, creates=what == "write")
        return []
    if what == "remove":
        return [torch.tensor(table.remove(keys))]
    if what == "evict":
        return [torch.tensor(table.core.evict(step - 3, -1.0))]
    return [*table.read(keys), *table.statistics(keys)]


@NEEDED
@settings(max_examples=120, deadline=None)
@given(config=CONFIGS, calls=CALLS, text=st.booleans(), disk=st.booleans())
def test_both_cores_agree(config, calls, text, disk, tmp_path_factory):
    if disk and not text:
        config = KeyedConfig(**{**config.__dict__, "storage": str(tmp_path_factory.mktemp("rows"))})
    tables = [_table(config, text, core) for core in (keyed.Compiled, keyed._Plain)]
    for step, (what, numbers) in enumerate(calls):
        keys = torch.tensor(numbers, dtype=torch.int64)
        if text:
            keys = strings.pack([b"key %d" % n * (1 + n % 3) for n in numbers])
        values = torch.arange(len(numbers) * config.dim, dtype=torch.float32).reshape(-1, config.dim)
        for a, b in zip(*(_call(t, what, keys, step, values) for t in tables), strict=True):
            _same(a, b, what)
        assert tables[0].core.sizes()[:3] == tables[1].core.sizes()[:3], what
        if config.capacity:
            assert tables[0].core.sizes()[0] <= config.capacity
    found, other = (t.export() for t in tables)
    order, other_order = (sorted(range(len(e.keys)), key=lambda i, e=e: e.keys[i]) for e in (found, other))
    assert [found.keys[i] for i in order] == [other.keys[i] for i in other_order]
    for name in found.columns:
        _same(found.columns[name][order], other.columns[name][other_order], name)


RULES = sorted(d.name.replace("ResourceApply", "") for d in rules.updates.chosen if "ResourceApply" in d.name)


@NEEDED
@settings(max_examples=60, deadline=None)
@given(rule=st.sampled_from(RULES), option=st.booleans(),
       numbers=st.lists(st.integers(0, 6), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_fused_rules_compute_what_the_training_ops_do(rule, option, numbers, seed):
    update = ops.training_op(rule)
    slots = sum(a.type == dtypes.resource for a in update.inputs) - 1
    config = KeyedConfig(dim=5, start=keyed.NORMAL, start_b=1.0)
    draw = torch.Generator().manual_seed(seed)
    keys, grad = torch.tensor(numbers), torch.randn(len(numbers), 5, generator=draw)
    given_numbers = [torch.tensor(NUMBERS[n]) for n in update.input_names[slots + 1:] if n not in ("grad", "delta")]
    fused, plain = _table(config), _table(config, core=keyed._Plain)
    for table in (fused, plain):
        for _ in range(2):
            ops._kv_apply_kernel(table, grad, keys, torch.tensor(0), given_numbers, rule=rule, option=option, ctx=None,
                                 slots=[f"s{i}" for i in range(slots)], initial=[0.1] * slots)
    for slot in (None, *fused.slots):
        _same(fused.read(keys, slot)[0], plain.read(keys, slot)[0], f"{rule} {slot}")


NUMBERS = {"alpha": 0.1, "lr": 0.1, "l1": 0.01, "l2": 0.02, "momentum": 0.9, "beta1_power": 0.9, "beta2_power": 0.999,
           "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3, "rho": 0.9, "global_step": 3.0, "lr_power": -0.4, "l2_shrinkage": 0.1,
           "sign_decay": 0.5, "beta": 0.9, "logbase": 1.0, "beta_1": 0.9, "beta_2": 0.99, "now": 0.8, "then": 0.9,
           "product": 0.7, "next_product": 0.6, "periods": 2.0, "decay_rate": 0.5, "baseline": 0.08}


KEYS = st.lists(st.integers(0, 40), max_size=30)


@NEEDED
@settings(max_examples=80, deadline=None)
@given(steps=st.lists(st.tuples(KEYS, KEYS, KEYS, st.sampled_from(["", "", "slot", "clear", "other keys"])), max_size=8),
       disk=st.booleans())
def test_updates_find_rows_that_moved_since_the_lookup_of_their_keys(steps, disk, tmp_path_factory):
    storage = {"capacity": 20, "storage": str(tmp_path_factory.mktemp("rows"))} if disk else {}
    table, expected = _table(KeyedConfig(dim=2, **storage)), {}
    for number, (looked_up, removed, written, between) in enumerate(steps):
        table.lookup(torch.tensor(looked_up, dtype=torch.int64))
        table.remove(torch.tensor(removed, dtype=torch.int64))
        if between == "slot":
            table.add_slot(f"s{number}", 0.5)
        if between == "clear":
            table.clear()
        table.write(torch.tensor(written, dtype=torch.int64), torch.full((len(written), 2), float(number)))
        updated = looked_up[::-1] if between == "other keys" else looked_up
        table.apply(("DESCEND", (1.0,)), torch.tensor(updated, dtype=torch.int64), -torch.ones(len(updated), 2), [])
        expected = {k: v for k, v in expected.items() if k not in removed and between != "clear"}
        expected.update(dict.fromkeys(written, float(number)))
        for key in updated:
            expected[key] = expected.get(key, 0.0) + 1.0
    values, found = table.read(torch.arange(41))
    assert values[:, 0].tolist() == values[:, 1].tolist() == [expected.get(k, 0.0) for k in range(41)]
    assert all(found[k] for k in expected)


@NEEDED
def test_threads_update_disjoint_and_shared_keys_without_losing_any():
    table = _table(KeyedConfig(dim=4))
    batches, threads = 50, 4

    def run(number):
        for i in range(batches):
            keys = torch.cat([torch.arange(100), torch.arange(100) + 10000 * (number + 1) + 100 * i])
            table.lookup(keys)
            table.apply(("DESCEND", (1.0,)), keys, -torch.ones(200, 4), [])
    running = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    shared, _ = table.read(torch.arange(100))
    assert (shared == batches * threads).all()
    assert table.size() == 100 + threads * batches * 100
    assert table.statistics(torch.tensor([5]))[1].item() == batches * threads


@NEEDED
def test_memory_is_bounded_by_the_capacity():
    table, most = _table(KeyedConfig(dim=8, capacity=1 << 14)), 0
    for i in range(40):
        table.lookup(torch.arange(i * 8192, (i + 1) * 8192))
        most = max(most, table.core.sizes()[3])
    assert table.size() <= 1 << 14
    assert not len(table.export().gone)            # keys that left before a save are not kept
    assert most < 4 * (1 << 14) * (8 * 4 + 64 + 16)


@NEEDED
def test_rows_come_back_from_disk(tmp_path):
    table = _table(KeyedConfig(dim=3, capacity=64, storage=str(tmp_path), start=keyed.NORMAL, start_b=1.0))
    table.add_slot("m", 0.0)
    keys = torch.arange(1000)
    values = torch.arange(3000, dtype=torch.float32).reshape(-1, 3)
    table.write(keys, values)
    assert table.core.sizes()[:2] == (64, 936) or sum(table.core.sizes()[:2]) == 1000
    table.add_slot("v", 0.25)
    _same(table.lookup(keys), values, "values")
    _same(table.read(keys, "v")[0], torch.full((1000, 3), 0.25), "a slot that was added while rows were on disk")
    assert sorted(table.export().keys.tolist()) == keys.tolist()


@pytest.mark.parametrize("core", ["Compiled", "_Plain"])
def test_exports_since_an_epoch_have_what_changed(core):
    if core == "Compiled" and keyed._kernels() is None:
        pytest.skip("needs the compiled kernels")
    table = _table(KeyedConfig(dim=2), core=getattr(keyed, core))
    table.lookup(torch.arange(10))
    first = table.export()
    table.write(torch.tensor([3, 11]), torch.ones(2, 2))
    table.remove(torch.tensor([4]))
    second = table.export(first.epoch)
    assert sorted(second.keys.tolist()) == [3, 11] and second.gone.tolist() == [4]
    third = table.export(second.epoch)
    assert not len(third.keys) and not len(third.gone)


def test_a_table_refuses_gradients_of_another_shape():
    table = _table(KeyedConfig(dim=2), core=keyed.Compiled if keyed._kernels() else keyed._Plain)
    with pytest.raises(errors.InvalidArgumentError, match="shape"):
        table.write(torch.arange(3), torch.ones(3, 5))
