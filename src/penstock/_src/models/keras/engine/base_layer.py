"""Layer: a callable object with variables. How a layer is called, built and described.

`__call__` reads top to bottom: inputs, mask and training become arguments of `call`; the layer is built when it sees its
first input; `call` runs; where inputs are symbolic, the call is recorded as a Node. The variables of a layer are in
`layer_weights.py`, losses, updates and metrics in `layer_losses.py`, its calls in `connectivity.py`.
"""
from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule, export
from penstock._src.base.dtypes import as_dtype
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.convert import convert, is_tensor
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import get_current_name_scope, init_scope, name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.models.keras import mixed_precision, regularizers, user_code
from penstock._src.models.keras.autocast import autocast
from penstock._src.models.keras.engine.call_context import (
    current,
    graph_of,
    in_eager_or_function,
    in_keras_graph,
    is_registered,
    is_symbolic,
)
from penstock._src.models.keras.engine.call_errors import name_layer
from penstock._src.models.keras.engine.connectivity import Connected
from penstock._src.models.keras.engine.input_spec import InputSpec, assert_input_compatibility
from penstock._src.models.keras.engine.layer_losses import Losing, PerThread
from penstock._src.models.keras.engine.layer_weights import Weighted
from penstock._src.models.keras.engine.node import parts_of
from penstock._src.models.keras.saving.saved_model import layer_metadata, user_functions
from penstock._src.models.keras.utils.generic_utils import to_snake_case
from penstock._src.models.keras.utils.object_config import serialize_keras_object

backend = LazyModule("penstock._src.models.keras.backend")

_KEYWORDS = frozenset(("input_dim", "input_shape", "batch_input_shape", "batch_size", "weights", "activity_regularizer",
                       "autocast", "implementation"))

_BY_KEYWORD: Any = object()               # represents the first argument of a call that has it as a keyword


def default(method: Any) -> Any:
    """Marks a method of Layer that a subclass has not replaced."""
    method._is_default = True
    return method


@functools.lru_cache(maxsize=4096)
def _spec_of(function: Any) -> tuple[tuple, bool]:
    """The argument names of a function without self, and whether it takes any keyword."""
    spec = inspect.getfullargspec(inspect.unwrap(function))
    args = spec.args[1:] if spec.args and spec.args[0] == "self" else spec.args
    return (*args, *spec.kwonlyargs), spec.varkw is not None


@functools.lru_cache(maxsize=4096)
def _default_training(function: Any) -> Any:
    """The default of a function's argument `training`, or None."""
    found = inspect.signature(inspect.unwrap(function)).parameters.get("training")
    return None if found is None or found.default is found.empty else found.default


_NOT_PLAIN: Any = object()


def _plain(value: Any) -> Any:
    """A copy of a value that a config can hold as it is: a number, a text, or lists and dictionaries of them."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if type(value) in (list, tuple):
        copies = [_plain(v) for v in value]
        return _NOT_PLAIN if any(c is _NOT_PLAIN for c in copies) else type(value)(copies)
    if type(value) is dict:
        named = {k: _plain(v) for k, v in value.items()}
        return _NOT_PLAIN if any(c is _NOT_PLAIN for c in named.values()) else named
    return _NOT_PLAIN


def _plain_arguments(cls: type, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of a constructor by their names, or None if one of them is not a plain value."""
    names = _spec_of(cls.__init__)[0]                                     # type: ignore[misc]
    found = _plain({**dict(zip(names, args)), **kwargs}) if len(args) <= len(names) else _NOT_PLAIN  # noqa: B905
    return None if found is _NOT_PLAIN else found


