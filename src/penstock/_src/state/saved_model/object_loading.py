"""tf.saved_model.load of 2.x: objects with variables and functions from a SavedModel.

The nodes of the stored object graph become objects, captures before the functions that use them; then they become attributes of
each other, the variables are restored, and tables and other resources are initialized.
"""
from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import constant
from penstock._src.graph.function_messages import from_definition
from penstock._src.graph.graph import Graph
from penstock._src.graph.importer import ImportedFunction
from penstock._src.graph.scopes import init_scope
from penstock._src.graph.tensor_proto import make_ndarray
from penstock._src.graph.trackable import Trackable
from penstock._src.io import paths
from penstock._src.ops.registry import OPS, get
from penstock._src.state.asset import Asset
from penstock._src.state.auto_trackable import AutoTrackable
from penstock._src.state.checkpoint.checkpoint import TrackableSaver
from penstock._src.state.checkpoint.object_graph import ObjectGraphView
from penstock._src.state.containers import DictWrapper, ListWrapper, wrap
from penstock._src.state.embeddings.variable import EmbeddingVariable, described_table
from penstock._src.state.saved_model import revived_types
from penstock._src.state.saved_model.model_builder import asset_path, variables_path
from penstock._src.state.saved_model.model_loader import SavedModelLoader, asset_files, parse_saved_model
from penstock._src.state.saved_model.restored_function import RestoredConcreteFunction, RestoredFunction, SignatureFunction
from penstock._src.state.saved_model.restricted import check as check_restricted
from penstock._src.state.saved_model.structures import decode
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization
from penstock._src.state.variables.resource import ResourceVariable
from penstock._src.state.variables.scope import get_variable_scope
from penstock._src.state.variables.variable import Variable


class RestoredResource(Trackable):
    """A table or another resource of a SavedModel: functions create and initialize it."""

    def __init__(self) -> None:
        self._handle: Any = None

    @property
    def resource_handle(self) -> Any:
        """The handle; created on first access."""
        if self._handle is None:
            self._handle = self._create_resource()         # type: ignore[attr-defined]
        return self._handle

    def _initialize_resource(self) -> None:
        initialize = getattr(self, "_initialize", None)
        if initialize is not None:
            initialize()

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        names = ("_create_resource", "_initialize", "_destroy_resource")
        return {n: getattr(self, n) for n in names if hasattr(self, n)}


class RestoredOptimizer(AutoTrackable):
    """An optimizer of a SavedModel: it has slots that functions use, but no methods."""

    _slots: dict[tuple[int, str], Any]

    def __init__(self) -> None:
        self.__dict__["_slots"] = {}                   # not an attribute that is tracked: checkpoints know slots on their own

    def get_slot_names(self) -> list[str]:
        """The names of its slots."""
        return list(dict.fromkeys(name for _, name in self._slots))

    def get_slot(self, variable: Any, name: str) -> Any:
        """A slot of a variable; None if it has none of that name."""
        return self._slots.get((id(variable), name))

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, slot_name: str, variable: Any) -> None:
        slot = self.get_slot(variable, slot_name)
        if slot is not None:
            slot_variable_position.restore(slot)


class SignatureMap(Trackable, Mapping):
    """The signatures of a SavedModel by name; it cannot be changed."""

    def __init__(self, signatures: Any = ()):
        self._signatures = dict(signatures)

    def __getitem__(self, key: str) -> Any:
        return self._signatures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        return f"_SignatureMap({self._signatures})"

    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> bool:
        return self is other

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return dict(self._signatures)


@contextlib.contextmanager
def _whole(export_dir: str) -> Iterator[None]:
    """Raises DataLossError for an inconsistent model: one that refers to missing functions, nodes or fields."""
    try:
        yield
    except (KeyError, IndexError, AttributeError) as e:
        raise errors.DataLossError(None, None, f"The SavedModel at {export_dir} is damaged: {type(e).__name__}: {e}") from e


