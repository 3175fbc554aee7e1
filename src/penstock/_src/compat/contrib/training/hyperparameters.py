"""HParams: named values with types, which can be parsed from text and written as JSON."""
from __future__ import annotations

import json
import numbers
import re
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export

_ASSIGNMENT = re.compile(r"(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
                         r"((?P<val>[^,\[]*)|\[(?P<vals>[^\]]*)\])($|,\s*)")


def _parsed(parse: Callable, name: str, kind: type, text: str, values: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}' in {values}") from None


def _truth(text: str) -> bool:
    if text in ("true", "True", "false", "False"):
        return text.lower() == "true"
    return bool(int(text))


@export(v1=["contrib.training.parse_values"])
def parse_values(values: str, type_map: dict[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """The assignments in a text such as `a=1,b=[2,3],c[1]=4`, with the types of the map.

    >>> tf.contrib.training.parse_values("rate=0.1,sizes=[1,2]", {"rate": float, "sizes": int})
    """
    found: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _ASSIGNMENT.match(values, position)
        if not match:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        position, name, index = match.end(), match["name"], match["index"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}")
        kind = type_map[name]
        parse = _truth if kind is bool else kind
        if match["vals"] is not None:
            if index is not None:
                raise ValueError("Assignment of a list to a list index.")
            if name in found:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            found[name] = [_parsed(parse, name, kind, e, values) for e in re.split("[ ,]", match["vals"]) if e]
        elif index is None:
            if name in found:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            found[name] = _parsed(parse, name, kind, match["val"], values)
        else:
            items = found.setdefault(name, {})
            if not isinstance(items, dict) or int(index) in items:
                raise ValueError(f"Multiple assignments to variable '{name}[{index}]' in {values}")
            items[int(index)] = _parsed(parse, name, kind, match["val"], values)
    return found


def _cast(name: str, kind: type, value: Any) -> Any:
    """The value as the type of the parameter, where nothing is lost by it."""
    if type(value) is kind or issubclass(kind, type(None)):
        return value
    wrong = ((issubclass(kind, (str, bytes)) and not isinstance(value, (str, bytes)))
             or issubclass(kind, bool) != isinstance(value, bool)
             or (issubclass(kind, numbers.Integral) and not isinstance(value, numbers.Integral))
             or (issubclass(kind, numbers.Number) and not isinstance(value, numbers.Number)))
    if wrong:
        raise ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")
    return kind(value)


@export(v1=["contrib.training.HParams"])
class HParams:
    """Hyperparameters as attributes.

    Args:
        hparam_def: Old serialized form, a message.
        model_structure: Unused.
        **kwargs: Names and values; their types are fixed by these values.

    >>> hparams = tf.contrib.training.HParams(learning_rate=0.1, layers=[64, 32])
    >>> hparams.parse("learning_rate=0.2").learning_rate
    0.2
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any):
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        if hparam_def:
            if kwargs:
                raise ValueError("Pass hparam_def or values, not both")
            kwargs = dict(hparam_def)
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds one; its type is that of the value, or of the first in a list."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Replaces a value by another of the same type."""
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list):
            if not is_list:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, v) for v in value])
        elif is_list:
            raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
        else:
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes one, if it exists."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Sets what the text assigns."""
        return self.override_from_dict(parse_values(values, {n: kind for n, (kind, _) in self._hparam_types.items()}))

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Sets what the table holds."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse_json(self, values_json: str) -> HParams:
        """Sets what the JSON object holds."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """All as a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def set_model_structure(self, model_structure: Any) -> None:
        """Keeps the structure of the model."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """The structure of the model."""
        return self._model_structure

    def values(self) -> dict[str, Any]:
        """All as a table."""
        return {n: getattr(self, n) for n in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """One, or the default, which must be of its type."""
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            fault = (f"Hparam '{key}' of type '{f'list<{kind}>' if is_list else kind}' is incompatible with "
                     f"default={default}")
            if is_list != isinstance(default, list):
                raise ValueError(fault)
            try:
                for value in default if is_list else [default]:
                    _cast(key, kind, value)
            except ValueError as e:
                raise ValueError(f"{fault}. {e}") from e
        return getattr(self, key)

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ",".join(f"{k}={v}" for k, v in self.values().items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.values().items())})"
