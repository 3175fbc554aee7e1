"""`tf.__internal__.decorator`."""
from __future__ import annotations

from penstock._src.base.api import export
from penstock._src.compat.programs.inside import decorators

export.value(decorators.make_decorator, "__internal__.decorator.make_decorator")
export.value(decorators.unwrap, "__internal__.decorator.unwrap")
