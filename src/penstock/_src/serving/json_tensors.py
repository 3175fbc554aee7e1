"""JSON of the REST interface: requests to arrays and examples, arrays and results to text.

A request has rows (`instances`) or columns (`inputs`). Types are taken from the signature and are strict: an integer input does
not take 1.0, a float input takes neither booleans nor numbers that it cannot hold. Bytes are `{"b64": "..."}`; NaN, Infinity
and -Infinity are numbers, both ways.
"""
from __future__ import annotations

import base64
import binascii
import itertools
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.graph.messages import Example

_SHOWN = 256                                         # characters of a value that an error repeats
_SURROGATE = re.compile(rb"\\u[dD]")                # half of a character, maybe without the other half
_BLANKS = str.maketrans("", "", " \t\n\v\f\r")       # base64 may have been broken into lines


class _Named(float):
    """A number that has a name: NaN or an infinity. Other infinities were numbers that are too large."""


_NAMED = {name: _Named(name) for name in ("NaN", "Infinity", "-Infinity")}


def parse(body: bytes) -> dict[str, Any]:
    """The object in a request's body."""
    if not body:
        raise errors.invalid("JSON Parse error: The document is empty")
    try:
        document = json.loads(body.decode(), parse_constant=_NAMED.__getitem__)
        if _SURROGATE.search(body):
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise errors.invalid("JSON Parse error: too many levels of nesting") from None
    except UnicodeEncodeError:
        raise errors.invalid("JSON Parse error: The surrogate pair in string is invalid.") from None
    except ValueError as e:                          # malformed JSON, bytes that are not UTF-8, numbers of 5,000 digits
        where = f" at offset: {e.pos}" if isinstance(e, json.JSONDecodeError) else ""
        raise errors.invalid(f"JSON Parse error: {getattr(e, 'msg', e)}{where}") from None
    if not isinstance(document, dict):
        raise errors.invalid(f"JSON Value: {_shown(document)} Is not object")
    return document


def signature_name(document: dict[str, Any]) -> str:
    """The signature that a request names, or an empty string."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise errors.invalid(f"JSON Value: {_shown(document)} not formatted correctly. 'signature_name' key must be a string "
                             "value.")
    return name


def inputs_of(document: dict[str, Any], infos: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], bool]:
    """The inputs of a predict request as arrays, and whether they came as rows."""
    if "instances" in document and "inputs" in document:
        raise errors.invalid(f"JSON Value: {_shown(document)} Not formatted correctly expecting only one of 'inputs' or "
                             "'instances' keys to exist ")
    if not infos:
        raise errors.invalid("Failed to get input map for signature: it has no inputs")
    if "instances" in document:
        return _rows(document, infos), True
    if "inputs" in document:
        return _columns(document["inputs"], infos), False
    raise errors.invalid("Missing 'inputs' or 'instances' key")


def _rows(document: dict[str, Any], infos: Mapping[str, Any]) -> dict[str, np.ndarray]:
    rows = document["instances"]
    if not isinstance(rows, list):
        raise errors.invalid(f"JSON Value: {_shown(document)} Expecting 'instances' to be an list/array")
    if not rows:
        raise errors.invalid(f"JSON Value: {_shown(document)} No values in 'instances' array")
    named = [isinstance(row, dict) and not _is_bytes(row) for row in rows]
    if not named[0] and len(infos) > 1:
        raise errors.invalid("instances is a plain list, but expecting list of objects as multiple input tensors required as "
                             "per tensorinfo_map")
    if named[0] != all(named) or named[0] != any(named):
        at = named.index(not named[0])
        raise errors.invalid(f"Expecting object but got list at item {at} of input list" if named[0] else
                             f"Expecting value/list but got object at item {at} of input list")
    if not named[0]:
        (key, info), = infos.items()
        return {key: array_of(rows, info, key)}
    for i, row in enumerate(rows):
        if row.keys() != infos.keys():
            raise errors.invalid(f"Failed to process element: {i} of 'instances' list. JSON object: {_shown(row)} keys must be "
                                 f"equal to: {','.join(sorted(infos))}")
    return {key: array_of([row[key] for row in rows], info, key) for key, info in infos.items()}


def _columns(given: Any, infos: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(given, dict) or _is_bytes(given):
        if len(infos) > 1:
            raise errors.invalid("inputs is a plain value/list, but expecting an object as multiple input tensors required as "
                                 "per tensorinfo_map")
        (key, info), = infos.items()
        return {key: array_of(given, info, key)}
    for key in infos:
        if key not in given:
            raise errors.invalid(f"Missing named input: {key} in 'inputs' object.")
    return {key: array_of(given[key], info, key) for key, info in infos.items()}


def array_of(value: Any, info: Any, key: str) -> np.ndarray:
    """Nested lists as an array of the signature's type."""
    shape, leaves = _flat(value, key)
    dtype = dtypes.as_dtype(info.dtype).base_dtype
    _check_types(leaves, dtype)
    try:
        if dtype is dtypes.string:
            array = np.empty(len(leaves), object)
            array[:] = [leaf.encode() if isinstance(leaf, str) else _decoded(leaf) for leaf in leaves]
        else:
            with np.errstate(over="ignore"):
                array = np.array(leaves, dtype.np)
            if dtype.is_floating:
                _check_range(array, leaves, dtype)
        return array.reshape(shape)
    except (OverflowError, ValueError, TypeError) as e:
        raise errors.invalid(f"Input {key!r} is not of expected type: {dtype.name}: {e}") from None


