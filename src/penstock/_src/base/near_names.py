"""Hints at the known names that are similar to an unknown one, for error messages."""
from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_names(name: str, known: Iterable[str], count: int = 3, cutoff: float = 0.75) -> list[str]:
    """The names most similar to `name`, best first; if there are none, the shortest that begin with it."""
    known = list(known)
    found = difflib.get_close_matches(name, known, n=count, cutoff=cutoff)
    if not found and len(name) > 2:
        found = sorted((k for k in known if k.startswith(name)), key=lambda k: (len(k), k))[:count]
    return found
