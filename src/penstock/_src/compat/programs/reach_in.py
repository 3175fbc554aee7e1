"""Where programs reach into TensorFlow's own folders: `tensorflow.python.framework.ops`, `tensorflow.core.framework.graph_pb2`,
`tensorflow.contrib.layers.python.layers`, `tensorflow.examples.tutorials.mnist`.

A module there is a view: `folders.py` has the public prefixes of its names, and the modules of penstock for those that are not
public; `private_names.py` has what each module of 2.21 exports. Ops of generated modules (`gen_math_ops`) are `tf.raw_ops`,
called with their names in small letters.
"""
from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import re
import types
from typing import Any

from penstock._src.base import api as names
from penstock._src.compat.programs import message_pool, missing, private_names
from penstock._src.compat.programs.folders import CONTRIB_FILES, PLACES
from penstock._src.compat.programs.missing import NOTHING
from penstock._src.graph import messages
from penstock._src.ops.registry import OPS

OWN_MODULES = {       # modules of ours that represent one of TensorFlow's as a whole
    "examples.tutorials.mnist.input_data": "penstock._src.compat.programs.tutorials.input_data",
    "examples.tutorials.mnist.mnist": "penstock._src.compat.programs.tutorials.mnist",
    "contrib.learn.python.learn.datasets.mnist": "penstock._src.compat.programs.tutorials.input_data",
    "contrib.learn.python.learn.datasets.base": "penstock._src.compat.programs.tutorials.base",
    "contrib.learn.datasets.mnist": "penstock._src.compat.programs.tutorials.input_data",
    "contrib.learn.datasets.base": "penstock._src.compat.programs.tutorials.base",
    "contrib.learn.python.learn.datasets.text_datasets": "penstock._src.compat.programs.tutorials.text_datasets",
    "contrib.learn.datasets.text_datasets": "penstock._src.compat.programs.tutorials.text_datasets",
    **{f"contrib.eager.python.examples.{theirs}": f"penstock._src.compat.contrib.eager.examples.{ours}" for theirs, ours in (
        ("densenet.densenet", "densenet"), ("gan.mnist", "gan"), ("l2hmc.l2hmc", "l2hmc"), ("l2hmc.neural_nets", "l2hmc"),
        ("linear_regression.linear_regression", "linear_regression"), ("resnet50.resnet50", "resnet50"),
        ("revnet.revnet", "revnet"), ("revnet.blocks", "revnet"), ("revnet.ops", "revnet"), ("revnet.config", "revnet_config"),
        ("revnet.cifar_input", "cifar_input"), ("rnn_colorbot.rnn_colorbot", "rnn_colorbot"), ("rnn_ptb.rnn_ptb", "rnn_ptb"),
        ("spinn.data", "spinn_data"))},
    "core.framework.embedding.config_pb2": "penstock._src.state.embeddings.options",
    "core.util.test_log_pb2": "penstock._src.compat.programs.inside.test_log",
    "examples.saved_model.integration_tests.mnist_util": "penstock._src.compat.programs.tutorials.mnist_util",
    "examples.speech_commands.models": "penstock._src.compat.programs.tutorials.speech_models",
    "tools.graph_transforms": "penstock._src.compat.programs.inside.graph_transforms",
    "tools.docs.doc_controls": "penstock._src.compat.programs.inside.doc_controls",
    "compiler.tf2xla.python.xla": "penstock._src.compat.programs.inside.xla_ops",
    "python.debug": "penstock._src.compat.programs.inside.debugger",
    "python.debug.wrappers.local_cli_wrapper": "penstock._src.compat.programs.inside.debugger",
}
KERAS_FILES = frozenset(("activations", "backend", "backend_config", "callbacks", "callbacks_v1", "constraints", "losses",
                         "metrics", "models", "optimizers", "regularizers"))


def has_file(module: Any) -> bool:
    """Whether a module is a file of penstock, not a view of public names."""
    return isinstance(module, types.ModuleType) and bool(getattr(module, "__file__", None)) and \
        not module.__dict__.get("__getattr__")


