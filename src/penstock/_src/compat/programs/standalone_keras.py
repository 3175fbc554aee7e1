"""`import keras` and `import tf_keras`, of programs for which Keras is a separate package: it is `tf.keras` here.

The finder is last in `sys.meta_path`: an installed Keras, or a module of the program, takes precedence. Folders that
Keras 2 had and Keras 3 has not (`keras.engine`, from 2.13 `keras.src.engine`) are found here beside a Keras 3, too.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
from typing import Any

from penstock._src.base import switches
from penstock._src.compat.programs import guess, importer, missing, reach_in
from penstock._src.compat.programs.missing import NOTHING

_FOLDERS = frozenset(("engine", "legacy", "objectives", "saving", "src", "np_utils", "generic_utils", "data_utils", "io_utils",
                      "layer_utils", "conv_utils", "vis_utils", "topology", "training"))      # that `import keras` loads


class KerasModule(importer.PublicModule):
    """`keras`, `keras.utils` and so on: what tf.keras has under these names, and the modules of its folder (`np_utils`)."""

    def _find(self, name: str) -> Any:
        value = super()._find(name)
        inner = f"python.{self._prefix}{name}"
        expected = missing.importing() or name in _FOLDERS        # any module may be imported; others are not guessed
        if value is NOTHING and expected and reach_in.module(f"tensorflow.{inner}", self._api, inner) is not None:
            return importlib.import_module(f"tensorflow.{inner}")
        return value


class KerasFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of `keras` below `tensorflow`: the public ones, or those of its folder `tensorflow/python/keras`."""

    def __init__(self, api: str):
        self.below = importer.Finder(api)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        root, _, rest = fullname.partition(".")
        if root not in ("keras", "tf_keras"):
            return None
        if not rest:
            print(f"penstock run: there is no package {root}; using tf.keras", file=sys.stderr)
        plain = f"keras.{rest}".rstrip(".").replace("keras.src", "keras", 1)
        for rest in (plain, f"python.{plain}"):
            made = self.below.module(f"tensorflow.{rest}", rest)
            if isinstance(made, importer.PublicModule):
                made = KerasModule(fullname, self.below.api, f"{plain}.")
            if made is not None:
                return self.below.spec(fullname, made)
        return None


def _api_of_main() -> str:
    """The API that was installed before, or that the running program was written for; 2.x where there is no file."""
    finder = importer.installed()
    if finder is not None:
        return finder.api
    program = pathlib.Path(getattr(sys.modules["__main__"], "__file__", ""))
    return guess.guess(program).api if program.is_file() else "v2"


def share(two_kerases: str) -> None:
    """Lets `tf.keras` be the Keras that is installed, for a program that uses `keras` or `tf_keras` beside `tf.keras`.

    Their layers and models go together, as since TensorFlow 2.16. TF_USE_LEGACY_KERAS=1 chooses tf_keras; Keras 3 stays apart.
    """
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "0") in ("1", "true", "True")
    if two_kerases == "keras" and not legacy and _keras_3():
        os.environ[switches.RUN_KERAS.name] = "3"
        print("penstock run: the program imports keras and uses tf.keras: both are the installed Keras 3", file=sys.stderr)
    if two_kerases == "tf_keras" and legacy and importlib.machinery.PathFinder.find_spec("tf_keras") is not None:
        os.environ[switches.RUN_KERAS.name] = "2"
        print("penstock run: the program imports tf_keras and uses tf.keras: both are the installed tf_keras", file=sys.stderr)


def _keras_3() -> bool:
    try:
        return int(importlib.metadata.version("keras").partition(".")[0]) >= 3 and \
            importlib.util.find_spec("keras") is not None
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def install(api: str | None) -> None:
    """Installs penstock as TensorFlow, and as Keras if there is none, once."""
    api = api or _api_of_main()
    importer.install(api)
    if not any(isinstance(f, KerasFinder) for f in sys.meta_path):
        sys.meta_path.append(KerasFinder(api))
