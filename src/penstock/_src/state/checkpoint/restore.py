"""Restoring object-based checkpoints to objects, including objects that are created later.

A restore traverses the stored graph and the objects in parallel. `CheckpointPosition` is a node of the stored graph; `_Restore`
is one restore, with the matches so far. The statuses report the result, and run the ops in graphs.
"""
from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.context import get_default_session
from penstock._src.graph.scopes import device, init_scope
from penstock._src.graph.trackable import VARIABLE_VALUE_KEY
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.session.session import Session
from penstock._src.state.checkpoint.object_graph import PythonStateSaveable
from penstock._src.state.checkpoint.reader import CheckpointReader
from penstock._src.state.checkpoint.saveable import (
    op_list_to_dict,
    saveable_objects_for_op,
    saved_values,
    validate_and_slice_inputs,
)
from penstock._src.state.containers import TrackableDataStructure

_OPTIONAL = ("OBJECT_CONFIG_JSON",)       # older checkpoints store it with each layer; it is never restored
_numbers = itertools.count()


def next_restore() -> int:
    """The number of a new restore: larger than those before."""
    return next(_numbers)


class _Slot(NamedTuple):
    """A slot that waits for its variable or its optimizer."""
    owner: Any                   # the optimizer's node, then the variable
    slot_variable_id: int
    slot_name: str


def _has_slots(optimizer: Any) -> bool:
    """Whether an object with saved slots can create slots; not every loaded optimizer can."""
    return hasattr(optimizer, "_create_or_restore_slot_variable")


class CheckpointPosition:
    """A node of the object graph in a checkpoint."""

    def __init__(self, checkpoint: Any, proto_id: int):
        self.checkpoint, self._proto_id = checkpoint, proto_id

    object_proto = property(lambda self: self.checkpoint.object_graph_proto.nodes[self._proto_id])
    trackable = property(lambda self: self.checkpoint.object_by_proto_id[self._proto_id])
    restore_uid = property(lambda self: self.checkpoint.restore_uid)

    def at(self, proto_id: int) -> CheckpointPosition:
        """Another node of the same restore."""
        return CheckpointPosition(self.checkpoint, proto_id)

    def restore(self, trackable: Any) -> None:
        """Restores an object and its dependencies from this node."""
        with init_scope():
            if self.bind_object(trackable):
                ops = trackable._restore_from_checkpoint_position(self)
                if ops:
                    self.checkpoint.new_restore_ops(ops)

    def bind_object(self, trackable: Any) -> bool:
        """Binds an object to this node; returns whether the binding is new."""
        checkpoint, number = self.checkpoint, self._proto_id
        checkpoint.all_python_objects[id(trackable)] = trackable
        current = checkpoint.object_by_proto_id.get(number)
        checkpoint.matched_proto_ids.add(number)
        if current is not None:
            if current is not trackable:
                logging.warning("Inconsistent references when loading the checkpoint into this object graph. Either the "
                                "Trackable object references in the Python program have changed in an incompatible way, or the "
                                "checkpoint was generated in an incompatible program.\n\nTwo checkpoint references resolved to "
                                "different objects (%s and %s).", current, trackable)
            return False
        checkpoint.object_by_proto_id[number] = trackable
        for slot in checkpoint.deferred_slot_restorations.pop(number, ()) if _has_slots(trackable) else ():
            trackable._create_or_restore_slot_variable(slot_variable_position=self.at(slot.slot_variable_id),
                                                       variable=slot.owner, slot_name=slot.slot_name)
        for slot in checkpoint.slot_restorations.pop(number, ()):
            optimizer = checkpoint.object_by_proto_id.get(slot.owner)
            if optimizer is None:
                checkpoint.deferred_slot_restorations.setdefault(slot.owner, []).append(slot._replace(owner=trackable))
            elif _has_slots(optimizer):
                optimizer._create_or_restore_slot_variable(slot_variable_position=self.at(slot.slot_variable_id),
                                                           variable=trackable, slot_name=slot.slot_name)
        return True

    def is_simple_variable(self) -> bool:
        """Whether this node has only the value of a variable."""
        attributes = self.object_proto.attributes
        return len(attributes) == 1 and attributes[0].name == VARIABLE_VALUE_KEY and not self.object_proto.children

    def value_tensors(self) -> dict[str, Any]:
        """The values of this node, as tensors, by attribute."""
        found = {}
        for a in self.object_proto.attributes:
            dtype = self.checkpoint.dtype_map[a.checkpoint_key].base_dtype
            with init_scope(), device("/cpu:0"):
                value, = get("RestoreV2")(self.checkpoint.save_path_tensor, [a.checkpoint_key], [""], [dtype],
                                          name=f"{a.name}_checkpoint_read")
                found[a.name] = identity(value)
        return found

    def gather_ops_or_named_saveables(self) -> tuple[list, dict[str, Any], list]:
        """For the values of this node: existing restore ops, saveables by key, and saveables of Python state."""
        factories = saved_values(self.trackable, self.checkpoint.saveables_cache)
        existing, named, python = [], {}, []
        for a in self.object_proto.attributes:
            op = None if context.executing_eagerly() else self.checkpoint.restore_ops_by_name.get(a.checkpoint_key)
            if op is not None:
                existing.append(op)
                continue
            saveable = self._saveable(factories, a)
            if saveable is None:
                continue
            if isinstance(saveable, PythonStateSaveable):
                python.append(saveable)
            else:
                named[a.checkpoint_key] = saveable
        return existing, named, python

    def _saveable(self, factories: dict[str, Any], a: Any) -> Any:
        cache = self.checkpoint.saveables_cache
        kept = None if cache is None else cache.setdefault(id(self.trackable), (self.trackable, {}))[1]
        if kept is not None and len(kept.get(a.name, ())) == 1 and a.checkpoint_key in kept[a.name][0].name:
            return kept[a.name][0]
        factory = factories.get(a.name)
        if factory is None:
            if a.name not in _OPTIONAL:
                self.checkpoint.unused_attributes.setdefault(self._proto_id, []).append(a.name)
            return None
        made = factory(name=a.checkpoint_key) if callable(factory) else factory
        if kept is not None and hasattr(made, "specs"):
            kept[a.name] = (made,)
        return made

    def restore_ops(self) -> list:
        """Restores the values of this node; in graphs, returns the ops that do it."""
        ops, named, python = self.gather_ops_or_named_saveables()
        return [*ops, *self.checkpoint.restore_saveables(named, python)]


