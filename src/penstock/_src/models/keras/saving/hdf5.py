"""Weights and models in HDF5 files, in the layout that Keras has used since its first version.

A group per layer has its weights as datasets, and their names in the attribute `weight_names`; the names of the layers are in
`layer_names`. A whole model has its config and how it was compiled as attributes, its weights in `model_weights`, and those
of its optimizer in `optimizer_weights`.
"""
from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule
from penstock._src.io import hdf5_guard, paths
from penstock._src.models.keras.saving import archive, keras3
from penstock._src.models.keras.saving.compile_config import compile_from_config, training_config
from penstock._src.models.keras.saving.model_files import bounded, model_from_config, parsed_json, plain_json, well_formed

backend = LazyModule("penstock._src.models.keras.backend")
_LIMIT = 64512                 # bytes of one attribute
_VERSION = "2.2.4-tf"


@contextlib.contextmanager
def _written(path: Any) -> Iterator[Any]:
    """A file that is renamed into place when it is complete."""
    if hasattr(path, "create_group"):
        yield path
        return
    with paths.atomic_name(path) as temporary, hdf5_guard.written(temporary) as f:
        yield f


@contextlib.contextmanager
def _read(path: Any) -> Iterator[Any]:
    if hasattr(path, "create_group"):
        yield path
    else:
        with hdf5_guard.opened(path) as f:
            yield f


# -- attributes of any size ------------------------------------------------------------------------------------------
def save_attribute(group: Any, name: str, values: list[bytes]) -> None:
    """Writes a list of names as an attribute; in several, name0, name1 …, if it is too large for one."""
    too_long = [v for v in values if len(v) > _LIMIT]
    if too_long:
        raise RuntimeError("The following attributes cannot be saved to HDF5 file because they are larger than "
                           f"{_LIMIT} bytes: {', '.join(map(repr, too_long))}")
    data = np.asarray(values)
    parts = 1
    while any(p.nbytes > _LIMIT for p in np.array_split(data, parts)):
        parts += 1
    if parts == 1:
        group.attrs[name] = data if values else np.asarray([], "S1")
        return
    for i, part in enumerate(np.array_split(data, parts)):
        group.attrs[f"{name}{i}"] = part


def load_attribute(group: Any, name: str) -> list[str]:
    """Reads a list of names."""
    found: list = []
    if name in group.attrs:
        found = list(group.attrs[name])
    else:
        i = 0
        while f"{name}{i}" in group.attrs:
            found += list(group.attrs[f"{name}{i}"])
            i += 1
    return [n.decode("utf-8") if isinstance(n, bytes) else str(n) for n in found]


# -- weights ---------------------------------------------------------------------------------------------------------
def _weights(layer: Any) -> list:
    found = layer.trainable_weights + layer.non_trainable_weights
    return list({id(w): w for w in found}.values())


def save_weights_group(group: Any, layers: Any) -> None:
    """Writes the weights of layers."""
    save_attribute(group, "layer_names", [layer.name.encode("utf-8") for layer in layers])
    group.attrs["backend"] = b"tensorflow"
    group.attrs["keras_version"] = _VERSION.encode()
    for layer in layers:
        inner = group.create_group(layer.name)
        _save_arrays(inner, _weights(layer))


def _save_arrays(group: Any, weights: list) -> None:
    values = backend.batch_get_value(weights)
    names = _unique([w.name for w in weights])
    save_attribute(group, "weight_names", [n.encode("utf-8") for n in names])
    for name, value in zip(names, values):
        value = np.asarray(value)
        data = group.create_dataset(name, value.shape, dtype=value.dtype)
        data[() if not value.shape else slice(None)] = value


def _unique(names: list[str]) -> list[str]:
    seen: set[str] = set()
    found = []
    for n in names:
        base, i = n, 1
        while n in seen:
            n, i = f"{base}_{i}", i + 1
        seen.add(n)
        found.append(n)
    return found


def save_weights_file(model: Any, path: Any) -> None:
    """Writes the weights of a model."""
    with _written(path) as f:
        save_weights_group(f, model.layers)


def load_weights_file(model: Any, path: Any, by_name: bool, skip_mismatch: bool) -> None:
    """Reads the weights of a model; all of them are checked before the first is set."""
    if not model.built and not model._is_graph_network:
        raise ValueError("Unable to load weights saved in HDF5 format into a subclassed Model which has not created its "
                         "variables yet. Call the Model first, then load the weights.")
    with _read(path) as f:
        group = f["model_weights"] if "layer_names" not in f.attrs and "model_weights" in f else f
        if by_name:
            _load_by_name(group, model.layers, skip_mismatch)
        else:
            load_weights_group(group, model.layers)


def _stored(group: Any) -> list[np.ndarray]:
    return [np.asarray(group[n]) for n in load_attribute(group, "weight_names")]


def load_weights_group(group: Any, layers: Any) -> None:
    """Sets the weights of layers from those stored, layer by layer."""
    wanted = [layer for layer in layers if _weights(layer)]
    names = [n for n in load_attribute(group, "layer_names") if load_attribute(group[n], "weight_names")]
    if len(names) != len(wanted):
        raise ValueError(f"You are trying to load a weight file containing {len(names)} layers into a model with {len(wanted)} "
                         "layers.")
    pairs: list = []
    for i, (name, layer) in enumerate(zip(names, wanted, strict=True)):
        weights, values = _weights(layer), _converted(layer, _stored(group[name]))
        if len(values) != len(weights):
            raise ValueError(f"Layer #{i} (named \"{layer.name}\" in the current model) was found to correspond to layer "
                             f"{name} in "
                             f"the save file. However the new layer {layer.name} expects {len(weights)} weights, but the saved "
                             f"weights have {len(values)} elements.")
        for w, v in zip(weights, values, strict=True):
            if tuple(w.shape.as_list()) != v.shape:
                raise ValueError(f"Layer #{i} (named \"{layer.name}\"), weight {w.name} has shape {w.shape}, but the saved "
                                 f"weight has shape {v.shape}.")
            pairs.append((w, v))
    backend.batch_set_value(pairs)


