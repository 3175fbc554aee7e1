"""Ops that debuggers insert into graphs: copies, and summaries of values.

TensorFlow's debugger, which reads them from URLs, is not implemented: values pass through, and nothing is sent.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.text import shown_text
from penstock._src.kernels import arrays
from penstock._src.ops.registry import op

_WHERE = "T: type, device_name: string = '', tensor_name: string = '', debug_urls: list(string) = []"
_COPY = "T: type, tensor_name: string = '', debug_ops_spec: list(string) = []"


def _copied(input: Any) -> Any:
    return input.clone() if arrays.is_torch(input) else input.copy() if isinstance(input, np.ndarray) else input


copy = op("Copy", "input: T -> output: T", _COPY)
copy_host = op("CopyHost", "input: T -> output: T", _COPY)
identity = op("DebugIdentity", "input: T -> output: T", f"{_WHERE}, gated_grpc: bool = False")
identity_v2 = op("DebugIdentityV2", "input: T -> output: T",
                 "T: type, tfdbg_context_id: string = '', op_name: string = '', output_slot: int = -1, "
                 "tensor_debug_mode: int = -1, debug_urls: list(string) = [], circular_buffer_size: int = 1000, "
                 "tfdbg_run_id: string = ''", stateful=True)
gradient_identity = op("DebugGradientIdentity", "input: T -> output: T", "T: type", foldable=False)
check_pinned = op("CheckPinned", "tensor: T -> output: T", "T: type", export_as="check_pinned").no_gradient()
for _made in (copy, copy_host):
    _made.kernel(_copied)
for _made in (identity, identity_v2, gradient_identity):
    _made.kernel(lambda input: input)
for _made in (copy, copy_host, identity, identity_v2, gradient_identity):
    _made.shape(lambda input: input)
    _made.gradient(lambda op, grad: grad)
check_pinned.shape(lambda tensor: tensor)


@check_pinned.kernel
def _check_pinned_kernel(tensor):
    """Passes a value in memory of the host that accelerators read directly."""
    if not arrays.is_torch(tensor) or not tensor.is_cpu or not tensor.is_pinned():
        raise errors.invalid("The input tensor is not in pinned memory")
    return tensor


# -- summaries -----------------------------------------------------------------------------------------------------------
nan_count = op("DebugNanCount", "input: T -> output: int64", f"{_WHERE}, gated_grpc: bool = False").no_gradient()
summary = op("DebugNumericSummary", "input: T -> output: float64",
             f"{_WHERE}, lower_bound: float = -inf, upper_bound: float = inf, mute_if_healthy: bool = False, "
             "gated_grpc: bool = False").no_gradient()
summary_v2 = op("DebugNumericSummaryV2", "input: T -> output: output_dtype",
                "output_dtype: type in {float32 float64} = float32, T: type, tensor_debug_mode: int = -1, "
                "tensor_id: int = -1").no_gradient()
nan_count.shape(lambda input: (1,))
summary.shape(lambda input: (None,))


@nan_count.kernel
def _nan_count_kernel(input):
    return torch.isnan(input).sum().reshape(1) if arrays.is_torch(input) else torch.zeros(1, dtype=torch.int64)


@summary.kernel
def _summary_kernel(input, *, T, lower_bound, upper_bound, mute_if_healthy):
    """Twelve numbers and the shape: initialized, size, kinds of elements, extremes, mean, variance, dtype, rank."""
    if not arrays.is_torch(input):
        raise errors.invalid(f"DebugNumericSummary is for numbers, not {T.name}")
    x = input.to(torch.float64).reshape(-1)
    finite = torch.isfinite(x)
    low, high = (x == -math.inf) | (x <= lower_bound) & finite, (x == math.inf) | (x >= upper_bound) & finite
    inside = finite & ~low & ~high if not (math.isinf(lower_bound) and math.isinf(upper_bound)) else finite
    counts = [torch.isnan(x), low, inside & (x < 0), inside & (x == 0), inside & (x > 0), high]
    numbers = [int(c.sum()) for c in counts]
    kept = x[finite]
    if kept.numel():
        extremes = [float(kept.min()), float(kept.max()), float(kept.mean()), float(kept.var(unbiased=False))]
    else:
        extremes = [math.inf, -math.inf, math.nan, math.nan]
    if mute_if_healthy and not numbers[0] and not numbers[1] and not numbers[5]:
        return torch.empty(0, dtype=torch.float64)
    return torch.tensor([1.0, float(x.numel()), *numbers, *extremes, float(T.as_datatype_enum), float(input.dim()),
                         *input.shape], dtype=torch.float64)


_SIZES = {2: 2, 3: 5, 4: 11, 5: 10, 8: 3}       # by mode, how many numbers there are


@summary_v2.shape
def _summary_v2_shape(input, *, tensor_debug_mode):
    if tensor_debug_mode not in _SIZES:
        raise ValueError(f"tensor_debug_mode must be one of {sorted(_SIZES)}, got {tensor_debug_mode}")
    return (3,) if tensor_debug_mode == 8 else (_SIZES[tensor_debug_mode],)


@summary_v2.kernel
def _summary_v2_kernel(input, *, output_dtype, T, tensor_debug_mode, tensor_id):
    if tensor_debug_mode not in _SIZES:
        raise errors.invalid(f"tensor_debug_mode must be one of {sorted(_SIZES)}, got {tensor_debug_mode}")
    if not arrays.is_torch(input):
        raise errors.invalid(f"DebugNumericSummaryV2 is for numbers, not {T.name}")
    x = input.to(torch.float64).reshape(-1)
    below, above, nan = (int(c.sum()) for c in (x == -math.inf, x == math.inf, torch.isnan(x)))
    finite = torch.isfinite(x)
    negative, zero, positive = (int((c & finite).sum()) for c in (x < 0, x == 0, x > 0))
    shape, kind = list(input.shape), T.as_datatype_enum
    if tensor_debug_mode == 2:
        found: list = [tensor_id, float(bool(below + above + nan))]
    elif tensor_debug_mode == 3:
        found = [tensor_id, x.numel(), below, above, nan]
    elif tensor_debug_mode == 4:
        found = [tensor_id, -1, kind, len(shape), x.numel(), below, above, nan, negative, zero, positive]
    elif tensor_debug_mode == 5:
        found = [tensor_id, kind, len(shape), x.numel(), *shape[-6:], *[0] * (6 - len(shape))]
    else:
        found = [-math.inf if below else 0.0, math.inf if above else 0.0, math.nan if nan else 0.0]
    return torch.tensor(found, dtype=output_dtype.torch)


# -- others --------------------------------------------------------------------------------------------------------------
device_index = op("DeviceIndex", "-> index: int32", "device_names: list(string)", stateful=True).no_gradient()
device_index.shape(lambda: ())


@device_index.kernel(device="cpu")
def _device_index_kernel(*, device_names):
    """The place of the kind of device in the list; its length if it does not exist."""
    return torch.tensor(_place("CPU", device_names), dtype=torch.int32)


@device_index.kernel(device="gpu")
def _device_index_kernel_gpu(*, device_names):
    return torch.tensor(_place("GPU", device_names), dtype=torch.int32)


def _place(kind: str, names: list) -> int:
    names = [shown_text(n) for n in names]
    return names.index(kind) if kind in names else len(names)


to_bool = op("ToBool", "input: T -> output: bool", "T: type").no_gradient()
to_bool.shape(lambda input: ())


@to_bool.kernel
def _to_bool_kernel(input):
    """A tensor as a boolean: a scalar by its value (a string by its length), others by whether they have elements."""
    if len(input.shape):
        return torch.tensor(math.prod(input.shape) > 0)
    return torch.tensor(bool(input) if arrays.is_torch(input) else bool(np.asarray(input).item()))


fact = op("Fact", "-> fact: string").no_gradient()
fact.shape(lambda: ())
fact.kernel(lambda: np.array(b"0! == 1", object))
