"""The modes in which a model function is called."""
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
