"""Takes the pictures of the documentation in headless Chromium: the dashboard of a cluster in trouble, TensorBoard, what
objects show in a notebook, and pages of the site.

    .site/bin/python scripts/make_pictures.py dashboard     # docs/pictures/dashboard_*.png
    .site/bin/python scripts/make_pictures.py tensorboard   # docs/pictures/tensorboard.png
    .site/bin/python scripts/make_pictures.py notebook      # docs/pictures/notebook.png
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
import tempfile
import time

from browser import browser_page, served
from playwright.sync_api import Error, Page

ROOT = pathlib.Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
PROGRAM = ["examples/digits_cluster.py", "--steps=100000", "--delay=0.02", "--slow_worker=2"]
TOP = {"width": 1280, "height": 1440}         # of the dashboard: the charts, the tasks and their times
SITE_PAGES = {"overview": "", "keras": "tutorials/first_keras/", "api": "api/v2/nn/", "errors": "errors/",
              "performance": "performance/"}


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
                page.set_viewport_size(TOP)
                wait_for_text(page, address, r"(?s)task:2: \S+ steps/s, where .* are usual.*The last ([3-9]\d|\d{3,}) seconds")
                page.screenshot(path=PICTURES / "dashboard_straggler.png")
                os.kill(server_process(cluster.pid), signal.SIGKILL)
                wait_for_text(page, address, r"task:0 was restarted")
                page.screenshot(path=PICTURES / "dashboard_lost_server.png")
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


def tensorboard() -> None:
    """TensorBoard, with the log of the demo."""
    python = ROOT / ".venv" / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": "src", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder, browser_page() as page:
        subprocess.run([str(python), "-m", "penstock._src.tools.demo", "--logdir", folder], cwd=ROOT, env=environment,
                       check=True, stdout=subprocess.DEVNULL)
        server = subprocess.Popen([str(python), "-m", "tensorboard.main", "--logdir", folder, "--port", "0", "--bind_all"],
                                  stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        try:
            port = next(m[1] for m in (re.search(r"http://\S+:(\d+)/", line) for line in server.stderr) if m)
            page.set_viewport_size({"width": 1280, "height": 620})
            page.goto(f"http://127.0.0.1:{port}/#scalars")
            page.wait_for_selector("text=loss", timeout=60_000)
            page.wait_for_timeout(4000)                     # the curves are drawn after the cards
            page.screenshot(path=PICTURES / "tensorboard.png")
        finally:
            server.terminate()
            server.wait()


SHOWN = """
import penstock as tf
from penstock import digits
(x, y), _ = digits.load()
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)),
                             tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)], name="digits")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1500).batch(64).prefetch(2)
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(data, epochs=8, verbose=0)
print("<body style='font: 14px sans-serif; padding: 1em'><style>td, th { padding: .25em .8em; text-align: right } "
      "table { border-collapse: collapse } tr:nth-child(even) { background: #f2f2f2 }</style>")          # as notebooks do
for name in ("model", "history", "data"):
    print(f"<pre style='color: #777'>[&nbsp;]: {name}</pre>", globals()[name]._repr_html_())
"""


def notebook() -> None:
    """What a model, its training and a dataset show in a notebook."""
    html = subprocess.run([str(ROOT / ".venv" / "bin" / "python"), "-c", SHOWN], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src", "OMP_NUM_THREADS": "1"}).stdout
    with browser_page() as page:
        page.set_viewport_size({"width": 620, "height": 400})
        page.set_content(html)
        page.screenshot(path=PICTURES / "notebook.png", full_page=True)


def site() -> None:
    """Pictures of five pages of the built site, in build/."""
    with served(ROOT / "build" / "site") as address, browser_page() as page:
        for name, path in SITE_PAGES.items():
            page.goto(address + path)
            page.screenshot(path=ROOT / "build" / f"{name}.png")


def main() -> None:
    """Runs what the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    makers = {"dashboard": dashboard, "tensorboard": tensorboard, "notebook": notebook, "site": site}
    parser.add_argument("what", choices=makers)
    PICTURES.mkdir(exist_ok=True)
    makers[parser.parse_args().what]()


if __name__ == "__main__":
    main()