class _Unmatched:
    """Warns, when a restore is garbage-collected, of values in the checkpoint that were not restored."""

    def __init__(self, restore: Any):
        self.expect_partial = False
        self._graph, self._matched, self._unused = restore.object_graph_proto, restore.matched_proto_ids, \
            restore.unused_attributes

    def __del__(self) -> None:
        if self.expect_partial:
            return
        names = node_names(self._graph)
        missing = [i for i in range(len(self._graph.nodes)) if i not in self._matched]
        for i in missing:
            logging.warning("Unresolved object in checkpoint: %s", names.get(i, i))
        for i, attributes in self._unused.items():
            logging.warning("Unused attribute in object %s: %s", names.get(i, i), attributes)
        if missing or self._unused:
            logging.warning("A checkpoint was restored (e.g. tf.train.Checkpoint.restore or tf.keras.Model.load_weights) but "
                            "not all checkpointed values were used. See above for specific issues. Use expect_partial() on the "
                            "load status object, e.g. tf.train.Checkpoint.restore(...).expect_partial(), to silence these "
                            "warnings, or use assert_consumed() to make the check explicit.")


def node_names(graph: Any) -> dict[int, str]:
    """For each node of an object graph, a name for messages: the path from the root."""
    names, queue = {0: "(root)"}, [0]
    for number in queue:
        for child in graph.nodes[number].children:
            if child.node_id not in names:
                names[child.node_id] = f"{names[number]}.{child.local_name}"
                queue.append(child.node_id)
    for number, node in enumerate(graph.nodes):
        for slot in node.slot_variables:
            names[slot.slot_variable_node_id] = (f"{names.get(number)}'s state '{slot.slot_name}' for "
                                                 f"{names.get(slot.original_variable_node_id)}")
    return names


