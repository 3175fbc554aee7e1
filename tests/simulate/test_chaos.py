"""Schedules of faults over the real state machines: a few hundred of them, and those that have found a mistake.

`penstock simulate chaos` runs any number.
"""
import pytest

from penstock._src.simulate.chaos import synchrony
from penstock._src.simulate.chaos.choices import Choices, check
from penstock._src.simulate.chaos.shrink import shrink, violation
from penstock._src.simulate.chaos.worlds import WORLDS, Failure, campaign

COUNTS = {"steps": 300, "membership": 300, "collectives": 200, "synchrony": 30, "checkpoints": 15}


@pytest.mark.parametrize("name", WORLDS)
def test_schedules(name):
    failures = [f for f in campaign(COUNTS[name], 0, name) if isinstance(f, Failure)]
    assert failures == []


@pytest.mark.parametrize("name", WORLDS)
def test_a_schedule_gives_the_same_run_every_time(name):
    first = Choices(11)
    WORLDS[name](first)
    again = Choices(given=first.taken)
    WORLDS[name](again)
    assert again.taken == first.taken


# A worker is killed after it has added its gradient, comes back, and adds another one to the same mean.
TWICE = [[1, 1, 0, 5, 5, 3, 0, 3, 3, 1], [1, 1, 0, 0, 5, 5, 3, 3, 0, 1], [1, 1, 0, 5, 5, 0, 0, 5, 2, 2, 6, 3]]


def test_a_dead_master_begins_no_step():
    """The master dies between the request for a step and its begin."""
    assert violation(WORLDS["steps"], [2, 2, 0, 6, 0, 3, 0, 1]) is None


def test_a_dead_master_sends_nothing():
    """The master dies while its own part computes, before it has told the others to begin."""
    assert violation(WORLDS["steps"], [2, 1, 1, 6, 0, 1]) is None


def test_a_message_to_a_dead_task_does_not_reach_the_next_one():
    """A task dies before its part is sent, and is restarted before the message would arrive."""
    assert violation(WORLDS["steps"], [3, 337, 336, 14, 4, 0, 0, 6, 0, 0, 4, 0, 0, 4, 0, 1, 1, 0, 0, 4, 4]) is None


@pytest.mark.parametrize("schedule", TWICE)
def test_no_worker_counts_twice_in_a_mean(schedule):
    assert violation(synchrony.world, schedule) is None


def test_the_world_would_see_a_worker_that_counts_twice(monkeypatch):
    """Without the rule of the accumulator, the same schedules fail."""
    from penstock._src.data.queues.accumulator import Accumulator
    real = Accumulator.apply
    monkeypatch.setattr(Accumulator, "apply", lambda self, step, gradient, worker=None, once=False: real(
        self, step, gradient, worker))
    assert all(violation(synchrony.world, schedule) for schedule in TWICE)


def test_a_failing_schedule_is_made_short():
    """A world that fails when a number above five comes after two others above three."""
    def world(choices):
        seen = 0
        for _ in range(30):
            number = choices.choose(10)
            check(not (seen >= 2 and number > 5), "wrong")
            seen += number > 3
    start = next(c.taken for c in map(_taken(world), range(100)) if violation(world, c.taken))
    assert shrink(world, start) == [4, 4, 6]


def _taken(world):
    def run(seed):
        choices = Choices(seed)
        try:
            world(choices)
        except AssertionError:
            pass
        return choices
    return run


def test_where_a_schedule_ends_nothing_goes_wrong():
    choices = Choices(given=[3, 9])
    assert [choices.choose(5) for _ in range(4)] == [3, 4, 0, 0] and not choices.happens(2)
