"""Models as SavedModels: with a function to call and one to serve, and their description, so that they can be made again.

In eager mode a model is saved as an object (`state/saved_model/object_saving.py`): its description is the metadata of the
object, its weights are the checkpoint of the objects. In graphs it is a graph with a signature; description and weights
stand beside it, in `assets.extra/keras`. tf.keras of TensorFlow 2.4 to 2.15 has the descriptions in their own file,
`keras_metadata.pb`.
"""
from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Sequence
from typing import Any

from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule, export
from penstock._src.base.static_shape import TensorShape
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph import context, messages
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.type_spec import TensorSpec, TypeSpec, type_spec_from_value
from penstock._src.io import paths
from penstock._src.models.keras.saving.compile_config import compile_from_config, training_config
from penstock._src.models.keras.utils.generic_utils import earlier_configs, get_registered_name, is_unknown
from penstock._src.state.containers import wrap
from penstock._src.state.saved_model.model_loader import parse_saved_model
from penstock._src.state.saved_model.object_loading import load as load_objects
from penstock._src.state.saved_model.object_saving import save as save_objects
from penstock.compat import v1 as tf

backend = LazyModule("penstock._src.models.keras.backend")
model_files = LazyModule("penstock._src.models.keras.saving.model_files")
hdf5 = LazyModule("penstock._src.models.keras.saving.hdf5")
revived = LazyModule("penstock._src.models.keras.saving.revived")
_BESIDE = os.path.join("assets.extra", "keras")


# -- what a SavedModel keeps with a layer ----------------------------------------------------------------------------
def user_functions(obj: Any) -> dict[str, Any]:
    """The functions that are attributes of an object, or methods of its class."""
    found = {}
    for name in (*vars(obj), *(n for c in type(obj).__mro__ for n, v in vars(c).items() if isinstance(v, Function))):
        value = vars(obj).get(name)
        value = getattr(obj, name, None) if value is None else value
        if isinstance(value, (Function, ConcreteFunction)):
            found[name] = value
    return found


def input_specs(model: Any) -> Any:
    """The specs of a model's inputs, in their structure; None if still unknown."""
    if model._is_graph_network:
        def spec(t: Any) -> Any:
            return _spec_of(t, t._keras_history.layer.name)
        return nest.map_structure(spec, model._nested_inputs)
    specs = model.save_spec()
    return None if specs is None else specs[0][0]


def functions(model: Any, cache: Any) -> dict[str, Any]:
    """The user's functions, the call of the model, and the function to serve."""
    found = user_functions(model)
    specs = model.save_spec()
    if specs is None or not context.executing_eagerly():
        return found
    (inputs, *args), kwargs = specs
    kwargs.pop("training", None)

    def run(inputs: Any, *args: Any, training: Any = False, **kwargs: Any) -> Any:
        return model(inputs, *args, training=training, **kwargs)
    call = Function(run, "call")
    call.get_concrete_function(inputs, *args, training=False, **kwargs)
    try:
        call.get_concrete_function(inputs, *args, training=True, **kwargs)
    except (TypeError, ValueError) as e:
        logging.warning("Model %s is saved without its call for training: %s", model.name, e)

    wrapped = Function(lambda *args, **kwargs: _by_name(model, *args, **kwargs), "_wrapped_model")
    serve = wrapped.get_concrete_function(_named(inputs), *args, **kwargs)
    return {**found, "__call__": call, "_default_save_signature": serve}


def trace_model_call(model: Any, input_signature: Any = None) -> Function:
    """A function of a model's inputs that returns its outputs by name; its signature is that of the model if none is given."""
    if input_signature is None:
        input_signature = getattr(model.call, "input_signature", None)
    if input_signature is None:
        specs = input_specs(model)
        if specs is None:
            raise ValueError(f"The shapes of the inputs of model {model.name} are not known. Call it, or its build(), first.")
        specs = _named(specs)
        input_signature = specs if isinstance(specs, (list, tuple)) and len(specs) == 1 else [specs]

    def wrapped(*args: Any) -> dict[str, Any]:
        return _by_name(model, args[0] if len(args) == 1 else list(args))
    return Function(wrapped, "_wrapped_model", input_signature)


