"""The intermediate representation of a step: what passes read and change between the user's graph and a program.

A `Node` is an op of a step, a `Value` one of its results, a `StepGraph` the nodes in an order in which they can run, with what
is fetched, run for its effect, and fed. The user's graph is imported and never changed. Each node refers to the operation that
it represents (`origin`), so that errors and traces name the user's op. A node that a pass makes has the origin and the place of
the node that it replaces.

A value has a list of its users: the nodes of the step that take it, once for each input. `Node.set_inputs` and the setter of
`StepGraph.ops` keep them current: a node becomes a user when it enters a step, not when it is made.

`print(step)` shows a step as text, one line per node. `verify` checks the invariants; tests run it after every pass.
Only inputs along the back edge of a loop (`back_edge`) may come later in the order than their users.
"""
from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.graphdef import node_def
from penstock._src.graph.node import Edge, Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.ops.registry import OpDef, get

_SMALL = 64          # elements of a value that is known at compile time and becomes a constant of the graph
_numbers = itertools.count()


class GraphView:
    """The user's graph as nodes see it: its functions and settings, with separate caches."""

    def __init__(self, graph: Any):
        self.original = graph
        self.caches: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


class Value(Edge):
    """A result of a node: which one, its type, and its shape as far as it is known in this step."""

    __slots__ = ("op", "value_index", "dtype", "static_dims", "users")

    def __init__(self, op: Node, value_index: int, dtype: Any, dims: tuple | None = None):
        self.op, self.value_index, self.dtype, self.static_dims = op, value_index, dtype, dims
        self.users: list[Node] = []

    graph = property(lambda self: self.op.graph, doc="The graph of its node.")
    name = property(lambda self: f"{self.op.name}:{self.value_index}", doc="The name of the node, and which result this is.")
    shape = property(lambda self: TensorShape.of(self.static_dims), doc="The static shape.")

    def __repr__(self) -> str:
        dims = "?" if self.static_dims is None else ",".join("?" if d is None else str(d) for d in self.static_dims)
        return f"{self.name} {self.dtype.name}[{dims}]"


class Node:
    """An op of a step. `counts` are the lengths of its list inputs, as in the user's Operation. `device` is the name of the
    device that was requested, `place` the device that it runs on: None where there is only one."""

    __slots__ = ("opdef", "name", "inputs", "attrs", "counts", "control_inputs", "device", "place", "graph", "outputs",
                 "origin", "number", "live")

    def __init__(self, opdef: OpDef, name: str, attrs: dict[str, Any], counts: tuple, device: str, graph: Any,
                 origin: Operation | None, place: Any = None):
        self.opdef, self.name, self.attrs, self.counts, self.device = opdef, name, attrs, counts, device
        self.graph, self.place = graph, place
        self.origin: Any = origin                     # the operation that it represents; None where a pass has added it
        self.inputs: tuple[Value, ...] = ()
        self.live = False                             # whether it is in a step, and counts as a user of its inputs
        self.control_inputs: list[Node] = []
        self.outputs: list[Value] = []
        self.number = next(_numbers)

    type = property(lambda self: self.opdef.name, doc="The op type, such as \"MatMul\".")
    node_def = property(lambda self: node_def(self) if self.origin is None else self.origin.node_def,
                        doc="The NodeDef message of its origin.")
    made_note = property(lambda self: "" if self.origin is None else self.origin.made_note,
                         doc="The user's line that made its origin, for messages.")
    get_attr = Operation.get_attr

    @property
    def _extra(self) -> dict[str, Any]:
        """Attributes of its origin outside the declaration; none if the op differs from the origin's."""
        return self.origin._extra if self.origin is not None and self.origin.opdef is self.opdef else {}

    def set_inputs(self, inputs: Iterable[Value]) -> None:
        """Replaces the inputs of the node."""
        if self.live:
            for t in self.inputs:
                t.users.remove(self)
        self.inputs = tuple(inputs)
        if self.live:
            for t in self.inputs:
                t.users.append(self)

    def set_input(self, i: int, value: Value) -> None:
        """Replaces input i."""
        self.set_inputs((*self.inputs[:i], value, *self.inputs[i + 1:]))

    def substitute(self, by: dict[int, Value]) -> None:
        """Replaces some inputs by other values; `by` has them by the ids of the old ones."""
        for t in self.inputs:
            if id(t) in by:
                self.set_inputs([by.get(id(t), t) for t in self.inputs])
                return

    def __repr__(self) -> str:
        inputs = [t.name for t in self.inputs] + [f"^{c.name}" for c in self.control_inputs]
        made = ", ".join(map(repr, self.outputs)) or self.name
        return f"{made} = {self.type}({', '.join(inputs)})" + (f" on {self.device}" if self.device else "")


