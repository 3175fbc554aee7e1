"""What `import penstock` may cost: little time over torch and numpy, nothing that is heavy, no threads, no files."""
import json
import os
import subprocess
import sys

import pytest

BUDGET_MS = 160           # where torch and numpy take TORCH_MS; 141 to 151 were measured on a busy machine
MODULES = 432             # of ours; 426 were counted
TORCH_MS = 1000
HEAVY = ("google.protobuf", "tensorboard", "absl", "fsspec", "PIL", "rich", "grpc", "numpy.polynomial",
         "penstock._src.io.bundle",
         "penstock._src.library.linalg", "penstock._src.library.image", "penstock._src.library.metrics",
         "penstock._src.library.losses", "penstock._src.training.train", "penstock._src.library.testing",
         "penstock._src.session.session", "penstock._src.step.compiler", "penstock._src.step.optimize",
         "penstock._src.step.loops", "penstock._src.step.tiers", "penstock._src.step.place", "penstock._src.execute.dataflow")

SCRIPT = """
import json, sys, threading, time, warnings
t0 = time.process_time()
import numpy, torch
t1 = time.process_time()
before, threads = set(sys.modules), threading.active_count()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import {module}
t2 = time.process_time()
print(json.dumps({{"torch": t1 - t0, "ours": t2 - t1, "modules": sorted(set(sys.modules) - before),
                  "threads": threading.active_count() - threads, "warnings": [str(w.message) for w in caught]}}))
"""


def fresh(module):
    """What importing `module` does in a new process."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}      # compiling is not what is measured
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(module=module)], check=True, capture_output=True, text=True,
                          env=env)
    return json.loads(done.stdout) | {"stderr": done.stderr}


@pytest.mark.parametrize("module", ["penstock", "penstock.compat.v1"])
def test_import_is_quiet_and_light(module):
    """No threads, warnings or output; what is heavy is not loaded."""
    found = fresh(module)
    assert (found["threads"], found["warnings"], found["stderr"]) == (0, [], "")
    loaded = [m for m in found["modules"] if any(m == h or m.startswith(h + ".") for h in HEAVY)]
    assert not loaded, f"{loaded} should load when they are needed: see LazyModule and export.later in api.py"
    outside = [m for m in found["modules"] if not m.startswith("penstock")]
    assert len(outside) < 30, outside
    assert len(found["modules"]) - len(outside) <= MODULES


def test_import_is_quick():
    """Some try of several is in the budget, in processor time, which other programs on the machine disturb least."""
    tries = []
    for _ in range(8):                                     # the first may have to compile
        found = fresh("penstock")
        tries.append((round(found["torch"], 3), round(found["ours"], 3)))
        if found["ours"] / found["torch"] * TORCH_MS <= BUDGET_MS:
            return
    raise AssertionError(f"seconds for torch and for us: {tries}")


COLLECTED = """
import gc, weakref
class Cycle:
    def __init__(self):
        self.me = self
held = [[] for _ in range({held})]
before = Cycle()
import penstock
frozen = gc.get_freeze_count()
after = Cycle()
found = weakref.ref(before), weakref.ref(after)
del before, after
gc.collect()
print(frozen, *(r() is None for r in found))
"""


@pytest.mark.parametrize("held", [0, 300_000])
def test_modules_are_not_walked_over_by_the_collector(held):
    done = subprocess.run([sys.executable, "-c", COLLECTED.format(held=held)], check=True, capture_output=True, text=True)
    frozen, before, after = done.stdout.split()
    assert after == "True"
    assert int(frozen) > 100_000 if not held else (frozen, before) == ("0", "True")
