"""Runs the tests of libraries on penstock and on TensorFlow, and writes the table of docs/ecosystem.md.

    make ecosystem ARGS='--only "Keras 3" --sample 5'

Two environments are made once below `.ecosystem`: one with penstock's dependencies, one with TensorFlow; the libraries are
in a folder that both see. Results are kept as they come: a run that was stopped goes on where it was.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys

from tests.ecosystem.libraries import LIBRARIES, SUPPORT, Library

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / ".ecosystem"
PAGE = ROOT / "docs" / "ecosystem.md"
BEGIN, END = "<!-- results: written by make ecosystem -->", "<!-- end of results -->"
TOOLS = ("pytest", "pytest-timeout")


def environment(backend: str) -> pathlib.Path:
    """The Python of one environment, made if it is not there."""
    python = HOME / backend / "bin" / "python"
    if not (HOME / backend / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / backend], check=True)
        wanted = ["-c", "constraints.txt", "."] if backend == "penstock" else ["tensorflow-cpu==2.21.*"]
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted, *TOOLS], check=True, cwd=ROOT)
        site = next((HOME / backend / "lib").glob("python*")) / "site-packages"
        (site / "ecosystem.pth").write_text(f"{HOME / 'libraries'}\n")
        (HOME / backend / ".installed").touch()
    return python


def install(python: pathlib.Path, names: list[str]) -> None:
    """Installs libraries, without what they depend on, into the folder that both environments see."""
    target, noted = HOME / "libraries", HOME / "installed.txt"
    known = noted.read_text().split() if noted.exists() else []
    missing = [n for n in names if n not in known]
    if missing:
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--target", target, *missing], check=True)
        noted.write_text("\n".join([*known, *missing]))


def results(library: Library, backend: str) -> pathlib.Path:
    """Where the outcomes of a library's tests are kept."""
    return HOME / f"{library.install.partition('=')[0]}.{backend}.jsonl"


def run(library: Library, backend: str, sample: int, limit: int) -> None:
    """Runs the tests of a library that have not been run yet."""
    site = HOME / "libraries"
    path = [str(ROOT / "tests" / "ecosystem"), *([str(ROOT / "src")] if backend == "penstock" else [])]
    settings = {"ECOSYSTEM_BACKEND": backend, "ECOSYSTEM_RESULTS": str(results(library, backend)), "ECOSYSTEM_SITE": str(site),
                "ECOSYSTEM_SAMPLE": str(sample), "PYTHONPATH": os.pathsep.join(path), "KERAS_BACKEND": "tensorflow",
                "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    for folder in library.tests:
        command = [environment(backend), "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider", "--rootdir", site,
                   "--timeout", str(limit), "--continue-on-collection-errors", "-W", "ignore", "--tb=short",
                   "-o", "python_files=*_test.py", folder]
        subprocess.run(command, cwd=site, env={**os.environ, **settings}, check=False)


def outcomes(file: pathlib.Path) -> dict[str, str]:
    """By test, its outcome."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {entry["test"]: entry["outcome"] for entry in map(json.loads, lines)}


def table() -> str:
    """The results of all libraries that were run, by folder."""
    rows = ["| library | tests | passed on TensorFlow | of those on penstock | |", "|---|---|---|---|---|"]
    for library in LIBRARIES:
        here, there = (outcomes(results(library, b)) for b in ("penstock", "tensorflow"))
        if not here and not there:
            rows.append(f"| {library.name} | not run | | | |")
        for folder in library.tests:
            passed = {t for t, o in there.items() if o == "passed" and t.startswith(folder)}
            if passed:
                both = sum(here.get(t) == "passed" for t in passed)
                rows.append(f"| {library.name} | `{folder}` | {len(passed)} | {both} | {both / len(passed):.1%} |")
    return "\n".join(rows)


def write(text: str) -> None:
    """Puts the table into the page."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def main() -> int:
    """Runs what is asked for, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="the name of a library; may be repeated")
    parser.add_argument("--sample", type=int, default=0, help="at most so many tests of a file")
    parser.add_argument("--limit", type=int, default=120, help="seconds for one test")
    options = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    install(environment("penstock"), SUPPORT)
    for library in LIBRARIES:
        if not options.only or library.name in options.only:
            install(environment("penstock"), [library.install])
            for backend in ("tensorflow", "penstock"):
                run(library, backend, options.sample, options.limit)
            write(table())
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
