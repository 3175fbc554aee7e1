"""The files of Keras 3: `.keras`, a zip file with the description of a model and its weights, and `.weights.h5`.

Weights are kept by the way from the model to them: `layers/dense_1/vars/0`, `layers/lstm/cell/vars/2`. Layers in a list are
named after their class, numbered where there are several. The description is translated by `keras3.py`.
"""
from __future__ import annotations

import copy
import datetime
import io
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule
from penstock._src.io import archives, hdf5_guard, paths
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.saving import keras3
from penstock._src.models.keras.saving.model_files import bounded, parsed_json, plain_json, well_formed
from penstock._src.models.keras.utils.generic_utils import to_snake_case

backend = LazyModule("penstock._src.models.keras.backend")
_CONFIG, _META, _WEIGHTS = "config.json", "metadata.json", "model.weights.h5"


# -- parts of a layer ------------------------------------------------------------------------------------------------
def _children(obj: Any) -> Iterator[tuple[str, Any]]:
    """The layers, and lists of layers, that are attributes of a layer, each once."""
    seen: set[int] = set()
    for name, value in sorted(vars(obj).items()):
        if name in ("_layers", "_metrics", "_compiled", "compiled_loss", "compiled_metrics", "_inbound_nodes",
                    "_outbound_nodes", "_input_layers", "_output_layers") or name.startswith("_self_"):
            continue
        many = isinstance(value, (list, tuple)) and value and all(isinstance(v, Layer) for v in value)
        if (isinstance(value, Layer) and not hasattr(value, "update_state") or many) and id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _named(layers: Any) -> Iterator[tuple[str, Any]]:
    """Layers of a list, by class and number."""
    counts: dict[str, int] = {}
    for layer in layers:
        base = to_snake_case(type(layer).__name__.removesuffix("V1"))
        n = counts[base] = counts.get(base, -1) + 1
        yield (f"{base}_{n}" if n else base), layer


def _parts(obj: Any) -> Iterator[tuple[str, Any]]:
    """The layers below an object: (path, layer)."""
    if hasattr(obj, "_is_graph_network"):
        yield from ((f"layers/{n}", v) for n, v in _named(obj.layers if type(obj).__name__ == "Sequential" or
                                                          not obj._is_graph_network else obj._layers))
        if obj._is_graph_network or type(obj).__name__ == "Sequential":
            return
    for name, value in _children(obj):
        if isinstance(value, Layer):
            yield name, value
        else:
            yield from ((f"{name}/{n}", v) for n, v in _named(value))


def _own(layer: Any) -> list:
    return layer._own_variables()


# -- weights ---------------------------------------------------------------------------------------------------------
def _store(obj: Any, group: Any, seen: set[int]) -> None:
    if id(obj) in seen:
        return
    seen.add(id(obj))
    own = group.require_group("vars")
    own.attrs["name"] = obj.name
    obj.save_own_variables(own)
    for way, part in _parts(obj):
        _store(part, group.require_group(way), seen)


def _collect(obj: Any, group: Any, seen: set[int], pairs: list, problems: list, way: str = "") -> None:
    """The values for the variables of an object, and the mismatches."""
    if id(obj) in seen:
        return
    seen.add(id(obj))
    own = _own(obj)
    stored = group["vars"] if "vars" in group else {}
    if type(obj).load_own_variables is not Layer.load_own_variables:        # of the user, who has stored them
        obj.load_own_variables(stored)
    elif len(stored) != len(own):
        problems.append(f"Layer '{obj.name}' expected {len(own)} variables, but received {len(stored)} variables during loading"
                        f" ({way or '/'}).")
    else:
        for i, v in enumerate(own):
            value = np.asarray(stored[str(i)])
            if not v.shape.is_compatible_with(value.shape):
                problems.append(f"Layer '{obj.name}': variable {v.name} has shape {v.shape}, the file has {value.shape}.")
            else:
                pairs.append((v, value))
    for name, part in _parts(obj):
        found = next((n for n in (name, name.lstrip("_"), "_" + name) if n in group), None)
        if found is not None:
            _collect(part, group[found], seen, pairs, problems, f"{way}/{found}")
        elif part.weights:
            problems.append(f"Layer '{part.name}' has no weights in the file (at {way}/{name}).")


def _write_weights(model: Any, file: Any, include_optimizer: bool) -> None:
    with hdf5_guard.written(file) as f:
        _store(model, f, set())
        if include_optimizer and getattr(model, "optimizer", None) is not None:
            _store_optimizer(model, f)


def _read_weights(model: Any, file: Any, skip_mismatch: bool) -> None:
    """Sets the weights; none of them if some do not match."""
    with hdf5_guard.opened(file) as f:
        pairs: list = []
        problems: list = []
        _collect(model, f, set(), pairs, problems)
        if problems and not skip_mismatch:
            raise ValueError("The weights do not match the model:\n" + "\n".join(problems))
        for p in problems:
            logging.warning("%s", p)
        backend.batch_set_value(pairs)
        if getattr(model, "optimizer", None) is not None and "optimizer" in f:
            _load_optimizer(model, f["optimizer"])


def _slots(model: Any) -> list | None:
    optimizer = model.optimizer
    if not hasattr(optimizer, "slots_by_variable"):
        return None
    optimizer.build(model.trainable_variables)
    return optimizer.slots_by_variable(model.trainable_variables)


