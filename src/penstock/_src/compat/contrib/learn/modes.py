"""Constants of contrib.learn: the modes of a model function, and the names of predictions."""
from penstock._src.base.api import export


@export(v1=["contrib.learn.ModeKeys"])
class ModeKeys:
    """Training, evaluation, inference."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises for an unknown mode."""
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")


@export(v1=["contrib.learn.PredictionKey", "contrib.learn.python.learn.estimators.prediction_key.PredictionKey"])
class PredictionKey:
    """The names of predictions."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "output"
