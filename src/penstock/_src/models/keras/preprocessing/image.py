"""Images as arrays, their random changes, and ImageDataGenerator, which makes batches of them."""
from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.layers.preprocessing.images import Resizing


def _pil() -> Any:
    try:
        import PIL.Image
    except ImportError:
        raise ImportError("Could not import PIL.Image. The use of `load_img` requires PIL.") from None
    return PIL.Image


@export("keras.preprocessing.image.img_to_array", v2=["keras.utils.img_to_array"])
def img_to_array(img: Any, data_format: str | None = None, dtype: Any = None) -> np.ndarray:
    """A PIL image as an array (height, width, channels).

    Args:
        img: The image.
        data_format: `"channels_first"` for (channels, height, width); by default that of the Keras configuration.
        dtype: The type of the array; float32 by default.

    Returns:
        A NumPy array.

    Raises:
        ValueError: if the data format is not known, or the image has an unsupported number of dimensions.

    >>> image = tf.keras.utils.array_to_img(tf.ones([4, 6, 3]).numpy())
    >>> tf.keras.utils.img_to_array(image).shape
    (4, 6, 3)
    """
    data_format = K.image_data_format() if data_format is None else data_format
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {data_format}")
    x = np.asarray(img, dtype=K.floatx() if dtype is None else dtype)
    if x.ndim == 2:
        x = x[..., None]
    if x.ndim != 3:
        raise ValueError(f"Unsupported image shape: {x.shape}")
    return x.transpose(2, 0, 1) if data_format == "channels_first" else x


@export("keras.preprocessing.image.array_to_img", v2=["keras.utils.array_to_img"])
def array_to_img(x: Any, data_format: str | None = None, scale: bool = True, dtype: Any = None) -> Any:
    """An array as a PIL image.

    Args:
        x: An array (height, width, channels).
        data_format: `"channels_first"` for (channels, height, width); by default that of the Keras configuration.
        scale: Whether the values are spread over 0 … 255.
        dtype: The type to convert the values to first; float32 by default.

    Returns:
        The image.

    Raises:
        ValueError: if the array does not have three dimensions, or one, three or four channels.

    >>> tf.keras.utils.array_to_img(tf.ones([4, 6, 3]).numpy()).size
    (6, 4)
    """
    image = _pil()
    data_format = K.image_data_format() if data_format is None else data_format
    x = np.asarray(x, dtype=K.floatx() if dtype is None else dtype)
    if x.ndim != 3:
        raise ValueError(f"An image must have rank 3, got shape {x.shape}")
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Invalid data_format: {data_format}")
    x = x.transpose(1, 2, 0) if data_format == "channels_first" else x
    if scale:
        x = x - np.min(x)
        x = x / x.max() * 255 if x.max() else x
    channels = x.shape[2]
    if channels == 1:
        grey = x[:, :, 0]
        return image.fromarray(grey.astype("int32"), "I") if np.max(grey) > 255 else image.fromarray(grey.astype("uint8"), "L")
    if channels not in (3, 4):
        raise ValueError(f"Unsupported channel number: {channels}")
    return image.fromarray(x.astype("uint8"), "RGB" if channels == 3 else "RGBA")


@export("keras.preprocessing.image.smart_resize")
def smart_resize(x: Any, size: Any, interpolation: str = "bilinear") -> Any:
    """Images [..., height, width, channels] in another size, cropped around the center to keep the aspect ratio.

    >>> tf.keras.preprocessing.image.smart_resize(np.ones((8, 6, 3)), (4, 4)).shape
    (4, 4, 3)
    """
    if len(size) != 2:
        raise ValueError(f"Expected `size` to be a tuple of 2 integers, but got: {size}.")
    if len(x.shape) not in (3, 4):
        raise ValueError(f"Expected an image or a batch of images, of rank 3 or 4, but got an input of shape {x.shape}.")
    height, width = size
    made = Resizing(height, width, interpolation=interpolation, crop_to_aspect_ratio=True)(x)
    if interpolation == "nearest":                             # whose pixels are those of the image
        made = tf.cast(made, x.dtype)
    return made.numpy() if isinstance(x, np.ndarray) else made