class Alias(types.ModuleType):
    """A module of penstock under one of TensorFlow's names."""

    def __init__(self, name: str, module: types.ModuleType):
        super().__init__(name, module.__doc__)
        self.__dict__.update({k: v for k, v in module.__dict__.items() if not k.startswith("__")})
        self.__dict__["_module"] = module
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        inner = f"{self.__name__.partition('.')[2]}.{name}"
        if any(known == inner or known.startswith(inner + ".") for known in OWN_MODULES) or \
                private_names.has_module(inner.removeprefix("python.")):
            return importlib.import_module(f"{self.__name__}.{name}")
        return getattr(self._module, name)


class View(types.ModuleType):
    """A module of TensorFlow's own folders: names that are public under some prefix, or in modules of penstock."""

    def __init__(self, name: str, api: str, rest: str, where: str):
        super().__init__(name, f"What programs use of tensorflow.{rest}.")
        self.__path__: list[str] = []
        self.__dict__["_api"], self.__dict__["_rest"], self.__dict__["_where"] = api, rest, where.split() or ["."]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._star_names()
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        full, inner = f"{self.__name__}.{name}", f"{self._rest}.{name}"
        value = self._stated(name) if _guessed(inner) else NOTHING
        if value is NOTHING and module(full, self._api, inner) is not None:
            return importlib.import_module(full)       # `ops.gradients` is the module, not the function
        if value is NOTHING:
            value = self._find(name)
        if value is NOTHING and f"ops.{name}" in PLACES and self._rest.startswith("python.ops."):
            return importlib.import_module(f"{self.__name__.partition('.')[0]}.python.ops.{name}")    # which that one imports
        if value is NOTHING:
            return missing.found_missing(full, self._api, name)
        self.__dict__[name] = value
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Handles a call of a supposed module: it is the function of that name, or one that penstock lacks."""
        name = self.__name__.rpartition(".")[2]
        function = self._stated(name)
        if function is NOTHING:
            raise missing.MissingSymbol(self.__name__, self._api, name)
        return function(*args, **kwargs)

    def _stated(self, name: str) -> Any:
        """The object of this name in the places of `folders.py`, which are those of 1.15, or as 2.21 exports it; or NOTHING.

        A program for 2.x gets what 2.21 has under the name (`data.ops.dataset_ops.Dataset`), unless penstock's own modules
        take its place.
        """
        found = [p for p in self._where if self._api == "v1" or p.startswith("@")]
        for where in found:
            if (value := _at(where, name)) is not NOTHING:
                return value
        value = _exported(self._rest, name)
        rest = iter(p for p in self._where if p not in found)
        while value is NOTHING and (where := next(rest, "")):
            value = _at(where, name)
        return value

    def _star_names(self) -> list[str]:
        """The names of `from module import *`: those of the stated places; from tf itself, none that shadow builtins."""
        found = set(private_names.exported(self._rest.removeprefix("python.")))
        for where in self._where:
            if where.startswith("@"):
                found.update(n for n, v in vars(importlib.import_module(f"penstock._src.{where[1:]}")).items()
                             if str(getattr(v, "__module__", None)).startswith(("penstock.", "tensorflow.python.")))
            elif where == ".":
                found.update(n for n in names.names_under("v1", "") if not hasattr(builtins, n))
            else:
                found.update(names.names_under("v1", where + "."))
        return sorted(n for n in found if not n.startswith("_") and self._stated(n) is not NOTHING)

    def _find(self, name: str) -> Any:
        value = self._stated(name)
        if value is not NOTHING or name.startswith("_"):
            return value
        if self._rest.rpartition(".")[2].startswith(("gen_", "audio_ops")):
            return generated(name)
        if self._rest.startswith("python.ops.") and name in _raw_names():      # these modules have the generated ops, too
            return generated(name)
        return NOTHING if self._rest.count(".") < 2 else _anywhere("v1", name)


def _guessed(rest: str) -> bool:
    """Whether a module is assumed to exist only because of its folder: its functions take precedence."""
    return rest.startswith(("python.estimator.", "python.keras."))


def _at(where: str, name: str) -> Any:
    """The object of this name in one place of `folders.py`, or NOTHING."""
    return _own(where[1:], name) if where.startswith("@") else _public("v1", name if where == "." else f"{where}.{name}")


def _exported(rest: str, name: str) -> Any:
    """The public object that TensorFlow 2.21 defines in a module under this name, or NOTHING."""
    known = private_names.exported(rest.removeprefix("python.")).get(name)
    return NOTHING if known is None else _public(*known)


def _own(module: str, name: str) -> Any:
    """An attribute of a module of penstock; of a package, of the modules in it."""
    try:
        return getattr(importlib.import_module(f"penstock._src.{module}"), name, NOTHING)
    except ModuleNotFoundError:
        return NOTHING


def _public(api: str, full: str) -> Any:
    from penstock._src.compat.programs.importer import public
    value = public(api, full)
    return NOTHING if isinstance(value, types.ModuleType) else value


def _anywhere(api: str, name: str) -> Any:
    """The object of this name anywhere in the public API, if it is unique."""
    found = {id(v): v for n, v in list(names.TABLES[api].items()) if n.rsplit(".", 1)[-1] == name
             and not n.startswith("raw_ops.") and not isinstance(v, (types.ModuleType, names.Later))}
    return next(iter(found.values())) if len(found) == 1 else NOTHING


@functools.cache
def _raw_names() -> dict[str, str]:
    return {small(name): name for name in OPS}


def small(name: str) -> str:
    """The name of an op in small letters: Conv2DBackpropInput is conv2d_backprop_input.

    >>> small("MatMul")
    'mat_mul'
    """
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])|(\d)([A-Z][a-z])", lambda m: "_".join(g for g in m.groups() if g), text).lower()


def generated(name: str) -> Any:
    """The function of an op by its small name; arguments may be given by position, in the order of the op's declaration."""
    full = _raw_names().get(name) or _raw_names().get(name.lstrip("_"))
    if full is None:
        return NOTHING
    function = getattr(importlib.import_module("penstock.compat.v1").raw_ops, full)
    parameters = [p for p in inspect.signature(function).parameters]

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(**dict(zip(parameters, args)), **kwargs)
    call.__name__, call.__doc__ = name, function.__doc__
    return call


