"""Statements that depend on tensors of a graph, as If and While ops.

A statement is traced block by block into function graphs. The variables of the user's function that the blocks assign (`State`)
become results of the op: as tensors, if they differ between the branches or change in the loop.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.static_shape import TensorShape, as_dims
from penstock._src.eager.autograph.jumps import RESULT
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.control_flow_util import covers
from penstock._src.graph.convert import convert
from penstock._src.graph.func_graph import FuncGraph, building, flow
from penstock._src.graph.functions import GraphFunction
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.side_effects import order_side_effects
from penstock._src.ops.control.control_flow import loop_invariants, while_loop
from penstock._src.ops.control.functional import branch_op
from penstock._src.ops.control.functional_control import share_captures, while_v2
from penstock._src.ops.registry import get
from penstock._src.ops.state.tensor_array import TensorArray


class _Undefined:
    def __repr__(self) -> str:
        return "<undefined>"


UNDEFINED = _Undefined()


class State:
    """The variables that a statement changes: reads and writes all of them at once.

    Those of an `if` may be more than have names here: the others are read in its else block only.
    """

    def __init__(self, read: Callable[[], tuple], write: Callable[[tuple], None], names: tuple[str, ...]):
        self.read, self.write, self.names = read, write, names


def symbolic(x: Any) -> bool:
    """Whether the value of `x` is known only when a graph runs."""
    if isinstance(x, Tensor):
        return not hasattr(x, "_value")
    return (hasattr(x, "handle") or hasattr(x, "_ref")) and hasattr(x, "assign") and not context.executing_eagerly()


def as_bool(x: Any, of: str) -> Tensor:
    """A condition as a tensor, which must be one bool."""
    t = convert(x)
    if t.dtype.base_dtype != dtypes.bool or t.static_dims not in ((), None):
        raise ValueError(f"condition of {of} expected to be `tf.bool` scalar, got {t}; to use as boolean Tensor, use "
                         "`tf.cast`; to check for None, use `is not None`")
    return t


def first_test(test: Callable[[], Any]) -> Any:
    """A loop's test, evaluated in a scratch graph: in this one, its ops would run once too often."""
    if context.executing_eagerly():
        return test()
    with building(_graph("test")):
        return test()


def _graph(name: str, scope: str = "") -> FuncGraph:
    graph = FuncGraph(name, scope=scope)
    graph.ordered = getattr(graph.around, "ordered", False)
    return graph


# -- branches ---------------------------------------------------------------------------------------------------------
def if_stmt(test: Any, then: Callable[[], None], orelse: Callable[[], None], state: State) -> None:
    """Traces both blocks; each variable then has the value of the one that runs."""
    with name_scope(None, "cond", None) as scope:
        start = state.read()
        graphs, results, joined = [], [], len(state.names)
        for label, block in (("true", then), ("false", orelse)):
            state.write(start)
            graphs.append(_graph(f"{scope.rstrip('/').rsplit('/', 1)[-1]}_{label}", scope))
            with building(graphs[-1]):
                block()
                results.append(state.read()[:joined])
        state.write(start)
        branches = _Branches(graphs)
        made = [branches.join(n, a, b) for n, a, b in zip(state.names, *results, strict=True)]
        outputs = branches.choose(as_bool(test, "if statement"), scope)
        state.write((*(m(outputs) for m in made), *start[joined:]))


