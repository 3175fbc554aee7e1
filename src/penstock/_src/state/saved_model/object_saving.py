"""tf.saved_model.save: objects with variables and functions to a SavedModel.

The objects that are reached from the root, and the functions that they have, become nodes of an object graph; captured objects
must be among them. A graph for servers and 1.x loaders is written with it: variables, constants, the signatures as calls
of their functions, and ops that restore the variables.
"""
from __future__ import annotations

import enum
import inspect
import keyword
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from tensorboard.compat.proto.saved_object_graph_pb2 import FunctionSpec as SpecProto
from tensorboard.compat.proto.saved_object_graph_pb2 import SavedObject, SavedObjectGraph

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import constant
from penstock._src.graph.graph import Graph
from penstock._src.graph.meta_graph import create_meta_graph_def
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope
from penstock._src.graph.trackable import Trackable, TrackableReference
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.io import paths, replaced
from penstock._src.io.messages import SavedModel
from penstock._src.ops.control.functional import add_calling_op, call, stateful_partitioned_call
from penstock._src.ops.registry import get
from penstock._src.ops.state.keyed import without_inserts
from penstock._src.state.checkpoint.builder import BulkSaverBuilder
from penstock._src.state.checkpoint.checkpoint import TrackableSaver
from penstock._src.state.checkpoint.object_graph import ObjectGraphView
from penstock._src.state.checkpoint.object_graph import children as children_of
from penstock._src.state.containers import DictWrapper, ListWrapper, _Tuple
from penstock._src.state.embeddings.variable import EmbeddingVariable, is_keyed
from penstock._src.state.saved_model import names, revived_types
from penstock._src.state.saved_model.fingerprint import write_fingerprint
from penstock._src.state.saved_model.model_builder import asset_name, copy_assets, variables_path, write_saved_model
from penstock._src.state.saved_model.object_loading import Asset, RestoredResource, SignatureMap
from penstock._src.state.saved_model.signatures import build_signature_def, op_signature_def
from penstock._src.state.saved_model.structures import NotEncodableError, encode
from penstock._src.state.saved_model.tensor_info import tensor_info
from penstock._src.state.variables.variable import Variable


@export("saved_model.save", v1=["saved_model.experimental.save"])
def save(obj: Any, export_dir: Any, signatures: Any = None, options: Any = None) -> None:
    """Writes an object, with its variables and functions, to a SavedModel.

    Args:
        obj: Object with variables and functions as attributes, such as a `tf.Module` or a Keras model.
        export_dir: Folder to write.
        signatures: Function, or dictionary of functions, with an input signature.
        options: `SaveOptions`.

    Raises:
        ValueError: if `obj` cannot be saved.

    >>> class Doubler(tf.Module):
    ...     @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    ...     def double(self, x):
    ...         return 2 * x
    >>> tf.compat.v2.saved_model.save(Doubler(), "model")
    >>> sorted(tf.io.gfile.listdir("model"))
    ['fingerprint.pb', 'saved_model.pb', 'variables']
    """
    save_and_return_nodes(obj, export_dir, signatures, options)


def save_and_return_nodes(obj: Any, export_dir: Any, signatures: Any = None, options: Any = None,
                          experimental_skip_checkpoint: bool = False) -> tuple[list, Any]:
    """`save`; returns the objects in the order of the message, and the path of references to each. tf_keras writes metadata
    about its layers by them."""
    if not context.executing_eagerly() and context.current_graph().building_function:
        raise AssertionError("tf.saved_model.save is not supported inside a traced @tf.function. Move the call to the outer "
                             "eagerly-executed context.")
    if not isinstance(obj, Trackable):
        raise ValueError(f"Only Trackable objects can be saved, not {obj}.")
    with init_scope(), context.exporting(any(getattr(o, "_has_copies", False) for o in ObjectGraphView(obj).walk()[0])):
        functions = obj._list_functions_for_serialization(None)        # once: reading attributes may create functions
        given = _by_key(signatures if signatures is not None else _found_signature(obj, functions))
        saving = _Saving(obj, paths.as_text(export_dir), given, functions, options or SaveOptions())
        saving.run(variables=not experimental_skip_checkpoint)
        return saving.nodes_and_paths()


