"""Variables at run time: the resource that holds a value, and the ops that create, read and assign it.

Reference variables (VariableV2 …) and resource variables (VarHandleOp …) are the same object underneath, a
`VariableResource`: it is the run-time value of a reference and of a handle alike. A read returns the tensor itself, not
a copy; an update writes in place if there is no other reference to the tensor, and replaces it by a new one otherwise, so that
a value never changes after it was read.
"""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.static_shape import compatible, merge, show
from penstock._src.graph.convert import convert
from penstock._src.graph.handles import VARIABLE_HANDLES, handle_dims
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays, bridge, indexing, pointwise, products
from penstock._src.kernels.host_memory import own_pages
from penstock._src.ops import rules
from penstock._src.ops.registry import get, internal, op
from penstock._src.ops.state import forks

Value = torch.Tensor | np.ndarray
_FIRST = (" (run tf.global_variables_initializer(), for metrics tf.local_variables_initializer(), or restore a checkpoint, "
          "first)")


def _stand_ins() -> Any:
    from penstock._src.ops.state import stand_in  # subclasses of what is defined here
    return stand_in


class VariableResource:
    """A variable at run time: a tensor (None before initialization), its type, name and lock.

    `order` is the order of its axes in memory, where it is not the usual one: kernels of GPUs need the filters of
    convolutions with their outputs first.
    """

    __slots__ = ("name", "dtype", "dims", "value", "lock", "order", "__weakref__")

    def __init__(self, name: str, dtype: Any, dims: tuple | None, value: Value | None = None):
        self.name, self.dtype, self.dims, self.value = name, dtype, dims, value
        self.lock = threading.RLock()
        self.order: tuple[int, ...] | None = None
        forks.watch(self)

    def arrange(self, order: tuple[int, ...]) -> None:
        """Keeps the value with its axes in another order in memory, from now on."""
        with self.lock:
            if self.order != order:
                self.order = order
                if isinstance(self.value, torch.Tensor):
                    self.value = self._own(self.value)

    def _own(self, value: torch.Tensor) -> torch.Tensor:
        """A copy of `value`, laid out as this variable is."""
        if self.order is None or len(self.order) != value.ndim:
            return own_pages(value).copy_(value)
        return torch.empty_permuted(value.shape, self.order, dtype=value.dtype, device=value.device).copy_(value)

    def read(self) -> Any:
        """The value; FailedPreconditionError before initialization."""
        value = self.value
        if value is None:
            raise errors.FailedPreconditionError(None, None, f"Attempting to use uninitialized value {self.name}{_FIRST}")
        return value

    def writable(self) -> Any:
        """The tensor to update in place: the current one if it has no other reference, else a copy that replaces it."""
        if self.value is None:
            self.read()
        if isinstance(self.value, np.ndarray):
            self.value = self.value.copy()
        elif not bridge.exclusive(self):
            value = self.value
            self.value = self._own(value) if value.is_contiguous() else value.clone()   # type: ignore[union-attr,arg-type]
        return self.value

    def add(self, value: torch.Tensor, alpha: float) -> None:
        """Adds `alpha` times `value`, which has the variable's shape."""
        self.add_all([self], [value], alpha)

    @staticmethod
    def add_all(variables: list[VariableResource], values: list[torch.Tensor], alpha: float, own: bool = False) -> None:
        """Adds `alpha` times a value to each variable: in place, or else without blocking readers.

        If other threads read or write a variable, the sums are computed separately, and replace the value unless it was
        replaced meanwhile. If the values are our `own`, they may be overwritten.
        """
        left = [(v, value) for v, value in zip(variables, values, strict=True) if not v._add_at_once(value, alpha, own)]
        if not left or _add_in_place(left, alpha):
            return
        old = [v.settled() for v, _ in left]
        sums = torch._foreach_add(old, [value for _, value in left], alpha=alpha)
        for (v, value), before, after in zip(left, old, sums, strict=True):
            with v.lock:
                if v.value is before:
                    v.value = after
                else:
                    v.writable().add_(value, alpha=alpha)

    def _add_at_once(self, value: torch.Tensor, alpha: float, own: bool) -> bool:
        """Adds a short value without releasing the GIL; False if that is not possible."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if not isinstance(self.value, torch.Tensor):
                return False
            if bridge.exclusive(self):
                return pointwise.add_scaled(self.value, self.value, value, alpha)
            if not own or not pointwise.add_scaled(value, self.value, value, alpha):
                return False
            self.value = value
            return True
        finally:
            self.lock.release()

    def settled(self) -> Any:
        """The value, read while no update is running; it is not updated in place while it is referenced."""
        with self.lock:
            return self.read()

    def add_product(self, a: torch.Tensor, b: torch.Tensor, alpha: float) -> None:
        """Adds `alpha` times a product of matrices: in one call if the variable's tensor has no other reference now."""
        if self.lock.acquire(blocking=False):
            try:
                if bridge.exclusive(self):
                    products.add_product(self.value, a, b, alpha)            # type: ignore[arg-type]
                    return
            finally:
                self.lock.release()
        self.add(products.product(a, b), alpha)

    def beside(self, value: torch.Tensor) -> VariableResource:
        """A variable like this one, for a trial run, with a copy of `value`."""
        made = VariableResource(self.name, self.dtype, self.dims, value.clone())
        made.order = self.order
        return made

    def stand_in(self, recorder: Any, at: str, fixed: bool = False) -> VariableResource:
        """Its stand-in, as `at`, in a recorded run (step/compile/recorder.py); a constant if `fixed`."""
        return _stand_ins().StandIn(self, at, recorder, fixed)

    def shadow(self, value: torch.Tensor) -> VariableResource:
        """Its stand-in, with `value`, in a trace (step/tiers/lower.py)."""
        return _stand_ins().Shadow(self, value)

    def assign(self, value: Value) -> None:
        """Sets the value to a copy of `value`."""
        with self.lock:
            old = self.value
            if isinstance(value, np.ndarray):
                self.value = value.copy()
            elif isinstance(old, torch.Tensor) and _fits(old, value):
                del old
                if bridge.exclusive(self):
                    self.value.copy_(value)      # type: ignore[union-attr]
                else:
                    self.value = self._own(value)
            else:
                self.value = self._own(value)

    def __repr__(self) -> str:
        state = "uninitialized" if self.value is None else f"shape={tuple(self.value.shape)}"
        return f"<variable {self.name} {self.dtype.name} {state}>"