def if_exp(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """The value of one of two expressions."""
    box: list = [None]

    def write(values: tuple) -> None:
        box[0] = values[0]
    state = State(lambda: (box[0],), write, ("conditional expression",))
    if_stmt(test, lambda: write((then(),)), lambda: write((orelse(),)), state)
    return box[0]


class _Branches:
    """Two traced branches with matching outputs."""

    def __init__(self, graphs: list[FuncGraph]):
        self._graphs = graphs
        self._outputs: list[list[Tensor]] = [[], []]

    def join(self, name: str, a: Any, b: Any) -> Callable[[list], Any]:
        """Adds outputs for a variable's values after the branches; returns a function that reads it from the outputs."""
        if a is b or _same_constant(a, b):
            return lambda outputs: a
        a, b = self._both_defined(name, a, b)
        try:
            nest.assert_same_structure(a, b, expand_composites=True)
        except (TypeError, ValueError) as e:
            raise TypeError(f"'{name}' does not have the same nested structure in the main and else branches.\n\n{e}") from None
        leaves = list(zip(*(nest.flatten(x, expand_composites=True) for x in (a, b)), strict=True))
        found = [self._leaf(name, x, y) for x, y in leaves]

        def pick(outputs: list) -> Any:
            flat = [x if i is None else x._with_flow(outputs[i]) if getattr(x, "_is_tensor_array", False) else outputs[i]
                    for (x, _), i in zip(leaves, found, strict=True)]
            return nest.pack_sequence_as(a, flat, expand_composites=True)
        return pick

    def _both_defined(self, name: str, a: Any, b: Any) -> tuple[Any, Any]:
        for missing, branch in ((a, "main"), (b, "else")):
            if missing is UNDEFINED and name != RESULT:
                raise ValueError(f"'{name}' must also be initialized in the {branch} branch")
            if missing is None and name == RESULT:
                raise ValueError(f"the {branch} branch must also have a return statement.")
            if missing is None:
                raise ValueError(f"'{name}' is None at the end of the {branch} branch.")
        # the function returns in one of the branches: the value of the other one is never used
        if a is UNDEFINED:
            a = self._unused(0, b)
        elif b is UNDEFINED:
            b = self._unused(1, a)
        return a, b

    def _unused(self, which: int, like: Any) -> Any:
        with building(self._graphs[which]):
            return nest.map_structure(lambda x: zeros_of(convert(flow(x)).dtype, convert(flow(x)).static_dims), like,
                                      expand_composites=True)

    def _leaf(self, name: str, a: Any, b: Any) -> int | None:
        """The index of the output that represents two values; None if they are one Python value."""
        if a is b or _same_constant(a, b):
            return None
        tensors = []
        for graph, x in ((self._graphs[0], a), (self._graphs[1], b)):
            with building(graph):
                tensors.append(graph.capture(_tensor(name, x)))
        types = [t.dtype.base_dtype for t in tensors]
        if types[0] != types[1]:
            raise TypeError(f"'{name}' has dtype {types[0].name} in the main branch, but dtype {types[1].name} in the else "
                            "branch.")
        for outputs, t in zip(self._outputs, tensors, strict=True):
            outputs.append(t)
        return len(self._outputs[0]) - 1

    def choose(self, test: Tensor, scope: str) -> list[Tensor]:
        """Adds the If op, and returns its outputs."""
        for graph, outputs in zip(self._graphs, self._outputs, strict=True):
            graph.outputs = graph.structured_outputs = outputs
            if graph.ordered:
                graph.control_outputs = order_side_effects(graph)
        outer = share_captures(self._graphs)
        return list(branch_op(test, outer, [GraphFunction(g) for g in self._graphs], False, scope).outputs)


def _same_constant(a: Any, b: Any) -> bool:
    """Whether two Python values are the same, and need no tensor."""
    return type(a) is type(b) and isinstance(a, (bool, int, float, str, bytes)) and a == b


def _tensor(name: str, x: Any) -> Tensor:
    """A value as a tensor."""
    try:
        return convert(flow(x))
    except (TypeError, ValueError):
        raise TypeError(f"'{name}' has the value {x!r} in a block that runs depending on a tensor: only tensors, and what can "
                        "become one, can be changed there.") from None


def zeros_of(dtype: Any, dims: tuple | None) -> Tensor:
    """A tensor of a type and static shape whose value does not matter."""
    return get("FakeParam")(dtype=dtype, shape=TensorShape.of(dims))


# -- loops ------------------------------------------------------------------------------------------------------------
def while_stmt(test: Callable[[], Any], body: Callable[[], None], state: State, options: dict[str, Any],
               name: str | None = None) -> None:
    """Traces test and body; the variables are carried from one iteration to the next."""
    start = state.read()
    first: Any = start
    missing = [i for i, v in enumerate(start) if v is UNDEFINED or v is None]
    if missing:
        first = _after_one(body, state, start)
        missing = [i for i in missing if first[i] is not start[i]]          # the others are None, or local to an iteration
        start = tuple(_unset(f) if i in missing else s for i, (s, f) in enumerate(zip(start, first, strict=True)))
    carried = _Carried(state.names, start, options.get("shape_invariants") or [])
    runs: list = [convert(0)] if any(start[i] is not UNDEFINED and state.names[i] != RESULT and not
                                     state.names[i].startswith("ag__") for i in missing) else []

    def loop_test(*tensors: Tensor) -> Tensor:
        state.write(carried.unpack(tensors))
        return as_bool(test(), "while statement")

    def loop_body(*tensors: Tensor) -> list[Tensor]:
        state.write(carried.unpack(tensors))
        body()
        return [*carried.pack(state.read()), *(get("AddV2")(t, 1) for t in tensors[len(carried.tensors):])]
    loop = _frame_loop if _has_resource_arrays(start) else while_v2
    outputs = list(nest.flatten(loop(
        loop_test, loop_body, [*carried.tensors, *runs], carried.shapes + [()] * len(runs),
        options.get("parallel_iterations") or 10, options.get("maximum_iterations"), name)))
    state.write(carried.unpack(outputs))
    if runs:
        names = ", ".join(f"'{state.names[i]}'" for i in missing)
        get("Assert")(get("Greater")(outputs[-1], 0), [f"loop must iterate at least once to initialize {names}"])


def _has_resource_arrays(values: tuple) -> bool:
    """Whether there are TensorArrays of the 1.x kind among the values: functions cannot take these."""
    return not context.current_graph().building_function and any(
        getattr(x, "_is_tensor_array", False) and x.handle is not None for x in nest.flatten(values))


def _frame_loop(test: Callable, body: Callable, variables: list, shapes: list, parallel_iterations: int, limit: Any,
                name: str | None) -> Any:
    return while_loop(test, body, variables, [TensorShape.of(s) for s in shapes], parallel_iterations,
                      maximum_iterations=limit, name=name, return_same_structure=True)


def _after_one(body: Callable[[], None], state: State, start: tuple) -> tuple:
    """The state after one iteration, traced in a scratch graph: it has the types of variables that are undefined or None before
    the loop."""
    with building(_graph("first_iteration")):
        state.write(start)
        body()
        after = state.read()
    state.write(start)
    return after


def _unset(first: Any) -> Any:
    """Zeros for a variable that is first assigned in the loop. A body that tests it for None is traced with them."""
    if first is UNDEFINED:
        return UNDEFINED
    return nest.map_structure(lambda x: get("ZerosLike")(zeros_of(convert(flow(x)).dtype.base_dtype,
                                                                  convert(flow(x)).static_dims)), first, expand_composites=True)


class _Carried:
    """The variables of a loop as a flat list of tensors, and back."""

    def __init__(self, names: tuple[str, ...], start: tuple, invariants: list):
        self._names, self._start = names, start
        self._flat = [nest.flatten(v, expand_composites=True) for v in start]
        self._is_tensor = [[_carries(x) for x in flat] for flat in self._flat]
        self.tensors: list[Tensor] = []
        self.shapes: list = []
        given: dict[int, Any] = {}
        likes: dict[int, Any] = {}                  # the types that composites have in every iteration
        for t, shape in invariants:
            _note_shape(t, shape, given, likes)
        self._like = [nest.map_structure(lambda x: likes.get(id(x), x), v) if likes else v for v in start]
        graph = context.current_graph()
        for name, flat, which in zip(names, self._flat, self._is_tensor, strict=True):
            for x, is_tensor in zip(flat, which, strict=True):
                if is_tensor:
                    t = graph.capture(_tensor(name, x)) if graph.building_function else _tensor(name, x)
                    self.tensors.append(t)
                    self.shapes.append(as_dims(given[id(x)]) if id(x) in given else t.static_dims)

    def unpack(self, tensors: Any) -> tuple:
        """The state that a list of tensors represents."""
        it = iter(tensors)
        out = []
        for value, like, flat, which in zip(self._start, self._like, self._flat, self._is_tensor, strict=True):
            new = [(x._with_flow(next(it)) if getattr(x, "_is_tensor_array", False) else next(it)) if w else x
                   for x, w in zip(flat, which, strict=True)]
            out.append(nest.pack_sequence_as(like, new, expand_composites=True) if any(which) else value)
        return tuple(out)

    def pack(self, state: tuple) -> list[Tensor]:
        """The tensors of a state after an iteration, checked against those before the loop."""
        out: list[Tensor] = []
        for name, before, after, flat, which in zip(self._names, self._start, state, self._flat, self._is_tensor, strict=True):
            if before is UNDEFINED:
                continue
            if not any(which):
                self._unchanged(name, before, after)
                continue
            try:
                nest.assert_same_structure(before, after, expand_composites=True)
            except (TypeError, ValueError) as e:
                raise TypeError(f"'{name}' does not have the same nested structure after one iteration.\n\n{e}") from None
            for x, y, w in zip(flat, nest.flatten(after, expand_composites=True), which, strict=True):
                if w:
                    out.append(self._checked(name, len(out), y))
                else:
                    self._unchanged(name, x, y)
        return out

    def _checked(self, name: str, i: int, after: Any) -> Tensor:
        before, dims = self.tensors[i], self.shapes[i]
        if after is None:
            raise ValueError(f"'{name}' is None at the end of the iteration.")
        new = _tensor(name, after)
        if new.dtype.base_dtype != before.dtype.base_dtype:
            raise TypeError(f"'{name}' has dtype {before.dtype.base_dtype.name} before the loop, but dtype "
                            f"{new.dtype.base_dtype.name} after one iteration")
        if not covers(dims, new.static_dims):
            raise ValueError(f"'{name}' has shape {TensorShape.of(dims)} before the loop, but shape {new.shape} after one "
                             "iteration. Use tf.autograph.experimental.set_loop_options to set shape invariants.")
        return new

    @staticmethod
    def _unchanged(name: str, before: Any, after: Any) -> None:
        if after is before or _same_constant(before, after):
            return
        if before is None:
            raise ValueError(f"'{name}' is not allowed to be None before the loop.")
        raise TypeError(f"'{name}' changes from {before!r} to {after!r} in a loop over a tensor: only tensors, and what can "
                        "become one, can be changed there.")


def _note_shape(value: Any, shape: Any, given: dict[int, Any], likes: dict[int, Any]) -> None:
    """Notes the shapes of a variable's tensors that an option of its loop gives, and the type of a composite."""
    parts = nest.flatten(value, expand_composites=True)
    if parts[0] is value:
        given[id(value)] = shape
        return
    like, shapes = loop_invariants(value, shape)
    given.update(zip(map(id, parts), shapes or [], strict=True))
    for before, after in zip(nest.flatten(value), nest.flatten(like), strict=True):
        likes[id(before)] = after


def _carries(x: Any) -> bool:
    """Whether a value is carried through loops as a tensor."""
    if x is None or x is UNDEFINED:
        return False
    if isinstance(x, (Tensor, bool, int, float, complex, str, bytes)) or getattr(x, "_is_tensor_array", False):
        return True
    return hasattr(x, "dtype") and hasattr(x, "shape")


def loop_over(iterable: Any) -> Callable | None:
    """How a loop over `iterable` is built into the graph; None if Python iterates over it."""
    if isinstance(iterable, Tensor):
        if not symbolic(iterable):
            return None
        return _for_range if iterable.op.opdef is get("Range") else _for_rows
    if context.executing_eagerly():
        return None
    if symbolic(iterable):
        return lambda it, *rest: _for_rows(convert(it), *rest)
    if hasattr(iterable, "row_splits") and hasattr(iterable, "nrows"):
        return _for_ragged
    return getattr(type(iterable), "_autograph_for", None)


def _counted(count: Any, item: Callable[[Tensor], Any], go_on: Callable[[], Any] | None, body: Callable[[Any], None],
             state: State, options: dict[str, Any]) -> None:
    """Runs the body for item(0) … item(count - 1)."""
    at: list = [convert(0)]

    def write(values: tuple) -> None:
        at[0] = values[0]
        state.write(values[1:])

    def test() -> Any:
        return _going(get("Less")(at[0], count), go_on)

    def step() -> None:
        i, at[0] = at[0], get("AddV2")(at[0], 1)
        body(item(i))
    while_stmt(test, step, State(lambda: (at[0], *state.read()), write, ("ag__index", *state.names)), options)


def _going(more: Tensor, go_on: Callable[[], Any] | None) -> Any:
    if go_on is None:
        return more
    from penstock._src.eager.autograph.operators import and_
    return and_(lambda: more, go_on)


def _for_rows(rows: Tensor, go_on: Any, body: Any, state: State, options: dict[str, Any]) -> None:
    """Over the first dimension of a tensor."""
    dims = rows.static_dims
    if dims == ():
        raise ValueError("cannot iterate over a scalar tensor")
    count = convert(dims[0]) if dims is not None and dims[0] is not None else get("StridedSlice")(
        get("Shape")(rows), [0], [1], [1], shrink_axis_mask=1)
    array = TensorArray(rows.dtype.base_dtype, size=count, element_shape=None if dims is None else dims[1:],
                        clear_after_read=False).unstack(rows)
    _counted(count, array.read, go_on, body, state, options)


def _for_ragged(rows: Any, go_on: Any, body: Any, state: State, options: dict[str, Any]) -> None:
    """Over the rows of a ragged tensor."""
    count = get("Cast")(rows.nrows(), DstT=dtypes.int32)
    _counted(count, lambda i: rows[i], go_on, body, state, options)


def _for_range(numbers: Tensor, go_on: Any, body: Any, state: State, options: dict[str, Any]) -> None:
    """Over tf.range, without computing all of its numbers."""
    start, limit, delta = numbers.op.inputs
    step = constant_value(delta)
    at: list = [start]

    def write(values: tuple) -> None:
        at[0] = values[0]
        state.write(values[1:])

    def test() -> Any:
        if step is not None:
            return _going(get("Less" if step > 0 else "Greater")(at[0], limit), go_on)
        up = get("Greater")(delta, convert(0, delta.dtype))
        inside = get("SelectV2")(up, get("Less")(at[0], limit), get("Greater")(at[0], limit))
        return _going(inside, go_on)

    def advance() -> None:
        i, at[0] = at[0], get("AddV2")(at[0], delta)
        body(i)
    while_stmt(test, advance, State(lambda: (at[0], *state.read()), write, ("ag__index", *state.names)), options)

