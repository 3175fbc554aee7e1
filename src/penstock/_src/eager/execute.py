"""Eager execution of an op: calls the registry's kernel on the values of eager tensors, and records the op on active tapes."""
from __future__ import annotations

from typing import Any

from penstock._src.base import errors
from penstock._src.eager import placement
from penstock._src.execute.context import eager_context
from penstock._src.graph import context
from penstock._src.graph.build import InputTypeError, ShapeContext, apply, group_inputs, output_types, resolve, structure
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_op import EagerOp
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.engine import engine
from penstock._src.graph.failure import kind, reason
from penstock._src.graph.recording import record
from penstock._src.kernels import host_threads
from penstock._src.kernels.devices.device_config import settings
from penstock._src.kernels.waiting import machine
from penstock._src.ops.registry import OpDef


def _to_tensor(value: Any, dtype: Any, arg: Any, preferred: Any) -> Any:
    if type(value) is EagerTensor and (dtype is None or value.dtype is dtype):
        return value
    return convert(value, dtype, arg.name, as_ref=arg.is_ref, preferred_dtype=preferred)


def execute(opdef: OpDef, args: tuple, given: dict[str, Any], name: str | None) -> Any:
    """Runs the op now and returns eager tensors."""
    if opdef.has_refs:
        raise RuntimeError(f"{opdef.name} op does not support eager execution. Arg "
                           f"'{next(a.name for a in (*opdef.inputs, *opdef.outputs) if a.is_ref)}' is a ref.")
    try:
        inputs, attrs, counts = resolve(opdef, args, given, _to_tensor, arrays_follow=True)
    except InputTypeError as e:
        raise _with_name(errors.InvalidArgumentError(None, None, e.eager), opdef, name) from None
    kernel = opdef.kernel_for("cpu")
    if kernel is None:
        raise errors.UnimplementedError(None, None, f"op {opdef.name} has no kernel")
    try:
        values: list = [t._value for t in inputs]
    except AttributeError:
        return _symbolically(opdef, inputs, args, given, name)
    if engine.elsewhere is not None:
        outputs = engine.elsewhere(opdef, inputs, attrs, counts)
        if outputs is not None:
            return _recorded(opdef, inputs, outputs, attrs, counts)
    if counts:
        values = group_inputs(opdef, values, counts)
    node = EagerOp(opdef, inputs, [], attrs, counts) if kernel.wants_node else None
    bound = kernel.bind(attrs, node)
    types = output_types(opdef, attrs)                 # before the kernel: it bounds the number of outputs
    device = None
    if placement.needed():
        device = placement.choose(opdef, attrs, inputs)
        if node is not None:
            node.device = device.name
        bound = placement.on_device(bound, opdef, device, inputs, counts, types)
        if settings.log_placement:
            placement.log(opdef, device)
    machine.look()
    before = host_threads.use_at_most(machine.threads) if machine.threads else 0
    try:
        out = bound(*values, ctx=eager_context()) if kernel.wants_ctx else bound(*values)
    except errors.OpError as e:
        raise _with_name(e, opdef, name) from None
    except Exception as e:
        made_as = kind(e)
        if made_as is None:
            raise
        raise _typed(e, made_as, opdef, inputs, attrs, counts, name) from e
    finally:
        if before:
            host_threads.use_cores(before)
    if len(opdef.outputs) == 1 and not opdef.list_output:
        outputs = [EagerTensor(out, types[0])]
    elif not types:
        return [] if opdef.list_output else None
    else:
        outputs = [EagerTensor(v, t) for v, t in zip(opdef.flat(out), types, strict=True)]
    if device is not None and not opdef.calls:
        for t in outputs:
            t._on = device
    return _recorded(opdef, inputs, outputs, attrs, counts)


def _recorded(opdef: OpDef, inputs: list, outputs: list, attrs: dict[str, Any], counts: tuple) -> Any:
    """The results of a call as returned to the caller, recorded on the watching tapes."""
    if not outputs:
        return [] if opdef.list_output else None
    if context.state.tapes:
        record(EagerOp(opdef, inputs, outputs, attrs, counts), inputs, outputs)
    if len(opdef.outputs) == 1:
        return outputs if opdef.list_output else outputs[0]
    return structure(opdef, outputs, attrs)


def _symbolically(opdef: OpDef, inputs: list, args: tuple, given: dict[str, Any], name: str | None) -> Any:
    """An op on a symbolic tensor is added to the graph that such tensors live in (see Graph.symbolic)."""
    graph = next(t.graph for t in inputs if not hasattr(t, "_value"))
    if name and name[-1] == "/":        # the scope was opened eagerly: its name may be taken there
        name = name[:-1]
    with graph.as_default():
        return apply(opdef, args, given, name)


def _with_name(e: errors.OpError, opdef: OpDef, name: str | None) -> errors.OpError:
    if "[Op:" in str(e):
        return e
    label = f" name: {name if name[-1] == '/' else context.state.scope_name + name}" if name else ""
    made_as: Any = type(e)
    return made_as(None, None, f"{e.message} [Op:{opdef.name}]{label}")


def _typed(e: Exception, made_as: type, opdef: OpDef, inputs: list, attrs: dict[str, Any], counts: tuple,
           name: str | None) -> Exception:
    """A kernel's exception as one of tf.errors; prefers the message of the shape rule, if that fails too."""
    text = _rule_error(opdef, inputs, attrs, counts)
    if text:
        made_as = errors.InvalidArgumentError
    return _with_name(made_as(None, None, text or reason(e)), opdef, name)


def _rule_error(opdef: OpDef, inputs: list, attrs: dict[str, Any], counts: tuple) -> str | None:
    rule = opdef.shape_rule
    if rule is None:
        return None
    op = EagerOp(opdef, inputs, [], attrs, counts)
    shapes: list = group_inputs(opdef, [t.static_dims for t in inputs], counts)
    try:
        rule(*shapes, **{n: ShapeContext(op) if n == "c" else attrs[n] for n in opdef.shape_wants})
    except ValueError as e:
        return str(e)
    except Exception:
        return None
    return None


engine.execute = execute