class _Objects:
    """Objects by key, with weak references where possible (not for tuples)."""

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}

    def __setitem__(self, key: Any, value: Any) -> None:
        try:
            self._held[key] = weakref.ref(value)
        except TypeError:
            self._held[key] = lambda: value

    def get(self, key: Any) -> Any:
        """The object, or None."""
        found = self._held.get(key)
        return None if found is None else found()

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def items(self) -> list:
        """Keys and the objects that still exist."""
        return [(k, v) for k, ref in list(self._held.items()) if (v := ref()) is not None]

    def values(self) -> list:
        """The objects that still exist."""
        return [v for _, v in self.items()]

    def __len__(self) -> int:
        return len(self.items())


class Restore:
    """One restore of a checkpoint of objects."""

    def __init__(self, object_graph_proto: Any, save_path: str, save_path_tensor: Any, restore_op_cache: dict,
                 saveables_cache: dict | None):
        self.object_graph_proto, self.restore_uid = object_graph_proto, next_restore()
        self.unused_attributes: dict[int, list] = {}
        self.object_by_proto_id = _Objects()
        self.matched_proto_ids: set[int] = set()
        self.all_python_objects = _Objects()               # by id
        self.save_path, self.save_path_tensor = save_path, save_path_tensor
        self._reader = CheckpointReader(save_path)
        self.dtype_map = self._reader.get_variable_to_dtype_map()
        self.restore_ops: list = []
        self.restore_ops_by_name, self.saveables_cache = restore_op_cache, saveables_cache
        self.new_restore_ops_callback: Any = None
        self.deferred_slot_restorations: dict[int, list] = {}
        self.slot_restorations: dict[int, list] = {}
        for number, node in enumerate(object_graph_proto.nodes):
            for s in node.slot_variables:
                self.slot_restorations.setdefault(s.original_variable_node_id, []).append(
                    _Slot(number, s.slot_variable_node_id, s.slot_name))
        self._unmatched = _Unmatched(self)

    @property
    def expect_partial(self) -> bool:
        """Whether the checkpoint may be used partially."""
        return self._unmatched.expect_partial

    @expect_partial.setter
    def expect_partial(self, value: bool) -> None:
        self._unmatched.expect_partial = value

    def new_restore_ops(self, ops: list) -> None:
        """Registers ops of a restore on creation."""
        self.restore_ops.extend(ops)
        if self.new_restore_ops_callback is not None:
            self.new_restore_ops_callback(ops)

    def restore_saveables(self, tensor_saveables: dict[str, Any], python_saveables: list) -> list:
        """Restores values: at once in eager mode, else by ops, which are returned."""
        for s in python_saveables:
            s.python_restore([self._reader.get_tensor(spec.name) for spec in s.specs])
        if not tensor_saveables:
            return []
        saveables = validate_and_slice_inputs(tensor_saveables)
        ops, at = [], 0
        for s in (s for s in saveables if hasattr(s, "restore_from")):
            op = s.restore_from(self.save_path_tensor)
            if not context.executing_eagerly():
                ops.append(op)
                self.restore_ops_by_name[s.name] = op
        saveables = [s for s in saveables if not hasattr(s, "restore_from")]
        specs = [spec for s in saveables for spec in s.specs]
        if not specs:
            return ops
        with device("cpu:0"):
            tensors = get("RestoreV2")(self.save_path_tensor, [s.name for s in specs], [s.slice_spec for s in specs],
                                       [s.dtype.base_dtype for s in specs])
        for s in saveables:
            op = s.restore(tensors[at:at + len(s.specs)], None)
            at += len(s.specs)
            if not context.executing_eagerly():
                ops.append(op)
                self.restore_ops_by_name[s.name] = op
        return ops


