"""The report of `penstock check`: every name of TensorFlow's that a program uses, and whether penstock has it."""
from __future__ import annotations

import importlib
import os
import pathlib
import types
from typing import Any, NamedTuple

from penstock._src.compat.programs import guess, importer, missing, symbols


class Finding(NamedTuple):
    """A name, the lines where it is used, and whether penstock has it."""
    name: str
    where: tuple[str, ...]
    here: bool
    nearest: tuple[str, ...]


def check(path: pathlib.Path, api: str | None = None) -> tuple[str, list[Finding]]:
    """The API of a program, and a finding for each name that it, or a module beside it, uses."""
    chosen = api or guess.guess(path).api
    used: dict[tuple[str, bool], list[str]] = {}
    for file, source in symbols.with_local_modules(path):
        for use in source.uses:
            place = str(use.line) if file == path else f"{os.path.relpath(file, path.parent)}:{use.line}"
            used.setdefault((use.name, use.v1), []).append(place)
    findings = []
    with importer.in_place(chosen):
        for (name, v1), where in sorted(used.items()):
            if any(other.startswith(name + ".") for other, _ in used):
                continue                                # the longer name says it
            here = has(name[3:], "tensorflow.compat.v1" if v1 else "tensorflow")
            near = () if here else missing.nearest("v1" if v1 else chosen, name[3:])
            findings.append(Finding(name, tuple(dict.fromkeys(where)), here, near))
    return chosen, findings


def has(name: str, module: str = "tensorflow") -> bool:
    """Whether a module has a name without `tf.`: as a public name, or where programs reach into TensorFlow's folders."""
    found: Any = importlib.import_module(module)
    for word in name.split("."):
        try:
            found = getattr(found, word)
        except (AttributeError, ImportError):
            return isinstance(found, type) and _instance_has(found, word)
        if isinstance(found, (missing.Missing, missing.MissingModule)):
            return False
        if not isinstance(found, (types.ModuleType, type)):
            return True                                 # attributes of values, such as FLAGS, belong to the program
    return True


def _instance_has(cls: Any, word: str) -> bool:
    """Whether instances of a class have an attribute that the class does not show (messages, annotated fields)."""
    descriptor = getattr(cls, "DESCRIPTOR", None)
    if descriptor is not None:
        return word in descriptor.fields_by_name
    return isinstance(cls, type) and any(word in c.__dict__.get("__annotations__", ()) for c in cls.__mro__)


def report(path: pathlib.Path, api: str | None = None, everything: bool = True) -> tuple[str, int]:
    """The text of `penstock check`, and how many names are missing."""
    chosen, findings = check(path, api)
    lacking = [f for f in findings if not f.here]
    lines = [f"{path.name}: TensorFlow {importer.VERSIONS[chosen].split('.')[0]}.x, "
             f"{len(findings)} names, {len(lacking)} missing"]
    width = max((len(f.name) for f in findings), default=0)
    for f in (findings if everything else lacking):
        text = f"  {'yes' if f.here else 'NO ':3}  {f.name:{width}}  line {', '.join(f.where[:4])}"
        if len(f.where) > 4:
            text += f" and {len(f.where) - 4} more"
        if not f.here:
            text += f"  nearest: {', '.join('tf.' + n for n in f.nearest)} (docs/api.md)" if f.nearest else "  nothing like it"
        lines.append(text)
    return "\n".join(lines), len(lacking)
