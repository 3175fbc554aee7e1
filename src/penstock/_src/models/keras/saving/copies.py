"""Models as bytes, for `pickle` and `copy.deepcopy`."""
from __future__ import annotations

import copy
import io
from typing import Any

from penstock._src.models.keras.saving import archive


def packed(model: Any) -> tuple[bytes, dict[str, type]]:
    """The `.keras` file of a model, and the classes of the user in it, which `pickle` stores by their modules."""
    file = io.BytesIO()
    archive.write(model, file)
    own = {type(layer).__name__: type(layer) for layer in model._flatten_layers()
           if not type(layer).__module__.startswith("penstock.")}
    return file.getvalue(), own


def restored(data: bytes, classes: dict[str, type]) -> Any:
    """The model of `packed`."""
    return archive.load(io.BytesIO(data), classes)


def of_attributes(model: Any, memo: dict) -> Any:
    """A copy of a model that is not built: of its attributes."""
    made = type(model).__new__(type(model))
    memo[id(model)] = made
    made.__setstate__({k: copy.deepcopy(v, memo) for k, v in model.__getstate__().items()})
    return made
