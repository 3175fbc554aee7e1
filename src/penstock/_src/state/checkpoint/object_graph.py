"""The contents of an object-based checkpoint: the TrackableObjectGraph, and the saveables of each object.

The key of a value is the path to its object, `model/layer/kernel/.ATTRIBUTES/VARIABLE_VALUE`. Slots of optimizers are stored
beside the variable that they belong to, `model/layer/kernel/.OPTIMIZER_SLOT/optimizer/m/…`.
"""
from __future__ import annotations

import copy
import weakref
from collections import deque
from typing import Any

from tensorboard.compat.proto.trackable_object_graph_pb2 import TrackableObjectGraph

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph import context
from penstock._src.graph.convert import constant
from penstock._src.graph.scopes import device, init_scope
from penstock._src.graph.trackable import NotTrackable, Trackable, TrackableReference
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.saveable import (
    SaveableObject,
    SaveSpec,
    op_list_to_dict,
    saveable_objects_for_op,
    saved_values,
)
from penstock._src.state.containers import wrap

_ATTRIBUTES = ".ATTRIBUTES"
_SLOTS = ".OPTIMIZER_SLOT"


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")


class NoRestoreSaveable(SaveableObject):
    """A tensor that is saved and never restored."""

    def __init__(self, tensor: Any, name: str, dtype: Any = None, device: Any = None):
        super().__init__(tensor, [SaveSpec(tensor, "", name, dtype=dtype, device=device)], name)

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Does nothing."""
        return None if context.executing_eagerly() else get("NoOp")()


class PythonStateSaveable(SaveableObject):
    """Python state that is saved as a string: read when a save begins, written when a restore does."""

    def feed_dict_additions(self) -> dict[Any, Any]:
        """Feeds for the ops that save it."""
        raise NotImplementedError

    def freeze(self) -> SaveableObject:
        """A saveable with the current state."""
        raise NotImplementedError


class PythonStringStateSaveable(PythonStateSaveable):
    """Saves what a function returns, and restores by calling another with it."""

    def __init__(self, name: str, state_callback: Any, restore_callback: Any = None):
        self._restore_callback, self._state_callback = restore_callback, state_callback
        with device("/cpu:0"):
            self._save_string = constant("", dtype=dtypes.string)
        super().__init__(self._save_string, [SaveSpec(self._save_string, "", name, dtype=dtypes.string)], name)

    @property
    def optional_restore(self) -> bool:
        """Optional: state that no object restores may be missing."""
        return self._restore_callback is None

    def _state(self) -> Any:
        with init_scope():
            return self._state_callback()

    def feed_dict_additions(self) -> dict[Any, Any]:
        """Feeds for the ops that save it."""
        return {self._save_string: self._state()}

    def freeze(self) -> SaveableObject:
        """A saveable with the current state."""
        return NoRestoreSaveable(lambda: constant(self._state(), dtype=dtypes.string), self.name, dtypes.string, "cpu:0")

    def python_restore(self, restored_strings: list) -> None:
        """Restores the state."""
        if self._restore_callback is not None:
            self._restore_callback(restored_strings[0])

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Does nothing: Python restores the state."""
        return None if context.executing_eagerly() else get("NoOp")()


def children(obj: Any, save_type: str, **kwargs: Any) -> dict[str, Any]:
    """The children of an object of a library's class, with lists and dictionaries in their tracking form."""
    return {n: wrap(c) for n, c in obj._trackable_children(save_type, **kwargs).items()}


