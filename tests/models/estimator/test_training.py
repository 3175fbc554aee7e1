"""train_and_evaluate in one process: evaluations on the way, exports, and the specs."""
import pytest

import penstock.compat.v1 as tf

from .test_estimator import inputs, made


def receiver():
    return tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 3])})()


def test_training_with_evaluations_and_exports(tmp_path):
    model = made(tmp_path, save_checkpoints_steps=10)
    seen = []

    class Watching(tf.estimator.Exporter):
        name = "watching"

        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            seen.append((int(eval_result["global_step"]), is_the_final_export))
            return export_path
    exporters = [Watching(), tf.estimator.FinalExporter("final", receiver), tf.estimator.BestExporter("best", receiver)]
    result, exports = tf.estimator.train_and_evaluate(
        model, tf.estimator.TrainSpec(inputs(), max_steps=25),
        tf.estimator.EvalSpec(inputs(1, False), steps=None, exporters=exporters, throttle_secs=0))
    assert result["global_step"] == 25 and seen == [(10, False), (20, False), (25, True)]
    assert exports[0].endswith("export/watching") and b"export/final" in exports[1]
    assert len(list((tmp_path / "export" / "final").iterdir())) == 1
    assert len(list((tmp_path / "export" / "best").iterdir())) >= 1
    with tf.Graph().as_default(), tf.Session() as sess:
        assert "serving_default" in tf.saved_model.load(sess, ["serve"], exports[1].decode()).signature_def


def test_the_newest_exports_are_kept(tmp_path):
    exporter = tf.estimator.LatestExporter("latest", receiver, exports_to_keep=1)
    model = made(tmp_path).train(inputs(), steps=1)
    for _ in range(2):
        exporter.export(model, str(tmp_path / "e"), model.latest_checkpoint(), {}, False)
    assert len(list((tmp_path / "e").iterdir())) == 1


def test_specs_are_checked():
    with pytest.raises(TypeError, match="callable"):
        tf.estimator.TrainSpec(3)
    with pytest.raises(ValueError, match="max_steps > 0"):
        tf.estimator.TrainSpec(inputs(), max_steps=0)
    with pytest.raises(TypeError, match="Exporter"):
        tf.estimator.EvalSpec(inputs(), exporters=[3])
    with pytest.raises(ValueError, match="positive"):
        tf.estimator.LatestExporter("x", receiver, exports_to_keep=0)
