"""A server: loads the models, listens, watches folders, and drains before it stops."""
from __future__ import annotations

import asyncio
import resource
import threading
from typing import Any

import grpc

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.waits import joined
from penstock._src.serving import access, config, json_tensors
from penstock._src.serving.core import Core
from penstock._src.serving.http1 import HttpServer, Limits
from penstock._src.serving.rest import Rest
from penstock._src.serving.rpc import OPTIONS, Services


class ModelServer:
    """Serves models until `stop`. The ports are open when `start` returns, and models that could be loaded are available.

    >>> server = ModelServer(Options(models=(config,), rest_api_port=0))
    >>> server.start()
    >>> server.rest_port
    38211
    """

    def __init__(self, options: config.Options):
        self.options, self.core = options, Core(options)
        self.port: int | None = None
        self.rest_port: int | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="serving", daemon=True)
        self._rpc: grpc.aio.Server | None = None
        self._http: HttpServer | None = None
        self._services: Services | None = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="model-watcher", daemon=True)

    def start(self) -> None:
        """Loads the models, then listens. After a failure, everything is released."""
        try:
            self._start()
        except BaseException:
            self.stop(grace=0)
            raise

    def _start(self) -> None:
        _allow_connections(self.options.max_connections)
        models = self.options.models
        if self.options.model_config_file:
            models = config.read_models(self.options.model_config_file)
        try:
            self.core.configure(models)
        except errors.FailedPreconditionError as e:
            logging.error("%s", e.message)           # labels of versions that do not exist; the models are served
        self._thread.start()
        self._call(self._listen())
        self._watcher.start()

    def stop(self, grace: float | None = None) -> None:
        """Stops listening, answers the pending requests, and unloads the models."""
        grace = self.options.drain_seconds if grace is None else grace
        self._ended.set()
        if self._thread.is_alive():
            self._call(self._drain(grace))
            self._loop.call_soon_threadsafe(self._loop.stop)
            joined(self._thread, lambda: "the thread that answers requests, to end")
        if self._watcher.is_alive():
            joined(self._watcher, lambda: "the thread that looks for new versions of models, to end")
        self.core.close()
        self._loop.close()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _listen(self) -> None:
        options = self.options
        if options.port is not None:
            self._rpc = grpc.aio.server(options=OPTIONS)
            self._services = Services(self.core)
            self._services.register(self._rpc)
            address = f"{options.host}:{options.port}"
            try:
                self.port = (self._rpc.add_insecure_port(address) if options.ssl is None else
                             self._rpc.add_secure_port(address, access.rpc_credentials(options.ssl)))
            except RuntimeError as e:
                raise errors.UnavailableError(None, None, f"Cannot listen at {address}: {e}") from None
            await self._rpc.start()
        if options.rest_api_port is not None:
            limits = Limits(body=options.rest_api_max_body_bytes, connections=options.max_connections)
            self._http = HttpServer(Rest(self.core), limits, json_tensors.error_body)
            tls = None if options.ssl is None else access.http_context(options.ssl)
            self.rest_port = await self._http.start(options.host, options.rest_api_port, tls)

    async def _drain(self, grace: float) -> None:
        if self._services is not None:
            self._services.stop()
        stops = [s.stop(grace) for s in (self._rpc, self._http) if s is not None]
        await asyncio.gather(*stops)

    def _watch(self) -> None:
        """Looks for new versions, and for changes of the configuration file."""
        every = self.options.file_system_poll_wait_seconds
        reread = self.options.model_config_file_poll_wait_seconds
        waited = 0.0
        while every > 0 and not self._ended.wait(every):
            waited += every
            try:
                if self.options.model_config_file and reread and waited >= reread:
                    waited = 0.0
                    self.core.configure(config.read_models(self.options.model_config_file))
                else:
                    self.core.repository.poll()
            except (errors.OpError, OSError) as e:   # the models stay as they are
                logging.error("%s", e)


def _allow_connections(count: int) -> None:
    """Raises the limit of open files, which is 1,024 on many systems, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 256
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
