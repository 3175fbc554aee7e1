"""What `import penstock` loads at once: what declares every op (`ops.families`), and what nearly every program uses.

All other modules are loaded when one of their public names is requested (`base/api.py`). The compiler is loaded by the first
session or function.
"""
import gc
import importlib
import os

from penstock._src.base import tracebacks
from penstock._src.base.api import LazyModule
from penstock._src.graph.engine import engine

CORE = (
    "base.text", "io", "graph.graph", "graph.collections", "graph.gradients", "graph.sparse_tensor", "graph.type_spec",
    "graph.message_names", "graph.random_seed", "kernels.devices.device_spec",
    "eager.execute", "eager.tape", "eager.function", "kernels.devices.device_config", "ops.families", "state.variables",
    "base.tf_logging", "state.module", "kernels.exiting",
)
_JUST_STARTED = 200_000        # objects: a process that has imported torch and numpy, and done little else, has 170,000


def load() -> None:
    """Loads the core, without garbage collection: walking over torch's many objects would take longer than the loading."""
    # What torch's libraries read when they are loaded, unless the user has chosen: threads that wait for each other spin for
    # some milliseconds, longer than the time between two kernels of a step. kernels/waiting.py limits that to idle machines.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "100000")
    collects = gc.isenabled()
    gc.disable()
    started = collects and len(gc.get_objects()) < _JUST_STARTED
    try:
        for name in CORE:
            importlib.import_module(f"penstock._src.{name}")
        engine.bodies = LazyModule("penstock._src.step.bodies")
        tracebacks.install()
    finally:
        if started:
            gc.freeze()         # modules do not become garbage; else the first call would walk over all of them
        if collects:
            gc.enable()
