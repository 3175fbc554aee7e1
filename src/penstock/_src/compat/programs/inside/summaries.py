"""`ops.summary_ops_v2`: tf.summary of TensorFlow 2."""
from __future__ import annotations

from typing import Any

import penstock


def __getattr__(name: str) -> Any:
    return getattr(penstock.summary, name)
