"""Brings in the samples of all families."""
import importlib
import pkgutil

from tests.registry import samples
from tests.registry.sample import SAMPLES, Sample, restart


def all_samples() -> list[Sample]:
    """Every sample of every family, in the order of their files."""
    for m in sorted(m.name for m in pkgutil.iter_modules(samples.__path__)):
        restart(m)
        importlib.import_module(f"{samples.__name__}.{m}")
    return [s for many in SAMPLES.values() for s in many]


def ids(found: list[Sample]) -> list[str]:
    """A readable, unique name for each sample: Op-0, Op-1 …"""
    seen: dict[str, int] = {}
    out = []
    for s in found:
        n = seen[s.op] = seen.get(s.op, -1) + 1
        out.append(f"{s.op}-{n}")
    return out
