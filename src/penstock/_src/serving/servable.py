"""One loaded version of a model: its signatures, and the session that runs them."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import as_shape
from penstock._src.graph.messages import DecodeError
from penstock._src.graph.tensor_proto import decode
from penstock._src.state.saved_model.model_builder import SavedModelBuilder

_MOST_FILLED = 64 << 20                              # bytes that one value of a request may be repeated to

PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{kind}" for kind in ("predict", "classify", "regress"))
DEFAULT_SIGNATURE = "serving_default"


class Servable:
    """Signatures, and a function of feeds for each set of feeds and fetches that requests use."""

    def __init__(self, session: Any, signatures: Mapping[str, Any], tags: tuple[str, ...] = (),
                 discard: Callable[[], Any] = lambda: None):
        self.signatures = {k: v for k, v in sorted(signatures.items()) if not k.startswith("__saved_model_")}
        self.tags = tags
        self._session, self._discard = session, discard
        self._callables: dict[tuple, Callable] = {}

    def run(self, feeds: Mapping[str, np.ndarray], fetches: tuple[str, ...]) -> list[np.ndarray]:
        """Runs the graph; InvalidArgumentError for feeds that it does not accept."""
        key = (tuple(feeds), fetches)
        call = self._callables.get(key)
        if call is None:
            call = self._callables[key] = self._session.make_callable(list(fetches), list(feeds))
        try:
            return call(*feeds.values())
        except (ValueError, TypeError) as e:
            raise errors.invalid(str(e)) from None

    def check(self) -> None:
        """Compiles every signature that can be served, so that a model with an unsupported op is refused at once."""
        for key, signature in self.signatures.items():
            infos = [*signature.inputs.values(), *signature.outputs.values()]
            if all(info.name for info in infos):
                try:
                    self._session.explain([o.name for o in signature.outputs.values()],
                                          {i.name: None for i in signature.inputs.values()})
                except (ValueError, TypeError, KeyError) as e:
                    raise errors.invalid(f"Signature {key!r} cannot be served: {e}") from None

    def save(self, folder: str) -> None:
        """Writes a SavedModel with the signatures."""
        with self._session.graph.as_default():
            builder = SavedModelBuilder(folder)
            builder.add_meta_graph_and_variables(self._session, list(self.tags or ("serve",)), self.signatures)
            builder.save()

    def close(self) -> None:
        """Releases variables and tables."""
        self._callables.clear()
        self._session.close()
        self._discard()


def input_values(signature: Any, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Feeds by tensor name, from the TensorProtos of a request; InvalidArgumentError if they do not fit the signature."""
    if signature.method_name not in (PREDICT, CLASSIFY, REGRESS):
        raise errors.InternalError(None, None, "Expected prediction signature method_name to be one of "
                                               f"{{{PREDICT}, {CLASSIFY}, {REGRESS}}}. Was: {signature.method_name}")
    sent, wanted = set(given), set(signature.inputs)
    defaults = set(signature.defaults) if hasattr(signature, "defaults") else set()
    if not wanted - defaults <= sent <= wanted:
        raise errors.invalid(
            f"input size does not match signature: {len(sent)}!={len(wanted)} len({{{','.join(sorted(sent))}}}) != "
            f"len({{{','.join(sorted(wanted))}}}). Sent extra: {{{','.join(sorted(sent - wanted))}}}. "
            f"Missing but required: {{{','.join(sorted(wanted - sent - defaults))}}}.")
    protos = {k: given[k] if k in sent else signature.defaults[k] for k in sorted(wanted)}
    return {tensor_name(signature.inputs[k], k): checked(proto, signature.inputs[k], k) for k, proto in protos.items()}


def tensor_name(info: Any, key: str) -> str:
    """The name of the tensor behind a key of a signature."""
    if not info.name:
        raise errors.UnimplementedError(None, None, f"{key!r} is a composite tensor; a signature can be served if its inputs "
                                                    "and outputs are dense.")
    return info.name


def checked(proto: Any, info: Any, key: str) -> np.ndarray:
    """The array in a TensorProto, if its type and shape are those of the signature."""
    try:
        array, dtype = decode(proto, _MOST_FILLED)
    except (ValueError, TypeError, DecodeError) as e:
        raise errors.invalid(f"tensor parsing error: {key}: {e}") from None
    check(array, dtype, info, key)
    return array


def check(array: np.ndarray, dtype: Any, info: Any, key: str) -> None:
    """Compares an input with the signature. The graph would notice too, but with a message about one of its ops."""
    wanted = dtypes.as_dtype(info.dtype)
    if dtype.base_dtype is not wanted.base_dtype:
        raise errors.invalid(f"Expects arg[{key}] to be {wanted.name} but {dtype.name} is provided")
    shape = as_shape(info.tensor_shape)
    if not shape.is_compatible_with(array.shape):
        raise errors.invalid(f"Input {key!r} has shape {list(array.shape)}, but the signature has {shape}.")


def fetched(signature: Any, output_filter: Any = ()) -> dict[str, str]:
    """Tensor names by output key: those in the filter, or all."""
    chosen: dict[str, str] = {}
    for key in output_filter or sorted(signature.outputs):
        if key not in signature.outputs:
            raise errors.invalid(f"output tensor alias not found in signature: {key} Outputs expected to be in the set "
                                 f"{{{','.join(sorted(signature.outputs))}}}.")
        if key in chosen:
            raise errors.invalid(f"duplicate output tensor alias: {key}")
        chosen[key] = tensor_name(signature.outputs[key], key)
    return chosen
