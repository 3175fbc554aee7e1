"""The interface between a session and the engine that runs its steps.

A session maps fetches and feeds of the user's program to elements of its graph and values; its engine does the rest. There
are three: `session/local.py` compiles steps and runs them in this process, `cluster/remote.py` sends them to the master of a
cluster, and the master runs them across tasks (`cluster/cluster_engine.py`).
"""
from __future__ import annotations

from typing import Any, Protocol

from penstock._src.base import errors
from penstock._src.execute.context import ResourceManager
from penstock._src.graph.node import Tensor


def closed() -> RuntimeError:
    """The error for using a closed session."""
    return RuntimeError("Attempted to use a closed Session. Create a new one; `with tf.Session() as sess:` "
                        "closes its own at the end.")


class Engine(Protocol):
    """Runs steps of one graph. Elements are tensors and operations of that graph; any number of threads may call."""

    resources: ResourceManager           # the resources in this process: variables, tensors behind handles

    def run(self, elements: list, feeds: list[Tensor], values: list, options: Any = None, metadata: Any = None) -> list:
        """Runs a step with fed values; returns a numpy value for each tensor, and None for each operation."""
        ...

    def partial_run_setup(self, elements: list, feeds: list[Tensor]) -> str:
        """Prepares a step that runs in pieces; returns its handle."""
        ...

    def partial_run(self, handle: str, elements: list, feeds: list[Tensor], values: list) -> list:
        """Runs the next piece of a step."""
        ...

    def running_steps(self) -> list[int]:
        """The numbers of the steps that run now in this process."""
        ...

    def list_devices(self) -> list:
        """The devices that ops may be placed on."""
        ...

    def explain(self, elements: list, feeds: list[Tensor]) -> str:
        """The program of a step as text; nothing is run."""
        ...

    def explain_placement(self) -> str:
        """The device of each op of the graph, the reason, and the op that forced it."""
        ...

    def cancel(self, error: errors.OpError) -> None:
        """Ends the steps that run now."""
        ...

    def close(self) -> None:
        """Ends the steps that run, and frees what the engine holds."""
        ...
