"""What can be computed: one folder per family of ops, one file per block of it, all of them in the registry after this
import."""
import importlib as _importlib
import pkgutil as _pkgutil

for _module in sorted(m.name for m in _pkgutil.walk_packages(__path__, f"{__name__}.")):
    _importlib.import_module(_module)
