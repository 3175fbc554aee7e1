"""Objects by name in a folder of their own, on any file system that fsspec supports. They live as long as the process."""
from __future__ import annotations

import contextlib
import uuid

from penstock._src.base import errors
from penstock._src.io import paths


class Folder:
    """A new folder under a URL. `close` removes it with its objects."""

    def __init__(self, url: str, prefix: str = "objects"):
        self.path = paths.join(url, f"{prefix}-{uuid.uuid4().hex}")
        paths.makedirs(self.path)

    def write(self, name: str, data: bytes) -> None:
        """Makes an object."""
        paths.write_atomically(paths.join(self.path, name), data)

    def read(self, name: str) -> bytes:
        """A whole object; NotFoundError if there is none."""
        return paths.read_bytes(paths.join(self.path, name))

    def read_ranges(self, name: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes between pairs of positions, requested together where the file system can."""
        path = paths.join(self.path, name)
        far = paths.remote(path)
        with paths.typed(path):
            if far is not None:
                return far[0].cat_ranges([far[1]] * len(ranges), *map(list, zip(*ranges, strict=True)), on_error="raise")
            with paths.open_file(path) as f:
                return [_between(f, *r) for r in ranges]

    def remove(self, name: str) -> None:
        """Removes an object."""
        paths.remove(paths.join(self.path, name))

    def close(self) -> None:
        """Removes all objects. A store that is gone is no error."""
        with contextlib.suppress(errors.OpError, OSError):
            paths.rmtree(self.path)


def _between(f: object, begin: int, end: int) -> bytes:
    f.seek(begin)                                                     # type: ignore[attr-defined]
    return f.read(end - begin)                                        # type: ignore[attr-defined]
