"""Downloads from a local server that redirects, breaks off, is slow, changes its file, or has another one."""
import hashlib
import http.server
import os
import threading

import numpy as np
import pytest

import penstock as tf
from penstock._src.io import download as module
from penstock._src.io.download import DownloadError, download
from penstock._src.models.keras.datasets import arrays

CONTENT = bytes(np.random.RandomState(0).randint(0, 256, 300_000, dtype=np.uint8))
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves `content`; `faults` are taken one per request: "cut" ends the body early, a number is a status."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.etag, self.faults, self.ranges = CONTENT, '"one"', [], []

    def url(self, path="file.bin"):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        fault = self.server.faults.pop(0) if self.server.faults else None
        self.server.ranges.append(self.headers.get("Range"))
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", self.server.url())
            self.end_headers()
        elif isinstance(fault, int):
            self.send_error(fault)
        else:
            self._body(fault)

    def _body(self, fault):
        whole, first = self.server.content, 0
        if self.headers.get("Range") and self.headers.get("If-Range") == self.server.etag:
            first = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(whole) - first))
        self.send_header("ETag", self.server.etag)
        self.end_headers()
        rest = whole[first:]
        if fault == "cut":
            rest = rest[:len(rest) // 2]
        elif fault == "stall":
            self.wfile.write(rest[:100])
            self.wfile.flush()
            self.server.stalled.wait(60)
            return
        self.wfile.write(rest)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("PENSTOCK_OFFLINE", raising=False)
    made = Server()
    made.stalled = threading.Event()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.stalled.set()
    made.shutdown()
    made.server_close()
    thread.join()


def left(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_download_is_checked_and_leaves_one_file(server, tmp_path):
    seen = []
    download(server.url("moved"), str(tmp_path / "new" / "a.bin"), SHA, lambda have, expected: seen.append((have, expected)))
    assert (tmp_path / "new" / "a.bin").read_bytes() == CONTENT
    assert left(tmp_path / "new") == ["a.bin"] and seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_broken_connection_is_continued(server, tmp_path):
    server.faults = ["cut", "cut"]
    download(server.url(), str(tmp_path / "a.bin"), SHA)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert server.ranges[0] is None and server.ranges[1] == f"bytes={len(CONTENT) // 2}-"


def test_an_interrupted_download_continues_next_time_unless_the_file_has_changed(server, tmp_path):
    server.faults = ["cut", "cut", "cut"]
    with pytest.raises(DownloadError, match="of 300000 bytes.*save it as"):
        download(server.url(), str(tmp_path / "a.bin"), SHA)
    assert "a.bin" not in left(tmp_path) and "a.bin.part" in left(tmp_path)
    server.content, server.etag = CONTENT[::-1], '"two"'
    download(server.url(), str(tmp_path / "a.bin"))
    assert (tmp_path / "a.bin").read_bytes() == CONTENT[::-1] and left(tmp_path) == ["a.bin"]


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(ValueError, match="corrupted"):
        download(server.url(), str(tmp_path / "a.bin"), "0" * 64)
    assert left(tmp_path) == []


def test_a_silent_server_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    server.faults = ["stall"] * 3
    with pytest.raises(DownloadError, match="timed out"):
        download(server.url(), str(tmp_path / "a.bin"))


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (503, 3)])
def test_errors_of_the_server(server, tmp_path, status, requests):
    server.faults = [status] * 3
    with pytest.raises(DownloadError, match=str(status) if status == 404 else "Cannot download"):
        download(server.url(), str(tmp_path / "a.bin"))
    assert len(server.ranges) == requests


def test_other_schemes_and_offline(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="http"):
        download("file:///etc/hosts", str(tmp_path / "a"))
    monkeypatch.setenv("PENSTOCK_OFFLINE", "1")
    with pytest.raises(DownloadError, match="PENSTOCK_OFFLINE"):
        download("http://127.0.0.1:1/a", str(tmp_path / "a"))


def test_several_threads_download_one_file(server, tmp_path):
    threads = [threading.Thread(target=download, args=(server.url(), str(tmp_path / "a.bin"), SHA)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (tmp_path / "a.bin").read_bytes() == CONTENT and left(tmp_path) == ["a.bin"]


def test_a_lock_file_that_goes_away_at_any_moment_is_made_again(server, tmp_path, monkeypatch):
    """Its holder removes it between any two steps of one that waits for it."""
    lock, taken = tmp_path / "a.bin.part.lock", []

    def take(fd):
        if len(taken) < 3:
            lock.unlink()
        taken.append(fd)
        return True
    monkeypatch.setattr(module, "try_lock", take)
    monkeypatch.setattr(os.path, "exists", lambda path: True if path == str(lock) else os.path.lexists(path))
    download(server.url(), str(tmp_path / "a.bin"), SHA)
    assert len(taken) == 4 and (tmp_path / "a.bin").read_bytes() == CONTENT


def test_keras_downloads_data_sets_and_replaces_outdated_files(server, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    np.savez(tmp_path / "source.npz", x_train=np.zeros((3, 28, 28), "uint8"), y_train=np.arange(3),
             x_test=np.ones((2, 28, 28)), y_test=np.arange(2))
    server.content = (tmp_path / "source.npz").read_bytes()
    monkeypatch.setattr(arrays, "_ORIGIN", server.url(""))
    monkeypatch.setitem(arrays._CHECKSUMS, "mnist.npz", hashlib.sha256(server.content).hexdigest())
    (x, y), _ = tf.keras.datasets.mnist.load_data()
    assert x.shape == (3, 28, 28) and y.tolist() == [0, 1, 2]
    (tmp_path / "datasets" / "b.bin").write_bytes(b"old")
    server.content = CONTENT
    path = tf.keras.utils.get_file("b.bin", server.url(), file_hash=SHA)
    with open(path, "rb") as file:
        assert file.read() == CONTENT
