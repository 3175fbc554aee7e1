"""tf.contrib.eager (tfe): the names of eager execution before it became a part of tf."""
from penstock._src.base.api import export, resolve
from penstock._src.compat.contrib.eager import differentiation, execution, metrics, network, saving  # noqa: F401

for _old, _new in {
    "enable_eager_execution": "enable_eager_execution", "executing_eagerly": "executing_eagerly",
    "in_eager_mode": "executing_eagerly", "GradientTape": "GradientTape", "custom_gradient": "custom_gradient",
    "py_func": "py_function", "TensorSpec": "TensorSpec", "make_template": "make_template", "Checkpoint": "train.Checkpoint",
}.items():
    export.later(lambda _new=_new: resolve("v1", _new), v1=[f"contrib.eager.{_old}", f"contrib.eager.python.tfe.{_old}"])
for _name in ("function", "defun"):
    export.later(lambda: resolve("v2", "function"), v1=[f"contrib.eager.{_name}", f"contrib.eager.python.tfe.{_name}"])
