"""Symbolic differentiation: `tf.gradients`.

Walks back from `ys` to `xs` over the graph. Each op's gradient function (from the registry) is called once, when the
gradients of all of its outputs are available; contributions to one tensor are summed, and sparse ones stay sparse.
Loops and conditionals take part through `control_flow_state` (see graph/control_flow_grad.py).
"""
from __future__ import annotations

import collections
import contextlib
import enum
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.control_flow_grad import make_state, zeros_outside_loop
from penstock._src.graph.control_flow_util import is_loop_exit, is_loop_switch
from penstock._src.graph.convert import convert
from penstock._src.graph.grouping import tuple_
from penstock._src.graph.handles import value_dims
from penstock._src.graph.indexed_slices import IndexedSlices, add_gradients, convert_to_tensor_or_indexed_slices
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.zeros import is_trainable, zeros_for
from penstock._src.ops.registry import GRADIENTS, get


@export("UnconnectedGradients")
class UnconnectedGradients(enum.Enum):
    """What tf.gradients returns for an x that y does not depend on: None, or zeros."""

    NONE = "none"
    ZERO = "zero"


@export(v1=["AggregationMethod"], v2=["AggregationMethod"])
class AggregationMethod:
    """How gradients of one tensor are added up; all compute the same sum here.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     x = tf.constant(3.)
    ...     print(sess.run(tf.gradients(x * x, [x], aggregation_method=tf.AggregationMethod.ADD_N)))
    [np.float32(6.0)]
    """

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2




@export(v1=["gradients"])
def gradients(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate_gradients_with_ops: bool = False,
              gate_gradients: bool = False, aggregation_method: Any = None, stop_gradients: Any = None,
              unconnected_gradients: Any = UnconnectedGradients.NONE) -> list:
    """The derivatives of the sum of `ys` with respect to each of `xs`.

    Args:
        ys: Tensor or list of tensors to differentiate.
        xs: Tensor or list of tensors to differentiate by.
        grad_ys: Derivatives with respect to each of `ys`, ones by default.
        name: Prefix of the operations' names.
        colocate_gradients_with_ops: Whether a gradient is placed on the device of its op.
        gate_gradients: Whether all gradients of an op are computed before one of them is used.
        aggregation_method: How contributions are added; see `tf.AggregationMethod`.
        stop_gradients: Tensors to treat as constants.
        unconnected_gradients: None or zeros for `xs` on which `ys` do not depend.

    Returns:
        A list with one tensor, IndexedSlices or None for each of `xs`.

    Raises:
        LookupError: if an op on the way has no registered gradient.
        RuntimeError: in eager execution; use `tf.GradientTape`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x = tf.constant(3.)
    ...     print(sess.run(tf.gradients(x * x, [x])))
    [np.float32(6.0)]
    """
    return gradients_of(ys, xs, grad_ys, name, colocate_gradients_with_ops, stop_gradients, unconnected_gradients,
                        gate=gate_gradients)


@export(v2=["gradients"])
def gradients_v2(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", gate_gradients: bool = False,
                 aggregation_method: Any = None, stop_gradients: Any = None,
                 unconnected_gradients: Any = UnconnectedGradients.NONE) -> list:
    """The derivatives of the sum of `ys` with respect to each of `xs` (graphs only)."""
    return gradients_of(ys, xs, grad_ys, name, True, stop_gradients, unconnected_gradients, gate=gate_gradients)


def as_list(x: Any) -> list:
    """A list is returned unchanged; any other value becomes its only element."""
    return list(x) if isinstance(x, (list, tuple)) else [x]


