"""Deterministic simulation tests: real state machines in worlds where messages, tasks, disks and clocks misbehave.

A *world* (`worlds.py` lists them) runs state machines under a *schedule*: the numbers that it asks for whenever something may
go wrong (`choices.py`). A seed gives a schedule, and a schedule gives the same run every time. A world raises `Violation` if
an invariant does not hold; then the schedule is made shorter (`shrink.py`), and can be kept as a test.

    penstock simulate chaos --schedules 100000
"""