def _add_in_place(pairs: list[tuple[VariableResource, torch.Tensor]], alpha: float) -> bool:
    """Adds values to variables in place if none of them has another reference; returns whether it did."""
    locked: list[VariableResource] = []
    targets: list[torch.Tensor] = []
    try:
        for v, _ in pairs:
            if not v.lock.acquire(blocking=False):
                return False
            locked.append(v)
            if not isinstance(v.value, torch.Tensor) or not bridge.exclusive(v):
                return False
            targets.append(v.value)
        torch._foreach_add_(targets, [value for _, value in pairs], alpha=alpha)
        return True
    finally:
        for v in locked:
            v.lock.release()


def _fits(old: torch.Tensor, value: torch.Tensor) -> bool:
    return old.shape == value.shape and old.dtype is value.dtype and old.device == value.device


def _dims_text(dims: Any) -> str:
    return "<unknown>" if dims is None else arrays.show(["?" if d is None else d for d in dims])


# -- reference variables ----------------------------------------------------------------------------------------------
def _lookup(ctx: Any, node: Any, container: str, shared_name: str, dtype: Any, shape: Any) -> VariableResource:
    name = shared_name or node.name
    if node.graph is None and not shared_name:            # eager, and private
        return VariableResource(name, dtype, shape.static_dims)
    found = ctx.resources.get_or_create(container, name, VariableResource,
                                        lambda: VariableResource(name, dtype, shape.static_dims))
    if found.dtype != dtype:
        raise errors.invalid(f"Trying to access resource {name} located in container {container or 'localhost'}: "
                             f"expected dtype {dtype.name}, found {found.dtype.name}")
    return found


_GPU = "floating int64 bool"         # integer counters live on the host
_VARIABLE = "shape: shape, dtype: type, container: string = '', shared_name: string = ''"