def gradients_of(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate: bool = False,
                 stop_gradients: Any = None, unconnected: Any = UnconnectedGradients.NONE,
                 src_graph: Any = None, gate: bool = False) -> list:
    """tf.gradients on lists or single values."""
    if context.executing_eagerly():
        raise RuntimeError("tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead.")
    try:
        unconnected = UnconnectedGradients(unconnected)
    except ValueError:
        raise ValueError(f"Unknown value for unconnected_gradients: {unconnected!r}") from None
    ys, xs = as_list(ys), as_list(xs)
    grad_ys = [None] * len(ys) if grad_ys is None else as_list(grad_ys)
    if len(grad_ys) != len(ys):
        raise ValueError(f"Passed {len(grad_ys)} grad_ys for {len(ys)} ys")
    src_graph = src_graph or context.current_graph()
    if xs and all(isinstance(x, Tensor) and not hasattr(x, "_value") for x in [*ys, *xs]) \
            and not src_graph.building_function:
        src_graph = ys[0].graph if ys else src_graph
        for x in [*ys, *xs]:
            if x.graph is not src_graph:
                raise ValueError(f"{x} must be from the same graph as {ys[0] if ys else xs[0]}.")
    composite = [x for x in (*ys, *xs) if _components(x) is not None]
    if composite:
        return _composite_gradients(ys, xs, grad_ys, name, colocate, stop_gradients, unconnected, src_graph, gate)
    with contextlib.ExitStack() as stack:
        if src_graph is not context.current_graph() and not context.current_graph().building_function:
            stack.enter_context(src_graph.as_default())
        scope = stack.enter_context(context.current_graph().name_scope(name))
        ys_t = [_y_tensor(y) for y in ys]
        xs_t = [_x_tensor(x) for x in xs]
        grads = _Walk(ys_t, xs_t, _default_grad_ys(grad_ys, ys_t), scope, colocate,
                      [_x_tensor(s) for s in as_list(stop_gradients)] if stop_gradients is not None else [],
                      gate).run()
        if unconnected is UnconnectedGradients.ZERO:
            grads = [_zeros_like_source(x) if g is None else g for g, x in zip(grads, xs, strict=True)]
    return grads


def _components(x: Any) -> list | None:
    """The float parts of a composite tensor (ragged: its flat values), or None for a plain one."""
    f = getattr(x, "_gradient_components", None)
    return f() if f is not None else None


def _composite_gradients(ys: list, xs: list, grad_ys: list, *rest: Any) -> list:
    """Differentiates through the parts of composite tensors and puts the results together again."""
    name, colocate, stop, unconnected, src, gate = rest
    flat_ys: list = []
    flat_gs: list = []
    for y, g in zip(ys, grad_ys, strict=True):
        parts = _components(y)
        flat_ys.extend([y] if parts is None else parts)
        flat_gs.extend([g] if parts is None else (_components(g) or [g]) if g is not None else [None] * len(parts))
    parts_of_xs = [_components(x) for x in xs]
    flat_xs = [p for x, parts in zip(xs, parts_of_xs, strict=True) for p in ([x] if parts is None else parts)]
    flat = iter(gradients_of(flat_ys, flat_xs, flat_gs, name, colocate, stop, unconnected, src, gate))

    def joined(x: Any, parts: list | None) -> Any:
        if parts is None:
            return next(flat)
        return x._with_gradient_components([next(flat) for _ in parts]) if parts else None      # nothing to differentiate
    return list(map(joined, xs, parts_of_xs))


def _y_tensor(y: Any) -> Any:
    return y if isinstance(y, IndexedSlices) else convert(y)


def _x_tensor(x: Any) -> Any:
    """What a source represents: a resource variable is its handle, a reference variable its reference."""
    if isinstance(x, Tensor):
        return convert(x) if hasattr(x, "_value") else x
    handle = getattr(x, "handle", None)
    if isinstance(handle, Tensor):
        return _x_tensor(handle)
    if isinstance(x, IndexedSlices):
        return x.values
    ref = getattr(x, "_ref", None)
    if callable(ref):
        return ref()
    return convert(x)


def _zeros_like_source(x: Any) -> Any:
    value = x if isinstance(x, Tensor) and x.dtype != dtypes.resource else None
    if value is None and not isinstance(x, Tensor):
        value = convert(x)
    return zeros_for(x if value is None else value)


def _default_grad_ys(grad_ys: list, ys: list) -> list:
    """The gradients of the ys, under the name scope of this call, by which TensorArrays distinguish calls."""
    return [_default_grad_y(g, y, i) for i, (g, y) in enumerate(zip(grad_ys, ys, strict=True))]


