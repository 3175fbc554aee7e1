"""Several ops as one: on each element of arrays of one shape (step/optimize/pointwise.py), or of any kind (regions.py)."""
from __future__ import annotations

from typing import Any

from penstock._src.ops import rules
from penstock._src.ops.registry import internal

pointwise = internal("_Pointwise", "values: N * T -> results: M * T", "N: int, M: int, T: type")
pointwise.kernel(lambda values, *, plan: plan.run(values))
rules.regions.lower[pointwise] = lambda op, r: r.plan(op.attrs["plan"], [r.view(t) for t in op.inputs])
rules.program.prepare[pointwise] = lambda known: known.attrs["plan"].run

on_device = internal("_DevicePlan", "values: Tin -> results: Tout", "Tin: list(type), Tout: list(type)")
on_device.kernel(lambda values, *, plan: plan.run(values))
rules.program.prepare[on_device] = lambda known: known.attrs["plan"].run

region = internal("_Region", "values: Tin -> results: Tout", "Tin: list(type), Tout: list(type)")
region.kernel(lambda values, *, region: region.run(values))
rules.program.prepare[region] = lambda known: known.attrs["region"].run

drawing_region = internal("_DrawingRegion", "values: Tin -> results: Tout", "Tin: list(type), Tout: list(type)", stateful=True)
drawing_region.random = True
drawing_region.kernel(lambda values, *, region, ctx: region.draw(values, ctx))


@rules.program.prepare(drawing_region)
def _prepare_drawing_region(known: Any) -> Any:
    draw = known.attrs["region"].draw

    def run(values: list, *, ctx: Any) -> list:
        return draw(values, ctx)
    return run
