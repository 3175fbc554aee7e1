"""tf.experimental.dispatch_for_api and related functions: user programs define what public functions do with their types.

Composite classes of the library use `_dispatch` instead (see base/dispatch.py).
"""
from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base.api import TABLES, Later, export
from penstock._src.base.dispatch import Target, dispatched  # noqa: F401  (the families import it from here)
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.type_spec import TypeSpec

UNARY = """abs acos acosh angle asin asinh atan atanh cast ceil conj cos cosh digamma erf erfc erfcinv erfinv exp expm1 floor
imag is_finite is_inf is_nan lgamma log log1p log_sigmoid logical_not ndtri negative real reciprocal reciprocal_no_nan rint
round rsqrt sigmoid sign sin sinh softplus softsign sqrt square tan tanh identity ones_like zeros_like saturate_cast as_string
bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1 bessel_k0 bessel_k0e bessel_k1
bessel_k1e dawsn expint fresnel_cos fresnel_sin spence elu gelu leaky_relu nextafter relu relu6 selu silu swish to_float
to_int32 to_int64 to_double to_bfloat16 decode_base64 encode_base64 string_strip string_to_hash_bucket
string_to_hash_bucket_fast string_to_hash_bucket_strong string_to_number substr regex_full_match regex_replace lower upper strip
length to_number to_hash_bucket to_hash_bucket_fast to_hash_bucket_strong unicode_transcode unicode_script decode_compressed
check_numerics clip_by_value quantize invert decode_raw string_length convert_image_dtype adjust_brightness adjust_gamma
stateless_random_brightness random_brightness stop_gradient""".split()
BINARY = """add atan2 complex div div_no_nan divide equal floordiv floormod floor_mod greater greater_equal less less_equal
logical_and logical_or logical_xor maximum minimum mod multiply multiply_no_nan not_equal polyval pow realdiv squared_difference
subtract truediv truncatediv truncatemod xdivy xlog1py xlogy zeta igamma igammac bitwise_and bitwise_or bitwise_xor left_shift
right_shift""".split()
ASSERTIONS = """assert_equal assert_none_equal assert_less assert_less_equal assert_greater assert_greater_equal assert_near
assert_shapes""".split()


