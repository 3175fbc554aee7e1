"""Runs the tests of the C sources under sanitizers: address and undefined behaviour together, then threads.

    python scripts/sanitize.py                       # all sources, both
    python scripts/sanitize.py thread _keyed         # some of them

The sources are compiled as setup.py lists them, into a copy of the package in build/sanitize. The sanitizer's library is loaded
before Python, which is not built with it. A report ends the run with an error.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from typing import Any

import setuptools

ROOT = pathlib.Path(__file__).parents[1]
KINDS = {"address": ("address,undefined", ["libasan.so", "libubsan.so"]), "thread": ("thread", ["libtsan.so"])}
TESTS = {"_keyed": "tests/kernels/test_keyed.py", "_updates": "tests/kernels/test_updates.py",
         "_philox": "tests/kernels/test_philox.py", "_colours": "tests/kernels/test_colours.py",
         "_exiting": "tests/kernels/test_exiting.py", "_sparse": "tests/kernels/test_sparse_products.py",
         "_images": "tests/kernels/test_images.py", "_pools": "tests/kernels/test_pools.py",
         "_fused": "tests/kernels/test_pointwise.py", "_gather": "tests/kernels/test_gather.py",
         "_recurrent": "tests/kernels/test_recurrent.py", "_matrices": "tests/kernels/test_products.py",
         "_resize": "tests/kernels/test_resizing.py", "_rows": "tests/kernels/test_rows.py",
         "_text": "tests/kernels/test_text.py", "_sums": "tests/kernels/test_sums.py",
         "_scanner": "tests/ops/strings/test_csv_scanner.py"}
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=86",           # Python itself leaks at its end
           "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=86",
           "TSAN_OPTIONS": "exitcode=86:ignore_noninstrumented_modules=1"}


def extensions() -> list[Any]:
    """What setup.py builds."""
    return setuptools.distutils.core.run_setup(str(ROOT / "setup.py"), stop_after="init").ext_modules


def build(kind: str, names: list[str]) -> pathlib.Path:
    """A copy of the package in which some of the C modules are sanitized, and the others absent."""
    folder = ROOT / "build" / "sanitize" / kind
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    suffix, include = sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_paths()["include"]
    for extension in extensions():
        package, _, name = extension.name.rpartition(".")
        if name in names:
            made = folder / package.replace(".", "/") / f"{name}{suffix}"
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-g", "-fno-omit-frame-pointer",
                            f"-fsanitize={KINDS[kind][0]}", "-fno-sanitize-recover=undefined",
                            *[a for a in extension.extra_compile_args if not a.startswith("-O")], f"-I{include}",
                            *extension.sources, "-o", str(made), "-lm"], cwd=ROOT, check=True)
    return folder


def libraries(kind: str) -> str:
    """The sanitizer's libraries, as LD_PRELOAD takes them."""
    compiler = os.environ.get("CC", "cc")
    found = [subprocess.check_output([compiler, f"-print-file-name={name}"], text=True) for name in KINDS[kind][1]]
    return " ".join(f.strip() for f in found)


def run(kind: str, names: list[str]) -> int:
    """The tests of some sources under one sanitizer; returns pytest's exit status, or that of a report."""
    env = {**os.environ, **OPTIONS, "LD_PRELOAD": libraries(kind), "PYTHONPATH": str(build(kind, names)),
           "OMP_NUM_THREADS": "1"}
    print(f"{kind}: {' '.join(names)}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *[TESTS[n] for n in names]],
                          cwd=ROOT, env=env).returncode


def main() -> int:
    """Runs what the arguments ask for."""
    kinds, names = ([g for g in sys.argv[1:] if g in known] for known in (KINDS, TESTS))
    if len(kinds) + len(names) != len(sys.argv) - 1:
        raise SystemExit(f"what to run: some of {', '.join((*KINDS, *TESTS))}")
    return max(run(kind, names or list(TESTS)) for kind in kinds or KINDS)


if __name__ == "__main__":
    sys.exit(main())
