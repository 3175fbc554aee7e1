"""The REST interface: /v1/models/..., metrics and health."""
from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any
from urllib.parse import unquote

from google.protobuf import json_format

from penstock._src.base import dtypes, errors
from penstock._src.graph.tensor_proto import make_tensor_proto
from penstock._src.serving import access, inference, json_tensors
from penstock._src.serving.core import CODE_NAMES, Core
from penstock._src.serving.http1 import Request, Response
from penstock._src.serving.inference import Call
from penstock._src.serving.messages import STATES, pb
from penstock._src.serving.repository import Version
from penstock._src.serving.servable import DEFAULT_SIGNATURE, check, fetched, tensor_name

_PATH = r"(?i)/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?"
_PREDICTION = re.compile(_PATH + r":(classify|regress|predict)")
_STATUS = re.compile(_PATH + r"(?:/(metadata))?")
_LARGE = 64 << 10                                    # bytes of JSON that are parsed on another thread

_STATUS_CODES = {
    "OK": 200, "CANCELLED": 499, "UNKNOWN": 500, "INVALID_ARGUMENT": 400, "DEADLINE_EXCEEDED": 504, "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409, "PERMISSION_DENIED": 403, "UNAUTHENTICATED": 401, "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400, "ABORTED": 409, "OUT_OF_RANGE": 400, "UNIMPLEMENTED": 501, "INTERNAL": 500, "UNAVAILABLE": 503,
    "DATA_LOSS": 500}
_CORS = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "POST, GET",
         "Access-Control-Allow-Headers": "Content-Type"}