def _store_optimizer(model: Any, f: Any) -> None:
    slots = _slots(model)
    if slots is None:
        return
    group = f.require_group("optimizer/vars")
    group.attrs["name"] = to_snake_case(type(model.optimizer).__name__.removesuffix("V1"))
    values = [backend.get_value(model.optimizer.iterations), *backend.batch_get_value(slots)]
    if not slots and model.optimizer._slot_groups:              # tf_keras has the slots even where they are not used
        values += [np.zeros(v.shape, v.dtype.as_numpy_dtype) for v in model.trainable_variables]
    for i, value in enumerate(values):
        group[str(i)] = np.asarray(value)


def _load_optimizer(model: Any, group: Any) -> None:
    stored = group["vars"] if "vars" in group else {}
    set_optimizer(model, [np.asarray(stored[str(i)]) for i in range(len(stored))])


def set_optimizer(model: Any, values: list) -> None:
    """Sets the state of an optimizer: iterations, and the slots of each variable. Keras 3 has the learning rate in between,
    tf_keras does not."""
    slots = _slots(model)
    if slots is None or not values or slots and len(values) - len(slots) not in (1, 2):
        logging.warning("The optimizer state in the file does not match: the optimizer starts from its initial state.")
        return
    backend.set_value(model.optimizer.iterations, values[0])
    backend.batch_set_value(list(zip(slots, values[len(values) - len(slots):], strict=True)))


def save_weights(model: Any, path: str) -> None:
    """Writes `.weights.h5`."""
    with paths.atomic_name(path) as temporary:
        _write_weights(model, temporary, include_optimizer=True)


def is_weights_file(path: str) -> bool:
    """Whether an HDF5 file has weights by their way, not layer by layer."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"Unable to open file: no such file: '{path}'")
    with hdf5_guard.opened(path) as f:
        return "layer_names" not in f.attrs and "layer_names0" not in f.attrs


def load_weights(model: Any, path: str, skip_mismatch: bool = False) -> None:
    """Reads the weights of `.weights.h5` or `.keras`."""
    if not model.built and not model._is_graph_network:
        raise ValueError("You are loading weights into a model that has not been built yet, and therefore has no variables. "
                         "Call the model on some data first.")
    if is_archive(path):
        with archives.opened(path) as z, hdf5_guard.typed(path):
            weights = io.BytesIO(archives.read(z, _WEIGHTS))
        _read_weights(model, weights, skip_mismatch)
    else:
        _read_weights(model, path, skip_mismatch)


# -- whole models ----------------------------------------------------------------------------------------------------
def is_archive(path: str) -> bool:
    """Whether a file is a `.keras` file."""
    return os.path.isfile(path) and zipfile.is_zipfile(path)


def save_model(model: Any, path: str, include_optimizer: bool = True) -> None:
    """Writes `.keras`."""
    if not model.built and not model._is_graph_network:
        logging.warning("You are saving a model that has not yet been built. It might not contain any weights yet.")
    with paths.atomic_name(path) as temporary:
        write(model, temporary, include_optimizer)


def write(model: Any, file: Any, include_optimizer: bool = True) -> None:
    """Writes the contents of `.keras` to a path or a binary file."""
    weights = io.BytesIO()
    _write_weights(model, weights, include_optimizer)
    described = keras3.describe(model, include_optimizer)
    now = datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S")
    with zipfile.ZipFile(file, "w") as z:
        z.writestr(_META, json.dumps({"keras_version": keras3.VERSION, "date_saved": now}))
        z.writestr(_CONFIG, json.dumps(described, default=plain_json))
        z.writestr(_WEIGHTS, weights.getvalue())


def load_model(path: str, custom_objects: Any = None, compile: bool = True) -> Any:
    """Reads `.keras`."""
    return load(path, custom_objects, compile)


def load(path: Any, custom_objects: Any = None, compile: bool = True) -> Any:
    """The model in a path or a binary file."""
    with archives.opened(path) as z:
        try:
            config = parsed_json(archives.read(z, _CONFIG))
            weights = io.BytesIO(archives.read(z, _WEIGHTS))
        except KeyError as e:
            raise ValueError(f"{path} is not a .keras file: {e}") from None
    if not isinstance(config, dict) or not isinstance(config.get("class_name"), str):
        raise ValueError(f"{path} does not describe a model: {_CONFIG} has no class_name.")
    with well_formed(), bounded(path, len(weights.getbuffer())):
        model = keras3.rebuild(config, custom_objects)
        if compile and config.get("compile_config"):
            keras3.compile_as(model, config["compile_config"], custom_objects)
    if model.built or model._is_graph_network:
        _read_weights(model, weights, False)
    return model


# -- copies ------------------------------------------------------------------------------------------------------------
def packed(model: Any) -> tuple[bytes, dict[str, type]]:
    """The `.keras` file of a model, and the classes of the user in it, which `pickle` stores by their modules."""
    file = io.BytesIO()
    write(model, file)
    own = {type(layer).__name__: type(layer) for layer in model._flatten_layers()
           if not type(layer).__module__.startswith("penstock.")}
    return file.getvalue(), own


def unpacked(data: bytes, classes: dict[str, type]) -> Any:
    """The model of `packed`."""
    return load(io.BytesIO(data), classes)


def copied(model: Any, memo: dict) -> Any:
    """A copy of a model that is not built: of its attributes."""
    cls: Any = type(model)
    made = memo[id(model)] = cls.__new__(cls)
    made.__setstate__({k: copy.deepcopy(v, memo) for k, v in model.__getstate__().items()})
    return made
