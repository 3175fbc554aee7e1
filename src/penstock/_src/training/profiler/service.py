"""tf.profiler.experimental.server and client: recordings of a program that runs, requested by another process over gRPC.

The service has TensorFlow's names and messages. It listens on the loopback address only, because any client can slow the
program down: use a tunnel for other machines. It writes no file that a request names; the client writes the files of the
response.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import tempfile
import threading
import time
from typing import Any

import grpc
from google.protobuf import descriptor_pool

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.graph.messages import declare
from penstock._src.io import paths
from penstock._src.training.profiler import sampling

_SERVICE = "tensorflow.ProfilerService"
_LONGEST = 60 * 60                         # seconds of one recording
_EXTRA = 60.0                              # seconds that an answer may take after them
_pb = declare("penstock/profiler_service.proto", "penstock.profiler", descriptor_pool.Default(), {
    "ProfileOptions": "uint32 host_tracer_level = 2; uint32 device_tracer_level = 3; uint32 python_tracer_level = 4",
    "ProfileRequest": "uint64 duration_ms = 1; uint64 max_events = 2; repeated string tools = 3; ProfileOptions opts = 4; "
                      "string repository_root = 5; string session_id = 6; string host_name = 7",
    "ProfileToolData": "string name = 1; bytes data = 2",
    "ProfileResponse": "repeated ProfileToolData tool_data = 6; bool empty_trace = 7",
    "MonitorRequest": "uint64 duration_ms = 1; int32 monitoring_level = 2; bool timestamp = 3",
    "MonitorResponse": "string data = 1",
})
_TOOLS = ("trace.json.gz", "advice.txt")   # how the files of a recording end
_servers: list[Any] = []
_lock = threading.Lock()


@export(v2=["profiler.experimental.server.start"])
def start(port: int) -> None:
    """Starts a profiler server on this machine: `tf.profiler.experimental.client.trace` records this program from another one.

    Args:
        port: Port to listen on, at the loopback address.

    Raises:
        UnavailableError: if the port is taken.
    """
    serve(port)


def serve(port: int) -> tuple[Any, int]:
    """A running server, and its port: any free one for 0."""
    threads = concurrent.futures.ThreadPoolExecutor(2, "penstock profiler server")
    server = grpc.server(threads, options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {
        "Profile": _method(_profile, "ProfileRequest"), "Monitor": _method(_monitor, "MonitorRequest")}),))
    try:
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
    except RuntimeError as e:
        raise errors.UnavailableError(None, None, f"The profiler server cannot listen on port {port}: {e}") from None
    server.start()
    with _lock:
        _servers.append(server)                # as long as the program runs
    return server, bound


def _method(handler: Any, request: str) -> Any:
    return grpc.unary_unary_rpc_method_handler(handler, _pb[request].FromString, lambda m: m.SerializeToString())


def _recorded(request: Any, context: Any) -> list[pathlib.Path]:
    """Records for the requested time; returns the files, in a folder that the caller removes."""
    seconds = request.duration_ms / 1e3
    if not 0 < seconds <= _LONGEST:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"duration_ms must be between 1 and {_LONGEST * 1000}")
    levels = getattr(request, "opts", None)
    folder = tempfile.mkdtemp(prefix="penstock_profile_")
    try:
        sampling.start(folder, sampling.ProfilerOptions(python_tracer_level=levels.python_tracer_level if levels else 0))
    except errors.AlreadyExistsError as e:
        os.rmdir(folder)
        context.abort(grpc.StatusCode.ALREADY_EXISTS, e.message)
    time.sleep(seconds)
    sampling.stop()
    return sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file())


def _taken(files: list[pathlib.Path]) -> dict[str, bytes]:
    """The contents of files by name; the files and their folders are removed."""
    found = {p.name: p.read_bytes() for p in files}
    for path in files:
        path.unlink()
    for folder in [files[0].parent, *list(files[0].parents)[1:4]]:
        folder.rmdir()
    return found


def _profile(request: Any, context: Any) -> Any:
    found = _taken(_recorded(request, context))
    data = [_pb["ProfileToolData"](name=tool, data=content) for name, content in found.items() for tool in _TOOLS
            if name.endswith(tool)]
    return _pb["ProfileResponse"](tool_data=data, empty_trace=not data)


def _monitor(request: Any, context: Any) -> Any:
    found = _taken(_recorded(request, context))
    text = next(content for name, content in found.items() if name.endswith("advice.txt")).decode()
    stamp = time.strftime("Timestamp: %H:%M:%S\n") if request.timestamp else ""
    return _pb["MonitorResponse"](data=stamp + text)


def _call(address: str, method: str, request: Any, answer: str, seconds: float) -> Any:
    target = address.removeprefix("grpc://")
    with grpc.insecure_channel(target, options=[("grpc.max_receive_message_length", (1 << 31) - 1)]) as channel:
        call = channel.unary_unary(f"/{_SERVICE}/{method}", lambda m: m.SerializeToString(), _pb[answer].FromString)
        try:
            return call(request, timeout=seconds + _EXTRA)
        except grpc.RpcError as e:
            code, why = (e.code().name, e.details()) if isinstance(e, grpc.Call) else ("UNKNOWN", e)
            kind = {"INVALID_ARGUMENT": errors.InvalidArgumentError, "ALREADY_EXISTS": errors.AlreadyExistsError}.get(
                code, errors.UnavailableError)
            raise kind(None, None, f"Profiling {target} failed: {code}: {why}") from None


@export(v2=["profiler.experimental.client.trace"])
def trace(service_addr: str, logdir: Any, duration_ms: int, worker_list: str = "", num_tracing_attempts: int = 3,
          options: Any = None) -> None:
    """Records other programs, and writes the traces below a folder.

    Args:
        service_addr: Addresses of profiler servers, separated by commas: `grpc://localhost:6009`.
        logdir: Folder for the traces, that TensorBoard shows.
        duration_ms: How long to record.
        worker_list: Unused: it is for TPUs.
        num_tracing_attempts: How often a server is tried.
        options: A `ProfilerOptions`.

    Raises:
        InvalidArgumentError: if `duration_ms` is out of range.
        UnavailableError: if a server does not answer.
    """
    level = getattr(options, "python_tracer_level", 0)
    request = _pb["ProfileRequest"](duration_ms=duration_ms, opts=_pb["ProfileOptions"](python_tracer_level=level))
    folder = os.path.join(os.fspath(logdir), "plugins", "profile", time.strftime("%Y_%m_%d_%H_%M_%S"))
    for address in filter(None, service_addr.split(",")):
        answer = _attempted(address, request, duration_ms / 1e3, max(1, num_tracing_attempts))
        paths.makedirs(folder)
        host = address.removeprefix("grpc://").replace(":", "_").replace("/", "_")
        for tool in answer.tool_data:
            if tool.name in _TOOLS:                    # no path chosen by a server
                paths.write_atomically(paths.join(folder, f"{host}.{tool.name}"), tool.data)


def _attempted(address: str, request: Any, seconds: float, attempts: int) -> Any:
    for _ in range(attempts - 1):
        with contextlib.suppress(errors.UnavailableError):
            return _call(address, "Profile", request, "ProfileResponse", seconds)
    return _call(address, "Profile", request, "ProfileResponse", seconds)


@export(v2=["profiler.experimental.client.monitor"])
def monitor(service_addr: str, duration_ms: int, level: int = 1) -> str:
    """A summary of a running program: the share of time in which it waits for input, and advice.

    Args:
        service_addr: Address of a profiler server: `grpc://localhost:6009`.
        duration_ms: How long to record.
        level: 1, or 2 for more detail; both are answered alike.

    Returns:
        A text of a few lines.
    """
    request = _pb["MonitorRequest"](duration_ms=duration_ms, monitoring_level=level)
    return _call(service_addr, "Monitor", request, "MonitorResponse", duration_ms / 1e3).data
