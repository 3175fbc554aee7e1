"""Runs the tests of libraries on penstock and on TensorFlow, and writes the table of docs/ecosystem.md.

    make ecosystem ARGS='--only "Keras 3" --sample 5'

Two environments are created once below `.ecosystem`: one with penstock's dependencies, one with TensorFlow; the libraries are
in a folder that both see, tests that their wheels lack in `.ecosystem/sources`. Results are kept as they come: a run that was
stopped continues. `--again` forgets the failures of penstock first.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tests.ecosystem.libraries import LIBRARIES, SUPPORT, Library

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / ".ecosystem"
PAGE = ROOT / "docs" / "ecosystem.md"
BEGIN, END = "<!-- results: written by make ecosystem -->", "<!-- end of results -->"
TOOLS = ("pytest", "pytest-timeout")
BACKENDS = ("tensorflow", "penstock")


def environment(backend: str) -> pathlib.Path:
    """The Python of one environment, made if it does not exist."""
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


def sources(library: Library) -> pathlib.Path:
    """The folder of a library's tests. Those beside the package are copied alone, so that the installed package is imported."""
    if not library.repository:
        return (HOME / "libraries").resolve()
    folder = HOME / "sources" / f"of_{library.name}".replace(" ", "_")    # no name of a package
    if not folder.exists():
        whole = HOME / "clones" / library.repository.replace("/", "+")
        if not whole.exists():
            subprocess.run(["git", "clone", "-q", "--depth", "1", "--branch", library.tag,
                            f"https://github.com/{library.repository}", whole], check=True)
        for tests in library.tests if library.beside else (library.tests[0].partition("/")[0], *library.needs):
            for file in [whole / tests, *(whole / tests).rglob(library.files if library.beside else "*")]:
                if file.is_file():
                    target = folder / file.relative_to(whole)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, target)
                    if library.inner and file.suffix == ".py":
                        package = library.tests[0].partition("/")[0]
                        target.write_text(re.sub(rf"^((?:from|import) {package})\b", rf"\1.{library.inner}", file.read_text(),
                                                 flags=re.MULTILINE))
    return folder


def results(library: Library, backend: str) -> pathlib.Path:
    """Where the outcomes of a library's tests are kept."""
    return HOME / f"{library.install.partition('=')[0]}.{backend}.jsonl"


def run(library: Library, backend: str, options: argparse.Namespace) -> None:
    """Runs the tests of a library that have not been run yet; the second backend runs the tests of the first."""
    site = sources(library)
    path = [str(ROOT / "tests" / "ecosystem"), *([str(ROOT / "src")] if backend == "penstock" else [])]
    path += [str(ROOT / "tests" / "ecosystem" / library.root)] if library.root else []
    settings = {"ECOSYSTEM_BACKEND": backend, "ECOSYSTEM_RESULTS": str(results(library, backend)), "ECOSYSTEM_SITE": str(site),
                "ECOSYSTEM_SAMPLE": str(options.sample), "ECOSYSTEM_SECONDS": str(options.seconds),
                "ECOSYSTEM_OTHER": str(results(library, next(b for b in BACKENDS if b != backend))),
                "PYTHONPATH": os.pathsep.join(path), "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3",
                "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1",
                **dict(setting.split("=", 1) for setting in library.settings)}
    for folder in library.tests:
        if options.folder and options.folder not in folder:
            continue
        command = [environment(backend), "-m", "pytest", "-q", "-c", os.devnull, "-p", "plugin", "-p", "no:cacheprovider",
                   "--rootdir", site.parent, "--timeout", str(options.limit), "--continue-on-collection-errors",
                   "-W", "ignore", "--tb=short", "--import-mode", "importlib" if library.beside else "prepend",
                   "-o", f"python_files={library.files}", folder]
        before = -1
        while before != (before := len(outcomes(results(library, backend)))):    # a test may end the process
            if subprocess.run(command, cwd=site, env={**os.environ, **settings}, check=False).returncode in range(6):
                break


def outcomes(file: pathlib.Path) -> dict[str, dict]:
    """By test, its last line."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {entry["test"]: entry for entry in map(json.loads, lines)}


def forget(file: pathlib.Path) -> None:
    """Keeps only the tests that passed."""
    if file.exists():
        kept = [e for e in outcomes(file).values() if e["outcome"] == "passed"]
        file.write_text("".join(json.dumps(e) + "\n" for e in kept))


def compared(library: Library, folder: str) -> tuple[set[str], set[str]]:
    """The tests of a folder that pass on TensorFlow and were run here, and those of them that pass here."""
    here, there = (outcomes(results(library, b)) for b in ("penstock", "tensorflow"))
    lost = {t.removesuffix("::import") for t in here if t.endswith("::import")}       # files that cannot be imported here
    passed = {t for t, e in there.items() if e["outcome"] == "passed" and t.startswith(folder)
              and (t in here or t.partition("::")[0] in lost)}
    return passed, {t for t in passed if t in here and here[t]["outcome"] == "passed"}


def kept(library: Library, folder: str) -> list[str]:
    """The row of a folder that the page has already: of a run on another machine, or in another place."""
    return [row for row in PAGE.read_text().splitlines() if row.startswith(f"| {library.name} | `{folder}` |")]


def table() -> str:
    """The results of all libraries, by folder; of a folder that was not run here, those that the page has."""
    rows = ["| library | tests | passed on TensorFlow | of those on penstock | |", "|---|---|---|---|---|"]
    for library in LIBRARIES:
        found: list[str] = []
        for folder in library.tests:
            there, here = compared(library, folder)
            found += [f"| {library.name} | `{folder}` | {len(there)} | {len(here)} | {len(here) / len(there):.1%} |"] if there \
                else kept(library, folder)
        rows += found or [f"| {library.name} | not run | | | |"]
    return "\n".join(rows)


def failures(library: Library) -> str:
    """What fails here only, with the last line of the message."""
    here, lines = outcomes(results(library, "penstock")), []
    for folder in library.tests:
        there, passed = compared(library, folder)
        for test in sorted(there - passed):
            entry = here.get(test) or here.get(test.partition("::")[0] + "::import", {})
            lines.append(f"{test}: {entry.get('message', '').strip()[-200:]!r}")
    return "\n".join(lines)


def write(text: str) -> None:
    """Puts the table into the page."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def main() -> int:
    """Runs what is requested, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="the name of a library; may be repeated")
    parser.add_argument("--folder", help="only folders of tests whose path contains this")
    parser.add_argument("--backend", choices=BACKENDS, help="only this one")
    parser.add_argument("--sample", type=int, default=0, help="at most so many tests of a file")
    parser.add_argument("--limit", type=int, default=120, help="seconds for one test")
    parser.add_argument("--seconds", type=int, default=0, help="seconds for the tests of one file")
    parser.add_argument("--again", action="store_true", help="run what did not pass on penstock again")
    parser.add_argument("--failures", action="store_true", help="run nothing: print what fails on penstock only")
    options = parser.parse_args()
    chosen = [library for library in LIBRARIES if not options.only or library.name in options.only]
    if options.failures:
        print("\n".join(map(failures, chosen)))
        return 0
    HOME.mkdir(exist_ok=True)
    install(environment("penstock"), SUPPORT)
    for library in chosen:
        install(environment("penstock"), [library.install])
        if options.again:
            forget(results(library, "penstock"))
        for backend in BACKENDS if not options.backend else (options.backend,):
            run(library, backend, options)
        write(table())
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
