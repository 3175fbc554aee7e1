"""Which algorithm a reduction uses: the one that was requested, or, for AUTO, the one that was found to be the fastest.

For every class of sizes (powers of two), the first call tries all algorithms, and torch.distributed's engines, on data of its
size: rounds of a few calls each, in an order that changes, and soon without those that are far behind. The members exchange
their times after each round, and the slowest one's counts, so that all come to the same choice. What a way takes is the mean of
the quickest quarter of its rounds: where there are more processes than cores, the least of some rounds is luck, and the mean of
all is what others did meanwhile. The best ones are tried again while they are in use, ever more rarely, and their rounds are
added to those of before; another one is taken only if it is clearly better. When that is, all members know from the number of
calls in their sequence. Groups within one task are not tuned: there, messages are references, and a rule by size suffices.

Before the first call of an instance, and whenever a member has new information, the members tell each other what they are
about to do: engines could not tell, or end, if it were not the same. What was said and chosen is kept: the calls after it,
which are most, ask no other member.
"""
from __future__ import annotations

import functools
import itertools
import math
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from penstock._src.base import errors, switches
from penstock._src.collective import engines
from penstock._src.collective.algorithms import ALGORITHMS, all_to_all
from penstock._src.collective.channel import drive
from penstock._src.collective.merge import MERGES, Merge

if TYPE_CHECKING:
    from penstock._src.collective.group import Call, Group

BUDGET = switches.COLLECTIVE_TUNE_SECONDS.value()      # for one class of sizes, at a time
_LEAST, _SOME, _MOST = 3, 8, 60     # rounds: always made, made if they fit into a few budgets, and the most
_AT_MOST = 4.0
_BEHIND = ((16, 1.2), (8, 1.5), (4, 2.5), (2, 5.0))         # rounds, and times the best: slower ones are dropped then
_LARGE = 1 << 20                    # bytes
_FOR_LARGE = 5.0                    # budgets for what is large: its calls take long, and differ more
_IN_A_ROW = 3                       # calls that are timed together, of what is not large
_LONG = 16 << 20                    # bytes, from which on calls are so long that noise counts less, and rounds cost more
_BEHIND_LONG = ((4, 1.25), (2, 1.6), (1, 2.5))
_AGAIN_WITHIN = 2.0                 # times the best: algorithms up to that are retried if calls are long; else all are
_AGAIN = 8                          # to the power of the number of trials: calls in a sequence after which there is another one
_REMEMBERED = 3                     # trials of a way, the last ones: so that what has changed, or was noise, is not forever
_BETTER = 0.97                      # of the time of the one in use: what another one must beat
_LARGEST = 26                       # of the logarithm of bytes: classes above behave like this one
_SMALL = 32 << 10
_KEPT = 4096                        # plans; with more of them, all are rebuilt
HINTS = {"auto": "auto", "ring": "ring", "nccl": "nccl", "gloo": "gloo"}


def named(hint: str) -> str:
    """The choice that a `communication_hint` represents; InvalidArgumentError if there is none of that name."""
    hint = hint.lower()
    found = HINTS.get(hint) or (hint if hint in ALGORITHMS else None)
    if found is None:
        raise errors.invalid(f"Unknown reduction algorithm {hint!r}. Known algorithms: {', '.join([*HINTS, *ALGORITHMS])}.")
    return found