variable_v2 = op("VariableV2", "-> ref: Ref(dtype)", _VARIABLE, stateful=True, per_session=True, gpu=_GPU).no_gradient()
variable_v2.shape(lambda *, shape: shape.static_dims)

variable_v1 = op("Variable", "-> ref: Ref(dtype)", _VARIABLE, stateful=True, per_session=True, gpu=_GPU).no_gradient()
variable_v1.shape(lambda *, shape: shape.static_dims or None)      # a scalar shape means an unknown one here


@variable_v2.kernel
@variable_v1.kernel
def _variable_v2_kernel(*, shape, dtype, container, shared_name, ctx, node):
    return _lookup(ctx, node, container, shared_name, dtype, shape)


temporary_variable = op("TemporaryVariable", "-> ref: Ref(dtype)", "shape: shape, dtype: type, var_name: string = ''",
                        stateful=True).no_gradient()
temporary_variable.shape(lambda *, shape: shape.static_dims)


@temporary_variable.kernel
def _temporary_variable_kernel(*, shape, dtype, var_name, ctx, node):
    name = var_name or node.name
    key = ("temporary variable", name)
    if key in ctx.locals:
        raise errors.AlreadyExistsError(None, None, f"TemporaryVariable {name} already exists in this step.")
    if not shape.is_fully_defined():
        raise errors.invalid(f"TemporaryVariable {name} needs a fully defined shape, got {show(shape.static_dims)}")
    made = ctx.locals[key] = VariableResource(name, dtype, shape.static_dims, torch.zeros(shape.static_dims, dtype=dtype.torch))
    return made


destroy_temporary_variable = op("DestroyTemporaryVariable", "ref: Ref(T) -> value: T", "T: type, var_name: string",
                                foldable=False).no_gradient()
destroy_temporary_variable.shape(lambda ref: ref)


@destroy_temporary_variable.kernel
def _destroy_temporary_variable_kernel(ref, *, var_name, ctx):
    if ctx.locals.pop(("temporary variable", var_name), None) is None:
        raise errors.NotFoundError(None, None, f"TemporaryVariable {var_name} does not exist in this step.")
    return ref.read()


assign_op = op("Assign", "ref: Ref(T), value: T -> output_ref: Ref(T)",
               "T: type, validate_shape: bool = True, use_locking: bool = True", foldable=False).no_gradient()


@assign_op.shape
def _assign_shape(ref, value, *, validate_shape):
    return merge(ref, value) if validate_shape else value


@assign_op.kernel
def _assign_kernel(ref, value, *, validate_shape):
    if validate_shape:
        held = ref.dims if ref.value is None else tuple(ref.value.shape)
        if not compatible(held, tuple(value.shape)):
            raise errors.invalid(f"Assign requires shapes of both tensors to match. lhs shape= {_dims_text(held)} rhs "
                                 f"shape= {_dims_text(value.shape)} (variable {ref.name})")
    ref.assign(value)
    return ref


def _same_shape(held: torch.Tensor, value: torch.Tensor) -> None:
    if held.shape != value.shape:
        raise errors.invalid(f"Shapes of both tensors must match. lhs shape= {_dims_text(held.shape)} rhs shape= "
                             f"{_dims_text(value.shape)}")


def _add(resource: VariableResource, value: torch.Tensor, sign: int) -> VariableResource:
    with resource.lock:
        _same_shape(resource.read(), value)
        arrays.signed(resource.writable()).add_(arrays.signed(value), alpha=sign)
    return resource


_ADDABLE = "T: type in {numeric quantized}, use_locking: bool = False"
assign_add_op = op("AssignAdd", "ref: Ref(T), value: T -> output_ref: Ref(T)", _ADDABLE, foldable=False).no_gradient()
assign_add_op.shape(merge)
assign_add_op.kernel(lambda ref, value: _add(ref, value, 1))

assign_sub_op = op("AssignSub", "ref: Ref(T), value: T -> output_ref: Ref(T)", _ADDABLE, foldable=False).no_gradient()
assign_sub_op.shape(merge)
assign_sub_op.kernel(lambda ref, value: _add(ref, value, -1))

