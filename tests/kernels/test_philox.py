"""Words of Philox from the C kernel, beside those that Python's own numbers give."""
import math

import numpy as np
import pytest
import torch

from penstock._src.kernels import philox
from penstock._src.kernels.philox import Philox

_MASK = (1 << 128) - 1
PLACES = (0, (1 << 64) - 5, _MASK - 6, 12345 << 60)        # with a carry to the upper half, and around the end


def expected(gen, count):
    blocks = [philox._block(gen.key, (gen.counter + i) & _MASK) for i in range(count)]
    return torch.tensor([[b >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)] for b in blocks], dtype=torch.int64)


@pytest.mark.parametrize("counter", PLACES)
@pytest.mark.parametrize("count", [0, 1, 7, 16, 33, 600])
def test_words_are_those_of_the_counters(counter, count):
    gen = Philox(0x123456789ABCDEF0, counter)
    wanted = expected(gen, count).reshape(count, 4)
    assert torch.equal(gen.words(count), wanted)
    assert torch.equal(gen.at(torch.arange(count)), wanted)


@pytest.mark.parametrize("count", [0, 1, 5, 64, 67, 2049, 40_000])
def test_units_are_made_of_the_words(count):
    gen = Philox.seeded(7, 11).skip(3)
    words = gen.at(torch.arange(-(-count // 4)))
    assert torch.equal(philox.uniform(gen, count, torch.float32), philox.unit_float32(words).flatten()[:count])


def test_units_without_the_kernel(monkeypatch):
    gen = Philox.seeded(7, 11)
    usual = philox.uniform(gen, 1001, torch.float32)
    monkeypatch.setattr(philox, "_kernels", lambda: None)
    assert torch.equal(philox.uniform(gen, 1001, torch.float32), usual)


@pytest.mark.parametrize("draw, dtype, bounds", [
    (philox.uniform, torch.float32, ()), (philox.uniform, torch.float64, ()), (philox.uniform, torch.bfloat16, ()),
    (philox.normal, torch.float32, ()), (philox.normal, torch.float64, ()),
    (philox.uniform_int, torch.int32, (-3, 1000)), (philox.uniform_int, torch.int64, (0, 1 << 40))])
@pytest.mark.parametrize("dims", [[], [1], [3], [2, 2], [5], [2, 8]])
def test_executions_that_are_drawn_together_get_their_own_stretches(draw, dtype, bounds, dims):
    stream, single, count = philox.Stream(7, 11), philox.Stream(7, 11), math.prod(dims)
    for _ in range(80):
        found = stream.few(philox.Few(draw, dims, dtype, bounds))
        want = draw(single.reserve(count * philox.RESERVED), count, dtype, "cpu", *bounds).reshape(dims)
        assert found.dtype is dtype and torch.equal(found, want)


def test_other_draws_between_those_that_are_drawn_together():
    stream, single = philox.Stream(1, 2), philox.Stream(1, 2)
    for i in range(60):
        count = 2 if i % 7 else 3
        if i % 11 == 5:
            assert stream.reserve(9) == single.reserve(9)
        assert stream.here() == single.here()
        found = stream.few(philox.Few(philox.uniform, [count], torch.float32))
        assert torch.equal(found, philox.uniform(single.reserve(count * philox.RESERVED), count, torch.float32))


@pytest.mark.parametrize("start, once, count", [(0, True, 9), (5, True, 9), (3, False, 40)])
def test_slots_are_drawn_alike_without_the_kernel(monkeypatch, start, once, count):
    words = philox.Philox(3, 0).words(10).reshape(-1)[:count].numpy()
    found = []
    for kernels in (philox._kernels, lambda: None):
        monkeypatch.setattr(philox, "_kernels", kernels)
        slots = np.arange(9)
        drawn = philox.draw_slots(slots, start, words, once)
        assert sorted(slots) == list(range(9)) and (not once or sorted(drawn) == list(range(9)))
        found.append((drawn.tolist(), slots.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16])
def test_rows_are_exchanged_in_turn(shape, dtype):
    generator = torch.Generator().manual_seed(5)
    kept, added = (torch.randint(0, 99, (n, *shape), generator=generator).to(dtype) for n in (6, 40))
    added = added.flip(0) if added.ndim < 2 else added.transpose(0, -1).contiguous().transpose(0, -1)       # other strides
    places = torch.randint(0, 6, (40,), generator=generator).numpy()
    wanted, rows = [], list(kept.clone())
    for i, place in enumerate(places):
        wanted.append(rows[place])
        rows[place] = added[i]
    drawn = philox.exchange_rows(kept, added, places)
    assert torch.equal(drawn, torch.stack(wanted)) and torch.equal(kept, torch.stack(rows))
