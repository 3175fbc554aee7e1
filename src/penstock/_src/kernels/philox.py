"""Philox4x32-10, and the distributions drawn from it: the numbers that TensorFlow returns for the same seeds.

Philox (Salmon et al., SC'11) encrypts a 128-bit counter with a 64-bit key into four 32-bit words, so that any part of
the stream is computed on its own: here, thousands of counters at a time, on the host. Words are int64 tensors with
values below 2**32.

A distribution makes its outputs in groups. One counter makes a group, except where a variable number of words is
needed per output (rejection): there every group has 256 words per output set aside for it.
"""
from __future__ import annotations

import functools
import math
import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import tracing
from penstock._src.kernels import device_philox
from penstock._src.kernels.host_threads import compiled

_MASK = 0xFFFFFFFF
_MUL_A, _MUL_B = 0xD2511F53, 0xCD9E8D57
_WEYL_A, _WEYL_B = 0x9E3779B9, 0xBB67AE85
_32 = np.uint64(32)
SCRAMBLE = 0x02461E293EC8F720     # the key that makes streams of seeds
_CHUNK = 1 << 14                 # counters processed at a time, to fit a cache
_AHEAD = 8                       # executions whose words are computed at once
FEW = 16                         # numbers of an execution that are computed for several executions at once,
_MANY = 64                       # at most
RESERVED = 256                   # counters set aside per output by every op
_kernels = functools.partial(compiled, "_philox")


class Philox(NamedTuple):
    """A position in a stream: 64-bit key, 128-bit counter."""
    key: int
    counter: int

    @classmethod
    def seeded(cls, seed: int, seed2: int) -> Philox:
        """The stream of a pair of 64-bit seeds."""
        return cls(seed & (1 << 64) - 1, (seed2 & (1 << 64) - 1) << 64)

    @classmethod
    def scrambled(cls, seed: int, seed2: int) -> Philox:
        """The stream of a pair of seeds after scrambling, for stateless ops."""
        mask = (1 << 64) - 1
        mixed = _block(SCRAMBLE, seed & mask | (seed2 & mask) << 64)
        return cls(mixed & mask, mixed >> 64 << 64)

    def skip(self, count: int) -> Philox:
        """The place `count` counters further on."""
        return Philox(self.key, (self.counter + count) & (1 << 128) - 1)

    def words(self, count: int, device: torch.device | str = "cpu") -> torch.Tensor:
        """The words of the next `count` counters, [count, 4]."""
        low = self.counter & (1 << 64) - 1
        if torch.device(device).type == "cpu" or low + count >= 1 << 64:
            made = self._filled(torch.empty(count, 4, dtype=torch.int64)) if _kernels() else None
            return (self.at(torch.arange(count)) if made is None else made).to(device)
        made = device_philox.words(self.place, count, torch.device(device))
        if made is not None:
            return made
        return words_at(self.key, self.counter >> 64, torch.arange(count, device=device) + signed(low))

    @property
    def place(self) -> device_philox.Place:
        """Key, upper and lower half of the counter."""
        return self.key, self.counter >> 64, self.counter & (1 << 64) - 1

    def _filled(self, out: torch.Tensor) -> torch.Tensor | None:
        """`out`, a new tensor on the host, with the next words (int64) or numbers in [0, 1) made of them (float32). None in
        a trace, in which it has no memory."""
        if type(out) is not torch.Tensor:
            return None
        low, high = self.counter & (1 << 64) - 1, self.counter >> 64
        _kernels().fill(out.data_ptr(), out.numel(), out.dtype is torch.float32, self.key, low, high)
        return out

    def at(self, offsets: torch.Tensor) -> torch.Tensor:
        """The words of the counters at int64 `offsets` from here, [len(offsets), 4]."""
        places = offsets.cpu().numpy().view(np.uint64)
        out = np.empty((len(places), 4), np.uint64)
        for i in range(0, len(places), _CHUNK):
            c = _rounds(_counters(self.counter, places[i:i + _CHUNK]), self.key & _MASK, self.key >> 32)
            for k in range(4):
                out[i:i + _CHUNK, k] = c[k]
        return torch.from_numpy(out.view(np.int64)).to(offsets.device)


