"""tf.summary of both kinds, read back with TensorBoard's own reader."""
import glob
import os

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.base import errors
from penstock._src.io.events import EventsWriter
from tests.checks import eventually


def shown(logdir):
    """What TensorBoard has read from a directory."""
    found = EventAccumulator(str(logdir), size_guidance={"tensors": 0, "scalars": 0, "images": 0, "histograms": 0, "audio": 0})
    found.Reload()
    return found


def test_summaries_of_graphs(tmp_path):
    rng = np.random.RandomState(1)
    values = rng.randn(1000)
    with tf.Graph().as_default() as g, v1.Session() as sess:
        x = v1.placeholder(tf.float32, [])
        v1.summary.scalar("loss", x)
        v1.summary.scalar("in family", x * 2, family="f")
        v1.summary.histogram("h", tf.constant(values))
        v1.summary.image("im", tf.constant(rng.rand(4, 6, 5, 3).astype(np.float32)), max_outputs=2)
        v1.summary.audio("au", tf.constant(rng.rand(1, 50, 2).astype(np.float32)), 8000, max_outputs=1)
        v1.summary.text("t", tf.constant("hello"))
        merged = v1.summary.merge_all()
        with v1.summary.FileWriter(str(tmp_path), g) as writer:
            for step in range(3):
                writer.add_summary(sess.run(merged, {x: step + 0.5}), step)
            writer.add_session_log(v1.SessionLog(status=v1.SessionLog.STOP), 3)
            writer.add_run_metadata(v1.RunMetadata(), "run")
            with pytest.raises(ValueError, match="already used"):
                writer.add_run_metadata(v1.RunMetadata(), "run")
    seen = shown(tmp_path)
    assert [(e.step, e.value) for e in seen.Scalars("loss")] == [(0, 0.5), (1, 1.5), (2, 2.5)]
    assert [e.value for e in seen.Scalars("f/f/in_family")] == [1.0, 3.0, 5.0]
    h = seen.Histograms("h")[0].histogram_value
    assert h.num == 1000 and h.min == values.min() and h.max == values.max() and sum(h.bucket) == 1000
    np.testing.assert_allclose([h.sum, h.sum_squares], [values.sum(), (values ** 2).sum()], rtol=1e-6)
    counted = [((values < b) & (values >= a)).sum() for a, b in zip([-np.inf, *h.bucket_limit], h.bucket_limit)]
    assert counted == list(h.bucket)
    image = seen.Images("im/image/0")[0]
    assert (image.height, image.width) == (6, 5) and image.encoded_image_string.startswith(b"\x89PNG")
    assert len(seen.Tags()["images"]) == 2
    audio = seen.Audio("au/audio")[0]
    assert audio.sample_rate == 8000 and audio.length_frames == 50 and audio.encoded_audio_string.startswith(b"RIFF")
    assert seen.Tensors("t")[0].tensor_proto.string_val == [b"hello"]
    assert seen.Graph().node[0].name == g.as_graph_def().node[0].name
    assert seen.Tags()["run_metadata"] == ["run"]


def test_summaries_of_eager_execution_and_functions(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))

    @tf.function
    def step(i):
        with tf.name_scope("inner"):
            tf.summary.scalar("x", tf.cast(i, tf.float32) * 2, step=i)
    with writer.as_default():
        for i in range(3):
            step(tf.constant(i, tf.int64))
        tf.summary.histogram("h", [1.0, 2.0, 2.0, 5.0], step=0, buckets=4)
        tf.summary.histogram("same", [3.0, 3.0], step=0, buckets=3)
        tf.summary.image("im", np.zeros((5, 4, 6, 1)), step=0)
        tf.summary.audio("au", np.zeros((2, 10, 1), np.float32), 100, step=0)
        tf.summary.text("t", ["a", "b"], step=0)
        with tf.summary.record_if(False):
            assert not tf.summary.scalar("no", 1.0, step=0)
        with pytest.raises(ValueError, match="No step set"):
            tf.summary.scalar("no", 1.0)
        tf.summary.experimental.set_step(7)
        assert tf.summary.scalar("yes", 1.0)
        tf.summary.experimental.set_step(None)
        tf.summary.trace_on()
        step(tf.constant(9, tf.int64))
        tf.summary.trace_export("trace", step=0)
    writer.close()
    with pytest.raises(RuntimeError, match="already closed"):
        writer.set_as_default()
    seen = shown(tmp_path)
    values = {t: [v1.make_ndarray(e.tensor_proto) for e in seen.Tensors(t)] for t in seen.Tags()["tensors"]}
    assert [float(v) for v in values["inner/x"]] == [0, 2, 4, 18]
    assert values["h"][0].tolist() == [[1, 2, 1], [2, 3, 2], [3, 4, 0], [4, 5, 1]]
    assert values["same"][0][:, 2].tolist() == [0, 2, 0]
    assert values["im"][0][:2].tolist() == [b"6", b"4"] and len(values["im"][0]) == 5
    assert values["au"][0].shape == (2, 2) and values["t"][0].tolist() == [b"a", b"b"]
    assert seen.Tensors("yes")[0].step == 7 and "no" not in values
    assert seen.SummaryMetadata("inner/x").plugin_data.plugin_name == "scalars"
    assert len(v1.RunMetadata.FromString(values["trace"][0].item()).function_graphs) == 1


