"""The links of one task, without sockets, threads or locks: which one is used, which are free, and which end together.

`Peers` calls with its lock held, and opens and closes connections as the results require. A simulator drives the same table. A
link has a `peer`, the `incarnation` of that task, the number of its `dial`, and an `error` when it has ended.

What the table guarantees:

- A link that has ended is never returned.
- The links of a dial end together, when the one that is used for its task ends. Those of other dials, and of other tasks, stay.
- A link to a new incarnation of a task replaces the previous one.
"""
from __future__ import annotations

from typing import Any


class LinkTable:
    """Links by what they are for."""

    def __init__(self) -> None:
        self._used: dict[str, Any] = {}                          # the one to use for each task
        self._all: set[Any] = set()
        self._free: dict[tuple[str, int], list[Any]] = {}        # links for steps that no step uses now

    def used(self, task: str) -> Any:
        """The link to a task that is open; None if there is none. One that has ended may not have been removed yet."""
        link = self._used.get(task)
        return link if link is not None and link.error is None else None

    def all(self) -> list[Any]:
        """All open links."""
        return list(self._all)

    def add(self, link: Any) -> None:
        """Either side has opened a link. It is used, unless there is one to the same incarnation of the task."""
        old = self._used.get(link.peer)
        if old is None or old.error is not None or old.incarnation != link.incarnation:
            self._used[link.peer] = link

    def watch(self, link: Any) -> None:
        """A link is open."""
        self._all.add(link)

    def take_free(self, task: str, incarnation: int) -> Any:
        """An unused step link to an incarnation of a task; None if there is none."""
        free = self._free.get((task, incarnation))
        while free:
            link = free.pop()
            if link.error is None:
                return link
        return None

    def keep(self, link: Any) -> bool:
        """Keeps the link of a finished step for reuse; returns whether it is kept."""
        if link.error is not None:
            return False
        self._free.setdefault((link.peer, link.incarnation), []).append(link)
        return True

    def ended(self, link: Any) -> tuple[bool, bool]:
        """Removes a link that has ended; returns whether it was free, and whether it was the current one, whose dial must
        end."""
        self._all.discard(link)
        free = self._free.get((link.peer, link.incarnation), [])
        idle = link in free
        if idle:
            free.remove(link)
        used = self._used.get(link.peer) is link
        if used:
            del self._used[link.peer]
        return idle, used

    def of_dial(self, task: str, dial: int) -> list[Any]:
        """The links of one dial to a task."""
        return [link for link in self._all if link.peer == task and link.dial == dial]
