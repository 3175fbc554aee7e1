"""Reading and writing image files: PNG, JPEG and GIF by Pillow; plain JPEGs by simplejpeg, which is faster. BMP files are
uncompressed and parsed here.

Sizes are read from the header and checked before anything is allocated.
"""
from __future__ import annotations

import contextlib
import functools
import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op
from penstock.compat import v1 as tf

_MAX_PIXELS = 1 << 29
_MAX_DEFLATE = 1032                                    # bytes that one byte of a compressed PNG can stand for
_MAX_LZW, _GIF_CANVAS = 4096, 1 << 24                  # pixels of one byte of a GIF; those that any GIF may leave empty
_PNG_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}          # of a pixel, by colour type
_BMP_HEADER, _BMP_BYTES = 32, 1 << 30                   # bytes up to the end of the fields that are read; most of an image
_PNG, _GIF, _BMP, _JPEG = b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"\xff\xd8\xff"


@functools.cache
def _simplejpeg() -> Any:
    """The library, or None: it is optional, and Pillow decodes the same pixels."""
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg


def _plain_jpeg(data: bytes, channels: int) -> np.ndarray | None:
    """The pixels of a complete JPEG in grey or YCbCr, or None: Pillow decodes unusual files, and reports damage."""
    turbo = _simplejpeg()
    if turbo is None or not data.startswith(_JPEG):
        return None
    try:
        height, width, colorspace, _ = turbo.decode_jpeg_header(data)
        if colorspace not in ("Gray", "YCbCr") or height * width > _MAX_PIXELS:
            return None
        return turbo.decode_jpeg(data, "GRAY" if channels == 1 or not channels and colorspace == "Gray" else "RGB")
    except ValueError:
        return None


def _bytes(contents: Any) -> bytes:
    if contents.ndim != 0:
        raise errors.invalid(f"contents must be scalar, got shape {list(contents.shape)}")
    return contents[()]


@contextlib.contextmanager
def _decoding(what: str) -> Iterator[None]:
    """Converts Pillow's exceptions for damaged data (including SyntaxError and struct.error) to InvalidArgumentError."""
    try:
        yield
    except errors.OpError:
        raise
    except Exception as e:
        raise errors.invalid(f"{what}: {e}") from None


def _open(data: bytes, kinds: tuple[str, ...]) -> Any:
    """The image of one of these formats, its size checked."""
    from PIL import Image, UnidentifiedImageError
    with _decoding(f"Invalid {'/'.join(kinds)} data, size {len(data)}"):
        try:
            image = Image.open(io.BytesIO(data), formats=kinds)
        except UnidentifiedImageError:
            raise errors.invalid(f"Unknown image file format, size {len(data)}. One of {', '.join(kinds)} required.") from None
        frames = getattr(image, "n_frames", 1)
    if image.width * image.height * frames > _MAX_PIXELS:
        raise errors.invalid(f"Image too large: {image.width} x {image.height}")
    if data.startswith(_GIF) and image.width * image.height * frames > max(_GIF_CANVAS, _MAX_LZW * len(data)):
        raise errors.invalid(f"Invalid GIF data, size {len(data)}: not enough for {image.width} x {image.height} pixels")
    if data.startswith(_PNG) and _png_bits(data) > 8 * _MAX_DEFLATE * len(data):
        raise errors.invalid(f"Invalid PNG data, size {len(data)}: not enough for {image.width} x {image.height} pixels")
    return image


def _png_bits(data: bytes) -> int:
    """Bits of the unpacked pixels, as the header says."""
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    return width * height * data[24] * _PNG_SAMPLES.get(data[25], 4)


def _pixels(image: Any, channels: int) -> np.ndarray:
    """An array [height, width, channels]."""
    modes = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
    if channels not in (0, *modes):
        raise errors.invalid(f"channels must be 0, 1, 2, 3 or 4, got {channels}")
    if not channels:
        own = {"1": "L", "P": "RGBA" if "transparency" in image.info else "RGB", "CMYK": "RGB", "YCbCr": "RGB",
               "I;16": "L", "I": "L"}
        mode = own.get(image.mode, image.mode)
    else:
        mode = modes[channels]
    with _decoding("Broken image data"):
        array = _grey(image, mode) if mode in ("L", "LA") and image.mode in ("RGB", "RGBA", "P") else \
            np.asarray(image if image.mode == mode else image.convert(mode))
    return array[:, :, None] if array.ndim == 2 else array


