"""Throughput of `penstock serve` with batching at a limit of the latency: one image or text per request, more and more clients.

    PYTHONPATH=src python benchmarks/gpu/serving.py [--models resnet50 bert] [--limit 50] [--seconds 2] [--prepare 12] \
        [--budget 110] [--small]

penstock writes the models itself (random weights). Each has a server process, with buckets of powers of two; clients are
coroutines of four other processes, each with one request at a time. All models are written, loaded and prepared at the same
time, and measured one after the other. To prepare, every bucket is requested for `--prepare` seconds together, so that its CUDA
graph exists before the measurement. Where grpc is not installed, the same requests are parsed, batched and answered in this
process, without a socket, one model after the other; the first line says which.

Each phase prints a line with the seconds since the start: what each bucket takes; for each number of clients the requests per
second, p50 and p99, the rows of an average batch, and the best throughput so far whose p99 is within the limit. The likeliest
number of clients is measured first; those for which there is no time are left out. `--budget` seconds after the start
everything ends, with what was found until then. `--small` takes models of few layers and small batches, to try the program
without a GPU.
"""
import argparse
import asyncio
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
BUCKETS = {"resnet50": 64, "bert": 32}
CLIENTS, SMALL = [64, 128, 32, 256, 16, 1], [4, 8, 1]      # the likeliest first
STARTED: list[subprocess.Popen] = []         # what ends with this program
KEPT = 0.4                          # of the time, for the measurements
GRPC = importlib.util.find_spec("grpc") is not None
ROWS = "batching_session:processed_batch_size"
BEGAN = time.monotonic()


def say(text: str) -> None:
    """A line with the seconds since the start."""
    print(f"[{time.monotonic() - BEGAN:5.1f} s] {text}", flush=True)


def started(*args: Any, **kwargs: Any) -> subprocess.Popen:
    """A process."""
    STARTED.append(subprocess.Popen(*args, **kwargs))
    return STARTED[-1]


def make(name: str, folder: str, small: str) -> None:
    """Writes the SavedModel, in a separate process."""
    import serving

    import penstock
    sys.modules["tensorflow"] = penstock
    serving.LAYERS = 1 if small else serving.LAYERS
    serving.make(name, folder)


def making(name: str, folder: str, small: bool) -> subprocess.Popen:
    """A process that writes the SavedModel, and does not use the GPU."""
    return started([sys.executable, __file__, "--make", name, folder, "small" if small else ""],
                            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


def sizes_of(name: str) -> list[int]:
    """The buckets."""
    return [2 ** i for i in range(BUCKETS[name].bit_length())]


def batching(name: str) -> str:
    return (f"max_batch_size {{ value: {BUCKETS[name]} }} batch_timeout_micros {{ value: 1000 }} "
            "num_batch_threads { value: 2 } max_enqueued_batches { value: 1000 } " +
            "".join(f"allowed_batch_sizes: {n} " for n in sizes_of(name)))


def message(name: str, rows: int = 1) -> bytes:
    """A request."""
    from serving import shape_of

    from penstock._src.graph.tensor_proto import make_tensor_proto
    from penstock._src.serving.messages import pb
    shape, dtype = shape_of(name)
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name=name))
    request.inputs["x"].CopyFrom(make_tensor_proto((np.random.default_rng(0).random((rows, *shape)) * 100).astype(dtype)))
    return request.SerializeToString()


# -- asking ----------------------------------------------------------------------------------------------------------------
Ask = Callable[[bytes], Awaitable]


async def load(call: Ask, data: bytes, clients: int, seconds: float) -> list[float]:
    """The latencies of closed loops that ask for a while."""
    times: list[float] = []
    end = time.monotonic() + seconds

    async def work() -> None:
        while (begun := time.monotonic()) < end:
            await call(data)
            times.append(time.monotonic() - begun)
    await asyncio.gather(*(work() for _ in range(clients)))
    return times


async def prepare(call: Ask, requests: list[bytes], seconds: float) -> list[float]:
    """Asks for full batches of each bucket in turns, as long as there is time; the last latency of each bucket."""
    end, last = time.monotonic() + seconds, [0.0] * len(requests)
    while time.monotonic() < end:
        for i, data in enumerate(requests):
            if time.monotonic() < end:
                last[i] = (await load(call, data, 2, 0.3))[-1]
    return last