is_variable_initialized_op = op("IsVariableInitialized", "ref: Ref(dtype) -> is_initialized: bool", "dtype: type",
                                foldable=False).no_gradient()
is_variable_initialized_op.shape(lambda ref: ())
is_variable_initialized_op.kernel(lambda ref: torch.tensor(ref.value is not None))


def _count_up_to(resource: VariableResource, limit: int) -> torch.Tensor:
    with resource.lock:
        held = resource.read()
        if held.ndim != 0:
            raise errors.invalid(f"CountUpTo needs a scalar, {resource.name} has shape {_dims_text(held.shape)}")
        if int(held) >= limit:
            raise errors.OutOfRangeError(None, None, f"Reached limit of {limit}")
        resource.value = held + 1
        return held


count_up_to_op = op("CountUpTo", "ref: Ref(T) -> output: T", "limit: int, T: type in {index}",
                    foldable=False).no_gradient()
resource_count_up_to = op("ResourceCountUpTo", "resource: resource -> output: T", "limit: int, T: type in {index}",
                          stateful=True).no_gradient()


@count_up_to_op.shape
def _count_up_to_shape(ref):
    return merge(ref, ())


resource_count_up_to.shape(lambda resource, *, c: merge(handle_dims(c.input("resource")), ()))
count_up_to_op.kernel(lambda ref, *, limit: _count_up_to(ref, limit))
resource_count_up_to.kernel(lambda resource, *, limit: _count_up_to(variable_of(resource), limit))


# -- resource variables -----------------------------------------------------------------------------------------------
def variable_of(resource: Any) -> VariableResource:
    """The variable of a handle; InvalidArgumentError if it is of another kind."""
    return errors.expect(resource, VariableResource, "a variable")


def _held(resource: Any) -> Any:
    """The value behind a handle."""
    value = variable_of(resource).value
    if value is None:
        raise errors.FailedPreconditionError(
            None, None, f"Error while reading resource variable {resource.name} from Container: localhost. This could "
            f"mean that the variable was uninitialized. Not found: Resource localhost/{resource.name}/variable does not "
            f"exist.{_FIRST}")
    return value


var_handle_op = op("VarHandleOp", "-> resource: resource",
                   "container: string = '', shared_name: string = '', dtype: type, shape: shape",
                   stateful=True, per_session=True, gpu=_GPU).no_gradient()
var_handle_op.shape(lambda: ())
VARIABLE_HANDLES.add(var_handle_op)


@var_handle_op.kernel
def _var_handle_kernel(*, container, shared_name, dtype, shape, ctx, node):
    return _lookup(ctx, node, container, shared_name, dtype, shape)


read_variable_op = op("ReadVariableOp", "resource: resource -> value: dtype", "dtype: type", stateful=True)
rules.costs.light.add(read_variable_op)
read_variable_op.shape(lambda resource, *, c: handle_dims(c.input("resource")))
read_variable_op.gradient(lambda op, grad: grad)
rules.costs.flops[read_variable_op] = lambda inputs, outputs: 0
read_variable_op.reads = True


@read_variable_op.kernel
def _read_variable_kernel(resource, *, dtype):
    value = _held(resource)
    if resource.dtype != dtype:
        raise errors.invalid("Trying to read variable with wrong dtype. Expected "
                             f"{dtype.name} got {resource.dtype.name}")
    return value


assign_variable_op = op("AssignVariableOp", "resource: resource, value: dtype ->", "dtype: type",
                        stateful=True).no_gradient()
assign_add_variable_op = op("AssignAddVariableOp", "resource: resource, value: dtype ->", "dtype: type",
                            stateful=True).no_gradient()
assign_sub_variable_op = op("AssignSubVariableOp", "resource: resource, value: dtype ->", "dtype: type",
                            stateful=True).no_gradient()
rules.updates.assigns.add(assign_variable_op)
add_to_all = internal("_AssignAddToAll", "resource: N * resource, value: N * dtype ->", "N: int >= 1, dtype: type",
                      stateful=True).no_gradient()
subtract_from_all = internal("_AssignSubFromAll", "resource: N * resource, value: N * dtype ->", "N: int >= 1, dtype: type",
                             stateful=True).no_gradient()
