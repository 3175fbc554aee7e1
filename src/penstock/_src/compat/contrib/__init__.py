"""tf.contrib of TensorFlow 1, one package for each of its packages.

A package is loaded when one of its names is requested. All are written in terms of public functions, and export their names
under `contrib` in the 1.x API only.
"""
from penstock._src.base.api import export, names_below, resolve


def deeper(package: str, *paths: str) -> None:
    """Exports the names of a package also under the paths of TensorFlow's modules (`layers.python.layers.initializers`)."""
    same(f"contrib.{package}", *(f"contrib.{package}.python.{path}" for path in paths))


def same(old: str, *new: str, nested: bool = True) -> None:
    """Exports the names of a public module, and of the modules below it, also in others.

    Names in TensorFlow's own folders, which are called `python`, are left out.
    """
    for name in names_below("v1", old):
        rest = name.removeprefix(old)
        if not rest.startswith(".python.") and (nested or rest.count(".") == 1):
            export.later(lambda name=name: resolve("v1", name), v1=[n + rest for n in new])
