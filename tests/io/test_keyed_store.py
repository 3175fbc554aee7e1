"""Rows in an object store: a table with a small capacity against one without a limit, failures of the store, threads."""
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._src.base import dtypes, errors
from penstock._src.io import keyed_store
from penstock._src.io.keyed_store import Stored
from penstock._src.kernels import keyed
from penstock._src.kernels.keyed import KeyedConfig, KeyedTable

pytestmark = pytest.mark.skipif(keyed._kernels() is None, reason="needs the compiled kernels")


class Shelf:
    """Objects in a dictionary; `fails` makes writes fail."""

    def __init__(self):
        self.objects, self.fails, self.reads = {}, False, 0

    def write(self, name, data):
        if self.fails:
            raise errors.UnavailableError(None, None, "the store is away")
        assert name not in self.objects
        self.objects[name] = bytes(data)

    def read(self, name):
        self.reads += 1
        if name not in self.objects:
            raise errors.NotFoundError(None, None, name)
        return self.objects[name]

    def read_ranges(self, name, ranges):
        data = self.read(name)
        return [data[a:b] for a, b in ranges]

    def remove(self, name):
        del self.objects[name]

    def close(self):
        self.objects.clear()


def _stored(config, shelf):
    table = KeyedTable("t", config, False, dtypes.float32, lambda config, is_text, dtype, pool: Stored(config, pool, shelf))
    table.initialize(None)
    return table


def _unlimited(config):
    table = KeyedTable("t", KeyedConfig(**{**config.__dict__, "capacity": 0}), False, dtypes.float32)
    table.initialize(None)
    return table


CONFIGS = st.builds(KeyedConfig, dim=st.sampled_from([1, 3, 16]), start=st.just(keyed.NORMAL), start_b=st.just(0.7),
                    capacity=st.sampled_from([2, 5, 12]), policy=st.integers(0, 1), admission=st.sampled_from([0, 1]),
                    threshold=st.just(2), steps_to_live=st.just(4))
KEYS = st.lists(st.integers(-30, 30), max_size=20)
WORK = ["slot", "lookup", "lookup", "apply", "write", "remove", "evict", "read", "prefetch", "changes"]


def _call(table, what, keys, step):
    """Runs one call; returns what can be compared."""
    values = torch.arange(len(keys) * table.config.dim, dtype=torch.float32).reshape(-1, table.config.dim)
    if what == "slot":
        table.add_slot(f"s{step % 2}", 0.5 + step % 2)
    elif what == "lookup":
        return [table.lookup(keys, step)]
    elif what == "apply":
        table.apply(("DESCEND", (0.1,)), keys, values, [], step)
    elif what == "write":
        table.write(keys, values)
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


@settings(max_examples=60, deadline=None)
@given(config=CONFIGS, calls=st.lists(st.tuples(st.sampled_from(WORK), KEYS), max_size=25), segment=st.sampled_from([2, 8]))
def test_a_small_memory_changes_no_result(config, calls, segment):
    shelf, before = Shelf(), keyed_store.SEGMENT
    keyed_store.SEGMENT = segment
    try:
        small, all_of_it = _stored(config, shelf), _unlimited(config)
        for step, (what, numbers) in enumerate(calls):
            keys = torch.tensor(numbers, dtype=torch.int64)
            for a, b in zip(*(_call(t, what, keys, step) for t in (small, all_of_it)), strict=True):
                torch.testing.assert_close(a, b, msg=lambda m, what=what: f"{what}: {m}")
            live, away = small.core.sizes()[:2]
            assert live <= config.capacity and live + away == all_of_it.core.sizes()[0], what
            kept = sum(s.rows for s in small.core._segments.values())
            assert len(shelf.objects) == len(small.core._segments) and kept <= 2 * away + 3 * segment, what
        for a, b in zip(*(_sorted(t.export()) for t in (small, all_of_it)), strict=True):
            torch.testing.assert_close(a, b)
        small.clear()
        assert not small.size() and not shelf.objects
    finally:
        keyed_store.SEGMENT = before


def test_a_write_that_fails_loses_no_row():
    shelf = Shelf()
    table = _stored(KeyedConfig(dim=2, capacity=4), shelf)
    keys, values = torch.arange(4), torch.arange(8.0).reshape(4, 2)
    shelf.fails = True
    with pytest.raises(errors.UnavailableError):
        table.write(keys, values)
    assert table.core.sizes()[:2] == (4, 0)
    shelf.fails = False
    table.lookup(torch.arange(100, 110))
    torch.testing.assert_close(table.read(keys)[0], values)


def test_few_rows_of_a_large_object_are_read_alone():
    shelf = Shelf()
    table = _stored(KeyedConfig(dim=2, capacity=16), shelf)
    table.lookup(torch.arange(1000))
    asked = []
    read_ranges = shelf.read_ranges
    shelf.read_ranges = lambda name, ranges: asked.extend(ranges) or read_ranges(name, ranges)
    away = table.core._core.places(torch.arange(1000)) >= 0
    key = torch.arange(1000)[away][:1]
    table.read(torch.cat([key, key]))
    assert len(asked) == 1 and asked[0][1] - asked[0][0] == 24 + 4 * table.core._core.stride


def test_threads_that_push_out_each_others_rows_lose_no_update():
    shelf = Shelf()
    table = _stored(KeyedConfig(dim=4, capacity=64), shelf)
    rounds, threads = 20, 3

    def run(number):
        for i in range(rounds):
            keys = (torch.arange(100) + 37 * (i + number)) % 300
            table.lookup(keys)
            table.apply(("DESCEND", (1.0,)), keys, -torch.ones(100, 4), [])
    running = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    expected = torch.zeros(300)
    for i in range(rounds):
        for number in range(threads):
            expected[(torch.arange(100) + 37 * (i + number)) % 300] += 1
    torch.testing.assert_close(table.read(torch.arange(300))[0], expected[:, None].expand(300, 4))


def test_the_objects_leave_with_the_table():
    shelf = Shelf()
    table = _stored(KeyedConfig(dim=2, capacity=4), shelf)
    table.lookup(torch.arange(50))
    assert shelf.objects
    table.close()
    assert not shelf.objects


def test_string_keys_stay_in_memory():
    with pytest.raises(errors.InvalidArgumentError, match="string"):
        KeyedTable("t", KeyedConfig(dim=2, capacity=4, storage="memory://rows"), True, dtypes.float32)
