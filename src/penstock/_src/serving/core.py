"""The logic shared by REST and gRPC: find the version, run the call, count and log."""
from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.io import paths
from penstock._src.serving import config, formats, inference, request_log, warmup
from penstock._src.serving.batching import Batch, Batcher
from penstock._src.serving.config import Options
from penstock._src.serving.inference import Call, Settings
from penstock._src.serving.messages import STATES, pb
from penstock._src.serving.metrics import Metrics
from penstock._src.serving.repository import Repository, Version


def code_name(error: BaseException | None) -> str:
    """The name of an error's status code: OK, NOT_FOUND, ..."""
    if error is None:
        return "OK"
    number = error.error_code if isinstance(error, errors.OpError) else errors.INTERNAL
    return CODE_NAMES[number]


CODE_NAMES = {getattr(errors, n): n for n in (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
    "UNAVAILABLE", "DATA_LOSS")}


_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _on_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _session_threads() -> int:
    """The threads of steps that are not batched. Two for each core would wait for each other, and for Python's lock: every
    step would be slower, and none of them earlier. A step on a GPU leaves its thread's core to others."""
    return 2 * _CORES if _on_gpu() else max(2, _CORES)


class Core:
    """The models of a server, and how their calls run."""

    def __init__(self, options: Options):
        self.options, self.metrics = options, Metrics()
        self.settings = Settings(options.enable_serialization_as_tensor_content, options.enable_signature_method_name_check)
        self.repository = Repository(self._load, options.max_num_load_retries, options.load_retry_interval_seconds,
                                     options.allow_version_labels_for_unavailable_models)
        self._threads = ThreadPoolExecutor(options.session_threads or _session_threads(), "penstock step")
        self._logs: dict[str, request_log.RequestLog] = {}
        self._pending = 0
        self._pending_lock = threading.Lock()

    # -- models -------------------------------------------------------------------------------------------------------
    def configure(self, models: tuple[Any, ...]) -> None:
        """Serves these models from now on (Repository.configure), with their request logs."""
        wanted = {m.name: m.logging_config for m in models if request_log.wanted(m.logging_config)}
        self.repository.configure(models)
        stale = {name: log for name, log in self._logs.items() if name not in wanted}
        self._logs = {name: self._logs.get(name) or request_log.RequestLog(name, c, self.metrics) for name, c in wanted.items()}
        for log in stale.values():
            log.close()

    def _load(self, version: Version) -> None:
        """Loads a version, and warms it up."""
        started = time.monotonic()
        version.servable = servable = formats.load(version.path, self.options.saved_model_tags, self.options.restricted)
        batching = self._batching(version)
        if batching is not None:
            version.batcher = Batcher(servable.run, batching, self._observer(version.name), 1 if _on_gpu() else _CORES)
        if self.options.enable_model_warmup:
            warmup.warm_up(version, self.settings, self.options.num_request_iterations_for_warmup,
                           lambda call: servable.run(call.feeds, call.fetches), self.metrics)
        logging.info("Loaded %s in %.1f s", version.path, time.monotonic() - started)

    def _batching(self, version: Version) -> config.Batching | None:
        """How to batch for a version. With parameters per model, one without a file is not batched."""
        if self.options.batching is None or not self.options.per_model_batching:
            return self.options.batching
        path = paths.join(version.path, "batching_params.pbtxt")
        return config.read_batching(path) if paths.exists(path) else None

    def _observer(self, name: str) -> Callable[[Batch, float, int], None]:
        def observe(batch: Batch, started: float, padding: int) -> None:
            self.metrics.batch_sizes.observe(name, value=batch.rows + padding)
            self.metrics.padding_sizes.observe(name, value=padding)
            for task in batch.tasks:
                self.metrics.queuing_latency.observe(name, value=(started - task.arrived) * 1e6)
        return observe

    # -- requests -----------------------------------------------------------------------------------------------------
    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Counts a request while it is pending; ResourceExhaustedError if there are too many."""
        with self._pending_lock:
            if self._pending >= self.options.max_pending_requests:
                raise errors.ResourceExhaustedError(None, None, f"The server is busy with {self._pending} requests.")
            self._pending += 1
        self.metrics.in_flight.add(by=1)
        try:
            yield
        finally:
            with self._pending_lock:
                self._pending -= 1
            self.metrics.in_flight.add(by=-1)

    def prepare(self, spec: Any, make: Callable[[Version], Call]) -> Call:
        """A call on the version that `spec` requests. It must be passed to `run`, which releases the version."""
        version = self.repository.acquire(spec)
        try:
            return make(version)
        except BaseException:
            self.repository.release(version)
            raise

    async def run(self, api: str, call: Call, seconds: float | None) -> list[np.ndarray]:
        """Runs a call, in a batch if the model has batching; DeadlineExceededError if that takes too long."""
        version, started = call.version, time.monotonic()
        try:
            future: Future = (version.batcher.submit(call.feeds, call.fetches) if version.batcher is not None else
                              self._threads.submit(version.servable.run, call.feeds, call.fetches))
        except BaseException:
            self.repository.release(version)
            raise
        future.add_done_callback(lambda _: self.repository.release(version))     # even if the client has cancelled
        try:
            async with asyncio.timeout(seconds):
                values = await asyncio.wrap_future(future)
        except TimeoutError:
            raise errors.DeadlineExceededError(None, None, "Deadline exceeded before the request was answered.") from None
        self.metrics.runtime_latency.observe(version.name, api, "penstock", value=(time.monotonic() - started) * 1e6)
        if call.examples:
            self.metrics.example_counts.observe(version.name, value=call.examples)
            self.metrics.example_total.add(version.name, by=call.examples)
        return values

    def sampled(self, name: str) -> bool:
        """Whether requests of a model are logged."""
        return name in self._logs

    def log(self, api: str, call: Call, request: Any, response: Any) -> None:
        """Logs a request and its response, if the model has a request log."""
        log = self._logs.get(call.version.name)
        if log is not None:
            servable = call.version.servable
            log.add(api, request, response, servable.tags if servable is not None else ())

    def finished(self, name: str, api: str, entrypoint: str, started: float, error: BaseException | None) -> None:
        """Counts a request that was answered, and writes the access log."""
        micros = (time.monotonic() - started) * 1e6
        status = code_name(error)
        known = name if self.repository.knows(name) else ""       # clients could invent any number of names
        self.metrics.requests.add(known, status)
        if error is None:
            self.metrics.request_latency.observe(known, api, entrypoint, value=micros)
        elif not isinstance(error, errors.OpError):
            logging.error("%s %s of model %s failed", entrypoint, api, name, exc_info=error)
        if self.options.access_log:
            logging.info("%s %s %s %s %.0f us", entrypoint, api, name or "-", status, micros)

    # -- the other methods --------------------------------------------------------------------------------------------
    def metadata(self, request: Any) -> Any:
        """GetModelMetadata."""
        version = self.repository.acquire(request.model_spec)
        try:
            return inference.metadata(version, request)
        finally:
            self.repository.release(version)

    def status(self, request: Any) -> Any:
        """GetModelStatus."""
        response = pb.GetModelStatusResponse()
        for version in self.repository.status(request.model_spec):
            item = response.model_version_status.add(version=version.number, state=STATES[version.state])
            item.status.error_code = 0 if version.error is None else version.error.error_code
            item.status.error_message = "" if version.error is None else version.error.message
        return response

    def reload(self, request: Any) -> Any:
        """HandleReloadConfigRequest: a refused configuration is reported in the response."""
        if not self.options.trusts_clients:
            raise errors.PermissionDeniedError(None, None, "Models are programs: a server that other machines can reach loads "
                                                           "models on request only for clients with tokens or certificates.")
        response = pb.ReloadConfigResponse(status=pb.StatusProto())
        try:
            self.configure(config.model_configs(request.config))
        except errors.OpError as e:
            response.status.error_code, response.status.error_message = e.error_code, e.message
        return response

    def close(self) -> None:
        """Unloads the models, after the pending requests."""
        self._threads.shutdown()
        self.repository.close()
        for log in self._logs.values():
            log.close()
