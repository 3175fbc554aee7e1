"""Named blocks in the recordings of `tf.profiler.experimental`; they cost nothing while none is taken."""
from __future__ import annotations

import contextlib
from typing import Any

import torch

GET_NEXT = "Iterator::GetNext"             # the wait for an element of a dataset
_NOTHING = contextlib.nullcontext()


def block(name: str) -> Any:
    """A context whose time has a name in the recording, if there is one."""
    return torch.profiler.record_function(name) if torch.autograd._profiler_enabled() else _NOTHING