@export("keras.layers.Layer", v2=["keras.Layer"])
class Layer(Connected, Losing, Weighted):
    """The base of layers: variables, and a computation on tensors.

    Args:
        trainable: Whether the layer's variables are trained.
        name: Name of the operation.
        dtype: Type of the weights, or a policy of mixed precision.
        dynamic: Whether `call` must run eagerly.
        **kwargs: `input_shape` (or `batch_input_shape`), which builds the layer at once; `autocast`; `weights`.

    >>> class Scale(tf.keras.layers.Layer):
    ...     def build(self, input_shape):
    ...         self.scale = self.add_weight("scale", initializer="ones")
    ...     def call(self, inputs):
    ...         return inputs * self.scale
    >>> Scale()(tf.constant([1., 2.])).numpy()
    array([1., 2.], dtype=float32)
    """

    _batch_input_shape: tuple | None
    _stateful = False
    _call_fn_args: list[str]
    _policy: mixed_precision.Policy
    _init_arguments: dict[str, Any] | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance that keeps its arguments where `get_config` has to describe it by them."""
        instance = super().__new__(cls)
        if hasattr(cls.get_config, "_is_default"):
            instance.__dict__["_init_arguments"] = _plain_arguments(cls, args, kwargs)
        return instance

    @no_automatic_dependency_tracking
    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, dynamic: bool = False,
                 **kwargs: Any):
        for k in kwargs:
            if k not in _KEYWORDS:
                raise TypeError("Keyword argument not understood:", k)
        self._trainable = trainable
        self._stateful = False
        self.built = False
        self._input_spec: Any = None
        self.supports_masking = not getattr(self.compute_mask, "_is_default", False)
        self._init_set_name(name)
        self._activity_regularizer = _regularizer(kwargs.get("activity_regularizer"))
        for attribute in ("_trainable_weights", "_non_trainable_weights", "_layers"):
            self.__dict__.setdefault(attribute, [])
        self._updates: list = []
        self._thread = PerThread()
        self._callable_losses: list = []
        self._losses: list = []
        self._metrics: list = []
        self._set_dtype_policy(dtype)
        self._autocast = kwargs.get("autocast", mixed_precision.v2_dtype_behavior_enabled())
        self._inbound_nodes: list = []
        self._outbound_nodes: list = []
        self._init_call_fn_args()
        self._dynamic = dynamic
        self._initial_weights = kwargs.get("weights")
        if "input_dim" in kwargs and "input_shape" not in kwargs:
            kwargs["input_shape"] = (kwargs["input_dim"],)
        if "batch_input_shape" in kwargs:
            self._batch_input_shape = tuple(kwargs["batch_input_shape"])
        elif "input_shape" in kwargs:
            shape = kwargs["input_shape"]
            shape = shape.as_list() if isinstance(shape, TensorShape) else shape
            self._batch_input_shape = (kwargs.get("batch_size"), *((shape,) if isinstance(shape, int) else shape))

    # -- what subclasses define --------------------------------------------------------------------------------------
    @default
    def build(self, input_shape: Any) -> None:
        """Creates the variables, once, when the shape of the inputs is known."""
        self._build_input_shape = input_shape
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The computation."""
        return inputs

    @default
    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The masks of the outputs."""
        if not self.supports_masking:
            if any(m is not None for m in nest.flatten(mask)):
                raise TypeError(f"Layer {self.name} does not support masking, but was passed an input_mask: {mask}")
            return None
        return mask

    @default
    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer, as plain data."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        own = {"batch_input_shape": self._batch_input_shape} if hasattr(self, "_batch_input_shape") else {}
        dtype = {"dtype": self._dtype_config()}
        config.update({**dtype, **own} if context.process.eager else {**own, **dtype})
        if self.dynamic:
            config["dynamic"] = True
        return self._with_arguments(config) if hasattr(self.get_config, "_is_default") else config

    def _with_arguments(self, config: dict[str, Any]) -> dict[str, Any]:
        """The config of a class without a `get_config`: its arguments, and what it accepts of the base class's."""
        names, any_name = _spec_of(type(self).__init__)
        extra = [n for n in names if n not in config and n != "dynamic"]
        if not extra:
            return config
        if self._init_arguments is None or not context.process.eager:
            raise NotImplementedError(f"Layer {type(self).__name__} has arguments {extra} in `__init__` and therefore must "
                                      "override `get_config`, unless all of them are numbers, texts or lists of these.")
        return {**{k: v for k, v in config.items() if any_name or k in names}, **self._init_arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A layer from its config."""
        return cls(**config)

    def get_build_config(self) -> dict[str, Any]:
        """The input shapes that the layer was built for, for rebuilding it."""
        shape = getattr(self, "_build_input_shape", None)
        return {} if shape is None else {"input_shape": nest.map_structure(
            lambda s: tuple(s.as_list()) if isinstance(s, TensorShape) and s.rank is not None else s, shape)}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Builds the layer from the result of `get_build_config`."""
        shape = (config or {}).get("input_shape")
        if shape is not None and not self.built:
            self._build_once(_as_shapes(shape))

    @default
    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs for inputs of some shape: found by calling the layer on placeholders."""
        if not context.executing_eagerly():
            raise NotImplementedError("We could not automatically infer the static shape of the layer's output. Please "
                                      f"implement the `compute_output_shape` method on your layer ({type(self).__name__}).")
        shapes = _as_shapes(input_shape)
        self._maybe_build(nest.map_structure(lambda s: TensorSpec(s, backend.floatx()), shapes))
        graph = FuncGraph("graph")
        with graph.as_default():
            inputs = nest.map_structure(lambda s: backend.placeholder(shape=s, dtype=self._compute_dtype or backend.floatx()),
                                        shapes)
            try:
                outputs = self(inputs, training=False) if self._expects_training_arg else self(inputs)
            except TypeError as e:
                raise NotImplementedError("We could not automatically infer the static shape of the layer's output. Please "
                                          "implement the `compute_output_shape` method on your layer "
                                          f"({type(self).__name__}).") from e
        return nest.map_structure(lambda t: t.shape, outputs)

    def compute_output_signature(self, input_signature: Any) -> Any:
        """The TensorSpecs of the outputs for inputs of some TensorSpecs."""
        def shape(s: Any) -> Any:
            if not isinstance(s, TensorSpec):
                raise TypeError(f"Only TensorSpec signature types are supported, but saw the entry {s}.")
            return s.shape
        shapes = self.compute_output_shape(nest.map_structure(shape, input_signature))
        dtype = self._compute_dtype or nest.flatten(input_signature)[0].dtype
        return nest.map_structure(lambda s: TensorSpec(dtype=dtype, shape=s), shapes)

    # -- the call ----------------------------------------------------------------------------------------------------
    def __call__(self, inputs: Any = _BY_KEYWORD, *args: Any, **kwargs: Any) -> Any:
        if "_thread" not in self.__dict__:
            raise RuntimeError(f"You must call `super().__init__()` in the constructor of the layer {type(self).__name__}.")
        if inputs is _BY_KEYWORD:
            inputs = self._first_argument(kwargs)
        flat = nest.flatten(inputs)
        if any(isinstance(x, (np.ndarray, float, int)) for x in flat):
            inputs = nest.map_structure(_converted, inputs)
            flat = nest.flatten(inputs)
        build_graph = all(map(is_symbolic, flat))
        masks, framework_mask = self._mask_argument(inputs, args, kwargs)
        training, framework_training = self._training_argument(inputs, build_graph, args, kwargs)
        if build_graph and not current.in_call:
            self._remember_ops(inputs)
        if not current.in_call and in_eager_or_function():
            self._clear_losses()
        with current.enter(self, inputs, build_graph, training):
            if not build_graph:
                self._check_inputs(inputs)
                with name_scope(self._scope_of_call()):
                    self._maybe_build(inputs)
                    outputs = self._run_call(inputs, args, kwargs)
                    self._finish(inputs, outputs, masks)
                if hasattr(self, "_set_inputs") and not self.inputs:          # type: ignore[attr-defined]
                    self._set_inputs(inputs, outputs, args, kwargs)
                return outputs
            self._check_inputs(inputs, True)
            with graph_of(flat).as_default(), name_scope(self._scope_of_call()):
                self._maybe_build(inputs)
                outputs = self._symbolic(inputs, args, kwargs)
                if all(hasattr(x, "_keras_history") for x in flat):
                    added = {"mask": framework_mask, "training": framework_training}
                    outputs = self._remember_call(inputs, outputs, args,
                                                  {k: v for k, v in kwargs.items() if not added.get(k)})
                self._finish(inputs, outputs, masks)
                if hasattr(self, "_set_inputs") and not self.inputs:          # type: ignore[attr-defined]
                    self._set_inputs(inputs, outputs, args, kwargs)
            return outputs

    def _check_inputs(self, inputs: Any, symbolic: bool = False) -> None:
        """ValueError if the inputs are not what the layer accepts. Before it is built, building it checks them."""
        if symbolic or self.built and self._input_spec is not None:
            assert_input_compatibility(self.input_spec, inputs, self.name)

    @property
    def stateful(self) -> bool:
        """Whether the layer keeps a state from batch to batch."""
        return self._stateful

    @stateful.setter
    def stateful(self, value: bool) -> None:
        self._stateful = value

    def _first_argument(self, kwargs: dict[str, Any]) -> Any:
        """Removes the first argument of `call` from the keywords."""
        first = self._call_fn_args[0] if self._call_fn_args else None
        if first not in kwargs:
            raise ValueError("The first argument to `Layer.call` must always be passed.")
        return kwargs.pop(first)

    def _mask_argument(self, inputs: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """The masks of the inputs, and whether they were added to the arguments here."""
        if self._was_passed("mask", args, kwargs):
            return self._argument("mask", args, kwargs), False
        masks = nest.map_structure(lambda t: getattr(t, "_keras_mask", None), inputs)
        if all(m is None for m in nest.flatten(masks)):
            return None, False
        if self._expects_mask_arg:
            kwargs["mask"] = masks
        return masks, self._expects_mask_arg

    def _training_argument(self, inputs: Any, build_graph: bool, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """Whether this is training, and whether that was added to the arguments here."""
        value = None
        if self._was_passed("training", args, kwargs):
            value = self._argument("training", args, kwargs)
            if not self._expects_training_arg:
                kwargs.pop("training")
            if value is not None:
                return value, False
        if current.training is not None:
            value = current.training
        elif backend.global_learning_phase_is_set():
            value = backend.learning_phase()
        else:
            value = self._own_training(inputs, build_graph)
        if value is None or not self._expects_training_arg:
            return value, False
        if is_tensor(value):
            value = tf.cast(value, "bool")
        else:
            value = bool(value)
        if "training" in kwargs or not self._was_passed("training", args, kwargs):
            kwargs["training"] = value
        return value, True

    def _own_training(self, inputs: Any, build_graph: bool) -> Any:
        """Whether this is training if nothing says so: the default of `call`, or what a symbolic call is told later."""
        if context.eager_outside_functions():
            call = self.call
            value = _default_training(getattr(call, "__func__", call)) if "training" in self._call_fn_args else None
            if value is not None:
                return value
        if not build_graph:
            return None
        with graph_of(nest.flatten(inputs)).as_default():
            return backend.learning_phase() if in_keras_graph() else None

    def _remember_ops(self, inputs: Any) -> None:
        """Ops that were called between layers become layers."""
        from penstock._src.models.keras.engine import op_layer
        if op_layer.needs_keras_history(inputs):
            op_layer.create_keras_history(inputs)

    def _call_function(self) -> Any:
        """`call`; rewritten by AutoGraph where the user's own layers are called in graphs."""
        return user_code.traced(self.call) if user_code.is_users(type(self)) else self.call

    def _run_call(self, inputs: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What `call` returns; an error names the layer."""
        try:
            with mixed_precision.casting_to(self._compute_dtype):
                return self._call_function()(self._maybe_cast_inputs(inputs), *args, **kwargs)
        except Exception as e:
            name_layer(e, self, inputs, args, kwargs)
            raise

    def _symbolic(self, inputs: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Calls the layer on symbolic tensors."""
        if self.dynamic:
            outputs = self._dynamic_placeholders(inputs)
        else:
            try:
                outputs = self._run_call(inputs, args, kwargs)
            except TypeError as e:
                if type(e).__name__ != "OperatorNotAllowedInGraphError" and "as a Python `bool` is not allowed" not in str(e):
                    raise
                raise TypeError("You are attempting to use Python control flow in a layer that was not declared to be dynamic. "
                                "Pass `dynamic=True` to the class constructor.\nEncountered error:\n\"\"\"\n"
                                f"{e}\n\"\"\"") from e
        if outputs is None:
            raise ValueError("A layer's `call` method should return a Tensor or a list of Tensors, not None (layer: "
                             f"{self.name}).")
        return outputs

    def _dynamic_placeholders(self, inputs: Any) -> Any:
        shapes = self.compute_output_shape(nest.map_structure(lambda x: x.shape, inputs))

        def made(shape: Any) -> Any:
            t = backend.placeholder(shape=shape, dtype=self.dtype)
            t._keras_mask = None
            return t
        return nest.map_structure(made, _as_shapes(shapes))

    def _remember_call(self, inputs: Any, outputs: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Makes the call a Node. Outputs that are inputs are passed through an op, so that they are new tensors."""
        given = {id(p) for x in nest.flatten((inputs, args, kwargs)) for p in (x, *parts_of(x))}

        def fresh(x: Any) -> Any:
            if id(x) not in given or not isinstance(x, Tensor):
                return x
            mask = getattr(x, "_keras_mask", None)
            x = tf.identity(x)
            x._keras_mask = mask
            return x
        outputs = nest.map_structure(fresh, outputs)
        arguments = dict(zip(self._call_fn_args[1:], args))
        arguments.update(kwargs)
        outputs = nest.map_structure(_tensor_of, outputs)
        self._add_inbound_node(inputs, outputs, arguments)
        return outputs

    def _finish(self, inputs: Any, outputs: Any, masks: Any) -> None:
        self._handle_activity_regularization(inputs, outputs)
        self._set_mask_metadata(inputs, outputs, masks)

    def _set_mask_metadata(self, inputs: Any, outputs: Any, masks: Any) -> None:
        flat = nest.flatten(outputs)
        if getattr(self, "_compute_output_and_mask_jointly", False) or \
                all(getattr(x, "_keras_mask", None) is not None for x in flat):
            return
        found = None
        if self.supports_masking or not getattr(self.compute_mask, "_is_default", False):
            found = self.compute_mask(inputs, masks)
        flat_masks = [None] * len(flat) if found is None else nest.flatten(found)
        for x, mask in zip(flat, flat_masks):
            try:
                x._keras_mask = mask
            except AttributeError:            # a variable or another thing that the layer returned
                continue
            if mask is not None:
                try:
                    mask._keras_history_checked = True
                except AttributeError:
                    continue

    # -- building ----------------------------------------------------------------------------------------------------
    def _maybe_build(self, inputs: Any) -> None:
        """Builds the layer for its first inputs."""
        if not self.built:
            assert_input_compatibility(self.input_spec, inputs, self.name)
            flat = nest.flatten(inputs)
            if flat and self._policy.compute_dtype is None and hasattr(flat[0], "dtype"):
                self._policy = mixed_precision.Policy(as_dtype(flat[0].dtype).base_dtype.name)
            shapes = nest.map_structure(lambda x: x.shape, inputs) if all(hasattr(x, "shape") for x in flat) else None
            self._build_once(shapes)
        if self._initial_weights is not None:
            with init_scope():
                self.set_weights(self._initial_weights)
            self._initial_weights = None

    def _build_once(self, shapes: Any) -> None:
        if not hasattr(self.build, "_is_default"):
            if context.eager_outside_functions() and getattr(self, "_keras_style", True):
                with init_scope():
                    self.build(shapes)
            else:
                self.build(shapes)
        self.__dict__.setdefault("_build_input_shape", shapes)
        self.built = True

    # -- names and dtypes --------------------------------------------------------------------------------------------
    name = property(lambda self: self._name, doc="The name of the layer.")
    dynamic = property(lambda self: any(getattr(v, "_dynamic", False) for v in self._flatten_layers()),
                       doc="Whether the layer can only run eagerly.")
    dtype = property(lambda self: self._policy.variable_dtype, doc="The dtype of the variables.")
    variable_dtype = property(lambda self: self._policy.variable_dtype, doc="The dtype of the variables.")
    compute_dtype = property(lambda self: self._policy.compute_dtype, doc="The dtype of the computations.")
    dtype_policy = property(lambda self: self._policy, doc="The dtypes of variables and computations.")
    _compute_dtype = property(lambda self: self._policy.compute_dtype)
    _compute_dtype_object = property(lambda self: self._compute_dtype and as_dtype(self._compute_dtype),
                                     doc="The dtype of the computations as a DType; libraries compare it.")
    _dtype_policy = property(lambda self: self._policy)

    @property
    def _dtype(self) -> Any:
        return self._policy.variable_dtype

    @_dtype.setter
    def _dtype(self, value: Any) -> None:
        self._policy = mixed_precision.Policy(as_dtype(value).name)

    def _dtype_config(self) -> Any:
        policy = self._policy
        if policy.compute_dtype != policy.variable_dtype:
            return serialize_keras_object(policy)
        return policy.variable_dtype

    def _init_set_name(self, name: Any, zero_based: bool = True) -> None:
        self._name = name or backend.unique_object_name(to_snake_case(self._automatic_name()), zero_based=zero_based)

    def _automatic_name(self) -> str:
        """What automatic names begin with."""
        return type(self).__name__

    def _name_scope(self) -> str:
        return self._name

    @property
    def name_scope(self) -> Any:
        """A function that returns the name scope of a call of the layer at this place; of other modules, it is a context."""
        return self._scope_here

    def _scope_here(self) -> str:
        if not context.eager_outside_functions():
            return self._name
        outer = get_current_name_scope()
        return f"{outer}/{self._name}/" if outer else f"{self._name}/"

    def _scope_of_call(self) -> str:
        """The name scope of a call. Keras' own graph is never run, and scopes there are not made unique: the weights of two
        layers with the same name have the same names, as those of layers that are called eagerly."""
        if not in_keras_graph():
            return self._name_scope()
        outer = context.current_graph().get_name_scope()
        return f"{outer}/{self._name_scope()}/" if outer else f"{self._name_scope()}/"

    def _set_dtype_policy(self, dtype: Any) -> None:
        self._policy = mixed_precision.as_policy(dtype)
        self._defaulted_dtype = not dtype and mixed_precision.policy_defaults_to_floatx()

    def _infer_policy(self, dtype: Any) -> None:
        if self._policy.variable_dtype is None:
            self._policy = mixed_precision.Policy(dtype.base_dtype.name)

    def _casting_getter(self, getter: Any, dtype: Any) -> Any:
        """A getter of variables that are read in the dtype of computations, if that is another one."""
        if not self._policy.should_cast_variables or not dtype.is_floating:
            return getter
        return lambda *args, **kwargs: autocast(getter(*args, **kwargs))

    def _maybe_cast_inputs(self, inputs: Any) -> Any:
        dtype = self._compute_dtype
        if not self._autocast or not dtype or not as_dtype(dtype).is_floating:
            return inputs

        def cast_one(x: Any) -> Any:
            if not (isinstance(x, (Tensor, SparseTensor)) or type(x).__name__ == "RaggedTensor") or not x.dtype.is_floating \
                    or x.dtype.base_dtype.name == dtype:
                return x
            if self._defaulted_dtype:
                self._warn_about_casting(x.dtype.base_dtype.name)
            made = tf.cast(x, dtype)
            if hasattr(x, "_keras_mask"):
                made._keras_mask = x._keras_mask
            return made
        return nest.map_structure(cast_one, inputs)

    def _warn_about_casting(self, found: str) -> None:
        if not self.__dict__.get("_warned_about_casting"):
            self._warned_about_casting = True
            logging.warning(
                "Layer %s is casting an input tensor from dtype %s to the layer's dtype of %s, which is new behavior in "
                "TensorFlow 2.  The layer has dtype %s because its dtype defaults to floatx. For all layers to have dtype %s "
                "by default, call `tf.keras.backend.set_floatx('%s')`. To change just this layer, pass dtype='%s' to the layer "
                "constructor, or autocast=False.", self.name, found, self.dtype, self.dtype, found, found, found)

    # -- arguments of call -------------------------------------------------------------------------------------------
    def _init_call_fn_args(self) -> None:
        call = self.call
        args, self._call_accepts_kwargs = _spec_of(getattr(call, "__func__", call))
        if not hasattr(call, "__func__") and inspect.isfunction(call) and args and "self" not in args:
            args = _spec_of(call)[0]
        self.__dict__["_call_fn_args"] = list(args)
        self._expects_training_arg = "training" in args or self._call_accepts_kwargs
        self._expects_mask_arg = "mask" in args or self._call_accepts_kwargs

    def _was_passed(self, name: str, args: tuple, kwargs: dict[str, Any]) -> bool:
        return name in kwargs or bool(args) and name in self._call_fn_args[1:1 + len(args)]

    def _argument(self, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        return kwargs[name] if name in kwargs else args[self._call_fn_args.index(name) - 1]

    # -- other properties --------------------------------------------------------------------------------------------
    @property
    def activity_regularizer(self) -> Any:
        """The function that adds a loss for the outputs."""
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer: Any) -> None:
        self._activity_regularizer = regularizer

    @property
    def input_spec(self) -> Any:
        """The inputs that the layer accepts."""
        return self._input_spec

    @input_spec.setter
    def input_spec(self, value: Any) -> None:
        for v in nest.flatten(value):
            if v is not None and not isinstance(v, InputSpec):
                raise TypeError(f"Layer input_spec must be an instance of InputSpec. Got: {v}")
        self.__dict__["_input_spec"] = value

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Alias of calling the layer."""
        return self(inputs, *args, **kwargs)

    def _is_layer(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_thread"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _thread=PerThread())

    # -- SavedModels -------------------------------------------------------------------------------------------------
    _object_identifier = property(lambda self: "_tf_keras_layer")

    @property
    def _tracking_metadata(self) -> str:
        return layer_metadata(self)

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return user_functions(self)


Layer.__new__.__signature__ = inspect.signature(Layer.__init__)      # type: ignore[attr-defined]  # `__new__` takes the same


def _converted(x: Any) -> Any:
    return convert(x) if isinstance(x, (np.ndarray, float, int)) else x


def _tensor_of(x: Any) -> Any:
    return x if isinstance(x, Tensor) or hasattr(x, "_type_spec") or is_registered(x) else convert(x)


def _as_shapes(shapes: Any) -> Any:
    """Shapes as TensorShapes, in their structure."""
    if shapes is None or isinstance(shapes, TensorShape):
        return TensorShape(shapes)
    if isinstance(shapes, dict):
        return {k: _as_shapes(v) for k, v in shapes.items()}
    if all(d is None or isinstance(d, (int, np.integer)) or hasattr(d, "value") for d in shapes):
        return TensorShape(shapes)
    return type(shapes)(_as_shapes(s) for s in shapes) if type(shapes) in (list, tuple) else [_as_shapes(s) for s in shapes]


def _regularizer(value: Any) -> Any:
    if value is None or callable(value):
        return value
    return regularizers.get(value)