def _grey(image: Any, mode: str) -> np.ndarray:
    """Colours as luma, in the fixed-point arithmetic of libpng with the weights 0.299, 0.587 and 0.114."""
    colours = np.asarray(image.convert("RGBA"))
    grey = (colours[:, :, :3].astype(np.int32) @ np.array([9798, 19235, 3735], np.int32) >> 15).astype(np.uint8)
    return grey if mode == "L" else np.stack([grey, colours[:, :, 3]], 2)


def _image_shape(contents: Any, *, channels: int) -> tuple:
    return (None, None, channels or None)


decode_png = op("DecodePng", "contents: string -> image: dtype", "channels: int = 0, dtype: type in {uint8 uint16} = uint8",
                export_as="image.decode_png io.decode_png", doc="""\
Decodes a PNG image.

Args:
    contents: Bytes of the file: a scalar string.
    channels: 1 for grey, 2 with alpha, 3 for RGB, 4 for RGBA, 0 for what the file has.
    dtype: `tf.uint8` or `tf.uint16`.
    name: Name of the operation.

Returns:
    A tensor [height, width, channels].

Raises:
    InvalidArgumentError: if `contents` is not a PNG image.

>>> tf.image.decode_png(tf.image.encode_png(tf.zeros([4, 6, 3], tf.uint8))).shape
TensorShape([4, 6, 3])
""").no_gradient()
decode_jpeg = op("DecodeJpeg", "contents: string -> image: uint8", "channels: int = 0, ratio: int = 1, fancy_upscaling: "
                 "bool = True, try_recover_truncated: bool = False, acceptable_fraction: float = 1.0, dct_method: string = ''",
                 export_as="image.decode_jpeg io.decode_jpeg", doc="""\
Decodes a JPEG image.

Args:
    contents: Bytes of the file: a scalar string.
    channels: 1 for grey, 3 for RGB, 0 for what the file has.
    ratio: Reduces the size by 1, 2, 4 or 8 while decoding.
    fancy_upscaling: Whether colours are interpolated, which is slower and looks better.
    try_recover_truncated: Whether a truncated file is decoded as far as it goes.
    acceptable_fraction: Fraction of lines that a truncated file must have.
    dct_method: `"INTEGER_FAST"` or `"INTEGER_ACCURATE"`, by default the system's choice.
    name: Name of the operation.

Returns:
    A uint8 tensor [height, width, channels].

Raises:
    InvalidArgumentError: if `contents` is not a JPEG image.

>>> image = tf.image.decode_jpeg(tf.image.encode_jpeg(tf.zeros([4, 6, 3], tf.uint8)))
>>> image.shape
TensorShape([4, 6, 3])
""").no_gradient()
decode_and_crop = op("DecodeAndCropJpeg", "contents: string, crop_window: int32 -> image: uint8", "channels: int = 0, ratio: "
                     "int = 1, fancy_upscaling: bool = True, try_recover_truncated: bool = False, acceptable_fraction: "
                     "float = 1.0, dct_method: string = ''",
                     export_as="image.decode_and_crop_jpeg io.decode_and_crop_jpeg").no_gradient()
decode_gif = op("DecodeGif", "contents: string -> image: uint8", export_as="image.decode_gif io.decode_gif").no_gradient()
decode_bmp = op("DecodeBmp", "contents: string -> image: uint8", "channels: int = 0",
                export_as="image.decode_bmp io.decode_bmp").no_gradient()
jpeg_shape = op("ExtractJpegShape", "contents: string -> image_shape: output_type",
                "output_type: type in {int32 int64} = int32",
                export_as="image.extract_jpeg_shape io.extract_jpeg_shape").no_gradient()
decode_webp = op("DecodeWebP", "contents: string -> image: dtype", "channels: int = 0, dtype: type in {uint8} = uint8",
                 export_as="image.decode_webp io.decode_webp").no_gradient()
decode_webp.shape(lambda contents, *, channels: (None, None, None, channels or None))
for _op in (decode_png, decode_jpeg, decode_bmp):
    _op.shape(_image_shape)
decode_and_crop.shape(lambda contents, crop_window, *, channels: (None, None, channels or None))
decode_gif.shape(lambda contents: (None, None, None, 3))
jpeg_shape.shape(lambda contents: (3,))


