"""The common part of the networks: their public names, and the outputs of their layers as a table."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.layers.support import convert_collection_to_dict
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def net(module: str, *names: str, also: tuple[str, ...] = ()) -> Callable:
    """Exports a network (or its argument scope) under slim.nets.<module>, and under the longer path that programs import."""
    def decorate(function: Any) -> Any:
        for name in names or (function.__name__,):
            for place in (module, *also):
                export.value(function, v1=[f"contrib.slim.nets.{place}.{name}",
                                           f"contrib.slim.python.slim.nets.{place}.{name}"])
        return function
    return decorate


def squeezed(logits: Tensor, scope: Any, collection: str, spatial_squeeze: bool, name: str = "fc8") -> tuple[Tensor, dict]:
    """The logits without their spatial dimensions, and the outputs of all layers."""
    ends = convert_collection_to_dict(collection)
    if spatial_squeeze:
        logits = tf.squeeze(logits, [1, 2], name=f"{name}/squeezed")
        ends[f"{scope.name}/{name}"] = logits
    return logits, ends
