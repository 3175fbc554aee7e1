"""The command `penstock`. It stands beside the package, so that `penstock --version` need not load it (and torch)."""
from __future__ import annotations

import sys


def main() -> int:
    """Prints the version at once; everything else is `penstock._src.tools.main`."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from importlib.metadata import version
        print(f"penstock {version('penstock')}")
        return 0
    from penstock._src.tools.main import main as run
    return run()
