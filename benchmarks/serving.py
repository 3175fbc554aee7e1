"""Latency and throughput of `penstock serve`, beside a plain TensorFlow server and a plain PyTorch server, on CPUs.

    python benchmarks/serving.py --tf PYTHON [--models resnet50 bert] [--requests 40] [--clients 4] [--threads 1] \
        [--folder FOLDER]

PYTHON is that of an environment with TensorFlow. FOLDER keeps the SavedModels for the next run. All serve the same network
(PyTorch's has other random weights), one image or one text of 128 words per request, over gRPC. The TensorFlow server calls the
signature of the same SavedModel on grpc's threads; the PyTorch server runs the module under inference_mode there, and takes and
returns bare bytes. Where FastAPI and uvicorn are installed, the same module is also served by them, over HTTP.

Servers run at the same time and are measured in turns, so that what else the machine does hits all of them. Each uses the
threads that it uses by default; with `--threads 1`, one thread per operation. Times of the machine are in milliseconds; `cpu`
is the processor time of the server per request, which is the figure to compare on a busy machine.
"""
import argparse
import http.client
import importlib.util
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

try:
    import grpc
except ImportError:                                  # benchmarks/gpu/serving.py uses only the models
    grpc = None

METHOD = "/tensorflow.serving.PredictionService/Predict"
WIDTH, HEADS, LAYERS, WORDS, LENGTH = 768, 12, 12, 30522, 128
LIMIT = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


# -- models, written by TensorFlow ------------------------------------------------------------------------------------
def make(name: str, folder: str) -> None:
    """Writes the SavedModel. With Keras 3 in a tf.Module, TensorFlow writes one that only its loader of 2.x reads."""
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    import tensorflow as tf
    if name == "resnet50":
        network = tf.Module()
        network.model = tf.keras.applications.ResNet50(weights=None)
        network.call = tf.function(lambda x: {"y": network.model(x, training=False)},
                                   input_signature=[tf.TensorSpec([None, 224, 224, 3], tf.float32, "x")])
        tf.saved_model.save(network, folder, {"serving_default": network.call})
        return

    class Bert(tf.Module):
        def __init__(self):
            rng = np.random.default_rng(0)

            def new(*shape):
                return tf.Variable((rng.standard_normal(shape) * 0.02).astype(np.float32))
            self.words, self.places = new(WORDS, WIDTH), new(LENGTH, WIDTH)
            self.layers = [{"qkv": new(WIDTH, 3 * WIDTH), "qkv_b": new(3 * WIDTH), "out": new(WIDTH, WIDTH),
                            "out_b": new(WIDTH), "up": new(WIDTH, 4 * WIDTH), "up_b": new(4 * WIDTH),
                            "down": new(4 * WIDTH, WIDTH), "down_b": new(WIDTH), "g1": new(WIDTH),
                            "b1": new(WIDTH), "g2": new(WIDTH), "b2": new(WIDTH)}
                           for _ in range(LAYERS)]

        def normal(self, x, gain, bias):
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            return (x - mean) * tf.math.rsqrt(variance + 1e-12) * (1 + gain) + bias

        @tf.function(input_signature=[tf.TensorSpec([None, LENGTH], tf.int32, "x")])
        def __call__(self, x):
            x = tf.gather(self.words, x) + self.places
            batch = tf.shape(x)[0]
            for p in self.layers:
                parts = tf.reshape(x @ p["qkv"] + p["qkv_b"], [batch, LENGTH, 3, HEADS, WIDTH // HEADS])
                q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
                scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.sqrt(WIDTH // HEADS))
                mixed = tf.reshape(tf.transpose(scores @ v, [0, 2, 1, 3]), [batch, LENGTH, WIDTH])
                x = self.normal(x + mixed @ p["out"] + p["out_b"], p["g1"], p["b1"])
                x = self.normal(x + tf.nn.gelu(x @ p["up"] + p["up_b"]) @ p["down"] + p["down_b"], p["g2"], p["b2"])
            return {"y": x[:, 0]}
    model = Bert()
    tf.saved_model.save(model, folder, {"serving_default": model.__call__})


# -- plain servers ----------------------------------------------------------------------------------------------------
def serve(answer, port: str) -> None:
    """grpc's threads call a function of bytes."""
    from concurrent.futures import ThreadPoolExecutor
    server = grpc.server(ThreadPoolExecutor(8), options=LIMIT)
    handler = grpc.unary_unary_rpc_method_handler(lambda data, context: answer(data))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tensorflow.serving.PredictionService",
                                                                          {"Predict": handler}),))
    server.add_insecure_port(f"localhost:{port}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


def serve_tensorflow(name: str, folder: str, port: str) -> None:
    import tensorflow as tf
    from tensorflow.core.framework.tensor_pb2 import TensorProto
    tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("OMP_NUM_THREADS", 0)))
    loaded = tf.saved_model.load(os.path.join(folder, "1"))
    function = loaded.signatures["serving_default"]

    def answer(data: bytes) -> bytes:
        x = tf.make_ndarray(TensorProto.FromString(data))
        return tf.make_tensor_proto(function(x=tf.constant(x))["y"].numpy()).SerializeToString()
    serve(answer, port)


