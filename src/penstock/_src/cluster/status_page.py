"""The status of a cluster as a page for browsers: read-only, served by a task on request, at an address with a key.

An authenticated client receives the address; requests without the key in it are answered with "403
Forbidden". The page ends with the server.
"""
from __future__ import annotations

import base64
import hashlib
import hmac
import html
import http.server
import json
import secrets
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging
from penstock._src.base.service import supervise
from penstock._src.cluster import status
from penstock._src.cluster.peers import shut
from penstock._src.cluster.status_history import SECONDS, History
from penstock._src.cluster.status_metrics import prometheus

_STYLE = ("body{font:14px system-ui,sans-serif;margin:2em;color:#222}h2{font-size:1.05em;margin:1.4em 0 .3em}"
          "table{border-collapse:collapse}td,th{padding:.2em .9em .2em 0;text-align:left;border-bottom:1px solid #ddd}"
          ".wrong{background:#fdecea;border-left:4px solid #c62828;padding:.4em .8em}"
          "figure{display:inline-block;margin:0 2em 1em 0}figcaption{color:#555}text{font-size:11px;fill:#777}"
          ".bar{display:flex;height:1em;width:22em}.bar i{height:100%}")
_PARTS = {"compute": "#2ca02c", "wait": "#d62728", "transfer": "#1f77b4", "between steps": "#ccc"}
_ASK_AGAIN = 2000                       # milliseconds between two looks of a browser
# Replaces the page by a new one now and then. When nobody answers, the last one stays, under a line that says since when.
_SCRIPT = """
let gone = null
async function again() {
  try {
    const answer = await fetch(location.href, {cache: 'no-store'})
    if (!answer.ok) throw new Error('status ' + answer.status)
    const made = new DOMParser().parseFromString(await answer.text(), 'text/html')
    document.body.replaceChildren(...made.body.childNodes)
    gone = null
  } catch (error) {
    if (!gone) {
      gone = document.createElement('p')
      gone.className = 'wrong'
      gone.textContent = 'This page gets no answer since ' + new Date().toLocaleTimeString() + ': ' + error.message
      document.body.prepend(gone)
    }
  }
  setTimeout(again, %d)
}
setTimeout(again, %d)
""" % (_ASK_AGAIN, _ASK_AGAIN)
_RUNS = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_RUNS}'; connect-src 'self'; base-uri 'none'"


def render(tasks: list[dict[str, Any]], charts: str = "") -> str:
    """The page: what needs attention first, then charts of the past, then the present."""
    wrong = "".join(f"<p class=wrong>{html.escape(line)}</p>" for line in status.problems(tasks))
    parts = ["<!doctype html><html><head><meta charset=utf-8><noscript><meta http-equiv=refresh content=2></noscript>"
             f"<title>penstock</title><style>{_STYLE}</style><script>{_SCRIPT}</script></head><body><h1>penstock</h1>"
             f"{wrong}{charts}"]
    for title, headers, rows in status.tables(tasks):
        bars, colors = (_bars(tasks), _PARTS) if title == status.STEP_TIME else ({}, {})
        shown = rows if title == "Tasks" else rows[:status.ROWS]
        more = f"<p>{len(rows) - len(shown)} more rows: /status.json has all.</p>" if len(rows) > len(shown) else ""
        head = "".join(f"<th>{html.escape(h)}{_mark(colors[h]) if h in colors else ''}</th>" for h in headers)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + bars.get(row[0], "") + "</tr>"
                       for row in shown)
        parts.append(f"<h2>{title}</h2><table><tr>{head}</tr>{body}</table>{more}")
    return "".join([*parts, "</body></html>"])


def _mark(color: str) -> str:
    return f" <span style='color:{color}'>&#9632;</span>"


def _bars(tasks: list[dict[str, Any]]) -> dict[str, str]:
    """For each task a cell with the parts of its steps as a bar. The longest bar is that of the longest step."""
    times = {t["task"]: found for t in tasks if "error" not in t and (found := status.step_time(t))}
    longest = max(map(sum, times.values()), default=0.0) or 1.0
    return {name: "<td><div class=bar>" + "".join(
        f"<i title='{part}' style='width:{100 * seconds / longest:.1f}%;background:{color}'></i>"
        for (part, color), seconds in zip(_PARTS.items(), parts, strict=True)) + "</div></td>" for name, parts in times.items()}


class Shared:
    """Collects the status for several readers, one after the other: those that wait meanwhile get the same answers."""

    def __init__(self, collect: Callable[[], list[dict[str, Any]]]):
        self._collect, self._lock = collect, threading.Lock()
        self._tasks: list[dict[str, Any]] = []
        self._began = 0.0

    def __call__(self) -> list[dict[str, Any]]:
        asked = time.monotonic()
        with self._lock:
            if self._began < asked:
                began = time.monotonic()
                self._tasks = self._collect()
                self._began = began
            return self._tasks


_MOST = 32                              # connections at once; for one more, the oldest is dropped


class _BoundedServer(http.server.ThreadingHTTPServer):
    """A thread per connection, and a bounded number of them: strangers cannot use up the task's descriptors."""

    def __init__(self, *args: Any):
        self._connections: dict[Any, None] = {}              # the oldest first
        self._changing = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection on its own thread."""
        with self._changing:
            if len(self._connections) >= _MOST:
                oldest = next(iter(self._connections))
                del self._connections[oldest]
                shut(oldest)                                 # its thread notices, and closes it
            self._connections[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._changing:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whatever a connection does ends this connection, and nothing else."""
        tf_logging.debug("A connection to the status page has failed.", exc_info=True)


class StatusPage:
    """A small web server in a thread, and another thread that samples the status."""

    def __init__(self, host: str, collect: Callable[[], list[dict[str, Any]]], port: int = 0, key: str = ""):
        key, history, collect = key or secrets.token_urlsafe(24), History(), Shared(collect)
        forms: dict[str, tuple[str, Callable[[list[dict[str, Any]]], str]]] = {
            "/": ("text/html; charset=utf-8", lambda tasks: render(tasks, history.charts())),
            "/status.json": ("application/json", json.dumps),
            "/metrics": ("text/plain; version=0.0.4; charset=utf-8", prometheus)}

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10.0

            def do_GET(self) -> None:  # noqa: N802
                """The page, or its data as JSON or for Prometheus, which sends the key as a bearer token."""
                where = urllib.parse.urlsplit(self.path)
                bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
                given = urllib.parse.parse_qs(where.query).get("key", [bearer])[0]
                if not hmac.compare_digest(given.encode(), key.encode()) or where.path not in forms:
                    self.send_error(403)
                    return
                kind, write = forms[where.path]
                data = write(collect())
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("Content-Security-Policy", _POLICY)
                self.end_headers()
                self.wfile.write(data.encode())

            def log_message(self, *args: Any) -> None:
                """Logs nothing."""
        self._server = _BoundedServer((host, port), Handler)
        self.url = f"http://{host}:{self._server.server_address[1]}/?key={key}"
        self._ended = threading.Event()
        self._thread = supervise("penstock status", lambda: self._server.serve_forever(0.2), self._ended)
        self._sampler = supervise("penstock history", lambda: self._sample(history, collect), self._ended)

    def _sample(self, history: History, collect: Callable[[], list[dict[str, Any]]]) -> None:
        while True:
            history.add(collect())
            if self._ended.wait(SECONDS):
                return

    def close(self) -> None:
        """Ends it."""
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)
        self._sampler.join(5.0)
