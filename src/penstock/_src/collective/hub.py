"""The hub of a task: where its members of groups get their messages, and where groups are made.

A *member* is a device of a task, by its full name. A group is requested by its key and size; when as many members have asked,
it is formed: by the hub itself if all of them are of this task, else by the hub of the leading task, which tells all others. A
group that is formed has an id, its members in the order of their names, and lives until one of its tasks is lost; then all that
waits in it ends with an error, and the next call forms it again.

A *call* is the nth use of an instance (a key that the program chooses) by the members of a group. Messages are kept until they
are requested, under (group, instance, n, source, target). One member's error fails the call for all: `abort` notifies them.
"""
from __future__ import annotations

import collections
import itertools
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors, service
from penstock._src.base.waits import Wait, wait_for
from penstock._src.collective.group import FROM_ANY, Group, Limit

Key = tuple                                    # (group, instance, n, source, target)
Message = tuple[Any, torch.Tensor | None]      # its sender's description of the call, and the data
_REMEMBERED = 1024                             # calls that have failed, and groups that are gone
_ASK_AGAIN = 1.0                               # seconds after which a group that is not formed is requested again


_claims: weakref.WeakValueDictionary[int, Hub] = weakref.WeakValueDictionary()


def meeting_point(key: int, resources: Any) -> Hub:
    """Where the group of a key meets, for ops that use these resources: at their task's hub, at the one that has claimed the
    key, or at one of the session's own, which knows no other task."""
    hub = resources.hub
    if hub is not None and hub.task:
        return hub
    claimed = _claims.get(key)
    if claimed is not None:
        return claimed
    if hub is None:
        with resources._lock:
            hub = resources.hub = resources.hub or Hub()
    return hub


class _Forming:
    """A group that is not complete yet, as the members here see it."""

    def __init__(self, size: int, attempt: str):
        self.size, self.attempt, self.problem = size, attempt, ""
        self.members: list[str] = []


