"""How AUTO chooses: what counts of the rounds of trials, who is tried again, and when another way is taken."""
import pytest

from penstock.collective import tuner
from penstock.collective.tuner import _Choice, typical


def test_the_quickest_quarter_counts():
    assert typical([5.0]) == 5.0
    assert typical([5.0, 1.0, 7.0, 9.0]) == 1.0                      # of a few rounds, the least
    assert typical([4.0, 1.0, 3.0, 9.0, 9.0, 9.0, 9.0, 2.0]) == 1.5


def test_rounds_of_all_trials_count_and_another_way_must_be_clearly_better():
    choice = _Choice(256)
    choice.take({"ring": [2.0, 2.0, 2.0, 2.0], "tree": [2.5, 2.5, 2.5, 2.5]})
    assert choice.chosen == "ring"
    choice.take({"tree": [1.98, 3.0, 3.0, 3.0]})                     # hardly
    assert choice.chosen == "ring" and choice.trials == 2
    choice.take({"tree": [1.0] * 4, "ring": [2.0] * 4})
    assert choice.chosen == "tree" and choice.times()["tree"] == pytest.approx(1.0)
    assert choice.without_engines() == "tree"


def test_who_is_tried_again():
    times = {"ring": [1.0], "tree": [1.5], "all_to_all": [9.0]}
    small, large = _Choice(256), _Choice(tuner._LONG)
    for choice in (small, large):
        assert choice.leaders() == []                                # all, at first
        choice.take(times)
    assert small.leaders() == list(times)                            # a moment of noise should not decide for ever
    assert large.leaders() == ["ring", "tree"]


def test_who_is_far_behind_is_out_sooner_where_calls_are_long():
    times = {"ring": 1.0, "tree": 1.4, "all_to_all": 3.0}
    assert tuner._still_worth_it(times, 1, tuner._BEHIND) == list(times)
    assert tuner._still_worth_it(times, 8, tuner._BEHIND) == ["ring", "tree"]
    assert tuner._still_worth_it(times, 1, tuner._BEHIND_LONG) == ["ring", "tree"]
    assert tuner._still_worth_it(times, 4, tuner._BEHIND_LONG) == ["ring"]
