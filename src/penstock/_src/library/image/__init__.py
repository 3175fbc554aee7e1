"""tf.image: functions over the image ops of ops/image/resize.py, ops/image/color.py, ops/image/boxes.py and
ops/image/codec.py."""
from penstock._src.library.image import boxes, checks, color, geometry, quality  # noqa: F401