def draw_slots(slots: np.ndarray, start: int, words: np.ndarray, once: bool) -> np.ndarray:
    """Draws from a ring of slots, which are overwritten, as the buffer of TensorFlow's shuffles does: swaps the slot at `start`
    with one that a word chooses, from all slots or (`once`) from those not drawn yet, draws it, and goes on to the next."""
    drawn = np.array(words, np.int64)
    kernels = _kernels()
    if kernels:
        kernels.swap(slots.ctypes.data, len(slots), start, once, drawn.ctypes.data, len(drawn))
        return drawn
    size = len(slots)
    for i, word in enumerate(drawn.tolist()):
        at = (start + i) % size
        other = (at + word % (size - i * once)) % size
        slots[at], slots[other] = slots[other], slots[at]
        drawn[i] = slots[at]
    return drawn


def exchange_rows(kept: torch.Tensor, added: torch.Tensor, places: np.ndarray) -> torch.Tensor | None:
    """The rows at `places` of `kept`, a contiguous tensor on the host, drawn in turn, each replaced by the next added row. None
    where no C code is compiled."""
    kernels = _kernels()
    if not kernels:
        return None
    added, drawn = added.contiguous(), torch.empty_like(added, memory_format=torch.contiguous_format)
    width = kept.element_size() * (kept.numel() // max(1, len(kept)))
    kernels.exchange(kept.data_ptr(), added.data_ptr(), drawn.data_ptr(), width, places.ctypes.data, len(places))
    return drawn


def _rounds(c: list[np.ndarray], k0: int, k1: int) -> list[np.ndarray]:
    """The ten rounds on four arrays of words, which are overwritten."""
    for _ in range(10):
        a, b = c[0] * _MUL_A, c[2] * _MUL_B
        low_b, low_a = np.bitwise_and(b, _MASK, out=c[0]), np.bitwise_and(a, _MASK, out=c[2])
        for product, other, key in ((b, c[1], k0), (a, c[3], k1)):
            product >>= _32
            product ^= other
            product ^= key
        c = [b, low_b, a, low_a]
        k0, k1 = (k0 + _WEYL_A) & _MASK, (k1 + _WEYL_B) & _MASK
    return c


def _counters(base: int, offsets: np.ndarray) -> list[np.ndarray]:
    """The four words of base + offset, for every offset."""
    low, high = base & (1 << 64) - 1, base >> 64
    total = offsets + np.uint64(low)                              # wraps on purpose
    top = (total < offsets).astype(np.uint64) + np.uint64(high)
    return [total & _MASK, total >> _32, top & _MASK, top >> _32]


def _block(key: int, counter: int) -> int:
    """The 128 bits of one counter, as a Python number."""
    c0, c1, c2, c3 = (counter >> shift & _MASK for shift in (0, 32, 64, 96))
    k0, k1 = key & _MASK, key >> 32
    for _ in range(10):
        a, b = c0 * _MUL_A, c2 * _MUL_B
        c0, c1, c2, c3 = b >> 32 ^ c1 ^ k0, b & _MASK, a >> 32 ^ c3 ^ k1, a & _MASK
        k0, k1 = (k0 + _WEYL_A) & _MASK, (k1 + _WEYL_B) & _MASK
    return c0 | c1 << 32 | c2 << 64 | c3 << 96


def signed(value: int) -> int:
    """A 64-bit pattern as a signed number."""
    return value - (1 << 64) if value >= 1 << 63 else value


def words_at(key: Any, high: Any, low: torch.Tensor) -> torch.Tensor:
    """The words of counters whose lower halves are `low`, an int64 tensor on any device, [len(low), 4]. The key and the upper
    half are Python numbers, or int64 tensors."""
    k0, k1 = key & _MASK, key >> 32 & _MASK
    c = [low & _MASK, low >> 32 & _MASK, *[h.expand_as(low) if isinstance(h, torch.Tensor) else torch.full_like(low, h)
                                           for h in (high & _MASK, high >> 32 & _MASK)]]
    for _ in range(10):
        a, b = c[0] * _MUL_A, c[2] * _MUL_B                       # products wrap; their bits are right
        c = [b >> 32 & _MASK ^ c[1] ^ k0, b & _MASK, a >> 32 & _MASK ^ c[3] ^ k1, a & _MASK]
        k0, k1 = (k0 + _WEYL_A) & _MASK, (k1 + _WEYL_B) & _MASK
    return torch.stack(c, -1)


class _Stretches(NamedTuple):
    """The beginnings of several stretches of a stream, `step` counters apart."""
    here: Philox
    step: int
    many: int

    def words(self, count: int, device: torch.device | str = "cpu") -> torch.Tensor:
        """The words of the first counters of each stretch, `count` in all, [count, 4]."""
        return self.here.at((torch.arange(self.many).mul_(self.step).unsqueeze(1) + torch.arange(count // self.many)).view(-1))


class Few:
    """An execution of an op that draws at most `FEW` numbers on the host, of shape `dims`, by the function `draw`, and takes
    `reserved` counters."""

    __slots__ = ("draw", "dims", "dtype", "bounds", "count", "reserved")

    def __init__(self, draw: Callable, dims: list[int], dtype: torch.dtype, bounds: tuple[int, ...] = (), reserved: int = 0):
        self.draw, self.dims, self.dtype, self.bounds = draw, dims, dtype, bounds
        self.count = math.prod(dims)
        self.reserved = reserved or self.count * RESERVED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Few) and self._key() == other._key()

    __hash__ = None                                                      # type: ignore[assignment]

    def before(self, place: bytearray) -> torch.Tensor:
        """The numbers of the stretch that ends at a place of a stream (`Stream.place`)."""
        key, low, high = struct.unpack("=3Q", place)
        here = Philox(key, high << 64 | low).skip(-self.reserved)
        return self.draw(here, self.count, self.dtype, "cpu", *self.bounds).reshape(self.dims)

    def _key(self) -> tuple:
        return self.draw, self.dims, self.dtype, self.bounds, self.reserved


class Stream:
    """The random numbers of one op: every execution takes the next stretch."""

    def __init__(self, seed: int, seed2: int):
        self._lock, self._next = threading.Lock(), Philox.seeded(seed, seed2)
        self._ahead: dict[Philox, np.ndarray] = {}
        self._stretches = 1
        self._few: list[torch.Tensor] = []       # results of the next executions, the last of them first,
        self._few_of: Few | None = None          # what they were drawn for,
        self._few_taken = 0                      # and how many `_next` does not count yet
        self._few_many = 1
        self._place: bytearray | None = None     # where it is instead of at `_next`, once regions take from it

    def here(self) -> Philox:
        """Where the next stretch begins."""
        with self._lock:
            return self._settled()

    def place(self) -> bytearray:
        """Where the next stretch begins: key, lower and upper half of the counter, 64 bits each. Regions, which take stretches
        inside of C code, advance it; then no numbers are drawn ahead."""
        if self._place is None:
            with self._lock:
                if self._place is None:
                    here, self._few = self._settled(), []
                    self._place = bytearray(struct.pack("=3Q", here.key, here.counter & (1 << 64) - 1, here.counter >> 64))
        return self._place

    def _settled(self) -> Philox:
        if self._place is not None:
            key, low, high = struct.unpack("=3Q", self._place)
            return Philox(key, high << 64 | low)
        if self._few_taken:
            self._next = self._next.skip(self._few_taken * self._few_of.reserved)        # type: ignore[union-attr]
            self._few_taken = 0
        return self._next

    def _taken(self, count: int) -> Philox:
        """Where the next `count` counters begin, which are taken."""
        if self._place is not None:
            key, low, high = _kernels().take(self._place, count)
            return Philox(key, high << 64 | low)
        here = self._settled()
        self._next, self._few = here.skip(count), []
        return here

    def reserve(self, count: int) -> Philox:
        """Takes `count` counters; in a step that is traced, in each of its runs."""
        traced = tracing.draws()
        if traced is not None:
            return traced.reserve(self, count)
        with self._lock:
            return self._taken(count)

    def few(self, wanted: Few) -> torch.Tensor:
        """The numbers of the next stretch. An op that is executed again with the same arguments gets the numbers of several
        executions at once, because one takes as long as many."""
        with self._lock:
            again = self._few_of is wanted or self._few_of == wanted     # the first is quicker
            if again and self._few:
                self._few_taken += 1
                return self._few.pop()
            here = self._taken(wanted.reserved)
            many = self._few_many = min(_MANY, self._few_many * 8) if again and self._place is None else 1
            self._few_of = wanted
            if many == 1:
                return wanted.draw(here, wanted.count, wanted.dtype, "cpu", *wanted.bounds).reshape(wanted.dims)
            self._few = list(reversed(_rows(here, many, wanted).unbind(0)))
            return self._few.pop()

    def executions(self, many: int, draw: Callable, dims: list[int], dtype: torch.dtype, *bounds: int) -> torch.Tensor:
        """What `draw` makes of the next `many` stretches, on the host, stacked."""
        wanted = Few(draw, dims, dtype, bounds)
        with self._lock:
            here = self._taken(many * wanted.reserved)
        return _rows(here, many, wanted)

    def reserve_words(self, count: int, first: int) -> tuple[Philox, np.ndarray]:
        """Takes `count` counters, and returns the words of at least the `first` of them too, a flat array. They are computed
        for several executions at once: numpy is quicker with many."""
        if tracing.draws() is not None:
            raise NotImplementedError("it draws random numbers on the host")
        with self._lock:
            here = self._taken(count)
            words = self._ahead.pop(here, None)
            if words is None or len(words) < 4 * first:
                many = self._stretches if first <= _CHUNK // _AHEAD else 1
                self._stretches = _AHEAD
                offsets = torch.arange(many).mul_(count).unsqueeze(1) + torch.arange(first)
                made = here.at(offsets.view(-1)).numpy().view(np.uint64).reshape(many, -1)
                self._ahead = {here.skip(count * i): made[i] for i in range(1, many)}
                words = made[0]
        return here, words


def _rows(here: Philox, many: int, wanted: Few) -> torch.Tensor:
    """The numbers of `many` executions, [many, *dims]."""
    count, size = wanted.count, group_size(wanted.dtype)
    places = _Stretches(here, wanted.reserved, many)
    made = wanted.draw(places, many * -(-count // size) * size, wanted.dtype, "cpu", *wanted.bounds)
    return made.view(many, -1)[:, :count].reshape(many, *wanted.dims)


# -- from words to numbers --------------------------------------------------------------------------------------------
def unit_float32(words: torch.Tensor) -> torch.Tensor:
    """Floats in [0, 1) with 23 random bits."""
    return ((words & 0x7FFFFF) | 0x3F800000).to(torch.int32).view(torch.float32) - 1.0


def unit_float64(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """Doubles in [0, 1) with 52 random bits."""
    return (((high & 0xFFFFF) << 32) | low | (1023 << 52)).view(torch.float64) - 1.0


def _unit_16(words: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    bits, exponent = (10, 15) if dtype is torch.float16 else (7, 127)
    made = (words & (1 << bits) - 1) | exponent << bits
    return made.to(torch.int16).view(dtype) - 1.0


def int64_of(words: torch.Tensor) -> torch.Tensor:
    """Pairs of words as 64-bit integers: [..., 4] to [..., 2]."""
    return words[..., 0::2] | words[..., 1::2] << 32


def box_muller_32(words: torch.Tensor) -> torch.Tensor:
    """Standard normal floats, one per word, made in pairs."""
    unit = unit_float32(words)
    radius = torch.sqrt(-2.0 * torch.log(unit[..., 0::2].clamp(min=1e-7)))
    angle = (unit[..., 1::2].double() * (2.0 * math.pi)).float()
    return torch.stack([torch.sin(angle) * radius, torch.cos(angle) * radius], -1).flatten(-2)


def box_muller_64(words: torch.Tensor) -> torch.Tensor:
    """Standard normal doubles: [..., 4] words to [..., 2]."""
    unit, turn = unit_float64(words[..., 0], words[..., 1]), unit_float64(words[..., 2], words[..., 3])
    radius, angle = torch.sqrt(-2.0 * torch.log(unit.clamp(min=1e-7))), 2 * math.pi * turn
    return torch.stack([torch.sin(angle) * radius, torch.cos(angle) * radius], -1)


# -- distributions ----------------------------------------------------------------------------------------------------
def group_size(dtype: torch.dtype) -> int:
    """How many numbers of a type one counter makes."""
    return 2 if dtype.itemsize == 8 else 4


def _grouped(gen: Philox, count: int, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    return gen.words(-(-count // group_size(dtype)), device)


def _on_device(fill: Callable, gen: Any, count: int, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor | None:
    """What a kernel of device_philox.py makes, if there is one. A position that is known only on its device decides where."""
    place = getattr(gen, "place", None)
    if place is None or dtype is torch.int64:
        return None
    known = next((p.device for p in place if isinstance(p, torch.Tensor)), None)
    return fill(place, count, dtype, torch.device(device) if known is None else known)


def uniform(gen: Philox, count: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> torch.Tensor:
    """`count` floats in [0, 1)."""
    if dtype is torch.float32 and type(gen) is Philox and torch.device(device).type == "cpu" and _kernels():
        made = gen._filled(torch.empty(count))
        if made is not None:
            return made
    filled = _on_device(device_philox.uniform, gen, count, dtype, device)
    if filled is not None:
        return filled
    words = _grouped(gen, count, dtype, device)
    if dtype is torch.float64:
        made = unit_float64(words[:, 0::2], words[:, 1::2])
    elif dtype is torch.float32:
        made = unit_float32(words)
    else:
        made = _unit_16(words, dtype)
    return made.flatten()[:count]


def normal(gen: Philox, count: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> torch.Tensor:
    """`count` standard normal floats."""
    filled = _on_device(device_philox.normal, gen, count, dtype, device)
    if filled is not None:
        return filled
    words = _grouped(gen, count, dtype, device)
    made = box_muller_64(words) if dtype is torch.float64 else box_muller_32(words).to(dtype)
    return made.flatten()[:count]


def truncated_normal(gen: Philox, count: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> torch.Tensor:
    """`count` standard normal floats of magnitude below 2: the others are dropped."""
    size = group_size(dtype)
    groups = -(-count // size)
    wide = dtype is torch.float64
    out = torch.zeros(groups, size, dtype=torch.float64 if wide else torch.float32, device=device)
    filled = torch.zeros(groups, dtype=torch.int64, device=device)
    active = torch.arange(groups, device=device)
    turn = 0
    while active.numel():
        words = gen.at(active * (size * RESERVED // 4) + turn)
        drawn = box_muller_64(words) if wide else box_muller_32(words)
        for column in drawn.unbind(1):
            at = filled[active]
            keep = (column.abs() < 2.0) & (at < size)
            out[active[keep], at[keep]] = column[keep]
            filled[active] = at + keep
        active = active[filled[active] < size]
        turn += 1
    return out.flatten()[:count].to(dtype)


def uniform_int(gen: Philox, count: int, dtype: torch.dtype, device: torch.device | str, low: int, high: int) -> torch.Tensor:
    """`count` integers in [low, high), by the remainder of the words."""
    words = _grouped(gen, count, dtype, device)
    if dtype.itemsize == 8:
        made = unsigned_remainder(int64_of(words), high - low) + low
    else:
        made = (words % (high - low) + low).to(dtype)
    return made.flatten()[:count]


def full_int(gen: Philox, count: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> torch.Tensor:
    """`count` integers over the whole range of a type."""
    words = _grouped(gen, count, dtype, device)
    if dtype.itemsize == 8:
        made = int64_of(words).view(dtype)
    else:
        made = words.to(torch.int32).view(dtype)
    return made.flatten()[:count]


def unsigned_remainder(bits: torch.Tensor, divisor: int) -> torch.Tensor:
    """The remainder of 64-bit patterns read as unsigned, for 0 < divisor < 2**64."""
    if type(bits) is torch.Tensor and bits.is_cpu:            # numpy has unsigned integers
        return torch.from_numpy((bits.numpy().view(np.uint64) % np.uint64(divisor)).view(np.int64))
    if divisor >= 1 << 63:                                    # the quotient is 0 or 1
        flip = -1 << 63
        return torch.where((bits ^ flip) >= (signed(divisor) ^ flip), bits - signed(divisor), bits)
    rest = bits % divisor
    return torch.where(bits < 0, (rest - (divisor - (1 << 64) % divisor)) % divisor, rest)