class NameBasedRestore:
    """A restore from a name-based checkpoint: variables are found by their names."""

    def __init__(self, save_path: str, dtype_map: Any = None):
        self.save_path, self.dtype_map, self.restore_uid = save_path, dtype_map, next_restore()
        self.unused_attributes: dict[int, tuple[Any, list]] = {}

    def _unused(self, trackable: Any, name: str) -> None:
        self.unused_attributes.setdefault(id(trackable), (trackable, []))[1].append(name)

    def globally_named_object_attributes(self, trackable: Any) -> Any:
        """The saveables of an object, under the names of its variables."""
        for name, factory in saved_values(trackable).items():
            saveable = factory
            if callable(factory):
                try:
                    saveable = factory()
                except TypeError:                # it needs a name: it has no state under a global one
                    if not factory("").optional_restore:
                        self._unused(trackable, name)
                    continue
            for key, op in op_list_to_dict([saveable], convert_variable_to_tensor=False).items():
                yield from saveable_objects_for_op(op, key)

    def eager_restore(self, trackable: Any) -> None:
        """Restores an object's values at once."""
        for s in self.globally_named_object_attributes(trackable):
            if all(spec.name in self.dtype_map for spec in s.specs):
                s.restore(get("RestoreV2")(self.save_path, [spec.name for spec in s.specs], [""] * len(s.specs),
                                           [self.dtype_map[spec.name] for spec in s.specs]), None)
            else:
                self._unused(trackable, s.name)


# -- statuses --------------------------------------------------------------------------------------------------------
_provider: Callable[[], Any] | None = None
_own_sessions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@export("__internal__.tracking.register_session_provider")
def register_session_provider(session_provider: Callable[[], Any]) -> None:
    """Registers the source of the session for user programs that create none: Keras trains in its own."""
    global _provider
    _provider = session_provider


def _session(session: Any) -> Any:
    """The session to save and restore in: the given one, the default one, that of Keras, or one of the graph."""
    found = session if session is not None else get_default_session()
    if found is None and _provider is not None:
        found = _provider()
    if found is None:
        graph = context.current_graph()
        found = _own_sessions.get(graph)
        if found is None:
            found = _own_sessions[graph] = Session(graph=graph)
    return found


class CheckpointLoadStatus:
    """The status of a restore from an object-based checkpoint."""

    def __init__(self, checkpoint: Restore, feed_dict: Any, graph_view: Any):
        self._checkpoint, self._feed_dict, self._graph_view = checkpoint, feed_dict, graph_view
        self._root = graph_view.root             # the status keeps the root alive

    def assert_consumed(self) -> CheckpointLoadStatus:
        """Raises AssertionError unless everything in the checkpoint was used, and every object got its value."""
        names = node_names(self._checkpoint.object_graph_proto)
        self.assert_existing_objects_matched()
        for i, node in enumerate(self._checkpoint.object_graph_proto.nodes):
            if node.attributes and self._checkpoint.object_by_proto_id.get(i) is None:
                raise AssertionError(f"Unresolved object in checkpoint {names.get(i)}: {node}")
        if self._checkpoint.slot_restorations:
            raise AssertionError(f"Unresolved slot restorations: {self._checkpoint.slot_restorations}")
        if self._checkpoint.unused_attributes:
            lines = [f"{names.get(i)} ({self._checkpoint.object_by_proto_id[i]}): {a}"
                     for i, a in self._checkpoint.unused_attributes.items()]
            raise AssertionError("Unused attributes in these objects (the attributes exist in the checkpoint but were not "
                                 "restored):\n" + "\n".join(lines))
        return self

    def _unbound(self) -> list:
        bound = {id(o) for o in self._checkpoint.object_by_proto_id.values()}
        return [o for o in self._checkpoint.all_python_objects.values()
                if id(o) not in bound and saved_values(o)]

    def assert_existing_objects_matched(self) -> CheckpointLoadStatus:
        """Raises AssertionError unless every existing object got its value."""
        for i, node in enumerate(self._checkpoint.object_graph_proto.nodes):
            obj = self._checkpoint.object_by_proto_id.get(i)
            if obj is not None and obj._update_uid < self._checkpoint.restore_uid:
                raise AssertionError(f"Object not assigned a value from checkpoint: {node}")
        for obj in self._graph_view.list_objects():
            if isinstance(obj, TrackableDataStructure) and not obj._checkpoint_dependencies:
                continue
            self._checkpoint.all_python_objects[id(obj)] = obj
        if self._unbound():
            raise AssertionError("Some Python objects were not bound to checkpointed values, likely due to changes in the "
                                 f"Python program: {self._unbound()}")
        return self

    def assert_nontrivial_match(self) -> CheckpointLoadStatus:
        """Raises AssertionError if only the root matched."""
        for obj in self._graph_view.list_objects():
            self._checkpoint.all_python_objects[id(obj)] = obj
        if len(self._checkpoint.object_by_proto_id) <= 1:
            if self._unbound():
                raise AssertionError("Nothing except the root object matched a checkpointed value. Typically this means that "
                                     "the checkpoint does not match the Python program. The following objects have no matching "
                                     f"checkpointed value: {self._unbound()}")
            raise AssertionError(f"Nothing to load. No dependencies have been added to {self._graph_view.root} yet.")
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Runs the restore, in graphs; in eager mode it is done."""
        if not context.executing_eagerly():
            _session(session).run(self._checkpoint.restore_ops, feed_dict=self._feed_dict)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Runs the restore, and initializes variables that are not in the checkpoint."""
        if context.executing_eagerly():
            return
        bound = {id(o) for o in self._checkpoint.object_by_proto_id.values()}
        initializers = [o.initializer for o in self._graph_view.list_objects()
                        if getattr(o, "initializer", None) is not None and id(o) not in bound
                        and getattr(o, "_self_update_uid", -1) < self._checkpoint.restore_uid]
        self.run_restore_ops(session)
        _session(session).run(initializers)

    def expect_partial(self) -> CheckpointLoadStatus:
        """Silences warnings about unused parts of the checkpoint."""
        self._checkpoint.expect_partial = True
        return self