def _flat(value: Any, key: str) -> tuple[list[int], list]:
    """The lengths of nested lists, and their leaves; InvalidArgumentError if they are not rectangular."""
    shape: list[int] = []
    level = [value]
    while level and isinstance(level[0], list):
        if set(map(type, level)) != {list}:
            raise errors.invalid(f"JSON Value found at incorrect level: {len(shape) + 1} in the JSON DOM of input {key!r}")
        sizes = set(map(len, level))
        if len(sizes) > 1:
            first = len(level[0])
            other = next(len(v) for v in level if len(v) != first)
            raise errors.invalid(f"Encountered list at unexpected size: {other} at level: {len(shape)} expected size: {first} "
                                 f"in input {key!r}")
        shape.append(sizes.pop())
        level = list(itertools.chain.from_iterable(level))
    if list in set(map(type, level)):
        raise errors.invalid(f"Encountered list at unexpected level: {len(shape)} in input {key!r}")
    return shape, level


def _check_types(leaves: list, dtype: Any) -> None:
    if dtype is dtypes.string:
        allowed: set[type] = {str, dict}
    elif dtype is dtypes.bool:
        allowed = {bool}
    elif dtype.is_integer:
        allowed = {int}
    elif dtype.is_floating:
        allowed = {int, float, _Named}
    else:
        raise errors.UnimplementedError(None, None, f"Conversion of JSON Value to type: {dtype.name}")
    if not set(map(type, leaves)) <= allowed:
        wrong = next(leaf for leaf in leaves if type(leaf) not in allowed)
        raise errors.invalid(f"JSON Value: {_shown(wrong)} Type: {_kind(wrong)} is not of expected type: {dtype.name}")


def _check_range(array: np.ndarray, leaves: list, dtype: Any) -> None:
    """InvalidArgumentError if a floating-point type cannot hold a number; integers must be exact, unless they are huge."""
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32)
    exact = 2 ** (np.finfo(array.dtype).nmant + 1) - 1
    huge = np.flatnonzero(~(np.abs(array) <= exact))
    for i in huge.tolist():
        leaf = leaves[i]
        if type(leaf) is int and -1 << 63 <= leaf < 1 << 64 and abs(leaf) > exact or \
                type(leaf) is not _Named and math.isinf(array[i]):
            raise errors.invalid(f"Cannot convert JSON value: {_shown(leaf)} to {dtype.name} without loss of precision.")


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _decoded(value: Any) -> bytes:
    if not _is_bytes(value):
        raise errors.invalid(f"JSON Value: {_shown(value)} not formatted correctly for base64 data")
    try:
        text = value["b64"].translate(_BLANKS).rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise errors.invalid("Unable to base64 decode") from None


def _shown(value: Any) -> str:
    return json.dumps(value)[:_SHOWN]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    return {type(None): "Null", dict: "Object", list: "Array", str: "String"}.get(type(value), "Number")


# -- examples ---------------------------------------------------------------------------------------------------------
def fill_examples(document: dict[str, Any], given: Any) -> None:
    """The examples of a classify or regress request, into an Input message."""
    rows = document.get("examples")
    if "examples" not in document:
        raise errors.invalid(f"JSON Value: {_shown(document)} When method is classify, key 'examples' is expected and was not "
                             "found")
    if not isinstance(rows, list):
        raise errors.invalid(f"JSON Value: {_shown(document)} Expecting 'examples' value to be an list/array")
    if not rows:
        raise errors.invalid(f"JSON Value: {_shown(document)} 'examples' value is an empty array")
    made = [_example(row) for row in rows]
    if "context" in document:
        given.example_list_with_context.context = _example(document["context"])
        given.example_list_with_context.examples.extend(made)
    else:
        given.example_list.examples.extend(made)


def _example(features: Any) -> bytes:
    if not isinstance(features, dict):
        raise errors.invalid(f"Example must be JSON object but got JSON {_kind(features)}")
    example = Example()
    for name, content in features.items():
        _fill_feature(example.features.feature[name], name, content if isinstance(content, list) else [content])
    return example.SerializeToString()


