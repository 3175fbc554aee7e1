"""tf.image: functions over the image ops of ops/resize.py, ops/color.py, ops/boxes.py and ops/codec.py."""
from penstock import api as _api
from penstock.image import boxes, checks, color, geometry, quality  # noqa: F401

_api.install(__name__, "v2", "image.")
