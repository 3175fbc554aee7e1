"""Which of two versions of a step stays."""
import types

import pytest

from penstock._src.step.tiers import rivals, tiers


class Event:
    """An event with a time that a test chooses."""
    now = 0.0

    def __init__(self):
        self.at = Event.now

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


class Slot(tiers.Slot):
    """A Slot whose versions take times of their own; `fails` cannot be captured."""

    def __init__(self, times, fails=()):
        self.times, self.fails, self.log = times, fails, []
        self.step = types.SimpleNamespace(device=types.SimpleNamespace(type="cuda"))
        self.version, self.tier, self._captured, self._paths = "program", 2, None, {}
        self._numbers, self._copies, self._runs, self._uses, self._misses, self._captures = (), {}, 0, 0, 0, True
        self.reasons = []
        if "program" not in fails:
            self._current(None, ())
        old = rivals.Rival(self)
        self.version, self.tier, self._captured, self._paths = "compiled", 3, None, {}
        self._rivals = rivals.Rivals(old, rivals.Rival(self))

    def _current(self, ctx, feeds):
        self.log.append(self.version)
        Event.now += self.times[self.version] if self._captured else 100.0
        if self.version in self.fails:
            self._captures = False
        else:
            self._captured = types.SimpleNamespace(holds=lambda: True, pool=None)
        return (self.version,)


@pytest.fixture(autouse=True)
def events(monkeypatch):
    monkeypatch.setattr(rivals, "begun", Event)
    monkeypatch.setattr(Event, "now", 0.0)


@pytest.mark.parametrize("compiled, stays", [(1.0, "compiled"), (3.0, "program")])
def test_the_faster_version_stays(compiled, stays):
    slot = Slot({"program": 2.0, "compiled": compiled})
    before = tiers.refused[3, "it is not faster"]
    for _ in range(40):
        if slot._rivals is None:
            break
        slot._compete(slot._rivals, None, ())
    assert slot._rivals is None and slot.version == stays and slot._captured is not None
    assert slot.tier == (3 if stays == "compiled" else 2)
    assert {v: slot.log.count(v) for v in set(slot.log)} == {"program": 8, "compiled": 8}
    assert (tiers.refused[3, "it is not faster"] > before) is (stays == "program") is bool(slot.reasons)


def test_a_version_that_cannot_be_captured_loses_to_one_that_is():
    slot = Slot({"program": 2.0, "compiled": 1.0}, fails=["compiled"])
    slot._compete(slot._rivals, None, ())
    assert slot._rivals is None and slot.version == "program" and slot._captures


def test_without_captures_the_compiled_version_stays():
    slot = Slot({"program": 2.0, "compiled": 1.0}, fails=["program", "compiled"])
    slot._compete(slot._rivals, None, ())
    assert slot._rivals is None and slot.version == "compiled" and not slot._captures