def _fill_feature(feature: Any, name: str, values: list) -> None:
    """A feature's values; the first one determines their kind."""
    fields = {bool: "int64_list", int: "int64_list", float: "float_list", _Named: "float_list", str: "bytes_list",
              dict: "bytes_list"}
    for value in values:
        field = fields.get(type(value))
        if field is None or isinstance(value, dict) and not _is_bytes(value):
            raise errors.invalid(f"Feature: {name} has element with unexpected JSON type: {_kind(value)}")
        if feature.WhichOneof("kind") not in (None, field):
            expected = feature.WhichOneof("kind").removesuffix("_list")
            raise errors.invalid(f"Unexpected element type in feature: {name} expecting type: {expected}")
        if isinstance(value, str):
            value = value.encode()
        elif isinstance(value, dict):
            value = _decoded(value)
        try:
            getattr(feature, field).value.append(value)
        except ValueError:
            raise errors.invalid(f"Feature: {name} has uint64_t element. Only int64_t is supported.") from None


# -- answers ----------------------------------------------------------------------------------------------------------
def predictions(outputs: Mapping[str, np.ndarray], as_rows: bool) -> bytes:
    """The answer to a predict request, in the form of the request."""
    if not outputs:
        raise errors.invalid("Cannot convert empty tensor map to JSON")
    if not as_rows:
        columns = {key: _text(array, key, 0)[0] for key, array in outputs.items()}
        body = _object(columns) if len(columns) > 1 else next(iter(columns.values()))
        return _encoded(f'{{\n    "outputs": {body}\n}}')
    sizes = set()
    for key, array in outputs.items():
        if array.ndim == 0:
            raise errors.invalid(f"Tensor name: {key} has no shape information ")
        sizes.add(len(array))
        if len(sizes) > 1:
            raise errors.invalid(f"Tensor name: {key} has inconsistent batch size: {len(array)} expecting: "
                                 f"{len(next(iter(outputs.values())))}")
    by_key = {key: _text(array, key, 1) for key, array in outputs.items()}
    rows = next(iter(by_key.values()))
    if len(by_key) > 1:
        rows = [_object(dict(zip(by_key, row))) for row in zip(*by_key.values())]
    return _encoded('{\n    "predictions": [' + ",\n        ".join(rows) + "]\n}")


def classifications(result: Any) -> bytes:
    """The answer to a classify request."""
    scores = [c.score for row in result.classifications for c in row.classes]
    texts = iter(_leaves(np.array(scores, np.float32), ""))
    rows = ["[" + ", ".join(f"[{json.dumps(c.label, ensure_ascii=False)}, {next(texts)}]" for c in row.classes) + "]"
            for row in result.classifications]
    return _encoded('{\n    "results": [' + ",\n        ".join(rows) + "]\n}")


def regressions(result: Any) -> bytes:
    """The answer to a regress request."""
    values = np.array([r.value for r in result.regressions], np.float32)
    return _encoded('{\n    "results": [' + ", ".join(_leaves(values, "")) + "]\n}")


def error_body(message: str) -> bytes:
    """The answer to a request that failed."""
    return _encoded(json.dumps({"error": message}, ensure_ascii=False, indent=4))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _object(members: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(k)}: {v}" for k, v in members.items()) + "}"


def _text(array: np.ndarray, key: str, first: int) -> list[str]:
    """An array as JSON, one text for each index of its first `first` dimensions."""
    items = _leaves(array.ravel(), key)
    for axis in reversed(range(first, array.ndim)):
        size, count = array.shape[axis], int(np.prod(array.shape[:axis], dtype=int))
        items = ["[" + ", ".join(items[i * size:(i + 1) * size]) + "]" for i in range(count)]
    return items


def _leaves(flat: np.ndarray, key: str) -> list[str]:
    """The elements as JSON. Floats have as many digits as their type needs, so that 0.2 is not 0.20000000298."""
    if flat.dtype == object:
        if key.endswith("_bytes"):
            return [json.dumps({"b64": base64.b64encode(v).decode()}) for v in flat]
        return [json.dumps(v.decode("utf-8", "surrogateescape"), ensure_ascii=False) for v in flat]
    if flat.dtype == bool:
        return ["true" if v else "false" for v in flat.tolist()]
    if flat.dtype.kind in "iu":
        return list(map(str, flat.tolist()))
    if flat.dtype not in (np.float32, np.float64):
        if flat.dtype.kind == "c":
            raise errors.invalid(f"Failed to write JSON value for tensor type: {flat.dtype.name}")
        flat = flat.astype(np.float32)               # of 16 bits and less
    texts = flat.astype("U32").tolist()
    if not np.isfinite(flat).all():
        words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        texts = [words.get(t, t) for t in texts]
    return texts
