"""The one registry of operations.

An op is declared once, in the file of its family, and everything about it is declared there:

    mat_mul = op("MatMul", "a: T, b: T -> product: T",
                 "transpose_a: bool = False, transpose_b: bool = False, T: type in {float int32 int64}")

    @mat_mul.shape
    def _mat_mul_shape(a, b, *, transpose_a, transpose_b): ...        # static shapes in, static shape out

    @mat_mul.kernel
    def _mat_mul_kernel(a, b, *, transpose_a, transpose_b): ...       # torch tensors in, torch tensor out

    @mat_mul.gradient
    def _mat_mul_gradient(op, grad): ...                              # builds ops

Graph construction, eager execution, autodiff, the optimizer, the placer and GraphDef import all read it. Rules of single passes
(`@rules.fusion.fuse(mat_mul)`) stand there, too; their tables are in `rules.py`.

*Kernels* get one argument per declared input (a list for list inputs) and, by keyword, just the attributes
they name; a parameter `ctx` requests the step context, `node` the operation. They return a tensor, a tuple for
several outputs, or None for none. Strings are numpy object arrays of bytes. A kernel may return a view of an input, or
the input.

*Shape rules* get static shapes (None: unknown rank; a tuple with None for unknown dimensions) and attributes
in the same way; a parameter `c` requests the ShapeContext, through which constant inputs are seen. They return
the output's shape, or a list with one shape per output.

*Devices*: a kernel runs on all types of devices, unless it is registered for one of them. `gpu=False` means none on GPUs,
`gpu="float int64"` one for these values of the first type attribute. Ops on strings, and ops that block, run on CPUs
only, unless `gpu` is a function of the attributes. `host="limit"` names inputs that kernels read on the host (`shape`, `axis`
and the like are known).

*Gradients* get the op and one gradient per output, and return one gradient (or None) per input.
"""
from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock._src.base.api import export
from penstock._src.base.dispatch import dispatched
from penstock._src.base.dtypes import as_dtype
from penstock._src.base.near_names import near_names
from penstock._src.base.tracebacks import shorten
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.devices import KINDS
from penstock._src.ops import rules
from penstock._src.ops.described import described
from penstock._src.ops.signature import REQUIRED, TYPE_SETS, Arg, Attr, parse_args, parse_attrs

OPS: dict[str, OpDef] = {}

# Integer inputs of these names are shapes, sizes and axes in every op: kernels read them on the host, on any device.
_ON_HOST = frozenset(
    "axis begin block_shape branch_index concat_dim crop_size crops depth dim dimension dims element_shape end fft_length "
    "filter_sizes image_size index input_shape input_sizes k ksize leading_dims lengths max_num_elements max_output_size "
    "max_output_size_per_class max_total_size multiples new_shape num_bits num_classes num_cols num_elements num_lower "
    "num_rows num_samples num_segments num_upper orig_input_shape output_shape paddings perm reduction_indices s0 s1 "
    "seq_len_max shape shape_to_prepend shift size size_splits sizes split_dim strides dense_shape a_shape".split())
GRADIENTS: dict[str, Callable | None] = {}


class Known:
    """What is known of an op when a step is compiled: attributes, static shapes, constant inputs."""

    __slots__ = ("op", "attrs", "used", "_fed")

    def __init__(self, op: Any, fed: Any):
        self.op, self.attrs, self._fed = op, op.attrs, fed
        self.used: set[int] = set()          # constant inputs that a rule has inspected

    def dims(self, i: int) -> tuple | None:
        """The shape of input i if all of it is known, else None."""
        dims = self.op.inputs[i].static_dims
        return None if dims is None or None in dims else dims

    def rank(self, i: int) -> int | None:
        """The number of dimensions of input i, if it is known."""
        dims = self.op.inputs[i].static_dims
        return None if dims is None else len(dims)

    def out(self, i: int = 0) -> tuple | None:
        """The shape of output i if all of it is known, else None."""
        dims = self.op.outputs[i].static_dims
        return None if dims is None or None in dims else dims

    def const(self, i: int) -> Any:
        """The value of input i as a numpy array if it is a constant, else None. The kernel then gets None for this input."""
        t = self.op.inputs[i]
        if not t.op.opdef.constant or id(t) in self._fed:
            return None
        self.used.add(i)
        return t.op.attrs["value"]

    def distinct(self, i: int) -> bool:
        """Whether no element of input i, a vector, occurs twice."""
        t = self.op.inputs[i]
        return t.op.opdef in rules.program.distinct and not t.value_index and id(t) not in self._fed

    def floating(self, i: int = 0) -> bool:
        """Whether input i is of a real floating type."""
        return self.op.inputs[i].dtype.base_dtype.is_floating

    def plain(self, i: int = 0) -> bool:
        """Whether input i is of a real floating type, or of an integer type of torch."""
        return self.floating(i) or self.op.inputs[i].dtype.base_dtype.name in ("int32", "int64")


