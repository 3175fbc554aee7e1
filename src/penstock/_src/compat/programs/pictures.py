"""The functions for pictures that SciPy had in `scipy.misc` until 1.2, over Pillow."""
from __future__ import annotations

from typing import Any

import numpy as np

RESAMPLING = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "cubic": 3}     # Pillow's numbers


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as e:
        raise ImportError("the functions of scipy.misc for pictures need Pillow: pip install pillow") from e
    return Image


def bytescale(data: Any, cmin: float | None = None, cmax: float | None = None, high: int = 255, low: int = 0) -> np.ndarray:
    """Maps the range from cmin to cmax, by default that of the data, to bytes from low to high; bytes stay as they are."""
    data = np.asarray(data)
    if data.dtype == np.uint8:
        return data
    if not 0 <= low <= high <= 255:
        raise ValueError(f"low and high must be ordered and between 0 and 255, not {low} and {high}")
    cmin = data.min() if cmin is None else cmin
    cmax = data.max() if cmax is None else cmax
    if cmax < cmin:
        raise ValueError(f"cmax is less than cmin: {cmax} < {cmin}")
    scale = (high - low) / (float(cmax - cmin) or 1.0)
    return (np.clip((data - cmin) * scale + low, low, high) + 0.5).astype(np.uint8)


def toimage(arr: Any, high: int = 255, low: int = 0, cmin: float | None = None, cmax: float | None = None, pal: Any = None,
            mode: str | None = None, channel_axis: int | None = None) -> Any:
    """A Pillow image of a matrix, or of an array with an axis of three or four channels."""
    image, data = _pillow(), np.asarray(arr)
    if np.iscomplexobj(data):
        raise ValueError("an image cannot be made of complex numbers")
    if data.ndim == 2:
        if mode in ("F", "I"):
            return image.fromarray(data.astype(np.float32 if mode == "F" else np.int32))
        scaled = bytescale(data, cmin, cmax, high, low)
        if mode == "1":
            return image.fromarray(scaled).convert("1")
        result = image.fromarray(scaled)
        if mode == "P" and pal is not None:
            result = image.frombytes("P", result.size, scaled.tobytes())
            result.putpalette(np.asarray(pal, np.uint8).tobytes())
        return result
    if data.ndim != 3 or not (3 in data.shape or 4 in data.shape):
        raise ValueError(f"an image has two axes, or three with one of 3 or 4 channels; the shape is {data.shape}")
    axis = data.shape.index(3 if 3 in data.shape else 4) if channel_axis is None else channel_axis
    scaled = np.ascontiguousarray(np.moveaxis(bytescale(data, cmin, cmax, high, low), axis, -1))
    result = image.fromarray(scaled)
    return result if mode is None or mode == result.mode else image.frombytes(mode, result.size, scaled.tobytes())


def fromimage(im: Any, flatten: bool = False, mode: str | None = None) -> np.ndarray:
    """The array of a Pillow image; with `flatten` its brightness as float32."""
    if mode is not None and mode != im.mode:
        im = im.convert(mode)
    elif im.mode == "P":
        im = im.convert("RGBA" if "transparency" in im.info else "RGB")
    elif im.mode == "1":
        im = im.convert("L")
    return np.array(im.convert("F") if flatten else im)


def imread(name: Any, flatten: bool = False, mode: str | None = None) -> np.ndarray:
    """The array of an image file."""
    with _pillow().open(name) as im:
        return fromimage(im, flatten=flatten, mode=mode)


def imsave(name: Any, arr: Any, format: str | None = None) -> None:
    """Writes an array to an image file, its values scaled to bytes."""
    image = toimage(arr, channel_axis=2) if np.ndim(arr) == 3 else toimage(arr)
    image.save(name, *([] if format is None else [format]))


def imresize(arr: Any, size: Any, interp: str = "bilinear", mode: str | None = None) -> np.ndarray:
    """Resizes an image: to a percentage (an integer), a fraction (a float), or a height and width."""
    image = toimage(arr, mode=mode)
    if np.issubdtype(type(size), np.integer):
        shape = tuple(int(n * size / 100.0) for n in image.size)
    elif np.issubdtype(type(size), np.floating):
        shape = tuple(int(n * size) for n in image.size)
    else:
        shape = (int(size[1]), int(size[0]))
    return fromimage(image.resize(shape, resample=RESAMPLING[interp]))


def imrotate(arr: Any, angle: float, interp: str = "bilinear") -> np.ndarray:
    """Rotates an image counter-clockwise by an angle in degrees."""
    return fromimage(toimage(arr).rotate(angle, resample=RESAMPLING[interp]))


FUNCTIONS = (bytescale, toimage, fromimage, imread, imsave, imresize, imrotate)
