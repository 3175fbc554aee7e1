"""The machine file: the performance of machines and of the network between them, in YAML.

    machines:
      worker: {cores: 8, flops: 2.0e10, memory_bandwidth: 1.0e10, nic: 1.25e9, ...}
      ps: {...}
    network: {latency: 2.0e-4, rack_size: 40, rack_uplink: 5.0e9}

Each job has the machine of its name, else the one named `default`. Every field of `Machine` and `Network` may be given; the
comments there describe them. Text under `notes` is for readers: the source of the figures.
"""
from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import yaml

from penstock._src.base import errors

_LARGEST = 1 << 20                  # bytes of a machine file


@dataclasses.dataclass
class Straggling:
    """How much longer the work of a step takes at random: a log-normal factor for every step, and with some probability an
    exponential delay, as a share of the work."""
    jitter: float = 0.0             # standard deviation of the logarithm
    probability: float = 0.0        # that a step is delayed
    delay: float = 0.0              # mean of the delay, in shares of the step's work

    def factor(self, draw: Any) -> float:
        """The factor of one step; `draw` is a random.Random."""
        factor = draw.lognormvariate(0.0, self.jitter) if self.jitter else 1.0
        if self.probability and draw.random() < self.probability:
            factor += draw.expovariate(1.0 / self.delay)
        return factor


@dataclasses.dataclass
class Machine:
    """One kind of machine."""
    cores: int = 8                  # parts of steps that run at once
    flops: float = 2e10             # operations per second of one part
    memory_bandwidth: float = 1e10  # bytes per second of one part
    op_seconds: float = 5e-6        # that an op takes at least
    nic: float = 1.25e9             # bytes per second, in each direction
    send_seconds: float = 2e-5      # of a thread, to send a message
    after_seconds: float = 0.0      # more, when the message has left already: the receiver works meanwhile (on one machine)
    receive_seconds: float = 2e-5   # of a thread, to receive a message
    large_seconds: float = 0.0      # more, at both ends, for a message that is not small: buffers
    copy_bandwidth: float = 0.0     # bytes per second that a thread copies, of a message that is not small; 0: at no cost
    idle_seconds: float = 0.0       # more in a turn for which the core had to be woken (on one machine)
    cold_share: float = 0.0         # more in a turn, for each second that other processes have worked on its core since its
                                    # last one (on one machine)
    interrupt_seconds: float = 0.0  # more to send a message to a process whose core is idle (on one machine)
    switch_seconds: float = 0.0     # more in a turn, if they have worked there at all
    client_cold_share: float = 0.0  # the same of its client
    message_threads: int = 1        # that send and receive
    begin_seconds: float = 0.0      # of a core, before a part begins
    client_seconds: float = 0.0     # of a client, before a step; on one machine, it is a process of its own
    step_seconds: float = 0.0       # of a worker, to begin a step
    straggling: Straggling = dataclasses.field(default_factory=Straggling)
    failures_per_day: float = 0.0   # of a task
    restart_seconds: float = 30.0   # until a task that has failed is back

    def copy_seconds(self, size: int) -> float:
        """Seconds of a thread for the bytes of a message that is not small."""
        return self.large_seconds + (size / self.copy_bandwidth if self.copy_bandwidth else 0.0)


@dataclasses.dataclass
class Network:
    """The network between the machines."""
    latency: float = 1e-4           # seconds from one machine to another
    large_latency: float = 0.0      # seconds more, for a message that is not small: its receiver has to make room
    small: int = 64 << 10           # bytes: smaller messages pass between the chunks of large ones
    header: int = 100               # bytes of a message beside its tensors
    one_machine: bool = False       # all tasks are processes of one machine, with their clients: the workers, then the servers,
                                    # are pinned to its cores in turn. A process does one thing at a time
    caches: list = dataclasses.field(default_factory=list)      # on one machine, [bytes, bandwidth, share], …: by the bytes
                                    # that all tasks have used since, the bytes per second at which a value is read or
                                    # written, and how much longer work takes (memory.py)
    jitter: float = 0.0             # of all work but copies on one machine: standard deviation of the logarithm
    rack_size: int = 0              # machines of a rack; 0: all in one
    rack_uplink: float = 5e9        # bytes per second between a rack and the others, in each direction


    def cached(self, distance: float) -> tuple[float, float]:
        """The bandwidth (0: unknown) and the share of `caches` for so many bytes. The seconds per byte and the share are on a
        line between two points. Beyond the last point they are as there: where caches keep nothing from one use to the next,
        more bytes change nothing. Before the first point the bandwidth is as there, and the share begins with 0."""
        before: list[float] | None = None
        for point in self.caches:
            if distance <= point[0]:
                if before is None:
                    return point[1], point[2] * distance / point[0]
                part = (distance - before[0]) / (point[0] - before[0])
                return 1 / ((1 - part) / before[1] + part / point[1]), (1 - part) * before[2] + part * point[2]
            before = point
        return (before[1], before[2]) if before is not None else (0.0, 0.0)


