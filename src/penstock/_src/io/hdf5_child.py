"""A script that inspects an HDF5 file before the user's process reads it. See `hdf5_guard.py`.

It is run as a script, in its own process with limits, and imports nothing of penstock: a damaged file may crash or hang
the HDF5 library, or make it allocate. It visits every object, reads every attribute and all encoded data, and prints why it
refuses a file.
"""
from __future__ import annotations

import resource
import sys
from typing import Any

OBJECTS = 1_000_000             # groups and datasets of a file
ATTRIBUTE = 1 << 30             # bytes of one attribute
UNSTORED = 1 << 20              # bytes that a dataset may have without a place in the file


class RefusedError(Exception):
    """A feature of HDF5 that files of weights do not need."""


def limit(memory: int, seconds: int) -> None:
    """Limits the resources of this process."""
    for what, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, hard))


def walk(h5py: Any, file: Any, most: int) -> None:
    """Visits every object of a file; its datasets may have at most `most` bytes in total."""
    seen: set[Any] = set()
    todo: list[Any] = [file]
    total = 0
    while todo:
        group = todo.pop()
        attributes(group)
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise RefusedError(f"{group.name}/{name} is a link to another file")
            item = group[name]
            key = h5py.h5o.get_info(item.id).addr
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > OBJECTS:
                raise RefusedError(f"the file has more than {OBJECTS} objects")
            if isinstance(item, h5py.Group):
                todo.append(item)
            elif isinstance(item, h5py.Dataset):
                total += dataset(h5py, item)
                if total > most:
                    raise RefusedError(f"the datasets of the file would take more than {most} bytes")
                attributes(item)


def attributes(item: Any) -> None:
    """Reads the attributes of an object."""
    for name in list(item.attrs):
        held = item.attrs.get_id(name)
        size = held.get_space().get_simple_extent_npoints() * held.get_type().get_size()
        if size > ATTRIBUTE:
            raise RefusedError(f"attribute {name} of {item.name} takes {size} bytes")
        item.attrs[name]


def dataset(h5py: Any, item: Any) -> int:
    """The size of a dataset, whose data must be in this file and decodable."""
    plan = item.id.get_create_plist()
    if plan.get_external_count():
        raise RefusedError(f"the values of {item.name} are in another file")
    if plan.get_layout() == h5py.h5d.VIRTUAL:
        raise RefusedError(f"{item.name} is a virtual dataset")
    size = int(item.size or 0) * item.dtype.itemsize
    stored = item.id.get_storage_size()
    if plan.get_layout() == h5py.h5d.CONTIGUOUS and not item.dtype.hasobject:
        if stored != size and size > UNSTORED:
            raise RefusedError(f"{item.name} declares {size} bytes, but stores {stored}")
        if size:
            item.id.get_offset()
            item[(0,) * item.ndim], item[(-1,) * item.ndim]
    elif size > max(UNSTORED, 1100 * stored):                # no more than what deflate can make of so many bytes
        raise RefusedError(f"{item.name} declares {size} bytes, but stores {stored}")
    else:
        item[()]
    return size


def main(folder: str, path: str, memory: str, seconds: str, most: str) -> int:
    """Inspects a file; the exit status is 0 if it may be read, 2 if not, 3 if the HDF5 library rejects it."""
    sys.path.append(folder)
    import h5py
    limit(int(memory), int(seconds))
    try:
        with h5py.File(path, "r", locking=False) as f:
            walk(h5py, f, int(most))
    except RefusedError as e:
        print(f"{e}")
        return 2
    except MemoryError:
        print("the file exceeds the memory limit")
        return 2
    except Exception as e:
        print(f"{type(e).__name__}: {e}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
