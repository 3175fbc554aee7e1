"""From requests to steps, and from their results to responses.

Each method of PredictionService has a function here that turns its request into a `Call`. The function finds the version and
signature, and checks the inputs; the Call also writes the answer. The caller runs it, maybe in a batch. Messages of
errors are TensorFlow Serving's where clients are known to match on them.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.graph.tensor_proto import listed_proto, make_tensor_proto
from penstock._src.serving.messages import SIGNATURE_DEF_MAP, pb
from penstock._src.serving.servable import (
    CLASSIFY,
    DEFAULT_SIGNATURE,
    REGRESS,
    Servable,
    fetched,
    input_values,
    tensor_name,
)


@dataclass
class Call:
    """A step of a version. `finish` makes the response from what was fetched."""
    version: Any                                     # as acquired from the repository; running the call releases it
    feeds: dict[str, np.ndarray]
    fetches: tuple[str, ...]
    finish: Callable[[list[np.ndarray]], Any]
    examples: int = 0


@dataclass(frozen=True)
class Settings:
    """Options of the server that change answers."""
    tensor_content: bool = False
    check_method_names: bool = False


def predict(version: Any, request: Any, settings: Settings) -> Call:
    """Tensors in, tensors out."""
    key, signature = prediction_signature(version.servable, request.model_spec)
    feeds = input_values(signature, request.inputs)
    chosen = fetched(signature, request.output_filter)

    def finish(values: list[np.ndarray]) -> Any:
        response = pb.PredictResponse(model_spec=_spec(version, key))
        write = make_tensor_proto if settings.tensor_content else listed_proto
        for name, value in zip(chosen, values, strict=True):
            response.outputs[name].CopyFrom(write(value))
        return response
    return Call(version, feeds, tuple(chosen.values()), finish)


def prediction_signature(servable: Servable, spec: Any) -> tuple[str, Any]:
    """The signature of a predict request, and its name."""
    key, signature = _signature(servable, spec)
    if signature is None:
        raise errors.FailedPreconditionError(None, None, f'Serving signature key "{key}" not found.')
    return key, signature


def classify(version: Any, request: Any, settings: Settings) -> Call:
    """Examples in, labels and scores out."""
    key, signature = _required(version.servable, request.model_spec)
    source, chosen = _classification(signature, settings)
    rows = _examples(request.input)

    def finish(values: list[np.ndarray]) -> Any:
        result = _classified(dict(zip(chosen, values, strict=True)), len(rows))
        return pb.ClassificationResponse(model_spec=_spec(version, key), result=result)
    return Call(version, {source: rows}, tuple(chosen.values()), finish, len(rows))


def regress(version: Any, request: Any, settings: Settings) -> Call:
    """Examples in, numbers out."""
    key, signature = _required(version.servable, request.model_spec)
    source, target = _regression(signature, settings)
    rows = _examples(request.input)

    def finish(values: list[np.ndarray]) -> Any:
        return pb.RegressionResponse(model_spec=_spec(version, key), result=_regressed(values[0], len(rows)))
    return Call(version, {source: rows}, (target,), finish, len(rows))


def multi_inference(version: Any, request: Any, settings: Settings) -> Call:
    """Several classifications and regressions of the same examples, in one step."""
    rows = _examples(request.input)
    feeds: dict[str, np.ndarray] = {}
    fetches: list[str] = []
    parts: list[tuple[str, list[str] | None, slice]] = []
    seen: set[str] = set()
    for task in request.tasks:
        if task.model_spec.name != request.tasks[0].model_spec.name:
            raise errors.invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        key, signature = _signature(version.servable, task.model_spec)
        if signature is None:
            raise errors.invalid(f"Requested signature not found in model graph: {key}")
        if key in seen:
            raise errors.invalid(f"Duplicate evaluation of signature: {key}")
        seen.add(key)
        names: list[str] | None = None
        if task.method_name == CLASSIFY:
            source, chosen = _classification(signature, settings)
            names, targets = list(chosen), list(chosen.values())
        elif task.method_name == REGRESS:
            source, target = _regression(signature, settings)
            targets = [target]
        else:
            raise errors.UnimplementedError(None, None, f"Unsupported signature method_name: {task.method_name}")
        feeds[source] = rows
        parts.append((key, names, slice(len(fetches), len(fetches) + len(targets))))
        fetches += targets

    def finish(values: list[np.ndarray]) -> Any:
        response = pb.MultiInferenceResponse()
        for key, names, part in parts:
            result = response.results.add(model_spec=_spec(version, key))
            if names is None:
                result.regression_result.CopyFrom(_regressed(values[part][0], len(rows)))
            else:
                result.classification_result.CopyFrom(_classified(dict(zip(names, values[part])), len(rows)))
        return response
    return Call(version, feeds, tuple(fetches), finish, len(rows))


def metadata(version: Any, request: Any) -> Any:
    """The signatures of a version."""
    if not request.metadata_field:
        raise errors.invalid("GetModelMetadataRequest must specify at least one metadata_field")
    for name in request.metadata_field:
        if name != "signature_def":
            raise errors.invalid(f"Metadata field {name} is not supported")
    response = pb.GetModelMetadataResponse(model_spec=_spec(version, ""))
    packed = response.metadata["signature_def"]
    packed.type_url = SIGNATURE_DEF_MAP
    packed.value = signature_map(version.servable).SerializeToString()
    return response


def signature_map(servable: Servable) -> Any:
    """All signatures, as one message."""
    found = pb.SignatureDefMap()
    for key, signature in servable.signatures.items():
        found.signature_def[key].CopyFrom(signature)
    return found


def _spec(version: Any, signature_name: str) -> Any:
    spec = pb.ModelSpec(name=version.name, signature_name=signature_name)
    spec.version.value = version.number
    return spec


def _signature(servable: Servable, spec: Any) -> tuple[str, Any]:
    key = spec.signature_name or DEFAULT_SIGNATURE
    return key, servable.signatures.get(key)


def _required(servable: Servable, spec: Any) -> tuple[str, Any]:
    key, signature = _signature(servable, spec)
    if signature is None:
        raise errors.invalid(f"No signature was found with the name: {key}")
    return key, signature


def _examples(given: Any) -> np.ndarray:
    """Serialized examples. A context is merged with each by concatenation, which is how messages merge."""
    kind = given.WhichOneof("kind")
    items = list(getattr(given, kind).examples) if kind else []
    if not items:
        raise errors.invalid("Input is empty.")
    if kind == "example_list_with_context":
        context = given.example_list_with_context.context
        items = [context + item for item in items]
    rows = np.empty(len(items), object)
    rows[:] = items
    return rows


def _classification(signature: Any, settings: Settings) -> tuple[str, dict[str, str]]:
    """The tensor that takes examples, and those of classes and scores, as far as the signature has them."""
    source = _single_input(signature, CLASSIFY, "classification", settings)
    if len(signature.outputs) not in (1, 2):
        raise errors.invalid(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    chosen = {k: tensor_name(signature.outputs[k], k) for k in ("classes", "scores") if k in signature.outputs}
    if not chosen:
        raise errors.invalid('Expected classification signature outputs to contain at least one of "classes" or "scores". '
                             f"Signature was: {signature}")
    return source, chosen


def _regression(signature: Any, settings: Settings) -> tuple[str, str]:
    source = _single_input(signature, REGRESS, "regression", settings)
    if len(signature.outputs) != 1:
        raise errors.invalid("Expected one output Tensor.")
    if "outputs" not in signature.outputs:
        raise errors.invalid(f"No regression outputs found in SignatureDef: {signature}")
    return source, tensor_name(signature.outputs["outputs"], "outputs")


def _single_input(signature: Any, method: str, what: str, settings: Settings) -> str:
    """The tensor that takes examples. Signatures of 2.x always say that they predict, so the method's name is optional."""
    if settings.check_method_names and signature.method_name != method:
        raise errors.invalid(f"Expected {what} signature method_name to be {method}. Was: {signature.method_name}")
    if len(signature.inputs) != 1:
        raise errors.invalid("Expected one input Tensor.")
    if "inputs" not in signature.inputs:
        raise errors.invalid(f"No {what} inputs found in SignatureDef: {signature}")
    return tensor_name(signature.inputs["inputs"], "inputs")


