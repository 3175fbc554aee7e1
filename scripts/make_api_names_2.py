"""Makes tests/api/names_2_21.txt: the public names of an installed TensorFlow 2, without those of Keras.

    path/to/python/with/tensorflow scripts/make_api_names_2.py
"""
from __future__ import annotations

import pathlib
import types

import tensorflow

RECORD = pathlib.Path(__file__).parent.parent / "tests" / "api" / "names_2_21.txt"
OTHERS = ("keras", "compat", "estimator", "optimizers", "losses", "metrics", "initializers", "lite.", "tools", "dtensor")
PUBLIC = ("tensorflow._api", "tensorflow.experimental")


def names(module: types.ModuleType, prefix: str = "") -> set[str]:
    """The names below a public module."""
    found = set()
    for name in dir(module):
        path = prefix + name
        if name.startswith("_") and name != "__internal__" or path.startswith(OTHERS):
            continue
        value = getattr(module, name)
        if not isinstance(value, types.ModuleType):
            found.add(path)
        elif value.__name__.startswith(PUBLIC):
            found |= names(value, path + ".")
    return found


if __name__ == "__main__":
    lines = sorted(names(tensorflow))
    RECORD.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} names")
