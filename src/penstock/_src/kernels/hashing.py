"""Hash functions of byte strings whose values are part of saved models: FarmHash, SipHash, Murmur.

All of them work on many strings at once: the strings are concatenated in one buffer, and every step is an operation on
an array of 64-bit words with one word per string (unsigned numpy arithmetic wraps, as these functions need).
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.kernels.host_threads import compiled

U64 = np.uint64
_K0, _K1, _K2 = U64(0xC3A5C85C97CB3127), U64(0xB492B66FBE98F273), U64(0x9AE16A3B2F90404F)


class _Strings:
    """Byte strings end to end; words are read at one position per string."""

    def __init__(self, items: list[bytes]):
        self.length = np.fromiter(map(len, items), np.int64, len(items))
        self.start = np.cumsum(self.length) - self.length
        self.data = np.frombuffer(b"".join(items) + bytes(8), np.uint8)

    def subset(self, index: np.ndarray) -> _Strings:
        """The strings at `index`, over the same buffer."""
        out = object.__new__(_Strings)
        out.length, out.start, out.data = self.length[index], self.start[index], self.data
        return out

    def word(self, offset: np.ndarray | int, size: int = 8) -> np.ndarray:
        """The little-endian words of `size` bytes at `offset` from each start."""
        at = (self.start + offset)[:, None] + np.arange(size)
        words = np.ascontiguousarray(self.data[at]).view(f"<u{size}")[:, 0] if size > 1 else self.data[at][:, 0]
        return words.astype(U64)


def _by_length(strings: _Strings, limits: list[int], functions: list[Callable]) -> np.ndarray:
    """Applies functions[i] to the strings not longer than limits[i] (and longer than the limits before)."""
    out = np.empty(len(strings.length), U64)
    low = -1
    for high, function in zip([*limits, np.iinfo(np.int64).max], functions, strict=True):
        index = np.nonzero((strings.length > low) & (strings.length <= high))[0]
        if index.size:
            out[index] = function(strings.subset(index))
        low = high
    return out


def _rotate(x: np.ndarray, n: int) -> np.ndarray:
    """Bits moved right by n, those that fall out coming in on the left."""
    return x >> U64(n) | x << U64(64 - n)


def _shift_mix(x: Any) -> Any:
    return x ^ x >> U64(47)


def _mix(u: np.ndarray, v: np.ndarray, mul: np.ndarray) -> np.ndarray:
    """Two words to one."""
    a = _shift_mix((u ^ v) * mul)
    return _shift_mix((v ^ a) * mul) * mul


# -- FarmHash: Fingerprint64 --------------------------------------------------------------------------------------
def fingerprint64(items: list[bytes]) -> np.ndarray:
    """FarmHash's Fingerprint64 of each string, as uint64."""
    kernels = compiled("_text")
    if kernels is not None and sys.byteorder == "little":
        out = np.empty(len(items), U64)
        kernels.fingerprints(items, out.ctypes.data)
        return out
    return fingerprint64_by_numpy(items)


def fingerprint64_by_numpy(items: list[bytes]) -> np.ndarray:
    """The same without compiled kernels."""
    return _by_length(_Strings(items), [0, 3, 7, 16, 32, 64], [
        lambda s: np.full(len(s.length), _K2), _farm_1_to_3, _farm_4_to_7, _farm_8_to_16, _farm_17_to_32,
        _farm_33_to_64, _farm_long])


