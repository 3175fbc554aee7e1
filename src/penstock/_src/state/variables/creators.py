"""The last creators of variables: they choose between reference and resource variables."""
from __future__ import annotations

from typing import Any

from penstock._src.graph import context
from penstock._src.state.variables.reference import RefVariable
from penstock._src.state.variables.resource import ResourceVariable
from penstock._src.state.variables.scope import get_variable_scope
from penstock._src.state.variables.variable import Variable, VariableV1


def _default_creator(**kwargs: Any) -> Any:
    """The last creator of tf.Variable in the v1 API: chooses the kind of variable."""
    kwargs.pop("trackable_parent", None)
    use_resource = kwargs.pop("use_resource", None)
    if use_resource is None:
        use_resource = get_variable_scope().use_resource
    if use_resource is None:
        use_resource = context.process.resource_variables
    if use_resource or kwargs.get("variable_def") is None and context.eager_outside_functions():
        kwargs.pop("expected_shape", None)
        return ResourceVariable(**kwargs)
    return RefVariable(**kwargs)


def _default_creator_v2(**kwargs: Any) -> Any:
    """The last creator of tf.Variable in the v2 API."""
    kwargs.pop("trackable_parent", None)
    kwargs.pop("use_resource", None)
    kwargs.pop("collections", None)
    kwargs.pop("expected_shape", None)
    kwargs.pop("per_worker_variable", None)
    return ResourceVariable(**kwargs)


VariableV1._last_creator = staticmethod(_default_creator)
Variable._last_creator = staticmethod(_default_creator_v2)