def _classified(values: dict[str, np.ndarray], rows: int) -> Any:
    for what, array, kind in ((w, values.get(w), k) for w, k in (("classes", object), ("scores", np.float32))):
        if array is None:
            continue
        if array.ndim != 2:
            raise errors.invalid(f"Expected Tensor shape: [batch_size num_classes] but got {list(array.shape)}")
        if array.dtype != kind:
            raise errors.invalid(f"Expected {what} Tensor of {'DT_STRING' if kind is object else 'DT_FLOAT'}. "
                                 f"Got: {array.dtype}")
        if len(array) != rows:
            raise errors.invalid(f"Expected {what} output batch size of {rows}. Got: {len(array)}")
    if len({array.shape[1] for array in values.values()}) > 1:
        raise errors.invalid("Tensors class and score should match in dim_size(1). Got "
                             f"{values['classes'].shape[1]} vs. {values['scores'].shape[1]}")
    result = pb.ClassificationResult()
    listed = {k: v.tolist() for k, v in values.items()}
    width = next(iter(values.values())).shape[1]
    for i in range(rows):
        classes = result.classifications.add().classes
        for c in range(width):
            made = classes.add()
            if "classes" in listed:
                made.label = listed["classes"][i][c]
            if "scores" in listed:
                made.score = listed["scores"][i][c]
    return result


def _regressed(array: np.ndarray, rows: int) -> Any:
    if array.ndim != 1 and not (array.ndim == 2 and array.shape[1] == 1):
        raise errors.invalid("Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
                             f"{list(array.shape)}")
    if len(array) != rows:
        raise errors.invalid(f"Input batch size did not match output batch size: {rows} vs. {len(array)}")
    if array.dtype != np.float32:
        raise errors.invalid(f"Expected output Tensor of DT_FLOAT.  Got: {array.dtype}")
    result = pb.RegressionResult()
    for value in array.ravel().tolist():
        result.regressions.add(value=value)
    return result


METHODS: dict[str, tuple[Any, Any, Callable[[Any, Any, Settings], Call]]] = {
    "Predict": (pb.PredictRequest, pb.PredictResponse, predict),
    "Classify": (pb.ClassificationRequest, pb.ClassificationResponse, classify),
    "Regress": (pb.RegressionRequest, pb.RegressionResponse, regress),
    "MultiInference": (pb.MultiInferenceRequest, pb.MultiInferenceResponse, multi_inference),
}
"""The methods of PredictionService: their requests, responses, and functions to calls."""


def spec_of(request: Any) -> Any:
    """The model that a request is for."""
    if not hasattr(request, "tasks"):
        return request.model_spec
    if not request.tasks or not request.tasks[0].model_spec.name:
        raise errors.invalid("Found ModelSpec with an empty model name.")
    return request.tasks[0].model_spec
