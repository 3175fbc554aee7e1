"""Rows in device memory: a table with few of them there against one on the host, on a pretended GPU and a real one."""
import functools
import threading
import types

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._src.base import dtypes
from penstock._src.io.keyed_store import core_in_tiers
from penstock._src.kernels import keyed, keyed_device
from penstock._src.kernels.devices.cpu import to_host
from penstock._src.kernels.devices.cuda import Cuda
from penstock._src.kernels.keyed import KeyedConfig, KeyedTable
from tests.step.place.fake_gpu import FakeGpu, OnGpu

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = [pytest.param(FakeGpu, id="pretended"), pytest.param(Cuda, id="gpu", marks=[pytest.mark.gpu, needs_gpu])]
CONFIGS = st.builds(KeyedConfig, dim=st.sampled_from([1, 3, 16]), start=st.just(keyed.NORMAL), start_b=st.just(0.7),
                    capacity=st.sampled_from([0, 0, 5]), device_rows=st.sampled_from([1, 4, 9, 100]),
                    policy=st.integers(0, 1), admission=st.sampled_from([0, 1]), threshold=st.just(2), refused=st.just(0.25),
                    steps_to_live=st.just(4))
KEYS = st.lists(st.integers(-30, 30), max_size=20)
WORK = ["slot", "lookup", "lookup", "peek", "update", "update", "write", "restore", "remove", "evict", "read", "prefetch",
        "changes"]


def _table(config, device=None, dtype=dtypes.float32):
    core = None if device is None else functools.partial(core_in_tiers, device=device)
    table = KeyedTable("t", config, False, dtype, core, device)
    table.initialize(None)
    return table


def _update(table, keys, step):
    """What an optimizer without a rule does: the rows of distinct keys, and their slots, are read, changed and put back."""
    keys = torch.unique(keys)
    versions = torch.full((len(keys),), step)
    for slot in (None, *table.slots):
        rows, _ = table.read(keys, slot)
        table.write(keys, rows * 0.5 + step, slot, slot is None and table.config.admission == keyed.ADMIT_ALL, versions)


def _call(table, what, keys, step):
    """Runs one call; returns what can be compared."""
    values = torch.arange(len(keys) * table.config.dim, dtype=torch.float32).reshape(-1, table.config.dim)
    if what == "slot":
        table.add_slot(f"s{step % 2}", 0.5 + step % 2)
    elif what in ("lookup", "peek"):
        return [table.lookup(keys, insert=what == "lookup")]
    elif what == "update":
        _update(table, keys, step)
    elif what == "write":
        table.write(keys, table.placed(values))
    elif what == "restore":
        table.write(keys, values, None, True, torch.arange(len(keys)), torch.arange(len(keys)) + 3)
    elif what == "remove":
        return [torch.tensor(table.remove(keys))]
    elif what == "evict":
        return [torch.tensor(table.evict(step))]
    elif what == "read":
        return [*table.read(keys), *table.statistics(keys), *(table.read(keys, s)[0] for s in table.slots)]
    elif what == "prefetch":
        table.prefetch(keys)
    else:
        found = table.begin_save(True)
        table.end_save()
        return _sorted(found)
    return []


def _sorted(found):
    order = torch.argsort(found.keys)
    columns = [c[order] for _, c in sorted(found.columns.items())]
    return [found.keys[order], found.versions[order], found.frequencies[order], *columns, torch.unique(found.gone)]


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60, deadline=None)
@given(config=CONFIGS, calls=st.lists(st.tuples(st.sampled_from(WORK), KEYS), max_size=25), first=st.sampled_from([1, 4096]))
def test_a_tier_on_a_device_changes_no_result(device, tmp_path_factory, config, calls, first):
    if config.capacity:
        config = KeyedConfig(**{**config.__dict__, "storage": str(tmp_path_factory.mktemp("rows"))})
    before, keyed_device._FIRST = keyed_device._FIRST, first
    try:
        near, far = _table(config, device(0)), _table(KeyedConfig(**{**config.__dict__, "capacity": 0, "storage": ""}))
        for step, (what, numbers) in enumerate(calls):
            keys = torch.tensor(numbers, dtype=torch.int64)
            for a, b in zip(*(_call(t, what, keys, step) for t in (near, far)), strict=True):
                torch.testing.assert_close(to_host(a), b, msg=lambda m, what=what: f"{what}: {m}")
            assert near.core.resident() <= config.device_rows and near.size() == far.size(), what
        for a, b in zip(*(_sorted(t.export()) for t in (near, far)), strict=True):
            torch.testing.assert_close(a, b)
    finally:
        keyed_device._FIRST = before


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_recent_keys_are_read_on_the_device(device, monkeypatch):
    table = _table(KeyedConfig(dim=4, device_rows=64, start=keyed.NORMAL, start_b=1.0), device(0))
    keys = torch.arange(50)
    expected = to_host(table.lookup(keys))
    assert table.core.resident() == 50
    monkeypatch.setattr(table.core, "_from_core", None)          # the host is not asked for rows any more
    rows = table.lookup(keys)
    assert not rows.is_cpu and (device is not FakeGpu or isinstance(rows, OnGpu))
    table.write(keys, rows + 1)
    torch.testing.assert_close(to_host(table.read(keys)[0]), expected + 1)
    torch.testing.assert_close(table.core._core.export(0)[4][:, :4].sort(0)[0], expected.sort(0)[0])     # not yet returned