@export(v2=["saved_model.load"], v1=["saved_model.load_v2"])
def load(export_dir: Any, tags: Any = None, options: Any = None, *, restricted: bool = False) -> Any:
    """The root object of a SavedModel, with its variables and functions.

    A SavedModel is a program, and loading it runs its initializers. With `restricted`, a model that could use files, Python
    functions or other tasks is refused (PermissionDeniedError).

    Args:
        export_dir: Folder with a SavedModel.
        tags: Tags of the graph to load; needed if there are several.
        options: `LoadOptions`.
        restricted: Whether to refuse ops that reach files or run Python.

    Returns:
        An object.

    Raises:
        OSError: if there is no SavedModel.

    >>> class Doubler(tf.Module):
    ...     @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    ...     def double(self, x):
    ...         return 2 * x
    >>> tf.compat.v2.saved_model.save(Doubler(), "model")
    >>> tf.compat.v2.saved_model.load("model").double(tf.constant([1., 2.])).numpy()
    array([2., 4.], dtype=float32)
    """
    with init_scope():
        export_dir = paths.as_text(export_dir)
        tags = [tags] if isinstance(tags, str) else tags
        model = parse_saved_model(export_dir)
        if restricted:
            for found in model.meta_graphs:
                check_restricted(found)
        if _has_objects(model):
            loader = _objects_of(model, export_dir, tags, {})
            root = loader.root()
            if options is not None and options.experimental_load_function_aliases:
                _add_aliases(root, loader.aliases())
            return root
        from penstock._src.state.saved_model.graph_model import load_v1_in_v2
        return load_v1_in_v2(SavedModelLoader(export_dir), tags)


@export("__internal__.saved_model.load_partial")
def load_partial(export_dir: Any, filters: Any, tags: Any = None, options: Any = None) -> dict[str, Any]:
    """Objects of a SavedModel by path, such as `root.layer.kernel`; tf_keras loads its models with it.

    Args:
        export_dir: Folder with a SavedModel.
        filters: Paths, or a dictionary from paths to objects that exist already: an object, or a pair of an object and the
            function that sets its attributes. None stands for an object that is to be made.
        tags: Tags of the graph to load.
        options: `LoadOptions`.

    Returns:
        A dictionary from paths to objects.

    Raises:
        ValueError: if the SavedModel has no objects, or none at one of the paths.
    """
    with init_scope():
        export_dir = paths.as_text(export_dir)
        model = parse_saved_model(export_dir)
        if not _has_objects(model):
            raise ValueError(f"The SavedModel at {export_dir} has no objects: only one that tf.saved_model.save has written "
                             "can be loaded in parts.")
        given = filters if isinstance(filters, Mapping) else dict.fromkeys(filters)
        return _objects_of(model, export_dir, [tags] if isinstance(tags, str) else tags, given).found(given)


def _has_objects(model: Any) -> bool:
    return len(model.meta_graphs) == 1 and model.meta_graphs[0].HasField("object_graph_def")


def _objects_of(model: Any, export_dir: str, tags: Any, given: Mapping[str, Any]) -> _Loader:
    meta_graph = model.meta_graphs[0]
    have = set(meta_graph.meta_info_def.tags)
    if tags is not None and set(tags) != have:
        raise ValueError(f"The SavedModel at {export_dir} has one MetaGraph with tags {sorted(have)}, but got an "
                         f"incompatible argument tags={tags} to tf.saved_model.load. You may omit it, pass 'None', or "
                         "pass matching tags.")
    with _whole(export_dir):
        return _Loader(export_dir, meta_graph, given)


def _add_aliases(root: Any, aliases: dict[str, Any]) -> None:
    if hasattr(root, "function_aliases"):
        raise ValueError("experimental_load_function_aliases needs a root object without an attribute 'function_aliases', "
                         f"but {root} was saved with one.")
    root.function_aliases = aliases


