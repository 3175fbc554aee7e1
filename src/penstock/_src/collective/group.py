"""A group of members, and the calls that they make together."""
from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from penstock._src.base import errors, switches
from penstock._src.base.waits import Wait, spent
from penstock._src.collective import algorithms
from penstock._src.collective.channel import Channel, Counts, drive
from penstock._src.collective.codec import Codec
from penstock._src.collective.merge import finish, merge_op
from penstock._src.collective.mover import Mover
from penstock._src.collective.tuner import Tuner

if TYPE_CHECKING:
    from penstock._src.collective.hub import Hub

FROM_ANY = -1                       # as the source of a message: any member
_BROADCAST = "broadcast from "
TIMEOUT = switches.COLLECTIVE_TIMEOUT_SECONDS.value()


class Limit:
    """How long a call may wait: its own time, and the cancellation and deadline of its step."""

    def __init__(self, ctx: Any = None, seconds: float | None = None):
        self.ctx, self.seconds = ctx, seconds or TIMEOUT
        self._until = time.monotonic() + self.seconds

    def left(self, most: float | None = None) -> float:
        """Seconds to wait at once; raises when there are none."""
        own = self._until - time.monotonic()
        if own <= 0:
            raise errors.DeadlineExceededError(None, None, f"The time-out of {self.seconds:g} seconds has passed.")
        rest = None if self.ctx is None else self.ctx.remaining()
        return min(x for x in (own, rest, most) if x is not None)

    @property
    def over(self) -> bool:
        """Whether the step was cancelled."""
        return self.ctx is not None and self.ctx.cancellation.error is not None

    def check(self) -> None:
        """Raises if the time is up, or the step was cancelled."""
        self.left()

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Has `wake` called on cancellation."""
        if self.ctx is None:
            yield
            return
        release = self.ctx.cancellation.on_cancel(wake)
        try:
            yield
        finally:
            release()

    def wait(self, there: threading.Event, about: Callable[[], str]) -> None:
        """Waits for an event."""
        if self.ctx is None:
            alone = Wait(about)
            while not there.wait(alone.patience(self.left())):
                pass
            spent.waited += time.monotonic() - alone.since
            return
        with self.waking(there.set), self.ctx.waiting(about, remote=True) as waited:
            while not there.wait(waited.patience(self.left())):
                pass
        self.ctx.cancellation.check()


class Group:
    """Members that are complete: `members` by rank, `links` to the tasks of others."""

    def __init__(self, hub: Hub, key: int, number: str, members: dict[str, str], links: dict[str, Any]):
        self._hub, self.key, self.id, self.links = hub, key, number, links
        self.members = sorted(members, key=_by_task_and_device)
        self.task_of = [members[m] for m in self.members]
        self.rank_of = {m: r for r, m in enumerate(self.members)}
        self.size = len(members)
        self.error: errors.OpError | None = None
        self.counts = Counts()
        self.left: set[str] = set()                              # tasks that need the group no more
        self._lock = threading.Lock()
        self._calls: dict[tuple[Any, int], int] = {}             # (instance, rank) -> how many calls were entered
        self.tuner = Tuner(self)
        self._movers: dict[int, Mover] = {}

    @property
    def local(self) -> bool:
        """Whether all members are of this task."""
        return not self.links

    @property
    def same_host(self) -> bool:
        """Whether all members are on this machine."""
        return all(link._shared is not None for link in self.links.values())

    # -- calls --------------------------------------------------------------------------------------------------------
    def all_reduce(self, rank: int, instance: Any, x: torch.Tensor, merge: str = "Add", final: str = "Id", *, how: str = "auto",
                   limit: Limit | None = None, about: str = "all_reduce", codec: Codec | None = None,
                   sequence: str | None = "", in_place: bool = False) -> torch.Tensor:
        """The reduction of what all members return: `how` is an algorithm's name, "gloo", "nccl", or "auto". Calls of a
        `sequence` run one at a time, in the same order by all members; those of no sequence (None) may overtake each
        other. With `in_place`, `x` may be overwritten: it is not used otherwise.

        >>> group.all_reduce(rank, "gradients", x, "Add", "Div", how="ring")
        """
        if codec is not None:
            return self._all_reduce_encoded(rank, instance, x, merge, final, how, limit, about, codec)
        total = x.detach() if in_place and x.is_contiguous() else x.detach().clone(memory_format=torch.contiguous_format)
        said, limit = ("reduce", merge, final, how, x), limit or Limit()
        key = (rank, instance, merge, final, how, sequence, x.dtype, x.shape, x.device)
        engine = self.tuner.engine_for(key) if self.error is None else None
        if engine is None:
            merging = merge_op(merge, x.dtype)
            with self.call(rank, instance, said, limit, about, sequence) as call:
                if self.size > 1:
                    self.tuner.reduce(key, call, total.view(-1), merge, merging, how)
        else:
            n = self._enter(rank, instance)
            try:
                engine.reduce(total, lambda: Call(self, rank, instance, n, said, limit, about, sequence))
            except BaseException as e:
                self._fail(Call(self, rank, instance, n, said, limit, about, sequence), e)
                raise
        return finish(final, total, self.size)

    def _all_reduce_encoded(self, rank: int, instance: Any, x: torch.Tensor, merge: str, final: str, how: str,
                            limit: Limit | None, about: str, codec: Codec) -> torch.Tensor:
        if merge != "Add":
            raise errors.invalid(f"Encoded data can only be added: {about} has the merge op {merge}.")
        flat = x.detach().reshape(-1)
        parts = codec.encode(flat)
        if getattr(codec, "linear", False):
            total = self.all_reduce(rank, instance, parts[0], merge, how=how, limit=limit, about=about)
            return finish(final, codec.decode([total], flat.numel(), x.dtype).reshape(x.shape), self.size)
        every = [self.gather_any(rank, (instance, i), part, limit=limit, about=about) for i, part in enumerate(parts)]
        total = torch.zeros_like(flat)
        for theirs in zip(*every, strict=True):
            total += codec.decode(list(theirs), flat.numel(), x.dtype)
        return finish(final, total.reshape(x.shape), self.size)

    def gather(self, rank: int, instance: Any, x: torch.Tensor, *, limit: Limit | None = None,
               about: str = "gather") -> torch.Tensor:
        """The arrays of all members, all of one shape, concatenated along the first dimension."""
        with self.call(rank, instance, ("gather", x), limit, about) as call:
            parts = drive(algorithms.gather(rank, self.size, x.detach().contiguous()), call)
        return torch.cat([p.to(x.device).reshape(x.shape) for p in parts]) if x.ndim else torch.stack(parts)

    def gather_any(self, rank: int, instance: Any, x: torch.Tensor, *, limit: Limit | None = None,
                   about: str = "gather") -> list[torch.Tensor]:
        """The arrays of all members, of any shapes, by rank."""
        with self.call(rank, instance, ("gather_any", x.dtype), limit, about) as call:
            return drive(algorithms.gather(rank, self.size, x.detach().contiguous()), call)

    def broadcast(self, rank: int, instance: Any, x: torch.Tensor, root: int | None, *, limit: Limit | None = None,
                  about: str = "broadcast") -> torch.Tensor:
        """The root's array; the others pass one of the same shape and type, which is not read. Members that do not know the
        root (None) take it from the first message."""
        kind = "broadcast" if root is None else f"{_BROADCAST}{root}"
        with self.call(rank, instance, (kind, x), limit, about) as call:
            data = x.detach().clone(memory_format=torch.contiguous_format)
            flat = data.view(-1)
            if root is not None:
                drive(algorithms.broadcast(rank, self.size, flat, root), call)
            else:
                root = call.recv_broadcast(flat)
                drive(algorithms.pass_on(rank, self.size, flat, root), call)
        return data

    @contextlib.contextmanager
    def call(self, rank: int, instance: Any, said: tuple, limit: Limit | None, about: str,
             sequence: str | None = "") -> Iterator[Call]:
        """One call of one member. An error ends it for all of them."""
        made = Call(self, rank, instance, self._enter(rank, instance), said, limit or Limit(), about, sequence)
        try:
            yield made
        except BaseException as e:
            self._fail(made, e)
            raise
        finally:
            with self._lock:
                self.counts.add(made.counts)

    def _enter(self, rank: int, instance: Any) -> int:
        """A member enters a call; returns how many there were before it."""
        with self._lock:
            n = self._calls.get((instance, rank), 0)
            self._calls[instance, rank] = n + 1
        return n

    def _fail(self, call: Call, e: BaseException) -> None:
        """A member's call has failed: the calls of all members fail."""
        error = e if isinstance(e, errors.OpError) else errors.InternalError(None, None, f"{type(e).__name__}: {e}")
        if self.error is None:
            self._hub.abort(self, call.key, _for_others(error, call.about, self.members[call.rank]))

    def entered(self, instance: Any, n: int) -> dict[str, bool]:
        """Which members of this task have entered the nth call of an instance."""
        with self._lock:
            return {m: self._calls.get((instance, r), 0) > n for r, m in enumerate(self.members)
                    if self.task_of[r] == self._hub.task}

    def missing(self, instance: Any, n: int) -> list[str]:
        """The members that have not entered a call, as far as their tasks say."""
        entered = self.entered(instance, n)
        for task, link in self.links.items():
            try:
                answer, _ = link.ask({"do": "collective", "what": "entered", "group": self.id, "instance": instance, "n": n},
                                     timeout=2.0)
                entered.update(answer["entered"])
            except errors.OpError as e:
                entered.update({m: False for m, t in zip(self.members, self.task_of, strict=True) if t == task and e})
        return [m for m in self.members if not entered.get(m)]

    def mover(self, rank: int) -> Mover:
        """The thread that reduces buckets for a member."""
        with self._lock:
            if self.error is not None:
                raise self.error
            found = self._movers.get(rank)
            if found is None:
                found = self._movers[rank] = Mover(self, rank)
            return found

    def close(self) -> None:
        """Ends what the group has made for itself."""
        self.tuner.close()
        with self._lock:
            movers = list(self._movers.values())
        for mover in movers:
            mover.close(self.error or errors.CancelledError(None, None, "The collective group has ended."))


