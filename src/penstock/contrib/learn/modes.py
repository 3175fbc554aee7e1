"""The modes in which a model function is called."""
from penstock.api import export, resolve


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


for _name in ("RunConfig", "DNNClassifier", "DNNRegressor", "LinearClassifier", "LinearRegressor",
              "DNNLinearCombinedClassifier",
              "DNNLinearCombinedRegressor", "Estimator"):
    export.later(lambda _name=_name: resolve("v1", f"estimator.{_name}", "tf.estimator"), v1=[f"contrib.learn.{_name}"])