@export("keras.preprocessing.image.save_img", v2=["keras.utils.save_img"])
def save_img(path: Any, x: Any, data_format: str | None = None, file_format: str | None = None, scale: bool = True,
             **kwargs: Any) -> None:
    """Writes an array as an image file.

    Args:
        path: The file.
        x: An array (height, width, channels).
        data_format: `"channels_first"` for (channels, height, width); by default that of the Keras configuration.
        file_format: `"png"`, `"jpeg"` and others of PIL; by default the ending of the file decides.
        scale: Whether the values are spread over 0 … 255.
        **kwargs: Options of PIL's `Image.save`.

    Returns:
        None.

    >>> tf.keras.utils.save_img("a.png", tf.ones([4, 6, 3]).numpy())
    >>> tf.keras.utils.load_img("a.png").size
    (6, 4)
    """
    img = array_to_img(x, data_format=data_format, scale=scale)
    if img.mode == "RGBA" and file_format in ("jpg", "jpeg"):
        img = img.convert("RGB")
    img.save(path, format=file_format, **kwargs)


@export("keras.preprocessing.image.load_img", v2=["keras.utils.load_img"])
def load_img(path: Any, grayscale: bool = False, color_mode: str = "rgb", target_size: Any = None,
             interpolation: str = "nearest") -> Any:
    """Reads an image file.

    Args:
        path: The file.
        grayscale: An old way to write `color_mode="grayscale"`.
        color_mode: `"grayscale"`, `"rgb"` or `"rgba"`.
        target_size: Height and width that the image is resized to.
        interpolation: How it is resized: `"nearest"`, `"bilinear"`, `"bicubic"` and others of PIL.

    Returns:
        A PIL image.

    >>> tf.keras.utils.save_img("a.png", tf.ones([4, 6, 3]).numpy(), scale=False)
    >>> tf.keras.utils.load_img("a.png", target_size=(2, 3)).size
    (3, 2)
    """
    image = _pil()
    if isinstance(path, io.BytesIO):
        img = image.open(path)
    else:
        with open(path, "rb") as f:
            img = image.open(io.BytesIO(f.read()))
    mode = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}.get("grayscale" if grayscale else color_mode)
    if mode is None:
        raise ValueError(f"Unknown color_mode {color_mode!r}: it is 'grayscale', 'rgb' or 'rgba'")
    if img.mode != mode and not (mode == "L" and img.mode in ("I;16", "I")):
        img = img.convert(mode)
    if target_size is not None and img.size != (target_size[1], target_size[0]):
        names = ("nearest", "bilinear", "bicubic", "hamming", "box", "lanczos")
        kinds = {n: getattr(image.Resampling, n.upper()) for n in names}
        if interpolation not in kinds:
            raise ValueError(f"Invalid interpolation method {interpolation} specified. Supported methods are "
                             f"{', '.join(kinds)}")
        img = img.resize((target_size[1], target_size[0]), kinds[interpolation])
    return img


# -- changes ----------------------------------------------------------------------------------------------------------
def _centered(matrix: np.ndarray, height: int, width: int) -> np.ndarray:
    """A transformation about the middle of an image instead of its corner."""
    y, x = height / 2 - 0.5, width / 2 - 0.5
    there, back = np.array([[1, 0, y], [0, 1, x], [0, 0, 1]]), np.array([[1, 0, -y], [0, 1, -x], [0, 0, 1]])
    return there @ matrix @ back