class _Loader:
    """One load. `given` are objects that exist already, by path."""

    def __init__(self, export_dir: str, meta_graph: MetaGraphDef, given: Mapping[str, Any]):
        self._dir, self._meta_graph, self._proto = export_dir, meta_graph, meta_graph.object_graph_def
        self._name_resources()
        self._library = Graph()
        for f in meta_graph.graph_def.library.function:
            self._library._add_function(ImportedFunction(f))
        self._assets = asset_files(meta_graph)
        self._definitions = {f.signature.name: f for f in meta_graph.graph_def.library.function}
        self._functions: dict[str, RestoredConcreteFunction] = {}
        self._nodes: list[Any] = [None] * len(self._proto.nodes)
        self._setters: dict[int, Callable] = {}                # of objects of libraries: registered types, or given ones
        self._given = {self._number(path): value for path, value in given.items() if value is not None}
        self._load_functions()
        self._make_all()
        self._connect()
        self._bind()
        self._restore()
        self._initialize()

    def root(self) -> Any:
        """The root object."""
        root = self._nodes[0]
        if isinstance(root, AutoTrackable):
            root.__dict__.setdefault("signatures", SignatureMap())
            root.tensorflow_version = self._meta_graph.meta_info_def.tensorflow_version
        return root

    def found(self, named: Iterable[str]) -> dict[str, Any]:
        """By path, the objects."""
        root = self.root()
        return {path: root if path == "root" else self._nodes[self._number(path)] for path in named}

    def _number(self, path: str) -> int:
        """The node at a path."""
        number, (first, *names) = 0, path.split(".")
        for name in names:
            number = next((c.node_id for c in self._proto.nodes[number].children if c.local_name == name), -1)
            if number < 0:
                break
        if first != "root" or number < 0:
            raise ValueError(f"The SavedModel has no object at {path}. Paths begin with 'root', and continue with the names of "
                             "attributes.")
        return number

    def aliases(self) -> dict[str, Any]:
        """By alias, the function whose traces have it; a list of concrete functions, if these are not those of one function."""
        found: dict[str, Any] = {}
        for name, alias in self._meta_graph.meta_info_def.function_aliases.items():
            if name in self._functions:
                found.setdefault(alias, []).append(self._functions[name])
        restored = [f for f in self._nodes if isinstance(f, RestoredFunction)]
        whole = {frozenset(map(id, f._list_all_concrete_functions())): f for f in restored}
        return {alias: whole.get(frozenset(map(id, traces)), traces) for alias, traces in found.items()}

    # -- functions ---------------------------------------------------------------------------------------------------
    def _name_resources(self) -> None:
        """Gives every table a unique name, so that loaded models do not share them."""
        creators = {c for node in self._proto.nodes for child in node.children if child.local_name == "_create_resource"
                    for c in self._proto.nodes[child.node_id].function.concrete_functions}
        for f in self._meta_graph.graph_def.library.function:
            if f.signature.name in creators:
                for node in f.node_def:
                    if node.op in OPS and "shared_name" in OPS[node.op].attrs:
                        node.attr["shared_name"].s = f"{node.name}_{uuid.uuid4()}".encode()

    def _load_functions(self) -> None:
        signatures = {n.bare_concrete_function.concrete_function_name for n in self._proto.nodes
                      if n.WhichOneof("kind") == "bare_concrete_function"}
        for name, saved in self._proto.concrete_functions.items():
            if name not in self._definitions:
                raise errors.DataLossError(None, None, f"The SavedModel has no function {name}, which an object uses")
            body = from_definition(self._definitions[name], {}, self._library).graph
            kind = SignatureFunction if name in signatures else RestoredConcreteFunction
            self._functions[name] = kind(body, len(saved.bound_inputs), name, decode(saved.canonicalized_input_signature),
                                         decode(saved.output_signature), self._library)

    def _bind(self) -> None:
        for name, saved in self._proto.concrete_functions.items():
            self._functions[name].bind([self._captured(i) for i in saved.bound_inputs])

    def _captured(self, number: int) -> Any:
        node = self._nodes[number]
        if isinstance(node, Asset):
            return node.asset_path
        if isinstance(node, RestoredResource):
            return self._handle_of(node)
        return node

    def _handle_of(self, node: RestoredResource) -> Any:
        creator = node._create_resource                    # type: ignore[attr-defined]
        for c in creator._list_all_concrete_functions():
            if not c.captured_inputs:
                c.bind([self._captured(i) for i in self._proto.concrete_functions[c.graph_function.name].bound_inputs])
        return node.resource_handle

    # -- objects -----------------------------------------------------------------------------------------------------
    def _make_all(self) -> None:
        for number, node in enumerate(self._proto.nodes):
            self._nodes[number] = self._made(number, node)
        for number, node in enumerate(self._proto.nodes):
            for slot in node.slot_variables:
                if isinstance(self._nodes[number], RestoredOptimizer):
                    variable = self._nodes[slot.original_variable_node_id]
                    self._nodes[number]._slots[id(variable), slot.slot_name] = self._nodes[slot.slot_variable_node_id]

    def _user_object(self, number: int, saved: Any) -> Any:
        revived = revived_types.deserialize(saved)
        if revived is None:
            return _user_object(saved)
        self._setters[number] = revived[1]
        return revived[0]

    def _made(self, number: int, node: Any) -> Any:
        if number in self._given:
            made, self._setters[number] = pair if isinstance(pair := self._given[number], tuple) else (pair, _set_child)
            return made
        kind = node.WhichOneof("kind")
        if kind == "user_object":
            return self._user_object(number, node.user_object)
        if kind == "variable":
            return _variable(node.variable)
        if kind == "asset":
            asset = Asset(asset_path(self._dir, self._assets[node.asset.asset_file_def_index].filename))
            if not context.executing_eagerly():
                context.current_graph().add_to_collection(GraphKeys.ASSET_FILEPATHS, asset.asset_path)
            return asset
        if kind == "function":
            return self._function(node.function)
        if kind == "bare_concrete_function":
            made = self._functions[node.bare_concrete_function.concrete_function_name]
            made._arg_names = list(node.bare_concrete_function.argument_keywords)
            return made
        if kind == "constant":
            return self._constant(node.constant.operation)
        if kind == "resource":
            return RestoredResource()
        if kind == "captured_tensor":
            raise errors.UnimplementedError(None, None, "SavedModels with tensors captured from functions cannot be loaded")
        return AutoTrackable()

    def _function(self, saved: Any) -> Any:
        spec = saved.function_spec
        concrete = [self._functions[n] for n in saved.concrete_functions if n in self._functions]
        name = concrete[0].graph_function.name.removeprefix("__inference_").rpartition("_")[0] if concrete else "function"
        return RestoredFunction(concrete, decode(spec.fullargspec), name or "function", decode(spec.input_signature),
                                {spec.ON: True, spec.OFF: False}.get(spec.jit_compile))

    def _constant(self, operation: str) -> Any:
        node = next((n for n in self._meta_graph.graph_def.node if n.name == operation), None)
        if node is None:
            raise errors.DataLossError(None, None, f"The SavedModel has no constant {operation}, which an object uses")
        return constant(make_ndarray(node.attr["value"].tensor), dtype=dtypes.as_dtype(node.attr["dtype"].type))

    def _connect(self) -> None:
        for number, saved in enumerate(self._proto.nodes):
            for child in saved.children:
                setter = self._setters.get(number, _set_child)
                setter(self._nodes[number], child.local_name, self._nodes[child.node_id])
        for number, saved in enumerate(self._proto.nodes):
            if saved.WhichOneof("kind") == "user_object" and saved.user_object.identifier == "trackable_tuple_wrapper":
                self._replace_tuple(number)

    def _replace_tuple(self, number: int) -> None:
        made = wrap(tuple(self._nodes[number]))
        for other, saved in enumerate(self._proto.nodes):
            for child in saved.children:
                if child.node_id == number:
                    _set_child(self._nodes[other], child.local_name, made)
        self._nodes[number] = made

    def _restore(self) -> None:
        path = variables_path(self._dir)
        if not paths.exists(path + ".index"):
            return
        status = TrackableSaver(ObjectGraphView(self._nodes[0])).restore(path)
        status.expect_partial()
        if context.executing_eagerly():
            return
        ops = {id(o): o for o in status._checkpoint.object_by_proto_id.values()}
        by_name = status._checkpoint.restore_ops_by_name
        for proto_id, obj in status._checkpoint.object_by_proto_id.items():
            if isinstance(obj, Variable) and id(obj) in ops:
                for a in status._checkpoint.object_graph_proto.nodes[proto_id].attributes:
                    obj._initializer_op = by_name.get(a.checkpoint_key, obj._initializer_op)
        self._fix_prefix(path)

    def _fix_prefix(self, path: str) -> None:
        """In graphs: restores read from this SavedModel when the variables are initialized."""
        for obj in self._nodes:
            if isinstance(obj, Variable) and obj._initializer_op is not None:
                _point_at(obj._initializer_op, path)

    def _initialize(self) -> None:
        for node in self._nodes:
            if isinstance(node, RestoredResource):
                node._initialize_resource()


