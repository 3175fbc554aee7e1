"""Of `framework.c_api_util`: the definitions of ops, by name."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.graphdef import op_def_message
from penstock._src.ops.registry import OPS, get


class ApiDefMap:
    """The ops that there are, and their definitions."""

    def op_names(self) -> list[str]:
        """The names of all ops."""
        return sorted(OPS)

    def get_op_def(self, op_name: str) -> Any:
        """The OpDef message of an op; ValueError if there is no such op."""
        if op_name not in OPS:
            raise ValueError(f"No op_def found for {op_name}")
        return op_def_message(get(op_name))