class InitializationOnlyStatus:
    """The status of `restore(None)`: there is no checkpoint."""

    def __init__(self, graph_view: Any, restore_uid: int):
        self._graph_view, self._restore_uid, self._root = graph_view, restore_uid, graph_view.root

    def _nothing(self) -> Any:
        raise AssertionError("save_path is None: nothing was restored.")

    assert_consumed = assert_existing_objects_matched = assert_nontrivial_match = _nothing

    def run_restore_ops(self, session: Any = None) -> None:
        """Raises AssertionError: there is nothing to restore."""
        raise AssertionError("save_path is None, so there are no restore ops.")

    def initialize_or_restore(self, session: Any = None) -> None:
        """Runs the initializers."""
        if not context.executing_eagerly():
            _session(session).run([o.initializer for o in self._graph_view.list_objects()
                                   if getattr(o, "initializer", None) is not None
                                   and getattr(o, "_self_update_uid", -1) < self._restore_uid])

    def expect_partial(self) -> InitializationOnlyStatus:
        """Does nothing."""
        return self


class NameBasedSaverStatus:
    """The status of a restore from a name-based checkpoint."""

    def __init__(self, checkpoint: NameBasedRestore, graph_view: Any):
        self._checkpoint, self._graph_view, self._root = checkpoint, graph_view, graph_view.root
        logging.warning("Restoring a name-based tf.train.Saver checkpoint using the object-based restore API. This mode uses "
                        "global names to match variables, and so is somewhat fragile. Prefer re-encoding training checkpoints "
                        "in the object-based format: run save() on the object-based saver.")

    def assert_consumed(self) -> NameBasedSaverStatus:
        """Raises AssertionError unless every object got its values."""
        unused = self._checkpoint.unused_attributes
        if unused:
            raise AssertionError("Attributes of some objects were not restored:"
                                 + "".join(f"\n    {o}: {a}" for o, a in unused.values()))
        for obj in self._graph_view.list_objects():
            obj._maybe_initialize_trackable()
            if obj._update_uid < self._checkpoint.restore_uid:
                raise AssertionError(f"Object not restored: {obj}")
        return self

    assert_existing_objects_matched = assert_nontrivial_match = assert_consumed

    def run_restore_ops(self, session: Any = None) -> None:
        """Runs the restore, in graphs; in eager mode variables are restored on creation."""
        if context.executing_eagerly():
            return
        from penstock._src.state.checkpoint.saver import Saver
        saveables = []
        for obj in self._graph_view.list_objects():
            obj._maybe_initialize_trackable()
            if obj._update_uid < self._checkpoint.restore_uid:
                obj._update_uid = self._checkpoint.restore_uid
                saveables.extend(self._checkpoint.globally_named_object_attributes(obj))
        with device("/cpu:0"):
            Saver(saveables).restore(sess=_session(session), save_path=self._checkpoint.save_path)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Runs the restore."""
        self.run_restore_ops(session)

    def expect_partial(self) -> NameBasedSaverStatus:
        """Does nothing."""
        return self
