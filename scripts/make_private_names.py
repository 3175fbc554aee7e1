"""Makes src/penstock/_src/data_files/private_names.txt: the modules of TensorFlow in which its public names are defined.

    path/to/python/with/tensorflow scripts/make_private_names.py

Libraries import public names from the modules that define them: `tensorflow.python.checkpoint.checkpoint.Checkpoint` is
`tf.train.Checkpoint`. A line of the file is a module below `tensorflow.python`; the lines below it, which begin with a space,
are its names: the name there, the API (1 or 2) and the public name. Generated modules are left out, because all of their
functions are ops.
"""
from __future__ import annotations

import pathlib
import sys

TARGET = pathlib.Path(__file__).parent.parent / "src" / "penstock" / "_src" / "data_files" / "private_names.txt"
ROOT = "tensorflow.python."


def public(value: object, key: str) -> list[str]:
    """The public names that an object was exported with, those for users first."""
    found = getattr(value, "__dict__", {}).get(key) or ()
    return sorted(found, key=lambda name: (name.startswith("__internal__"), name.count("."), name))


def lines() -> list[str]:
    """The text of the file, from the TensorFlow that is installed."""
    import tensorflow as tf
    _ = tf.keras, tf.compat.v1.train.Saver                  # what is imported on access
    found = []
    for full, module in sorted(sys.modules.items()):
        if not full.startswith(ROOT) or module is None or full.rpartition(".")[2].startswith("gen_"):
            continue
        inside = []
        for name, value in sorted(vars(module).items()):
            defined = {getattr(v, "__module__", None) for v in (value, getattr(value, "__wrapped__", None))}
            for api, key in (("2", "_tf_api_names"), ("1", "_tf_api_names_v1")):
                if full in defined and (names := public(value, key)):
                    inside.append(f" {name} {api} {names[0]}")
                    break
        found += [full.removeprefix(ROOT), *inside] if inside else []
    return found


if __name__ == "__main__":
    TARGET.write_text("\n".join(lines()) + "\n")