# -- what programs add ------------------------------------------------------------------------------------------------
def fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of an annotated type: a class, a TypeSpec, a Union or List of these."""
    if annotation is Any:
        return True
    if isinstance(annotation, TypeSpec):
        return isinstance(value, annotation.value_type) and annotation.is_compatible_with(value)
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, a) for a in typing.get_args(annotation))
    if origin in (list, Sequence):
        wanted = typing.get_args(annotation)[0]
        return isinstance(value, (list, tuple)) and any(fits(v, wanted) for v in value) and \
            all(fits(v, wanted) for v in value)
    return isinstance(value, annotation)


def _check_annotation(annotation: Any) -> None:
    if isinstance(annotation, (type, TypeSpec)) or annotation is Any:
        return
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, list, Sequence):
        for a in typing.get_args(annotation):
            if a is not Ellipsis:
                _check_annotation(a)
        return
    raise ValueError(f"Type annotation {annotation} is not currently supported by dispatch. Supported annotations: type, "
                     "List[...], and Union[...]")


def _targets_of(api: Callable) -> list[Target]:
    found = getattr(api, "_dispatch_targets", None)
    if found is None:
        raise ValueError(f"{api} does not support dispatch.")
    return found


def _accepts(api: Callable, signatures: tuple) -> Callable[[tuple, dict], bool]:
    parameters = inspect.signature(api)
    names = list(parameters.parameters)
    wanted = []
    for signature in signatures:
        if not isinstance(signature, dict):
            raise TypeError(f"signatures must be dictionaries mapping parameter names to type annotations; got {signature!r}")
        for key, annotation in signature.items():
            _check_annotation(annotation)
            if isinstance(key, int) and not 0 <= key < len(names):
                raise ValueError(f"dispatch_for_api: {api} has no parameter {key}.")
            if isinstance(key, str) and key not in names:
                raise ValueError(f"signature includes annotation for unknown parameter {key!r}.")
            if not isinstance(key, (int, str)):
                raise TypeError(f"Dispatch signature keys must be parameter names or positions; got {key!r}")
        wanted.append({names[k] if isinstance(k, int) else k: v for k, v in signature.items()})

    def accepts(args: tuple, kwargs: dict) -> bool:
        try:
            bound = parameters.bind(*args, **kwargs)
        except TypeError:
            return False
        bound.apply_defaults()                      # Optional[...] is an annotation of a default, too
        given = bound.arguments
        return any(all(k in given and fits(given[k], a) for k, a in w.items()) for w in wanted)
    return accepts


@export("experimental.dispatch_for_api")
def dispatch_for_api(api: Callable, *signatures: Any) -> Callable:
    """Decorator: the function is called in place of `api` where arguments have the annotated types.

    >>> @tf.experimental.dispatch_for_api(tf.concat, {"values": list[MaskedTensor]})
    ... def masked_concat(values, axis, name=None): ...
    """
    targets = _targets_of(api)

    def decorate(target: Callable) -> Callable:
        _check_parameters(api, target)
        found = signatures or (_annotated(target),)
        targets.append(Target(_accepts(api, found), target, target))
        return target
    return decorate


def _annotated(target: Callable) -> dict:
    hints = {k: v for k, v in typing.get_type_hints(target).items() if k != "return"}
    if not hints:
        raise ValueError("must be called with at least one signature, or applied to a function that has type annotations on "
                         "its parameters.")
    return hints


def _check_parameters(api: Callable, target: Callable) -> None:
    """Checks that the target has the same parameter names as the API."""
    mine = list(inspect.signature(target).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in mine):
        return
    its = list(inspect.signature(api).parameters)
    names = [p.name for p in mine if p.name != "name"]
    if names != [n for n in its if n != "name"][:len(names)] or len(names) != len([n for n in its if n != "name"]):
        raise ValueError(f"Dispatch function's signature {inspect.signature(target)} does not match API's signature "
                         f"{inspect.signature(api)}.")


def _elementwise(names: list[str]) -> list[Callable]:
    """The public functions with one of these names, in both APIs."""
    found: dict[int, Callable] = {}
    for table in TABLES.values():
        for name, fn in list(table.items()):
            if name.rsplit(".", 1)[-1] not in names:
                continue
            fn = fn.get() if isinstance(fn, Later) else fn
            if isinstance(fn, types.FunctionType) and hasattr(fn, "_dispatch_targets"):
                found[id(fn)] = fn
    return list(found.values())


@export("experimental.dispatch_for_unary_elementwise_apis")
def dispatch_for_unary_elementwise_apis(x_type: Any) -> Callable:
    """Decorator: `handler(api, x)` is called for every elementwise function whose first argument is an `x_type`."""
    return _for_all(UNARY, (x_type,))


@export("experimental.dispatch_for_binary_elementwise_apis")
def dispatch_for_binary_elementwise_apis(x_type: Any, y_type: Any) -> Callable:
    """Decorator: `handler(api, x, y)` is called for every elementwise function of two such arguments."""
    return _for_all(BINARY, (x_type, y_type))


@export("experimental.dispatch_for_binary_elementwise_assert_apis")
def dispatch_for_binary_elementwise_assert_apis(x_type: Any, y_type: Any) -> Callable:
    """Decorator: `handler(api, x, y)` is called for every assertion that compares two such arguments."""
    return _for_all(ASSERTIONS, (x_type, y_type))


_claimed: dict[tuple, Callable] = {}


def _for_all(names: list[str], kinds: tuple) -> Callable:
    for k in kinds:
        _check_annotation(k)

    def decorate(handler: Callable) -> Callable:
        key = (names[0], kinds)
        if key in _claimed:
            raise ValueError(f"A dispatch handler ({_claimed[key]}) has already been registered for {kinds}.")
        _claimed[key] = handler
        for api in _elementwise(names):
            first = list(inspect.signature(api).parameters)[:len(kinds)]
            accepts = _accepts(api, (dict(zip(first, kinds, strict=True)),))

            def call(*args: Any, _api: Any = api, _first: list = first, **kwargs: Any) -> Any:
                given = inspect.signature(_api).bind(*args, **kwargs).arguments
                values = [given.pop(n) for n in _first]
                rest = {k: v for k, v in given.items() if k != "name"}

                def inner(*new: Any, **more: Any) -> Any:
                    return _api(*new, **{**rest, **more})
                inner.__name__, inner.__wrapped__ = _api.__name__, _api  # type: ignore[attr-defined]
                with name_scope(given.get("name")) if given.get("name") else contextlib.nullcontext():
                    return handler(_api if not rest else inner, *values)
            api._dispatch_targets.append(Target(accepts, call, handler))  # type: ignore[attr-defined]
        return handler
    return decorate


@export("experimental.unregister_dispatch_for")
def unregister_dispatch_for(dispatch_target: Callable) -> None:
    """Removes a function that one of the dispatch decorators has added."""
    found = False
    for table in TABLES.values():
        for fn in list(table.values()):
            fn = fn.made if isinstance(fn, Later) else fn
            targets = getattr(fn, "_dispatch_targets", None) if isinstance(fn, types.FunctionType) else None
            if targets and any(t.function is dispatch_target for t in targets):
                targets[:] = [t for t in targets if t.function is not dispatch_target]
                found = True
    for key in [k for k, h in _claimed.items() if h is dispatch_target]:
        del _claimed[key]
        found = True
    if not found:
        raise ValueError(f"Function {dispatch_target} was not registered using a `@dispatch_for_*` decorator.")
