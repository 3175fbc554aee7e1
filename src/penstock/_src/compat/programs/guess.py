"""Which API a program was written for, 1.x or 2.x, from the names that it uses."""
from __future__ import annotations

import pathlib
from typing import NamedTuple

from penstock._src.base import api as names
from penstock._src.compat.programs import earlier, symbols

ONLY_V1 = ("tf.contrib.", "tf.python.", "tf.examples.", "tf.app.", "tf.flags.", "tf.logging.", "tf.gfile.", "tf.layers.",
           "tf.estimator.inputs.")
WEAK = "tf.python."              # programs for 2.x reach into this folder, too
EAGER = {"tf.function", "tf.GradientTape"}
METHODS_V1 = {"make_one_shot_iterator", "make_initializable_iterator"}      # of datasets


class Guess(NamedTuple):
    """An API, and the name that determined it."""
    api: str
    because: str
    removed: frozenset[str]     # Python 2's functions that the program uses
    two_kerases: str = ""       # the Keras that it imports, if it uses `tf.keras`, too: `keras` or `tf_keras`


def guess(path: pathlib.Path) -> Guess:
    """The API of a program, with the modules beside it that it imports. Without any sign of 1.x, it is 2.x."""
    found: str | None = None
    used: list[str] = []
    undefined: set[str] = set()
    compat = False
    imported: set[str] = set()
    for _, source in symbols.with_local_modules(path):
        undefined |= source.undefined
        imported |= {name.partition(".")[0] for name in source.imported}
        compat |= any(u.v1 for u in source.uses)
        mine = [u.name for u in source.uses if not u.v1]
        used += mine
        if source.asserts_v2:
            return Guess("v2", "it asserts a version 2", frozenset(undefined))
        if found is None:
            found = next((n for n in mine if not n.startswith(WEAK) and only_v1(n[3:])), None)
            if found is None and not compat:
                found = next(iter(sorted(source.attributes & METHODS_V1)), None)
    weak = next((n for n in used if n.startswith(WEAK)), None)
    if found is None and weak is not None and not any(n in EAGER or only_v2(n[3:]) for n in used):
        found = weak
    if found is not None:
        return Guess("v1", found, frozenset(undefined))
    own = any(n == "tf.keras" or n.startswith("tf.keras.") for n in used)
    two = next((k for k in ("tf_keras", "keras") if k in imported), "") if own else ""
    return Guess("v2", "the program uses tf.compat.v1" if compat else "nothing of 1.x", frozenset(undefined), two)


def only_v2(name: str) -> bool:
    """Whether a name without `tf.` is one of 2.x, not of 1.x."""
    return names.exists("v2", name) and not names.exists("v1", name)


def only_v1(name: str) -> bool:
    """Whether a name without `tf.` is one of 1.x, not of 2.x."""
    if f"tf.{name}.".startswith(ONLY_V1) or name in earlier.RENAMED or name in earlier.MADE:
        return True
    words = name.split(".")
    for n in range(len(words), 0, -1):                  # tf.train.Saver.save: the class tells
        full = ".".join(words[:n])
        if names.exists("v2", full):
            return False
        if names.exists("v1", full):
            return True
    return False