def typical(seconds: list[float]) -> float:
    """The mean of the quickest quarter of some times.

    >>> typical([1.0, 9.0, 3.0, 8.0, 7.0])
    2.0
    """
    quickest = sorted(seconds)[:(len(seconds) + 3) // 4]
    return sum(quickest) / len(quickest)


class _Choice:
    """What is known of a class of sizes."""

    def __init__(self, elements: int) -> None:
        self.lock = threading.Lock()
        self.elements = elements                     # of the data that ways are tried on
        self.chosen = ""
        self.due: float = 0                          # number of a call in the sequence: after it, there is another trial
        self.rounds: dict[str, list[list[float]]] = {}         # seconds that each way took, of each trial
        self.trials = 0

    def times(self) -> dict[str, float]:
        """What each way takes, as far as is known."""
        return {name: typical([*itertools.chain(*found)]) for name, found in self.rounds.items()}

    def take(self, rounds: dict[str, list[float]], number: int) -> None:
        """Another trial has been made, in the call of that number in the sequence."""
        self.trials += 1
        self.due = number + _AGAIN ** self.trials
        for name, found in rounds.items():
            self.rounds[name] = [*self.rounds.get(name, ()), found][-_REMEMBERED:]
        times = self.times()
        seconds, best = min((t, n) for n, t in times.items())
        if not self.chosen or seconds < _BETTER * times[self.chosen]:
            self.chosen = best

    def leaders(self) -> list[str]:
        """The ways that are worth another trial."""
        times = self.times()
        within = _AGAIN_WITHIN if 4 * self.elements >= _LONG else math.inf
        return [name for name, t in times.items() if t <= within * min(times.values())]

    def without_engines(self) -> str:
        """The best way for what engines do not take."""
        return min((t, name) for name, t in self.times().items() if name not in engines.NAMES)[1]


class _Sequence:
    """Calls of AUTO that keep their order, as one member makes them: their number is the same for all members, even of calls
    that fail."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


class Plan:
    """How calls that say the same are made: the way, and up to which call of their sequence, before it is requested again."""

    __slots__ = ("engine", "sequence", "name", "until")

    def __init__(self, name: str, sequence: _Sequence, until: float):
        self.name, self.sequence, self.until = name, sequence, until
        self.engine: engines.Engine | None = None


class Tuner:
    """The choices of one group."""

    def __init__(self, group: Group):
        self._group = group
        self._lock = threading.Lock()
        self.choices: dict[tuple[int, int, str | None], _Choice] = {}     # by rank, class, and sequence
        self._plans: dict[tuple, Plan] = {}
        self._sequences: dict[tuple[int, str | None, bool], _Sequence] = {}      # by rank, sequence, and whether AUTO's
        self._engines: dict[tuple, engines.Engine] = {}          # by name, rank, and sequence or instance
        self._made: dict[tuple, int] = {}
        self._agreed: set[tuple] = set()                         # what was said before: instance, rank, and what
        self._nccl: dict[int, bool] = {}

    def engine_for(self, key: tuple) -> engines.Engine | None:
        """The engine of calls that say what earlier ones have said; None if it must be found, or there is none."""
        plan = self._plans.get(key)
        if plan is None or plan.engine is None or plan.engine.broken or plan.sequence.calls >= plan.until:
            return None
        plan.sequence.calls += 1
        return plan.engine

    def reduce(self, key: tuple, call: Call, data: torch.Tensor, merge: str, merging: Merge, how: str) -> None:
        """Reduces data, one-dimensional, in place; `key` represents what is said of the call."""
        sequence = self._sequences.setdefault((call.rank, call.sequence, how == "auto"), _Sequence())
        sequence.calls += 1
        plan = self._plans.get(key)
        if plan is None or sequence.calls > plan.until or plan.engine is not None and plan.engine.broken:
            plan = self._plan(key, sequence, call, data, merge, how)
        if plan.engine is not None:
            plan.engine.reduce(data, lambda: call)
        else:
            drive(ALGORITHMS[plan.name](call.rank, call.size, data, merging), call)

    def _plan(self, key: tuple, sequence: _Sequence, call: Call, data: torch.Tensor, merge: str, how: str) -> Plan:
        name, until = self.choose(call, data, merge, how, sequence.calls)
        plan = Plan(name, sequence, until)
        if name in engines.NAMES:
            plan.engine = self._engine(name, call)
        if len(self._plans) >= _KEPT:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def choose(self, call: Call, data: torch.Tensor, merge: str, how: str, number: int) -> tuple[str, float]:
        """The way of a call, which has a number in its sequence, and up to which number that holds."""
        if not data.numel():
            return "all_to_all", math.inf
        if how in ALGORITHMS:
            return how, math.inf
        said = call.instance, call.rank, str(call.said)
        if said not in self._agreed:
            call.agree()
            self._agreed.add(said)
        if how in engines.NAMES:
            return how if self._usable(how, call, data, merge) else "ring", math.inf
        if self._group.local:
            return "master_worker" if data.nbytes <= _SMALL else "round_robin", math.inf
        choice = self._tuned(call, data.nbytes, number)
        name = choice.chosen if choice.chosen not in engines.NAMES or engines.takes(data, merge) else choice.without_engines()
        return name, choice.due

    def _usable(self, how: str, call: Call, data: torch.Tensor, merge: str) -> bool:
        if not engines.takes(data, merge):
            return False
        if how == "gloo":
            return engines.gloo_is_allowed(self._group)
        if call.rank not in self._nccl:
            self._nccl[call.rank] = engines.has_own_gpus(self._group, call.rank, data)
        return self._nccl[call.rank]

    # -- trials -------------------------------------------------------------------------------------------------------
    def _tuned(self, call: Call, nbytes: int, number: int) -> _Choice:
        size = min((nbytes - 1).bit_length(), _LARGEST)
        key = call.rank, size, call.sequence
        # The first call of a sequence is the same for all; calls in any order agree on the middle of their class.
        some = 3 * 2 ** size // 4 if call.sequence is None else nbytes
        with self._lock:
            choice = self.choices.setdefault(key, _Choice(max(1, some // 4)))
        with choice.lock:
            if number > choice.due:
                data = torch.zeros(choice.elements)
                about, name = f"{call.about} (trials)", ("tune", size, call.sequence)
                with self._group.call(call.rank, name, ("tune", data), call.limit, about, call.sequence) as trial:
                    choice.take(self._try(trial, data, choice.leaders()), number)
                if call.sequence is None:                # calls that come in any order: they could not agree on another trial
                    choice.due = math.inf
            return choice

    def _ways(self, call: Call, data: torch.Tensor) -> dict[str, Callable[[], None]]:
        """What can be tried. With four members and more, all_to_all moves at least twice the bytes of the others: not tried
        where bytes count."""
        ways: dict[str, Callable[[], None]] = {
            name: functools.partial(self._as_called, call, name, data) for name in ALGORITHMS
            if name != "all_to_all" or call.size < 4 or data.nbytes < _LARGE}
        if call.sequence is not None and self._usable("gloo", call, data, "Add"):
            gloo = self._engine("gloo", call)
            ways["gloo"] = lambda: gloo.reduce(data, lambda: call)
        return ways

    def _try(self, call: Call, data: torch.Tensor, some: list[str]) -> dict[str, list[float]]:
        """The times of all ways, or of some, a number for each round, the slowest member's counting."""
        ways = self._ways(call, data)
        trying = [name for name in ways if name in some] or list(ways)
        found: dict[str, list[float]] = {name: [] for name in trying}
        many, budget, spent = (1, _FOR_LARGE * BUDGET, 0.0) if data.nbytes >= _LARGE else (_IN_A_ROW, BUDGET, 0.0)
        behind = _BEHIND_LONG if data.nbytes >= _LONG else _BEHIND
        if not some:
            for way in self._ways(call, data[:1024]).values():           # connections are made, threads are started
                way()
        for n in range(1, _MOST + 1):
            order = random.Random(_MOST * call.n + n).sample(trying, len(trying))        # the same for all members
            times = torch.tensor([self._timed(call, ways[name], data.nbytes, many) for name in order], dtype=torch.float64)
            drive(all_to_all(call.rank, call.size, times, MERGES["Max"]), call)
            for name, seconds in zip(order, times.tolist(), strict=True):
                found[name].append(seconds)
            spent += many * float(times.sum())
            trying = _still_worth_it({name: typical(found[name]) for name in trying}, n, behind)
            if len(trying) == 1 or n >= _LEAST and spent > (budget if n >= _SOME else _AT_MOST * budget):
                break
        return found

    @staticmethod
    def _timed(call: Call, way: Callable[[], None], nbytes: int, many: int) -> float:
        """What a call takes, of so many in a row. What is large begins when all members are there, or a way pays for how far
        the one before it has drawn them apart; and after a call that does not count, where arrays fit into caches."""
        if nbytes >= _LARGE:
            drive(all_to_all(call.rank, call.size, torch.zeros(1), MERGES["Max"]), call)
            if nbytes < _LONG:
                way()
        return _seconds(way, many)

    def _as_called(self, call: Call, name: str, data: torch.Tensor) -> None:
        """One call of an algorithm, with all that belongs to a call."""
        with self._group.call(call.rank, (*call.instance, name), ("tune", data), call.limit, call.about, call.sequence) as made:
            drive(ALGORITHMS[name](call.rank, call.size, data, MERGES["Add"]), made)

    # -- engines ------------------------------------------------------------------------------------------------------
    def _engine(self, name: str, call: Call) -> engines.Engine:
        """The engine of a member; a new one if the last was broken, which all members know. Engines tell calls apart by their
        order alone, so instances that may overtake each other have one each."""
        key = name, call.rank, call.sequence is None, call.instance if call.sequence is None else call.sequence
        with self._lock:
            found = self._engines.get(key)
            if found is not None and not found.broken:
                return found
            number = self._made[key] = self._made.get(key, 0) + 1
        made = engines.Engine(f"{name}.{call.sequence is None}.{key[3]}.{number}", self._group, call.rank, call.limit.seconds)
        with self._lock:
            self._engines[key] = made
        return made

    def close(self) -> None:
        """Gives up the engines."""
        with self._lock:
            self._engines.clear()
        self._plans.clear()


def _still_worth_it(times: dict[str, float], rounds: int, behind: tuple[tuple[int, float], ...]) -> list[str]:
    """The ways that are not too far behind after some rounds."""
    factor = next((f for least, f in behind if rounds >= least), math.inf)
    return [name for name, t in times.items() if t <= factor * min(times.values())]


def _seconds(work: Callable[[], None], many: int) -> float:
    began = time.perf_counter()
    for _ in range(many):
        work()
    return (time.perf_counter() - began) / many
