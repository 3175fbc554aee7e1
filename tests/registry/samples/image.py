"""Samples of the image ops."""
import io

import numpy as np
from PIL import Image

from tests.registry.sample import f, i, sample, scalar_string

IMAGE = f(2, 5, 7, 3, low=0.1, high=0.9)
SIZE = np.array([9, 4], np.int32)
for _corners in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
    sample("ResizeBilinear", IMAGE, SIZE, **_corners)
    sample("ResizeBicubic", IMAGE, SIZE, atol=1e-4, **_corners)
    sample("ResizeNearestNeighbor", IMAGE, SIZE, **_corners)
    sample("ResizeBilinearGrad", f(2, 9, 4, 3), IMAGE, grad=[0], **_corners)
    sample("ResizeBicubicGrad", f(2, 9, 4, 3), IMAGE, grad=[0], **_corners)
    sample("ResizeNearestNeighborGrad", f(2, 9, 4, 3), np.array([5, 7], np.int32), **_corners)
sample("ResizeArea", IMAGE, np.array([3, 4], np.int32))
sample("ResizeArea", IMAGE, np.array([3, 4], np.int32), align_corners=True)
for _kernel in ("lanczos3", "gaussian", "triangle", "keyscubic", "mitchellcubic", "box"):
    sample("ScaleAndTranslate", IMAGE, np.array([3, 4], np.int32), np.array([0.6, 0.57], np.float32),
           np.array([0.0, 0.1], np.float32), kernel_type=_kernel, grad=[0])
sample("ScaleAndTranslateGrad", f(2, 3, 4, 3), IMAGE, np.array([0.6, 0.57], np.float32), np.zeros(2, np.float32))
sample("RGBToHSV", IMAGE)
sample("HSVToRGB", IMAGE)
sample("AdjustContrastv2", IMAGE, np.float32(1.5))
sample("AdjustContrast", IMAGE, np.float32(1.5), np.float32(0.1), np.float32(0.8),
       expect=lambda x, c, low, high: np.clip(x * c + (1 - c) * x.mean((1, 2), keepdims=True), low, high))
sample("AdjustContrast", (IMAGE * 255).astype(np.uint8), np.float32(0.5), np.float32(0), np.float32(255))
sample("AdjustHue", IMAGE, np.float32(0.2))
sample("AdjustSaturation", IMAGE, np.float32(0.5))

BOXES = np.array([[0.1, 0.1, 0.8, 0.9], [0.3, 0.2, 1.0, 0.7], [-0.2, 0.0, 0.5, 1.2]], np.float32)
INDEX = np.array([0, 1, 1], np.int32)
sample("CropAndResize", IMAGE, BOXES, INDEX, np.array([4, 3], np.int32), extrapolation_value=0.5, grad=[0])
sample("CropAndResize", IMAGE, BOXES, INDEX, np.array([4, 3], np.int32), method="nearest", grad=[0])
sample("CropAndResizeGradImage", f(3, 4, 3, 3), BOXES, INDEX, np.array([2, 5, 7, 3], np.int32), T="float32")
sample("CropAndResizeGradBoxes", f(3, 4, 3, 3), IMAGE, BOXES, INDEX)
CANDIDATES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]],
                      np.float32)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)
LIMIT, HALF = np.int32(3), np.float32(0.5)
sample("NonMaxSuppression", CANDIDATES, SCORES, LIMIT)
sample("NonMaxSuppressionV2", CANDIDATES, SCORES, LIMIT, HALF)
sample("NonMaxSuppressionV3", CANDIDATES, SCORES, np.int32(30), HALF, np.float32(0.4))
sample("NonMaxSuppressionV4", CANDIDATES, SCORES, np.int32(5), HALF, np.float32(0.0), pad_to_max_output_size=True)
sample("NonMaxSuppressionV5", CANDIDATES, SCORES, np.int32(6), HALF, np.float32(0.0), np.float32(0.5))
sample("NonMaxSuppressionWithOverlaps", np.array([[1, 0.7, 0.1], [0.7, 1, 0.2], [0.1, 0.2, 1]], np.float32),
       np.array([0.9, 0.8, 0.7], np.float32), LIMIT, HALF, np.float32(0.0))
