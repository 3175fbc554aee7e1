"""tf.estimator: models as functions, with training, evaluation, prediction and export around them."""
import penstock.compat.v1 as _tf
from penstock._src.base.api import export as _export
from penstock._src.models.estimator import (  # noqa: F401
    boosted_trees,
    canned,
    canned_v2,
    clustering,
    early_stopping,
    estimator,
    exporter,
    inputs,
    keras_model,
    more_evaluation,
    training,
)

for _name in ("CheckpointSaverHook", "CheckpointSaverListener", "FeedFnHook", "FinalOpsHook", "GlobalStepWaiterHook",
              "LoggingTensorHook", "NanLossDuringTrainingError", "NanTensorHook", "ProfilerHook", "SecondOrStepTimer",
              "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues", "StepCounterHook", "StopAtStepHook",
              "SummarySaverHook", "VocabInfo"):
    _export.value(getattr(_tf.train, _name), f"estimator.{_name}")
