"""The assertions of TestCase about values: arrays, tensors, ragged tensors, and structures of them."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from penstock._src.base.errors import InvalidArgumentError
from penstock._src.graph.convert import is_tensor
from penstock._src.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock._src.state.variables.variable import Variable

# Tolerances of assertAllCloseAccordingToType, by how many bits the coarser value has.
_TOLERANCES = {np.dtype(np.float32): "float_", np.dtype(np.complex64): "float_", np.dtype(np.float16): "half_",
               np.dtype(ml_dtypes.bfloat16): "bfloat16_"}
_SHOWN = 10
_RAGGED = (RaggedTensor, RaggedTensorValue)


class ArrayAssertions:
    """Mixed into TestCase, which has `evaluate` and unittest's assertions."""

    assertCountEqual: Any
    assertEqual: Any
    assertRaisesRegex: Any
    assertTrue: Any
    evaluate: Any

    def _GetNdArray(self, a: Any) -> np.ndarray:
        if isinstance(a, (Tensor, Variable)) or _holds_tensors(a):
            a = self.evaluate(a)
        if isinstance(a, (IndexedSlices, IndexedSlicesValue)):
            raise TypeError("Compare the values and the indices of IndexedSlices one by one.")
        return a if isinstance(a, np.ndarray) else np.array(a)

    # -- close ------------------------------------------------------------------------------------------------------------
    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Fails unless two values, or structures of values, have the same shapes and near elements.

        Near means `|a - b| <= atol + rtol * |b|`; NaN is near NaN.

        >>> self.assertAllClose({"w": tf.ones([2])}, {"w": [1., 1.]})
        """
        if isinstance(a, _RAGGED) or isinstance(b, _RAGGED):
            self._assert_ragged(a, b, lambda x, y, where: self._assert_close(x, y, rtol, atol, msg, where), msg)
        else:
            self._assert_close(a, b, rtol, atol, msg, "value")

    def _assert_close(self, a: Any, b: Any, rtol: float, atol: float, msg: str | None, where: str) -> None:
        a, b = _as_mapping(a), _as_mapping(b)
        if isinstance(a, Mapping) != isinstance(b, Mapping):
            raise ValueError(f"Can't compare dict to non-dict at {where}: {a!r} and {b!r}. {msg or ''}")
        if isinstance(a, Mapping):
            self.assertCountEqual(a, b, f"mismatched keys at {where}. {msg or ''}")
            for key in a:
                self._assert_close(a[key], b[key], rtol, atol, msg, f"{where}[{key!r}]")
        elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and not (_stacks(a) and _stacks(b)):
            self.assertEqual(len(a), len(b), f"mismatched length at {where}: {len(a)} and {len(b)}. {msg or ''}")
            for i, (x, y) in enumerate(zip(a, b)):
                self._assert_close(x, y, rtol, atol, msg, f"{where}[{i}]")
        else:
            self._assert_arrays_close(self._GetNdArray(a), self._GetNdArray(b), rtol, atol, msg, where)

    def _assert_arrays_close(self, a: np.ndarray, b: np.ndarray, rtol: float, atol: float, msg: str | None, where: str) -> None:
        self._assert_same_shape(a, b, f"{where}. {msg or ''}")
        a, b = _widened(a), _widened(b)
        close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if not np.all(close):
            raise AssertionError(
                f"{where} is not near: {np.sum(~close)} of {close.size} elements differ by more than rtol={rtol} and "
                f"atol={atol}; the largest difference is {_largest_difference(a, b)}. {msg or ''}\n"
                + _differences(a, b, ~close))

    def assertAllCloseAccordingToType(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6,
                                      float_rtol: float = 1e-6, float_atol: float = 1e-6, half_rtol: float = 1e-3,
                                      half_atol: float = 1e-3, bfloat16_rtol: float = 1e-2, bfloat16_atol: float = 1e-2,
                                      msg: str | None = None) -> None:
        """assertAllClose with the widest tolerance of the two types."""
        given = {"float_": (float_rtol, float_atol), "half_": (half_rtol, half_atol),
                 "bfloat16_": (bfloat16_rtol, bfloat16_atol)}
        a, b = self._GetNdArray(a), self._GetNdArray(b)
        for dtype, kind in _TOLERANCES.items():
            if dtype in (a.dtype, b.dtype):
                rtol, atol = max(rtol, given[kind][0]), max(atol, given[kind][1])
        self.assertAllClose(a, b, rtol=rtol, atol=atol, msg=msg)

    def assertNotAllClose(self, a: Any, b: Any, **kwargs: Any) -> None:
        """Fails if assertAllClose would pass."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        raise AssertionError("The two values are close at all elements")

    # -- equal ------------------------------------------------------------------------------------------------------------
    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Fails unless two values have the same shape and equal elements; NaN equals NaN.

        >>> self.assertAllEqual(tf.range(3), [0, 1, 2])
        """
        if isinstance(a, _RAGGED) or isinstance(b, _RAGGED):
            self._assert_ragged(a, b, lambda x, y, where: self.assertEqual(x, y, f"{where}. {msg or ''}"), msg)
            return
        a, b = self._GetNdArray(a), self._GetNdArray(b)
        self._assert_same_shape(a, b, msg or "")
        same = np.asarray(a == b)
        if _is_floating(a.dtype) and _is_floating(b.dtype):
            same = same | (np.isnan(a) & np.isnan(b))
        if not np.all(same):
            raise AssertionError(f"{np.sum(~same)} of {same.size} elements are not equal. {msg or ''}\n"
                                 + _differences(a, b, ~same))

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Fails if assertAllEqual would pass."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise AssertionError(f"The two values are equal at all elements. {msg or ''}")

    def _assert_same_shape(self, a: np.ndarray, b: np.ndarray, msg: str) -> None:
        contents = f" Contents: {b}." if b.size < 500 else ""
        self.assertEqual(a.shape, b.shape, f"Shape mismatch: expected {a.shape}, got {b.shape}.{contents} {msg}")

    def _assert_ragged(self, a: Any, b: Any, compare: Any, msg: str | None) -> None:
        ranks = [x.ragged_rank if isinstance(x, _RAGGED) else 0 for x in (a, b)]
        if not (isinstance(a, (list, tuple)) or isinstance(b, (list, tuple))):
            self.assertEqual(*ranks, f"mismatched ragged ranks. {msg or ''}")
        self._compare_lists(self._as_list(a), self._as_list(b), compare, "value")

    def _as_list(self, a: Any) -> Any:
        if isinstance(a, (RaggedTensor, Tensor)):
            a = self.evaluate(a)
        return a.to_list() if isinstance(a, RaggedTensorValue) else a.tolist() if hasattr(a, "tolist") else a

    def _compare_lists(self, a: Any, b: Any, compare: Any, where: str) -> None:
        a, b = (x.tolist() if isinstance(x, np.ndarray) else list(x) if isinstance(x, tuple) else x for x in (a, b))
        if isinstance(a, list) and isinstance(b, list):
            self.assertEqual(len(a), len(b), f"mismatched length of {where}: {a} and {b}")
            for i, (x, y) in enumerate(zip(a, b)):
                self._compare_lists(x, y, compare, f"{where}[{i}]")
        else:
            compare(a, b, where)

    # -- order and membership ---------------------------------------------------------------------------------------------
    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Fails unless every element is greater than a number."""
        self._assert_each(a, lambda x: x > comparison_target, f"greater than {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Fails unless every element is less than a number."""
        self._assert_each(a, lambda x: x < comparison_target, f"less than {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Fails unless every element is at least a number."""
        self._assert_each(a, lambda x: x >= comparison_target, f"at least {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Fails unless every element is at most a number."""
        self._assert_each(a, lambda x: x <= comparison_target, f"at most {comparison_target}")

    def _assert_each(self, a: Any, holds: Any, what: str) -> None:
        values = self._GetNdArray(a)
        wrong = ~np.asarray(holds(values))
        if np.any(wrong):
            raise AssertionError(f"{np.sum(wrong)} of the {values.size} element(s) are not {what}:\n" + _listed(values, wrong))

    def assertAllInRange(self, target: Any, lower_bound: Any, upper_bound: Any, open_lower_bound: bool = False,
                         open_upper_bound: bool = False) -> None:
        """Fails unless every element is in an interval, which is closed by default; NaN is in no interval."""
        values = self._GetNdArray(target)
        if not (_is_floating(values.dtype) or np.issubdtype(values.dtype, np.integer)):
            raise AssertionError(f"The value of {values} does not have an ordered numeric type, instead it has type: "
                                 f"{values.dtype}")
        nan = np.isnan(values)
        if np.any(nan):
            raise AssertionError(f"{np.sum(nan)} of the {values.size} element(s) are NaN. Subscript(s) and value(s):\n"
                                 + _listed(values, nan))
        below = values <= lower_bound if open_lower_bound else values < lower_bound
        above = values >= upper_bound if open_upper_bound else values > upper_bound
        wrong = np.asarray(below | above)
        if np.any(wrong):
            shown = f"{'(' if open_lower_bound else '['}{lower_bound}, {upper_bound}{')' if open_upper_bound else ']'}"
            raise AssertionError(f"{np.sum(wrong)} of the {values.size} element(s) are outside the range {shown}. "
                                 "Subscript(s) and value(s) of the offending elements:\n" + _listed(values, wrong))

    def assertAllInSet(self, target: Any, expected_set: Iterable) -> None:
        """Fails unless every element is one of a few."""
        others = np.setdiff1d(self._GetNdArray(target).flatten(), list(expected_set))
        if others.size:
            raise AssertionError(f"{others.size} unique element(s) are not in the set {expected_set}: {others}")

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Fails unless a value has a numpy type."""
        self.assertEqual(self._GetNdArray(target).dtype, expected_dtype)

    # -- single numbers and shapes ----------------------------------------------------------------------------------------
    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Fails unless two numbers are equal or at most `err` apart."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r}{' (' + msg + ')' if msg else ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """assertNear for each pair of two sequences of one length."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for f1, f2 in zip(farray1, farray2):
            self.assertNear(float(f1), float(f2), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """Fails unless the norm of the difference of two arrays is at most `err`."""
        distance = np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2))
        self.assertTrue(distance <= err, msg or f"the norm of the difference is {distance}, not at most {err}")

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Fails unless two arrays or tensors have the same static shape."""
        shapes = []
        for name, value in (("input_a", input_a), ("input_b", input_b)):
            if not isinstance(value, (np.ndarray, np.generic)) and not is_tensor(value):
                raise TypeError(f"{name} must be a Numpy ndarray, Numpy scalar, or a Tensor. Instead received {type(value)}")
            shapes.append(value.get_shape().as_list() if is_tensor(value) else value.shape)
        self.assertAllEqual(shapes[0], shapes[1], msg=msg)

    def assertRaisesIncompatibleShapesError(self, exception_type: Any = InvalidArgumentError, a: Any = None, b: Any = None,
                                            ) -> Any:
        """A context that must raise an error about incompatible shapes."""
        return self.assertRaisesRegex((exception_type, ValueError), "[Ii]ncompatible shapes|must be equal")


def _holds_tensors(a: Any) -> bool:
    return isinstance(a, (list, tuple)) and any(isinstance(x, (Tensor, Variable)) or _holds_tensors(x) for x in a)


def _as_mapping(a: Any) -> Any:
    if hasattr(a, "_asdict"):
        return a._asdict()
    if hasattr(type(a), "__attrs_attrs__"):
        return {field.name: getattr(a, field.name) for field in type(a).__attrs_attrs__}
    return a


def _stacks(a: Any) -> bool:
    """Whether a list of numbers, or of lists of one length, makes an array."""
    if _holds_tensors(a) or any(isinstance(_as_mapping(x), Mapping) for x in a):
        return False
    try:
        return np.array(a).dtype != object
    except ValueError:
        return False


def _is_floating(dtype: np.dtype) -> bool:
    return np.issubdtype(dtype, np.inexact) or dtype in (np.dtype(ml_dtypes.bfloat16),)


def _widened(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) if a.dtype == ml_dtypes.bfloat16 else a


def _largest_difference(a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype == bool or b.dtype == bool:
        return 1
    with np.errstate(all="ignore"):
        return np.nanmax(np.abs(a - b))


def _differences(a: np.ndarray, b: np.ndarray, wrong: np.ndarray) -> str:
    """The first places where two arrays differ."""
    if a.ndim == 0:
        return f"  {a} and {b}"
    places = np.argwhere(wrong)
    lines = [f"  {tuple(p.tolist())}: {a[tuple(p)]} and {b[tuple(p)]}" for p in places[:_SHOWN]]
    return "\n".join(lines + ["  ..."] * (len(places) > _SHOWN))


def _listed(a: np.ndarray, chosen: np.ndarray) -> str:
    if a.ndim == 0:
        return f"  {a}"
    places = np.argwhere(chosen)
    lines = [f"  {p} : {a[tuple(p)]}" for p in places[:_SHOWN]]
    return "\n".join(lines + ["  ..."] * (len(places) > _SHOWN))
