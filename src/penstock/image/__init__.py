"""tf.image: functions over the image ops of ops/resize.py, ops/color.py, ops/boxes.py and ops/codec.py."""
from penstock.image import boxes, checks, color, geometry, quality  # noqa: F401
