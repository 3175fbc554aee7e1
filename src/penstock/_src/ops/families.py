"""Imports every family of ops, so that the registry is complete."""
import importlib
import pkgutil

from penstock._src import ops

for _module in sorted(m.name for m in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}.")):
    importlib.import_module(_module)
