"""The environment variables that penstock reads: name, type, default and meaning, in one table.

Each module that depends on a variable reads it through its entry here, so that the type is parsed in one way and the table is
complete. `scripts/make_switches_page.py` writes `docs/environment.md` from it.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


def flag(text: str) -> bool:
    """The value of a boolean variable: empty, 0, false, no and off are False."""
    return text.strip().lower() not in ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Switch(Generic[T]):
    """An environment variable. `value` reads it at each call; a module that needs it once reads it when it is imported."""
    name: str
    parse: Callable[[str], T]
    default: str
    meaning: str
    kind: str
    group: str

    def value(self) -> T:
        """The current value, or the default if the variable is unset; ValueError with the name if it does not parse."""
        text = os.environ.get(self.name, self.default)
        try:
            return self.parse(text)
        except ValueError:
            raise ValueError(f"The environment variable {self.name} is {text!r}; expected {self.kind}.") from None


SWITCHES: dict[str, Switch] = {}


def _switch(name: str, parse: Callable[[str], T], default: str, group: str, meaning: str) -> Switch[T]:
    kind = {str: "a string", float: "a number", int: "an integer", flag: "0 or 1"}[parse]
    found = SWITCHES[name] = Switch(name, parse, default, meaning, kind, group)
    return found


CHECK_NUMERICS = _switch("PENSTOCK_CHECK_NUMERICS", flag, "0", "Debugging",
                         "Check the result of every op, and report the first that contains NaN or infinity. Slow.")
VERIFY_PASSES = _switch("PENSTOCK_VERIFY_PASSES", flag, "0", "Debugging",
                        "Check the invariants of a step after every pass of the optimizer, and name the pass that broke one.")
TIER = _switch("PENSTOCK_TIER", str, "", "Steps",
               "The highest version of a step: 1 (program), 2 (CUDA graph), 3 (compiled); wait: compile before the second run. "
               "Empty: 3 on GPUs, 1 on the host unless jit_compile asks for more.")
OFFLINE = _switch("PENSTOCK_OFFLINE", flag, "0", "Files", "Never download datasets or weights.")

SECRET = _switch("PENSTOCK_SECRET", str, "", "Clusters",
                 "The shared secret with which servers and clients authenticate each other (docs/security.md).")
SECRET_FILE = _switch("PENSTOCK_SECRET_FILE", str, "", "Clusters", "A file that contains the secret.")
TLS_CERT = _switch("PENSTOCK_TLS_CERT", str, "", "Clusters", "The file of this process's TLS certificate.")
TLS_KEY = _switch("PENSTOCK_TLS_KEY", str, "", "Clusters", "The file of the certificate's key.")
TLS_CA = _switch("PENSTOCK_TLS_CA", str, "", "Clusters", "The file of the authority that signed the cluster's certificates.")
STATUS_PAGE = _switch("PENSTOCK_STATUS_PAGE", str, "", "Clusters",
                      "PORT:KEY, to serve the status page from the start, at this port and under this key.")
RESTARTS = _switch("PENSTOCK_RESTARTS", int, "0", "Clusters",
                   "How often this task was started again, as the status page shows it. Set by `penstock launch`.")
JOINS = _switch("PENSTOCK_JOINS", flag, "0", "Clusters",
                "This task joins a cluster that has started without it: its servers send their cluster to the tasks that they "
                "reach, which need not have it. Set by `penstock launch --max-workers`.")
LOG_LINES = _switch("PENSTOCK_LOG_LINES", flag, "0", "Clusters",
                    "Log with level and time of day, and what is only informative, too, as `penstock launch` has tasks do.")
FILE_FOLDERS = _switch("PENSTOCK_FILE_FOLDERS", str, "", "Clusters",
                       "The folders, separated by ':', that ops of this process may use (docs/security.md); empty: all.")
HEARTBEAT_SECONDS = _switch("PENSTOCK_HEARTBEAT_SECONDS", float, "1", "Clusters",
                            "Seconds between heartbeats. A machine that does not answer for four of them is considered lost.")
STALL_SECONDS = _switch("PENSTOCK_STALL_SECONDS", float, "60", "Clusters",
                        "Seconds that a task may be silent while its machine answers, because it is stopped, or busy in a call "
                        "that holds the interpreter's lock. Then it is considered lost. At least four heartbeats.")
SHARED_MEMORY = _switch("PENSTOCK_SHARED_MEMORY", float, "2", "Clusters",
                        "GiB of shared memory that a process may allocate for tensors sent to tasks of the same machine; "
                        "0 disables it.")
WIRE_FORMAT = _switch("PENSTOCK_WIRE_FORMAT", str, "", "Clusters",
                      "The encoding of float32 tensors sent between tasks: bfloat16, float16 or int8. Empty: float32.")

COLLECTIVE_TIMEOUT_SECONDS = _switch("PENSTOCK_COLLECTIVE_TIMEOUT_SECONDS", float, "300", "Collectives",
                                     "Seconds that a collective op waits for missing members.")
COLLECTIVE_TUNE_SECONDS = _switch("PENSTOCK_COLLECTIVE_TUNE_SECONDS", float, "0.2", "Collectives",
                                  "Seconds spent on measuring algorithms for one class of sizes.")
COLLECTIVE_GLOO = _switch("PENSTOCK_COLLECTIVE_GLOO", str, "", "Collectives",
                          "1 allows gloo between machines, over connections that are not authenticated; 0 forbids gloo. "
                          "Empty: on one machine only.")

RUN_API = _switch("PENSTOCK_RUN_API", str, "", "Programs",
                  "Set by `penstock run` for child processes: the API that `import tensorflow` provides (v1 or v2).")
RUN_SUPPLIES = _switch("PENSTOCK_RUN_SUPPLIES", str, "", "Programs",
                       "Set by `penstock run` for child processes: removed built-ins to restore, separated by commas.")
RUN_KERAS = _switch("PENSTOCK_RUN_KERAS", str, "", "Programs",
                    "2: `tf.keras` is the installed tf_keras; 3: the installed Keras 3. Set by `penstock run` for programs "
                    "that use both.")
