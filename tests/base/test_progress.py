"""What summaries and checkpoints note for the status page."""
import penstock as tf
from penstock._src.base import progress


def test_summaries_and_checkpoints_of_2x_are_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "process", progress.Progress())
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        tf.summary.scalar("loss", 0.5, step=3)
        tf.summary.histogram("weights", [1.0, 2.0], step=3)
        tf.summary.scalar("loss", tf.constant(0.25, tf.float64), step=4)
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "model"))
    assert progress.process.scalars == {"loss": (4, 0.25)}
    assert [saved for _, saved, _ in progress.process.saves] == [path]


def test_what_is_kept_is_bounded():
    kept = progress.Progress()
    for i in range(1000):
        kept.scalar(f"tag {i}", i, 1.0)
        kept.saved(f"model-{i}", 0.1)
    kept.scalar("tag 0", 7, 2.0)
    assert len(kept.scalars) == 50 and kept.scalars["tag 0"] == (7, 2.0)
    assert len(kept.saves) == 10 and kept.saves[-1][1] == "model-999"
