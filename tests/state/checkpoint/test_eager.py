"""Savers and checkpoints of eager variables."""
import penstock as tf
import penstock.compat.v1 as v1


def test_eager_savers(tmp_path):
    v = tf.Variable([1.0, 2.0], name="v")
    saver = v1.train.Saver([v])
    path = saver.save(None, str(tmp_path / "m"))
    v.assign([0.0, 0.0])
    saver.restore(None, path)
    assert v.numpy().tolist() == [1.0, 2.0]
