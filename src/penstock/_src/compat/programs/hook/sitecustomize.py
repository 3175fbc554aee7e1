"""Runs when Python starts in a process that a program under `penstock run` started (children.py put this folder on its path).

It loads nothing: penstock is installed as TensorFlow when `tensorflow` is first imported. A sitecustomize that this one shadows
is run, too.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class _Waiting(importlib.abc.MetaPathFinder):
    """Waits for `import tensorflow`."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in ("tensorflow", "tensorflow_core", "tensorflow_estimator"):
            return None
        sys.meta_path.remove(self)
        try:
            from penstock._src.compat.programs import children
        except ImportError:                                 # another Python, without penstock: it has its own TensorFlow
            return None
        return children.take_over(fullname, path, target)


def _next() -> None:
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != HERE])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("PENSTOCK_RUN_API"):
    sys.meta_path.insert(0, _Waiting())
_next()
