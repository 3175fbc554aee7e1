"""Device names: `/job:ps/replica:0/task:1/device:GPU:2`, whole or in part.

A `DeviceSpec` is a parsed name. Any part may be missing, which means any value; specs merge, and the inner one overrides part
by part, as in nested `tf.device` scopes. Names have one canonical spelling; short ones (`/gpu:1`, `cpu`) are accepted. This
module handles names only: the placer knows which devices exist.
"""

import functools
from typing import Any, Self

from penstock._src.base.api import export

_PARTS = ("job", "replica", "task", "device_type", "device_index")
_SHORT = ("CPU", "GPU")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: int | str | None) -> int | None:
    return None if value is None else int(value)


def _device_type(value: str | int | None) -> str | None:
    return value.upper() if isinstance(value, str) and value in ("cpu", "gpu") else _text(value)


_CLEAN = (_text, _number, _number, _device_type, _number)


@export(v2=["DeviceSpec"])
class DeviceSpecV2:
    """A device name, whole or in part, that can be read, merged and written.

        spec = tf.DeviceSpec(job="ps", device_type="GPU", device_index=0)
        with tf.device(spec): ...

    Args:
      job: name of the job, or None for any.
      replica: index of the replica, or None.
      task: index of the task within the job, or None.
      device_type: "CPU", "GPU", or another kind of device; or None.
      device_index: index among the devices of that type, or None.
    """

    __slots__ = ("_parts",)

    def __init__(self, job: str | None = None, replica: int | str | None = None, task: int | str | None = None,
                 device_type: str | None = None, device_index: int | str | None = None) -> None:
        self._parts = _clean((job, replica, task, device_type, device_index))

    @classmethod
    def from_string(cls, spec: str | None) -> Self:
        """The spec that the name `spec` describes; ValueError if it is not a device name."""
        made = object.__new__(cls)
        made._parts = _parse(spec or "")
        return made

    def parse_from_string(self, spec: str | None) -> Self:
        """The spec that the name `spec` describes (this one is not changed)."""
        return self.from_string(spec)

    def to_string(self) -> str:
        """The canonical name, empty if no part is given."""
        return _write(self._parts)

    def make_merged_spec(self, dev: "DeviceSpecV2") -> Self:
        """A new spec with the parts of `dev`, and those of this one where `dev` leaves them open."""
        made = object.__new__(type(self))
        made._parts = _merge(self._parts, dev._parts)
        return made

    def replace(self, **parts: str | int | None) -> Self:
        """A new spec with some parts changed: `spec.replace(device_type="GPU", task=None)`."""
        return type(self)(**{**dict(zip(_PARTS, self._parts, strict=True)), **parts})

    job = property(lambda self: self._parts[0], doc="Name of the job, or None.")
    replica = property(lambda self: self._parts[1], doc="Index of the replica, or None.")
    task = property(lambda self: self._parts[2], doc="Index of the task, or None.")
    device_type = property(lambda self: self._parts[3], doc="The type, such as 'GPU', or None.")
    device_index = property(lambda self: self._parts[4], doc="Index among the devices of that type, or None.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in zip(_PARTS, self._parts, strict=True) if v is not None)
        return f"DeviceSpec({given})"

    def __reduce__(self) -> tuple:
        return type(self), self._parts


def _assignable(index: int) -> property:
    """A part of a spec that may be assigned to."""

    def assign(self: DeviceSpecV2, value: str | int | None) -> None:
        parts = list(self._parts)
        parts[index] = _CLEAN[index](value)
        self._parts = tuple(parts)

    return getattr(DeviceSpecV2, _PARTS[index]).setter(assign)


@export(v1=["DeviceSpec"])
class DeviceSpecV1(DeviceSpecV2):
    """A device name of `tf.compat.v1`, whose parts may be assigned to.

    spec = tf.compat.v1.DeviceSpec(job="ps")
    spec.task = 3

    Args:
        job: Name of the job.
        replica: Number of the replica.
        task: Number of the task.
        device_type: `"CPU"` or `"GPU"`.
        device_index: Number of the device.

    >>> tf.DeviceSpec(job="ps", task=1, device_type="CPU", device_index=0).to_string()
    '/job:ps/task:1/device:CPU:0'
    """

    __slots__ = ()

    job, replica, task, device_type, device_index = map(_assignable, range(5))

    def parse_from_string(self, spec: str | None) -> Self:
        """Replace all parts by those of the name `spec`, and return this object."""
        self._parts = _parse(spec or "")
        return self

    def merge_from(self, dev: DeviceSpecV2) -> None:
        """Replace the parts that `dev` has."""
        self._parts = _merge(self._parts, dev._parts)


def _clean(parts: tuple) -> tuple:
    return tuple([clean(part) for clean, part in zip(_CLEAN, parts, strict=True)])


def _merge(outer: tuple, inner: tuple) -> tuple:
    return tuple([a if b is None else b for a, b in zip(outer, inner, strict=True)])


@functools.lru_cache(maxsize=4096)
def _write(parts: tuple) -> str:
    job, replica, task, device_type, index = parts
    text = "" if job is None else f"/job:{job}"
    text += "" if replica is None else f"/replica:{replica}"
    text += "" if task is None else f"/task:{task}"
    if device_type is not None:
        text += f"/device:{device_type}:{'*' if index is None else index}"
    return text


@functools.lru_cache(maxsize=4096)
def _parse(name: str) -> tuple:
    """The parts of a name; ValueError if it is not one."""
    found = dict.fromkeys(_PARTS)
    for section in name.split("/"):
        words = section.split(":")
        if words[0] in ("job", "replica", "task") and len(words) == 2:
            found[words[0]] = words[1]
            continue
        if words[0] == "device" and len(words) == 3:
            device_type, index = words[1], words[2]
        elif words[0].upper() in _SHORT and len(words) <= 2:
            device_type, index = words[0].upper(), words[1] if len(words) == 2 else "*"
        elif words[0]:
            raise ValueError(f"Unknown attribute: '{words[0]}' in '{name}'")
        else:
            continue
        if found["device_type"] is not None:
            raise ValueError(f"Multiple device types are not allowed: {name}")
        found["device_type"] = device_type
        found["device_index"] = None if index == "*" else index
    return _clean(tuple(found.values()))


def parts_of(name: str) -> tuple:
    """(job, replica, task, device type, device index) of a name; None where it leaves one open."""
    return _parse(name or "")


def name_of(parts: tuple) -> str:
    """The canonical name with these parts."""
    return _write(parts)


def check_valid(spec: str) -> None:
    """Raise ValueError unless `spec` is a device name."""
    _parse(spec)


def is_device_spec(obj: object) -> bool:
    """Whether `obj` is a DeviceSpec of either API."""
    return isinstance(obj, DeviceSpecV2)


def canonical_name(device: DeviceSpecV2 | str | None) -> str:
    """The canonical spelling of a device given by name, by spec, or by None (no constraint, an empty name).

    >>> canonical_name("/gpu:1/job:ps")
    '/job:ps/device:GPU:1'
    """
    if device is None:
        return ""
    return device.to_string() if isinstance(device, DeviceSpecV2) else _write(_parse(device))


@functools.lru_cache(maxsize=4096)
def merge_names(outer: str, inner: str) -> str:
    """The canonical name of `inner`, with what it leaves open taken from `outer`."""
    return _write(_merge(_parse(outer), _parse(inner)))


class MergeDevice:
    """A device function that fills in what the scopes inside of it left open."""

    __slots__ = ("name",)

    def __init__(self, spec: DeviceSpecV2 | str | None) -> None:
        self.name = canonical_name(spec)

    def __call__(self, node: Any) -> str:
        """The device of `node` (anything with a `.device`), completed."""
        return merge_names(self.name, node.device or "")

    @property
    def is_null_merge(self) -> bool:
        """Whether there is nothing to fill in."""
        return not self.name

    def __repr__(self) -> str:
        return f"MergeDevice({self.name!r})"


def merge_device(spec: MergeDevice | DeviceSpecV2 | str | None) -> MergeDevice:
    """A device function for a spec or a name: nested ones add up, the innermost winning part by part.

        with tf.device(merge_device("/job:worker")):
            with tf.device(merge_device("/gpu:0")): ...  # /job:worker/device:GPU:0

    Raises:
      ValueError: if `spec` is not a device name.
    """
    return spec if isinstance(spec, MergeDevice) else MergeDevice(spec)


def device_text(device: Any) -> str:
    """A device as canonical text."""
    if device is None:
        return ""
    text = device.to_string() if hasattr(device, "to_string") else device
    if not isinstance(text, str):
        raise ValueError(f"Expecting a string device name. Got {type(device).__name__} ({device!r})")
    return canonical_name(text)
