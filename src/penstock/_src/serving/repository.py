"""The models of a server: which versions are loaded, and which one a request gets.

`poll` compares the folders with what is loaded. A new version is loaded and warmed up beside the old one; from the moment it
is AVAILABLE, new requests get it. The old one is unloaded after its last request. A version that fails to load ends with its
error, and the previous version stays. Requests hold a version between `acquire` and `release`.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.waits import joined, wait_for
from penstock._src.io import paths
from penstock._src.serving import versions
from penstock._src.serving.servable import Servable


@dataclass(eq=False)
class Version:
    """A version of a model that is, was, or could not be loaded."""
    name: str
    number: int
    path: str
    state: str = "START"
    error: errors.OpError | None = None
    servable: Servable | None = None
    batcher: Any = None
    requests: int = 0
    attempts: int = 0
    tried: float = 0.0                               # when loading failed
    stamp: Any = None                                # of the folder, at that time

    def unload(self) -> None:
        """Frees the session. No request uses it any more."""
        if self.batcher is not None:
            self.batcher.close()
        if self.servable is not None:
            self.servable.close()
        self.batcher = self.servable = None


class Repository:
    """Models by name. `load` fills in a Version: its servable and batcher, warmed up."""

    def __init__(self, load: Callable[[Version], None], retries: int = 5, retry_seconds: float = 60.0,
                 labels_for_unavailable: bool = False, clock: Callable[[], float] = time.monotonic):
        self._load, self._retries, self._retry_seconds, self._clock = load, retries, retry_seconds, clock
        self._labels_for_unavailable = labels_for_unavailable
        self._lock = threading.Condition()           # guards all fields below
        self._configs: dict[str, Any] = {}
        self._versions: dict[str, dict[int, Version]] = {}
        self._labels: dict[str, dict[str, int]] = {}
        self._polling = threading.Lock()             # loading happens in one thread at a time
        self._unloading: set[threading.Thread] = set()

    # -- requests -----------------------------------------------------------------------------------------------------
    def acquire(self, spec: Any) -> Version:
        """The version that a ModelSpec requests: a number, a label, or the latest; NotFoundError if it is not loaded."""
        if not spec.name:
            raise errors.invalid("ModelSpec has no name specified.")
        with self._lock:
            number = self._number(spec)
            known = self._versions.get(spec.name, {})
            usable = [v for n, v in known.items() if v.state == "AVAILABLE" and number in (None, n)]
            if not usable:
                wanted = f"Latest({spec.name})" if number is None else f"Specific({spec.name}, {number})"
                raise errors.NotFoundError(None, None, f"Servable not found for request: {wanted}")
            found = max(usable, key=lambda v: v.number)
            found.requests += 1
            return found

    def release(self, version: Version) -> None:
        """Ends a request."""
        with self._lock:
            version.requests -= 1
            if not version.requests:
                self._lock.notify_all()

    def _number(self, spec: Any) -> int | None:
        choice = spec.WhichOneof("kind")
        if choice == "version":
            return spec.version.value
        if choice == "version_label":
            number = self._labels.get(spec.name, {}).get(spec.version_label)
            if number is None:
                raise errors.invalid(f"Unrecognized servable version label: {spec.version_label}")
            return number
        return None

    def status(self, spec: Any) -> list[Version]:
        """The versions of a model, or the one that a ModelSpec names, in whatever state."""
        if not spec.name:
            raise errors.invalid("Missing ModelSpec")
        with self._lock:
            number, known = self._number(spec), self._versions.get(spec.name, {})
            if number is not None and number not in known:
                raise errors.NotFoundError(None, None, f"Could not find version {number} of model {spec.name}")
            if not known:
                raise errors.NotFoundError(None, None, f"Could not find any versions of model {spec.name}")
            return [known[number]] if number is not None else [known[n] for n in sorted(known, reverse=True)]

    def ready(self, name: str = "") -> bool:
        """Whether a model, or without a name every configured one, has a version that is available."""
        with self._lock:
            wanted = [name] if name else list(self._configs)
            return bool(wanted) and all(any(v.state == "AVAILABLE" for v in self._versions.get(n, {}).values()) for n in wanted)

    def knows(self, name: str) -> bool:
        """Whether a model is configured."""
        with self._lock:
            return name in self._configs

    # -- configuration ------------------------------------------------------------------------------------------------
    def configure(self, models: tuple[Any, ...]) -> None:
        """Serves these models (ModelConfigs) from now on: loads what is new, unloads what is not listed, and sets labels.

        Labels are set last, and only for versions that are available, so that a label never points to nothing. If one is
        refused, FailedPreconditionError, all labels stay as they were.
        """
        with self._lock:
            self._configs = {m.name: m for m in models}
        self.poll()
        wanted = {m.name: dict(m.version_labels) for m in models}
        with self._lock:
            for name, labels in wanted.items():
                for label, number in labels.items():
                    self._check_label(name, label, number)
            self._labels = wanted

    def _check_label(self, name: str, label: str, number: int) -> None:
        version = self._versions.get(name, {}).get(number)
        if version is not None and version.state == "AVAILABLE":
            return
        if self._labels_for_unavailable and label not in self._labels.get(name, {}):
            return
        raise errors.FailedPreconditionError(None, None, f"Request to assign label to version {number} of model {name}, which "
                                                         "is not currently available for inference")

    # -- loading and unloading ----------------------------------------------------------------------------------------
    def poll(self) -> None:
        """Loads and unloads versions until they match the folders and policies."""
        with self._polling:
            with self._lock:
                configs = dict(self._configs)
                removed = [name for name in self._versions if name not in configs]
            for name, config in configs.items():
                try:
                    self._poll_model(name, config)
                except (errors.OpError, OSError) as e:
                    logging.error("Model %s: %s", name, e)
            for name in removed:
                self._unload_all(name)

    def _poll_model(self, name: str, config: Any) -> None:
        found = versions.found(config.base_path)
        wanted = versions.aspired(list(found), config.model_version_policy)
        if not wanted:
            logging.log_every_n(logging.WARN, "No versions of servable %s found under base path %s", 60, name, config.base_path)
        with self._lock:
            known = self._versions.setdefault(name, {})
            missing = [n for n in wanted if self._should_load(known.get(n), found[n])]
        for number in sorted(missing, reverse=True):
            self._load_version(name, number, found[number])
        with self._lock:
            current = self._versions[name]
            unwanted = [v for n, v in current.items() if n not in wanted and v.state == "AVAILABLE"]
            if wanted and not any(current[n].state == "AVAILABLE" for n in wanted):
                return                               # the old version stays until the new one is loaded
            for version in unwanted:
                version.state = "UNLOADING"          # no new requests
        for version in unwanted:
            self._unload(version)
        self._forget(name, set(found))

    def _should_load(self, version: Version | None, path: str) -> bool:
        """Whether to load a version: it is new, or failed before and its folder changed or the time for a retry came."""
        if version is None:
            return True
        if version.state != "END":
            return False
        if version.error is None:
            return True                              # it was unloaded, and is wanted again
        if _stamp(path) != version.stamp:
            return True
        return version.attempts <= self._retries and self._clock() - version.tried >= self._retry_seconds

    def _load_version(self, name: str, number: int, path: str) -> None:
        with self._lock:
            before = self._versions[name].get(number)
            version = self._versions[name][number] = Version(name, number, path, "LOADING")
            version.attempts = before.attempts if before is not None else 0
        stamp = _stamp(path)
        try:
            self._load(version)
        except BaseException as e:                   # a broken model must not stop the server
            version.unload()
            with self._lock:
                version.state, version.error, version.stamp = "END", _typed(e), stamp
                version.attempts, version.tried = version.attempts + 1, self._clock()
            logging.error("Version %d of model %s was refused: %s", number, name, version.error.message)
            if not isinstance(e, Exception):
                raise
            return
        with self._lock:
            version.state = "AVAILABLE"
        logging.info("Version %d of model %s is available.", number, name)

    def _unload(self, version: Version) -> None:
        """Unloads a version after its last request. That may take long, and other models must not wait for it."""
        with self._lock:
            idle = not version.requests
        if idle:
            self._end(version)
            return
        thread = threading.Thread(target=self._end, args=(version,), name=f"unload-{version.name}", daemon=True)
        with self._lock:
            self._unloading = {t for t in self._unloading if t.is_alive()} | {thread}
            thread.start()

    def _end(self, version: Version) -> None:
        with self._lock:
            wait_for(self._lock, lambda: not version.requests,
                     lambda: f"{version.requests} requests of version {version.number} of model {version.name}, to unload it")
        version.unload()
        with self._lock:
            version.state = "END"
        logging.info("Version %d of model %s was unloaded.", version.number, version.name)

    def _unload_all(self, name: str) -> None:
        with self._lock:
            loaded = [v for v in self._versions[name].values() if v.state == "AVAILABLE"]
            for version in loaded:
                version.state = "UNLOADING"
        for version in loaded:
            self._unload(version)
        with self._lock:
            del self._versions[name]

    def _forget(self, name: str, found: set[int]) -> None:
        """Drops versions that ended and whose folders are gone."""
        with self._lock:
            known = self._versions[name]
            self._versions[name] = {n: v for n, v in known.items() if n in found or v.state != "END"}

    def close(self) -> None:
        """Unloads everything, after the pending requests."""
        with self._lock:
            self._configs = {}
        self.poll()
        for thread in list(self._unloading):
            joined(thread, lambda thread=thread: f"the end of {thread.name}")       # type: ignore[misc]


def _typed(error: BaseException) -> errors.OpError:
    """The error with a status code."""
    if isinstance(error, errors.OpError):
        return error
    if isinstance(error, (OSError, KeyError)):
        return errors.NotFoundError(None, None, f"{type(error).__name__}: {error}")
    return errors.UnknownError(None, None, f"{type(error).__name__}: {error}")


def _stamp(path: str) -> Any:
    """A fingerprint of a version's files, from the listings of its folders."""
    try:
        return tuple((n, s.length, s.mtime_nsec, _stamp(inner) if s.is_directory else None)
                     for n in sorted(paths.listdir(path)) for inner in [paths.join(path, n.rstrip("/"))]
                     for s in [paths.stat(inner)])
    except errors.OpError:
        return None