def _no_bmp(data: bytes, op_name: str) -> bytes:
    if data.startswith(_BMP):
        raise errors.invalid("Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead. "
                             f"Op used: {op_name}")
    return data


@decode_png.kernel
def _decode_png_kernel(contents, *, channels, dtype):
    data = _no_bmp(_bytes(contents), "DecodePng")
    image = _open(data, ("PNG", "JPEG", "GIF"))
    with _decoding("Broken image data"):
        if dtype.name == "uint16":
            return torch.from_numpy(_sixteen(image, data, channels))
        return torch.from_numpy(np.array(_pixels(_eight(image), channels)))


def _eight(image: Any) -> Any:
    """16-bit grey images keep their high byte."""
    from PIL import Image
    if image.mode in ("I;16", "I", "I;16B"):
        return Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8), "L")
    return image


def _wide(data: bytes) -> np.ndarray | None:
    """The colours of a PNG with 16 bits each; None for other images.

    Pillow keeps the first byte of a sample if it reads them as big-endian, which they are, and the second as little-endian.
    """
    if not data.startswith(_PNG) or data[24] != 16 or data[25] not in (2, 6):
        return None

    def one_byte(order: str) -> np.ndarray:
        image = _open(data, ("PNG",))
        image.tile = [image.tile[0]._replace(args=f"{image.mode};16{order}")]
        return np.asarray(image).astype(np.uint16)
    return one_byte("B") << 8 | one_byte("L")


def _of_channels(colours: np.ndarray, channels: int) -> np.ndarray:
    """An array [height, width, 3 or 4] of 16-bit colours with another number of channels; grey is luma, as in `_grey`."""
    if channels not in range(5):
        raise errors.invalid(f"channels must be 0, 1, 2, 3 or 4, got {channels}")
    if channels in (0, colours.shape[2]):
        return colours
    alpha = colours[:, :, 3:] if colours.shape[2] == 4 else np.full_like(colours[:, :, :1], 65535)
    colours = colours[:, :, :3]
    if channels < 3:
        colours = (colours.astype(np.int64) @ np.array([[9798], [19235], [3735]]) >> 15).astype(np.uint16)
    return np.concatenate([colours, alpha], 2) if channels in (2, 4) else np.ascontiguousarray(colours)


def _sixteen(image: Any, data: bytes, channels: int) -> np.ndarray:
    wide = _wide(data)
    if wide is not None:
        return _of_channels(wide, channels)
    if image.mode in ("I;16", "I", "I;16B"):
        array = np.asarray(image).astype(np.uint16)[:, :, None]
        if channels in (0, 1):
            return array
        colours = np.repeat(array, min(channels, 3) if channels != 2 else 1, axis=2)
        if channels in (2, 4):
            colours = np.concatenate([colours, np.full_like(array, 65535)], axis=2)
        return colours
    return _pixels(image, channels).astype(np.uint16) * 257