class Rest:
    """Answers HTTP requests."""

    def __init__(self, core: Core):
        self._core = core

    async def __call__(self, request: Request) -> Response:
        """Answers one request."""
        health = self._health(request.path)
        if health is not None:
            return health
        started, name, api = time.monotonic(), "", request.method
        error: BaseException | None = None
        try:
            access.authorize(self._core.options.tokens, request.headers.get("authorization", ""))
            if self._core.options.prometheus_path and request.path == self._core.options.prometheus_path:
                return Response(self._core.metrics.page().encode(), content_type="text/plain; version=0.0.4")
            if request.method == "OPTIONS":
                return self._preflight(request)
            spec, method = _parsed(request)
            name, api = spec.name, method.capitalize()
            with self._core.admitted():
                response = Response(await self._answer(spec, method, request.body))
        except errors.OpError as e:
            error, response = e, _failed(e)
        except Exception as e:                       # a bug in the server: this client gets 500, others are not affected
            error, response = e, Response(json_tensors.error_body(f"{type(e).__name__}: {e}"), 500)
        self._core.finished(name, api, "REST", started, error)
        if self._core.options.rest_api_enable_cors_support:
            response.headers.update(_CORS)
        return response

    def _health(self, path: str) -> Response | None:
        """Liveness and readiness; neither needs a token or reveals more than yes or no."""
        if path == "/healthz":
            return Response(b"ok\n", content_type="text/plain")
        if path == "/readyz":
            ready = self._core.repository.ready()
            return Response(b"ok\n" if ready else b"not ready\n", 200 if ready else 503, "text/plain")
        return None

    def _preflight(self, request: Request) -> Response:
        if not re.match("https?://", request.headers.get("origin", "")):
            raise errors.FailedPreconditionError(None, None, "Origin header is missing in CORS preflight")
        return Response(headers=dict(_CORS) if self._core.options.rest_api_enable_cors_support else {})

    async def _answer(self, spec: Any, method: str, body: bytes) -> bytes:
        if method == "metadata":
            return self._metadata(spec)
        if method == "status":
            return _status_text(self._core.status(pb.GetModelStatusRequest(model_spec=spec)))
        prepare = {"predict": self._predict, "classify": self._classify, "regress": self._regress}[method]
        seconds = self._core.options.rest_api_timeout_in_ms / 1000
        if len(body) > _LARGE:
            call, finish = await asyncio.to_thread(prepare, spec, body)
        else:
            call, finish = prepare(spec, body)
        values = await self._core.run(method.capitalize(), call, seconds)
        if sum(v.size for v in values) > _LARGE // 8:
            return await asyncio.to_thread(finish, values)
        return finish(values)

    def _predict(self, spec: Any, body: bytes) -> tuple[Call, Any]:
        document = json_tensors.parse(body)
        spec.signature_name = json_tensors.signature_name(document)
        as_rows = True
        given: dict[str, Any] = {}
        chosen: dict[str, str] = {}

        def make(version: Version) -> Call:
            nonlocal as_rows
            assert version.servable is not None
            key = spec.signature_name or DEFAULT_SIGNATURE
            if key not in version.servable.signatures:
                raise errors.invalid(f'Serving signature name: "{key}" not found in signature def')
            signature = version.servable.signatures[key]
            arrays, as_rows = json_tensors.inputs_of(document, signature.inputs)
            for name, array in arrays.items():
                check(array, dtypes.as_dtype(signature.inputs[name].dtype), signature.inputs[name], name)
            given.update(arrays)
            chosen.update(fetched(signature))
            feeds = {tensor_name(signature.inputs[name], name): array for name, array in arrays.items()}
            return Call(version, feeds, tuple(chosen.values()), lambda values: dict(zip(chosen, values)))

        call = self._core.prepare(spec, make)

        def finish(values: list) -> bytes:
            outputs = call.finish(values)
            if self._core.sampled(spec.name):
                self._core.log("Predict", call, _request(spec, given), _response(call, spec, outputs))
            return json_tensors.predictions(outputs, as_rows)
        return call, finish

    def _classify(self, spec: Any, body: bytes) -> tuple[Call, Any]:
        return self._examples("Classify", spec, body, json_tensors.classifications)

    def _regress(self, spec: Any, body: bytes) -> tuple[Call, Any]:
        return self._examples("Regress", spec, body, json_tensors.regressions)

    def _examples(self, api: str, spec: Any, body: bytes, write: Any) -> tuple[Call, Any]:
        document = json_tensors.parse(body)
        spec.signature_name = json_tensors.signature_name(document)
        kind, _, prepare = inference.METHODS[api]
        request = kind(model_spec=spec)
        json_tensors.fill_examples(document, request.input)
        call = self._core.prepare(spec, lambda version: prepare(version, request, self._core.settings))

        def finish(values: list) -> bytes:
            response = call.finish(values)
            self._core.log(api, call, request, response)
            return write(response.result)
        return call, finish

    def _metadata(self, spec: Any) -> bytes:
        response = self._core.metadata(pb.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"]))
        signatures = pb.SignatureDefMap.FromString(response.metadata["signature_def"].value)
        text = {"model_spec": {"name": response.model_spec.name, "signature_name": "",
                               "version": str(response.model_spec.version.value)},
                "metadata": {"signature_def": json_format.MessageToDict(
                    signatures, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)}}
        return json.dumps(text, indent=1).encode() + b"\n"


def _parsed(request: Request) -> tuple[Any, str]:
    """The ModelSpec and the method in a path; InvalidArgumentError or NotFoundError if the path is unknown."""
    pattern = {"POST": _PREDICTION, "GET": _STATUS}.get(request.method)
    match = pattern.fullmatch(request.path) if pattern is not None else None
    if match is None:
        if not re.match("(?i)/v1/.*", request.path):
            raise errors.NotFoundError(None, None, f"Not found: {request.path}")
        raise errors.invalid(f"Malformed request: {request.method} {request.path}")
    name, version, label, method = match.groups()
    if not name:
        raise errors.invalid("Missing model name in request.")
    spec = pb.ModelSpec(name=unquote(name, errors="replace"))
    if version is not None:
        if int(version[:20]) >= 1 << 63:
            raise errors.invalid(f"Failed to convert version: {version} to numeric.")
        spec.version.value = int(version)
    if label is not None:
        spec.version_label = unquote(label, errors="replace")
    return spec, (method or "status").lower()


def _failed(error: errors.OpError) -> Response:
    return Response(json_tensors.error_body(error.message), _STATUS_CODES[CODE_NAMES[error.error_code]])


def _status_text(response: Any) -> bytes:
    states = {number: name for name, number in STATES.items()}
    return json.dumps({"model_version_status": [
        {"version": str(item.version), "state": states[item.state],
         "status": {"error_code": CODE_NAMES[item.status.error_code], "error_message": item.status.error_message}}
        for item in response.model_version_status]}, indent=1).encode() + b"\n"


def _request(spec: Any, arrays: dict[str, Any]) -> Any:
    """The equivalent PredictRequest of gRPC, for the request log."""
    request = pb.PredictRequest(model_spec=spec)
    for name, array in arrays.items():
        request.inputs[name].CopyFrom(make_tensor_proto(array))
    return request


def _response(call: Call, spec: Any, outputs: dict[str, Any]) -> Any:
    key = spec.signature_name or DEFAULT_SIGNATURE
    response = pb.PredictResponse(model_spec=pb.ModelSpec(name=spec.name, signature_name=key))
    response.model_spec.version.value = call.version.number
    for name, array in outputs.items():
        response.outputs[name].CopyFrom(make_tensor_proto(array))
    return response
