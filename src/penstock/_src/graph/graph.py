"""Graph: what the user built.

A Graph owns operations, names, collections and the stacks of the scopes that are open on it. Ops are added by
`build.apply`, which converts inputs and computes types and shapes and then calls `Graph.add`.
"""
from __future__ import annotations

import contextlib
import copy
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import html
from penstock._src.base.api import export
from penstock._src.base.near_names import near_names
from penstock._src.graph import context
from penstock._src.graph.build import create_from_parts
from penstock._src.graph.control_flow_context import check_input
from penstock._src.graph.graphdef import attr_from_message, graph_def, is_attr_message
from penstock._src.graph.node import Operation, Tensor, decode_frames, user_frames
from penstock._src.graph.scopes import VALID_OP_NAME, VALID_SCOPE_NAME, device_text
from penstock._src.kernels.devices.device_spec import merge_names

PRODUCER_VERSION = 134


class _Stacks:
    """The scopes that are open on a graph, for one thread."""

    def __init__(self) -> None:
        self.name = ""
        self.devices: tuple = ()            # outermost first; entries are text, callables or None
        self.control: list[_ControlScope] = []
        self.colocation: list[Any] = []     # ops; a None entry hides the outer ones
        self.colocated_at: dict[str, Location] = {}
        self.control_flow: Any = None
        self.attr_scope: dict[str, Any] = {}
        self.gradient_override: dict[str, str] = {}
        self.kernel_labels: dict[str, str] = {}
        self.container = ""
        self.original_op: Any = None
        self.variable_creators: tuple = ()  # outermost first

    def copied(self) -> _Stacks:
        """A copy for another thread."""
        new = copy.copy(self)
        new.control, new.colocation = list(self.control), list(self.colocation)
        new.attr_scope, new.gradient_override = dict(self.attr_scope), dict(self.gradient_override)
        return new


class Location:
    """A request, with the line of the user's program that made it."""

    __slots__ = ("obj", "_frames")

    def __init__(self, obj: Any):
        self.obj, self._frames = obj, user_frames()

    @property
    def _at(self) -> tuple:
        frames = [f for f in decode_frames(self._frames) if not f[0].endswith("contextlib.py")]
        return frames[-1] if frames else ("", 0, "", "")

    filename = property(lambda self: self._at[0], doc="The file.")
    lineno = property(lambda self: self._at[1], doc="The line.")


class DeviceScope(Location):
    """One open device block: what it requests, and where."""

    __slots__ = ("entry",)

    def __init__(self, entry: Any, given: Any = None):
        given = entry if given is None else given
        super().__init__(_function_text(given) if callable(given) else given)
        self.entry = entry

    def applied(self, op: Any) -> str:
        """The device of `op` after this block; a function of the op is called."""
        wanted = self.entry(op) if callable(self.entry) else self.entry
        return merge_names(device_text(wanted), op.device or "") if wanted else op.device


def _function_text(function: Any) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name}<{code.co_filename}, {code.co_firstlineno}>" if code is not None else name


class _ControlScope:
    """One open control_dependencies block: its ops, and the ops made inside it."""

    def __init__(self, graph: Graph, control_inputs: list[Operation] | None):
        self._graph, self._clear = graph, control_inputs is None
        self.ops = control_inputs or []
        self.inside: set[Operation] = set()

    def __enter__(self) -> None:
        s = self._graph._stacks
        if self._clear:
            self._saved = s.control, s.control_flow
            s.control, s.control_flow = [], None
        s.control.append(self)

    def __exit__(self, *exc: Any) -> None:
        s = self._graph._stacks
        s.control.remove(self)
        if self._clear:
            s.control, s.control_flow = self._saved