class Kernel:
    """A kernel function and its calling convention."""

    __slots__ = ("fn", "attrs", "wants_ctx", "wants_node", "op", "by_type")

    def __init__(self, fn: Callable):
        names = keyword_names(fn)
        self.fn, self.wants_ctx, self.wants_node = fn, "ctx" in names, "node" in names
        self.attrs = tuple(n for n in names if n not in ("ctx", "node"))
        self.op: OpDef | None = None               # set with `by_type`
        self.by_type: dict[Any, Kernel] = {}       # other kernels for some types of the first input

    def bind(self, attrs: dict[str, Any], node: Any = None) -> Callable:
        """The kernel with its attributes (and node) filled in; called with input values (and ctx)."""
        if self.op is not None:
            other = self.by_type.get(attrs[self.op.inputs[0].type_attr])  # type: ignore[index]
            if other is not None:
                return other.bind(attrs, node)
        if not self.attrs and not self.wants_node:
            return self.fn
        given = {n: attrs[n] for n in self.attrs}
        if self.wants_node:
            given["node"] = node
        return functools.partial(self.fn, **given)


def keyword_names(fn: Callable) -> list[str]:
    """The keyword-only parameters of a rule without defaults, or those in its attribute `wants`; builtins have none.

    It reads code objects: `inspect.signature`, called for every rule, would be a tenth of the time of `import penstock`.
    """
    given: set[str] = set()
    while not hasattr(fn, "wants"):
        if isinstance(fn, functools.partial):
            given.update(fn.keywords)
            fn = fn.func
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        else:
            break
    else:
        return [n for n in fn.wants if n not in given]
    if not isinstance(fn, types.FunctionType):
        return []
    code, defaults = fn.__code__, fn.__kwdefaults__ or {}
    names = code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
    return [n for n in names if n not in given and n not in defaults or n == "ctx"]


_DESCRIBED = frozenset(("attrs", "inputs", "outputs", "input_names", "list_output", "plain", "calls", "has_ref_inputs",
                        "has_refs", "inferred_attrs", "explicit_attrs", "function_attrs", "_has_strings"))


