"""The memory of one machine, as its processes see it through their caches.

What is still in the caches depends on how much else was used since: the *distance* of a value is the sum of the bytes of all
values that were used since it was used last, each once, and its own. Values are used by copies and ops. The code and the
objects of a process count no bytes, but they are replaced by values: the distance of a kind of work is that since the process
did it last.
"""
from __future__ import annotations

from collections.abc import Hashable

from penstock._src.simulate.machines import Network

Touch = tuple[Hashable, int]        # what is read or written as a whole, and its bytes


class Memory:
    """All values, and all kinds of work."""

    __slots__ = ("bytes", "_network", "_bandwidth", "_used")

    def __init__(self, network: Network, bandwidth: float):
        self.bytes = 0                               # of all values
        self._network, self._bandwidth = network, bandwidth
        self._used: dict[Hashable, int] = {}         # their bytes, by when they were used last

    def touch(self, what: Hashable, size: int) -> float:
        """Seconds to read or to write a value."""
        bandwidth = self._network.cached(self._distance(what, size))[0] or self._bandwidth
        return size / bandwidth

    def cold(self, work: Hashable) -> float:
        """How much longer a kind of work takes, as a share of its time, because values have replaced what it uses."""
        return self._network.cached(self._distance(work, 0))[1] if self.bytes else 0.0

    def _distance(self, what: Hashable, size: int) -> int:
        used, found = self._used, size
        if what in used:
            for other in reversed(used):
                if other == what:
                    break
                found += used[other]
            self.bytes -= used.pop(what)
        else:
            found += self.bytes
        used[what] = size
        self.bytes += size
        return found
