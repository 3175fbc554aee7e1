"""Installs a built wheel in a clean Debian without a compiler and without a network, and runs TensorFlow's quickstart there.

    python scripts/clean_install.py --folder build/clean            # as root; needs debootstrap and unshare
    python scripts/clean_install.py --folder build/clean --pure     # the wheel without C kernels

The container is a Debian base system with Python and nothing else, in mount, process and network namespaces of its own: what a
Docker image is, without Docker. It has the Python of the Debian release, which must be the version that runs this script,
because the wheels are fetched with it. The quickstart gets its data from a server that runs inside the container.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parent.parent
INSIDE = """
set -e
mount -t proc proc /proc
ip link set lo up 2>/dev/null || python3 /work/loopback.py
for program in cc gcc g++ clang make; do
    if command -v $program; then echo "the container has a compiler: $program"; exit 1; fi
done
cd /work
rm -rf env && python3 -m venv env
env/bin/pip install -q --disable-pip-version-check --no-index --find-links /work/wheels penstock
env/bin/penstock --version
env/bin/python -c "import penstock; print(penstock.__file__)"
env/bin/python tools/quickstart.py
"""
# Starts the loopback device of a new network namespace: SIOCSIFFLAGS with IFF_UP and IFF_RUNNING.
LOOPBACK = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))
"""


def make_root(folder: pathlib.Path, release: str) -> pathlib.Path:
    """The folder with a base system, made the first time."""
    root = folder / "root"
    if not (root / "usr/bin/python3").exists():
        subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv", release, str(root)], check=True)
    return root


def fetch_wheels(wheels: pathlib.Path, pure: bool) -> None:
    """Builds penstock's wheel, and fetches those of its dependencies."""
    pip = [sys.executable, "-m", "pip"]
    shutil.rmtree(wheels, ignore_errors=True)
    environment = {**os.environ, "PENSTOCK_PURE": "1"} if pure else dict(os.environ)
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(wheels), str(ROOT)], check=True, env=environment)
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    built = next(wheels.glob("penstock-*.whl"))
    versions = str(ROOT / "constraints.txt")
    subprocess.run([*pip, "download", "-q", "-c", versions, "-d", str(wheels), torch, str(built)], check=True)


def run_inside(root: pathlib.Path) -> None:
    """Copies the program in, and runs the steps in namespaces of their own."""
    work = root / "work"
    shutil.rmtree(work / "tools", ignore_errors=True)
    shutil.copytree(ROOT / "tests" / "tools", work / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (work / "loopback.py").write_text(LOOPBACK)
    (work / "inside.sh").write_text(INSIDE)
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"}
    subprocess.run(["unshare", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts",
                    "chroot", str(root), "sh", "/work/inside.sh"], check=True, env=clean)


def main() -> None:
    """Does all steps and prints the seconds of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the base system and the wheels go: 3 GB")
    parser.add_argument("--release", default="bookworm", help="the Debian release")
    parser.add_argument("--pure", action="store_true", help="the wheel without C kernels")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    root = make_root(options.folder, options.release)
    fetch_wheels(root / "work" / "wheels", options.pure)
    print(f"prepared in {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    run_inside(root)
    print(f"installed and run in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
