"""Which of several exports to keep: filters over paths with their versions."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.session_bundle.gc.{name}"])


@_export("Path")
class Path(NamedTuple):
    """A path, and the version that a parser has read from it."""
    path: str
    export_version: int | None


Filter = Callable[[list[Path]], list[Path]]


@_export("largest_export_versions")
def largest_export_versions(n: int) -> Filter:
    """Keeps the `n` newest.

    >>> keep = gc.largest_export_versions(2)
    """
    def keep(paths: list[Path]) -> list[Path]:
        known = [p for p in paths if p.export_version is not None]
        return sorted(sorted(known, key=lambda p: p.export_version or 0)[max(len(known) - n, 0):])
    return keep


@_export("one_of_every_n_export_versions")
def one_of_every_n_export_versions(n: int) -> Filter:
    """Keeps the newest of each interval of `n` versions: [0, n], (n, 2n], and so on."""
    def keep(paths: list[Path]) -> list[Path]:
        newest: dict[int, Path] = {}
        for p in sorted((p for p in paths if p.export_version is not None), key=lambda p: p.export_version or 0):
            newest[max(p.export_version - 1, 0) // n if p.export_version else 0] = p
        return sorted(newest.values())
    return keep


@_export("mod_export_version")
def mod_export_version(n: int) -> Filter:
    """Keeps the versions that `n` divides."""
    return lambda paths: sorted(p for p in paths if p.export_version is not None and p.export_version % n == 0)


@_export("union")
def union(lf: Filter, rf: Filter) -> Filter:
    """Keeps what either of two filters keeps."""
    return lambda paths: sorted({*lf(paths), *rf(paths)})


@_export("negation")
def negation(f: Filter) -> Filter:
    """Keeps what a filter does not keep."""
    return lambda paths: sorted(set(paths) - set(f(paths)))


@_export("get_paths")
def get_paths(base_dir: str, parser: Callable[[Path], Path | None]) -> list[Path]:
    """The paths in a folder for which `parser` finds a version."""
    found = (parser(Path(os.path.join(base_dir, name.rstrip("/")), None)) for name in tf.gfile.ListDirectory(base_dir))
    return sorted(p for p in found if p)