class ObjectGraphView:
    """The objects reachable from a root."""

    skip_slots = False          # whether the slots of optimizers are left out

    def __init__(self, root: Any, cached: bool = False):
        self._root = root
        self.saveables_cache: Any = {} if cached else None       # id of an object -> attribute -> saveables

    def __deepcopy__(self, memo: dict) -> ObjectGraphView:
        """A view of the copied root, also where only a weak reference to it is held."""
        weak = isinstance(self._root, weakref.ref)
        made = memo[id(self)] = type(self)(None, cached=self.saveables_cache is not None)
        root = copy.deepcopy(self.root, memo)
        made._root, made.skip_slots = weakref.ref(root) if weak else root, self.skip_slots
        return made

    @property
    def root(self) -> Any:
        """The root object."""
        return self._root() if isinstance(self._root, weakref.ref) else self._root

    def list_dependencies(self, obj: Any) -> list:
        """The named dependencies of an object."""
        obj._maybe_initialize_trackable()
        if type(obj)._trackable_children is Trackable._trackable_children:
            return obj._checkpoint_dependencies
        named = children(obj, "checkpoint").items()
        return [TrackableReference(n, c) for n, c in named if not isinstance(c, (Function, ConcreteFunction))]   # no state

    def walk(self) -> tuple[list, dict[int, str]]:
        """The objects breadth first, and the path to each by id."""
        found, ways, queue = [], {id(self.root): ""}, deque([self.root])
        while queue:
            obj = queue.popleft()
            if isinstance(obj, NotTrackable):
                raise NotImplementedError(f"The object {obj} does not support object-based saving. Remove the dependency on it "
                                          "and save everything else.")
            found.append(obj)
            for name, ref in self.list_dependencies(obj):
                if id(ref) not in ways:
                    way = ways[id(obj)]
                    ways[id(ref)] = f"{way}/{_escaped(name)}" if way else _escaped(name)
                    queue.append(ref)
        return found, ways

    def ways(self) -> dict[int, str]:
        """The path to each object by id, including the slots of optimizers."""
        return self._described()[1]

    def list_objects(self) -> list:
        """All objects, slots of optimizers last."""
        return self._described()[0]

    def _described(self) -> tuple[list, dict[int, str], Any]:
        """The objects, the path to each, and their graph as a message."""
        objects, ways = self.walk()
        numbers = {id(o): i for i, o in enumerate(objects)}
        slots = {} if self.skip_slots else _slots(objects, numbers, ways)
        graph = TrackableObjectGraph()
        for obj in objects:
            node = graph.nodes.add()
            node.slot_variables.extend(slots.get(id(obj), ()))
            for name, ref in self.list_dependencies(obj):
                node.children.add(node_id=numbers[id(ref)], local_name=name)
        return objects, ways, graph

    def serialize_object_graph(self) -> tuple[list, Any, dict | None]:
        """The saveables of the objects, their graph as a message, and feeds for saving (if ops are cached)."""
        objects, ways, graph = self._described()
        saveables: list = []
        feeds: dict | None = None if self.saveables_cache is None else {}
        for obj, node in zip(objects, graph.nodes, strict=True):
            for name, factory in self.values_of(obj).items():
                way = ways[id(obj)]
                key = f"{way}/{_ATTRIBUTES}/{_escaped(name)}" if way else f"{_ATTRIBUTES}/{_escaped(name)}"
                made = self._made(obj, name, factory, key)
                attribute = node.attributes.add(name=name, checkpoint_key=key)
                for s in made:
                    attribute.full_name = getattr(s, "full_name", "")
                    saveables.append(self._frozen(s, feeds))
        return saveables, graph, feeds

    def values_of(self, obj: Any) -> dict[str, Any]:
        """What an object saves, by attribute."""
        return saved_values(obj, self.saveables_cache)

    @staticmethod
    def _frozen(saveable: Any, feeds: dict | None) -> Any:
        if isinstance(saveable, PythonStateSaveable):
            if feeds is None:
                return saveable.freeze()
            feeds.update(saveable.feed_dict_additions())
        return saveable

    def _made(self, obj: Any, name: str, factory: Any, key: str) -> tuple:
        """The saveables of an attribute; cached between saves in graph mode."""
        kept = None if self.saveables_cache is None else self.saveables_cache.setdefault(id(obj), (obj, {}))[1]
        if kept is not None and name in kept and all(key in s.name for s in kept[name]):
            return kept[name]
        given = factory(name=key) if callable(factory) and not isinstance(factory, SaveableObject) else factory
        if isinstance(given, SaveableObject):
            made: tuple = (given,)
        else:
            full_name, = op_list_to_dict([given], convert_variable_to_tensor=False)
            made = tuple(saveable_objects_for_op(given, key))
            for s in made:
                s.full_name = full_name
        for s in made:
            if key not in s.name:
                raise AssertionError(f"The object {obj} produced a SaveableObject with name '{s.name}' for attribute '{name}'. "
                                     f"Expected a name containing '{key}'.")
        if kept is not None:
            kept[name] = made
        return made


def _slots(objects: list, numbers: dict[int, int], ways: dict[int, str]) -> dict[int, list]:
    """The slots of the optimizers among the objects, for variables among them; they become objects too."""
    found: dict[int, list] = {}
    reference = TrackableObjectGraph.TrackableObject.SlotVariableReference
    originals, before = list(objects), set(numbers)
    for obj in originals:
        if not callable(getattr(obj, "_create_or_restore_slot_variable", None)) \
                or not getattr(obj, "_slots_in_checkpoints", True):         # newer optimizers track their variables instead
            continue
        for slot_name in getattr(obj, "get_slot_names", tuple)():
            for number, variable in enumerate(originals):
                try:
                    slot = obj.get_slot(variable, slot_name)
                except (AttributeError, KeyError):
                    slot = None
                if slot is None or id(slot) in numbers and id(slot) not in before:      # the optimizer around this one has it
                    continue
                slot._maybe_initialize_trackable()
                if slot._checkpoint_dependencies or id(slot) in numbers:
                    raise NotImplementedError(f"The slot {slot_name} of {variable} is also a dependency of another object, or "
                                              "has dependencies itself: such slots cannot be saved.")
                numbers[id(slot)] = len(objects)
                ways[id(slot)] = f"{ways[id(variable)]}/{_SLOTS}/{ways[id(obj)]}/{_escaped(slot_name)}"
                found.setdefault(id(obj), []).append(reference(slot_name=slot_name, original_variable_node_id=number,
                                                               slot_variable_node_id=len(objects)))
                objects.append(slot)
    return found


class PythonState(Trackable):
    """Python state in checkpoints: subclasses define `serialize` and `deserialize`, to and from a string."""

    def serialize(self) -> str:
        """The state as a string."""
        raise NotImplementedError

    def deserialize(self, string_value: Any) -> None:
        """Restores the state."""
        raise NotImplementedError

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return {"py_state": lambda name: PythonStringStateSaveable(name, self.serialize, self.deserialize)}


export.value(PythonState, "train.experimental.PythonState")
