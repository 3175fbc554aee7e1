"""Requests while versions change and while the server is killed: no wrong answer, and none lost while versions change.

    python benchmarks/serving_chaos.py [--requests 10000] [--changes 20] [--kills 20] [--clients 8]

The model computes x / 2 + its version number, and a response names the version: each answer can be checked by itself. The first
half of the requests runs while new versions appear; any error there counts as lost. The second half runs while a supervisor
restarts a server that is killed (SIGKILL); clients retry what fails, as clients of such a server do.
"""
import argparse
import collections
import os
import subprocess
import sys
import tempfile
import threading
import time

import grpc
import numpy as np

from penstock._src.cluster.ports import free_addresses
from penstock._src.graph.tensor_proto import make_ndarray, make_tensor_proto
from penstock._src.serving.messages import pb

PREDICT = "/tensorflow.serving.PredictionService/Predict"


def save(folder: str, version: int) -> None:
    import penstock.compat.v1 as tf
    with tf.Graph().as_default(), tf.Session() as sess:
        x, extra = tf.placeholder(tf.float32, [None], "x"), tf.get_variable("extra", initializer=float(version))
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, os.path.join(folder, str(version)), {"x": x}, {"y": x / 2 + extra})


class Supervisor:
    """Keeps one server running, and counts how often it had to start it."""

    def __init__(self, folder: str, port: str):
        self._command = [sys.executable, "-m", "penstock", "serve", "--model_name", "m", "--model_base_path", folder,
                         "--port", port, "--file_system_poll_wait_seconds", "0.2", "--enable_batching"]
        self.starts, self._ended, self._server = 0, False, None
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def _keep(self) -> None:
        while not self._ended:
            self.starts += 1
            self._server = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
            self._server.stdout.readline()
            self.ready.set()
            self._server.wait()

    def kill(self) -> None:
        self.ready.clear()
        self._server.kill()
        self.ready.wait()

    def stop(self) -> int:
        self._ended = True
        self._server.terminate()
        self._thread.join()
        return self._server.returncode


class Clients:
    """Threads that ask until there are enough answers."""

    def __init__(self, port: str, count: int, retry: bool):
        self.found: collections.Counter = collections.Counter()
        self.versions: set[int] = set()
        self._port, self._retry, self._wanted, self._lock = port, retry, 0, threading.Lock()
        self._more = threading.Event()               # set: continue beyond what is wanted, while events still happen
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(count)]

    def run(self, wanted: int, events: list) -> float:
        started, self._wanted = time.monotonic(), wanted
        self._more.set()
        for thread in self._threads:
            thread.start()
        for i, event in enumerate(events):           # spread over the requests
            while self.found["answered"] < i * wanted // len(events):
                time.sleep(0.005)
            event()
        self._more.clear()
        for thread in self._threads:
            thread.join()
        return time.monotonic() - started

    def _ask(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        with grpc.insecure_channel(f"localhost:{self._port}", [("grpc.max_reconnect_backoff_ms", 500)]) as channel:
            call = channel.unary_unary(PREDICT, lambda m: m.SerializeToString(), pb.PredictResponse.FromString)
            while self._more.is_set() or self.found["answered"] < self._wanted:
                x = random.integers(0, 1000, 3).astype(np.float32)
                request = pb.PredictRequest(model_spec=pb.ModelSpec(name="m"))
                request.inputs["x"].CopyFrom(make_tensor_proto(x))
                self._count(call, request, x)

    def _count(self, call, request, x) -> None:
        while True:
            try:
                response = call(request, timeout=60, wait_for_ready=self._retry)
                break
            except grpc.RpcError as e:
                with self._lock:
                    self.found["retried" if self._retry else f"lost ({e.code().name})"] += 1
                if not self._retry:
                    return
        version = response.model_spec.version.value
        right = np.array_equal(make_ndarray(response.outputs["y"]), x / 2 + version)
        with self._lock:
            self.versions.add(version)
            self.found["answered"] += 1
            self.found["wrong"] += not right


def main() -> int:
    parser = argparse.ArgumentParser()
    for name, default in (("requests", 10_000), ("changes", 20), ("kills", 20), ("clients", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    port = free_addresses(1)[0].rsplit(":", 1)[1]
    with tempfile.TemporaryDirectory() as folder:
        later = os.path.join(folder, "later")
        for version in range(1, args.changes + 2):
            save(later, version)
        os.rename(os.path.join(later, "1"), os.path.join(folder, "1"))
        supervisor = Supervisor(folder, port)
        supervisor.ready.wait()

        def change(version: int):
            def make() -> None:
                os.rename(os.path.join(later, str(version)), os.path.join(folder, str(version)))
                while version not in changing.versions:
                    time.sleep(0.01)
            return make
        changing = Clients(port, args.clients, retry=False)
        seconds = changing.run(args.requests // 2, [change(v) for v in range(2, args.changes + 2)])
        print(f"{args.changes} version changes in {seconds:.1f} s: {dict(changing.found)}, "
              f"versions {min(changing.versions)} to {max(changing.versions)}", flush=True)
        killing = Clients(port, args.clients, retry=True)
        seconds = killing.run(args.requests // 2, [supervisor.kill] * args.kills)
        starts, code = supervisor.starts, supervisor.stop()
        print(f"{args.kills} kills in {seconds:.1f} s: {dict(killing.found)}, {starts} starts, then SIGTERM: exit {code}")
    good = (changing.found["answered"] >= args.requests // 2 and killing.found["answered"] >= args.requests // 2 and
            not any(n for k, n in (changing.found + killing.found).items() if k.startswith(("lost", "wrong"))))
    print("ok" if good and starts == args.kills + 1 and code == 0 else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