def _point_at(op: Any, path: str) -> None:
    """Makes the RestoreV2 before an op read from `path`: its prefix becomes a constant."""
    todo, seen = [op], set()
    while todo:
        op = todo.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "RestoreV2" and constant_value(op.inputs[0]) is not None:
            with op.graph.as_default():
                op._update_input(0, constant(path))
            continue
        todo.extend(t.op for t in op.inputs)


def _user_object(saved: Any) -> Any:
    if saved.identifier == EmbeddingVariable.SAVED_AS:
        return described_table(saved.metadata)
    if saved.identifier in ("trackable_list_wrapper", "trackable_tuple_wrapper"):
        return ListWrapper([])
    if saved.identifier == "trackable_dict_wrapper":
        return DictWrapper({})
    if saved.identifier == "signature_map":
        return SignatureMap()
    if saved.identifier == "optimizer":
        return RestoredOptimizer()
    return AutoTrackable()


def _variable(saved: Any) -> Any:
    """A variable of a SavedModel. Its value comes with the restore."""
    prefix, name = get_variable_scope().name, saved.name or "Variable"
    return empty_variable(dtypes.as_dtype(saved.dtype), TensorShape(saved.shape), saved.trainable,
                          f"{prefix}/{name}" if prefix else name,
                          synchronization=VariableSynchronization(saved.synchronization),
                          aggregation=VariableAggregation(saved.aggregation))


