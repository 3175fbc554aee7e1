"""Converts user data to lists of arrays for a model's inputs and outputs, and checks them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.graph import context
from penstock._src.graph.convert import is_tensor
from penstock._src.models.keras.engine.input_spec import advice


def check_keys(what: str, given: Mapping, names: Sequence[str]) -> None:
    """Raises ValueError if a dictionary by output names has unknown keys."""
    unknown = set(given) - set(names)
    if unknown and what == "class_weight" and all(isinstance(key, (int, np.integer)) for key in given):
        raise ValueError(f"`class_weight` by class is for models with a single output. This one has {len(names)}: pass "
                         f"`sample_weight`, or a dictionary for each of {list(names)}.")
    if unknown:
        raise ValueError(f"Unknown entries in {what} dictionary: {sorted(map(str, unknown))}. Only expected following keys: "
                         f"{list(names)}")


def as_array(x: Any) -> Any:
    """Frames, series and lists as arrays; arrays and tensors as they are."""
    if x is None or isinstance(x, np.ndarray) or is_tensor(x) or hasattr(x, "_type_spec"):
        return x
    if type(x).__name__ in ("DataFrame", "Series"):
        return x.to_numpy() if hasattr(x, "to_numpy") else x.values
    if hasattr(x, "tocoo") or hasattr(x, "indices") and hasattr(x, "dense_shape"):
        return x
    if isinstance(x, int):
        raise ValueError(f"Expected an array, got an integer: {x}")
    return np.asarray(x)


def column(x: Any, expected: Any = None) -> Any:
    """A vector of values as a column, unless the model expects a vector."""
    shape = getattr(x, "shape", None)
    if shape is None or hasattr(x, "tocoo") or getattr(shape, "rank", 0) is None or len(shape) != 1 or \
            expected is not None and len(expected) == 1 or not (isinstance(x, np.ndarray) or is_tensor(x)):
        return x
    if isinstance(x, np.ndarray):
        return x[:, None]
    return tf.expand_dims(x, 1)


def data_list(data: Any, names: list[str], shapes: Any, what: str, check: bool = True, columns: bool = True) -> list:
    """The arrays for `names`, in their order, vectors as `columns`; ValueError if they are not as the model expects them."""
    if data is None:
        return [None] * len(names)
    if isinstance(data, Mapping):
        missing = [n for n in names if n not in data]
        if missing:
            raise ValueError(f"No data provided for \"{missing[0]}\". The model needs data for: {names}")
        found = [as_array(data[n]) for n in names]
    elif isinstance(data, (list, tuple)):
        if len(names) == 1 and data and (isinstance(data[0], (float, int, np.number)) or
                                         isinstance(data[0], (list, tuple)) and len(data) != 1):
            found = [np.asarray(data)]
        elif len(data) != len(names) and len(names) == 1 and data and not hasattr(data[0], "shape"):
            found = [np.asarray(data)]
        elif len(names) == 1 and _is_one_row(data, shapes[0] if shapes else None):
            found = [np.asarray(data)]
        else:
            found = [as_array(x) for x in data]
    else:
        found = [as_array(data)]
    if len(found) != len(names):
        _wrong_number(found, names, what)
    shapes = shapes or [None] * len(names)
    if columns:
        found = [column(x, s) for x, s in zip(found, shapes, strict=True)]
    if check:
        for x, name, shape in zip(found, names, shapes, strict=True):
            _check_shape(x, name, shape, what)
    return found


def _is_one_row(data: Any, shape: Any) -> bool:
    """Whether [[1, 2, 3]] is one row of an input with three columns, not a list with one array of three rows."""
    if shape is None or len(shape) < 2 or not isinstance(data[0], (list, tuple)):
        return False
    row = np.shape(data)
    return len(row) == len(shape) and all(n is None or n == m for n, m in zip(shape[1:], row[1:], strict=True))


def _wrong_number(found: list, names: list[str], what: str) -> None:
    if found and hasattr(found[0], "shape"):
        raise ValueError(f"Error when checking model {what}: the list of Numpy arrays that you are passing to your model "
                         "is not "
                         f"the size the model expected. Expected to see {len(names)} array(s), but instead got the following "
                         f"list of {len(found)} arrays: {str(found)[:200]}...")
    raise ValueError(f"Error when checking model {what}: you are passing a list as input to your model, but the model "
                     "expects a "
                     f"list of {len(names)} Numpy arrays instead. The list you passed was: {str(found)[:200]}")


def _check_shape(x: Any, name: str, expected: Any, what: str) -> None:
    if x is None or expected is None:
        return
    shape = getattr(x, "shape", None)
    if shape is None or getattr(shape, "rank", 0) is None:
        return
    found = tuple(shape.as_list() if hasattr(shape, "as_list") else shape)
    if len(found) != len(expected):
        raise ValueError(f"Error when checking {what}: expected {name} to have {len(expected)} dimensions, but got array with "
                         f"shape {found}")
    for dim, wanted in zip(found[1:], expected[1:]):
        if wanted is not None and dim is not None and dim != wanted:
            raise ValueError(f"Error when checking {what}: expected {name} to have shape {tuple(expected[1:])} but got array "
                             f"with shape {found[1:]}{advice(found, tuple(expected[1:]))}")


def _lengths(arrays: list) -> list[int]:
    shapes = [x.shape for x in arrays if x is not None and not (is_tensor(x) and not hasattr(x, "_value"))
              and hasattr(x, "shape") and len(x.shape)]
    return [getattr(s[0], "value", s[0]) for s in shapes]


def check_lengths(x: list, y: list, weights: list) -> None:
    """ValueError if arrays have different numbers of examples."""
    lengths = {"x": _lengths(x), "y": _lengths(y), "sample_weight": _lengths(weights)}
    n_x, n_y, n_w = map(set, lengths.values())
    if context.eager_outside_functions():
        if len(n_x | n_y | n_w) > 1:
            sizes = "".join(f"\n  {name} sizes: {', '.join(map(str, found))}" for name, found in lengths.items() if found)
            raise ValueError(f"Data cardinality is ambiguous:{sizes}\nMake sure all arrays contain the same number of samples.")
        return
    if len(n_x) > 1:
        raise ValueError("All input arrays (x) should have the same number of samples. Got array shapes: "
                         f"{[v.shape for v in x if v is not None]}")
    if len(n_y) > 1:
        raise ValueError("All target arrays (y) should have the same number of samples. Got array shapes: "
                         f"{[v.shape for v in y if v is not None]}")
    if n_x and n_y and n_x != n_y:
        raise ValueError("Input arrays should have the same number of samples as target arrays. Found "
                         f"{n_x.pop()} input samples and {n_y.pop()} target samples.")
    if len(n_w) > 1:
        raise ValueError("All sample_weight arrays should have the same number of samples. Got array shapes: "
                         f"{[v.shape for v in weights if v is not None]}")
    if n_y and n_w and n_y != n_w:
        raise ValueError("Sample_weight arrays should have the same number of samples as target arrays. Got "
                         f"{n_y.pop()} input samples and {n_w.pop()} target samples.")


def check_targets(targets: list, functions: list, outputs: list) -> None:
    """ValueError if a loss expects targets of another shape than those given. In 2.x, a target of size one broadcasts."""
    losses = tf.keras.losses
    same = (losses.MeanSquaredError, losses.BinaryCrossentropy, losses.CategoricalCrossentropy)
    fns = (losses.mean_squared_error, losses.binary_crossentropy, losses.categorical_crossentropy)
    broadcasts = context.eager_outside_functions()
    for y, loss, shape in zip(targets, functions, outputs):
        if y is None or loss is None or shape is None or not isinstance(y, np.ndarray):
            continue
        wrapped = getattr(loss, "fn", None)
        categorical = isinstance(loss, losses.CategoricalCrossentropy) or wrapped is losses.categorical_crossentropy
        if categorical and y.shape[-1] == 1:
            raise ValueError(
                f"You are passing a target array of shape {y.shape} while using as loss `categorical_crossentropy`. "
                "`categorical_crossentropy` expects targets to be binary matrices (1s and 0s) of shape (samples, "
                "classes). If your "
                "targets are integer classes, you can convert them to the expected format via `to_categorical`, or use "
                "the loss "
                "function `sparse_categorical_crossentropy` instead, which does expect integer targets.")
        if isinstance(loss, same) or any(wrapped is f for f in fns):
            for target_dim, out_dim in zip(y.shape[1:], shape[1:]):
                if out_dim is not None and target_dim != out_dim and not (broadcasts and target_dim == 1):
                    raise ValueError(f"A target array with shape {y.shape} was passed for an output of shape "
                                     f"{tuple(shape)} while "
                                     f"using as loss `{loss.name}`. This loss expects targets to have the same shape as the "
                                     "output.")


# -- weights ---------------------------------------------------------------------------------------------------------
def weights_by_output(given: Any, names: list[str], what: str) -> list:
    """Sample or class weights for each output."""
    if given is None or isinstance(given, (list, tuple)) and not given:
        return [None] * len(names)
    if len(names) == 1:
        if isinstance(given, (list, tuple)) and len(given) == 1:
            return list(given)
        return [given[names[0]]] if isinstance(given, Mapping) and names[0] in given else [given]
    if isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise ValueError(f"Provided `{what}` was a list of {len(given)} elements, but the model has {len(names)} "
                             "outputs. You "
                             f"should provide one `{what}`array per model output.")
        return list(given)
    if isinstance(given, Mapping):
        check_keys(what, given, names)
        return [given.get(n) for n in names]
    raise TypeError(f"The model has multiple outputs, so `{what}` should be either a list or a dict. Provided `{what}` "
                    "type not "
                    f"understood: {given}")


def check_classes(class_weight: Any) -> None:
    """ValueError if the classes with weights are not 0, 1 and so on."""
    if sorted(class_weight) != list(range(len(class_weight))):
        raise ValueError("Expected `class_weight` to be a dict with keys from 0 to one less than the number of classes, found "
                         f"{class_weight}")


def combined_weights(y: Any, sample_weight: Any, class_weight: Any, mode: Any) -> Any:
    """Weights of the examples from those given for them and for their classes."""
    sample_weight = as_array(sample_weight)
    if y is not None and sample_weight is not None and not context.executing_eagerly():
        _check_weights(y, sample_weight, mode)
    if not isinstance(class_weight, Mapping) or y is None:
        return sample_weight
    values = y.numpy() if hasattr(y, "_value") else np.asarray(y)
    if values.ndim > 2:
        raise ValueError("`class_weight` not supported for 3+ dimensional targets.")
    classes = values.argmax(axis=1) if values.ndim == 2 and values.shape[1] > 1 else values.reshape(-1)
    found, places = np.unique(classes, return_inverse=True)
    missing = {c.item() for c in found} - set(class_weight)
    if missing:
        raise ValueError("`class_weight` must contain all classes in the data. The classes "
                         f"{missing} exist in the data but not in `class_weight`.")
    weights = np.asarray([class_weight[c.item()] for c in found], np.float32)[places.reshape(-1)]
    return weights if sample_weight is None else weights * np.asarray(sample_weight)


def _check_weights(y: Any, weight: Any, mode: Any) -> None:
    shape, target = tuple(weight.shape), tuple(y.shape)
    if mode is not None and mode not in ("samplewise", "temporal"):
        raise ValueError(f"\"sample_weight_mode should be None or \"temporal\". Found: {mode}")
    if mode == "temporal":
        if len(target) < 3:
            raise ValueError(f"Found a sample_weight array for an input with shape {target}. Timestep-wise sample "
                             "weighting (use "
                             "of sample_weight_mode=\"temporal\") is restricted to outputs that are at least 3D, i.e. "
                             "that have "
                             "a time dimension.")
        if len(shape) != 2:
            raise ValueError(f"Found a sample_weight array with shape {shape}. Weights per time step need an array of rank 2.")
    if len(shape) == len(target) + 1 and shape[-1] == 1:        # the loss drops that dimension
        shape = shape[:-1]
    if len(shape) > len(target):
        raise ValueError(f"Found a sample_weight with shape{shape}.Expected sample_weight with rank less than or equal to "
                         f"{len(target)}")
    if target[:len(shape)] != shape and not (len(shape) == len(target) and shape[-1] == 1):
        raise ValueError(f"Found a sample_weight array with shape {shape} for an input with shape {target}. It cannot be "
                         "broadcast.")
