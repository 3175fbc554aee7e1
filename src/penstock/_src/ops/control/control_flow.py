"""Control flow: tf.cond, tf.case, tf.switch_case, tf.while_loop, and the ops of v1 control flow.

In v1 graphs conditionals are Switch and Merge, loops are Enter, Merge, Switch, NextIteration and Exit: the contexts in
graph/control_flow_context.py build them, execute/dataflow.py runs them, graph/control_flow_grad.py differentiates them.
In functions, and with v2 control flow, they are functional ops (ops/control/functional_control.py). In eager execution, they
are Python control flow.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, common
from penstock._src.graph import context, control_flow_grad
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.control_flow_context import CondContext
from penstock._src.graph.control_flow_util import merge
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.graph.while_context import WhileContext
from penstock._src.ops.control.checks import assert_
from penstock._src.ops.control.functional_control import cond_v2, declare_common, switch_case_v2, while_v2
from penstock._src.ops.registry import get, op

# -- the ops ------------------------------------------------------------------------------------------------------
switch = op("Switch", "data: T, pred: bool -> output_false: T, output_true: T", "T: type", control_flow="switch")
ref_switch = op("RefSwitch", "data: Ref(T), pred: bool -> output_false: Ref(T), output_true: Ref(T)", "T: type",
                control_flow="switch")
merge_op = op("Merge", "inputs: N * T -> output: T, value_index: int32", "T: type, N: int >= 1", control_flow="merge")
ref_merge = op("RefMerge", "inputs: Ref(N * T) -> output: Ref(T), value_index: int32", "T: type, N: int >= 1",
               control_flow="merge")
_ENTER = "T: type, frame_name: string, is_constant: bool = False, parallel_iterations: int = 10"
enter = op("Enter", "data: T -> output: T", _ENTER, control_flow="enter")
ref_enter = op("RefEnter", "data: Ref(T) -> output: Ref(T)", _ENTER, control_flow="enter")
exit_op = op("Exit", "data: T -> output: T", "T: type", control_flow="exit")
ref_exit = op("RefExit", "data: Ref(T) -> output: Ref(T)", "T: type", control_flow="exit")
next_iteration = op("NextIteration", "data: T -> output: T", "T: type", control_flow="next", back_edge=True)
ref_next_iteration = op("RefNextIteration", "data: Ref(T) -> output: Ref(T)", "T: type", control_flow="next",
                        back_edge=True)
loop_cond = op("LoopCond", "input: bool -> output: bool", control_flow="loop_cond").no_gradient()
control_trigger = op("ControlTrigger", "->", control_flow="trigger").no_gradient()
abort = op("Abort", "->", "error_msg: string = '', exit_without_error: bool = False", foldable=False).no_gradient()
ref_select = op("RefSelect", "index: int32, inputs: Ref(N * T) -> output: Ref(T)", "T: type, N: int >= 1",
                foldable=False)

for _op in (switch, ref_switch):
    _op.shape(lambda data, pred: [data, data])
    _op.gradient(control_flow_grad.switch_gradient)
for _op in (enter, ref_enter):
    _op.shape(lambda data: data)
    _op.value(lambda op, values: values(0) if op.attrs["is_constant"] else None)
    _op.gradient(control_flow_grad.enter_gradient)
for _op in (exit_op, ref_exit):
    _op.shape(lambda data: data)
    _op.gradient(control_flow_grad.exit_gradient)
for _op in (next_iteration, ref_next_iteration):
    _op.shape(lambda data: data)
    _op.gradient(lambda op, grad: grad)
loop_cond.shape(lambda input: input)
loop_cond.kernel(lambda input: input)


for _op in (merge_op, ref_merge):
    _op.shape(lambda inputs: [functools.reduce(common, inputs), ()])
    _op.gradient(control_flow_grad.merge_gradient)


@abort.kernel
def _abort_kernel(*, error_msg, exit_without_error):
    if not exit_without_error:
        raise errors.AbortedError(None, None, error_msg or "Abort_op intentional failure")


@ref_select.shape
def _ref_select_shape(index, inputs):
    return inputs[0] if all(s == inputs[0] for s in inputs) else None


@ref_select.kernel
def _ref_select_kernel(index, inputs):
    i = int(index)
    if not 0 <= i < len(inputs):
        raise errors.invalid(f"Index must be in the range [0, {len(inputs)}) but got {i}")
    return inputs[i]


def _functional() -> bool:
    """Whether conditionals and loops are built as functional ops here."""
    return context.process.v2_control_flow or context.current_graph().building_function


# -- cond -----------------------------------------------------------------------------------------------------------
@export(v1=["cond"])
def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, strict: bool = False, name: str | None = None,
         fn1: Any = None, fn2: Any = None) -> Any:
    """The result of true_fn() if `pred` is true, else of false_fn(). In graphs both are called, one of them runs.

    Args:
        pred: Boolean scalar.
        true_fn: Function without arguments.
        false_fn: Function without arguments that returns the same structure.
        strict: Whether a list of one tensor stays a list.
        name: Name of the operation.
        fn1: Old name of `true_fn`.
        fn2: Old name of `false_fn`.

    Returns:
        The result of the branch that ran. Ops made outside of the branches run in any case.

    Raises:
        TypeError: if a branch is not callable.

    >>> x = tf.constant(-3.)
    >>> tf.cond(x < 0., lambda: -x, lambda: x).numpy()
    np.float32(3.0)
    """
    true_fn = _one_of(true_fn, fn1, "true_fn", "fn1")
    false_fn = _one_of(false_fn, fn2, "false_fn", "fn2")
    if context.executing_eagerly():
        with name_scope(name, "cond", [pred]):
            result = true_fn() if pred else false_fn()
            return result if strict else _unpack_single(result)
    if _functional():
        return cond_v2(pred, true_fn, false_fn, name)
    with name_scope(name, "cond", [pred]):
        return _cond(pred, true_fn, false_fn, strict)


@export(v2=["cond"])
def cond_for_v2(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """The result of true_fn() if `pred` is true, else of false_fn().

    Args:
        pred: A boolean scalar.
        true_fn: Function without arguments; it runs if `pred` is true.
        false_fn: Function without arguments; it runs otherwise, and returns the same structure.
        name: Name of the operation.

    Returns:
        What the chosen function returns.

    Raises:
        TypeError: if a branch is not callable, or `pred` is a Python bool in a graph.

    >>> x = tf.constant(3.)
    >>> float(tf.cond(x > 2., lambda: x * 2., lambda: x))
    6.0
    """
    return cond(pred, true_fn, false_fn, True, name)


def _one_of(new: Any, old: Any, new_name: str, old_name: str) -> Callable:
    if old is not None and new is not None:
        raise TypeError(f"cond(): {new_name} and {old_name} may not be set simultaneously.")
    fn = old if new is None else new
    if fn is None:
        raise TypeError(f"cond(): {new_name} argument required")
    if not callable(fn):
        raise TypeError(f"{new_name} must be callable.")
    return context.traced_as(fn)


def _unpack_single(x: Any) -> Any:
    return x[0] if isinstance(x, (list, tuple)) and len(x) == 1 else x


def _cond(pred: Any, true_fn: Callable, false_fn: Callable, strict: bool) -> Any:
    """A conditional of Switch and Merge."""
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    pred = convert(pred)
    off, on = switch(pred, pred)
    pivots = [get("Identity")(on, name="switch_t"), get("Identity")(off, name="switch_f")]
    pred = get("Identity")(pred, name="pred_id")
    for t in (on, off, *pivots, pred):
        t.graph.prevent_fetching(t.op)
    true_ctxt, true_result, true_tensors = _branch(pred, pivots[0], 1, true_fn, "true_fn")
    false_ctxt, false_result, false_tensors = _branch(pred, pivots[1], 0, false_fn, "false_fn")
    if not strict:
        true_result, false_result = _unpack_single(true_result), _unpack_single(false_result)
    _check_branches(true_result, false_result, true_tensors, false_tensors)
    merged = [merge([f, t]) for f, t in zip(nest.flatten(false_tensors, expand_composites=True),
                                           nest.flatten(true_tensors, expand_composites=True), strict=True)]
    flat = nest.flatten(true_result, expand_composites=True)
    merged = [x._with_flow(t) if getattr(x, "_is_tensor_array", False) else t for x, t in zip(flat, merged, strict=True)]
    if true_ctxt.outer_context is None:
        graph = context.current_graph()
        graph.add_to_collection(GraphKeys.COND_CONTEXT, true_ctxt)
        graph.add_to_collection(GraphKeys.COND_CONTEXT, false_ctxt)
    packed = declare_common(nest.pack_sequence_as(true_result, merged, expand_composites=True), [true_result, false_result])
    return packed if strict else _unpack_single(packed)


def switched(pred: Tensor, true_fn: Callable, false_fn: Callable) -> Any:
    """A conditional of Switch and Merge, independent of the mode: it can be partitioned between tasks."""
    with name_scope(None, "cond", [pred]):
        return _cond(pred, true_fn, false_fn, True)


def _branch(pred: Tensor, pivot: Tensor, branch: int, fn: Callable, name: str) -> tuple:
    ctxt = CondContext(pred, pivot, branch)
    ctxt.Enter()
    try:
        result, tensors = ctxt.BuildCondBranch(fn)
        if result is None:
            raise ValueError(f"{name} must have a return value.")
        ctxt.ExitResult(tensors)
    finally:
        ctxt.Exit()
    return ctxt, result, tensors


def _check_branches(true_result: Any, false_result: Any, true_tensors: Any, false_tensors: Any) -> None:
    _match_index_types(true_result, false_result, true_tensors, false_tensors)
    try:
        nest.assert_same_structure(true_result, false_result, expand_composites=True)
    except (TypeError, ValueError) as e:
        kind = "types" if isinstance(e, TypeError) else "values"
        raise type(e)(f"Incompatible return {kind} of true_fn and false_fn: {e}") from None
    if not true_tensors:
        raise ValueError("true_fn and false_fn must return at least one result.")
    for t, f in zip(nest.flatten(true_tensors, expand_composites=True),
                    nest.flatten(false_tensors, expand_composites=True), strict=True):
        if t.dtype.base_dtype != f.dtype.base_dtype:
            raise ValueError(f"Outputs of true_fn and false_fn must have the same type: {t.dtype.name}, {f.dtype.name}")


def _match_index_types(*results: Any) -> None:
    """IndexedSlices of the two branches get indices of one type."""
    for a, b in zip(*(nest.flatten(r) for r in results[:2]), strict=False):
        if isinstance(a, IndexedSlices) and isinstance(b, IndexedSlices) and a.indices.dtype != b.indices.dtype:
            for x in (a, b):
                x._indices = get("Cast")(x.indices, DstT=dtypes.int64)
    for a, b in zip(*(nest.flatten(r) for r in results[2:]), strict=False):
        if isinstance(a, IndexedSlices) and isinstance(b, IndexedSlices) and a.indices.dtype != b.indices.dtype:
            for x in (a, b):
                x._indices = get("Cast")(x.indices, DstT=dtypes.int64)


# -- case -----------------------------------------------------------------------------------------------------------
@export(v1=["case"])
def case(pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False,
         name: str = "case") -> Any:
    """The result of the function of the first true predicate, else of `default`.

    Args:
        pred_fn_pairs: Pairs of a boolean scalar and a function, or a dictionary of them.
        default: Function for the case that no predicate is true.
        exclusive: Whether more than one true predicate is an error.
        strict: Whether a list with one element is returned as a list.
        name: Name of the operation.

    Returns:
        What the function returns.

    >>> x = tf.constant(3)
    >>> tf.case([(x < 0, lambda: tf.constant("negative")), (x > 0, lambda: tf.constant("positive"))],
    ...         default=lambda: tf.constant("zero"))
    <tf.Tensor: shape=(), dtype=string, numpy=b'positive'>
    """
    return _case(functools.partial(cond, strict=strict), pred_fn_pairs, default, exclusive, name)


@export(v2=["case"])
def case_v2(pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False,
            name: str = "case") -> Any:
    """The result of the function of the first true predicate, else of `default`.

    Args:
        pred_fn_pairs: A list of pairs of a boolean scalar and a function without arguments, or a dictionary of these.
        default: The function if no predicate is true.
        exclusive: Whether it is an error if several predicates are true.
        strict: Whether lists of one element stay lists.
        name: Name of the operation.

    Returns:
        What the chosen function returns.

    Raises:
        InvalidArgumentError: if no predicate is true and there is no default.

    >>> x = tf.constant(3)
    >>> int(tf.case([(x > 5, lambda: 1), (x > 2, lambda: 2)], default=lambda: 0))
    2
    """
    return case(pred_fn_pairs, default, exclusive, strict, name)


def _case(cond_fn: Callable, pairs: Any, default: Any, exclusive: bool, name: str) -> Any:
    predicates, actions = _case_arguments(pairs, exclusive)
    with name_scope(name, "case", [list(predicates)]):
        if default is None:
            default, predicates, actions = _default_action(predicates, actions)
        fn = default
        for p, action in reversed(list(zip(predicates, actions, strict=True))):
            fn = functools.partial(cond_fn, p, true_fn=action, false_fn=fn)
        if not exclusive:
            return fn()
        with control_dependencies(_checks(_at_most(predicates, 1, "Input error: exclusive=True") if predicates else None)):
            return fn()


def _case_arguments(pairs: Any, exclusive: bool) -> tuple:
    if not isinstance(pairs, (list, tuple, dict)):
        raise TypeError("fns must be a list, tuple, or dict")
    if isinstance(pairs, dict):
        items = list(pairs.items())
        if type(pairs) is dict and context.executing_eagerly() and not exclusive:
            raise ValueError("Unordered dictionaries are not supported for the `pred_fn_pairs` argument when "
                             "`exclusive=False` and eager mode is enabled.")
        pairs = sorted(items, key=lambda i: i[0].name) if type(pairs) is dict and not context.executing_eagerly() else items
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("pred_fn_pairs must contain pairs")
        pred, fn = pair
        if not isinstance(pred, Tensor):
            raise TypeError(f"pred must be a Tensor, got: {pred}")
        if pred.dtype.base_dtype != dtypes.bool:
            raise TypeError(f"A predicate must be a boolean tensor, got {pred}")
        if not callable(fn):
            raise TypeError(f"fn for pred {pred} must be callable.")
    predicates, actions = zip(*pairs, strict=True)
    return predicates, actions


def _default_action(predicates: tuple, actions: tuple) -> tuple:
    """Without a default, the last action is the default, and its predicate must be true."""
    *others, last = predicates
    action = actions[-1]

    def default() -> Any:
        wrong = (f"Implementation error: selected default action #{len(others)} was called, but some of other predicates "
                 "are True: ")
        none_true = ["Input error: None of conditions evaluated as True:", get("Pack")(list(predicates), name="preds_c")]
        with control_dependencies(_checks(_at_most(others, 0, wrong) if others else None,
                                          _assert(last, none_true, None))):
            return action()
    return default, others, actions[:-1]


def _checks(*asserts: Any) -> list:
    return [a for a in asserts if a is not None]


def _assert(condition: Any, data: list, summarize: int | None) -> Any:
    return assert_(condition, data, summarize)


def _at_most(predicates: Any, n: int, message: str) -> Any:
    """Fails if more than `n` of the predicates are true."""
    stacked = get("Pack")(list(predicates), name="preds_c")
    count = get("Sum")(get("Cast")(stacked, DstT=dtypes.int32), convert([0], dtypes.int32), name="num_true_conds")
    names = "?" if context.executing_eagerly() else ", ".join(getattr(p, "name", "?") for p in predicates)
    return _assert(get("LessEqual")(count, n), [f"{message}: more than {n} conditions ({names}) evaluated as True:", stacked],
                   len(predicates))


@export("switch_case")
def switch_case(branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case") -> Any:
    """The result of branch_fns[branch_index](), or of `default` (else the last) if the index is out of range.

    Args:
        branch_index: An int32 scalar.
        branch_fns: A list of functions without arguments, or pairs of an index and a function.
        default: The function for other indices; by default the last one.
        name: Name of the operation.

    Returns:
        What the chosen function returns.

    >>> int(tf.switch_case(tf.constant(1), [lambda: 10, lambda: 20]))
    20
    """
    actions = _indexed_branches(branch_fns, default, branch_index)
    if context.executing_eagerly():
        i = int(branch_index)
        return actions[i if 0 <= i < len(actions) else -1]()
    if branch_index.dtype.base_dtype != dtypes.int32:
        branch_index = get("Cast")(branch_index, DstT=dtypes.int32)
    return switch_case_v2(branch_index, actions, name)


def _indexed_branches(branch_fns: Any, default: Any, branch_index: Any) -> list[Callable]:
    if not isinstance(branch_index, Tensor):
        raise TypeError(f"branch_index must a Tensor, got {type(branch_index)}")
    if not branch_index.dtype.is_integer:
        raise TypeError(f"branch_index must an integer Tensor, got {branch_index.dtype!r}")
    if not branch_fns:
        raise ValueError("Must provide at least one item in branch_fns")
    if not isinstance(branch_fns, (list, tuple, dict)):
        raise TypeError("branch_fns must be a list, tuple, or dict")
    pairs = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if all(callable(f) for f in pairs):
        pairs = list(enumerate(pairs))
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("branch_fns must contain pairs")
        if not isinstance(pair[0], int):
            raise TypeError(f"key must be a Python `int`, got {type(pair[0])}")
        if not callable(pair[1]):
            raise TypeError(f"fn for key {pair[0]} must be callable.")
    keys = sorted(k for k, _ in pairs)
    if keys != list(range(len(keys))):
        raise ValueError(f"branch indices (keys) must form contiguous range of [0 to {len(keys)}) but found "
                         f"{{{','.join(map(str, keys))}}}")
    actions = [f for _, f in sorted(pairs, key=lambda p: p[0])]
    return [context.traced_as(f) for f in actions + ([default] if default is not None else [])]


# -- loops ----------------------------------------------------------------------------------------------------------
@export(v2=["while_loop"])
def while_loop_v2(cond: Callable, body: Callable, loop_vars: Any, shape_invariants: Any = None,
                  parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
                  maximum_iterations: Any = None, name: str | None = None) -> Any:
    """Repeats `body` while `cond` is true; the loop variables after the last iteration.

    Args:
        cond: Function of the loop variables that returns a boolean scalar.
        body: Function of the loop variables that returns the next ones, in the same structure.
        loop_vars: The first values.
        shape_invariants: Shapes that cover the variables of all rounds, where they change.
        parallel_iterations: How many rounds of a graph's loop may overlap.
        back_prop: Whether gradients go through the loop.
        swap_memory: Accepted; it changes nothing here.
        maximum_iterations: The most rounds.
        name: Name of the operation.

    Returns:
        The loop variables after the last round.

    Raises:
        TypeError: if `cond` or `body` is not callable; ValueError: if a variable changes its shape or type.

    >>> i, total = tf.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t + i), (0, 0))
    >>> int(total)
    6
    """
    return while_loop(cond, body, loop_vars, shape_invariants, parallel_iterations, back_prop, swap_memory, name,
                      maximum_iterations, True)


@export(v1=["while_loop"])
def while_loop(cond: Callable, body: Callable, loop_vars: Any, shape_invariants: Any = None,
               parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
               name: str | None = None, maximum_iterations: Any = None, return_same_structure: bool = False) -> Any:
    """Repeats `body` while `cond` is true; the loop variables after the last iteration.

    Args:
        cond: Function of the loop variables that returns a boolean scalar.
        body: Function of the loop variables that returns their next values.
        loop_vars: Start values: a nest of tensors, TensorArrays and composite tensors.
        shape_invariants: Static shapes that hold in every iteration, for variables whose shape changes.
        parallel_iterations: How many iterations may run at the same time.
        back_prop: Accepted for compatibility and unused.
        swap_memory: Accepted for compatibility and unused: memory is not swapped to the host.
        name: Name of the operation.
        maximum_iterations: The loop ends after this number of iterations in any case.
        return_same_structure: Whether a single loop variable is returned as it was given, in its list.

    Returns:
        The loop variables after the last iteration.

    Raises:
        ValueError: if `body` changes the structure, a type, or a shape without an invariant.

    >>> tf.while_loop(lambda i: i < 10, lambda i: i + 3, [tf.constant(0)]).numpy()
    np.int32(12)
    """
    if not loop_vars:
        raise ValueError("No loop variables provided")
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if parallel_iterations < 1:
        raise TypeError("parallel_iterations must be a positive integer.")
    cond, body = context.traced_as(cond), context.traced_as(body)
    if context.executing_eagerly():
        return _eager_loop(cond, body, loop_vars, maximum_iterations, return_same_structure)
    if _functional():
        like, shapes = loop_invariants(loop_vars, shape_invariants)
        return while_v2(cond, body, loop_vars, shapes, parallel_iterations, maximum_iterations, name,
                        return_same_structure, like)
    with name_scope(name, "while", None):
        return _graph_loop(cond, body, loop_vars, shape_invariants, parallel_iterations, back_prop, swap_memory,
                           maximum_iterations, return_same_structure)


def cut_loop(cond: Callable, body: Callable, loop_vars: list, shapes: list) -> list:
    """A loop of Enter, Exit and NextIteration, independent of the mode: it can be partitioned between tasks."""
    with name_scope(None, "while", None):
        return list(_graph_loop(cond, body, loop_vars, shapes, 1, False, False, None, True))


def _graph_loop(cond: Callable, body: Callable, loop_vars: Any, shape_invariants: Any, parallel_iterations: int,
                back_prop: bool, swap_memory: bool, maximum_iterations: Any, return_same_structure: bool) -> Any:
    """A loop of Enter, Merge, Switch, NextIteration and Exit. With a limit, it counts iterations in an extra variable."""
    limited = maximum_iterations is not None
    if limited:
        maximum_iterations = convert(maximum_iterations, name="maximum_iterations")
        if maximum_iterations.static_dims != ():
            raise ValueError(f"maximum_iterations must be a scalar, saw shape: {maximum_iterations.shape}")
        cond, body, loop_vars = _limited(cond, body, loop_vars, maximum_iterations, return_same_structure)
        if shape_invariants is not None:
            shape_invariants = (TensorShape([]), shape_invariants)
    like, shapes = loop_invariants(loop_vars, shape_invariants)
    loop = WhileContext(maximum_iterations, parallel_iterations, back_prop, swap_memory)
    if loop.outer_context is None:
        context.current_graph().add_to_collection(GraphKeys.WHILE_CONTEXT, loop)
    result = loop.BuildLoop(cond, body, loop_vars, shapes, return_same_structure, like)
    return result[1] if limited else result


def _limited(cond: Callable, body: Callable, loop_vars: Any, maximum: Tensor, same_structure: bool) -> tuple:
    counter = convert(0, maximum.dtype.base_dtype, name="iteration_counter")
    less, also, add = get("Less"), get("LogicalAnd"), get("AddV2")
    if len(loop_vars) == 1 and not same_structure:
        return (lambda i, v: also(less(i, maximum), cond(v)),
                lambda i, v: (add(i, 1), body(v)), (counter, loop_vars[0]))
    return (lambda i, v: also(less(i, maximum), cond(*v)),
            lambda i, v: (add(i, 1), body(*v)), (counter, loop_vars))


def _eager_loop(cond: Callable, body: Callable, loop_vars: Any, maximum: Any, same_structure: bool) -> Any:
    limit = None if maximum is None else int(maximum)
    single = len(loop_vars) == 1 and not same_structure
    packed, count = False, 0
    while (limit is None or count < limit) and cond(*loop_vars):
        before, loop_vars = loop_vars, body(*loop_vars)
        if not isinstance(loop_vars, (list, tuple)):
            packed, loop_vars = packed or single, (loop_vars,)
        if count == 0 or len(loop_vars) != len(before):
            nest.assert_same_structure(list(before), list(loop_vars))
        count += 1
    result = nest.map_structure(lambda x: x if getattr(x, "_is_tensor_array", False) else convert(x), loop_vars,
                                expand_composites=True)
    if packed or (single and len(result) == 1):
        return result[0]
    return result


def loop_invariants(loop_vars: Any, shapes: Any) -> tuple[Any, list | None]:
    """(the loop variables with the type that each composite has in every iteration in its place, one TensorShape per tensor).

    The shapes are None if each tensor keeps the shape that it starts with.
    """
    flat = nest.flatten(loop_vars)
    if shapes is None:
        if not any(_is_composite(v) for v in flat):
            return loop_vars, None
        wanted: list = [None] * len(flat)
    else:
        nest.assert_same_structure(loop_vars, shapes, expand_composites=False)
        wanted = nest.flatten(shapes)
    out: list = []
    like: list = []
    for v, s in zip(flat, wanted, strict=True):
        if _is_composite(v):
            spec = v._type_spec if s is None else _composite_spec(v, s)
            like.append(v if s is None else spec)
            out.extend(t.shape for t in nest.flatten(spec, expand_composites=True))
        else:
            like.append(v)
            out.append(convert(v.flow if getattr(v, "_is_tensor_array", False) else v).shape if s is None
                       else TensorShape.of(_spec_shape(v, s)))
    return nest.pack_sequence_as(loop_vars, like), out


def _is_composite(v: Any) -> bool:
    return not isinstance(v, Tensor) and hasattr(v, "_type_spec") and not getattr(v, "_is_tensor_array", False)


def _spec_shape(v: Any, s: Any) -> Any:
    if hasattr(s, "_component_specs"):
        if type(s).__name__ != "TensorSpec" or s.dtype != convert(v).dtype:
            raise TypeError(f"TypeSpec {s!r} is not compatible with {v!r}")
        return s.shape.static_dims
    if not isinstance(s, TensorShape):
        raise ValueError("`shapes` must be a (possibly nested) list of shapes.")
    return s.static_dims


def _composite_spec(v: Any, s: Any) -> Any:
    """The spec of a composite loop variable: one that fits it, or from a shape, of a SparseTensor's dense_shape or of
    IndexedSlices' values."""
    if hasattr(s, "_component_specs"):
        if not s.is_compatible_with(v):
            raise TypeError(f"TypeSpec {s!r} is not compatible with {v!r}")
        return s
    if not isinstance(s, TensorShape):
        raise TypeError(f"Expected shape to be a TypeSpec or TensorShape, got {s!r}")
    make = getattr(v, "_shape_invariant_to_type_spec", None)
    if make is None:
        raise TypeError(f"To describe or constrain a {type(v).__name__}, use a {type(v._type_spec).__name__} instead of a "
                        "TensorShape.")
    return make(s)


