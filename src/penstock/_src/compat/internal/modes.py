"""`tf.__internal__.tf2`, `eager_context`, `smart_cond`, `ops`: which behavior is on, and conditions known when building."""
from __future__ import annotations

from penstock._src.base.api import export
from penstock._src.compat.programs.inside import eager, modes, ops

export.value(eager.eager_mode, "__internal__.eager_context.eager_mode")
export.value(modes.enabled, "__internal__.tf2.enabled")
export.value(ops.smart_cond, "__internal__.smart_cond.smart_cond")
export.value(ops.is_resource_variable, "__internal__.ops.is_resource_variable")