def _by_name(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The outputs of a model, by their names."""
    outputs = nest.flatten(model(inputs, *args, **{**kwargs, "training": False}))
    return dict(zip(_output_names(model, len(outputs)), outputs, strict=True))


def _named(specs: Any) -> Any:
    """Specs that all have names, those of tensors."""
    flat = [_spec_of(s, getattr(s, "name", None) or f"input_{i + 1}") for i, s in enumerate(nest.flatten(specs))]
    return nest.pack_sequence_as(specs, flat)


def _output_names(model: Any, n: int) -> list[str]:
    names = model.output_names
    if not names or len(names) != n:
        return [f"output_{i + 1}" for i in range(n)]
    return list(names)


def extra_dependencies(model: Any, cache: Any) -> dict[str, Any]:
    """The attributes of a SavedModel that a checkpoint does not have: lists of the variables, and functions that compute the
    losses of regularizers, which users of loaded models read; the metrics that `add_metric` has made, which calls update."""
    if not model.built:                      # its weights are created when it is first called
        return {}
    lists: dict[str, Any] = {name: list(getattr(model, name))
                             for name in ("variables", "trainable_variables", "non_trainable_variables")}
    if context.executing_eagerly():
        lists["regularization_losses"] = [Function(loss, "loss", []) for layer in model._flatten_layers()
                                          for loss in layer._callable_losses]
    lists["layer_metrics"] = model._layer_metrics()
    return {name: wrap(items) for name, items in lists.items()}


@earlier_configs()
def metadata(model: Any) -> str:
    """The description of a model, for its object in a SavedModel."""
    found: dict[str, Any] = {"class_name": get_registered_name(type(model)), "name": model.name, "trainable": model.trainable,
                             "is_graph_network": bool(model._is_graph_network), "backend": "tensorflow",
                             "keras_version": "2.2.4-tf"}
    try:
        found["config"] = model.get_config()
        found["model_config"] = {"class_name": type(model).__name__, "config": found["config"]}
    except NotImplementedError:
        pass
    specs = None if model._is_graph_network else model.save_spec(dynamic_batch=False)
    if specs is not None and all(isinstance(spec, TensorSpec) for spec in nest.flatten(specs)):
        args, kwargs = specs
        found["full_save_spec"] = {"class_name": "__tuple__", "items": [
            [nest.map_structure(_encoded_spec, a) for a in args], nest.map_structure(_encoded_spec, kwargs)]}
    if model._is_compiled and model.optimizer is not None:
        found["training_config"] = training_config(model)
    return json.dumps(found, default=model_files.plain_json)


@earlier_configs()
def layer_metadata(layer: Any) -> str:
    """The description of a layer, for its object in a SavedModel: tf.keras makes the layers of a model one by one."""
    try:
        config = layer.get_config()
    except NotImplementedError:
        config = None
    shape = layer.__dict__.get("_build_input_shape")
    found = {"class_name": get_registered_name(type(layer)), "name": layer.name, "trainable": layer.trainable, "config": config,
             "dtype": layer.dtype, "stateful": bool(layer.stateful),
             "batch_input_shape": getattr(layer, "_batch_input_shape", None),
             "expects_training_arg": bool(layer._expects_training_arg), "must_restore_from_config": config is not None,
             "sparse": getattr(layer, "sparse", False), "ragged": getattr(layer, "ragged", False)}
    if shape is not None:
        found["build_input_shape"] = _encoded_shape(shape)
    return json.dumps(found, default=model_files.plain_json)


def _encoded_spec(spec: TensorSpec) -> dict[str, Any]:
    """A TensorSpec as tf.keras writes it."""
    parts = [_encoded_shape(spec.shape), spec.dtype.name, spec.name]
    return {"class_name": "TypeSpec", "type_spec": "tf.TensorSpec", "serialized": {"class_name": "__tuple__", "items": parts}}


def _encoded_shape(shape: Any) -> Any:
    """A shape, or shapes in lists and dictionaries, as tf.keras writes them."""
    if isinstance(shape, dict):
        return {k: _encoded_shape(v) for k, v in shape.items()}
    if isinstance(shape, (list, tuple)) and any(isinstance(s, (list, tuple, TensorShape)) for s in shape):
        return [_encoded_shape(s) for s in shape]
    return {"class_name": "TensorShape", "items": TensorShape(shape).as_list()}


# -- saving ----------------------------------------------------------------------------------------------------------
def save(model: Any, path: str, include_optimizer: bool, signatures: Any = None) -> None:
    """Writes a model to a directory."""
    if not context.executing_eagerly():
        _save_graph(model, path)
        return
    if input_specs(model) is None:
        raise ValueError(f"Model {model} cannot be saved because the input shapes have not been set. Usually, input shapes are "
                         "automatically determined from calling `.fit()` or `.predict()`. To manually set the shapes, call "
                         "`model.build(input_shape)`.")
    save_objects(model, path, signatures)


def _save_graph(model: Any, path: str) -> None:
    if not model.inputs or not model.outputs:
        raise ValueError(f"Model {model} cannot be saved because its inputs are not known: call it, or `fit`, first.")
    tf.saved_model.simple_save(backend.get_session(), path, dict(zip(model.input_names, model.inputs)),
                               dict(zip(model.output_names, model.outputs)))
    beside = os.path.join(path, _BESIDE)
    os.makedirs(beside, exist_ok=True)
    with open(os.path.join(beside, "model.json"), "w") as f:
        f.write(metadata(model))
    hdf5.save_weights_file(model, os.path.join(beside, "weights.h5"))


# -- loading ---------------------------------------------------------------------------------------------------------
def load(path: str, custom_objects: Any = None, compile: bool = True) -> Any:
    """Reads a model from a directory; the objects of the SavedModel, if it has no description of a model."""
    beside = os.path.join(path, _BESIDE)
    if os.path.exists(os.path.join(beside, "model.json")):
        with open(os.path.join(beside, "model.json")) as f:
            found = json.load(f)
        model = model_files.model_from_config(found["model_config"], custom_objects)
        model.load_weights(os.path.join(beside, "weights.h5"))
    else:
        found = _stored_metadata(path)
        model = _of_config(found, custom_objects)
        by_columns = bool(model and model.layers) and getattr(model.layers[0], "_is_feature_layer", False)
        if model is None or not model.built and not model._is_graph_network and not by_columns:
            model = _of_functions(path, found)
            return _compiled(model, found, custom_objects) if compile else model
        status = _restore(model, path)                          # columns make their variables when they are first called
        (status if by_columns else status.assert_existing_objects_matched()).expect_partial()
    if compile and found.get("training_config"):
        _compiled(model, found, custom_objects)
        if context.executing_eagerly() and not os.path.exists(beside):
            _restore(model, path).expect_partial()              # what the optimizer makes is restored when it is made
    return model


def _of_config(found: dict[str, Any], custom_objects: Any) -> Any:
    """The model of stored metadata, built if they say how; None where they have no config, or a class is not known."""
    if "model_config" not in found:
        return None
    for name in dict.fromkeys((found["model_config"]["class_name"], found.get("class_name"))):   # plain, and as registered
        try:
            model = model_files.model_from_config({**found["model_config"], "class_name": name}, custom_objects)
        except ValueError as e:
            if not is_unknown(e):
                raise
            continue
        if not model.built and not model._is_graph_network:
            try:
                _build(model, found)
            except (TypeError, ValueError):             # `call` cannot be traced here: the saved functions can be called
                return None
        return model
    return None


def _build(model: Any, found: dict[str, Any]) -> None:
    """Makes the variables of a model, which metadata say what it was called with, or what shape it was built for."""
    specs, shape = found.get("full_save_spec"), found.get("build_input_shape")
    if specs and all(isinstance(spec, TensorSpec) for spec in nest.flatten(specs)):
        args, kwargs = specs
        with FuncGraph("build_graph").as_default() if context.executing_eagerly() else contextlib.nullcontext():
            args, kwargs = nest.map_structure(lambda s: backend.placeholder(shape=s.shape, dtype=s.dtype), (args, kwargs))
            model(*args, **kwargs)
    elif shape is not None:
        model.build(shape)


def _of_functions(path: str, found: dict[str, Any]) -> Any:
    """A model that calls the functions of a SavedModel; the loaded object itself, if it is no model."""
    loaded = load_objects(path)
    if not found.get("class_name") or not callable(loaded):
        return loaded
    kind = type(found["class_name"].rpartition(">")[2], (revived.Revived,), {"__doc__": revived.Revived.__doc__})
    return kind(loaded, found.get("name"))


def _compiled(model: Any, found: dict[str, Any], custom_objects: Any) -> Any:
    if found.get("training_config") and hasattr(model, "compile"):
        compile_from_config(model, found["training_config"], custom_objects)
    return model


def _restore(model: Any, path: str) -> Any:
    status = model._saver().restore(os.path.join(path, "variables", "variables"))
    if not context.executing_eagerly():
        status.run_restore_ops(session=backend.get_session())
    return status


def _stored_metadata(path: str) -> dict[str, Any]:
    apart = paths.join(path, "keras_metadata.pb")
    if paths.exists(apart):
        text = next((node.metadata for node in _metadata_file(apart).nodes if node.node_id == 0), "")
    else:
        message = parse_saved_model(path)
        nodes: Sequence[Any] = message.meta_graphs[0].object_graph_def.nodes if message.meta_graphs else ()
        text = nodes[0].user_object.metadata if len(nodes) else ""
    try:
        return json.loads(text, object_hook=_decoded) if text else {}
    except json.JSONDecodeError:
        return {}


def _decoded(value: dict[str, Any]) -> Any:
    """The form in which tf.keras writes values that JSON does not support."""
    kind = value.get("class_name")
    if kind in ("__tuple__", "TensorShape") and "items" in value:
        return tuple(value["items"])
    if kind == "TypeSpec" and value.get("type_spec") == "tf.TensorSpec":
        return TensorSpec(*value["serialized"])
    return None if kind == "__ellipsis__" else value


def _metadata_file(path: str) -> Any:
    try:
        return messages.SavedMetadata.FromString(paths.read_stored(path))
    except messages.DecodeError as e:
        raise OSError(f"Cannot parse file {path}: {e}.") from None


@export("keras.experimental.export_saved_model")
def export_saved_model(model: Any, saved_model_path: str, custom_objects: Any = None, as_text: bool = False,
                       input_signature: Any = None, serving_only: bool = False) -> None:
    """Writes a model to a directory as a SavedModel."""
    save(model, saved_model_path, not serving_only)


@export("keras.experimental.load_from_saved_model")
def load_from_saved_model(saved_model_path: str, custom_objects: Any = None) -> Any:
    """Reads a model that `export_saved_model` wrote."""
    return load(saved_model_path, custom_objects)


# -- what a model is called with -------------------------------------------------------------------------------------
def _is_spec(x: Any) -> bool:
    """Whether a spec can be made of something: it has a shape and a dtype."""
    return hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x.shape, "rank")


def _spec_of(x: Any, name: str | None = None) -> TypeSpec:
    """The spec of a tensor under a name, of a ragged or sparse tensor, or of what a spec describes."""
    if isinstance(x, (TypeSpec, CompositeTensor)) and not isinstance(x, TensorSpec):
        return type_spec_from_value(x) if isinstance(x, CompositeTensor) else x
    return TensorSpec(x.shape, x.dtype.base_dtype, name=name)


def call_spec(inputs: Any) -> Any:
    """The specs of the inputs of a call, with their names; None if they are not tensors."""
    flat = nest.flatten(inputs)
    if not all(map(_is_spec, flat)):
        return None
    names = iter(sorted(inputs) if isinstance(inputs, dict) and len(inputs) == len(flat)
                 else [f"input_{i + 1}" for i in range(len(flat))])

    def spec(x: Any) -> Any:
        name = next(names)
        return x if isinstance(x, TensorSpec) and x.name else _spec_of(x, name)
    return nest.map_structure(spec, inputs)


def call_specs(inputs: Any, args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """The specs of all arguments of a call: None for what is no tensor, and without those given by keyword."""
    def spec(x: Any) -> Any:
        return _spec_of(x) if _is_spec(x) else None
    first = call_spec(inputs)
    by_name = {k: v for k, v in kwargs.items() if all(map(_is_spec, nest.flatten(v)))}
    return None if first is None else ([first, *nest.map_structure(spec, list(args))], nest.map_structure(spec, by_name))


def any_batch(specs: Any) -> Any:
    """Specs for any number of examples."""
    def spec(s: Any) -> Any:
        if s is None or not s.shape.rank:
            return s
        made = copy.copy(s)
        made._shape = TensorShape([None, *s.shape.as_list()[1:]])
        return made
    return nest.map_structure(spec, specs)
