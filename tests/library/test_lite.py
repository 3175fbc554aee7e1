"""tf.lite: options are there, what would convert or run raises when it is used."""
import pytest

import penstock as tf


def test_options():
    assert str(tf.lite.Optimize.DEFAULT) == "DEFAULT"
    spec = tf.lite.TargetSpec(supported_types=[tf.float16])
    assert spec.supported_ops == {tf.lite.OpsSet.TFLITE_BUILTINS} and spec.supported_types == {tf.float16}
    assert tf.lite.OpsSet.get_options()[0] == "TFLITE_BUILTINS"
    assert tf.lite.RepresentativeDataset(iter).input_gen is iter


@pytest.mark.parametrize("use", [
    lambda: tf.lite.Interpreter(model_path="m.tflite"), lambda: tf.lite.TFLiteConverter.from_saved_model("m"),
    lambda: tf.lite.TFLiteConverter.from_keras_model(None), lambda: tf.lite.TFLiteConverter.from_concrete_functions([]),
    lambda: tf.compat.v1.lite.TFLiteConverter.from_session(None, [], []), lambda: tf.lite.experimental.Analyzer.analyze("m"),
    lambda: tf.lite.experimental.load_delegate("lib.so")])
def test_use_raises_and_names_the_alternative(use):
    with pytest.raises(tf.errors.UnimplementedError, match="tf.saved_model.save"):
        use()
