"""Makes src/penstock/_src/data_files/private_names.txt: the modules of TensorFlow and tf_keras that define public names.

    path/to/python/with/tensorflow scripts/make_private_names.py

Libraries import public names from the modules that define them: `tensorflow.python.checkpoint.checkpoint.Checkpoint` is
`tf.train.Checkpoint`. A line of the file is a module below `tensorflow.python`, with those of `tf_keras.src` as its folder
`keras`; the lines below it, which begin with a space, are its names: the name there, the API (1 or 2) and the public name.
Generated modules are left out, because all of their functions are ops.
"""
from __future__ import annotations

import pathlib
import sys

TARGET = pathlib.Path(__file__).parent.parent / "src" / "penstock" / "_src" / "data_files" / "private_names.txt"
ROOTS = {"tensorflow.python.": ("", "_tf_api_names"), "tf_keras.src.": ("keras.", "_keras_api_names")}


def public(value: object, key: str) -> list[str]:
    """The public names that an object was exported with, those for users first."""
    found = getattr(value, "__dict__", {}).get(key) or ()
    return sorted(found, key=lambda name: (name.startswith("__internal__"), name.count("."), name))


def lines() -> list[str]:
    """The text of the file, from the TensorFlow and the tf_keras that are installed."""
    import tensorflow as tf
    import tf_keras
    _ = tf.keras, tf.compat.v1.train.Saver, tf_keras.Model, tf_keras.__internal__          # what is imported on access
    found: dict[str, dict[str, str]] = {}
    for full, module in list(sys.modules.items()):
        root = next((r for r in ROOTS if full.startswith(r)), None)
        if root is None or module is None or full.rpartition(".")[2].startswith("gen_"):
            continue
        folder, key = ROOTS[root]
        inside = {}
        for name, value in vars(module).items():
            defined = {getattr(v, "__module__", None) for v in (value, getattr(value, "__wrapped__", None))}
            for api, attribute in (("2", key), ("1", f"{key}_v1")):
                if full in defined and (names := public(value, attribute)):
                    inside[name] = f" {name} {api} {names[0]}"
                    break
        if inside:
            found.setdefault(folder + full.removeprefix(root), {}).update(inside)
    return [line for module in sorted(found) for line in (module, *(found[module][name] for name in sorted(found[module])))]


if __name__ == "__main__":
    TARGET.write_text("\n".join(lines()) + "\n")
