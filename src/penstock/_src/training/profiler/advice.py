"""Advice from a recording of a program: whether it waits for input, and whether its accelerator waits for the host."""
from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_SOME, _MUCH = 0.05, 0.2                   # of the time, waiting for input
_IDLE = 0.5                                # of the rest, without a kernel on the accelerator

Span = tuple[float, float]


class Advice(NamedTuple):
    """Shares of the recorded time, and recommendations."""
    seconds: float
    input_share: float
    device_share: float | None
    lines: tuple[str, ...]

    def text(self) -> str:
        """The advice as a page of text."""
        device = "" if self.device_share is None else f", {self.device_share:.0%} with a kernel on the accelerator"
        return "\n".join([f"{self.seconds:.3f} s recorded, {self.input_share:.0%} waiting for input{device}.", *self.lines, ""])


def advise(begin: float, end: float, waits: Iterable[Span], kernels: Iterable[Span] | None) -> Advice:
    """Advice for a recording from `begin` to `end`, in seconds: waits for input, kernels of accelerators if there are any."""
    whole = max(end - begin, 1e-9)
    waiting = min(_covered(waits) / whole, 1.0)
    busy = None if kernels is None else min(_covered(kernels) / whole, 1.0)
    lines = [_about_input(waiting)]
    rest = 1.0 - waiting
    if busy is not None and rest > _SOME and busy < _IDLE * rest:
        lines.append(f"The program is host-bound: outside of its input the accelerator has no kernel for {1 - busy / rest:.0%} "
                     "of the time. Put the step into tf.function, take larger batches, or run several steps per call "
                     "(steps_per_execution of Keras).")
    return Advice(whole, waiting, busy, tuple(lines))


def _about_input(share: float) -> str:
    if share < _SOME:
        return f"The program is not input-bound: it waits for input {share:.1%} of the time."
    how = "highly" if share >= _MUCH else "moderately"
    return (f"The program is {how} input-bound: it waits for input {share:.0%} of the time. Add prefetch(tf.data.AUTOTUNE) at "
            "the end of the dataset and num_parallel_calls=tf.data.AUTOTUNE to its map and interleave, and cache what is read "
            "again.")


def _covered(spans: Iterable[Span]) -> float:
    """The length of the union of spans."""
    total, reached = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, reached))
        reached = max(reached, last)
    return total