class Cycle(Exception):
    """Ops that were joined need each other."""


class StepGraph:
    """The nodes of a step with what is fetched from it, run for its effect, and fed to it."""

    def __init__(self, ops: list[Operation], fetches: list[Tensor], targets: list[Operation], feeds: list[Tensor],
                 held: dict[Operation, Any] | None = None):
        made: dict[int, Value] = {}
        views: dict[int, GraphView] = {}
        nodes: dict[Operation, Node] = {}
        imported: list[Node] = []
        self.shaped: set[int] = set()                 # ids of values with shapes known from outside the step
        for op in ops:
            node = nodes[op] = _import(op, views, made)
            if held and type(held.get(op)) is tuple:           # a static shape: nothing else is used of it
                node.outputs[0].static_dims = held[op]
                self.shaped.add(id(node.outputs[0]))
            elif held and op in held:
                node.opdef, node.attrs = _known(op, held[op])
                if isinstance(held[op], torch.Tensor):
                    node.outputs[0].static_dims = tuple(held[op].shape)
                    self.shaped.add(id(node.outputs[0]))
            imported.append(node)
        for t in feeds:
            if id(t) not in made:                    # its op does not run
                _import(t.op, views, made)
        for op, node in nodes.items():
            node.inputs = tuple([made[id(t)] for t in op.inputs])
            if op.control_inputs:
                node.control_inputs = [nodes[c] for c in op.control_inputs if c in nodes]
        self._set(imported, [made[id(t)] for t in fetches], [nodes[op] for op in targets], [made[id(t)] for t in feeds])

    def _set(self, ops: list[Node], fetches: list[Value], targets: list[Node], feeds: list[Value]) -> None:
        self._ops: list[Node] = []
        self._live: set[Node] = set()
        self.ops, self.fetches, self.targets, self.feeds = ops, fetches, targets, feeds
        self.fed = {id(t) for t in feeds}
        self.has_control_flow = any(op.opdef.control_flow for op in ops)
        self.joins_pointwise = False                  # whether pointwise ops of loops will be joined (pointwise.py)
        self.joins_on_device = False                  # whether pointwise ops on GPUs will be joined (on_device.py)
        self.use_blocks: Callable[[StepGraph], None] | None = None     # the pass that finds known blocks (step/tiers/blocks.py)

    @classmethod
    def of(cls, ops: list[Node], fetches: list[Value], targets: list[Node], feeds: list[Value]) -> StepGraph:
        """A step of nodes that are in no other."""
        made = cls.__new__(cls)
        made.shaped = set()
        made._set(ops, fetches, targets, feeds)
        return made

    @property
    def ops(self) -> list[Node]:
        """The nodes, in an order in which they can run."""
        return self._ops

    @ops.setter
    def ops(self, ops: list[Node]) -> None:
        now = set(ops)
        for node in self._live - now:
            for t in node.inputs:
                t.users.remove(node)
            node.live = False
        for node in ops:
            if not node.live:
                node.live = True
                for t in node.inputs:
                    t.users.append(node)
        self._ops, self._live = ops, now

    @property
    def is_placed(self) -> bool:
        """Whether the nodes have devices; they have none where there is only one."""
        return bool(self._ops) and self._ops[0].place is not None

    @property
    def placed(self) -> dict[Node, Any] | None:
        """The devices of the nodes; None where there is only one."""
        return {op: op.place for op in self._ops} if self.is_placed else None

    def on_host(self, op: Node) -> bool:
        """Whether an op runs on the CPU."""
        return op.place is None or op.place.host

    def together(self, a: Node, b: Node) -> bool:
        """Whether two ops run on the same device."""
        return a.device == b.device if a.place is None else a.place is b.place

    def users(self) -> dict[int, list[Node]]:
        """A snapshot of the users of each value, by its id and in the order of the step, for passes that change inputs while
        they look."""
        place = {op: i for i, op in enumerate(self.ops)}
        values = itertools.chain(self.feeds, *(op.outputs for op in self.ops))
        return {id(t): sorted(t.users, key=place.__getitem__) for t in values if t.users}

    def kept(self) -> set[Node]:
        """The ops that were requested: a pass may not drop them."""
        return {*self.targets, *(t.op for t in self.fetches)}

    def substitute(self, by: dict[int, Value]) -> None:
        """Replaces some tensors by others: in the inputs of all ops, and in the fetches."""
        if not by:
            return
        for old in by:
            t = by[old]
            while id(t) in by:
                t = by[id(t)]
            by[old] = t
        for op in self.ops:
            op.substitute(by)
        self.fetches = [by.get(id(t), t) for t in self.fetches]

    def sort(self) -> None:
        """Sorts ops after their dependencies, and removes dead ones.

        Sends and receives keep their order: a part that receives before it has sent what the others wait for would deadlock.
        """
        kept = needed(self.fetches, self.targets, self.fed)
        transfers = [op for op in self.ops if op.opdef.transfer in ("send", "recv")]
        if transfers:
            left = set(kept)
            roots = [*transfers, *(t.op for t in self.fetches if id(t) not in self.fed), *self.targets]
            kept = needed((), [op for op in roots if op in left], self.fed)
        self.ops = kept

    def replace_groups(self, instead: dict[Node, Node], by: dict[int, Value]) -> None:
        """Replaces ops by others, each where the last of its group was, or before the first op that needs it; the rest keeps
        its order. `by` has the values of the new ops, by the ids of the old ones."""
        last = {made: op for op, made in instead.items()}              # groups are in the order of the step
        order = [instead.get(op, op) for op in self.ops if op not in instead or last[instead[op]] is op]
        self.ops = order
        self.substitute(by)
        done: dict[Node, None] = {}
        begun: set[Node] = set()
        for op in order:
            left = [op]
            while left:
                now = left[-1]
                first = [d for d in (*(t.op for t in now.inputs if id(t) not in self.fed), *now.control_inputs)
                         if d not in done]
                if not first:
                    done[left.pop()] = None
                elif begun.isdisjoint(first):
                    begun.add(now)
                    left += first
                else:
                    raise Cycle(f"{now.name} waits for itself")
        self.ops = list(done)
        self.prune()

    def prune(self) -> None:
        """Dead-code elimination."""
        live = {*self.targets, *(t.op for t in self.fetches if id(t) not in self.fed)}
        fed, out = self.fed, []
        for op in reversed(self.ops):
            if op.opdef.back_edge:                    # used by earlier ops
                self.sort()
                return
            if op in live:
                out.append(op)
                live.update([t.op for t in op.inputs if id(t) not in fed] if fed else [t.op for t in op.inputs])
                if op.control_inputs:
                    live.update([c for c in op.control_inputs if fed.isdisjoint(map(id, c.outputs))])
        out.reverse()
        self.ops = out

    def make(self, opdef: OpDef | str, inputs: list[Value], attrs: dict[str, Any], like: Node, dims: list,
             dtypes: list | None = None, control: list[Node] | None = None) -> Node:
        """A new op that represents `like`, under its name. The caller puts it into `ops`.

        `dims` are the static shapes of its outputs, `dtypes` their types (of `like`'s outputs, unless given).
        """
        opdef = get(opdef) if isinstance(opdef, str) else opdef
        node = Node(opdef, like.name, attrs, (), like.device, like.graph, like.origin, like.place)
        node.inputs = tuple(inputs)
        node.control_inputs = list(like.control_inputs if control is None else control)
        dtypes = [t.dtype for t in like.outputs] if dtypes is None else dtypes
        node.outputs = [Value(node, i, t, d) for i, (t, d) in enumerate(zip(dtypes, dims, strict=True))]
        return node

    def __str__(self) -> str:
        lines = [f"feed {t!r}" for t in self.feeds] + list(map(repr, self.ops))
        return "\n".join([*lines, *(f"fetch {t.name}" for t in self.fetches), *(f"run {op.name}" for op in self.targets)])