def _default_grad_y(g: Any, y: Any, i: int) -> Any:
    name = f"grad_ys_{i}"
    if g is None:
        if y.dtype.is_complex:
            raise TypeError(f"Gradients of complex tensors must set grad_ys (y.dtype = {y.dtype.name})")
        t = y.values if isinstance(y, IndexedSlices) else y
        if not (t.dtype.is_floating or t.dtype.is_integer or t.dtype in (dtypes.variant, dtypes.resource)):
            raise TypeError(f"Gradient type {t.dtype.name} can not be computed")
        ones = _ones_like(t, name)
        return IndexedSlices(ones, y.indices, y.dense_shape) if isinstance(y, IndexedSlices) else ones
    g = g if isinstance(g, (Tensor, IndexedSlices)) else convert_to_tensor_or_indexed_slices(g, y.dtype.base_dtype)
    if y.dtype.is_floating or y.dtype.is_integer:
        if not (g.dtype.is_floating or g.dtype.is_integer):
            raise TypeError(f"Gradient type {g.dtype.name} generated for real or integer-valued tensor {y} with type "
                            f"{y.dtype.name} must be real or integer")
    elif y.dtype.is_complex and not g.dtype.is_complex:
        raise TypeError(f"Gradient type {g.dtype.name} generated for complex-valued tensor {y} with type "
                        f"{y.dtype.name} must be complex")
    identity = get("Identity")
    if not isinstance(g, IndexedSlices):
        return identity(g, name=name)
    shape = None if g.dense_shape is None else identity(g.dense_shape, name=f"{name}_shape")
    return IndexedSlices(identity(g.values, name=f"{name}_values"), identity(g.indices, name=f"{name}_indices"), shape)


def _ones_like(t: Tensor, name: str) -> Any:
    dims = t.static_dims
    if t.dtype == dtypes.variant:
        return get("OnesLike")(t, name=name)
    fill = get("Fill")
    if dims is not None and all(d is not None for d in dims):
        return fill(list(dims) if dims else convert([], dtypes.int32), convert(1, t.dtype.base_dtype), name=name)
    return fill(get("Shape")(t), convert(1, t.dtype.base_dtype), name=name)


def gradient_function(op: Any) -> Callable | None:
    """The gradient function of an op; None when gradients stop there; LookupError when none is registered."""
    own = getattr(op, "_gradient_function", None)              # of one op, not of its type: tf.custom_gradient
    if own is not None:
        return own
    key = op._extra.get("_gradient_op_type", op.type)
    key = key.decode() if isinstance(key, bytes) else key
    if key in GRADIENTS:
        return GRADIENTS[key]
    if getattr(op.opdef, "function", None) is not None:
        return GRADIENTS["PartitionedCall"]
    raise LookupError(f"No gradient defined for operation '{op.name}' (op type: {op.type})")