def _farm_1_to_3(s: _Strings) -> np.ndarray:
    n = s.length
    y = s.word(0, 1) + (s.word(n >> 1, 1) << U64(8))
    z = n.astype(U64) + (s.word(n - 1, 1) << U64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _multiplier(s: _Strings) -> np.ndarray:
    return _K2 + s.length.astype(U64) * U64(2)


def _farm_4_to_7(s: _Strings) -> np.ndarray:
    return _mix(s.length.astype(U64) + (s.word(0, 4) << U64(3)), s.word(s.length - 4, 4), _multiplier(s))


def _farm_8_to_16(s: _Strings) -> np.ndarray:
    mul = _multiplier(s)
    a, b = s.word(0) + _K2, s.word(s.length - 8)
    return _mix(_rotate(b, 37) * mul + a, (_rotate(a, 25) + b) * mul, mul)


def _farm_17_to_32(s: _Strings) -> np.ndarray:
    mul = _multiplier(s)
    a, b = s.word(0) * _K1, s.word(8)
    c, d = s.word(s.length - 8) * mul, s.word(s.length - 16) * _K2
    return _mix(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, mul)


def _farm_33_to_64(s: _Strings) -> np.ndarray:
    mul, n = _multiplier(s), s.length
    a, b = s.word(0) * _K2, s.word(8)
    c, d = s.word(n - 8) * mul, s.word(n - 16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _mix(y, a + _rotate(b + _K2, 18) + c, mul)
    e, f = s.word(16) * mul, s.word(24)
    g, h = (y + s.word(n - 32)) * mul, (z + s.word(n - 24)) * mul
    return _mix(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, mul)


class _FarmState:
    """The running state of the function for long strings: five words and two pairs, one of each per string."""

    def __init__(self, s: _Strings):
        n = len(s.length)
        with np.errstate(over="ignore"):
            seed = U64(81)
            y = seed * _K1 + U64(113)
            self.x = seed * _K2 + s.word(0)
            self.y = np.full(n, y)
            self.z = np.full(n, _shift_mix(y * _K2 + U64(113)) * _K2)
        self.v0, self.v1, self.w0, self.w1 = (np.zeros(n, U64) for _ in range(4))

    def block(self, s: _Strings, at: np.ndarray | int, mul: Any, times: int, where: np.ndarray) -> None:
        """Takes in the 64 bytes at `at` for the strings `where`."""
        x, y, z, v0, v1, w0, w1 = (a[where] for a in self._words())
        m = U64(times)
        x = _rotate(x + y + v0 + s.word(at + 8), 37) * mul
        y = _rotate(y + v1 + s.word(at + 48), 42) * mul
        x = x ^ w1 * m
        y = y + v0 * m + s.word(at + 40)
        z = _rotate(z + w0, 33) * mul
        v0, v1 = _weak(s, at, v1 * mul, x + w0)
        w0, w1 = _weak(s, at + 32, z + w1, y + s.word(at + 16))
        for mine, new in zip(self._words(), (z, y, x, v0, v1, w0, w1), strict=True):     # x and z change places
            mine[where] = new

    def _words(self) -> tuple:
        return self.x, self.y, self.z, self.v0, self.v1, self.w0, self.w1


def _weak(s: _Strings, at: np.ndarray | int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two words from 32 bytes and two seeds."""
    last = s.word(at + 24)
    a = a + s.word(at)
    b = _rotate(b + a + last, 21)
    c = a
    a = a + s.word(at + 8) + s.word(at + 16)
    return a + last, b + _rotate(a, 44) + c


def _farm_long(s: _Strings) -> np.ndarray:
    state = _FarmState(s)
    blocks = (s.length - 1) // 64
    for i in range(int(blocks.max())):
        where = np.nonzero(blocks > i)[0]
        state.block(s.subset(where), 64 * i, _K1, 1, where)
    mul = _K1 + ((state.z & U64(0xFF)) << U64(1))
    state.w0 += ((s.length - 1) & 63).astype(U64)
    state.v0 += state.w0
    state.w0 += state.v0
    state.block(s, s.length - 64, mul, 9, np.arange(len(s.length)))
    first = _mix(state.v0, state.w0, mul) + _shift_mix(state.y) * _K0 + state.z
    return _mix(first, _mix(state.v1, state.w1, mul) + state.x, mul)


# -- SipHash ------------------------------------------------------------------------------------------------------
def siphash(items: list[bytes], key: tuple[int, int]) -> np.ndarray:
    """SipHash-2-4 of each string under a 128-bit key, as uint64."""
    s = _Strings(items)
    k0, k1 = U64(key[0] & (1 << 64) - 1), U64(key[1] & (1 << 64) - 1)
    n = len(items)
    state = [np.full(n, k ^ U64(c)) for k, c in ((k0, 0x736F6D6570736575), (k1, 0x646F72616E646F6D),
                                                 (k0, 0x6C7967656E657261), (k1, 0x7465646279746573))]
    words = s.length // 8
    for i in range(int(words.max(initial=0))):
        where = np.nonzero(words > i)[0]
        _sip_take(state, s.subset(where).word(8 * i), where)
    _sip_take(state, _tail(s) | (s.length & 0xFF).astype(U64) << U64(56), np.arange(n))
    state[2] = state[2] ^ U64(0xFF)
    state = _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _tail(s: _Strings) -> np.ndarray:
    """The last 0 to 7 bytes of each string as a word."""
    rest = s.length % 8
    kept = np.where(rest > 0, (U64(1) << (U64(8) * rest.astype(U64))) - U64(1), U64(0))
    return s.word(s.length - rest) & kept


def _sip_take(state: list[np.ndarray], word: np.ndarray, where: np.ndarray) -> None:
    part = [a[where] for a in state]
    part[3] = part[3] ^ word
    part = _sip_rounds(part, 2)
    part[0] = part[0] ^ word
    for mine, new in zip(state, part, strict=True):
        mine[where] = new


def _sip_rounds(state: list[np.ndarray], rounds: int) -> list[np.ndarray]:
    a, b, c, d = state
    for _ in range(rounds):
        a, c = a + b, c + d
        b, d = a ^ _rotate(b, 64 - 13), c ^ _rotate(d, 64 - 16)
        a = _rotate(a, 32)
        c, a = c + b, a + d
        b, d = c ^ _rotate(b, 64 - 17), a ^ _rotate(d, 64 - 21)
        c = _rotate(c, 32)
    return [a, b, c, d]


# -- Murmur -------------------------------------------------------------------------------------------------------
def murmur64(items: list[bytes], seed: int = 0xDECAFCAFFE) -> np.ndarray:
    """MurmurHash64A of each string, as uint64: the default hash of TensorFlow's older ops."""
    m, r = U64(0xC6A4A7935BD1E995), U64(47)
    s = _Strings(items)
    h = U64(seed) ^ s.length.astype(U64) * m
    words = s.length // 8
    for i in range(int(words.max(initial=0))):
        where = np.nonzero(words > i)[0]
        k = s.subset(where).word(8 * i) * m
        h[where] = (h[where] ^ (k ^ k >> r) * m) * m
    rest = s.length % 8 > 0
    h = np.where(rest, (h ^ _tail(s)) * m, h)
    h = (h ^ h >> r) * m
    return h ^ h >> r


def fingerprint_cat(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """One fingerprint of each pair of them (the order counts): how sparse crosses put features together."""
    m = U64(0xC6A4A7935BD1E995)
    both = (first ^ m ^ _shift_mix(second * m) * m) * m
    return _shift_mix(_shift_mix(both) * m)