@export("Graph")
class Graph:
    """A dataflow graph.

    >>> graph = tf.Graph()
    >>> with graph.as_default():
    ...     c = tf.constant(30.0)
    >>> c.graph is graph
    True
    """

    _last_loss_reduction: Any        # of the loss that was added last (library/losses.py)
    symbolic = False        # whether ops on its tensors, called in eager mode, are added to it: the graph of Keras models
    tensor_class = Tensor   # of the results of its operations

    def __init__(self) -> None:
        self._building_function = False
        self._lock = threading.RLock()
        self._ops: list[Operation] = []
        self._by_name: dict[str, Operation] = {}
        self._names: dict[str, int] = {}
        self._local = threading.local()            # the scopes open on each thread
        self._local.stacks = self._first_stacks = _Stacks()
        self._collections: dict[Any, list] = {}
        self._finalized = False
        self._version = 0
        self._next_id = 0
        self._seed: int | None = None
        self._unfeedable: set[int] = set()
        self._unfetchable: set[Any] = set()
        self._functions: dict[str, Any] = {}
        self._producer, self._min_consumer = PRODUCER_VERSION, 0
        self._while_gradients: Any = None
        self.caches: dict[Any, Any] = {}          # data that other modules keep per graph

    @property
    def building_function(self) -> bool:
        """Whether this graph is the body of a function that is being traced."""
        return self._building_function

    # -- state -------------------------------------------------------------------------------------------
    @property
    def _stacks(self) -> _Stacks:
        try:
            return self._local.stacks
        except AttributeError:                     # a thread begins in the scopes that the graph's maker is in
            self._local.stacks = self._first_stacks.copied()
            return self._local.stacks

    def switch_to_thread_local(self) -> None:
        """Accepted for compatibility and ignored: every thread has its own scopes."""

    @property
    def version(self) -> int:
        """Grows with every op added."""
        return self._next_id

    def _version_changed(self) -> None:
        self._version += 1

    @property
    def seed(self) -> int | None:
        """The graph-level random seed."""
        return self._seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._seed = seed

    @property
    def finalized(self) -> bool:
        """Whether the graph is read-only."""
        return self._finalized

    def finalize(self) -> None:
        """Makes the graph read-only: adding an op raises RuntimeError."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    @property
    def graph_def_versions(self) -> Any:
        """The VersionDef of the graph."""
        from tensorboard.compat.proto.versions_pb2 import VersionDef
        return VersionDef(producer=self._producer, min_consumer=self._min_consumer)

    def as_default(self) -> Any:
        """A context manager that makes this graph the default one of the thread."""
        return context.enter(self)

    # -- ops ----------------------------------------------------------------------------------------------
    def add(self, opdef: Any, name: str, inputs: list[Tensor], attrs: dict[str, Any], output_types: list,
            counts: tuple = (), control_inputs: Any = None, device_and_scopes: bool = True,
            infer: Callable[[Operation], None] | None = None) -> Operation:
        """Adds one operation under the final name `name`. `infer` sets its shapes (see build.py), before device functions."""
        if self._finalized:
            self._check_not_finalized()
        op = Operation(self, opdef, name, inputs, attrs, output_types, counts)
        op.frames = user_frames()
        with self._lock:
            if name in self._by_name:
                raise ValueError(f"Duplicate op name '{name}' in graph.")
            self._next_id += 1
            op.number = self._next_id
            self._ops.append(op)
            self._by_name[name] = op
        if device_and_scopes:
            self._apply_scopes(op, control_inputs)
        if infer is not None:
            infer(op)
        if device_and_scopes and self._stacks.devices:
            self._apply_devices(self._stacks, op)
        return op

    def _apply_scopes(self, op: Operation, control_inputs: Any) -> None:
        s = self._stacks
        control = list(control_inputs) if control_inputs else []
        if s.control:
            control += self._scope_dependencies(s, op)
        for c in control:
            if c not in op._control_inputs:
                op._control_inputs.append(c)
                c._control_outputs.append(op)
        op._original_op = s.original_op
        if s.attr_scope:
            op._extra.update({k: v for k, v in s.attr_scope.items() if k not in op._extra})
        if s.gradient_override and op.type in s.gradient_override:
            op._extra["_gradient_op_type"] = s.gradient_override[op.type]
        if s.kernel_labels and op.type in s.kernel_labels:
            op._extra["_kernel"] = s.kernel_labels[op.type]
        if s.container and op.opdef.stateful and "container" in op.attrs and not op.attrs["container"]:
            op.attrs["container"] = s.container
        if s.control_flow is not None:
            op._control_flow_context = s.control_flow
        for t in op.inputs:
            if t.op._control_flow_context is not None and t.op._control_flow_context is not s.control_flow:
                check_input(op, t.op)
        if s.control_flow is not None:
            s.control_flow.AddOp(op)
        for scope in s.control:
            scope.inside.add(op)
        if s.colocation:
            self._apply_colocation(s, op)

    def _scope_dependencies(self, s: _Stacks, op: Operation) -> list[Operation]:
        """Open control dependencies, less those that an input already waits for."""
        out: list[Operation] = []
        producers = {t.op for t in op.inputs}
        for scope in s.control:
            if producers.isdisjoint(scope.inside):
                out.extend(c for c in scope.ops if c not in producers or c not in out)
        return [c for c in dict.fromkeys(out) if c not in producers] if out else out

    def _apply_colocation(self, s: _Stacks, op: Operation) -> None:
        classes: list[str] = []
        for other in reversed(s.colocation):
            if other is None:
                break
            classes.extend(c.decode() for c in other.colocation_groups())
            if other.device:
                op.device = other.device
            op._colocation_dict = {**op._colocation_dict, other.name: s.colocated_at[other.name]}
        if classes:
            mine = [c.decode() for c in op.colocation_groups() if op._extra.get("_class")]
            op._extra["_class"] = sorted(set(classes) | set(mine))

    def _apply_devices(self, s: _Stacks, op: Operation) -> None:
        """Inner scopes override outer ones field by field; device functions are called in order."""
        for scope in reversed(s.devices):
            if scope.entry is None:
                break
            op._device_assignments = [*op._device_assignments, scope]
            op.device = scope.applied(op)

    def _apply_device_functions(self, op: Any) -> None:
        """Sets the device of the open scopes on an object that stands for an op; libraries read the current device this way."""
        for scope in reversed(self._stacks.devices):
            if scope.entry is None:
                break
            op._set_device_from_string(scope.applied(op))

    def create_op(self, op_type: str, inputs: Any, dtypes: Any = None, input_types: Any = None,
                  name: str | None = None, attrs: Any = None, op_def: Any = None, compute_shapes: bool = True,
                  compute_device: bool = True) -> Operation:
        """Adds an operation from its parts; ops are usually made by calling their functions."""
        self._check_not_finalized()
        return create_from_parts(self, op_type, list(inputs), dtypes, name, dict(attrs or {}))

    def _repr_html_(self) -> str:
        rows = [[op.name, op.type, op.device, ", ".join(f"{t.dtype.name}{t.shape}" for t in op.outputs)] for op in self._ops]
        return html.table(f"Graph of {len(rows)} operations", ["name", "type", "device", "outputs"], rows)

    def get_operations(self) -> list[Operation]:
        """All operations, in the order in which they were created."""
        return list(self._ops)

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation called `name`; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"The name of an operation must be a string, not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False, allow_operation=True)

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor called `name` ("op:0"); KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=True, allow_operation=False)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The tensor or operation for `obj`: a graph element, a name, or an object that represents one."""
        if not allow_tensor and not allow_operation:
            raise ValueError("At least one of allow_tensor and allow_operation must be True.")
        kinds = " or ".join(k for k, ok in (("Tensor", allow_tensor), ("Operation", allow_operation)) if ok)
        convert = getattr(obj, "_as_graph_element", None)
        obj = convert() if convert is not None else obj
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation)
        if isinstance(obj, Tensor) and allow_tensor or isinstance(obj, Operation) and allow_operation:
            if getattr(obj, "graph", None) is not self:
                made = getattr(getattr(obj, "op", obj), "made_note", "")
                raise ValueError(f"{type(obj).__name__} {obj} is not an element of this graph. It was created in another graph"
                                 f"{made}; a session runs the graph that was current, or passed to it, when it was created.")
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds}.")

    def _element_by_name(self, name: str, allow_tensor: bool, allow_operation: bool) -> Any:
        if ":" in name and allow_tensor:
            m = re.fullmatch(r"(.*):(\d+)", name, re.S)
            if m is None:
                raise ValueError(f"The name {name!r} looks a like a Tensor name, but is not a valid one. Tensor names "
                                 'must be of the form "<op_name>:<output_index>".')
            op = self._by_name.get(m.group(1))
            if op is None:
                raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                               f"{m.group(1)!r}, does not exist in the graph.{self._near(m.group(1))}")
            index = int(m.group(2))
            if index >= len(op.outputs):
                raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                               f"{op.name!r}, exists but only has {len(op.outputs)} outputs.")
            return op.outputs[index]
        if ":" in name:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")
        if allow_operation:
            if name not in self._by_name:
                raise KeyError(f"The name {name!r} refers to an Operation not in the graph.{self._near(name)}")
            return self._by_name[name]
        if name in self._by_name:
            raise ValueError(f"The name {name!r} refers to an Operation, not a Tensor. Tensor names must be of the form "
                             '"<op_name>:<output_index>".')
        raise ValueError(f"The name {name!r} looks like an (invalid) Operation name, not a Tensor. Tensor names must be "
                         'of the form "<op_name>:<output_index>".')

    def _near(self, name: str) -> str:
        near = near_names(name, self._by_name, cutoff=0.6)
        return f" Did you mean {', '.join(map(repr, near))}?" if near else ""

    def _get_operation_by_tf_operation(self, op: Any) -> Operation:
        return op

    # -- names ---------------------------------------------------------------------------------------------
    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` under the open scope, with _1, _2 … appended when it is taken (whatever the case)."""
        scope = self._stacks.name
        if scope:
            name = f"{scope}/{name}"
        key = name.lower()
        names = self._names
        with self._lock:
            i = names.get(key, 0)
            if mark_as_used:
                names[key] = i + 1
            if i == 0:
                return name
            base = key
            while key in names:
                key = f"{base}_{i}"
                i += 1
            if mark_as_used:
                names[base] = i
                names[key] = 1
            return f"{name}_{i - 1}"

    def is_name_used(self, name: str) -> bool:
        """Whether an op or a scope has this name."""
        return name.lower() in self._names

    def get_name_scope(self) -> str:
        """The name of the open scope."""
        return self._stacks.name

    @property
    def _name_stack(self) -> str:
        return self._stacks.name

    @property
    def _container(self) -> str:
        return self._stacks.container

    @property
    def _variable_creator_stack(self) -> tuple:
        return self._stacks.variable_creators

    @_variable_creator_stack.setter
    def _variable_creator_stack(self, creators: tuple) -> None:
        self._stacks.variable_creators = tuple(creators)

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefixes the names of ops; a name ending in "/" is taken as it is, None or "" goes back to the root."""
        s = self._stacks
        old = s.name
        if name:
            if isinstance(name, (bytes, Tensor)) or not isinstance(name, str):
                raise TypeError(f"name for name_scope must be a string, not {name!r}.")
            if not (VALID_SCOPE_NAME if old else VALID_OP_NAME).match(name):
                raise ValueError(f"'{name}' is not a valid scope name: letters, digits and _ . / > - are allowed, and the "
                                 "first character of an outermost scope is a letter, a digit or a dot.")
        if not name:
            new = ""
        elif name[-1] == "/":
            new = name[:-1]
        else:
            new = self.unique_name(name)
        s.name = new
        try:
            yield new + "/" if new else ""
        finally:
            s.name = old

    # -- other scopes ----------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Puts ops made inside on a device: text, a DeviceSpec, a function of the op, or None."""
        s = self._stacks
        old = s.devices
        entry = device_name_or_function
        if entry is not None and not callable(entry):
            entry = device_text(entry)
        scope = DeviceScope(entry, device_name_or_function)
        s.devices = (*old, scope)
        try:
            yield
        finally:
            if not s.devices or s.devices[-1] is not scope:
                raise RuntimeError("Exiting device scope without proper scope nesting.")
            s.devices = old

    def control_dependencies(self, control_inputs: Any) -> Any:
        """Makes ops made inside run after `control_inputs` (ops, tensors, variables); None clears."""
        if control_inputs is None:
            return _ControlScope(self, None)
        ops: list[Operation] = []
        for c in control_inputs:
            c = waited_for(c)
            if c is None:
                continue
            element = self.as_graph_element(self._reachable(c))
            op = element.op if isinstance(element, Tensor) else element
            if op not in ops:
                ops.append(op)
        return _ControlScope(self, ops)

    def _reachable(self, element: Any) -> Any:
        """A hook for function graphs, which may capture what a control dependency names."""
        return element

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Puts ops made inside on the device of `op`. With None and ignore_existing, clears outer colocations and devices."""
        s = self._stacks
        if op is None and not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not True")
        if op is not None:
            op = _to_op(op)
        old_colocation, old_devices, old_places = list(s.colocation), s.devices, s.colocated_at
        if op is not None:
            s.colocated_at = {**s.colocated_at, op.name: Location(None)}
        if ignore_existing:
            s.colocation = [op] if op is not None else [None]
        else:
            s.colocation.append(op)
        s.devices = ()
        try:
            yield
        finally:
            s.colocation, s.devices, s.colocated_at = old_colocation, old_devices, old_places

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Puts stateful ops made inside into the named resource container."""
        s = self._stacks
        old, s.container = s.container, container_name
        try:
            yield container_name
        finally:
            s.container = old

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Uses other gradient functions for some op types, for ops made inside.

        >>> with g.gradient_override_map({"Square": "MySquare"}): ...
        """
        if not isinstance(op_type_map, dict):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        for k, v in op_type_map.items():
            if not isinstance(k, str) or not isinstance(v, str):
                raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        s = self._stacks
        old, s.gradient_override = s.gradient_override, {**s.gradient_override, **op_type_map}
        try:
            yield
        finally:
            s.gradient_override = old

    @contextlib.contextmanager
    def _kernel_label_map(self, op_to_kernel_label_map: dict[str, str]) -> Iterator[None]:
        """Sets kernel labels on ops of some types made inside."""
        if not isinstance(op_to_kernel_label_map, dict):
            raise TypeError("op_to_kernel_label_map must be a dictionary mapping strings to strings")
        s = self._stacks
        old, s.kernel_labels = s.kernel_labels, {**s.kernel_labels, **op_to_kernel_label_map}
        try:
            yield
        finally:
            s.kernel_labels = old

    @contextlib.contextmanager
    def _attr_scope(self, attr_map: dict[str, Any]) -> Iterator[None]:
        """Adds attributes to the ops made inside."""
        if not isinstance(attr_map, dict):
            raise TypeError("attr_map must be a dictionary mapping strings to Callables that return AttrValue protocol "
                            "buffers")
        s = self._stacks
        old, new = s.attr_scope, dict(s.attr_scope)
        for k, v in attr_map.items():
            if v is None:
                new.pop(k, None)
            else:
                new[k] = attr_from_message(v, None, self) if is_attr_message(v) else v
        s.attr_scope = new
        try:
            yield
        finally:
            s.attr_scope = old

    @contextlib.contextmanager
    def _original_op(self, op: Operation) -> Iterator[None]:
        """Marks the ops made inside as derived from `op`, for error reports."""
        s = self._stacks
        old, s.original_op = s.original_op, op
        try:
            yield
        finally:
            s.original_op = old

    def _get_control_flow_context(self) -> Any:
        return self._stacks.control_flow

    def _set_control_flow_context(self, ctx: Any) -> None:
        self._stacks.control_flow = ctx

    # -- collections ---------------------------------------------------------------------------------------
    @property
    def collections(self) -> list:
        """The names of the collections."""
        return list(self._collections)

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Appends `value` to the collection `name`."""
        self._check_not_finalized()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Appends `value` to each of the collections `names`."""
        names = (names,) if isinstance(names, str) else dict.fromkeys(names)
        for name in names:
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list:
        """The collection itself: changing it changes the graph's."""
        return self._collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list:
        """A copy of a collection; with `scope`, the items whose name matches from the start."""
        items = self._collections.get(name, [])
        if scope is None:
            return list(items)
        pattern = re.compile(scope)
        return [i for i in items if hasattr(i, "name") and i.name is not None and pattern.match(i.name)]

    def get_all_collection_keys(self) -> list:
        """The names of the collections that are text."""
        return [k for k in self._collections if isinstance(k, str)]

    def clear_collection(self, name: Any) -> None:
        """Empties a collection."""
        self._check_not_finalized()
        self._collections.pop(name, None)

    # -- feeds and fetches -----------------------------------------------------------------------------------
    def prevent_feeding(self, tensor: Tensor) -> None:
        """Marks a tensor as not feedable."""
        self._unfeedable.add(id(tensor))

    def is_feedable(self, tensor: Tensor) -> bool:
        """Whether a tensor may be fed."""
        return id(tensor) not in self._unfeedable

    def prevent_fetching(self, op: Operation) -> None:
        """Marks an operation as not fetchable."""
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Whether a tensor or operation may be fetched."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable

    # -- messages and functions --------------------------------------------------------------------------------
    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False, use_pybind11_proto: bool = False) -> Any:
        """The graph as a GraphDef message.

        Args:
            from_version: Only nodes that were added after this version of the graph.
            add_shapes: Whether each node has an attribute with the shapes of its outputs.
            use_pybind11_proto: Accepted and unused: there is one kind of message.
        """
        return graph_def(self, from_version, add_shapes)

    def _add_function(self, function: Any) -> None:
        """Adds a function to the graph's library."""
        self._check_not_finalized()
        self._functions[function.name] = function
        self._version_changed()

    def _get_function(self, name: str) -> Any:
        return self._functions.get(name.decode() if isinstance(name, bytes) else name)

    def _is_function(self, name: str) -> bool:
        return self._get_function(name) is not None

    def capture(self, tensor: Any, name: str | None = None) -> Tensor:
        """The representation of another graph's tensor in this graph: only function graphs can capture one."""
        if not hasattr(tensor, "graph") or getattr(tensor, "_value", None) is not None:
            raise RuntimeError("Attempting to capture an EagerTensor without building a function.")
        raise ValueError(f"Tensor {tensor} must be from the same graph as the op that uses it ({tensor.graph} is not "
                         f"{self}).")

    def __enter__(self) -> Graph:
        self._default_stack = getattr(self, "_default_stack", [])
        cm = self.as_default()
        self._default_stack.append(cm)
        return cm.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._default_stack.pop().__exit__(*exc)


def waited_for(control_input: Any) -> Any:
    """The op that a control dependency waits for; for an updated variable the update, without a read. None if there is none."""
    c = control_input
    if not isinstance(c, Tensor) and isinstance(getattr(c, "handle", None), Tensor):
        return getattr(c, "op", None)                 # an eager variable has no op
    if hasattr(c, "indices") and isinstance(getattr(c, "values", None), Tensor):
        return c.op
    return c


def _to_op(obj: Any) -> Operation:
    """The operation that something represents."""
    if isinstance(obj, Operation):
        return obj
    if isinstance(obj, Tensor):
        return obj.op
    convert: Callable | None = getattr(obj, "_as_graph_element", None)
    if convert is not None:
        return _to_op(convert())
    return obj.op
