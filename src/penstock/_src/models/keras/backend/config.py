"""The defaults of Keras: type of floats, fuzz factor, layout of images. `~/.keras/keras.json` may change them."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np

from penstock._src.base.api import export


class _Config:
    floatx = "float32"
    epsilon = 1e-7
    image_data_format = "channels_last"


_config = _Config()


@export("keras.backend.backend")
def backend() -> str:
    """The name of the engine below: "tensorflow", for programs that ask.

    >>> tf.keras.backend.backend()
    'tensorflow'
    """
    return "tensorflow"


@export("keras.backend.epsilon")
def epsilon() -> float:
    """The small number that keeps divisions and logarithms finite."""
    return _config.epsilon


@export("keras.backend.set_epsilon")
def set_epsilon(value: float) -> None:
    """Sets the small number that keeps divisions and logarithms finite."""
    _config.epsilon = value


@export("keras.backend.floatx")
def floatx() -> str:
    """The default type of floats, as a string.

    >>> tf.keras.backend.floatx()
    'float32'
    """
    return _config.floatx


@export("keras.backend.set_floatx")
def set_floatx(value: str) -> None:
    """Sets the default type of floats: 'float16', 'float32' or 'float64'."""
    if value not in ("float16", "float32", "float64"):
        raise ValueError(f"Unknown floatx type: {value}")
    _config.floatx = str(value)


@export("keras.backend.image_data_format")
def image_data_format() -> str:
    """The default layout of images: 'channels_last' or 'channels_first'.

    Returns:
        A string.

    >>> tf.keras.backend.image_data_format()
    'channels_last'
    """
    return _config.image_data_format


@export("keras.backend.set_image_data_format")
def set_image_data_format(data_format: str) -> None:
    """Sets the default layout of images: 'channels_last' or 'channels_first'."""
    _config.image_data_format = checked_data_format(data_format)


def checked_data_format(data_format: Any) -> str:
    """A layout of images, the default one if None; ValueError if there is no such layout."""
    if data_format is None:
        return _config.image_data_format
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"Unknown data_format: {data_format}")
    return str(data_format)


@export("keras.backend.cast_to_floatx")
def cast_to_floatx(x: Any) -> Any:
    """An array (or tensor) as the default type of floats."""
    if hasattr(x, "dtype") and (hasattr(x, "graph") or hasattr(x, "handle")) or hasattr(x, "_value"):
        from penstock._src.models.keras.backend.tensors import cast
        return cast(x, floatx())
    return np.asarray(x, dtype=floatx())


def keras_home() -> pathlib.Path:
    """The folder of Keras' configuration, data sets and weights: $KERAS_HOME, else ~/.keras."""
    return pathlib.Path(os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras"))


def _read_file() -> None:
    """Applies the settings of `keras.json`; invalid ones are ignored."""
    try:
        found = json.loads((keras_home() / "keras.json").read_text())
    except (OSError, ValueError):
        return
    if not isinstance(found, dict):
        return
    if found.get("floatx") in ("float16", "float32", "float64"):
        _config.floatx = found["floatx"]
    if isinstance(found.get("epsilon"), float):
        _config.epsilon = found["epsilon"]
    if found.get("image_data_format") in ("channels_last", "channels_first"):
        _config.image_data_format = found["image_data_format"]


_read_file()