sample("CombinedNonMaxSuppression", np.stack([CANDIDATES[:, None] / 101]), np.stack([np.stack([SCORES, SCORES[::-1]], 1)]),
       np.int32(3), np.int32(5), HALF, np.float32(0.0))
sample("DrawBoundingBoxes", IMAGE, np.array([[[0.1, 0.1, 0.8, 0.9]], [[0.0, 0.5, 0.5, 1.0]]], np.float32))
sample("DrawBoundingBoxesV2", IMAGE, np.array([[[0.1, 0.1, 0.8, 0.9]], [[0.0, 0.5, 0.5, 1.0]]], np.float32), f(2, 3))
sample("ExtractGlimpse", IMAGE, np.array([3, 3], np.int32), f(2, 2, low=-0.2, high=0.2))
sample("SampleDistortedBoundingBox", np.array([50, 60, 3], np.int32), np.array([[[0.1, 0.1, 0.9, 0.9]]], np.float32),
       random=True)
sample("SampleDistortedBoundingBoxV2", np.array([50, 60, 3], np.int32), np.array([[[0.1, 0.1, 0.9, 0.9]]], np.float32),
       np.float32(0.2), random=True)


def encoded(kind, *shape):
    """An image file as a scalar string, and its pixels."""
    pixels = i(*shape, low=0, high=256, dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return scalar_string(out.getvalue()), pixels


PNG, PNG_PIXELS = encoded("PNG", 6, 5, 3)
BMP, BMP_PIXELS = encoded("BMP", 6, 5, 3)
JPEG, _ = encoded("JPEG", 16, 16, 3)
GIF, _ = encoded("GIF", 6, 5)
sample("DecodePng", PNG, expect=lambda data: PNG_PIXELS)
sample("DecodePng", PNG, channels=1)
sample("DecodeBmp", BMP, expect=lambda data: BMP_PIXELS)
sample("DecodeJpeg", JPEG)
sample("DecodeJpeg", JPEG, dct_method="INTEGER_ACCURATE")
sample("DecodeJpeg", JPEG, dct_method="INTEGER_ACCURATE", channels=1, ratio=2)
sample("DecodeAndCropJpeg", JPEG, np.array([2, 3, 8, 9], np.int32))
sample("ExtractJpegShape", JPEG, expect=lambda data: np.array([16, 16, 3], np.int32))
sample("DecodeGif", GIF)
sample("DecodeImage", PNG, expect=lambda data: PNG_PIXELS)
sample("EncodePng", PNG_PIXELS, random=True)
sample("EncodeJpeg", PNG_PIXELS, random=True)
sample("EncodeJpegVariableQuality", PNG_PIXELS, np.int32(80), random=True)
for _options in ({"centered": False}, {"normalized": False}, {}):
    sample("ExtractGlimpse", IMAGE, np.array([4, 6], np.int32), f(2, 2, low=-0.4, high=0.4), uniform_noise=False, noise="zero",
           **_options)
sample("NonMaxSuppressionV2", CANDIDATES, SCORES, LIMIT, np.float32(0.9))
sample("EncodePng", PNG_PIXELS[:, :, :1], compression=3, random=True)
sample("DecodePng", PNG, channels=4)
sample("DecodeImage", GIF)
sample("DecodeImage", BMP, channels=3)

MOVED = np.array([[1, 0, -1, 0, 1, 1, 0, 0]], np.float32)           # the pixel at (x, y) comes from (x - 1, y + 1)
sample("ImageProjectiveTransformV2", f(2, 3, 4, 2), MOVED, np.array([3, 4], np.int32), interpolation="NEAREST", grad=[0],
       expect=lambda x, *_: np.pad(x[:, 1:, :-1], ((0, 0), (0, 1), (1, 0), (0, 0))))
sample("ImageProjectiveTransformV3", f(2, 3, 4, 2), MOVED, np.array([3, 4], np.int32), np.float32(7), interpolation="BILINEAR",
       grad=[0], expect=lambda x, *_: np.pad(x[:, 1:, :-1], ((0, 0), (0, 1), (1, 0), (0, 0)), constant_values=7))