@dataclasses.dataclass
class Machines:
    """A machine file."""
    machines: dict[str, Machine] = dataclasses.field(default_factory=dict)
    network: Network = dataclasses.field(default_factory=Network)
    notes: Any = None

    def of(self, job: str) -> Machine:
        """The machine of a job's tasks."""
        return self.machines.get(job) or self.machines.get("default") or Machine()


def load(path: str | pathlib.Path) -> Machines:
    """Reads a machine file; InvalidArgumentError if it is not valid."""
    path = pathlib.Path(path)
    if path.stat().st_size > _LARGEST:
        raise errors.invalid(f"{path} has {path.stat().st_size} bytes, which is too much for a machine file.")
    try:
        found = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise errors.invalid(f"{path} is not YAML: {e}") from None
    return parse(found, str(path))


def parse(found: Any, where: str = "the machine file") -> Machines:
    """A machine file that was read as YAML."""
    given = _dict(found, where)
    unknown = set(given) - {"machines", "network", "notes"}
    if unknown:
        raise errors.invalid(f"{where} has no part called {sorted(unknown)[0]!r}: there are machines, network and notes.")
    machines = {str(name): _filled(Machine, fields, f"{where}, machine {name}")
                for name, fields in _dict(given.get("machines") or {}, where).items()}
    return Machines(machines, _filled(Network, given.get("network") or {}, f"{where}, network"), given.get("notes"))


def _dict(value: Any, where: str) -> dict:
    if not isinstance(value, dict):
        raise errors.invalid(f"{where} must be a mapping, not {type(value).__name__}.")
    return value


def _filled(kind: type, given: Any, where: str) -> Any:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in _dict(given, where).items():
        if name not in fields:
            raise errors.invalid(f"{where}: unknown field {name!r}. Known fields: {', '.join(fields)}.")
        values[name] = _filled(Straggling, value, f"{where}, {name}") if name == "straggling" else \
            bool(value) if name == "one_machine" else _points(value, where) if name == "caches" else \
            _number(value, name, where)
    for name in ("cores", "message_threads"):
        if name in values:
            values[name] = max(1, int(values[name]))
    return kind(**values)


def _points(value: Any, where: str) -> list[list[float]]:
    """Triples of numbers."""
    if not isinstance(value, list) or any(not isinstance(p, list) or len(p) != 3 for p in value):
        raise errors.invalid(f"{where}: caches must be a list of [bytes, bandwidth, share], not {value!r}.")
    points = sorted([_number(x, "caches", where) for x in p] for p in value)
    if any(bandwidth <= 0 for _, bandwidth, _ in points) or len({size for size, *_ in points} | {0}) <= len(points):
        raise errors.invalid(f"{where}: the points of caches must be of different sizes and have a bandwidth, not {value!r}.")
    return points


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value)                        # YAML reads 1e9, without a point, as text
    except (TypeError, ValueError):
        raise errors.invalid(f"{where}: {name} must be a number, not {value!r}.") from None
    if not 0 <= number < float("inf"):
        raise errors.invalid(f"{where}: {name} must not be negative or infinite, but is {number}.")
    return int(number) if number == int(number) and not isinstance(value, float) else number


def dump(machines: Machines) -> str:
    """The text of a machine file."""
    return yaml.safe_dump(dataclasses.asdict(machines), sort_keys=False, width=128)
