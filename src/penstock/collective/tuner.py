"""Which algorithm a reduction uses: the one that was asked for, or, for AUTO, the one that was found to be the fastest.

For every class of sizes (powers of two), the first call tries all algorithms, and torch.distributed's engines, on data of that
size: in turn, a few rounds, without those that are far behind. The members exchange their times after each round, and the
slowest one's counts, so that all come to the same choice. Groups within one task are not worth it: there, messages are
references, and a rule by size will do.

Before the first call of an instance, and whenever a member says something new of it, the members tell each other what they are
about to do: engines could not tell, or end, if it were not the same.
"""
from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from penstock import errors
from penstock.collective import engines
from penstock.collective.algorithms import ALGORITHMS, all_to_all
from penstock.collective.channel import drive
from penstock.collective.merge import MERGES, Merge

if TYPE_CHECKING:
    from penstock.collective.group import Call, Group

BUDGET = float(os.environ.get("PENSTOCK_COLLECTIVE_TUNE_SECONDS", "0.1"))      # for one class of sizes
_ROUNDS = 30
_BEHIND = 1.6                       # times the best: who is slower after two rounds is not tried again
_LARGEST = 24                       # of the logarithm of bytes: classes above behave like this one
_SMALL = 32 << 10
HINTS = {"auto": "auto", "ring": "ring", "nccl": "nccl", "gloo": "gloo"}


def named(hint: str) -> str:
    """The choice that a `communication_hint` stands for; InvalidArgumentError if there is none of that name."""
    hint = hint.lower()
    found = HINTS.get(hint) or (hint if hint in ALGORITHMS else None)
    if found is None:
        raise errors.invalid(f"There is no way to reduce called {hint!r}: {', '.join([*HINTS, *ALGORITHMS])}.")
    return found


class Tuner:
    """The choices of one group."""

    def __init__(self, group: Group):
        self._group = group
        self._lock = threading.Lock()
        self.chosen: dict[tuple[int, int, str | None], str] = {}          # (rank, class, lane) -> algorithm
        self.times: dict[tuple[int, str | None], dict[str, float]] = {}   # what the trials of a class have shown
        self._busy: dict[tuple[int, int, str | None], threading.Lock] = {}
        self._engines: dict[tuple, engines.Engine] = {}          # by name, rank, and lane or instance
        self._made: dict[tuple, int] = {}
        self._agreed: set[tuple] = set()                         # what was said before: instance, rank, and what
        self._nccl: dict[int, bool] = {}

    def reduce(self, call: Call, data: torch.Tensor, merge: str, merging: Merge, how: str) -> None:
        """Reduces data, one-dimensional, in place."""
        if self._group.size == 1:
            return
        how = self.choose(call, data, merge, how)
        if how in engines.NAMES:
            self._engine(how, call).reduce(call, data)
        else:
            drive(ALGORITHMS[how](call.rank, call.size, data, merging), call)

    def choose(self, call: Call, data: torch.Tensor, merge: str, how: str) -> str:
        """The algorithm for a call."""
        if not data.numel():
            return "all_to_all"
        if how in ALGORITHMS:
            return how
        said = call.instance, call.rank, str(call.said)
        if said not in self._agreed:
            call.agree()
            self._agreed.add(said)
        if how in engines.NAMES:
            return how if self._usable(how, call, data, merge) else "ring"
        if self._group.local:
            return "master_worker" if data.nbytes <= _SMALL else "round_robin"
        size = min((data.nbytes - 1).bit_length(), _LARGEST)
        chosen = self.chosen.get((call.rank, size, call.lane)) or self._tuned(call, size)
        if chosen in engines.NAMES and not engines.takes(data, merge):
            return min((t, name) for name, t in self.times[size, call.lane].items() if name not in engines.NAMES)[1]
        return chosen

    def _usable(self, how: str, call: Call, data: torch.Tensor, merge: str) -> bool:
        if not engines.takes(data, merge):
            return False
        if how == "gloo":
            return engines.gloo_is_allowed(self._group)
        if call.rank not in self._nccl:
            self._nccl[call.rank] = engines.has_own_gpus(self._group, call.rank, data)
        return self._nccl[call.rank]

    # -- trials -------------------------------------------------------------------------------------------------------
    def _tuned(self, call: Call, size: int) -> str:
        key = call.rank, size, call.lane
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            found = self.chosen.get(key)
            if found is None:
                data = torch.zeros(max(1, 3 * 2 ** size // 16))             # in the middle of the class
                about, name = f"{call.about} (trials)", ("tune", size, call.lane)
                with self._group.call(call.rank, name, ("tune", data), call.limit, about, call.lane) as trial:
                    times = self.times[size, call.lane] = self._try(trial, data)
                found = self.chosen[key] = min((t, n) for n, t in times.items())[1]
            return found

    def _try(self, call: Call, data: torch.Tensor) -> dict[str, float]:
        """The best time of each way, the slowest member's counting."""
        ways: dict[str, Callable[[], None]] = {
            name: lambda a=algorithm: drive(a(call.rank, call.size, data, MERGES["Add"]), call)  # type: ignore[misc]
            for name, algorithm in ALGORITHMS.items()}
        if call.lane is not None and self._usable("gloo", call, data, "Add"):
            gloo = self._engine("gloo", call)
            ways["gloo"] = lambda: gloo.reduce(call, data)
        best = dict.fromkeys(ways, float("inf"))
        spent, trying = 0.0, list(ways)
        for n in range(_ROUNDS):
            times = torch.tensor([_seconds(ways[name]) for name in trying], dtype=torch.float64)
            drive(all_to_all(call.rank, call.size, times, MERGES["Max"]), call)
            for name, seconds in zip(trying, times.tolist(), strict=True):
                best[name] = min(best[name], seconds)
            spent += float(times.sum())
            if n >= 2:
                trying = [name for name in trying if best[name] <= _BEHIND * min(best.values())]
                if len(trying) == 1 or spent > BUDGET:
                    break
        return best

    # -- engines ------------------------------------------------------------------------------------------------------
    def _engine(self, name: str, call: Call) -> engines.Engine:
        """The engine of a member; a new one if the last was broken, which all members know. Engines tell calls apart by their
        order alone, so instances that may overtake each other have one each."""
        key = name, call.rank, call.lane is None, call.instance if call.lane is None else call.lane
        with self._lock:
            found = self._engines.get(key)
            if found is not None and not found.broken:
                return found
            number = self._made[key] = self._made.get(key, 0) + 1
        made = engines.Engine(f"{name}.{call.lane is None}.{key[3]}.{number}", self._group, call.rank, call.limit.seconds)
        with self._lock:
            self._engines[key] = made
        return made

    def close(self) -> None:
        """Gives up the engines."""
        with self._lock:
            self._engines.clear()


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