async def ask(port: str, *files: str) -> None:
    """A process of clients, which needs nothing but grpc: reads numbers of clients and seconds, and prints latencies."""
    import grpc
    from serving import LIMIT, METHOD
    requests = [pathlib.Path(f).read_bytes() for f in files]
    async with grpc.aio.insecure_channel(f"localhost:{port}", LIMIT) as channel:
        method = channel.unary_unary(METHOD)

        def call(given: bytes) -> Awaitable:
            return method(given, timeout=120)
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            clients, seconds = int(line.split()[0]), float(line.split()[1])
            found = await load(call, requests[0], clients, seconds) if clients else await prepare(call, requests, seconds)
            print(json.dumps(found), flush=True)


class Remote:
    """A server process, and processes that ask it."""

    def __init__(self, name: str, folder: str, config: str):
        from penstock._src.cluster.ports import free_addresses
        port, rest = (a.rsplit(":", 1)[1] for a in free_addresses(2))
        self._metrics = f"http://localhost:{rest}/monitoring/prometheus/metrics"
        self._server = started(
            [sys.executable, "-m", "penstock", "serve", "--model_name", name, "--model_base_path", folder, "--port", port,
             "--rest_api_port", rest, "--enable_serialization_as_tensor_content", "--enable_batching",
             "--batching_parameters_file", config], stdout=subprocess.PIPE, text=True)
        files = [f"{folder}.{rows}" for rows in sizes_of(name)]
        for rows, file in zip(sizes_of(name), files, strict=True):
            pathlib.Path(file).write_bytes(message(name, rows))
        self._clients = [started([sys.executable, __file__, "--ask", port, *files], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True) for _ in range(4)]
        for process in (self._server, *self._clients):
            if not process.stdout.readline():
                self.close()
                raise RuntimeError("the server or its clients did not start")

    def _ask(self, parts: list[int | None], seconds: float) -> list:
        asking = [(p, n) for p, n in zip(self._clients, parts, strict=True) if n is not None]
        for process, clients in asking:
            process.stdin.write(f"{clients} {seconds}\n")
            process.stdin.flush()
        return [json.loads(p.stdout.readline()) for p, _ in asking]

    def prepare(self, seconds: float) -> list[float]:
        """Asks for every bucket; the latency of each."""
        return self._ask([0, None, None, None], seconds)[0]

    def measure(self, clients: int, seconds: float) -> list[float]:
        """Latencies of so many clients, in up to four processes."""
        parts = [clients // 4 + (i < clients % 4) or None for i in range(4)]
        return [t for found in self._ask(parts, seconds) for t in found]

    def rows(self) -> tuple[float, float]:
        """The rows of all batches so far, and the number of batches."""
        with urllib.request.urlopen(self._metrics, timeout=10) as answer:
            text = answer.read().decode()
        found = {key: float(value) for line in text.splitlines() if ROWS in line and not line.startswith("#")
                 for key, value in [line.rsplit(" ", 1)]}
        return tuple(sum(v for k, v in found.items() if f"{ROWS}_{end}" in k) for end in ("sum", "count"))

    def close(self) -> None:
        for process in (*self._clients, self._server):
            process.kill()
            process.wait()


class Local:
    """The same work without a socket: parsing, batching, the step and the response, in this process."""

    def __init__(self, name: str, folder: str, config: str):
        from penstock._src.serving.command import options_of
        from penstock._src.serving.core import Core
        from penstock._src.tools import serve
        parser = argparse.ArgumentParser()
        serve.add_arguments(parser)
        options = options_of(parser.parse_args(["--model_name", name, "--model_base_path", folder, "--enable_batching",
                                                "--batching_parameters_file", config]))
        self._name, self._core, self._data = name, Core(options), message(name)
        self._core.configure(options.models)

    async def _call(self, data: bytes) -> bytes:
        from penstock._src.serving import inference
        from penstock._src.serving.messages import pb
        request = pb.PredictRequest.FromString(data)
        call = self._core.prepare(request.model_spec, lambda v: inference.predict(v, request, self._core.settings))
        return call.finish(await self._core.run("Predict", call, 120)).SerializeToString()

    def prepare(self, seconds: float) -> list[float]:
        return asyncio.run(prepare(self._call, [message(self._name, n) for n in sizes_of(self._name)], seconds))

    def measure(self, clients: int, seconds: float) -> list[float]:
        return asyncio.run(load(self._call, self._data, clients, seconds))

    def rows(self) -> tuple[float, float]:
        return 0.0, 0.0

    def close(self) -> None:
        self._core.close()


class Report:
    """What was found of each model. It is printed when a model is over, or the time is."""

    def __init__(self, limit: float):
        self.limit, self.best = limit, dict[str, float]()

    def line(self, name: str) -> None:
        say(f"{name}: {self.best.get(name, 0.0):.1f}/s at p99 <= {self.limit:g} ms")

    def over(self, names: list[str]) -> None:
        """Ends the program at the end of its time."""
        for name in names:
            if name not in self.best:
                say(f"{name}: not measured, the time is over")
        if self.best:
            self.line(list(self.best)[-1])
        for process in STARTED:
            process.kill()
        os._exit(0)


def prepared(name: str, folder: str, making: subprocess.Popen, args: argparse.Namespace, end: float) -> "Remote | Local":
    """A server whose buckets have run; preparing ends at `end`."""
    if making.wait():
        raise RuntimeError("the model could not be written")
    say(f"{name}: written")
    config = os.path.join(folder, f"{name}.config")
    pathlib.Path(config).write_text(batching(name))
    server = (Remote if GRPC else Local)(name, os.path.join(folder, name), config)
    say(f"{name}: loaded")
    seconds = server.prepare(max(1.0, min(args.prepare, end - time.monotonic())))
    say(f"{name}: milliseconds of buckets, two requests at a time: "
        + "  ".join(f"{n}: {1000 * t:.1f}" for n, t in zip(sizes_of(name), seconds, strict=True)))
    return server


def measure(name: str, server: "Remote | Local", args: argparse.Namespace, end: float, report: Report) -> None:
    """Measures one model until `end`."""
    for clients in args.clients or (SMALL if args.small else CLIENTS):
        if name in report.best and time.monotonic() + args.seconds + 1 > end:
            say(f"{name}: the time is over; {clients} clients and what follows were not measured")
            break
        server.measure(clients, 0.5)
        before = server.rows()
        times = sorted(1000 * t for t in server.measure(clients, args.seconds))
        rows, batches = (b - a for a, b in zip(before, server.rows(), strict=True))
        p50, p99, rate = times[len(times) // 2], times[int(0.99 * len(times))], len(times) / args.seconds
        report.best[name] = max(report.best.get(name, 0.0), rate if p99 <= args.limit else 0.0)
        say(f"{name} clients {clients:4}: {rate:8.1f}/s  p50 {p50:7.1f} ms  p99 {p99:7.1f} ms  "
            f"rows per batch {rows / max(batches, 1):5.1f}  best within the limit {report.best[name]:8.1f}/s")
    report.line(name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=["resnet50", "bert"])
    parser.add_argument("--limit", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--prepare", type=float, default=12)
    parser.add_argument("--budget", type=float, default=110, help="seconds for everything")
    parser.add_argument("--clients", type=int, nargs="+")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    if args.small:
        BUCKETS.update(dict.fromkeys(BUCKETS, 4))
    say("over gRPC" if GRPC else "without a socket: grpc is not installed")
    report = Report(args.limit)
    watch = threading.Timer(args.budget, report.over, [args.models])
    watch.daemon = True
    watch.start()
    end = BEGAN + args.budget - 3
    enough = end - KEPT * args.budget                # when measuring begins, with the models that are prepared
    with tempfile.TemporaryDirectory() as folder:
        made = [(name, making(name, os.path.join(folder, name, "1"), args.small)) for name in args.models]
        with ThreadPoolExecutor(len(made) if GRPC else 1) as pool:
            servers = {pool.submit(prepared, name, folder, process, args, enough): name for name, process in made}
            left = len(servers)
            while servers:
                done, _ = wait(servers, max(0.0, enough - time.monotonic()))
                done = done or wait(servers, return_when=FIRST_COMPLETED)[0]
                for future in done:
                    name, now = servers.pop(future), time.monotonic()
                    if future.exception() is not None:
                        say(f"{name}: failed: {future.exception()}")
                    else:
                        measure(name, future.result(), args, now + (end - now) / left, report)
                        future.result().close()
                    left -= 1
    watch.cancel()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        asyncio.run(ask(*sys.argv[2:]))
    elif sys.argv[1:2] == ["--make"]:
        make(*sys.argv[2:])
    else:
        main()