Pass = Callable[[StepGraph], None]
Place = Pass                             # one that assigns a device to each node


def _import(op: Operation, views: dict[int, GraphView], made: dict[int, Value]) -> Node:
    """A node for an operation, without inputs; its results are added to `made`, by the ids of the tensors."""
    view = views.get(id(op.graph))
    if view is None:
        view = views[id(op.graph)] = GraphView(op.graph)
    node = Node(op.opdef, op.name, op.attrs, op.counts, op.device, view, op.origin or op)
    for t in op.outputs:
        value = made[id(t)] = Value(node, t.value_index, t.dtype, t.static_dims)
        node.outputs.append(value)
    return node


def _known(op: Operation, value: Any) -> tuple[OpDef, dict[str, Any]]:
    """The constant that replaces a placeholder whose value is known at compile time; passes can read a small one."""
    if isinstance(value, torch.Tensor) and value.is_cpu and value.numel() <= _SMALL and value.dtype is not torch.bfloat16:
        return get("Const"), {"dtype": op.outputs[0].dtype.base_dtype, "value": value.numpy().copy()}
    return get("_Held"), {"dtype": op.outputs[0].dtype.base_dtype, "value": value}


def is_const(t: Value) -> bool:
    """Whether a tensor is a constant of the graph."""
    return t.op.opdef.constant