class Call(Channel):
    """The nth use of an instance by one member: its way to the others in it."""

    def __init__(self, group: Group, rank: int, instance: Any, n: int, said: tuple, limit: Limit, about: str,
                 sequence: str | None):
        self.sequence = sequence                     # in which calls keep their order; None: in none
        self.group, self.rank, self.size, self.instance, self.n = group, rank, group.size, instance, n
        self.said, self.limit, self.about = _described(said), limit, about
        self.device = said[-1].device if isinstance(said[-1], torch.Tensor) else None        # the device of its messages
        self.key = (group.id, instance, n)
        self.counts = Counts()

    def send(self, to: int, data: torch.Tensor) -> None:
        """Sends data with this member's description of the call."""
        if self.group.error is not None:
            raise self.group.error
        began = time.monotonic()
        self.group._hub.put(self.group, (*self.key, self.rank, to), self.said, data)
        spent.moved += time.monotonic() - began

    def recv(self, source: int) -> torch.Tensor:
        """The next message of a member; InvalidArgumentError if it describes the call differently."""
        hub, key = self.group._hub, (*self.key, source, self.rank)
        there = threading.Event()
        message = hub.take(self.group, key, there.set)
        while message is None:
            self._wait(there, key, lambda: f"{self.group.members[source]} in {self.about}")
            there.clear()
            message = hub.take(self.group, key, there.set)
        said, data = message
        self.check(said, source)
        if data is not None and self.device is not None and data.device != self.device:
            data = data.to(self.device)
        return data  # type: ignore[return-value]

    def recv_broadcast(self, into: torch.Tensor) -> int:
        """Receives from any member; returns the root, which is part of the call's description."""
        hub, key, there = self.group._hub, (*self.key, FROM_ANY, self.rank), threading.Event()
        while True:
            hub.take(self.group, key, there.set)
            found = hub.look(self.group, self.key, self.rank)
            if found is not None:
                break
            self._wait(there, key, lambda: f"a sender in {self.about}")
            there.clear()
        hub.forget(key)
        source, said = found
        root = str(said[0]).removeprefix(_BROADCAST)
        self.check([self.said[0] if root.isdigit() else said[0], *said[1:]], source)
        self.said = said
        into.copy_(self.recv(source))
        return int(root)

    def _wait(self, there: threading.Event, key: tuple, about: Callable[[], str]) -> None:
        try:
            self.limit.wait(there, about)
        except errors.DeadlineExceededError:
            self.group._hub.forget(key)
            raise self._late() from None
        except BaseException:
            self.group._hub.forget(key)
            raise

    def agree(self) -> None:
        """Exchanges descriptions of the call with all other members. Not counted."""
        hub, others = self.group._hub, [(self.rank + k) % self.size for k in range(1, self.size)]
        for to in others:
            hub.put(self.group, (*self.key, self.rank, to), self.said, None)
        for source in others:
            self.recv(source)

    def check_in(self) -> None:
        """Called from time to time while waiting for an engine: raises if the call has failed. Members send nothing in the
        meantime, unless they fail."""
        said = self.group._hub.look(self.group, self.key, self.rank)
        if said is not None:
            self.check(said[1], said[0])
        try:
            self.limit.check()
        except errors.DeadlineExceededError:
            raise self._late() from None

    def check(self, said: Any, source: int) -> None:
        """InvalidArgumentError if another member describes the call differently."""
        if said != self.said:
            what = "Shape mismatch" if said[:-1] == self.said[:-1] else "Different collectives"
            members = self.group.members
            raise errors.invalid(
                f"{what} in {self.about} (group {self.group.key}, instance {self.instance}): {members[self.rank]} has "
                f"{_text(self.said)}, and {members[source]} has {_text(said)}.")

    def awaited(self) -> str:
        """The members that the others wait for, for reports."""
        missing = self.group.missing(self.instance, self.n)
        who = f"{', '.join(missing)} to enter {self.about}" if missing else f"the end of {self.about}, which all have entered"
        return f"{who} (group {self.group.key}, instance {self.instance}, on {self.group.members[self.rank]})"

    def _late(self) -> errors.OpError:
        missing = self.group.missing(self.instance, self.n)
        who = f"{', '.join(missing)} did not enter it" if missing else "all members have entered it, and one does not answer"
        return errors.DeadlineExceededError(
            None, None, f"{self.about} (group {self.group.key}, instance {self.instance}) on "
            f"{self.group.members[self.rank]}, with {_text(self.said)}, timed out after {self.limit.seconds:g} seconds: {who}. "
            f"The group is {', '.join(self.group.members)}.")


def _described(said: tuple) -> list:
    """A member's description of a call, as plain data: kind, …, type, shape."""
    *first, last = said
    if isinstance(last, torch.Tensor):
        return [*first, str(last.dtype).removeprefix("torch."), list(last.shape)]
    return [*first, str(last).removeprefix("torch."), None]


def _text(said: list) -> str:
    *what, dtype, shape = said
    return f"{' '.join(str(w) for w in what)} of {dtype}" + ("" if shape is None else f" {shape}")


def _for_others(error: errors.OpError, about: str, member: str) -> errors.OpError:
    """An error of one member, as the others get it."""
    if isinstance(error, (errors.InvalidArgumentError, errors.DeadlineExceededError)):
        return error
    return errors.AbortedError(None, None, f"{about} ended on {member}: {error.message}")


def _by_task_and_device(member: str) -> list:
    """Names in an order in which task 10 comes after task 9."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in member.replace("/", ":").split(":")]