# -- signatures ------------------------------------------------------------------------------------------------------
def _found_signature(obj: Any, functions: dict[str, Any]) -> Any:
    """The default function to serve: the only one with an input signature."""
    kept = vars(obj).get("signatures") if hasattr(obj, "__dict__") else None
    if kept is not None and not isinstance(kept, SignatureMap):
        raise ValueError(f"Exporting an object {obj} which has an attribute named 'signatures'. This is a reserved attribute "
                         "used to store SavedModel signatures in objects which come from `tf.saved_model.load`. Delete this "
                         "attribute (e.g. 'del obj.signatures') before saving if this shadowing is acceptable.")
    if "_default_save_signature" in functions:
        return functions["_default_save_signature"]
    served = [f for f in functions.values() if isinstance(f, Function) and f.input_signature is not None]
    if len(functions) != 1 or not served or not all(type(s) is TensorSpec for s in nest.flatten(served[0].input_signature)):
        return None
    concrete = served[0].get_concrete_function()
    outputs = concrete.graph.structured_outputs
    flat = list(outputs.values()) if isinstance(outputs, dict) else outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return concrete if all(isinstance(t, Tensor) for t in flat) else None


def _by_key(signatures: Any) -> Mapping[str, Any]:
    if signatures is None:
        return {}
    return signatures if isinstance(signatures, Mapping) else {names.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures}


def _defaults(function: Any) -> dict[str, Tensor]:
    """The tensors that a function's parameters have as defaults, by the names of the signature's inputs."""
    if not isinstance(function, Function) or function.input_signature is None:
        return {}
    out: dict[str, Tensor] = {}
    arguments = iter(_argument_names(function.get_concrete_function()))
    signature = function.input_signature
    for i, parameter in enumerate(function.function_spec.positional):
        values = nest.flatten(parameter.default, expand_composites=True)
        if i >= len(signature):                # its default is an argument of the trace, if it is a tensor
            values = [v for v in values if isinstance(v, Tensor)]
        specs = nest.flatten(signature[i], expand_composites=True) if i < len(signature) else values
        inputs = [next(arguments) for _ in specs]
        out.update({n: v for n, v in zip(inputs, values, strict=False) if isinstance(v, Tensor)})
    return out


def _signature(function: Any, key: str) -> ConcreteFunction:
    """A concrete function that takes tensors by name and returns a dictionary of tensors."""
    if isinstance(function, Function):
        if function.input_signature is not None:
            function = function.get_concrete_function()
    if not isinstance(function, ConcreteFunction):
        raise ValueError(f"Expected a TensorFlow function to generate a signature for, but got {function}. Only `tf.functions` "
                         "with an input signature or concrete functions can be used as a signature: pass `input_signature=` "
                         "or `fn.get_concrete_function(...)`.")
    arguments = _argument_names(function)

    def body(**kwargs: Any) -> Any:
        flat = [kwargs[n] for n in arguments]
        return _by_name(function._structured(call(function.graph_function, [*flat, *function.captured_inputs])), key)
    specs = [TensorSpec(t.shape, t.dtype, n) for n, t in zip(arguments, function.inputs, strict=False)]
    if all(n.isidentifier() and not keyword.iskeyword(n) for n in arguments):        # others are keys of **kwargs only
        by_name = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in arguments]
        body.__signature__ = inspect.Signature(by_name)      # type: ignore[attr-defined]
    wrapped = Function(body, f"signature_wrapper_{_clean(key)}", autograph=False)
    made = wrapped.get_concrete_function(**{s.name: s for s in specs})
    made._arg_names = [s.name for s in nest.flatten(made.structured_input_signature)]      # in the order of its inputs
    for v in function.graph.variables:
        made.graph.watched_variables[id(v)] = v
    return made