def is_free_constant(t: Value, step: StepGraph) -> bool:
    """Whether an op may contain the value of `t` in place of an input: a constant that waits for other ops keeps their order.

    In dataflow loops a constant waits only to belong to its frame.
    """
    return t.op.opdef.constant and id(t) not in step.fed and (step.has_control_flow or not t.op.control_inputs)


def verify(step: StepGraph, after: str = "") -> None:
    """Checks the invariants of passes; AssertionError names the pass and the node that violates one."""
    seen: set[Node] = set()
    uses: dict[Value, list[Node]] = {}

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError(f"After {after or 'this pass'}: {what}")
    for op in step.ops:
        require(op not in seen, f"{op.name} occurs twice")
        require((op.place is None) is not step.is_placed, f"{op.name} is on {op.place}, unlike {step.ops[0].name}")
        for t in op.inputs:
            require(id(t) in step.fed or t.op in seen or t.op.opdef.back_edge, f"{op.name} runs before its input {t.name}")
            require(t.value_index < len(t.op.outputs) and t.op.outputs[t.value_index] is t,
                    f"{op.name} takes {t.name}, which its node does not return")
        for c in op.control_inputs:
            require(c in seen or c.opdef.back_edge or not step.fed.isdisjoint(map(id, c.outputs)),
                    f"{op.name} runs before {c.name}, for which it waits")
        require(all(t.op is op and t.value_index == i for i, t in enumerate(op.outputs)),
                f"{op.name} returns a value of another node")
        seen.add(op)
        for t in op.inputs:
            uses.setdefault(t, []).append(op)
    for t in {*step.feeds, *uses, *(t for op in step.ops for t in op.outputs)}:
        require(collections.Counter(t.users) == collections.Counter(uses.get(t, ())), f"the users of {t.name} are not current")
    for t in step.fetches:
        require(id(t) in step.fed or t.op in seen, f"{t.name} is fetched, and its node does not run")
    for op in step.targets:
        require(op in seen, f"{op.name} was requested, and does not run")
