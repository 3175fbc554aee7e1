"""Throughput of `penstock serve` with batching at a limit of the latency: one image or text per request, more and more clients.

    PYTHONPATH=src python benchmarks/gpu/serving.py [--models resnet50 bert] [--limit 50] [--seconds 4] [--most 256]

penstock writes the models itself (random weights). The server is a process of its own, with buckets of powers of two; clients
are coroutines of other processes, each with one request at a time. Where grpc is not installed, the same requests are parsed,
batched and answered in this process, without a socket; the first line says which. For each number of clients: requests per
second, p50 and p99; the last line of a model is the best throughput whose p99 is within the limit.
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
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
BUCKETS = {"resnet50": 64, "bert": 32}


def make(name: str, folder: str) -> None:
    """Writes the SavedModel."""
    from serving import make as write

    import penstock
    sys.modules["tensorflow"] = penstock
    write(name, folder)


def batching(name: str) -> str:
    sizes = [2 ** i for i in range(BUCKETS[name].bit_length())]
    return (f"max_batch_size {{ value: {BUCKETS[name]} }} batch_timeout_micros {{ value: 1000 }} "
            "num_batch_threads { value: 2 } max_enqueued_batches { value: 1000 } " +
            "".join(f"allowed_batch_sizes: {n} " for n in sizes))


def message(name: str) -> bytes:
    """A request."""
    from serving import shape_of

    from penstock._src.graph.tensor_proto import make_tensor_proto
    from penstock._src.serving.messages import pb
    shape, dtype = shape_of(name)
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name=name))
    request.inputs["x"].CopyFrom(make_tensor_proto((np.random.default_rng(0).random((1, *shape)) * 100).astype(dtype)))
    return request.SerializeToString()


# -- asking ----------------------------------------------------------------------------------------------------------------
async def load(call, clients: int, seconds: float) -> list[float]:
    """The latencies of closed loops that ask for a while."""
    times: list[float] = []
    end = time.monotonic() + seconds

    async def work() -> None:
        while (begun := time.monotonic()) < end:
            await call()
            times.append(time.monotonic() - begun)
    await asyncio.gather(*(work() for _ in range(clients)))
    return times


async def ask(name: str, port: str, clients: int, seconds: float) -> None:
    """A process of clients: prints its latencies."""
    import grpc
    from serving import LIMIT, METHOD
    async with grpc.aio.insecure_channel(f"localhost:{port}", LIMIT) as channel:
        call, data = channel.unary_unary(METHOD), message(name)
        print(json.dumps(await load(lambda: call(data, timeout=120), clients, seconds)))


class Remote:
    """A server process, and processes that ask it."""

    def __init__(self, name: str, folder: str, config: str):
        from penstock._src.cluster.ports import free_addresses
        self._name, self._port = name, free_addresses(1)[0].rsplit(":", 1)[1]
        self._server = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", "--model_name", name, "--model_base_path", folder, "--port", self._port,
             "--enable_serialization_as_tensor_content", "--enable_batching", "--batching_parameters_file", config],
            stdout=subprocess.PIPE, text=True)
        if not self._server.stdout.readline():
            raise SystemExit("the server did not start")

    def measure(self, clients: int, seconds: float) -> list[float]:
        """Latencies of so many clients, in up to four processes."""
        parts = [clients // 4 + (i < clients % 4) for i in range(4)]
        asking = [subprocess.Popen([sys.executable, __file__, "--ask", self._name, self._port, str(n), str(seconds)],
                                   stdout=subprocess.PIPE, text=True) for n in parts if n]
        return [t for p in asking for t in json.loads(p.communicate()[0])]

    def close(self) -> None:
        self._server.kill()
        self._server.wait()


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
        self._core, self._data = Core(options), message(name)
        self._core.configure(options.models)

    async def _call(self) -> bytes:
        from penstock._src.serving import inference
        from penstock._src.serving.messages import pb
        request = pb.PredictRequest.FromString(self._data)
        call = self._core.prepare(request.model_spec, lambda v: inference.predict(v, request, self._core.settings))
        return call.finish(await self._core.run("Predict", call, 120)).SerializeToString()

    def measure(self, clients: int, seconds: float) -> list[float]:
        return asyncio.run(load(self._call, clients, seconds))

    def close(self) -> None:
        self._core.close()


def compare(name: str, args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, "--make", name, os.path.join(folder, name, "1")], check=True)
        config = os.path.join(folder, "batching.config")
        pathlib.Path(config).write_text(batching(name))
        server = (Remote if importlib.util.find_spec("grpc") else Local)(name, os.path.join(folder, name), config)
        try:
            best, clients = 0.0, 1
            while clients <= args.most:
                server.measure(clients, args.warmup)
                times = sorted(1000 * t for t in server.measure(clients, args.seconds))
                p50, p99, rate = times[len(times) // 2], times[int(0.99 * len(times))], len(times) / args.seconds
                print(f"{name} clients {clients:4}: {rate:8.1f}/s  p50 {p50:7.1f} ms  p99 {p99:7.1f} ms", flush=True)
                best = max(best, rate if p99 <= args.limit else 0)
                clients *= 2
            print(f"{name}: {best:.1f}/s at p99 <= {args.limit:g} ms", flush=True)
        finally:
            server.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=["resnet50", "bert"])
    parser.add_argument("--limit", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warmup", type=float, default=3)
    parser.add_argument("--most", type=int, default=256)
    args = parser.parse_args()
    print("over gRPC" if importlib.util.find_spec("grpc") else "without a socket: grpc is not installed")
    for name in args.models:
        compare(name, args)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(*sys.argv[2:])
    elif sys.argv[1:2] == ["--ask"]:
        asyncio.run(ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
    else:
        main()
