"""Dtype policies: which dtype a layer computes in, and which its variables have."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import LazyModule, export
from penstock._src.base.dtypes import as_dtype
from penstock._src.graph import context
from penstock._src.training.train.loss_scale import as_loss_scale

backend = LazyModule("penstock._src.models.keras.backend")

_MIXED = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


@export("keras.mixed_precision.Policy", "keras.mixed_precision.experimental.Policy", v2=["keras.dtype_policies.DTypePolicy",
                                                                                         "keras.DTypePolicy"])
class Policy:
    """The dtypes of a layer: that of its computations and that of its variables.

    >>> tf.keras.layers.Dense(3, dtype=Policy("mixed_float16"))
    """

    def __init__(self, name: str, loss_scale: Any = "USE_DEFAULT"):
        self._given_scale, self._scale = loss_scale, None
        if not isinstance(name, str):
            raise TypeError(f"'name' must be a string, such as 'mixed_float16', not {name!r}")
        self._name = name
        if name in ("infer", "_infer"):
            self._compute = self._variable = None
        elif name in _MIXED:
            self._compute, self._variable = _MIXED[name], "float32"
        else:
            try:
                self._compute = self._variable = as_dtype(name).name
            except TypeError:
                raise ValueError(f"Cannot convert value {name} to a mixed precision Policy. Valid policies include "
                                 "'mixed_float16', 'mixed_bfloat16', and the name of any dtype such as 'float32'.") from None

    name = property(lambda self: self._name, doc="The name of the policy.")
    compute_dtype = property(lambda self: self._compute, doc="The dtype of computations.")
    variable_dtype = property(lambda self: self._variable, doc="The dtype of variables.")
    should_cast_variables = property(lambda self: self._variable != self._compute, doc="Whether variables are cast when read.")

    @property
    def loss_scale(self) -> Any:
        """The loss scale that goes with the policy: dynamic for `mixed_float16`, unless another was given; else None."""
        if self._scale is None:
            default = "dynamic" if self._name == "mixed_float16" else None
            self._scale = as_loss_scale(default if self._given_scale == "USE_DEFAULT" else self._given_scale)
        return self._scale

    def __repr__(self) -> str:
        return f"<Policy \"{self._name}\">"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Policy) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate it."""
        return {"name": self._name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Policy:
        """A policy from its config."""
        return cls(config["name"])


class _Global:
    policy: Policy | None = None
    v2_dtypes: bool | None = None


_global = _Global()


class _Casting(threading.local):
    dtype: Any = None


_casting = _Casting()


def v2_dtype_behavior_enabled() -> bool:
    """Whether layers have their own dtype, and cast their inputs to it; else it is that of the first input."""
    return context.process.eager if _global.v2_dtypes is None else _global.v2_dtypes


@export(v1=["keras.layers.enable_v2_dtype_behavior"])
def enable_v2_dtype_behavior() -> None:
    """Layers have their own dtype, floatx by default, to which they cast their inputs."""
    _global.v2_dtypes = True


@export(v1=["keras.layers.disable_v2_dtype_behavior"])
def disable_v2_dtype_behavior() -> None:
    """Layers have the dtype of their first input."""
    _global.v2_dtypes = False


@export("keras.mixed_precision.global_policy", "keras.mixed_precision.experimental.global_policy",
        v2=["keras.mixed_precision.dtype_policy", "keras.config.dtype_policy"])
def global_policy() -> Policy:
    """The policy of layers without a dtype.

    Returns:
        A `Policy`.

    >>> print(tf.keras.mixed_precision.global_policy().name)
    float32
    """
    if _global.policy is None:
        return Policy(backend.floatx()) if v2_dtype_behavior_enabled() else Policy("_infer")
    return _global.policy


def policy_defaults_to_floatx() -> bool:
    """Whether a layer without a dtype computes in floatx only by default."""
    return _global.policy is None and v2_dtype_behavior_enabled()


@export("keras.mixed_precision.set_global_policy", "keras.mixed_precision.experimental.set_policy",
        v2=["keras.mixed_precision.set_dtype_policy", "keras.config.set_dtype_policy"])
def set_global_policy(policy: Any) -> None:
    """Sets the policy of layers without a dtype.

    Args:
        policy: A `Policy` or its name, such as `"mixed_float16"` or `"mixed_bfloat16"`; None is that of `floatx`.

    Returns:
        None.

    Raises:
        ValueError: if the name is not that of a policy.

    >>> tf.keras.mixed_precision.set_global_policy("mixed_float16")
    >>> print(tf.keras.layers.Dense(2)(tf.ones([1, 2])).dtype.name)
    float16
    >>> tf.keras.mixed_precision.set_global_policy("float32")
    """
    if policy is not None and not v2_dtype_behavior_enabled():
        raise ValueError("The global policy can only be set in TensorFlow 2 or if V2 dtype behavior has been set. To enable V2 "
                         "dtype behavior, call \"tf.compat.v1.keras.layers.enable_v2_dtype_behavior()\"")
    _global.policy = policy if policy is None or isinstance(policy, Policy) else Policy(policy)


@contextlib.contextmanager
def policy_scope(policy: Any) -> Iterator[None]:
    """A context with another global policy."""
    old = _global.policy
    set_global_policy(policy)
    try:
        yield
    finally:
        _global.policy = old


def as_policy(dtype: Any) -> Policy:
    """A policy from what layers take as `dtype`: a policy, its config, a dtype, or None."""
    if isinstance(dtype, Policy):
        return dtype
    if isinstance(dtype, dict):
        return Policy(dtype["config"]["name"])
    if not dtype:
        return global_policy()
    named = isinstance(dtype, str) and (dtype in _MIXED or dtype in ("infer", "_infer"))
    return Policy(dtype if named else as_dtype(dtype).name)


@contextlib.contextmanager
def casting_to(dtype: Any) -> Iterator[None]:
    """A context in which AutoCastVariables are read as `dtype`."""
    old = _casting.dtype
    _casting.dtype = as_dtype(dtype) if dtype and as_dtype(dtype).is_floating else None
    try:
        yield
    finally:
        _casting.dtype = old


def read_dtype() -> Any:
    """The dtype in which such variables are read; None: their own."""
    return _casting.dtype