def _clean(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _argument_names(function: ConcreteFunction) -> list[str]:
    given = function._arg_names or [t.op.name for t in function.inputs[:function._arg_count]]
    out: list[str] = []
    for n in given:
        base, made, i = n or "args", n or "args", 0
        while made in out:
            i += 1
            made = f"{base}_{i}"
        out.append(made)
    return out


def _by_name(outputs: Any, key: str) -> dict[str, Any]:
    if outputs is None:
        return {}
    if isinstance(outputs, dict):
        named = outputs
    elif isinstance(outputs, (list, tuple)) and not hasattr(outputs, "dtype"):
        named = {f"output_{i}": v for i, v in enumerate(outputs)}
    else:
        named = {"output_0": outputs}
    for name, value in named.items():
        if not isinstance(name, str):
            raise ValueError(f"Got a dictionary containing non-string keys from signature {key!r}: {name!r}")
        if not isinstance(value, Tensor) and not hasattr(value, "_type_spec"):
            what = "a dictionary containing non-Tensor value" if named is outputs else "non-flat outputs:"
            raise ValueError(f"Got {what} {value!r} for key {name!r} in the output of the function used to "
                             f"generate the SavedModel signature {key!r}. Outputs for functions used as signatures must be a "
                             "single Tensor, a sequence of Tensors, or a dictionary from string to Tensor.")
    return {n: nest.map_structure(get("Identity"), v, expand_composites=True) for n, v in named.items()}


def _hole(argument: Tensor, default: Any, name: str) -> Tensor:
    """The input of a signature in the graph for servers."""
    if default is None:
        return get("Placeholder")(dtype=argument.dtype, shape=argument.shape, name=name)
    return get("PlaceholderWithDefault")(constant(constant_value(default), argument.dtype), shape=argument.shape, name=name)


# -- one save --------------------------------------------------------------------------------------------------------
def _handles(variable: Any) -> list:
    """The handles that functions may have captured: one, or those of all copies under a distribution strategy."""
    return [copy.handle for copy in variable._values] if variable._own_saveable else [variable.handle]


class _Saving:
    """One save: the nodes and their messages."""

    def __init__(self, root: Any, export_dir: str, signatures: Mapping[str, Any], functions: dict[str, Any],
                 options: SaveOptions):
        self._root, self._dir, self._options = root, export_dir, options
        self._signatures = {key: _signature(function, key) for key, function in signatures.items()}
        self._defaults = {key: _defaults(function) for key, function in signatures.items()}
        self._devices = options.experimental_variable_policy._save_variable_devices()
        self._nodes: list[Any] = []
        self._children: list[list[tuple[str, Any]]] = []
        self._number: dict[int, int] = {}
        self._constants: dict[int, str] = {}
        self._slot_references: dict[int, list[tuple[str, int, int]]] = {}      # of optimizers: name, variable, slot
        self._functions: dict[int, dict] = {id(root): functions}       # of each object, requested once
        self._assets: dict[str, str] = {}
        self._cache: dict[Any, Any] = {}                               # in which classes of libraries keep what they make
        self._asset_tensors: dict[int, Any] = {}      # by id of the asset, what servers feed its path to
        self._graph = Graph()
        self._proto = SavedObjectGraph()

    def run(self, variables: bool = True) -> None:
        """Writes everything; the message last."""
        self._map = SignatureMap(self._signatures)
        self._collect()
        concrete = self._concrete_functions()
        handles = self._build_graph(concrete)
        self._describe(concrete)
        with replaced.files(self._dir, _is_of_model if variables else lambda _: False) as folder:
            if variables:
                paths.makedirs(os.path.dirname(variables_path(folder)))
                saver = TrackableSaver(self._view())
                saver.sharding = self._options.experimental_sharding_callback
                saver.save(variables_path(folder))
            self._write(folder, concrete, handles)
        paths.makedirs(os.path.dirname(variables_path(self._dir)))

    def nodes_and_paths(self) -> tuple[list, _ByIdentity]:
        """The objects, and by object the references that lead to it from the root."""
        found: dict[int, tuple] = {id(self._root): ()}
        for obj, children in zip(self._nodes, self._children, strict=False):
            for name, child in children:
                if id(obj) in found and id(child) not in found:
                    found[id(child)] = (*found[id(obj)], TrackableReference(name, child))
        return list(self._nodes), _ByIdentity(self._nodes, found)

    # -- nodes -------------------------------------------------------------------------------------------------------
    def _add(self, obj: Any) -> int:
        if id(obj) not in self._number:
            self._number[id(obj)] = len(self._nodes)
            self._nodes.append(obj)
        return self._number[id(obj)]

    def _collect(self) -> None:
        """The objects breadth first, and the functions that they have."""
        self._add(self._root)
        at = 0
        while at < len(self._nodes):
            obj = self._nodes[at]
            found: list[tuple[str, Any]] = []
            if isinstance(obj, Trackable) and not isinstance(obj, Variable):
                found = self._children_of(obj)
                if id(obj) not in self._functions:
                    self._functions[id(obj)] = obj._list_functions_for_serialization(None)
                functions = self._functions[id(obj)]
                known = {n for n, _ in found}
                more = obj._list_extra_dependencies_for_serialization(None)
                found += [(n, o) for n, o in more.items() if n not in known]
                known.update(more)
                found += [(n, f) for n, f in functions.items() if n != "signatures" and n not in known]
            if obj is self._root:
                found = [(n, c) for n, c in found if n != "signatures"] + [("signatures", self._map)]
            found = [(n, self._variable_of(c)) for n, c in found]
            self._children.append(found)
            for _, child in found:
                self._add(child)
            at += 1

    @staticmethod
    def _variable_of(obj: Any) -> Any:
        """The variable in an object of a library that acts as one (Keras 3's have them); any other object itself."""
        if isinstance(obj, Variable) or not getattr(obj, "_should_act_as_resource_variable", False):
            return obj
        inner = getattr(obj, "value", None)
        return inner if isinstance(inner, Variable) else obj

    def _view(self) -> _SavedView:
        """The objects of this save, for its checkpoint."""
        return _SavedView(self._root, {id(o): found for o, found in zip(self._nodes, self._children, strict=True)})

    def _children_of(self, obj: Trackable) -> list[tuple[str, Any]]:
        """The dependencies of an object; a library's class may define them for SavedModels."""
        if type(obj)._trackable_children is Trackable._trackable_children:
            return [(d.name, d.ref) for d in ObjectGraphView(obj).list_dependencies(obj)]
        given = children_of(obj, "savedmodel", cache=self._cache)
        functions = {n: c for n, c in given.items() if isinstance(c, (Function, ConcreteFunction))}
        self._functions[id(obj)] = {**self._functions.get(id(obj), {}), **functions}
        return [(n, c) for n, c in given.items() if n not in functions]

    def _concrete_functions(self) -> list[ConcreteFunction]:
        """All concrete functions, each once; their captures become nodes."""
        found: dict[str, ConcreteFunction] = {}
        for obj in list(self._nodes):
            if isinstance(obj, ConcreteFunction):
                found[obj.graph_function.name] = obj
            elif isinstance(obj, Function):
                for c in _traces(obj):
                    found[c.graph_function.name] = c
        known: dict[int, Any] = {id(h): v for v in self._nodes if isinstance(v, Variable) for h in _handles(v)}
        known.update({id(a.asset_path): a for a in self._nodes if isinstance(a, Asset)})
        known.update({id(r.resource_handle): r for r in self._nodes if isinstance(r, RestoredResource)})
        holders: list[Any] = [r for r in self._nodes
                              if hasattr(r, "resource_handle") and isinstance(r, Trackable) and not isinstance(r, Variable)]
        holders.sort(key=lambda r: "_create_resource" in self._functions.get(id(r), ()))     # the creator of a resource owns it
        known.update({id(r.resource_handle): r for r in holders})
        self._owner = known
        unknown = [(t, c) for c in found.values() for t in c.captured_inputs if id(t) not in known]
        slots = self._slots() if unknown else {}
        for t, c in unknown:
            if id(t) in known:
                continue
            if id(t) in slots:
                self._add_slot(*slots[id(t)])
                known[id(t)] = slots[id(t)][-1]
                continue
            self._check_capture(t, c)
            known[id(t)] = t
            self._add(t)
            self._children.append([])
        return list(found.values())

    def _slots(self) -> dict[int, tuple]:
        """The slots of optimizers, by the ids of their handles: the optimizer, the slot's name, its variable, the slot."""
        found = {}
        for optimizer in self._nodes:
            if callable(getattr(optimizer, "_create_or_restore_slot_variable", None)):
                for name in getattr(optimizer, "get_slot_names", tuple)():
                    for variable in [v for v in self._nodes if isinstance(v, Variable)]:
                        try:
                            slot = optimizer.get_slot(variable, name)
                        except (AttributeError, KeyError):
                            continue
                        if slot is not None:
                            found[id(slot.handle)] = optimizer, name, variable, slot
        return found

    def _add_slot(self, optimizer: Any, name: str, variable: Any, slot: Any) -> None:
        self._slot_references.setdefault(id(optimizer), []).append((name, self._number[id(variable)], self._add(slot)))
        self._children.append([])

    def _check_capture(self, tensor: Any, function: ConcreteFunction) -> None:
        if not hasattr(tensor, "_value") and constant_value(tensor) is None:
            raise ValueError(f"Attempted to save a function {function.graph_function.name} which references a symbolic Tensor "
                             f"{tensor.name} that is not a simple constant. This is not supported.")
        if tensor.dtype in (dtypes.resource, dtypes.variant):
            what = repr(tensor._value) if hasattr(tensor, "_value") else tensor.name
            if not self._signatures:
                raise KeyError(f"The function {function.graph_function.name} uses {what}, which is not reachable from root. "
                               "Assign what owns it to an attribute of a tracked object.")
            raise AssertionError(f"Tried to export a function which references untracked object {what}. TensorFlow objects "
                                 "(e.g. tf.Variable) captured by functions must be tracked by assigning them to an attribute "
                                 f"of a tracked object. Function: {function.graph_function.name}. Trackable referencing this "
                                 f"tensor: {what}.")

    # -- the graph for servers ---------------------------------------------------------------------------------------
    def _build_graph(self, concrete: list[ConcreteFunction]) -> dict[int, Any]:
        """Handles, constants, functions and signatures in a graph; by id, the tensor there for a captured one here."""
        there: dict[int, Any] = {}
        self._reads: dict[str, Any] = {}
        ways = self._view().ways()
        with self._graph.as_default():
            for obj in self._nodes:
                if isinstance(obj, Variable):
                    if isinstance(obj, EmbeddingVariable):
                        table = obj.empty_copy(self._graph.unique_name(obj._shared_name))
                        there[id(obj.handle)] = table.handle
                        saveable, = (made(f"{ways[id(obj)]}/.ATTRIBUTES/{attribute}")
                                     for attribute, made in table._gather_saveables_for_checkpoint().items())
                        self._reads[saveable.name] = saveable
                        continue
                    name = obj._shared_name
                    unique = self._graph.unique_name(name)
                    handle = get("VarHandleOp")(shape=obj.shape, dtype=obj.dtype, shared_name=unique, name=unique + "/")
                    handle._handle_dtype, handle._handle_dims = obj.dtype, obj.shape.static_dims
                    there.update({id(h): handle for h in _handles(obj)})
                    way = ways.get(id(obj))
                    key = name if way is None else f"{way}/.ATTRIBUTES/VARIABLE_VALUE"
                    self._reads[key] = get("ReadVariableOp")(handle, dtype=obj.dtype)
                elif isinstance(obj, Asset):
                    there[id(obj.asset_path)] = constant(constant_value(obj.asset_path), name="asset_path_initializer")
                    self._asset_tensors[id(obj)] = there[id(obj.asset_path)]
                elif isinstance(obj, Tensor):
                    made = constant(obj.numpy() if hasattr(obj, "_value") else constant_value(obj), dtype=obj.dtype)
                    there[id(obj)] = made
                    self._constants[id(obj)] = made.op.name
            for c in concrete:
                self._add_function(c.graph_function)
            self._make_resources(there)
            self._keep_asset_paths(there)
        return there

    def _keep_asset_paths(self, there: dict[int, Any]) -> None:
        """Variables for the paths that signatures use: servers feed the present paths to the op that they run first only."""
        used = {id(t) for signature in self._signatures.values() for t in signature.captured_inputs}
        for obj in self._nodes:
            if isinstance(obj, Asset) and id(obj.asset_path) in used:
                path, name = self._asset_tensors[id(obj)], self._graph.unique_name("asset_path")
                handle = get("VarHandleOp")(shape=[], dtype=path.dtype, shared_name=name, name=name + "/")
                self._fillers.append(get("AssignVariableOp")(handle, path))
                there[id(obj.asset_path)] = get("ReadVariableOp")(handle, dtype=path.dtype)

    def _make_resources(self, there: dict[int, Any]) -> None:
        """Tables and datasets in the graph: what makes them, and what the op that servers run first fills them with."""
        self._fillers: list[Any] = []
        waiting = [(obj, self._functions[id(obj)]) for obj in self._nodes
                   if "_create_resource" in self._functions.get(id(obj), ())]
        changed = True
        while waiting and changed:
            changed = False
            for obj, functions in list(waiting):
                made = self._called(functions["_create_resource"], there)
                if made:
                    there[id(obj.resource_handle)] = made[0]
                    waiting.remove((obj, functions))
                    changed = True
        for obj in self._nodes:
            if "_initialize" in self._functions.get(id(obj), ()):
                self._fillers += self._called(self._functions[id(obj)]["_initialize"], there)

    @staticmethod
    def _called(function: Any, there: dict[int, Any]) -> list:
        """The result of a function without arguments in the graph; None while one of its captures is missing.

        It is called as a stateful function, so that handles are not folded as constants.
        """
        trace = next(iter(_traces(function)), None)
        if trace is None or not all(id(t) in there for t in trace.captured_inputs):
            return []
        made, attrs = trace.graph_function, {"Tout": [t.dtype.base_dtype for t in trace.graph_function.outputs]}
        captured = [there[id(t)] for t in trace.captured_inputs]
        return list(add_calling_op(stateful_partitioned_call, (captured,), {**attrs, "f": made}, [made], None).outputs)

    def _add_function(self, function: Any) -> None:
        """Adds a function, and those that it calls; functions of a loaded model know them by name."""
        todo = [(function, function.graph)]
        while todo:
            f, graph = todo.pop()
            if self._graph._functions.get(f.name) is not None:
                continue
            self._graph._add_function(f)
            for node in f.definition.node_def:
                for value in node.attr.values():
                    for called in ([value.func] if value.HasField("func") else value.list.func):
                        inner = graph._get_function(called.name)
                        if inner is not None:
                            todo.append((inner, getattr(inner, "graph", graph)))

    def _signature_defs(self, there: dict[int, Any]) -> dict[str, Any]:
        out = {}
        for key, function in self._signatures.items():
            arguments = _argument_names(function)
            defaults = self._defaults[key]
            inputs = {n: _hole(t, defaults.get(n), f"{_clean(key)}_{_clean(n)}")
                      for n, t in zip(arguments, function.inputs, strict=False)}
            captured = [there[id(t)] for t in function.captured_inputs if id(t) in there]
            if len(captured) != len(function.captured_inputs):
                continue                                   # only objects can make what it uses
            results = call(function.graph_function, [*inputs.values(), *captured])
            outputs = nest.pack_sequence_as(function.graph.structured_outputs, results, expand_composites=True)
            out[key] = build_signature_def({n: tensor_info(t) for n, t in inputs.items()},
                                           {n: tensor_info(t) for n, t in outputs.items()}, names.PREDICT_METHOD_NAME,
                                           defaults)
        return out

    # -- the object graph --------------------------------------------------------------------------------------------
    def _describe(self, concrete: list[ConcreteFunction]) -> None:
        for obj, children in zip(self._nodes, self._children, strict=True):
            node = self._proto.nodes.add()
            for name, child in children:
                node.children.add(node_id=self._number[id(child)], local_name=name)
            for name, variable, slot in self._slot_references.get(id(obj), ()):
                node.slot_variables.add(slot_name=name, original_variable_node_id=variable, slot_variable_node_id=slot)
            self._describe_one(obj, node)
        for c in concrete:
            saved = self._proto.concrete_functions[c.graph_function.name]
            saved.bound_inputs.extend(self._number[id(self._owner[id(t)])] for t in c.captured_inputs)
            saved.canonicalized_input_signature.CopyFrom(_encoded(_input_signature(c)))
            saved.output_signature.CopyFrom(_encoded(_specs(c.structured_outputs)))

    def _describe_one(self, obj: Any, node: Any) -> None:
        if isinstance(obj, EmbeddingVariable):
            node.user_object.identifier, node.user_object.metadata = EmbeddingVariable.SAVED_AS, obj.description()
        elif isinstance(obj, Variable):
            node.variable.dtype, node.variable.trainable = obj.dtype.enum, obj.trainable
            node.variable.shape.CopyFrom(obj.shape.as_proto())
            node.variable.name = obj._shared_name
            if self._devices and obj.device:
                node.variable.device = obj.device
            node.variable.synchronization, node.variable.aggregation = obj.synchronization.value, obj.aggregation.value
        elif isinstance(obj, Asset):
            source = _file_of(obj)
            name = asset_name(source, self._assets)
            node.asset.asset_file_def_index = list(self._assets).index(name) if name in self._assets else len(self._assets)
            self._assets[name] = source
        elif isinstance(obj, Function):
            node.function.concrete_functions.extend(c.graph_function.name for c in _traces(obj))
            node.function.function_spec.CopyFrom(_function_spec(obj))
        elif isinstance(obj, ConcreteFunction):
            bare = node.bare_concrete_function
            bare.concrete_function_name = obj.graph_function.name
            bare.argument_keywords.extend(_argument_names(obj))
            bare.allowed_positional_arguments = obj._arg_count if obj._arg_count <= 1 else 0
        elif isinstance(obj, Tensor):
            node.constant.operation = self._constants[id(obj)]
        elif "_create_resource" in self._functions.get(id(obj), ()):
            node.resource.SetInParent()
        else:
            revived = revived_types.serialize(obj)
            if revived is not None:
                node.user_object.CopyFrom(revived)
                return
            node.user_object.identifier = "optimizer" if id(obj) in self._slot_references else _identifier(obj)
            node.user_object.metadata = getattr(obj, "_tracking_metadata", "")
            node.user_object.version.producer = node.user_object.version.min_consumer = 1

    # -- files -------------------------------------------------------------------------------------------------------
    def _write(self, folder: str, concrete: list[ConcreteFunction], there: dict[int, Any]) -> None:
        with self._graph.as_default():
            signatures = self._signature_defs(there)
            saver_def = BulkSaverBuilder()._build_internal(self._reads) if self._reads else None
            with self._graph.control_dependencies(self._fillers):
                signatures[names.INIT_OP_SIGNATURE_KEY] = op_signature_def(get("NoOp")(), names.INIT_OP_SIGNATURE_KEY)
            meta_graph = create_meta_graph_def(graph=self._graph, saver_def=saver_def, strip_default_attrs=True)
            if not meta_graph.HasField("saver_def"):
                meta_graph.ClearField("saver_def")
        without_inserts(meta_graph.graph_def)
        meta_graph.meta_info_def.tags.append(names.SERVING)
        meta_graph.meta_info_def.function_aliases.update(_aliases(self._options.function_aliases))
        for key, signature in signatures.items():
            meta_graph.signature_def[key].CopyFrom(signature)
        for obj in self._nodes:
            if isinstance(obj, Asset):
                name = asset_name(_file_of(obj), self._assets)
                meta_graph.asset_file_def.add(filename=name).tensor_info.name = self._asset_tensors[id(obj)].name
        meta_graph.object_graph_def.CopyFrom(self._proto)
        copy_assets(self._assets, folder)
        model = SavedModel(saved_model_schema_version=names.SAVED_MODEL_SCHEMA_VERSION)
        model.meta_graphs.add().CopyFrom(meta_graph)
        write_fingerprint(folder, model, variables_path(folder))
        write_saved_model(model, folder, False)


def _is_of_model(name: str) -> bool:
    """Whether a new model has no use for a file of the old one. Assets stay: others may name them."""
    variables = f"{names.VARIABLES_DIRECTORY}/{names.VARIABLES_FILENAME}."
    return name.startswith(variables) or name == names.SAVED_MODEL_FILENAME_PBTXT


class _SavedView(ObjectGraphView):
    """The objects of a SavedModel by its own references: a loader finds each value where the SavedModel has its object.

    A library's class may have other children in SavedModels than in checkpoints (Keras 3's models do).
    """

    def __init__(self, root: Any, found: Mapping[int, list[tuple[str, Any]]]):
        super().__init__(root)
        self._found = found

    def values_of(self, obj: Any) -> dict[str, Any]:
        """What an object saves. The tables of an embedding variable are objects here, and save their own rows."""
        return {} if is_keyed(obj) and not isinstance(obj, Variable) else super().values_of(obj)

    def list_dependencies(self, obj: Any) -> list:
        """The references to objects that may have a state."""
        if isinstance(obj, Variable) or id(obj) not in self._found:
            return super().list_dependencies(obj)
        return [TrackableReference(n, c) for n, c in self._found[id(obj)] if isinstance(c, Trackable)
                and not isinstance(c, (Function, ConcreteFunction, SignatureMap))]


class _ByIdentity(Mapping):
    """Values by object: lists and dictionaries, which are not hashable, are among the keys."""

    def __init__(self, objects: list, values: dict[int, Any]):
        self._objects, self._values = [o for o in objects if id(o) in values], values

    def __getitem__(self, key: Any) -> Any:
        return self._values[id(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


def _file_of(asset: Asset) -> str:
    return paths.as_text(np.asarray(constant_value(asset.asset_path)).item())


def _aliases(given: dict[str, Any]) -> dict[str, str]:
    """The user's aliases by the name of a function in the graph: for all traces of a function, or for concrete ones."""
    found = {}
    for alias, functions in given.items():
        for f in functions if isinstance(functions, (list, tuple)) else [functions]:
            traces = [f] if isinstance(f, ConcreteFunction) else f._list_all_concrete_functions_for_serialization()
            found.update({c.graph_function.name: alias for c in traces})
    return found


def _traces(function: Function) -> list[ConcreteFunction]:
    """The concrete functions to save: those that were traced, or the one that an input signature describes."""
    out = []
    for c in function._list_all_concrete_functions_for_serialization():
        try:
            encode(_input_signature(c))
            encode(_specs(c.structured_outputs))
        except NotEncodableError:
            continue                                       # a trace with arguments that cannot be written
        out.append(c)
    return out


def _identifier(obj: Any) -> str:
    if isinstance(obj, ListWrapper):
        return "trackable_list_wrapper"
    if isinstance(obj, DictWrapper):
        return "trackable_dict_wrapper"
    if isinstance(obj, _Tuple):
        return "trackable_tuple_wrapper"
    return "signature_map" if isinstance(obj, SignatureMap) else obj._object_identifier


def _input_signature(c: ConcreteFunction) -> tuple:
    signature = c.graph.structured_input_signature
    if signature is None:
        signature = tuple(TensorSpec(t.shape, t.dtype, n) for n, t in zip(_argument_names(c), c.inputs, strict=False)), {}
    args, kwargs = signature
    return tuple(args), dict(kwargs)


def _specs(structure: Any) -> Any:
    """Specs instead of the tensors of a structure, named after their places in it."""
    flat = []
    for path, x in nest.flatten_with_tuple_paths(structure):
        if isinstance(x, Tensor):
            flat.append(TensorSpec(x.shape, x.dtype, _place(path)))
        elif hasattr(x, "_type_spec"):
            flat.append(x._type_spec)
        else:
            flat.append(x)
    return nest.pack_sequence_as(structure, flat)


def _place(path: tuple) -> str:
    """The name that TensorFlow gives to an output at a place of a structure: names begin with a letter."""
    name = "_".join(map(str, path))
    return "unknown" if not name else name if name[0].isalpha() else f"tensor_{name}"


def _encoded(value: Any) -> Any:
    return encode(value)


def _function_spec(function: Function) -> Any:
    """The FunctionSpec message of a function: its Python signature and its input signature."""
    out = SavedObject().function.function_spec
    parameters = list(function.function_spec.signature.parameters.values())
    kinds = inspect.Parameter
    plain = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    only = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    defaults = [p.default for p in plain if p.default is not kinds.empty]
    spec = inspect.FullArgSpec(
        [p.name for p in plain], next((p.name for p in parameters if p.kind is kinds.VAR_POSITIONAL), None),
        next((p.name for p in parameters if p.kind is kinds.VAR_KEYWORD), None), tuple(defaults) or None,
        [p.name for p in only], {p.name: p.default for p in only if p.default is not kinds.empty} or None, {})
    try:
        out.fullargspec.CopyFrom(encode(spec))
    except NotEncodableError:
        out.fullargspec.CopyFrom(encode(spec._replace(defaults=None, kwonlydefaults=None)))
    out.jit_compile = {None: SpecProto.DEFAULT, True: SpecProto.ON, False: SpecProto.OFF}[function._jit_compile]
    out.input_signature.CopyFrom(encode(None if function.input_signature is None else tuple(function.input_signature)))
    return out


@export("saved_model.experimental.VariablePolicy")
class VariablePolicy(enum.Enum):
    """What is saved of variables besides their values: by default neither devices nor the copies of distributed ones."""
    NONE = None
    SAVE_VARIABLE_DEVICES = "save_variable_devices"
    EXPAND_DISTRIBUTED_VARIABLES = "expand_distributed_variables"

    @classmethod
    def from_obj(cls, obj: Any) -> VariablePolicy:
        """The policy of a name, of None, or of a policy."""
        if isinstance(obj, cls):
            return obj
        name = None if obj is None else str(obj).lower()
        for policy in cls:
            if policy.value == name:
                return policy
        raise ValueError(f"Received invalid VariablePolicy value: {obj}.")

    def _save_variable_devices(self) -> bool:
        return self is not VariablePolicy.NONE

    def _expand_distributed_variables(self) -> bool:
        return self is VariablePolicy.EXPAND_DISTRIBUTED_VARIABLES


@export("saved_model.SaveOptions")
class SaveOptions:
    """Options of tf.saved_model.save."""

    def __init__(self, namespace_whitelist: Any = None, save_debug_info: bool = False, function_aliases: Any = None,
                 experimental_debug_stripper: bool = False, experimental_io_device: Any = None,
                 experimental_variable_policy: Any = None, experimental_custom_gradients: bool = True,
                 experimental_image_format: bool = False, experimental_skip_saver: bool = False,
                 experimental_sharding_callback: Any = None, extra_tags: Any = None):
        self.namespace_whitelist, self.save_debug_info = namespace_whitelist or [], save_debug_info
        self.function_aliases, self.experimental_io_device = function_aliases or {}, experimental_io_device
        self.experimental_variable_policy = VariablePolicy.from_obj(experimental_variable_policy)
        self.experimental_sharding_callback = experimental_sharding_callback


@export("saved_model.LoadOptions")
class LoadOptions:
    """Options of tf.saved_model.load."""

    def __init__(self, allow_partial_checkpoint: bool = False, experimental_io_device: Any = None,
                 experimental_skip_checkpoint: bool = False, experimental_variable_policy: Any = None,
                 experimental_load_function_aliases: bool = False):
        self.allow_partial_checkpoint, self.experimental_io_device = allow_partial_checkpoint, experimental_io_device
        self.experimental_skip_checkpoint = experimental_skip_checkpoint
        self.experimental_load_function_aliases = experimental_load_function_aliases