def empty_variable(dtype: Any, shape: Any, trainable: bool, name: str, **policy: Any) -> Any:
    """A variable whose value is not known yet: zeros of its shape, unknown dimensions empty."""
    dims = [0 if d is None else d for d in shape.as_list()] if shape.rank is not None else []

    def initial() -> Any:
        if dtype == dtypes.string:
            return get("Fill")(dims, "")
        return get("Cast")(get("Fill")(dims, 0), DstT=dtype) if dtype != dtypes.bool else get("Fill")(dims, False)
    made = ResourceVariable(initial_value=initial, shape=shape, dtype=dtype, trainable=False, name=name, **policy)
    made._trainable = trainable             # not in the collection of trainable variables: the caller decides what is trained
    return made


def _set_child(parent: Any, name: str, child: Any) -> None:
    if isinstance(parent, SignatureMap):
        parent._signatures[name] = child
    elif isinstance(parent, DictWrapper):
        parent[name] = child
    elif isinstance(parent, ListWrapper):
        if not name.isdigit():
            return
        index = int(name)
        while len(parent) <= index:
            parent._storage.append(None)
        parent._storage[index] = child
        if isinstance(child, Trackable):
            parent._track_trackable(child, name, overwrite=True)
        parent._snapshot = list(parent._storage)
    elif isinstance(parent, (Variable, RestoredFunction, RestoredConcreteFunction)) or parent is None:
        return
    elif isinstance(parent, Trackable):
        object.__setattr__(parent, name, child)
        if isinstance(child, Trackable):
            parent._track_trackable(child, name, overwrite=True)
        if name == "__call__" and isinstance(child, (RestoredFunction, RestoredConcreteFunction)):      # not itself
            _make_callable(parent, child)


def _make_callable(parent: Any, function: Any) -> None:
    """Gives an object a separate class, because Python looks up `__call__` in the class."""
    parent.__class__ = type(type(parent).__name__, (type(parent),), {"__call__": lambda self, *a, **k: function(*a, **k)})


