"""SignatureDefs: the named inputs and outputs of a SavedModel, and its serving method."""
from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import SignatureDef

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.node import Tensor
from penstock._src.graph.tensor_proto import make_tensor_proto
from penstock._src.state.saved_model import names
from penstock._src.state.saved_model.tensor_info import (
    build_tensor_info,
    build_tensor_info_from_op,
    get_element_from_tensor_info,
)

_STRING, _FLOAT = dtypes.string.enum, dtypes.float32.enum


def _named(name: str) -> list[str]:
    return [f"saved_model.{name}", f"saved_model.signature_def_utils.{name}"]


@export(v1=_named("build_signature_def"))
def build_signature_def(inputs: Any = None, outputs: Any = None, method_name: str | None = None, defaults: Any = None) -> Any:
    """A SignatureDef from TensorInfos by name; `defaults` has constant tensors for inputs that calls may leave out."""
    out = SignatureDef()
    for given, field in ((inputs, out.inputs), (outputs, out.outputs)):
        for key, info in (given or {}).items():
            field[key].CopyFrom(info)
    if method_name is not None:
        out.method_name = method_name
    for key, value in (defaults or {}).items():
        out.defaults[key].CopyFrom(make_tensor_proto(constant_value(value), value.dtype))
    return out


def _checked(info: Any, wanted: int, what: str) -> Any:
    if info.dtype != wanted:
        raise ValueError(f"{what} must be a {'string' if wanted == _STRING else 'float'} Tensor.")
    return info


def _examples(examples: Any, what: str) -> Any:
    if examples is None:
        raise ValueError(f"{what} examples cannot be None.")
    if not isinstance(examples, Tensor):
        raise ValueError(f"{what} examples must be a string Tensor.")
    return _checked(build_tensor_info(examples), _STRING, f"{what} examples")


@export(v1=_named("regression_signature_def"))
def regression_signature_def(examples: Any, predictions: Any) -> Any:
    """The signature of a regression: serialized examples in, floats out."""
    first = _examples(examples, "Regression")
    if predictions is None:
        raise ValueError("Regression predictions cannot be None.")
    out = _checked(build_tensor_info(predictions), _FLOAT, "Regression output")
    return build_signature_def({names.REGRESS_INPUTS: first}, {names.REGRESS_OUTPUTS: out}, names.REGRESS_METHOD_NAME)


@export(v1=_named("classification_signature_def"))
def classification_signature_def(examples: Any, classes: Any, scores: Any) -> Any:
    """The signature of a classification: serialized examples in, classes and scores out."""
    first = _examples(examples, "Classification")
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs[names.CLASSIFY_OUTPUT_CLASSES] = _checked(build_tensor_info(classes), _STRING, "Classification classes")
    if scores is not None:
        outputs[names.CLASSIFY_OUTPUT_SCORES] = _checked(build_tensor_info(scores), _FLOAT, "Classification scores")
    return build_signature_def({names.CLASSIFY_INPUTS: first}, outputs, names.CLASSIFY_METHOD_NAME)


@export(v1=_named("predict_signature_def"))
def predict_signature_def(inputs: dict, outputs: dict) -> Any:
    """The signature of any function of tensors.

    >>> tf.saved_model.predict_signature_def({"x": x}, {"y": y})
    """
    for given, what in ((inputs, "inputs"), (outputs, "outputs")):
        if not given:
            raise ValueError(f"Prediction {what} cannot be None or empty.")
    return build_signature_def({k: build_tensor_info(t) for k, t in inputs.items()},
                               {k: build_tensor_info(t) for k, t in outputs.items()}, names.PREDICT_METHOD_NAME)


@export(v1=_named("is_valid_signature"))
def is_valid_signature(signature_def: Any) -> bool:
    """Whether a SignatureDef is valid for its serving method."""
    if signature_def is None:
        return False
    inputs, outputs = signature_def.inputs, signature_def.outputs
    if signature_def.method_name == names.PREDICT_METHOD_NAME:
        return bool(inputs) and bool(outputs)
    if signature_def.method_name == names.REGRESS_METHOD_NAME:
        return _are(inputs, {names.REGRESS_INPUTS: _STRING}, True) and _are(outputs, {names.REGRESS_OUTPUTS: _FLOAT}, True)
    if signature_def.method_name == names.CLASSIFY_METHOD_NAME:
        allowed = {names.CLASSIFY_OUTPUT_CLASSES: _STRING, names.CLASSIFY_OUTPUT_SCORES: _FLOAT}
        return _are(inputs, {names.CLASSIFY_INPUTS: _STRING}, True) and bool(outputs) and _are(outputs, allowed, False)
    return False


def _are(infos: Any, types: dict[str, int], all_of_them: bool) -> bool:
    given = set(infos)
    return (given == set(types) if all_of_them else given <= set(types)) and all(infos[k].dtype == types[k] for k in given)


def op_signature_def(op: Any, key: str) -> Any:
    """A signature that names an operation."""
    return build_signature_def(outputs={key: build_tensor_info_from_op(op)})


def load_op_from_signature_def(signature_def: Any, key: str, import_scope: str | None = None) -> Any:
    """The operation that a signature names."""
    try:
        return get_element_from_tensor_info(signature_def.outputs[key], import_scope=import_scope)
    except KeyError:
        raise errors.NotFoundError(None, None, f"The {key} could not be found in the graph.") from None