rules.updates.several[assign_add_variable_op] = add_to_all.name, frozenset([0, 1])
rules.updates.several[assign_sub_variable_op] = subtract_from_all.name, frozenset([0, 1])
rules.updates.alone |= {assign_variable_op, assign_add_variable_op, assign_sub_variable_op, add_to_all, subtract_from_all}


@assign_variable_op.shape
@assign_add_variable_op.shape
@assign_sub_variable_op.shape
def _assign_variable_shape(resource, value, *, c):
    merge(handle_dims(c.input("resource")), value)
    return []


@assign_variable_op.kernel
def _assign_variable_kernel(resource, value, *, dtype):
    if variable_of(resource).dtype != dtype:
        raise errors.invalid("Trying to assign variable with wrong dtype. Expected "
                             f"{resource.dtype.name} got {dtype.name} (variable {resource.name})")
    if not compatible(resource.dims, tuple(value.shape)):
        raise errors.invalid(f"Trying to assign to variable with tensor with wrong shape. Expected "
                             f"{_dims_text(resource.dims)} got {_dims_text(value.shape)} (variable {resource.name})")
    resource.assign(value)


def _add_to_held(resource: Any, value: Any, sign: int) -> None:
    held = _held(resource)
    if held.shape != value.shape:
        raise errors.invalid(f"Cannot update variable with shape {_dims_text(held.shape)} using a Tensor with shape "
                             f"{_dims_text(value.shape)}, shapes must be equal.")
    del held
    _add(resource, value, sign)


assign_add_variable_op.kernel(lambda resource, value: _add_to_held(resource, value, 1))
assign_sub_variable_op.kernel(lambda resource, value: _add_to_held(resource, value, -1))


def _add_to_all_held(resources: list[Any], values: list[Any], sign: int) -> None:
    """Adds to several variables: real numbers in one call, if they have memory."""
    if not tracing.lowering() and all(v.is_floating_point() for v in values) and \
            all(_held(r).shape == v.shape for r, v in zip(resources, values, strict=True)):
        VariableResource.add_all(list(resources), list(values), sign)
        return
    for resource, value in zip(resources, values, strict=True):
        _add_to_held(resource, value, sign)


add_to_all.kernel(lambda resource, value: _add_to_all_held(resource, value, 1))
subtract_from_all.kernel(lambda resource, value: _add_to_all_held(resource, value, -1))
add_to_all.shape(lambda *shapes: [])
subtract_from_all.shape(lambda *shapes: [])

var_is_initialized_op = op("VarIsInitializedOp", "resource: resource -> is_initialized: bool",
                           stateful=True).no_gradient()
var_is_initialized_op.shape(lambda resource: ())
var_is_initialized_op.kernel(lambda resource: torch.tensor(variable_of(resource).value is not None))

variable_shape = op("VariableShape", "input: resource -> output: out_type", "out_type: type in {int32 int64} = int32",
                    stateful=True).no_gradient()


@variable_shape.shape
def _variable_shape_shape(input, *, c):
    dims = handle_dims(c.input("input"))
    return (None if dims is None else len(dims),)


variable_shape.kernel(lambda input, *, out_type: torch.tensor(tuple(_held(input).shape), dtype=out_type.torch))
variable_shape.value(lambda op, values: handle_dims(op.inputs[0]))

destroy_resource_op = op("DestroyResourceOp", "resource: resource ->", "ignore_lookup_error: bool = True",
                         stateful=True).no_gradient()


@destroy_resource_op.kernel
def _destroy_resource_kernel(resource, *, ignore_lookup_error, ctx):
    known = ctx.resources.forget(resource)
    if isinstance(resource, VariableResource):
        known = known or resource.value is not None
        resource.value = None
    if not known and not ignore_lookup_error:
        raise errors.NotFoundError(None, None, f"Resource {getattr(resource, 'name', resource)} does not exist.")


# -- reading rows -----------------------------------------------------------------------------------------------------
resource_gather = op("ResourceGather", "resource: resource, indices: Tindices -> output: dtype",
                     "batch_dims: int = 0, validate_indices: bool = True, dtype: type, Tindices: type in {index}",
                     stateful=True)