def test_not_finite_and_misshapen_values_are_refused():
    with pytest.raises(errors.InvalidArgumentError, match="Nan in summary histogram for: h"):
        tf.raw_ops.HistogramSummary(tag="h", values=[1.0, float("nan")])
    with pytest.raises(errors.InvalidArgumentError, match="not the same shape"):
        tf.raw_ops.ScalarSummary(tags=["a", "b"], values=[1.0])
    with pytest.raises(errors.InvalidArgumentError, match="rank 4"):
        tf.raw_ops.ImageSummary(tag="i", tensor=tf.zeros([2, 3, 4, 2]))
    with pytest.raises(errors.InvalidArgumentError, match="Duplicate tag a"):
        one = tf.raw_ops.ScalarSummary(tags="a", values=1.0)
        tf.raw_ops.MergeSummary(inputs=[one, one])


def test_events_are_visible_after_a_while(tmp_path):
    writer = EventsWriter(tmp_path, max_queue=1000, flush_secs=0.1)
    writer.add(v1.Event(step=5))
    assert eventually(lambda: len(list(v1.train.summary_iterator(writer.path))) >= 2, 60)
    writer.close()
    writer.write(b"lost: the file is closed")
    assert len(glob.glob(os.path.join(tmp_path, "events*"))) == 1


def test_a_damaged_event_file_is_noticed(tmp_path):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(tmp_path))
        writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="a", simple_value=1.0)]), 1)
        writer.close()
    path, = glob.glob(os.path.join(tmp_path, "events*"))
    with open(path, "r+b") as f:
        f.seek(-6, 2)
        f.write(b"\xff")
    with pytest.raises(errors.DataLossError):
        list(v1.train.summary_iterator(path))


def test_reading_continues_after_the_end(tmp_path):
    with tf.Graph().as_default(), v1.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), 1)
        writer.flush()
        events = v1.train.summary_iterator(glob.glob(str(tmp_path / "event*"))[0])
        assert [e.step for e in events] == [0, 1] and next(events, None) is None
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), 2)
        writer.flush()
        assert [e.step for e in events] == [2]


def test_tags_of_summaries_in_loops_and_branches(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    dataset = tf.data.Dataset.range(2)

    @tf.function
    def steps(n):
        with writer.as_default(step=1), tf.name_scope("outer"):
            for i in tf.range(n):
                tf.summary.scalar("in_range", 1.)
                if i > 0:
                    tf.summary.scalar("then", 1.)
            for x in dataset:                            # a function of the dataset: outside of the scopes around
                tf.summary.scalar("of_element", 1.)
                if x > 0:
                    tf.summary.scalar("of_some", 1.)
            for x in dataset:
                if x > 0:
                    break
                tf.summary.scalar("first", 1.)
            while n > 1:
                n -= 1
                tf.summary.scalar("in_while", 1.)
            for _ in iter(dataset):
                tf.summary.scalar("of_iterator", 1.)
    steps(tf.constant(2))
    writer.close()
    # recorded from TensorFlow
    assert set(shown(tmp_path).Tags()["tensors"]) == {
        "outer/while/in_range", "outer/while/cond/then", "of_element", "cond/of_some", "cond/cond_1/first",
        "outer/while_1/in_while", "outer/while_2/cond/of_iterator"}
