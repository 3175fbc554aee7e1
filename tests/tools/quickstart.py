"""Runs TensorFlow's quickstart as a new user does: the data come from a server, here a local one with digits drawn by rule.

    python tests/tools/quickstart.py          # with any Python that penstock is installed in; nothing else is needed
"""
from __future__ import annotations

import hashlib
import http.server
import io
import os
import pathlib
import runpy
import tempfile
import threading
from typing import Any

import numpy as np

import penstock
from penstock._src.models.keras.datasets import arrays

PROGRAM = pathlib.Path(__file__).with_name("programs") / "quickstart.py"


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures with a bar whose row and column say which digit they show, and noise."""
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 10, count).astype(np.uint8)
    pictures = rng.randint(0, 60, (count, 28, 28)).astype(np.uint8)
    for digit in range(10):
        pictures[labels == digit, 2 + 2 * digit:5 + 2 * digit, 4 + digit:18 + digit] += 180
    return pictures, labels


def archive(count: int) -> bytes:
    """The file that `mnist.load_data` wants."""
    (x, y), (x_test, y_test) = digits(count, 0), digits(count // 6, 1)
    buffer = io.BytesIO()
    np.savez(buffer, x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    return buffer.getvalue()


class _Handler(http.server.BaseHTTPRequestHandler):
    content = b""

    def log_message(self, *args: Any) -> None:
        """Prints nothing."""

    def do_GET(self) -> None:
        """Serves the archive, whatever its address."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)


def run(count: int) -> dict[str, Any]:
    """The names that the program defines, after it ran against a server with `count` pictures."""
    _Handler.content = archive(count)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    arrays._ORIGIN = f"http://127.0.0.1:{server.server_port}/"
    arrays._CHECKSUMS["mnist.npz"] = hashlib.sha256(_Handler.content).hexdigest()
    os.environ.pop("PENSTOCK_OFFLINE", None)
    try:
        with tempfile.TemporaryDirectory() as home:
            os.environ["KERAS_HOME"] = home
            penstock.install()
            return runpy.run_path(str(PROGRAM))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    found = run(6000)
    assert found["x_train"].shape == (6000, 28, 28), found["x_train"].shape
    accuracy = found["model"].evaluate(found["x_test"], found["y_test"], verbose=0)[1]
    print(f"accuracy {accuracy:.3f}")
    assert accuracy > 0.95, accuracy
