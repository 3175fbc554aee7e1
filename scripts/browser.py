"""Opens the pages of a static site in headless Chromium and reports what is wrong with them."""
from __future__ import annotations

import contextlib
import functools
import http.server
import pathlib
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urldefrag, urljoin

from playwright.sync_api import Page, sync_playwright

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
LINKS = "elements => elements.map(e => e.href)"
SHOWS_MARKS = "() => document.querySelector('article')?.textContent.includes('```')"
IDS = "elements => elements.map(e => e.id)"
NO_ENTRIES = {"config": {"lang": ["en"], "separator": " ", "pipeline": [], "fields": {}}, "docs": []}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log line per request."""

    def log_message(self, format: str, *args: object) -> None:
        """Drops the line."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Sends a file; a browser that has left the page does not wait for the rest."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            super().copyfile(source, outputfile)


@contextmanager
def served(folder: pathlib.Path) -> Iterator[str]:
    """The address of a local server for a folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def browser_page() -> Iterator[Page]:
    """A page of the Chromium that the system has."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("Chromium is not installed: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


def open_pages(folder: pathlib.Path) -> list[str]:
    """Opens every HTML file; one line for each script error, failed request, mark of a code block, and dead link."""
    problems: list[str] = []
    anchors: dict[str, set[str]] = {}
    links: dict[str, list[str]] = {}
    with served(folder) as address, browser_page() as page:
        page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
        page.on("response", lambda r: problems.append(f"{page.url}: {r.status} for {r.url}") if r.status >= 400 else None)
        for count, file in enumerate(f for f in sorted(folder.rglob("*.html")) if f.name != "404.html"):
            if count == 1:                  # the search index was read with the first page; it is large, and the same for all
                page.route("**/search_index.json", lambda route: route.fulfill(json=NO_ENTRIES))
            url = address + file.relative_to(folder).as_posix().removesuffix("index.html")
            page.goto(url, timeout=120_000)
            if page.evaluate(SHOWS_MARKS):
                problems.append(f"{url}: the marks of a block of code are shown as text")
            anchors[url] = set(page.eval_on_selector_all("[id]", IDS))
            links[url] = [urljoin(url, link) for link in page.eval_on_selector_all("a[href]", LINKS)]
        for url, targets in links.items():
            for target in sorted({t for t in targets if t.startswith(address)}):
                place, anchor = urldefrag(target)
                file = folder / place.removeprefix(address)
                if place not in anchors and not file.is_file():
                    problems.append(f"{url}: no page {target}")
                elif anchor and anchor not in anchors.get(place, {anchor}):
                    problems.append(f"{url}: no anchor {target}")
    return problems