def _reduced(image: Any, ratio: int, channels: int) -> np.ndarray:
    if ratio not in (1, 2, 4, 8):
        raise errors.invalid(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    # A draft is decoded at a fraction of the size, and as luma alone where no colours are wanted.
    with _decoding("Broken image data"):
        image.draft("L" if channels == 1 else image.mode, (max(1, image.width // ratio), max(1, image.height // ratio)))
    return np.array(_pixels(image, channels))


@decode_jpeg.kernel
def _decode_jpeg_kernel(contents, *, channels, ratio):
    if channels not in (0, 1, 3):
        raise errors.invalid(f"channels must be 0, 1, or 3, got {channels}")
    data = _no_bmp(_bytes(contents), "DecodeJpeg")
    pixels = _plain_jpeg(data, channels) if ratio == 1 else None
    if pixels is None:
        pixels = _reduced(_open(data, ("JPEG", "PNG", "GIF")), ratio, channels)
    return torch.from_numpy(pixels)


@decode_and_crop.kernel
def _decode_and_crop_kernel(contents, crop_window, *, channels, ratio):
    y, x, h, w = (int(v) for v in crop_window) if crop_window.numel() == 4 else (0, 0, 0, 0)
    array = _reduced(_open(_bytes(contents), ("JPEG",)), ratio, channels)
    if h <= 0 or w <= 0 or y < 0 or x < 0 or y + h > array.shape[0] or x + w > array.shape[1]:
        raise errors.invalid(f"Invalid JPEG data or crop window {[y, x, h, w]}, image size {list(array.shape[:2])}")
    return torch.from_numpy(np.ascontiguousarray(array[y:y + h, x:x + w]))


@decode_gif.kernel
def _decode_gif_kernel(contents):
    from PIL import ImageSequence
    image = _open(_no_bmp(_bytes(contents), "DecodeGif"), ("GIF", "PNG", "JPEG"))
    with _decoding("Invalid GIF data"):
        frames = [np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(image)]
    return torch.from_numpy(np.stack(frames))


def _bmp_pixels(data: bytes, channels: int) -> np.ndarray:
    """The pixels [height, width, channels] of rows of 8, 24 or 32 bits; with 0 channels, those that the file has. As in
    TensorFlow, 8 bits are greys, whatever the palette."""
    if channels not in (0, 3, 4):
        raise errors.invalid(f"A BMP image is decoded with 0, 3 or 4 channels, got channels={channels}")
    if len(data) < _BMP_HEADER:
        raise errors.invalid(f"Truncated BMP header: {len(data)} bytes, at least {_BMP_HEADER} are needed")
    start, width, height, bits = *struct.unpack_from("<i4xii", data, 10), *struct.unpack_from("<H", data, 28)
    if width <= 0 or height == 0 or start < _BMP_HEADER:
        raise errors.invalid(f"Invalid BMP header: {width} x {height} pixels at byte {start}")
    if bits not in (8, 24, 32):
        raise errors.invalid(f"BMP images have 8, 24 or 32 bits per pixel, got {bits}")
    own, rows = bits // 8, abs(height)
    stride = -(-width * own // 4) * 4                            # rows end at multiples of four bytes
    if rows * width * max(own, channels) >= _BMP_BYTES:
        raise errors.invalid(f"Image too large: {width} x {rows}")
    if len(data) < start + stride * rows:
        raise errors.invalid(f"Truncated BMP data: {len(data)} bytes, {start + stride * rows} are needed")
    stored = np.frombuffer(data, np.uint8, stride * rows, start).reshape(rows, stride)[:, :width * own]
    pixels = stored.reshape(rows, width, own)[::-1 if height > 0 else 1]
    return _with_channels(pixels, channels or own)


def _with_channels(stored: np.ndarray, channels: int) -> np.ndarray:
    """RGB or RGBA from stored BGR or BGRA, or from shades of grey."""
    own = stored.shape[2]
    if channels == 1:
        return stored.copy()
    out = np.full((*stored.shape[:2], channels), 255, np.uint8)
    out[:, :, :3] = stored if own == 1 else stored[:, :, 2::-1]
    if own == channels == 4:
        out[:, :, 3] = stored[:, :, 3]
    return out


@decode_bmp.kernel
def _decode_bmp_kernel(contents, *, channels):
    data = _bytes(contents)
    for kind, start in (("JPEG", _JPEG), ("PNG", _PNG), ("GIF", _GIF)):
        if data.startswith(start):
            raise errors.invalid(f"Trying to decode {kind} format using DecodeBmp op. Use `decode_{kind.lower()}` or "
                                 "`decode_image` instead.")
    return torch.from_numpy(_bmp_pixels(data, channels))


@decode_webp.kernel
def _decode_webp_kernel(contents, *, channels):
    """The frames of an image, or of an animation."""
    from PIL import ImageSequence
    if channels not in (0, 3, 4):
        raise errors.invalid("WebP only supports 3 or 4 channels")
    image = _open(_bytes(contents), ("WEBP",))
    mode = "RGBA" if image.mode == "RGBA" else "RGB"
    if channels not in (0, len(mode)):
        raise errors.invalid("Number of channels requested does not match input")
    with _decoding("Invalid WebP data"):
        frames = [np.asarray(f.convert(mode)) for f in ImageSequence.Iterator(image)]
    return torch.from_numpy(np.stack(frames))


@jpeg_shape.kernel
def _jpeg_shape_kernel(contents, *, output_type):
    image = _open(_bytes(contents), ("JPEG",))
    return torch.tensor([image.height, image.width, len(image.getbands())], dtype=output_type.torch)


encode_png = op("EncodePng", "image: T -> contents: string",
                "compression: int = -1, T: type in {uint8 uint16} = uint8").no_gradient()
encode_jpeg = op("EncodeJpeg", "image: uint8 -> contents: string", "format: string = '', quality: int = 95, progressive: bool "
                 "= False, optimize_size: bool = False, chroma_downsampling: bool = True, density_unit: string in {in cm} = "
                 "'in', x_density: int = 300, y_density: int = 300, xmp_metadata: string = ''",
                 export_as="image.encode_jpeg io.encode_jpeg").no_gradient()
encode_quality = op("EncodeJpegVariableQuality", "images: uint8, quality: int32 -> contents: string").no_gradient()
encode_jpeg.shape(lambda image: ())
encode_quality.shape(lambda images, quality: ())
encode_png.shape(lambda image: () if image is None else image[:-3])


def _string(value: bytes) -> np.ndarray:
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def _saved(array: np.ndarray, kind: str, **options: Any) -> bytes:
    from PIL import Image
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4) or 0 in array.shape:
        raise errors.invalid(f"image must have shape [height, width, 1 to 4 channels], got {list(array.shape)}")
    out = io.BytesIO()
    image = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    image.save(out, kind, **options)
    return out.getvalue()


@encode_png.kernel
def _encode_png_kernel(image, *, compression):
    if not -1 <= compression <= 9:
        raise errors.invalid(f"compression should be in [-1,9], got {compression}")
    array = image.numpy()
    level = {} if compression < 0 else {"compress_level": compression}
    if array.ndim > 3:
        flat = array.reshape(-1, *array.shape[-3:])
        out = np.empty(len(flat), dtype=object)
        out[:] = [_png(a, level) for a in flat]
        return out.reshape(array.shape[:-3])
    return _string(_png(array, level))


def _png(array: np.ndarray, level: dict) -> bytes:
    if array.dtype == np.uint16:
        if array.ndim == 3 and array.shape[2] == 1:
            from PIL import Image
            out = io.BytesIO()
            Image.fromarray(np.ascontiguousarray(array[:, :, 0])).save(out, "PNG", **level)
            return out.getvalue()
        return _png16(array)
    return _saved(np.ascontiguousarray(array), "PNG", **level)


def _png16(array: np.ndarray) -> bytes:
    """A PNG of 16-bit channels, which Pillow does not write: header, filtered rows, end."""
    import struct
    import zlib
    if array.ndim != 3 or array.shape[2] not in (2, 3, 4) or 0 in array.shape:
        raise errors.invalid(f"image must have shape [height, width, 1 to 4 channels], got {list(array.shape)}")
    h, w, ch = array.shape
    rows = array.astype(">u2").reshape(h, -1).view(np.uint8)
    raw = np.concatenate([np.zeros((h, 1), np.uint8), rows], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", w, h, 16, {2: 4, 3: 2, 4: 6}[ch], 0, 0, 0)
    return _PNG + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def _jpeg(image: torch.Tensor, quality: int, **options: Any) -> np.ndarray:
    array = image.numpy()
    if array.ndim != 3 or array.shape[2] not in (1, 3):
        raise errors.invalid(f"image must be 3-dimensional with 1 or 3 channels, got {list(array.shape)}")
    if not 0 <= quality <= 100:
        raise errors.invalid(f"quality must be in [0,100], got {quality}")
    return _string(_saved(np.ascontiguousarray(array), "JPEG", quality=quality, **options))


@encode_jpeg.kernel
def _encode_jpeg_kernel(image, *, format, quality, progressive, optimize_size, chroma_downsampling, x_density, y_density):
    if format not in ("", "grayscale", "rgb"):
        raise errors.invalid(f"format must be '', grayscale or rgb, got {format}")
    wanted = {"grayscale": 1, "rgb": 3}.get(format)
    if wanted is not None and (image.dim() != 3 or image.shape[2] != wanted):
        raise errors.invalid(f"format '{format}' expects {wanted} channels, got {list(image.shape)}")
    return _jpeg(image, quality, progressive=progressive, optimize=optimize_size,
                 subsampling=2 if chroma_downsampling else 0, dpi=(x_density, y_density))


@encode_quality.kernel
def _encode_quality_kernel(images, quality):
    return _jpeg(images, int(quality))


@export("io.encode_png", "image.encode_png")
@dispatched
def encode_png_image(image: Any, compression: int = -1, name: str | None = None) -> Any:
    """Encodes an image as a PNG.

    Args:
        image: Shape [height, width, 1 to 4 channels], uint8 or uint16; leading dimensions are a batch.
        compression: 0 to 9, where 9 is the smallest; -1 for a default.
        name: Name of the operation.

    Returns:
        The bytes, a string tensor. An array of uint16 has 16 bits per sample.

    >>> tf.image.decode_png(tf.image.encode_png(tf.zeros([4, 6, 3], tf.uint8))).shape
    TensorShape([4, 6, 3])
    """
    return encode_png(tf.convert_to_tensor(image) if hasattr(image, "dtype") else image, compression=compression, name=name)


@export("io.is_jpeg", "image.is_jpeg")
@dispatched
def is_jpeg(contents: Any, name: str | None = None) -> Any:
    """Whether encoded data begin as a JPEG does."""
    with tf.name_scope(name, "is_jpeg"):
        return tf.equal(tf.substr(contents, 0, 3), _JPEG, name=name)


@export("io.decode_image", "image.decode_image")
@dispatched
def decode_image(contents: Any, channels: int | None = None, dtype: Any = tf.uint8, name: str | None = None,
                 expand_animations: bool = True) -> Any:
    """Decodes BMP, GIF, JPEG or PNG, detected by the first bytes; a GIF returns [frames, height, width, 3].

    Args:
        contents: Bytes of the file: a scalar string.
        channels: As for `decode_png`; 0 or None for what the file has.
        dtype: `tf.uint8`, `tf.uint16` or `tf.float32`, which is scaled to [0, 1).
        name: Name of the operation.
        expand_animations: Whether a GIF has a leading axis of frames; otherwise its first frame is returned.

    Returns:
        A tensor [height, width, channels], or [frames, height, width, channels].

    Raises:
        InvalidArgumentError: if the data are not an image.

    >>> tf.image.decode_image(tf.image.encode_png(tf.zeros([4, 6, 3], tf.uint8))).shape
    TensorShape([4, 6, 3])
    """
    with tf.name_scope(name, "decode_image"):
        channels = 0 if channels is None else channels
        if channels not in (0, 1, 3, 4):
            raise ValueError("channels must be in (None, 0, 1, 3, 4)")
        dtype = tf.as_dtype(dtype)
        if dtype not in (tf.float32, tf.uint8, tf.uint16):
            raise ValueError(f"Unsupported dtype: {dtype}")
        image = decode_any(contents, channels=channels, dtype=dtype, expand_animations=expand_animations)
        return image


decode_any = op("DecodeImage", "contents: string -> image: dtype", "channels: int = 0, dtype: type in {uint8 uint16 float32} = "
                "uint8, expand_animations: bool = True").no_gradient()
decode_any.shape(lambda contents, *, channels, expand_animations: None if expand_animations
                 else (None, None, channels or None))


@decode_any.kernel
def _decode_any_kernel(contents, *, channels, dtype, expand_animations):
    data = _bytes(contents)
    if not data.startswith((_PNG, _GIF, _BMP, _JPEG)):
        raise errors.invalid("Unknown image file format. One of JPEG, PNG, GIF, BMP required.")
    if data.startswith(_GIF):
        if channels in (1, 4):
            raise errors.invalid(f"channels must be 0 or 3 for GIF, got {channels}")
    elif data.startswith(_JPEG) and channels == 4:
        raise errors.invalid(f"channels must be 0, 1 or 3 for JPEG, got {channels}")
    if data.startswith(_GIF):
        array = decode_gif.kernels["any"].fn(contents)
        array = array if expand_animations else array[0]
    elif data.startswith(_PNG) and dtype.name != "uint8":
        array = torch.from_numpy(_sixteen(_open(data, ("PNG",)), data, channels))
        return array if dtype.name == "uint16" else (array.to(torch.float32) / 65535)
    elif data.startswith(_BMP):
        array = torch.from_numpy(_bmp_pixels(data, channels))
    elif (pixels := _plain_jpeg(data, channels)) is not None:
        array = torch.from_numpy(pixels)
    else:
        array = torch.from_numpy(np.array(_pixels(_eight(_open(data, ("PNG", "JPEG"))), channels)))
    if dtype.name == "uint8":
        return array
    if dtype.name == "uint16":
        return (array.to(torch.int32) * 256).to(torch.uint16)
    return array.to(torch.float32) / 255
