"""Names the layer in the errors of its `call`: its name, its type and what it was called with."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from penstock._src.base import errors, nest
from penstock._src.graph import context
from penstock._src.graph.convert import is_tensor
from penstock._src.models.keras.engine.call_context import in_keras_graph

if TYPE_CHECKING:
    from penstock._src.models.keras.engine.base_layer import Layer

_LONGEST = 200                      # characters of an argument that is not a tensor


def name_layer(error: Exception, layer: Layer, inputs: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Adds the layer to the message of an error, unless an inner one was added; to its notes, if the message is not a text."""
    if getattr(error, "_names_layer", False):
        return
    error._names_layer = True                                          # type: ignore[attr-defined]
    newer = context.eager_outside_functions()
    quote = '"' if newer and in_keras_graph() else "'"
    who = f"layer {quote}{layer.name}{quote} (type {type(layer).__name__})"
    given = dict(zip(layer._call_fn_args, (inputs, *args), strict=False)) | kwargs
    if newer:
        given |= {name: default for name, default in _defaults(layer.call).items() if name not in given}
    called = "".join(f"\n  • {name}={_shown(value)}" for name, value in given.items())
    before, after = f"Exception encountered when calling {who}.", f"Call arguments received by {who}:{called}"
    if isinstance(error, errors.OpError):
        error._message = f"{before}\n\n{error._message}\n\n{after}"
    elif len(error.args) == 1 and str(error) == error.args[0]:
        error.args = (f"{before}\n\n{error.args[0]}\n\n{after}",)
    elif not isinstance(error, StopIteration):
        error.add_note(f"{before}\n{after}")


def _defaults(call: Any) -> dict[str, Any]:
    """The arguments of a function that have defaults, and those."""
    parameters = inspect.signature(call).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _shown(value: Any) -> str:
    """Arguments as text: of tensors, shapes and types."""
    def one(x: Any) -> str:
        text = f"tf.Tensor(shape={x.shape}, dtype={x.dtype.name})" if is_tensor(x) else repr(x)
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    if not nest.is_nested(value):
        return one(value)
    found = str(nest.map_structure(one, value))[:10 * _LONGEST]
    return found if context.eager_outside_functions() else found.replace("'", "")
