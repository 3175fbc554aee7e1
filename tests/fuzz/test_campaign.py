"""The campaign itself: it counts, keeps what is new, survives a worker that dies, and continues where it ended."""
import json

import penstock as tf
from tests.fuzz import campaign, worker


def test_a_batch_is_counted_and_the_next_one_goes_on(tmp_path):
    target = campaign.Target("tensor", tmp_path)
    target.batch(6)
    assert sum(target.counts.values()) == 6 and target.next == 6 and not target.wrong
    assert len(list((tmp_path / "tensor").glob("new-*"))) >= len(target.seen)
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
    target._take({"case": 3, "how": "untyped", "what": "KeyError a.py:1", "error": "KeyError: 'x'"})
    target.save()
    known = json.loads((tmp_path / "png" / "state.json").read_text())
    assert known["seen"] == ["KeyError a.py:1"] and known["wrong"][0]["error"] == "KeyError: 'x'"


def test_progress_outlives_its_writer(tmp_path):
    reader = worker.Progress(tmp_path / "p", 5)
    writer = worker.Progress(tmp_path / "p")
    writer.begin(5, b"first")
    writer.end(5, "refused")
    writer.begin(6, b"second case")
    writer.close()
    assert reader.read() == (6, {"read": 0, "refused": 1, "untyped": 0, "slow": 0}, b"second case")
    reader.close()


def test_a_case_that_reaches_another_line_is_seen():
    lines = worker.Lines()
    with lines:
        tf.io.gfile.exists("memory://no/such")
    first = lines.new
    with lines:
        tf.io.gfile.exists("memory://no/other")
    assert first > 0 and lines.new == 0


def test_signatures_tell_errors_apart():
    def raised(kind):
        try:
            raise kind("x")
        except kind as e:
            return e
    assert worker.signature(None) == "read"
    assert worker.signature(raised(ValueError)) != worker.signature(raised(KeyError))
