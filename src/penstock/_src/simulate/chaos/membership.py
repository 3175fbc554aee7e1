"""The links between tasks (cluster/links.py) while tasks crash, restart, stop, and dial each other at the same time.

One task reaches the others through a LinkTable. Invariants: a closed link is never returned; when the used link of a dial ends,
all links of that dial end, and no others; a returned link leads to the requested incarnation; after the last fault, every task
is reached by its current incarnation.
"""
from __future__ import annotations

from penstock._src.cluster.links import LinkTable
from penstock._src.simulate.chaos.choices import Choices, check

_TASKS, _EVENTS = 3, 24


class _Link:
    """A link with the interface that the table uses."""

    __slots__ = ("peer", "incarnation", "dial", "error")

    def __init__(self, peer: str, incarnation: int, dial: int):
        self.peer, self.incarnation, self.dial = peer, incarnation, dial
        self.error: str | None = None


class World:
    """One run."""

    def __init__(self, choices: Choices):
        self.choices, self.table = choices, LinkTable()
        self.life = dict.fromkeys((f"task{i}" for i in range(_TASKS)), 1)
        self.up = dict.fromkeys(self.life, True)
        self.borrowed: list[_Link] = []
        self.unnoticed: list[_Link] = []             # ended, not yet noticed by the table
        self.open: set[_Link] = set()
        self.dials = 0

    def run(self) -> None:
        """Random events, then a period without faults."""
        events = (self._reach, self._incoming, self._borrow, self._return, self._crash, self._restart, self._silence,
                  self._notice)
        for _ in range(_EVENTS):
            task = f"task{self.choices.choose(_TASKS)}"
            events[self.choices.choose(len(events))](task)
            self._consistent()
        for task in self.life:
            self.up[task] = True
            self._noticed()
            self._reach(task)
            link = self.table.used(task)
            check(link is not None and link.incarnation == self.life[task], f"{task} is not reached after the last fault")
        self._consistent()

    def _consistent(self) -> None:
        for link in self.table.all():
            check(link.error is None or link in self.unnoticed, "the table has a link that has ended")

    # -- actions of the task -------------------------------------------------------------------------------------------
    def _reach(self, task: str) -> None:
        if self.table.used(task) is None and self.up[task]:
            self._dial(task)

    def _dial(self, task: str) -> None:
        self.dials += 1
        self._adopt(_Link(task, self.life[task], self.dials))

    def _adopt(self, link: _Link) -> None:
        self.table.add(link)
        self.table.watch(link)
        self.open.add(link)

    def _incoming(self, task: str) -> None:
        """The other task dials at the same time."""
        if self.up[task]:
            self._dial(task)

    def _borrow(self, task: str) -> None:
        used = self.table.used(task)
        if used is None:
            return
        check(used.error is None, "a link that has ended was given out")
        link = self.table.take_free(task, used.incarnation)
        if link is None and self.up[task] and used.incarnation == self.life[task]:
            link = _Link(task, used.incarnation, used.dial)
            self.table.watch(link)
            self.open.add(link)
        if link is not None:
            check(link.error is None, "a free link that has ended was given out")
            check(link.incarnation == used.incarnation, "a link to another incarnation was given out")
            self.borrowed.append(link)

    def _return(self, task: str) -> None:
        for link in [b for b in self.borrowed if b.peer == task]:
            self.borrowed.remove(link)
            check(self.table.keep(link) == (link.error is None), "a link that has ended was kept")

    # -- faults -------------------------------------------------------------------------------------------
    def _crash(self, task: str) -> None:
        """All connections of a task end; when that is noticed is another event."""
        if self.up[task]:
            self.up[task] = False
            self.life[task] += 1
            for link in [ln for ln in self.open if ln.peer == task]:
                link.error = "the connection was closed"
                self.open.discard(link)
                self.unnoticed.append(link)

    def _restart(self, task: str) -> None:
        self.up[task] = True

    def _silence(self, task: str) -> None:
        """The beats of one dial end: its links do, and those of others stay."""
        used = self.table.used(task)
        if used is None:
            return
        others = [ln for ln in self.open if ln.peer != task or ln.dial != used.dial]
        self._lose(task, used.dial)
        check(all(ln.error is None for ln in others), "a link of another dial has ended")
        check(self.table.of_dial(task, used.dial) == [], "a link outlives its dial")

    def _lose(self, task: str, dial: int) -> None:
        for link in self.table.of_dial(task, dial):
            link.error = link.error or "lost"
            self.open.discard(link)
            self._ended(link)

    def _ended(self, link: _Link) -> None:
        if link in self.unnoticed:
            self.unnoticed.remove(link)
        _, used = self.table.ended(link)
        if used:
            self._lose(link.peer, link.dial)

    def _notice(self, task: str) -> None:
        found = [ln for ln in self.unnoticed if ln.peer == task]
        if found:
            self._ended(found[self.choices.choose(len(found))])

    def _noticed(self) -> None:
        while self.unnoticed:
            self._ended(self.unnoticed[0])


def world(choices: Choices) -> None:
    """One schedule."""
    World(choices).run()