rules.batching.rule[resource_gather] = lambda op, rows, resource, indices: None if op.attrs["batch_dims"] else rows.again(
    op, [resource.tensor, indices.tensor])


@resource_gather.shape
def _resource_gather_shape(resource, indices, *, batch_dims, c):
    dims = handle_dims(c.input("resource"))
    if dims is not None and not dims:
        raise ValueError("Shape must be at least rank 1 but is rank 0: the variable is a scalar")
    if dims is None or indices is None:
        return None
    return dims[:batch_dims] + indices[batch_dims:] + dims[batch_dims + 1:]


@resource_gather.kernel
def _resource_gather_kernel(resource, indices, *, batch_dims):
    held = _held(resource)
    if held.ndim < 1:
        raise errors.invalid("params must be at least 1 dimensional")
    return indexing.gather(held, indices, batch_dims, batch_dims)


@resource_gather.gradient
def _resource_gather_gradient(op, grad):
    handle, indices = op.inputs
    if op.attrs["batch_dims"]:
        return _batch_gather_gradient(handle, indices, grad, op.attrs["batch_dims"]), None
    dims = handle_dims(handle)
    known = dims is not None and None not in dims        # an assignment of another shape is an error
    shape = convert(list(dims), dtypes.int32) if known else variable_shape(handle)         # type: ignore[arg-type]
    values = get("Reshape")(grad, [-1, *dims[1:]] if known else get("ConcatV2")([[-1], shape[1:]], 0))     # type: ignore[index]
    return IndexedSlices(values, get("Reshape")(indices, [-1]), shape), None


def _batch_gather_gradient(handle: Any, indices: Any, grad: Any, batch: int) -> Tensor:
    """Every row of a batch has its own number once the batch dimensions are merged with the gathered one."""
    shape = variable_shape(handle)
    zero, one = get("Cast")(0, DstT=indices.dtype.base_dtype), get("Cast")(1, DstT=indices.dtype.base_dtype)
    count = get("Prod")(get("Cast")(shape[:batch], DstT=indices.dtype.base_dtype), [0])
    size = get("Cast")(shape[batch], DstT=indices.dtype.base_dtype)
    lead = get("ConcatV2")([shape[:batch], get("Fill")(get("Sub")(get("Shape")(get("Shape")(indices)), [batch]), 1)], 0)
    offsets = get("Reshape")(get("Mul")(get("Range")(zero, count, one), size), lead)
    rows = get("Reshape")(get("AddV2")(indices, offsets), [-1])
    values = get("Reshape")(grad, get("ConcatV2")([[-1], shape[batch + 1:]], 0))
    return get("Reshape")(get("UnsortedSegmentSum")(values, rows, get("Mul")(count, size)), shape)


resource_gather_nd = op("ResourceGatherNd", "resource: resource, indices: Tindices -> output: dtype",
                        "dtype: type, Tindices: type in {index}", stateful=True)
rules.updates.looks |= {variable_shape, resource_gather, resource_gather_nd}


@resource_gather_nd.shape
def _resource_gather_nd_shape(resource, indices, *, c):
    dims = handle_dims(c.input("resource"))
    if dims is None or indices is None or indices[-1] is None:
        return None
    if indices[-1] > len(dims):
        raise ValueError(f"indices.shape[-1] must be <= params.rank, but saw indices.shape[-1] = {indices[-1]} and "
                         f"params.rank = {len(dims)}")
    return indices[:-1] + dims[indices[-1]:]


resource_gather_nd.kernel(lambda resource, indices: indexing.gather_nd(_held(resource), indices))


@resource_gather_nd.gradient
def _resource_gather_nd_gradient(op, grad):
    handle, indices = op.inputs
    shape = variable_shape(handle, out_type=indices.dtype.base_dtype)
    if indices.static_dims is not None and len(indices.static_dims) == 2 and indices.static_dims[-1] == 1:
        return IndexedSlices(grad, get("Squeeze")(indices, squeeze_dims=[-1]), shape), None
    return get("ScatterNd")(indices, grad, shape), None
