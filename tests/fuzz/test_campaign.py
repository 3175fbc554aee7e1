"""The campaign itself: it counts, keeps what is new, survives a worker that dies, and continues where it ended."""
import contextlib
import itertools
import json
import random
import signal
import time
import zlib

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.tensor_pb2 import TensorProto

import penstock as tf
from penstock._src.io import hdf5_guard
from tests.fuzz import campaign, inspector, mutate, targets, worker


def test_a_batch_is_counted_and_the_next_one_goes_on(tmp_path):
    target = campaign.Target("wav", tmp_path)
    target.batch(6)
    assert sum(target.counts.values()) == 6 and target.next == 6 and not target.wrong
    assert len(list((tmp_path / "wav").glob("new-*"))) >= len(target.seen)
    again = campaign.Target("wav", tmp_path)
    again.batch(4)
    assert again.next == 10 and sum(again.counts.values()) == 10
    assert "| wav | 10 |" in campaign.page([again])


def test_cases_that_ran_before_are_not_counted(tmp_path):
    """The same numbers again, in another process: each case is the same, and none is run."""
    target = campaign.Target("wav", tmp_path)
    target.batch(6)
    for new in (tmp_path / "wav").glob("new-*"):        # other seeds would make other cases
        new.unlink()
    target.next = 0
    target.batch(6)
    assert sum(target.counts.values()) == 6 and target.next == 6


def test_a_new_corpus_continues_from_the_page(tmp_path):
    target = campaign.Target("wav", tmp_path / "lost")
    target.counts.update(read=1200, refused=34, crash=1)
    target.seconds = 2.0
    (target.folder / "repaired-1").touch()
    text = campaign.page([target])
    again = campaign.Target("wav", tmp_path / "new", campaign.recorded(text)["wav"])
    assert again.counts == target.counts and again.repaired() == 1 and again.next >= 1235
    again.save()
    assert campaign.page([campaign.Target("wav", tmp_path / "new")]) == text


def test_cases_are_known_after_the_file_is_closed(tmp_path):
    first = worker.Cases(tmp_path / "cases")
    assert [first.add(b"a"), first.add(b"b"), first.add(b"a")] == [True, True, False]
    first.close()
    second = worker.Cases(tmp_path / "cases")
    assert [second.add(b"b"), second.add(b"c")] == [False, True]
    second.close()


def test_a_case_that_does_not_end_is_stopped_and_the_next_one_is_not():
    before = signal.getsignal(signal.SIGPROF)
    watch = worker.Watch(0.3)
    try:
        watch.case = 1
        with pytest.raises(worker.TookTooLong):
            while True:
                pass
        for case in range(2, 40):                        # as much time in all, in many cases
            watch.case, until = case, time.process_time() + 0.02
            while time.process_time() < until:
                pass
    finally:
        watch.end()
        signal.signal(signal.SIGPROF, before)
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_mutations_of_a_seed_differ_and_are_the_same_again(tmp_path, name):
    made = targets.TARGETS[name]
    made.begin(tmp_path, [])
    cases = [made.case(random.Random(n))[0] for n in range(30)]
    assert len(set(cases)) > 15
    assert [made.case(random.Random(n))[0] for n in range(30)] == cases


def test_a_changed_field_leaves_the_other_lengths_right():
    data = tf.io.serialize_tensor(np.arange(6.0)).numpy()

    def parsed(change):
        read = 0
        for n in range(300):
            with contextlib.suppress(DecodeError):
                TensorProto.FromString(change(random.Random(n), data))
                read += 1
        return read
    assert parsed(mutate.messages) > 1.5 * parsed(mutate.plain)


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


@pytest.fixture(autouse=True)
def _guard_as_before():
    before = hdf5_guard.subprocess
    yield
    made, hdf5_guard.subprocess = hdf5_guard.subprocess, before
    if made is not before:
        made.close()


def test_files_are_inspected_in_forks(tmp_path):
    made = targets.TARGETS["weights-h5"]
    made.begin(tmp_path, [])
    outcomes = {targets.outcome(made.case(random.Random(n))[1])[0] for n in range(12)}
    assert "refused" in outcomes and "untyped" not in outcomes


def test_a_file_that_makes_the_library_loop_ends_soon_and_its_time_counts():
    """The fork that inspects it stands in for any such file: it computes without end."""
    code, words, used = inspector._inspected(["loop"], lambda name: all(name for _ in itertools.count()))
    assert code == -signal.SIGPROF and words == "" and used >= inspector.SECONDS


def test_what_was_repaired_is_listed_no_more(tmp_path):
    target = campaign.Target("wav", tmp_path)
    target.counts["untyped"] = 2
    for name, data in (("bad-1", b"no sound"), ("bad-2", b"RIFF")):
        (target.folder / name).write_bytes(data)
        target._take({"case": 3, "how": "untyped", "what": "x", "error": "KeyError: 'x'", "file": name})
    target.again()
    assert not target.wrong and target.repaired() == 2 and target.next == 0 and target.counts["untyped"] == 2
    assert "| wav | 2 | 0 | 0 | 2 | 0 | 0 | 2 |" in campaign.page([target])


@pytest.mark.slow
def test_a_call_that_was_repaired_is_listed_no_more(tmp_path):
    """A call has no file that could be read: it is made again from its number."""
    target = campaign.Target("ops", tmp_path)
    made, rng = targets.Arguments(), random.Random((zlib.crc32(b"ops") << 64) | 3)
    made.begin(tmp_path, [])
    (target.folder / "bad-1").write_bytes(made.case(rng)[0])
    (target.folder / "bad-2").write_bytes(b"another call")
    target.wrong = [{"case": 3, "how": "untyped", "error": "", "file": "bad-1"}, {"case": 4, "file": "bad-2"}]
    target.save()
    target.again()
    assert [w["file"] for w in target.wrong] == ["bad-2"] and target.repaired() == 1


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