@export("keras.preprocessing.image.apply_affine_transform")
def apply_affine_transform(x: np.ndarray, theta: float = 0, tx: float = 0, ty: float = 0, shear: float = 0, zx: float = 1,
                           zy: float = 1, row_axis: int = 0, col_axis: int = 1, channel_axis: int = 2,
                           fill_mode: str = "nearest", cval: float = 0.0, order: int = 1) -> np.ndarray:
    """An image rotated by `theta` degrees, moved by (tx, ty), sheared and zoomed."""
    matrix = np.eye(3)
    if theta:
        a = np.deg2rad(theta)
        matrix = matrix @ np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    if tx or ty:
        matrix = matrix @ np.array([[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    if shear:
        a = np.deg2rad(shear)
        matrix = matrix @ np.array([[1, -np.sin(a), 0], [0, np.cos(a), 0], [0, 0, 1]])
    if zx != 1 or zy != 1:
        matrix = matrix @ np.diag([zx, zy, 1])
    if np.array_equal(matrix, np.eye(3)):
        return x
    try:
        from scipy import ndimage
    except ImportError:
        raise ImportError("Image transformations require SciPy. Install SciPy.") from None
    matrix = _centered(matrix, x.shape[row_axis], x.shape[col_axis])
    channels = np.rollaxis(x, channel_axis, 0)
    made = np.stack([ndimage.affine_transform(c, matrix[:2, :2], matrix[:2, 2], order=order, mode=fill_mode, cval=cval)
                     for c in channels])
    return np.rollaxis(made, 0, channel_axis + 1)


@export("keras.preprocessing.image.random_rotation")
def random_rotation(x: np.ndarray, rg: float, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                    fill_mode: str = "nearest", cval: float = 0.0, interpolation_order: int = 1) -> np.ndarray:
    """An image rotated by a random angle of at most `rg` degrees."""
    return apply_affine_transform(x, theta=np.random.uniform(-rg, rg), row_axis=row_axis, col_axis=col_axis,
                                  channel_axis=channel_axis, fill_mode=fill_mode, cval=cval, order=interpolation_order)


@export("keras.preprocessing.image.random_shift")
def random_shift(x: np.ndarray, wrg: float, hrg: float, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                 fill_mode: str = "nearest", cval: float = 0.0, interpolation_order: int = 1) -> np.ndarray:
    """An image moved by random parts of its width and height."""
    tx, ty = np.random.uniform(-hrg, hrg) * x.shape[row_axis], np.random.uniform(-wrg, wrg) * x.shape[col_axis]
    return apply_affine_transform(x, tx=tx, ty=ty, row_axis=row_axis, col_axis=col_axis, channel_axis=channel_axis,
                                  fill_mode=fill_mode, cval=cval, order=interpolation_order)


@export("keras.preprocessing.image.random_shear")
def random_shear(x: np.ndarray, intensity: float, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                 fill_mode: str = "nearest", cval: float = 0.0, interpolation_order: int = 1) -> np.ndarray:
    """An image sheared by a random angle of at most `intensity` degrees."""
    return apply_affine_transform(x, shear=np.random.uniform(-intensity, intensity), row_axis=row_axis, col_axis=col_axis,
                                  channel_axis=channel_axis, fill_mode=fill_mode, cval=cval, order=interpolation_order)


@export("keras.preprocessing.image.random_zoom")
def random_zoom(x: np.ndarray, zoom_range: Any, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                fill_mode: str = "nearest", cval: float = 0.0, interpolation_order: int = 1) -> np.ndarray:
    """An image zoomed by random factors from a range."""
    if len(zoom_range) != 2:
        raise ValueError(f"`zoom_range` should be a tuple or list of two floats. Received: {zoom_range}")
    zx, zy = (1, 1) if zoom_range[0] == 1 and zoom_range[1] == 1 else np.random.uniform(zoom_range[0], zoom_range[1], 2)
    return apply_affine_transform(x, zx=zx, zy=zy, row_axis=row_axis, col_axis=col_axis, channel_axis=channel_axis,
                                  fill_mode=fill_mode, cval=cval, order=interpolation_order)


@export("keras.preprocessing.image.apply_channel_shift")
def apply_channel_shift(x: np.ndarray, intensity: float, channel_axis: int = 0) -> np.ndarray:
    """All channels moved by `intensity`, within the image's range."""
    return np.clip(x + intensity, np.min(x), np.max(x))


@export("keras.preprocessing.image.random_channel_shift")
def random_channel_shift(x: np.ndarray, intensity_range: float, channel_axis: int = 0) -> np.ndarray:
    """All channels moved by a random amount."""
    return apply_channel_shift(x, np.random.uniform(-intensity_range, intensity_range), channel_axis)


@export("keras.preprocessing.image.apply_brightness_shift")
def apply_brightness_shift(x: np.ndarray, brightness: float) -> np.ndarray:
    """An image with another brightness; 1 leaves it unchanged."""
    from PIL import ImageEnhance
    return img_to_array(ImageEnhance.Brightness(array_to_img(x)).enhance(brightness))


@export("keras.preprocessing.image.random_brightness")
def random_brightness(x: np.ndarray, brightness_range: Any) -> np.ndarray:
    """An image with a random brightness from a range."""
    if len(brightness_range) != 2:
        raise ValueError(f"`brightness_range` must have two numbers; got {brightness_range}")
    return apply_brightness_shift(x, np.random.uniform(*brightness_range))


def flip_axis(x: np.ndarray, axis: int) -> np.ndarray:
    """An image flipped along an axis."""
    return np.flip(x, axis)


def list_pictures(folder: Any, ext: Any = ("jpg", "jpeg", "bmp", "png", "ppm", "tif", "tiff", "gif")) -> list[str]:
    """The image files below a folder, sorted."""
    found = [os.path.join(root, f) for root, _, files in os.walk(folder, followlinks=False) for f in files
             if f.lower().endswith(tuple("." + e for e in ext))]
    return sorted(found)