class Messages(types.ModuleType):
    """A module of `tensorflow.core`: protocol messages."""

    def __init__(self, name: str, file: str):
        super().__init__(name, f"The messages of {file}.")
        self.__dict__["_file"] = file

    def __getattr__(self, name: str) -> Any:
        value = getattr(messages, name, None)
        if value is None:
            value = getattr(importlib.import_module(message_pool.OURS + self._file), name)
        return value


def _place(rest: str) -> str | None:
    """Where the names of a module of `tensorflow.python` are (as in folders.py); None if there is no such module."""
    if rest == "python":
        return "."
    words = rest.split(".")[1:] if rest.startswith("python.") else []
    if not words:
        return None
    if len(words) > 1 and ".".join(words) in PLACES:
        return PLACES[".".join(words)]
    if words[0] in ("keras", "estimator"):
        if not private_names.has_module(".".join(words)) and (
                words[-1] != words[-1].lower() or _in_keras_file(words) or _public("v1", ".".join(words)) is not NOTHING):
            return None
        inside = "keras_names" if words[0] == "keras" else "heads"
        return " ".join([*(".".join(words[:n]) for n in range(len(words), 0, -1)), f"@compat.programs.inside.{inside}"])
    if words[-1].startswith("gen_") and words[-1].endswith("_ops"):
        return "@compat.programs.inside.ops"
    known = PLACES.get(".".join(words)) or (PLACES.get(f"ops.{words[0]}") if len(words) == 1 else None)
    return "." if known is None and private_names.has_module(".".join(words)) else known


def _in_keras_file(words: list[str]) -> bool:
    """Whether a path names something in a file of Keras, which has no other modules below it (`keras.backend.symbolic`)."""
    return words[0] == "keras" and len(words) > 2 and words[1] in KERAS_FILES


