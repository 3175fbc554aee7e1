"""The resource side of queues, barriers and accumulators: a container, a name, and a value for references to them."""
from __future__ import annotations

import numpy as np


class Shared:
    """State that ops share by name. `kind` is what messages call it."""

    kind = "Resource"

    def __init__(self, name: str, container: str = ""):
        self.name, self.container = name, container

    def read(self) -> np.ndarray:
        """The value of a reference to it: container and name."""
        return np.array([self.container.encode(), self.name.encode()], dtype=object)
