"""How AUTO chooses: which rounds count, which algorithms are measured again, and when the choice changes."""
import concurrent.futures
import threading

import pytest
import torch

from penstock._src.base import errors
from penstock._src.collective import tuner
from penstock._src.collective.group import Limit
from penstock._src.collective.tuner import _Choice, typical


def test_the_quickest_quarter_counts():
    assert typical([5.0]) == 5.0
    assert typical([5.0, 1.0, 7.0, 9.0]) == 1.0                      # of a few rounds, the least
    assert typical([4.0, 1.0, 3.0, 9.0, 9.0, 9.0, 9.0, 2.0]) == 1.5


def test_rounds_of_all_trials_count_and_another_way_must_be_clearly_better():
    choice = _Choice(256)
    choice.take({"ring": [2.0, 2.0, 2.0, 2.0], "tree": [2.5, 2.5, 2.5, 2.5]}, 1)
    assert choice.chosen == "ring"
    choice.take({"tree": [1.98, 3.0, 3.0, 3.0]}, 9)                  # hardly
    assert choice.chosen == "ring" and choice.trials == 2
    choice.take({"tree": [1.0] * 4, "ring": [2.0] * 4}, 73)
    assert choice.chosen == "tree" and choice.times()["tree"] == pytest.approx(1.0)
    assert choice.without_engines() == "tree"


def test_who_is_tried_again():
    times = {"ring": [1.0], "tree": [1.5], "all_to_all": [9.0]}
    small, large = _Choice(256), _Choice(tuner._LONG)
    for choice in (small, large):
        assert choice.leaders() == []                                # all, at first
        choice.take(times, 1)
    assert small.leaders() == list(times)                            # a moment of noise should not decide forever
    assert large.leaders() == ["ring", "tree"]


def test_who_is_far_behind_is_out_sooner_where_calls_are_long():
    times = {"ring": 1.0, "tree": 1.4, "all_to_all": 3.0}
    assert tuner._still_worth_it(times, 1, tuner._BEHIND) == list(times)
    assert tuner._still_worth_it(times, 8, tuner._BEHIND) == ["ring", "tree"]
    assert tuner._still_worth_it(times, 1, tuner._BEHIND_LONG) == ["ring", "tree"]
    assert tuner._still_worth_it(times, 4, tuner._BEHIND_LONG) == ["ring"]


def test_trials_become_rare_and_the_last_ones_count():
    choice = _Choice(256)
    due = []
    for _ in range(3):
        choice.take({"ring": [1.0] * 4, "tree": [2.0] * 4}, int(choice.due) + 1)
        due.append(choice.due)
    assert due == [9, 74, 587]
    for _ in range(3):                                               # "ring" was quick for a while, and is not any more
        choice.take({"ring": [3.0] * 4, "tree": [2.0] * 4}, int(choice.due) + 1)
    assert choice.chosen == "tree"
    assert sum(map(len, choice.rounds["ring"])) == 12                # nothing grows with the number of trials


@pytest.mark.distributed
def test_members_take_another_way_in_the_same_call(cluster, monkeypatch):
    """A way that was quick in the first trial is slow later: all members leave it, in the same call, and a call that failed
    in between, after one of them had begun it and before the other had, changes nothing of that."""
    quick = {"now": "ring"}

    def pretended(work, many):
        name = work.args[1] if hasattr(work, "args") else "gloo"
        return 1e-3 if name == quick["now"] else 6e-3
    monkeypatch.setattr(tuner, "_seconds", pretended)
    monkeypatch.setattr(tuner, "_AGAIN", 2)
    servers, taken, line = cluster(worker=2), {}, threading.Barrier(2, timeout=60)

    def member(rank):
        hub = servers["worker", rank]._resources.hub
        group = hub.join(1, 2, f"{hub.task}/device:CPU:0", Limit(seconds=60))
        ways = taken[rank] = []
        for n in range(150):
            if n == 20:
                line.wait()
                quick["now"] = "tree"
                line.wait()
            if n == 5:
                with pytest.raises(errors.InvalidArgumentError, match="Shape mismatch"):
                    group.all_reduce(rank, "x", torch.ones(64 + rank), limit=Limit(seconds=100))
            total = group.all_reduce(rank, "x", torch.ones(64), limit=Limit(seconds=100))
            assert torch.equal(total, torch.full([64], 2.0))
            ways += [plan.name for key, plan in group.tuner._plans.items() if key[0] == rank and key[-2] == (64,)]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(member, range(2)))
    assert taken[0] == taken[1]
    assert taken[0][0] == "ring" and taken[0][-1] == "tree" and len(taken[0]) == 150
