"""The local devices with their memory and descriptions, for `tensorflow.python.client.device_lib`."""
from __future__ import annotations

import dataclasses
from typing import Any

from penstock._src.kernels.devices.device_config import process_config
from penstock._src.kernels.devices.devices import local_devices


@dataclasses.dataclass(frozen=True)
class DeviceAttributes:
    """The attributes of a device."""
    name: str
    device_type: str
    memory_limit: int
    incarnation: int
    physical_device_desc: str = ""


def list_local_devices(session_config: Any = None) -> list[DeviceAttributes]:
    """The devices of this process, under a ConfigProto or the settings of tf.config, which can still be changed afterwards.

    >>> [d.name for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    """
    found = local_devices(session_config if session_config is not None else process_config())
    return [DeviceAttributes(f"/device:{d.device_type}:{d.index}", d.device_type, d.memory_limit_bytes, d.incarnation,
                             d.describe()) for d in found]
