"""Of `framework.convert_to_constants`: what converters to other formats call to freeze models of more than 2 GiB."""
from __future__ import annotations

from typing import Any

from penstock._src.state.saved_model.frozen import convert_variables_to_constants_v2_as_graph


class _FunctionConverterData:
    """A concrete function that shall be frozen, and the options."""

    def __init__(self, func: Any, lower_control_flow: bool, aggressive_inlining: bool, variable_names_allowlist: Any = None,
                 variable_names_denylist: Any = None):
        self._func = func
        self._options = lower_control_flow, aggressive_inlining


_FunctionConverterDataInEager = _FunctionConverterDataInGraph = _FunctionConverterData


def _replace_variables_by_constants(converter_data: _FunctionConverterData) -> tuple[Any, list]:
    """The GraphDef of the frozen function, and the variables that it still takes: none."""
    _, graph_def = convert_variables_to_constants_v2_as_graph(converter_data._func, *converter_data._options)
    return graph_def, []
