"""The campaign itself: it counts, keeps what is new, survives a worker that dies, and continues where it ended."""
import json

from tests.fuzz import campaign, worker


def test_a_batch_is_counted_and_the_next_one_goes_on(tmp_path):
    target = campaign.Target("tensor", tmp_path)
    target.batch(6)
    assert sum(target.counts.values()) == 6 and target.next == 6 and not target.wrong
    assert len(list((tmp_path / "tensor").glob("new-*"))) == len(target.seen)
    again = campaign.Target("tensor", tmp_path)
    again.batch(4)
    assert again.next == 10 and sum(again.counts.values()) == 10
    assert "| tensor | 10 |" in campaign.page([again])


def test_a_worker_that_dies_is_a_crash_of_its_case(tmp_path):
    target = campaign.Target("no such target", tmp_path)
    target.next = 7
    target.batch(5)
    assert target.next == 8 and target.counts["crash"] == 1 and target.wrong[0]["case"] == 7
    assert "case 7: crash" in campaign.page([target])


def test_an_untyped_error_is_kept_with_its_case(tmp_path):
    target = campaign.Target("png", tmp_path)
    assert target._take({"begin": 3}, None) == 3
    line = {"end": 3, "how": "untyped", "what": "KeyError a.py:1", "name": "0", "error": "KeyError: 'x'"}
    assert target._take(line, 3) is None
    target.save()
    known = json.loads((tmp_path / "png" / "state.json").read_text())
    assert known["counts"] == {"untyped": 1} and known["wrong"][0]["error"] == "KeyError: 'x'"


def test_signatures_tell_errors_apart():
    def raised(kind):
        try:
            raise kind("x")
        except kind as e:
            return e
    assert worker.signature(None) == "read"
    assert worker.signature(raised(ValueError)) != worker.signature(raised(KeyError))
