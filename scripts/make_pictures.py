"""Takes the pictures of the documentation in headless Chromium: the dashboard of a cluster in trouble, and pages of the site.

    .site/bin/python scripts/make_pictures.py dashboard     # docs/pictures/dashboard_*.png
    .site/bin/python scripts/make_pictures.py site          # five pages of build/site, after `make site`

The cluster is examples/digits_cluster.py with a worker that is ten times slower than the others; later one of its parameter
servers is killed. The pictures are taken when the page itself shows the trouble, not after a fixed time.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from browser import browser_page, served
from playwright.sync_api import Error, Page

ROOT = pathlib.Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
PROGRAM = ["examples/digits_cluster.py", "--steps=100000", "--delay=0.02", "--slow_worker=2"]
SITE_PAGES = {"overview": "", "keras": "tutorials/first_keras/", "api": "api/v2/nn/", "errors": "errors/",
              "performance": "benchmarks/"}


def wait_for_text(page: Page, address: str, pattern: str, seconds: float = 120) -> None:
    """Loads a page again until its text matches."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(Error):            # the task that serves the page is still starting
            page.goto(address)
            page.wait_for_timeout(500)
            if re.search(pattern, page.inner_text("body"), re.I):
                return
        if time.monotonic() > end:
            raise SystemExit(f"the page does not show {pattern!r}:\n{page.inner_text('body')}")


def dashboard() -> None:
    """Runs a cluster with a slow worker, then kills a parameter server."""
    python = ROOT / ".venv" / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python), "-m", "penstock", "launch", "--ps", "2", "--workers", "3", *PROGRAM, f"--folder={folder}"]
        cluster = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, "PYTHONPATH": "src", "OMP_NUM_THREADS": "1"})
        assert cluster.stdout is not None
        address = next(line.split()[-1] for line in cluster.stdout if line.startswith("-- page"))
        drain = subprocess.Popen(["cat"], stdin=cluster.stdout, stdout=subprocess.DEVNULL)
        try:
            with browser_page() as page:
                wait_for_text(page, address, r"(?s)task:2: \S+ steps/s, where .* are usual.*The last ([3-9]\d|\d{3,}) seconds")
                page.screenshot(path=PICTURES / "dashboard_straggler.png", full_page=True)
                os.kill(server_process(cluster.pid), signal.SIGKILL)
                wait_for_text(page, address, r"task:0 was restarted")
                page.screenshot(path=PICTURES / "dashboard_lost_server.png", full_page=True)
        finally:
            cluster.terminate()
            cluster.wait()
            drain.wait()


def server_process(launcher: int) -> int:
    """The process of parameter server 0, found by its place in TF_CONFIG."""
    children = subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True, check=True).stdout.split()
    for child in map(int, children):
        environment = pathlib.Path(f"/proc/{child}/environ").read_text()
        if re.search(r'"task": \{"type": "ps", "index": 0\}', environment):
            return child
    raise SystemExit("parameter server 0 is not running")


def site() -> None:
    """Pictures of five pages of the built site, in build/."""
    with served(ROOT / "build" / "site") as address, browser_page() as page:
        for name, path in SITE_PAGES.items():
            page.goto(address + path)
            page.screenshot(path=ROOT / "build" / f"{name}.png")


def main() -> None:
    """Runs what the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("dashboard", "site"))
    PICTURES.mkdir(exist_ok=True)
    sys.exit({"dashboard": dashboard, "site": site}[parser.parse_args().what]())


if __name__ == "__main__":
    main()
