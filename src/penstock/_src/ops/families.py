"""Imports every family of ops, so that the registry is complete."""
import importlib
import os

from penstock._src import ops


def _modules(folder: str, package: str) -> list[str]:
    """The modules below a folder. Listing them takes a fraction of the time of `pkgutil.walk_packages`."""
    found = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".py") and entry.name != "__init__.py":
            found.append(f"{package}.{entry.name[:-3]}")
        elif entry.is_dir() and entry.name.isidentifier() and not entry.name.startswith("__"):
            found += [f"{package}.{entry.name}", *_modules(entry.path, f"{package}.{entry.name}")]
    return sorted(found)


for _module in _modules(os.path.dirname(ops.__file__), ops.__name__):
    importlib.import_module(_module)