class Hub:
    """The collectives of one task; `peers` are its links to others (None: there are none)."""

    def __init__(self, task: str = "", peers: Any = None, leader: str = ""):
        self.task, self.peers = task, peers
        self.leader = leader or _leader(task, peers)
        self._changed = threading.Condition()
        self._boxes: dict[Key, collections.deque[Message]] = {}
        self._waiting: dict[Key, Callable[[], None]] = {}
        self._groups: dict[int, Group] = {}
        self._forming: dict[int, _Forming] = {}
        self._asked: dict[int, dict[str, tuple[str, str]]] = {}           # at the leader: member -> its task, and its attempt
        self._led: dict[int, tuple[str, dict[str, str]]] = {}             # groups formed here: id, and the attempts of tasks
        self._failed: collections.OrderedDict[tuple, errors.OpError] = collections.OrderedDict()
        self._gone: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._numbers = itertools.count(1)
        self.threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()           # that groups have started
        self._held: dict[int, errors.OpError | None] = {}                 # keys that wait for `resume`, and why
        self.stores: dict[tuple, bytes] = {}                              # of engines that find each other through it

    def claim(self, key: int) -> None:
        """Has the group of a key meet here, whichever session of this process its ops run in."""
        _claims[key] = self

    # -- messages -----------------------------------------------------------------------------------------------------
    def put(self, group: Group, key: Key, said: Any, data: torch.Tensor | None) -> None:
        """Sends a message to a member, here or at another task; data may change as soon as this returns."""
        task = group.task_of[key[4]]
        if task == self.task:
            self._deliver(key, (said, data if data is None else data.clone()))
            return
        if data is not None and data.nbytes > _COPIED:
            data = data.clone()
        self._post(group.links[task], {"what": "data", "key": list(key), "said": said}, [data])

    def _post(self, link: Any, header: dict[str, Any], values: Any = None) -> None:
        link.post({"do": "collective", **header}, values)

    def _deliver(self, key: Key, message: Message) -> None:
        with self._changed:
            if key[0] in self._gone or key[:3] in self._failed:
                return
            self._boxes.setdefault(key, collections.deque()).append(message)
            wake = self._waiting.pop(key, None) or self._waiting.pop((*key[:3], FROM_ANY, key[4]), None)
        if wake is not None:
            wake()

    def take(self, group: Group, key: Key, wake: Callable[[], None]) -> Message | None:
        """The next message, if any; else None, and `wake` is called when that may have changed. Raises the error of a
        call that has failed."""
        with self._changed:
            error = group.error or self._failed.get(key[:3])
            if error is not None:
                raise error
            box = self._boxes.get(key)
            if box is None:
                self._waiting[key] = wake
                return None
            message = box.popleft()
            if not box:
                del self._boxes[key]
            return message

    def look(self, group: Group, call: tuple, target: int) -> tuple[int, Any] | None:
        """The members that have sent a message to a member in a call, with their descriptions of it. Raises the error of a call
        that has failed."""
        with self._changed:
            error = group.error or self._failed.get(call)
            if error is not None:
                raise error
            return next(((k[3], box[0][0]) for k, box in self._boxes.items() if k[:3] == call and k[4] == target), None)

    def forget(self, key: Key) -> None:
        """No member waits for a message any longer."""
        with self._changed:
            self._waiting.pop(key, None)

    def abort(self, group: Group | None, call: tuple, error: errors.OpError) -> None:
        """Ends a call for all members: here, and in the other tasks of a group."""
        with self._changed:
            if call in self._failed:
                return
            self._failed[call] = error
            while len(self._failed) > _REMEMBERED:
                self._failed.popitem(last=False)
            wakes = self._purge(lambda key: key[:3] == call)
        for wake in wakes:
            wake()
        if group is not None:
            self._tell(group, {"what": "abort", "call": list(call), "code": error.error_code, "why": error.message})

    def _purge(self, which: Callable[[Key], bool]) -> list[Callable[[], None]]:
        """Drops messages; returns the waiters for more. The lock is held."""
        for key in [k for k in self._boxes if which(k)]:
            del self._boxes[key]
        return [self._waiting.pop(k) for k in [k for k in self._waiting if which(k)]]

    def _tell(self, group: Group, header: dict[str, Any]) -> None:
        for link in group.links.values():
            try:
                self._post(link, header)
            except errors.OpError:
                pass                                 # it is gone, and so is the group

    # -- groups -------------------------------------------------------------------------------------------------------
    def join(self, key: int, size: int, member: str, limit: Limit) -> Group:
        """The group of a key, when it is complete; waits for the other members."""
        lost = self._held.get(key)
        if lost is not None:
            raise lost
        group = self._groups.get(key)
        if group is None:
            group = self._join(key, size, member, limit)
        if group.size != size:
            raise errors.invalid(f"{member} expects group {key} to have {size} members, but it has {group.size}: "
                                 f"{', '.join(group.members)}.")
        if member not in group.rank_of:
            raise errors.invalid(f"{member} is not a member of group {key}: {', '.join(group.members)}. "
                                 "Use a different group_key for a different group.")
        return group

    def hold(self, key: int) -> None:
        """Has a group, once it is lost, formed again only after `resume`: until then, all that use it get the error."""
        self._held.setdefault(key, None)

    def resume(self, key: int) -> None:
        """The users of a group know that it was lost: it may be formed again."""
        self._held[key] = None

    def _join(self, key: int, size: int, member: str, limit: Limit) -> Group:
        with self._changed:
            if key in self._groups:                  # it has just been formed
                return self._groups[key]
            forming = self._forming.get(key)
            if forming is None:
                forming = self._forming[key] = _Forming(size, secrets.token_hex(8))
            if forming.size != size:
                raise errors.invalid(f"{member} expects group {key} to have {size} members, but "
                                     f"{', '.join(forming.members)} expects {forming.size}.")
            if member not in forming.members:
                forming.members.append(member)
            if len(forming.members) == size:
                self._form(key, f"{self.task} {next(self._numbers)}", dict.fromkeys(forming.members, self.task), {})
                return self._groups[key]
        alone = self.peers is None or len(self.peers.addresses) < 2
        waited = Wait(lambda: self._incomplete(key, forming, member))
        try:
            while True:
                if not alone:
                    self._ask(key, forming, limit)
                with limit.waking(self._wake_all), self._changed:
                    self._changed.wait_for(lambda: key in self._groups or limit.over,
                                           waited.patience(limit.left(None if alone else _ASK_AGAIN)))
                    found = self._groups.get(key)
                    if found is not None:
                        return found
                limit.check()
        except errors.DeadlineExceededError:
            why = f"{member} waited for {self._incomplete(key, forming, member)}."
            raise errors.DeadlineExceededError(None, None, why) from None
        finally:
            with self._changed:
                if key not in self._groups and member in forming.members:
                    forming.members.remove(member)

    def _wake_all(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _incomplete(self, key: int, forming: _Forming, member: str) -> str:
        there = sorted(set(self._asked.get(key, ())) | set(forming.members))
        seen = "" if self.leader == self.task or self.peers is None else f", as far as is known here; {self.leader} knows all"
        tasks = self.peers.addresses if self.peers is not None and not seen else ()
        missing = sorted(t for t in tasks if not any(m.startswith(t + "/") for m in there))
        absent = f"; {', '.join(missing)} did not" if missing else ""
        return (f"a collective group to be complete, as {member} sees it: group {key} needs {forming.size} members, and only "
                f"{', '.join(there)} came{absent}{seen}{forming.problem}. Every member must run its collective op, with the "
                "same group_key")

    def _ask(self, key: int, forming: _Forming, limit: Limit) -> None:
        """Tells the leading task which members of this one join a group."""
        header = {"what": "join", "group": key, "size": forming.size, "members": list(forming.members),
                  "attempt": forming.attempt}
        if self.leader == self.task:
            self._asked_for(self.task, header)
            return
        try:
            self._post(self.peers.reach(self.leader, limit.left(_ASK_AGAIN)), header)
            forming.problem = ""
        except errors.UnavailableError as e:         # it may still be starting; it is asked again
            forming.problem = f"; it does not answer: {e.message}"

    def _asked_for(self, task: str, header: dict[str, Any]) -> None:
        """At the leading task: members join a group. When it is complete, their tasks are notified."""
        key, size = int(header["group"]), int(header["size"])
        with self._changed:
            led = self._led.get(key)
            if led is not None and led[1].get(task) == header["attempt"]:
                return                               # it was answered
            obsolete = led if led is not None and task in led[1] else None
            if obsolete is not None:                 # one of its tasks has restarted: all form the group again
                del self._led[key]
        if obsolete is not None:
            why = f"{task} has left the collective group {key}, and is forming it again."
            drop = {"what": "drop", "group": obsolete[0], "code": errors.ABORTED, "why": why}
            for other in obsolete[1]:
                self._say(other, drop)
        with self._changed:
            asked = self._asked.setdefault(key, {})
            for member in [m for m, (t, attempt) in asked.items() if t == task and attempt != header["attempt"]]:
                del asked[member]                    # it has restarted
            asked.update({str(m): (task, str(header["attempt"])) for m in header["members"]})
            if len(asked) < size:
                return
            del self._asked[key]
            attempts = {t: a for t, a in asked.values()}
            group = secrets.token_hex(8)
            self._led[key] = group, attempts
        members = {m: t for m, (t, _) in sorted(asked.items())}
        for other, attempt in attempts.items():
            self._say(other, {"what": "formed", "group": key, "id": group, "members": members, "attempt": attempt})

    def _say(self, task: str, header: dict[str, Any]) -> None:
        """Tells a task, or this one, something; nothing happens if it is gone: then others will notice."""
        if task == self.task:
            if header["what"] == "formed":
                self._formed(header)
            else:
                self.handle(None, header, [])
            return
        try:
            self._post(self.peers.reach(task, _ASK_AGAIN), header)
        except errors.OpError:
            pass

    def _formed(self, header: dict[str, Any]) -> None:
        """The leading task announces the members of a group."""
        key, members = int(header["group"]), {str(m): str(t) for m, t in header["members"].items()}
        links = {}
        try:
            for task in sorted(set(members.values()) - {self.task}):
                links[task] = self.peers.reach(task, 10.0)
        except errors.OpError:                       # a task is gone again: all ask again
            with self._changed:
                forming = self._forming.get(key)
                if forming is not None:
                    forming.attempt = secrets.token_hex(8)
            return
        with self._changed:
            forming = self._forming.get(key)
            if forming is None or forming.attempt != header["attempt"]:
                return
            group = self._form(key, str(header["id"]), members, links)
        for task, link in links.items():
            link.on_end(lambda link, task=task: self._lost(group, task, link))

    def _form(self, key: int, number: str, members: dict[str, str], links: dict[str, Any]) -> Group:
        """A group is complete. The lock is held."""
        group = Group(self, key, number, members, links)
        self._groups[key] = group
        self._forming.pop(key, None)
        self._changed.notify_all()
        return group

    def _lost(self, group: Group, task: str, link: Any) -> None:
        why = link.error.message if link.error is not None else "its connection has ended"
        self.drop(group, errors.UnavailableError(None, None, f"{task} is lost, and with it the collective group "
                                                 f"{group.key} of {', '.join(group.members)}: {why}"))

    def drop(self, group: Group, error: errors.OpError, tell: bool = True) -> None:
        """Ends a group: all that waits in it gets the error. The next call requests a new one."""
        with self._changed:
            if group.error is not None:
                return
            group.error = error
            if group.key in self._held:
                self._held[group.key] = error
            if self._groups.get(group.key) is group:
                del self._groups[group.key]
            self._gone[group.id] = None
            while len(self._gone) > _REMEMBERED:
                self._gone.popitem(last=False)
            self.stores = {k: v for k, v in self.stores.items() if k[0] != group.id}
            wakes = self._purge(lambda k: k[0] == group.id)
            self._changed.notify_all()
        for wake in wakes:
            wake()
        group.close()
        if tell:
            self._tell(group, {"what": "drop", "group": group.id, "code": error.error_code, "why": error.message})

    def leave(self, seconds: float) -> None:
        """Tells the members of all groups across tasks that this one needs them no more, and waits until they say so, too, or
        are gone: a process that ends takes with it what the others have not read yet."""
        groups = [g for g in list(self._groups.values()) if g.links]
        for group in groups:
            self._tell(group, {"what": "leave", "group": group.id})
        with self._changed:
            self._changed.wait_for(lambda: all(g.error is not None or g.left >= set(g.links) for g in groups), seconds)

    # -- what other tasks say -----------------------------------------------------------------------------------------
    def handle(self, link: Any, header: dict[str, Any], values: list[Any]) -> None:
        """A message of another task's hub. Returns at once."""
        what = header["what"]
        if what == "data":
            self._deliver(_frozen(header["key"]), (header["said"], values[0]))
        elif what == "store":
            with self._changed:
                self.stores[header["group"], header["name"]] = values[0]
                self._changed.notify_all()
        elif what == "join":
            self._start(self._asked_for, link.peer, header)
        elif what == "formed":
            self._start(self._formed, header)
        elif what == "leave":
            group = self._group(header["group"])
            with self._changed:
                if group is not None:
                    group.left.add(link.peer)
                self._changed.notify_all()
        elif what == "entered":
            group = self._group(header["group"])
            entered = {} if group is None else group.entered(_frozen(header["instance"]), header["n"])
            link.post({"re": header["id"], "entered": entered})
        else:
            kind: Any = errors.exception_type_from_error_code(int(header["code"]))
            error = kind(None, None, str(header["why"]))
            if what == "abort":
                self.abort(None, _frozen(header["call"]), error)
                return
            group = self._group(header["group"])
            if group is not None:
                self.drop(group, error, tell=False)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        """Does something that takes time on a thread; a failure there is requested again by the waiters."""
        name = "penstock group"
        service.started(threading.Thread(target=service.report, args=(name, work, *args), name=name, daemon=True))

    def _group(self, number: str) -> Group | None:
        return next((g for g in list(self._groups.values()) if g.id == number), None)

    # -- a store for engines ------------------------------------------------------------------------------------------
    def store(self, group: Group, name: str, value: bytes) -> None:
        """Leaves a value for all members of a group."""
        with self._changed:
            self.stores[group.id, name] = value
            self._changed.notify_all()
        self._tell_value(group, name, value)

    def _tell_value(self, group: Group, name: str, value: bytes) -> None:
        for link in group.links.values():
            self._post(link, {"what": "store", "group": group.id, "name": name}, [value])

    def stored(self, group: Group, name: str, seconds: float) -> bytes:
        """A value that a member has left; waits for it."""
        until = time.monotonic() + seconds
        with self._changed:
            wait_for(self._changed, lambda: (group.id, name) in self.stores or group.error is not None,
                     lambda: f"{name} of group {group.key} of {', '.join(group.members)}", lambda: until - time.monotonic())
            if group.error is not None:
                raise group.error
            if (group.id, name) not in self.stores:
                raise errors.DeadlineExceededError(
                    None, None, f"No member of group {group.key} provided {name} within {seconds:g} seconds.")
            return self.stores[group.id, name]

    def close(self) -> None:
        """Ends all groups."""
        for group in list(self._groups.values()):
            why = f"The collectives of {self.task or 'this session'} have ended."
            self.drop(group, errors.CancelledError(None, None, why))
        for thread in list(self.threads):                     # the last of them frees torch's groups: not while Python ends
            if thread is not threading.current_thread():
                thread.join(5.0)


def _frozen(key: Any) -> Any:
    """A key as it was before it travelled."""
    return tuple(_frozen(k) for k in key) if isinstance(key, list) else key


_COPIED = 4096                                 # bytes that a link copies anyway


def _leader(task: str, peers: Any) -> str:
    """The task at which groups are formed: the chief, or else the first that neither serves parameters nor evaluates."""
    if peers is None:
        return task
    def job(name: str) -> str:
        return name.split("/")[1].removeprefix("job:")
    tasks = sorted(peers.addresses, key=lambda t: (job(t) in ("ps", "evaluator"), job(t) not in ("chief", "master"), job(t),
                                                   int(t.rpartition(":")[2])))
    return tasks[0] if tasks else task
