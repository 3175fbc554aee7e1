"""torch.distributed's own reductions, gloo and NCCL, as further choices.

The members find each other through the hub's store (`PeerStore`), so that no port is opened for it and no environment variable
is read. gloo's own connections are not authenticated: it is used among members on one machine, where it listens on the
loopback address; between machines only where PENSTOCK_COLLECTIVE_GLOO=1 says that the network is trusted. NCCL is used where
every member has its own GPU. A call that fails leaves an engine in the middle of something: it is given up, and the next
call makes another.
"""
from __future__ import annotations

import datetime
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from penstock._src.base import errors, switches
from penstock._src.base.waits import Wait, spent

if TYPE_CHECKING:
    from penstock._src.collective.group import Call, Group

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64)
_MEANTIME = datetime.timedelta(milliseconds=50)
NAMES = ("gloo", "nccl")


def takes(data: torch.Tensor, merge: str) -> bool:
    """Whether an engine reduces such data as the other algorithms do."""
    return merge == "Add" and data.dtype in _DTYPES


def gloo_is_allowed(group: Group) -> bool:
    """Whether gloo may be used: its connections are not authenticated."""
    said = switches.COLLECTIVE_GLOO.value()
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available() or said == "0":
        return False
    return said == "1" or group.local or group.same_host


def _store(group: Group, prefix: str, seconds: float) -> Any:
    class PeerStore(torch.distributed.Store):
        """What engines leave for each other, over the links of the tasks."""

        def __init__(self) -> None:
            super().__init__()
            self._numbers: dict[str, int] = {}

        def set(self, key: str, value: Any) -> None:
            group._hub.store(group, prefix + key, bytes(value))

        def get(self, key: str) -> bytes:
            return group._hub.stored(group, prefix + key, seconds)

        def wait(self, keys: list[str], timeout: datetime.timedelta | None = None) -> None:
            for key in keys:
                group._hub.stored(group, prefix + key, seconds if timeout is None else timeout.total_seconds())

        def check(self, keys: list[str]) -> bool:
            return all((group.id, prefix + key) in group._hub.stores for key in keys)

        def set_timeout(self, timeout: datetime.timedelta) -> None:
            pass
    return PeerStore()


class Engine:
    """One member's end of a process group of torch.distributed."""

    def __init__(self, key: str, group: Group, rank: int, seconds: float):
        name, self.broken = key.split(".")[0], False
        self.name = name
        dist: Any = torch.distributed
        self._kept = store = _store(group, f"{key}.", min(seconds, 60.0))
        limit = datetime.timedelta(seconds=seconds)
        if name == "gloo":
            options = dist.ProcessGroupGloo._Options()
            options._timeout = limit
            options._devices = [dist.ProcessGroupGloo.create_device(hostname=_listens_on(group))]
            self._group: Any = dist.ProcessGroupGloo(store, rank, group.size, options)
        else:
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = limit
            self._group = dist.ProcessGroupNCCL(store, rank, group.size, options)

    def reduce(self, data: torch.Tensor, call: Callable[[], Call]) -> None:
        """All-reduces data in place. Ends with the step of the call (which is created when it is requested), its group,
        or another member's error."""
        moved = data.cpu() if self.name == "gloo" and data.is_cuda else data
        began = time.monotonic()
        try:
            work = self._group.allreduce([moved])
            if self.name == "nccl":
                work.wait(datetime.timedelta(seconds=call().limit.left()))
            else:
                self._wait(work, call)
        except errors.OpError:
            self.broken = True
            raise
        except RuntimeError as e:
            self.broken = True
            made = call()
            raise made.group.error or errors.UnavailableError(
                None, None, f"{made.about} on {made.group.members[made.rank]}: {self.name} failed: {e}") from None
        finally:
            spent.moved += time.monotonic() - began
        if moved is not data:
            data.copy_(moved)

    @staticmethod
    def _wait(work: Any, call: Callable[[], Call]) -> None:
        """Waits in torch, which is quicker than an event of Python's, and checks now and then whether the call still
        continues."""
        waited = Wait(lambda: call().awaited())
        while True:
            try:
                work.wait(_MEANTIME)
                return
            except RuntimeError:
                if work.is_completed():              # meanwhile, or with an error
                    work.wait()
                    return
            waited.patience()
            call().check_in()


def _listens_on(group: Group) -> str:
    if group.local or group.same_host:
        return "127.0.0.1"
    address = group._hub.peers.addresses[group._hub.task]
    return address.rpartition(":")[0].strip("[]")


def has_own_gpus(group: Group, rank: int, data: torch.Tensor) -> bool:
    """Whether every member's data is on its own GPU: all members ask, and get the same answer."""
    name = "nccl device "
    mine = ""
    if data.is_cuda and torch.distributed.is_nccl_available():
        mine = f"{socket.gethostname()} {torch.cuda.get_device_properties(data.device).uuid}"
    hub = group._hub
    hub.store(group, f"{name}{rank}", mine.encode())
    all_of_them = [hub.stored(group, f"{name}{r}", 60.0) for r in range(group.size)]
    return all(all_of_them) and len(set(all_of_them)) == group.size