class _Walk:
    """One run of tf.gradients."""

    def __init__(self, ys: list, xs: list, grad_ys: list, scope: str, colocate: bool, stops: list, gate: bool):
        self.ys, self.xs, self.grad_ys, self.scope, self.colocate = ys, xs, grad_ys, scope, colocate
        self.stops, self.gate = stops, gate
        self.x_ids = {id(x) for x in xs}
        self.grads: dict[int, list] = {}          # tensor id -> contributions
        self.sums: dict[int, Any] = {}
        self.state: Any = None                    # loops that the walk crosses
        self.captured: dict[int, Any] = {}        # placeholder id -> the tensor outside that it represents
        self.placeholders: dict[int, list] = {}   # the inverse
        self._see_through_captures()

    def _see_through_captures(self) -> None:
        """If an x is outside the function that is being built, the walk continues outside."""
        graph = context.current_graph()
        if not graph.building_function or not self.ys or all(x.graph is self.ys[0].graph for x in self.xs):
            return
        while getattr(graph, "building_function", False):
            for outer, inner in graph.captures:  # type: ignore[attr-defined]
                if not hasattr(outer, "_value"):
                    self.captured[id(inner)] = outer
                    self.placeholders.setdefault(id(outer), []).append(inner)
            graph = graph.around  # type: ignore[attr-defined]

    # -- which ops are between ------------------------------------------------------------------------
    def _reached(self) -> set[Operation]:
        """Ops that depend on some x through differentiable tensors."""
        reached: set[Operation] = set()
        queue: collections.deque = collections.deque()
        for x in self.xs:
            op = x.op
            if op not in reached:
                reached.add(op)
                queue.append(op)
        while queue:
            op = queue.popleft()
            for t in op.outputs:
                if is_trainable(t):
                    for c in self._consumers(t):
                        if c not in reached:
                            reached.add(c)
                            queue.append(c)
        return reached

    def _consumers(self, t: Tensor) -> list[Operation]:
        if id(t) not in self.placeholders:
            return t._consumers
        return [*t._consumers, *(c for inner in self.placeholders[id(t)] for c in self._consumers(inner))]

    def _inputs(self, op: Operation) -> Sequence[Tensor]:
        """The inputs of an op, captures as the tensors outside that they represent."""
        return [self._outside(t) for t in op.inputs] if self.captured else op.inputs

    def _outside(self, t: Tensor) -> Tensor:
        while id(t) in self.captured and id(t) not in self.x_ids:
            t = self.captured[id(t)]
        return t

    def _between(self, reached: set[Operation]) -> list[Operation]:
        """Ops on a path from an x to a y."""
        between: list[Operation] = []
        seen: set[Operation] = set()
        queue = collections.deque(self._outside(y).op if isinstance(y, Tensor) else y.op for y in self.ys)
        while queue:
            op = queue.popleft()
            if op in reached and op not in seen:
                seen.add(op)
                between.append(op)
                for t in self._inputs(op):
                    queue.append(t.op)
        return between

    # -- the walk ------------------------------------------------------------------------------------------
    def run(self) -> list:
        """The gradients of the xs."""
        between = self._between(self._reached())
        inside = set(between)
        if any(op.opdef.control_flow for op in between):
            self.state = make_state(between, inside, self.colocate)
        pending: dict[Operation, int] = collections.defaultdict(int)
        for op in between:
            for t in self._inputs(op):
                if t.op in inside:
                    pending[t.op] += 1
        queue = self._start(pending, inside)
        stop_ops = self._stop_ops(pending)
        while queue:
            op = queue.popleft()
            with self._colocated(op):
                self._process(op, op in stop_ops)
            self._update(op, pending, inside, queue)
        if self.state is not None:
            self.state.post_processing()
        return [self._final(x) for x in self.xs]

    def _start(self, pending: dict[Operation, int], inside: set[Operation]) -> collections.deque:
        """Sets the gradients of the ys; the ops to start with."""
        for y, g in zip(self.ys, self.grad_ys, strict=True):
            if isinstance(y, IndexedSlices):
                self._add(y.values, g)
            else:
                self._add(self._outside(y), g)
        started: dict[Operation, None] = {}
        for y in self.ys:
            op = self._outside(y).op if isinstance(y, Tensor) else y.op
            if op in inside and pending[op] == 0:
                started[op] = None
        queue = collections.deque(started)
        if self.state is not None:
            for t in self.state.process_unused_loop_exits(pending, set(started)):
                if is_trainable(t):
                    self._add(t, self.state.zeros_like_for_exit(t))
                    queue.append(t.op)
        return queue

    def _stop_ops(self, pending: dict[Operation, int]) -> set[Operation]:
        """Ops of xs that are not fed by other xs' paths, and of stop_gradients: the walk ends there."""
        stops = {t.op for t in self.stops}
        for x in self.xs:
            op = x.op
            if not any(pending[t.op] > 0 for t in self._inputs(op)):
                stops.add(op)
        return stops

    def _add(self, t: Tensor, grad: Any) -> None:
        self.grads.setdefault(id(t), []).append(grad)

    def _total(self, t: Tensor) -> Any:
        """The sum of the contributions to a tensor."""
        key = id(t)
        if key in self.sums:
            return self.sums[key]
        parts = self.grads.get(key)
        if not parts:
            return None
        total = self.sums[key] = self._sum_by_device(parts) if self.colocate and len(parts) > 1 else add_gradients(parts)
        return total

    def _sum_by_device(self, parts: list) -> Any:
        """Sums the parts on each device before transfers between devices."""
        groups: dict[str, list] = {}
        for g in parts:
            groups.setdefault(g.device, []).append(g)
        sums = []
        for device in sorted(groups):
            first = groups[device][0]
            with context.current_graph().colocate_with(first.op, ignore_existing=True):
                sums.append(add_gradients(groups[device]))
        return add_gradients(sums)

    def _final(self, x: Tensor) -> Any:
        total = self._total(x)
        if isinstance(total, Tensor):
            total.set_shape(value_dims(x))
        return total

    def _process(self, op: Operation, stop: bool) -> None:
        if self.state is not None:
            self.state.enter(op, before=True)
        outs = [self._total(t) for t in op.outputs]
        if self.state is not None:
            self.state.exit(op, before=True)
        if stop or not any(g is not None for g in outs):
            return
        fn = gradient_function(op)
        if fn is None:
            return
        if self.state is not None:
            self.state.enter(op, before=False)
        try:
            self._check_not_own_loop(op)
            graph = context.current_graph()
            before = len(graph._ops)
            with graph.name_scope(op.name + "_grad"):
                if not getattr(fn, "takes_none", False) or op.opdef.control_flow:
                    outs = self._fill_zeros(op, outs)
                ins = self._checked(op, fn(op, *outs))
                if self.gate and sum(g is not None for g in ins) > 1:
                    ins = tuple_(ins)
            for made in graph._ops[before:]:
                made._original_op = op
            for t, g in zip(self._inputs(op), ins, strict=True):
                if g is not None:
                    if isinstance(g, Tensor) and t.dtype != dtypes.resource and t.static_dims is not None:
                        _merge_shape(op, g, t)
                    self._add(t, g)
        finally:
            if self.state is not None:
                self.state.exit(op, before=False)

    def _check_not_own_loop(self, op: Operation) -> None:
        """A gradient computed inside a loop cannot differentiate through that loop."""
        ctxt = op._control_flow_context
        if ctxt is not None and op.opdef.control_flow == "switch" and ctxt.IsWhileContext() and \
                ctxt is context.current_graph()._get_control_flow_context():
            raise ValueError(f"tf.gradients() inside of a loop cannot differentiate through the loop itself: {op.name}")

    def _fill_zeros(self, op: Operation, outs: list) -> list:
        """Zeros for outputs that nothing differentiable used."""
        if len(outs) == 1:
            return outs
        filled = []
        for t, g in zip(op.outputs, outs, strict=True):
            if g is None and is_trainable(t):
                if self.state is not None:
                    g = self.state.zeros_like(op, t)
                elif op.opdef.control_flow:
                    g = zeros_outside_loop(op, t)
                else:
                    g = zeros_for(t)
            filled.append(g)
        return filled

    def _checked(self, op: Operation, ins: Any) -> list:
        ins = list(ins) if isinstance(ins, (list, tuple)) else [ins]
        if len(ins) != len(op.inputs):
            raise ValueError(f"Num gradients {len(ins)} generated for op {op.node_def} do not match num inputs "
                             f"{len(op.inputs)}")
        for i, g in enumerate(ins):
            if g is not None and not isinstance(g, (Tensor, IndexedSlices)):
                ins[i] = convert(g)
        return ins

    def _update(self, op: Operation, pending: dict[Operation, int], inside: set, queue: collections.deque) -> None:
        for t in self._inputs(op):
            src = t.op
            if src not in inside:
                continue
            pending[src] -= 1
            if self.state is None:
                if pending[src] == 0:
                    queue.append(src)
                continue
            if pending[src] == 0 or pending[src] > 0 and is_loop_switch(src):
                if is_loop_exit(src):
                    self._loop_exit_ready(t, queue)
                else:
                    queue.append(src)

    def _loop_exit_ready(self, t: Tensor, queue: collections.deque) -> None:
        """Starts the gradient of a loop from all its exits; exits without a gradient start with zeros."""
        loop = self.state.loop_of(t.op, before=False)
        loop.deferred_exits.append(t)
        loop.pending_exits_count -= 1
        if loop.pending_exits_count:
            return
        used = [e for e in loop.deferred_exits if any(g is not None for g in self.grads.get(id(e), ()))]
        queue.extend(e.op for e in used)
        loop.unused_exits.extend(e for e in loop.deferred_exits if not any(e is u for u in used))
        for e in loop.unused_exits:
            if used and is_trainable(e):
                self._add(e, self.state.zeros_like_for_exit(e))
            queue.append(e.op)

    def _colocated(self, op: Operation) -> Any:
        return context.current_graph().colocate_with(op) if self.colocate else contextlib.nullcontext()


def _merge_shape(op: Operation, grad: Tensor, t: Tensor) -> None:
    try:
        grad.set_shape(t.static_dims)
    except ValueError:
        raise ValueError(f"Incompatible shapes between op input and calculated input gradient. Forward operation: "
                         f"{op.name}. Input shape: {t.shape}. Calculated input gradient shape: {grad.shape}") from None
