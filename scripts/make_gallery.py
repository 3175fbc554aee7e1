"""Makes the pictures of docs/gallery.md: runs every program of examples/gallery.

    python scripts/make_gallery.py             # or the names of some

The pictures of TensorBoard and of a notebook need a browser: scripts/make_pictures.py.
"""
from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent


def main() -> None:
    """Runs the programs whose names are given, or all."""
    wanted = sys.argv[1:]
    for program in sorted((ROOT / "examples" / "gallery").glob("*.py")):
        if not wanted or program.stem in wanted:
            picture = ROOT / "docs" / "pictures" / f"gallery_{program.stem}.png"
            subprocess.run([sys.executable, str(program), str(picture)], check=True)
            print(picture.relative_to(ROOT))


if __name__ == "__main__":
    main()
