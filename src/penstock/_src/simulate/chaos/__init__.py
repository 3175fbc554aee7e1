"""Deterministic simulation tests: the real state machines, with simulated failures of messages, tasks, disks and clocks.

A *world* (`worlds.py` lists them) runs state machines under a *schedule*: the numbers that it draws whenever a fault is
possible (`choices.py`). A seed determines a schedule, and a schedule determines the run. A world raises `Violation` if an
invariant does not hold; the schedule is then shrunk (`shrink.py`), and can be kept as a test.

    penstock simulate chaos --schedules 100000
"""
