"""Where TensorFlow 2.21 defines its public names: `tf.train.Checkpoint` in `tensorflow.python.checkpoint.checkpoint`.

Libraries import from the modules that define a name, not only from the public ones. `scripts/make_private_names.py` reads
them from an installed TensorFlow.
"""
from __future__ import annotations

import functools
import importlib.resources

FILE = "data_files/private_names.txt"


@functools.cache
def _modules() -> dict[str, dict[str, tuple[str, str]]]:
    found: dict[str, dict[str, tuple[str, str]]] = {}
    text = importlib.resources.files("penstock._src").joinpath(FILE).read_text(encoding="utf-8")
    names: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        if line.startswith(" "):
            name, api, public = line.split()
            names[name] = (f"v{api}", public)
        else:
            names = found.setdefault(line, {})
    return found


@functools.cache
def _folders() -> frozenset[str]:
    """The modules, and the packages around them."""
    words = [module.split(".") for module in _modules()]
    return frozenset(".".join(w[:n]) for w in words for n in range(1, len(w) + 1))


def exported(module: str) -> dict[str, tuple[str, str]]:
    """The names that a module below `tensorflow.python` exports: the API and the public name of each."""
    return _modules().get(module, {})


def has_module(module: str) -> bool:
    """Whether there is such a module, or a package around one."""
    return module in _folders()