class OpDef:
    """The declaration of one op. Calling it adds the op to the graph, or executes it.

    It has the properties that every part of the system needs: signature, shapes, kernels, gradient (in GRADIENTS), effects.
    Rules of single passes are in their tables (`rules.py`). Slots make an entry in the wrong place an error.
    """

    __slots__ = ("name", "doc", "__name__", "_declaration", "_signature",
                 "kernels", "gpu", "host_inputs", "shape_rule", "shape_wants", "value_rule",
                 "stateful", "commutative", "blocking", "control_flow", "per_session", "back_edge", "foldable",
                 "transfer", "constant", "inert", "client_code", "reads", "random", *_DESCRIBED)

    attrs: dict[str, Attr]
    inputs: list[Arg]
    outputs: list[Arg]

    def __init__(self, name: str, args: str, attrs: str = "", *, stateful: bool = False,
                 commutative: bool = False, blocking: bool = False, control_flow: bool = False,
                 foldable: bool = True, per_session: bool = False, back_edge: bool = False,
                 gpu: bool | str | Callable[[dict[str, Any]], bool] = True, host: str = "", transfer: str = "",
                 constant: bool = False, inert: bool = False, client_code: bool = False, doc: str | None = None):
        self.name = self.__name__ = name
        self._declaration = args, attrs
        self.doc = doc
        self._signature: inspect.Signature | None = None
        # kernels
        self.kernels: dict[str, Kernel] = {}
        self.gpu = gpu if not isinstance(gpu, str) else frozenset(  # whether it runs there, or for which types
            as_dtype(t) for g in gpu.split() for t in TYPE_SETS.get(g, g).split())
        self.host_inputs = frozenset(host.split()) | _ON_HOST       # inputs that kernels on other devices need on the host
        # shapes
        self.shape_rule: Callable | None = None
        self.shape_wants: tuple[str, ...] = ()
        self.value_rule: Callable | None = None
        # effects
        self.stateful, self.commutative, self.blocking = stateful, commutative, blocking
        self.control_flow, self.per_session, self.back_edge = control_flow, per_session, back_edge
        self.foldable = foldable and not stateful and not control_flow and not blocking
        self.transfer = transfer                   # "send" or "recv": one end of an edge between partitions; "arg": a feed
        self.constant, self.inert = constant, inert     # its value is its attribute; it only waits
        self.client_code = client_code             # calls Python functions of the user program that built the graph
        self.reads = False                         # reads the variable that is its first input, and has no other effect
        self.random = False                        # draws from a random stream, and keeps no other state

    # -- what call sites read, computed once, when an op is first used ------------------------
    def __getattr__(self, name: str) -> Any:
        if name not in _DESCRIBED:
            raise AttributeError(f"'OpDef' object has no attribute '{name}'")
        args, attrs = self._declaration
        left, _, right = args.partition("->")
        self.attrs = parse_attrs(attrs)
        self.inputs, self.outputs = parse_args(left, self.attrs), parse_args(right, self.attrs)
        self._describe()
        return getattr(self, name)

    def flat(self, out: Any) -> list:
        """The values that a kernel returned, one for each output of the op: those of lists follow one another."""
        if len(self.outputs) == 1:
            return list(out or ()) if self.list_output else [out]
        return [v for a, o in zip(self.outputs, out or (), strict=True) for v in (o if a.is_list else (o,))]

    def _describe(self) -> None:
        self.input_names = [a.name for a in self.inputs]
        self.list_output = len(self.outputs) == 1 and self.outputs[0].is_list
        self.plain = not any(a.is_list for a in self.inputs)      # one value per input
        self.calls = any(a.kind in ("func", "list(func)") for a in self.attrs.values())    # functions
        self.has_ref_inputs = any(a.is_ref for a in self.inputs)
        self.has_refs = self.has_ref_inputs or any(a.is_ref for a in self.outputs)
        self._has_strings = any(a.type is not None and a.type.base_dtype.name == "string"
                                for a in (*self.inputs, *self.outputs))
        inferred: dict[str, None] = {}
        for a in self.inputs:
            for n in (a.type_attr, a.number_attr, a.type_list_attr):
                if n:
                    inferred[n] = None
        self.inferred_attrs = tuple(inferred)
        self.explicit_attrs = tuple(a for a in self.attrs if a not in inferred)
        self.function_attrs = tuple(n for n, a in self.attrs.items() if a.kind in ("func", "list(func)"))

    @property
    def __signature__(self) -> inspect.Signature:
        if self._signature is None:
            self._signature = self._read_signature()
        return self._signature

    def _read_signature(self) -> inspect.Signature:
        first = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in self.input_names]
        last = []
        for n in self.explicit_attrs:
            a = self.attrs[n]
            if a.default is REQUIRED:
                first.append(inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD))
            else:
                last.append(inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=a.default))
        last.append(inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None))
        return inspect.Signature(first + last)

    # -- the rules ---------------------------------------------------------------------------------
    def shape(self, rule: Callable) -> Callable:
        """Sets the shape rule."""
        self.shape_rule = rule
        self.shape_wants = tuple(keyword_names(rule))
        return rule

    def shapes_of(self, shapes: Sequence, known: Mapping[str, Any]) -> Any:
        """The result of the shape rule for inputs of these shapes; `known` has at least the attributes that it needs."""
        assert self.shape_rule is not None
        return self.shape_rule(*shapes, **{n: known[n] for n in self.shape_wants})

    def kernel(self, fn: Any = None, *, device: str = "any", types: str | None = None) -> Any:
        """Sets the kernel for a device type ("cpu", "gpu"), or for all of them.

        `types` ("uint16 string") sets another kernel for some types of the first input; the one for all other types
        must exist before. The choice is made once, when the kernel is bound.
        """
        if fn is None:
            return lambda f: self.kernel(f, device=device, types=types)
        if types is None:
            self.kernels[device] = Kernel(fn)
        else:
            self.kernels[device].op = self
            for t in types.split():
                self.kernels[device].by_type[as_dtype(t)] = Kernel(fn)
        return fn

    def gradient(self, fn: Callable) -> Callable:
        """Sets the gradient function."""
        GRADIENTS[self.name] = fn
        return fn

    def no_gradient(self) -> OpDef:
        """Declares that the op is not differentiable."""
        GRADIENTS[self.name] = None
        return self

    def value(self, rule: Callable) -> Callable:
        """Sets the rule by which an output that is used as a shape is partly known at build time."""
        self.value_rule = rule
        return rule

    def kernel_for(self, device: str) -> Kernel | Any:
        """The kernel for "cpu" or "gpu"; None when there is none on that device."""
        return self.kernels.get(device) or self.kernels.get("any")

    def device_types(self, attrs: dict[str, Any]) -> tuple[str, ...]:
        """The types of devices that have a kernel for these attributes."""
        types = [v for n, a in self.attrs.items() if a.kind in ("type", "list(type)") and n in attrs
                 for v in (attrs[n] if a.kind == "list(type)" else (attrs[n],))]
        return tuple(name for name, kind in KINDS.items() if self._runs_on(kind, types, attrs))

    def _runs_on(self, kind: type[Device], types: list, attrs: dict[str, Any]) -> bool:
        if self.kernel_for(kind.kernel_type) is None and not self.control_flow:
            return False
        if kind.host:
            return True
        if callable(self.gpu):
            return self.gpu(attrs)
        if not self.gpu or self.blocking or self._has_strings:
            return False
        types = [as_dtype(t).base_dtype for t in types]
        return all(t.name != "string" for t in types) and (self.gpu is True or not types or types[0] in self.gpu)

    # -- calling -----------------------------------------------------------------------------------
    def __call__(self, *args: Any, name: Any = None, **kwargs: Any) -> Any:
        from penstock._src.graph.build import apply
        n = len(self.inputs)
        if len(args) == n:
            inputs = args
        elif len(args) < n:
            try:
                inputs = (*args, *(kwargs.pop(a) for a in self.input_names[len(args):]))
            except KeyError as e:
                raise TypeError(f"{self.name}() missing required argument {e}") from None
        else:
            named = {} if name is None else {"name": name}
            bound = self.__signature__.bind(*args, **named, **kwargs).arguments
            name = bound.pop("name", None)
            inputs = tuple(bound.pop(a) for a in self.input_names)
            kwargs = bound
        try:
            return apply(self, inputs, kwargs, name)
        except Exception as e:
            shorten(e)
            raise

    def raw(self, **kwargs: Any) -> Any:
        """The op under ``tf.raw_ops``: keyword arguments only."""
        return self(**kwargs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def op(name: str, args: str, attrs: str = "", *, export_as: str = "", v1_as: str = "", **flags: Any) -> OpDef:
    """Declares an op. `export_as`: public names (both APIs; `v1_as`: v1 only) of the op itself as a function."""
    if name in OPS:
        raise ValueError(f"op {name} is declared twice")
    made = OPS[name] = OpDef(name, args, attrs, **flags)
    if export_as or v1_as:
        export.later(functools.partial(as_function, made), *export_as.split(), v1=v1_as.split())
    export.later(functools.partial(_raw_function, made), f"raw_ops.{name}")
    return made


def internal(name: str, args: str, attrs: str = "", **flags: Any) -> OpDef:
    """Declares an op that only passes create: it has no public name."""
    made = OPS[name] = OpDef(name, args, attrs, **flags)
    return made


def as_function(definition: OpDef) -> Callable:
    """A plain function over an op, for use under a public name."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return definition(*args, **kwargs)
    call.__name__ = call.__qualname__ = re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", definition.name).lower()
    call.__doc__ = described(definition, definition.__signature__)
    call.__signature__ = definition.__signature__   # type: ignore[attr-defined]
    return dispatched(call)


def _raw_function(definition: OpDef) -> Callable:
    """The op under tf.raw_ops: keyword arguments only."""
    names = rules.raw_ops.arguments.get(definition, {})
    public = {v: k for k, v in names.items()}
    signature = definition.__signature__
    signature = signature.replace(parameters=[p.replace(name=names.get(p.name, p.name))
                                              for p in signature.parameters.values()])

    def call(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise TypeError(f"{definition.name} only takes keyword args (possible keys: {list(signature.parameters)}). "
                            "Please pass these args as kwargs instead.")
        if public:
            kwargs = {public.get(k, k): v for k, v in kwargs.items()}
        return definition(**kwargs)
    call.__name__ = call.__qualname__ = definition.name
    call.__doc__ = described(definition, signature, names)
    call.__signature__ = signature   # type: ignore[attr-defined]
    return call


def get(name: str) -> OpDef:
    """The op called `name`; ValueError if there is none."""
    try:
        return OPS[name]
    except KeyError:
        raise ValueError(unknown_op(name)) from None


def unknown_op(name: str) -> str:
    """The message for an op that does not exist."""
    near = near_names(name, OPS, cutoff=0.6)
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return f"Op type not registered '{name}'.{hint}"


@export("RegisterGradient")
class RegisterGradient:
    """Registers a gradient function for an op type, or for a name used by gradient_override_map.

    >>> @tf.RegisterGradient("MySquare")
    ... def my_square_grad(op, grad): return 2. * op.inputs[0] * grad
    """

    def __init__(self, op_type: str):
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable) -> Callable:
        if self._op_type in GRADIENTS:
            raise KeyError(f"Registering two gradient with name '{self._op_type}'!")
        GRADIENTS[self._op_type] = f
        return f


@export("no_gradient", v1=["NotDifferentiable", "NoGradient"])
def no_gradient(op_type: str) -> None:
    """Declares that op type `op_type` is not differentiable."""
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    GRADIENTS[op_type] = None
