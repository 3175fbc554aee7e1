"""The table of rules: how each type of op is written in ONNX.

A rule takes the Builder and the op, and returns the name of the value of its output, or a list with one name per output.
`family` is its row in the table of the documentation.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.onnx.builder import Builder
from penstock._src.step.ir import Node


class Rule(NamedTuple):
    """How a type of op is written, and its family."""
    write: Callable[[Builder, Node], Any]
    family: str


RULES: dict[str, Rule] = {}


def rule(family: str, *types: str) -> Callable[[Callable], Callable]:
    """Registers a function as the rule of some types of ops."""
    def register(write: Callable) -> Callable:
        for type in types:
            assert type not in RULES, type
            RULES[type] = Rule(write, family)
        return write
    return register


def table() -> str:
    """The ops that have rules as a table in Markdown, one row per family."""
    families: dict[str, list[str]] = {}
    for type in sorted(RULES):
        families.setdefault(RULES[type].family, []).append(f"`{type}`")
    rows = [f"| {family} | {', '.join(names)} |" for family, names in sorted(families.items())]
    return "\n".join(["| Family | Ops |", "| --- | --- |", *rows])
