"""From a layer class to the function that makes such a layer and applies it: `Dense` to `dense`."""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export, with_sections

_P = inspect.Parameter


def arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, from its `locals()`."""
    found = {k: v for k, v in given.items() if k not in ("self", "__class__", "kwargs")}
    return {**found, **given.get("kwargs", {})}


_CALL_ARGUMENTS = {
    "inputs": "Tensor that the layer is applied to.",
    "training": "Whether the layer is used for training: a boolean, or a tensor of one.",
    "reuse": "Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.",
}


def _documented(doc: str, cls: type, signature: inspect.Signature) -> str:
    """`doc` with the parameters: those of the class in the words of its docstring, then its example."""
    of_class = inspect.cleandoc(cls.__doc__ or "").partition("Args:\n")[2]
    entries = {e.partition(":")[0]: e for e in re.split(r"\n    (?=\*{0,2}\w+: )", of_class.partition("\n\n")[0][4:])}
    entries |= {k: f"{k}: {v}" for k, v in _CALL_ARGUMENTS.items()}
    arguments = "\n".join(f"    {entries[p]}" for p in signature.parameters if p in entries)
    return with_sections(doc, f"Args:\n{arguments}\n\nReturns:\n    The layer's output.")


def function_of(cls: type, name: str, doc: str, *, variables: bool = True, call: dict[str, Any] | None = None) -> Callable:
    """The function `name(inputs, …)`: the arguments of the class, those of the call, and `reuse` for layers with variables."""
    own = [p for p in inspect.signature(cls).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    call = call or {}
    at_call = [_P(k, _P.POSITIONAL_OR_KEYWORD, default=v) for k, v in call.items()]
    last = [p for p in own if p.name in ("trainable", "name")] if call else []
    own = [p for p in own if p not in last]
    reuse = [_P("reuse", _P.POSITIONAL_OR_KEYWORD, default=None)] if variables else []
    if name == "batch_normalization":          # `reuse` precedes the later arguments
        late = [p for p in own if p.name in ("renorm", "renorm_clipping", "renorm_momentum", "fused", "virtual_batch_size",
                                             "adjustment")]
        own = [p for p in own if p not in late]
        reuse += late
    signature = inspect.Signature([_P("inputs", _P.POSITIONAL_OR_KEYWORD), *own, *at_call, *last, *reuse])

    def apply(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        inputs = given.pop("inputs")
        at = {k: given.pop(k) for k in call}
        if variables:
            given.update(_reuse=given.pop("reuse"), _scope=given.get("name"))
        return cls(**given)(inputs, **at)

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = cls.__module__
    apply.__doc__ = _documented(doc, cls, signature)
    apply.__signature__ = signature                        # type: ignore[attr-defined]
    export.value(apply, v1=[f"layers.{name}"])
    return apply