def _load_by_name(group: Any, layers: Any, skip_mismatch: bool) -> None:
    index: dict[str, list] = {}
    for layer in layers:
        index.setdefault(layer.name, []).append(layer)
    pairs: list = []
    for i, name in enumerate(load_attribute(group, "layer_names")):
        values = _stored(group[name])
        for layer in index.get(name, ()):
            weights, stored = _weights(layer), _converted(layer, values)
            what = None
            if len(weights) != len(stored):
                what = f"Layer #{i} (named \"{layer.name}\") expects {len(weights)} weight(s), but the saved weights have " \
                       f"{len(stored)} element(s)."
            else:
                for w, v in zip(weights, stored, strict=True):
                    if tuple(w.shape.as_list()) != v.shape:
                        what = f"Layer #{i} (named \"{layer.name}\"), weight {w.name} has shape {w.shape}, but the saved " \
                               f"weight has shape {v.shape}."
            if what is None:
                pairs += zip(weights, stored)
            elif skip_mismatch:
                logging.warning("The weights of layer %s are not loaded: %s", layer.name, what)
            else:
                raise ValueError(what)
    backend.batch_set_value(pairs)


def _converted(layer: Any, values: list) -> list:
    """Converts the weights of older versions to the current layout."""
    convert = getattr(layer, "_preprocess_weights_for_loading", None)
    return values if convert is None else convert(values)


# -- whole models ----------------------------------------------------------------------------------------------------
def save_model_file(model: Any, path: Any, include_optimizer: bool) -> None:
    """Writes a model: description, weights, and how it was compiled."""
    with _written(path) as f:
        f.attrs["keras_version"] = _VERSION.encode()
        f.attrs["backend"] = b"tensorflow"
        f.attrs["model_config"] = json.dumps(keras3.classic(model), default=plain_json).encode("utf-8")
        save_weights_group(f.create_group("model_weights"), model.layers)
        if include_optimizer and model.optimizer is not None:
            config = training_config(model)
            if config is None:
                logging.warning("TensorFlow optimizers do not make it possible to access optimizer attributes or "
                                "optimizer state "
                                "after instantiation. As a result, we cannot save the optimizer as part of the model save "
                                "file. "
                                "You will have to compile your model again after loading it.")
                return
            f.attrs["training_config"] = json.dumps(config, default=plain_json).encode("utf-8")
            weights = _optimizer_weights(model.optimizer)
            if weights:
                _save_arrays(f.create_group("optimizer_weights"), weights)


def _optimizer_weights(optimizer: Any) -> list:
    found = getattr(optimizer, "weights", None)
    return list(found() if callable(found) else found or [])


def _text(x: Any) -> str:
    return x.decode("utf-8") if isinstance(x, bytes) else x


def load_model_file(path: Any, custom_objects: Any, compile: bool) -> Any:
    """Reads a model, and compiles it if it was compiled."""
    with _read(path) as f:
        if "model_config" not in f.attrs:
            raise ValueError(f"No model found in config file: {path} has only weights. Use `load_weights`.")
        config = parsed_json(_text(f.attrs["model_config"]))
        with well_formed(), bounded(path, f.file.id.get_filesize()):
            if _text(f.attrs.get("keras_version", "")).startswith("3"):
                config = keras3.translated(config, custom_objects)
            model = model_from_config(config, custom_objects=custom_objects)
        load_weights_group(f["model_weights"], model.layers)
        if not compile:
            return model
        if "training_config" not in f.attrs:
            logging.warning("The file has no training configuration: the model is not compiled. Call `compile`.")
            return model
        training = parsed_json(_text(f.attrs["training_config"]))
        if _text(f.attrs.get("keras_version", "")).startswith("3"):
            training = keras3.translated_training(training, custom_objects)
        compile_from_config(model, training, custom_objects)
        if "optimizer_weights" in f and _by_variable(f["optimizer_weights"]):
            archive.set_optimizer(model, _stored(f["optimizer_weights"]))
        elif "optimizer_weights" in f:
            _load_optimizer(model, f["optimizer_weights"])
    return model


def _by_variable(group: Any) -> bool:
    """Whether the state of an optimizer is in the order of newer ones: all slots of a variable, then those of the next."""
    names = load_attribute(group, "weight_names")
    return bool(names) and names[0].rpartition("/")[2].partition(":")[0] == "iteration"


def _load_optimizer(model: Any, group: Any) -> None:
    values = _stored(group)
    optimizer = model.optimizer
    try:
        if hasattr(optimizer, "build"):
            optimizer.build(model.trainable_weights)
        elif hasattr(optimizer, "_create_all_weights"):
            optimizer._create_all_weights(model.trainable_weights)
        optimizer.set_weights(values)
    except (ValueError, AttributeError, NotImplementedError, TypeError) as e:
        logging.warning("The state of the optimizer cannot be loaded; it is initialized instead. (%s)", e)
