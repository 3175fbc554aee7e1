"""Which versions of a model should be loaded: numbered folders, and a policy. No I/O but the listing of a folder."""
from __future__ import annotations

from typing import Any

from penstock._src.base import errors
from penstock._src.io import paths

_MAX_VERSION = (1 << 63) - 1


def found(base_path: str) -> dict[int, str]:
    """The versions in a model's folder, and their paths. A folder may be called `3` or `00000003`; other names are ignored."""
    try:
        names = paths.listdir(base_path)
    except (errors.NotFoundError, errors.FailedPreconditionError):
        return {}
    numbered = {int(n): paths.join(base_path, n) for n in sorted(name.rstrip("/") for name in names)
                if n.isascii() and n.isdigit() and len(n) < 20}
    return {number: path for number, path in sorted(numbered.items()) if number <= _MAX_VERSION}


def aspired(available: list[int], policy: Any) -> list[int]:
    """The versions that a ServableVersionPolicy selects: by default the latest one."""
    kind = policy.WhichOneof("kind")
    if kind == "all":
        return sorted(available)
    if kind == "specific":
        if not policy.specific.versions:
            raise errors.invalid("No version was specified in the model_version_policy.")
        return sorted(set(available).intersection(policy.specific.versions))
    return sorted(available)[-max(1, policy.latest.num_versions):]