@pytest.mark.parametrize("device", DEVICES)
def test_a_prefetched_batch_is_on_the_device(device):
    table = _table(KeyedConfig(dim=4, device_rows=32), device(0))
    table.write(torch.arange(100), torch.ones(100, 4))
    assert table.core.resident() == 0
    table.prefetch(torch.arange(60, 80))
    assert table.core.resident() == 20 and (table.core._places(torch.arange(60, 80)) >= 0).all()


@pytest.mark.parametrize(("policy", "kept"), [(keyed.LEAST_RECENT, range(8, 24)), (keyed.LEAST_FREQUENT, range(8))])
def test_which_rows_leave_the_device(policy, kept):
    table = _table(KeyedConfig(dim=2, device_rows=16, policy=policy), FakeGpu(0))
    for _ in range(5):
        table.lookup(torch.arange(8))
    for first in (8, 16):
        table.lookup(torch.arange(first, first + 8))
    assert (table.core._places(torch.tensor(kept)) >= 0).all()


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.bfloat16])
def test_other_types(dtype):
    table = _table(KeyedConfig(dim=2, device_rows=4), FakeGpu(0), dtype)
    table.write(torch.arange(9), torch.arange(18.0).reshape(9, 2))
    assert to_host(table.lookup(torch.tensor([8, 1]))).tolist() == [[16, 17], [2, 3]]


def test_threads_that_push_out_each_others_rows_lose_no_update():
    table = _table(KeyedConfig(dim=4, device_rows=64), FakeGpu(0))
    rounds, threads = 20, 3

    def run(number):
        for i in range(rounds):
            keys = (torch.arange(100) + 37 * (i + number)) % 300
            table.lookup(keys)
            with table.lock:
                table.write(keys, table.read(keys)[0] + 1)
    running = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    expected = torch.zeros(300)
    for i in range(rounds):
        for number in range(threads):
            expected[(torch.arange(100) + 37 * (i + number)) % 300] += 1
    torch.testing.assert_close(to_host(table.read(torch.arange(300))[0]), expected[:, None].expand(300, 4))


def test_an_update_finds_its_keys_once(monkeypatch):
    """Values and slots of the same keys are read and written at the places that were found first, until rows move."""
    table = _table(KeyedConfig(dim=2, device_rows=4), FakeGpu(0))
    table.add_slot("s", 1.0)
    keys = torch.tensor([3, 1, 2])
    table.lookup(keys)
    reads = []
    read = table.core._index.read
    monkeypatch.setattr(table.core, "_index", types.SimpleNamespace(
        read=lambda *args: (reads.append(len(args[0])), read(*args)), write=table.core._index.write,
        remove=table.core._index.remove))
    _update(table, keys, 1)
    assert reads == [3]                                     # sorted: other keys than those of the lookup
    table.lookup(torch.tensor([5, 6, 7]))                   # takes places of the others
    rows, _ = table.read(torch.unique(keys))
    assert len(reads) > 1
    torch.testing.assert_close(to_host(rows), torch.full((3, 2), 1.0))


def test_of_equal_keys_the_last_row_is_written():
    table = _table(KeyedConfig(dim=1, device_rows=4), FakeGpu(0))
    keys = torch.tensor([3, 1, 3, 1, 3])
    table.lookup(keys)
    table.write(keys, table.placed(torch.arange(5.0).reshape(-1, 1)))
    torch.testing.assert_close(to_host(table.lookup(torch.tensor([1, 3]))), torch.tensor([[3.0], [4.0]]))