def module(fullname: str, api: str, rest: str) -> types.ModuleType | None:
    """The module for `tensorflow.<rest>` where that is no public module, or None."""
    if rest in OWN_MODULES:
        return importlib.import_module(OWN_MODULES[rest])
    if rest == "core" or rest.startswith("core."):
        return _core(fullname, api, rest)
    found = _contrib(fullname, api, rest) if rest.startswith("contrib.") else None
    where = None if found is not None else _place(rest)
    if where is not None:
        found = View(fullname, api, rest, where)
    if found is None and any(known.startswith(rest + ".") for known in OWN_MODULES):
        return View(fullname, api, rest, "")
    return found


def _contrib(fullname: str, api: str, rest: str) -> types.ModuleType | None:
    """A module below `tensorflow.contrib.NAME`, if it can be one: modules below `python` are in small letters."""
    if ".python" not in rest:
        package = rest.rpartition(".")[0]
        return View(fullname, api, rest, f"{rest} {package}") if rest in CONTRIB_FILES and _has_names(package) else None
    base, _, inner = rest.partition(".python")
    words = inner.strip(".").split(".")
    if "examples" in words:
        return None                                    # programs, not a part of the package: those that are here are known
    named = [f"{base}.{'.'.join(w)}" for w in _tails(words)]
    if any(_public("v1", name) is not NOTHING for name in named[:-1]):     # slim.learning has create_train_op
        return None
    if not (len(words) > 1 and any(_has_names(n) for n in named)) and (
            not _has_names(base) or words[-1] != words[-1].lower() or "audio_ops" in words[:-1] or _is_name_of(base, words)):
        return None
    return View(fullname, api, rest, " ".join([*named, base]))


def _is_name_of(package: str, words: list[str]) -> bool:
    """Whether a path below a package of tf.contrib ends in a function or class of the package, not in a module.

    `sparsemax.python.ops.sparsemax` is a module although the package has a function of that name: of the folders `ops`, only
    that of tf.contrib.framework repeats the names of its modules.
    """
    own = _public("v1", f"{package}.{words[-1]}") is not NOTHING
    if len(words) == 2:
        return own and (words[0] != "ops" or package == "contrib.framework")
    return own or _anywhere("v1", words[-1]) is not NOTHING


def _tails(words: list[str]) -> list[list[str]]:
    """The ends of a path, longest first: contrib.slim.python.slim.nets.vgg is contrib.slim.nets.vgg."""
    return [words[k:] for k in range(len(words)) if words[k:] and words[k]]


def _has_names(prefix: str) -> bool:
    """Whether there is a public module `prefix`. What it and the modules above it export is loaded, for `_anywhere`."""
    words = prefix.split(".")
    for n in range(2, len(words) + 1):
        module = names.namespace("v1", ".".join(words[:n]))
        if module is None:
            return False
        for source in set(module.__public__.names.values()):
            importlib.import_module(f"penstock._src.{source}")
    return True


def below(api: str, full: str, fullname: str) -> Any:
    """A module below a public one that is not public itself (`tf.contrib.layers.python`), or NOTHING."""
    if full in OWN_MODULES or any(known.startswith(full + ".") for known in OWN_MODULES) or \
            (full.startswith("contrib.") and full.endswith(".python") and _has_names(full.removesuffix(".python"))):
        return importlib.import_module(fullname)
    return NOTHING


def _core(fullname: str, api: str, rest: str) -> types.ModuleType | None:
    last = rest.rpartition(".")[2]
    if not last.endswith("_pb2"):
        return View(fullname, api, rest, ".") if rest in ("core", "core.framework", "core.protobuf", "core.util",
                                                          "core.example") else None
    try:
        importlib.import_module(message_pool.OURS + last)
    except ModuleNotFoundError:
        if last not in ("example_pb2", "feature_pb2", "saved_model_pb2", "tensorflow_server_pb2", "rewriter_config_pb2"):
            return None
    message_pool.prepare()
    return Messages(fullname, last)
