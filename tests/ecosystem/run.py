"""Runs the tests of libraries on penstock and on TensorFlow, and writes the table of docs/ecosystem.md.

    make ecosystem ARGS='--only "Keras 3" --sample 5'

Two environments are created once below `.ecosystem`: one with penstock's dependencies, one with TensorFlow; the libraries are
in a folder that both see, tests that their wheels lack in `.ecosystem/sources`. Results are kept as they come: a run that was
stopped continues. `--again` forgets the failures of penstock first. `--quick` runs penstock first, and TensorFlow only on what
failed there; it has a table of its own, and results of its own.
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
QUICK = "<!-- results: written by make ecosystem ARGS=--quick -->"
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
    folder = HOME / "sources" / f"of_{library.name}".replace(" ", "_").replace(".", "_")    # no name of a package
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


def results(library: Library, backend: str, quick: bool = False) -> pathlib.Path:
    """Where the outcomes of a library's tests are kept."""
    return HOME / f"{'own.' * bool(library.own)}{library.install.partition('=')[0]}.{'quick.' * quick}{backend}.jsonl"


def run(library: Library, backend: str, options: argparse.Namespace) -> None:
    """Runs the tests of a library that have not been run yet; the second backend runs the tests of the first."""
    site = sources(library)
    path = [str(ROOT / "tests" / "ecosystem"), *([str(ROOT / "src")] if backend == "penstock" else [])]
    path += [str(ROOT / "tests" / "ecosystem" / library.root)] if library.root else []
    kept, other = (results(library, b, options.quick) for b in (backend, next(b for b in BACKENDS if b != backend)))
    settings = {"ECOSYSTEM_BACKEND": backend, "ECOSYSTEM_RESULTS": str(kept), "ECOSYSTEM_SITE": str(site),
                "ECOSYSTEM_SAMPLE": str(options.sample), "ECOSYSTEM_SECONDS": str(options.seconds),
                "ECOSYSTEM_OTHER": str(other), "ECOSYSTEM_QUICK": str(int(options.quick)), "ECOSYSTEM_OWN": library.own,
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
        while before != (before := len(outcomes(kept))):    # a test may end the process
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
    rows = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()
    return [row for row in rows if row.startswith(f"| {library.name} | `{folder}` |")]


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


def quick_compared(library: Library) -> tuple[set[str], set[str]]:
    """The tests that pass here, and those that pass on TensorFlow only."""
    here, there = (outcomes(results(library, b, quick=True)) for b in ("penstock", "tensorflow"))
    passed = {t for t, e in here.items() if e["outcome"] == "passed"}
    return passed, {t for t, e in there.items() if e["outcome"] == "passed"} - passed


def quick_table() -> str:
    """The results of `--quick`, by library; of a library that was not run here, those that the page has."""
    rows = ["| library | folders of tests | passed on penstock | fail there only |", "|---|---|---|---|"]
    old = PAGE.read_text().partition(QUICK)[2].partition(END)[0].splitlines()
    for library in LIBRARIES:
        passed, lost = quick_compared(library)
        folders = {f for f in library.tests if any(t.startswith(f"{f}/") for t in passed | lost)}
        shown = ", ".join(f"`{f}`" for f in library.tests if f in folders) if len(folders) < 6 else str(len(folders))
        rows += [f"| {library.name} | {shown} | {len(passed)} | {len(lost)} |"] if passed or lost \
            else [row for row in old if row.startswith(f"| {library.name} |")]
    return "\n".join(rows)


def failures(library: Library, quick: bool) -> str:
    """What fails here only, with the last line of the message."""
    here = outcomes(results(library, "penstock", quick))
    pairs = (compared(library, folder) for folder in library.tests)
    lost = quick_compared(library)[1] if quick else {test for there, passed in pairs for test in there - passed}
    entries = {t: here.get(t) or here.get(t.partition("::")[0] + "::import", {}) for t in lost}
    return "\n".join(f"{test}: {entries[test].get('message', '').strip()[-200:]!r}" for test in sorted(lost))


def write(text: str, begin: str) -> None:
    """Puts a table into the page."""
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}\n{text}\n{END}{rest.partition(END)[2]}")


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
    parser.add_argument("--quick", action="store_true", help="penstock first, and TensorFlow only where it failed")
    options = parser.parse_args()
    chosen = [library for library in LIBRARIES if not options.only or library.name in options.only]
    if options.failures:
        print("\n".join(failures(library, options.quick) for library in chosen))
        return 0
    HOME.mkdir(exist_ok=True)
    install(environment("penstock"), SUPPORT)
    make, begin = (quick_table, QUICK) if options.quick else (table, BEGIN)
    for library in chosen:
        install(environment("penstock"), [library.install])
        if options.again:
            forget(results(library, "penstock", options.quick))
        for backend in (options.backend,) if options.backend else BACKENDS[::-1] if options.quick else BACKENDS:
            run(library, backend, options)
        write(make(), begin)
    print(make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
