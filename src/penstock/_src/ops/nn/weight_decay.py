"""Decay of the weights of optimizers: `var -= var * rate * decay`, for one variable or several.

As a read, two products and a subtraction it would be a kernel or two for each variable. As an op it is joined with those of the
other variables (step/optimize/updates.py), and reads and writes each element once.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base.waits import Locks
from penstock._src.kernels import device_updates
from penstock._src.ops import rules
from penstock._src.ops.nn.update_kernels import number
from penstock._src.ops.registry import internal

_NUMBERS = "rate: T, decay: T ->"
_TYPES = "T: type in {floating}"

decay_weights = internal("_ResourceDecayWeights", f"var: resource, {_NUMBERS}", _TYPES, stateful=True).no_gradient()
decay_all_weights = internal("_DecayWeightsOfAll", f"var: N * resource, {_NUMBERS}", f"N: int >= 1, {_TYPES}",
                             stateful=True).no_gradient()
rules.updates.alone |= {decay_weights, decay_all_weights}
rules.updates.together.add(decay_weights)
rules.updates.several[decay_weights] = decay_all_weights.name, frozenset([0])
decay_weights.shape(lambda var, rate, decay: [])
decay_all_weights.shape(lambda *shapes: [])
decay_weights.kernel(lambda var, rate, decay: _decay([var], rate, decay))
decay_all_weights.kernel(lambda var, rate, decay: _decay(var, rate, decay))


def _decay(variables: list[Any], rate: torch.Tensor, decay: torch.Tensor) -> None:
    part = number(rate, "rate") * number(decay, "decay")
    with Locks(variables):
        tensors = [v.writable() for v in variables]
        if not device_updates.update(_less, [tensors], [part, None], 1, tensors, {}):
            for t in tensors:
                _less(t, part, t)


def _less(var: Any, part: Any, value: Any) -> None:
    if isinstance(part, torch.Tensor):
        var.sub_(value * part)
    else:
        var.sub_(value, alpha=part)
