"""The gRPC services: PredictionService, ModelService, and gRPC's own health protocol."""
from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from penstock._src.base import errors
from penstock._src.serving import access
from penstock._src.serving.core import CODE_NAMES, Core
from penstock._src.serving.inference import METHODS, spec_of
from penstock._src.serving.messages import pb

PREDICTION, MODEL, HEALTH = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService", "grpc.health.v1.Health"
_LARGE = 64 << 10                                    # bytes of a message that are parsed on another thread
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
Handler = Callable[[bytes, Any], Awaitable[bytes]]
OPTIONS = [("grpc.max_receive_message_length", (1 << 31) - 1), ("grpc.max_send_message_length", (1 << 31) - 1),
           ("grpc.so_reuseport", 0)]


class Services:
    """The handlers of all services; requests and responses are bytes, so that large ones are parsed off the event loop."""

    def __init__(self, core: Core):
        self._core = core
        self._ended = asyncio.Event()                # ends watches of health

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the services to a server."""
        predictions = {name: self._prediction(name) for name in METHODS}
        predictions["GetModelMetadata"] = self._simple("GetModelMetadata", pb.GetModelMetadataRequest, self._core.metadata)
        models = {"GetModelStatus": self._simple("GetModelStatus", pb.GetModelStatusRequest, self._core.status),
                  "HandleReloadConfigRequest": self._simple("ReloadConfig", pb.ReloadConfigRequest, self._core.reload, True)}
        for service, methods in ((PREDICTION, predictions), (MODEL, models)):
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {
                name: grpc.unary_unary_rpc_method_handler(handler) for name, handler in methods.items()}),))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(HEALTH, {
            "Check": grpc.unary_unary_rpc_method_handler(self._check),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch)}),))

    def stop(self) -> None:
        """Cancels work that would not end by itself."""
        self._ended.set()

    def _prediction(self, api: str) -> Handler:
        kind, _, prepare = METHODS[api]

        async def answer(data: bytes, context: Any, seen: list[str]) -> bytes:
            def prepared() -> Any:
                request = _message(kind, data)
                spec = spec_of(request)
                seen.append(spec.name)
                return request, self._core.prepare(spec, lambda version: prepare(version, request, self._core.settings))

            request, call = await asyncio.to_thread(prepared) if len(data) > _LARGE else prepared()
            values = await self._core.run(api, call, context.time_remaining())

            def finished() -> bytes:
                response = call.finish(values)
                self._core.log(api, call, request, response)
                return response.SerializeToString()
            return await asyncio.to_thread(finished) if sum(v.nbytes for v in values) > _LARGE else finished()
        return self._guarded(api, answer)

    def _simple(self, api: str, kind: Any, method: Callable[[Any], Any], slow: bool = False) -> Handler:
        async def answer(data: bytes, context: Any, seen: list[str]) -> bytes:
            request = _message(kind, data)
            seen.append(request.model_spec.name if hasattr(request, "model_spec") else "")
            response = await asyncio.to_thread(method, request) if slow else method(request)
            return response.SerializeToString()
        return self._guarded(api, answer)

    def _guarded(self, api: str, answer: Callable[[bytes, Any, list[str]], Awaitable[bytes]]) -> Handler:
        """Checks tokens and limits, counts, and turns errors into status codes."""
        async def handle(data: bytes, context: Any) -> bytes:
            started, seen = time.monotonic(), [""]
            try:
                headers = dict(context.invocation_metadata() or ())
                access.authorize(self._core.options.tokens, str(headers.get("authorization", "")))
                with self._core.admitted():
                    result = await answer(data, context, seen)
            except errors.OpError as e:
                self._core.finished(seen[-1], api, "GRPC", started, e)
                await context.abort(grpc.StatusCode[CODE_NAMES[e.error_code]], e.message)
            except Exception as e:                   # a bug in the server: this client gets INTERNAL, others are not affected
                self._core.finished(seen[-1], api, "GRPC", started, e)
                await context.abort(grpc.StatusCode.INTERNAL, f"{type(e).__name__}: {e}")
            self._core.finished(seen[-1], api, "GRPC", started, None)
            return result
        return handle

    # -- health -------------------------------------------------------------------------------------------------------
    def _health(self, service: str) -> int:
        """Of the server (no name, or the name of a service), or of a model."""
        if service in ("", PREDICTION, MODEL):
            return _SERVING if self._core.repository.ready() else _NOT_SERVING
        if not self._core.repository.knows(service):
            return _SERVICE_UNKNOWN
        return _SERVING if self._core.repository.ready(service) else _NOT_SERVING

    async def _check(self, data: bytes, context: Any) -> bytes:
        status = self._health(_message(pb.HealthCheckRequest, data).service)
        if status == _SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return pb.HealthCheckResponse(status=status).SerializeToString()

    async def _watch(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        service, last = _message(pb.HealthCheckRequest, data).service, None
        while not self._ended.is_set():
            status = self._health(service)
            if status != last:
                last = status
                yield pb.HealthCheckResponse(status=status).SerializeToString()
            try:
                async with asyncio.timeout(1.0):
                    await self._ended.wait()
            except TimeoutError:
                continue


def _message(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as e:
        raise errors.InternalError(None, None, f"Exception deserializing request: {e}") from None
