"""tf.estimator: models as functions, with training, evaluation, prediction and export around them."""
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
