"""Named blocks in the recordings of `tf.profiler.experimental`."""
from __future__ import annotations

import torch

GET_NEXT = "Iterator::GetNext"             # the wait for an element of a dataset
recording = torch.autograd._profiler_enabled
block = torch.profiler.record_function     # a context whose time has a name; enter it while there is a recording
