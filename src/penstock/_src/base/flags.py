"""tf.flags and tf.app.flags: absl's flags, read from the command line when the first of them is requested."""
from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

import absl.flags

from penstock._src.base.api import export

_RENAMED = {"flag_name": "name", "default_value": "default", "docstring": "help"}


def _with_old_names(define: Any) -> Any:
    """A DEFINE function that also takes the argument names of TensorFlow's first releases."""
    @functools.wraps(define)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if any(old in kwargs for old in _RENAMED):
            warnings.warn("Use of the keyword argument names (flag_name, default_value, docstring) is deprecated, please "
                          "use (name, default, help) instead.", DeprecationWarning, stacklevel=2)
        kwargs = {_RENAMED.get(k, k): v for k, v in kwargs.items()}
        if "log_dir" in (*args[:1], kwargs.get("name")) and FLAGS.find_module_defining_flag("log_dir") == "absl.logging":
            kwargs["allow_override"] = True         # programs had this flag before absl's logging took the name
        return define(*args, **kwargs)
    return wrapper


class _Flags:
    """absl's FLAGS, which parse sys.argv on first use instead of raising an error."""

    def __init__(self, values: absl.flags.FlagValues):
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        values = self._values
        if hasattr(type(values), name) or name in vars(values):         # `FLAGS.__flags` is the dictionary of all flags
            return getattr(values, name)
        if name.startswith("__"):                # Python requests such names while it inspects an object
            raise AttributeError(name)
        if not values.is_parsed():
            values(sys.argv)
        return getattr(values, name)

    def _parse_flags(self, args: list[str] | None = None) -> None:
        """Reads the command line again, in programs from before TensorFlow 1.5."""
        self._values(sys.argv if args is None else [sys.argv[0], *args])

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._values, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._values, name)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, flag: Any) -> None:
        self._values[name] = flag

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Any:
        return iter(self._values)

    def __dir__(self) -> list[str]:
        return dir(self._values)

    def __str__(self) -> str:
        return str(self._values)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._values(*args, **kwargs)


FLAGS = _Flags(absl.flags.FLAGS)

for _name in absl.flags.__all__:
    _value = getattr(absl.flags, _name)
    if _name == "FLAGS":
        _value = FLAGS
    elif _name in ("DEFINE_string", "DEFINE_boolean", "DEFINE_bool", "DEFINE_float", "DEFINE_integer"):
        _value = _with_old_names(_value)
    export.value(_value, v1=[f"flags.{_name}", f"app.flags.{_name}"])

absl.flags.disclaim_key_flags()
