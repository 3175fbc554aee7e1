"""Of `pywrap_tfe`: the devices, as in TensorFlow's C library."""
from __future__ import annotations

import penstock


def TF_ListPhysicalDevices() -> list[bytes]:  # noqa: N802
    """The names of the physical devices."""
    return [d.name.encode() for d in penstock.config.list_physical_devices()]


def TF_ListPluggablePhysicalDevices() -> list[bytes]:  # noqa: N802
    """Devices of plugins: there are none."""
    return []