def torch_answers(name: str):
    """The function of bytes that a PyTorch server runs."""
    import torch
    model = (torch_resnet() if name == "resnet50" else torch_bert()).eval()
    shape, dtype = shape_of(name)

    def answer(data: bytes) -> bytes:
        x = torch.from_numpy(np.frombuffer(bytearray(data), dtype).reshape(-1, *shape))
        with torch.inference_mode():
            return model(x).numpy().tobytes()
    return answer


def serve_torch(name: str, folder: str, port: str) -> None:
    serve(torch_answers(name), port)


def serve_fastapi(name: str, folder: str, port: str) -> None:
    import fastapi
    import uvicorn
    from fastapi.concurrency import run_in_threadpool
    answer, app = torch_answers(name), fastapi.FastAPI()

    async def predict(request: fastapi.Request) -> fastapi.Response:
        data = await request.body()
        return fastapi.Response(await run_in_threadpool(answer, data))
    app.add_api_route("/predict", predict, methods=["POST"])
    listener = socket.create_server(("localhost", int(port)))
    print("ready", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])


def torch_resnet():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, have, width, stride):
            super().__init__()
            def conv(a, b, size, step=1):
                return [nn.Conv2d(a, b, size, step, size // 2), nn.BatchNorm2d(b)]
            self.main = nn.Sequential(*conv(have, width, 1, stride), nn.ReLU(), *conv(width, width, 3), nn.ReLU(),
                                      *conv(width, 4 * width, 1))
            self.side = nn.Sequential(*conv(have, 4 * width, 1, stride)) if have != 4 * width or stride > 1 else nn.Identity()

        def forward(self, x):
            return torch.relu(self.main(x) + self.side(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            blocks, have = [], 64
            for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
                for i in range(count):
                    blocks.append(Block(have, width, stride if i == 0 else 1))
                    have = 4 * width
            self.net = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                                     nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000), nn.Softmax(-1))

        def forward(self, x):
            return self.net(x.permute(0, 3, 1, 2))
    return Net()


def torch_bert():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, LAYERS)

        def forward(self, x):
            return self.layers(self.words(x) + self.places)[:, 0]
    return Net()


# -- measuring --------------------------------------------------------------------------------------------------------
def shape_of(name: str):
    return ((224, 224, 3), np.float32) if name == "resnet50" else ((LENGTH,), np.int32)


class Server:
    """A server process, and how to ask it."""

    def __init__(self, title: str, command: list[str], port: str, encode, threads: int, web: bool = False):
        self.title, self.encode = title, encode
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        env.pop("OMP_NUM_THREADS", None)
        if threads:
            env["OMP_NUM_THREADS"] = str(threads)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        if not self._process.stdout.readline():
            raise SystemExit(f"{title} did not start: {' '.join(command)}")
        self._channel = grpc.insecure_channel(f"localhost:{port}", LIMIT)
        self._call = self._posts(port) if web else self._channel.unary_unary(METHOD)
        self.times: dict[int, list[float]] = {}
        self.spent: dict[int, list[float]] = {}

    @staticmethod
    def _posts(port: str):
        """Sends a request over HTTP; each thread keeps its connection."""
        kept = threading.local()

        def call(data: bytes, timeout: float) -> bytes:
            if not hasattr(kept, "connection"):
                kept.connection = http.client.HTTPConnection("localhost", int(port), timeout=timeout)
            kept.connection.request("POST", "/predict", data)
            answer = kept.connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"status {answer.status}: {body[:200]!r}")
            return body
        return call

    def cpu(self) -> float:
        with open(f"/proc/{self._process.pid}/stat") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, data: bytes, clients: int, count: int) -> None:
        """`count` requests from `clients` threads; adds the latencies, and the throughput and processor time of this turn."""
        times, lock, left = [], threading.Lock(), [count]

        def work() -> None:
            while True:
                with lock:
                    if not left[0]:
                        return
                    left[0] -= 1
                begun = time.perf_counter()
                self._call(data, timeout=300)
                times.append(time.perf_counter() - begun)
        threads, before, begun = [threading.Thread(target=work) for _ in range(clients)], self.cpu(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.times.setdefault(clients, []).extend(times)
        self.spent.setdefault(clients, []).append((self.cpu() - before, time.perf_counter() - begun, count))

    def line(self, clients: int) -> str:
        times = sorted(1000 * t for t in self.times[clients])
        cpu, wall, count = (sum(s[i] for s in self.spent[clients]) for i in range(3))
        p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
        return (f"{self.title:26} clients {clients}: p50 {statistics.median(times):7.1f} ms  p99 {p99:7.1f} ms  "
                f"{count / wall:6.1f}/s  cpu {1000 * cpu / count:6.1f} ms")

    def close(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()


def compare(name: str, args: argparse.Namespace) -> None:
    from penstock._src.cluster.ports import free_addresses
    from penstock._src.graph.tensor_proto import make_tensor_proto
    from penstock._src.serving.messages import pb
    shape, dtype = shape_of(name)
    x = (np.random.default_rng(0).random((1, *shape)) * 100).astype(dtype)
    ports = [a.rsplit(":", 1)[1] for a in free_addresses(5)]
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name=name))
    request.inputs["x"].CopyFrom(make_tensor_proto(x))
    message, bare = request.SerializeToString(), make_tensor_proto(x).SerializeToString()
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(args.folder or scratch, name)
        if not os.path.exists(os.path.join(folder, "1", "saved_model.pb")):
            subprocess.run([args.tf, __file__, "--make", name, os.path.join(folder, "1")], check=True,
                           stderr=subprocess.DEVNULL)
        batching = os.path.join(scratch, "batching.config")
        with open(batching, "w") as file:
            file.write("max_batch_size { value: 4 } batch_timeout_micros { value: 2000 } num_batch_threads { value: 2 } "
                       "max_enqueued_batches { value: 100 } " + "".join(f"allowed_batch_sizes: {n} " for n in (1, 2, 4)))
        ours = [sys.executable, "-m", "penstock", "serve", "--model_name", name, "--model_base_path", folder,
                "--enable_serialization_as_tensor_content", "--port"]
        batched = [ports[1], "--enable_batching", "--batching_parameters_file", batching]
        me = os.path.abspath(__file__)
        servers = [Server("penstock", [*ours, ports[0]], ports[0], message, args.threads),
                   Server("penstock, batching", [*ours, *batched], ports[1], message, args.threads),
                   Server("TensorFlow", [args.tf, me, "--tensorflow", name, folder, ports[2]], ports[2], bare,
                          args.threads),
                   Server("PyTorch", [sys.executable, me, "--torch", name, folder, ports[3]], ports[3], x.tobytes(),
                          args.threads)]
        if importlib.util.find_spec("uvicorn") and importlib.util.find_spec("fastapi"):
            servers.append(Server("PyTorch, FastAPI", [sys.executable, me, "--fastapi", name, folder, ports[4]], ports[4],
                                  x.tobytes(), args.threads, web=True))
        try:
            for server in servers:
                server.ask(server.encode, args.clients, args.warmup)
                server.ask(server.encode, 1, args.warmup // 3)
                server.times.clear()
                server.spent.clear()
            for _ in range(args.turns):
                for clients in (1, args.clients):
                    for server in servers:
                        server.ask(server.encode, clients, args.requests // args.turns)
            print(f"{name}:")
            for clients in (1, args.clients):
                for server in servers:
                    print("  " + server.line(clients), flush=True)
        finally:
            for server in servers:
                server.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tf", default=sys.executable)
    parser.add_argument("--models", nargs="+", default=["resnet50", "bert"])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=24, help="requests to each server before those that count")
    parser.add_argument("--threads", type=int, default=0, help="per operation; 0: as each server decides")
    parser.add_argument("--folder")
    args = parser.parse_args()
    for name in args.models:
        compare(name, args)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(*sys.argv[2:])
    elif sys.argv[1:2] == ["--tensorflow"]:
        serve_tensorflow(*sys.argv[2:])
    elif sys.argv[1:2] == ["--torch"]:
        serve_torch(*sys.argv[2:])
    elif sys.argv[1:2] == ["--fastapi"]:
        serve_fastapi(*sys.argv[2:])
    else:
        main()
