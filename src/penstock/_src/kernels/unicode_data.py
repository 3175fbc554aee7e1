"""The scripts of Unicode characters, which Python's unicodedata lacks."""
from __future__ import annotations

import functools
import importlib.resources

import numpy as np

LAST = 0x10FFFF


@functools.cache
def _table() -> dict[str, np.ndarray]:
    """Runs of characters of one script: `start`, `code`; and `names` of scripts with their `name_codes`."""
    with importlib.resources.files("penstock._src").joinpath("data_files/unicode_scripts.npz").open("rb") as file, \
            np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def script_codes(points: np.ndarray) -> np.ndarray:
    """ICU's numbers of the scripts of characters; -1 for invalid code points."""
    table = _table()
    inside = (points >= 0) & (points <= LAST)
    run = np.searchsorted(table["start"], np.where(inside, points, 0), side="right") - 1
    return np.where(inside, table["code"][run], -1).astype(np.int32)


def script_ranges(name: str) -> tuple[tuple[int, int], ...]:
    """The characters of a script as inclusive ranges; none if there is no script of that name."""
    table = _table()
    known = dict(zip(table["names"].tolist(), table["name_codes"].tolist(), strict=True))
    if name not in known:
        return ()
    ends = np.append(table["start"][1:], LAST + 1) - 1
    mine = table["code"] == known[name]
    return tuple(zip(table["start"][mine].tolist(), ends[mine].tolist(), strict=True))
