"""User-defined optimizers in the styles of Keras 2.11 and later and of Keras 3.

Such an optimizer has `build(variables)`, which makes its state with `add_variable_from_reference`, and `update_step(gradient,
variable)` or `update_step(gradient, variable, learning_rate)`, which changes one variable.
"""
from __future__ import annotations

import functools
import inspect
from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras import initializers
from penstock._src.training.train.optimizer import deduplicated
from penstock._src.training.train.schedules import LearningRateSchedule


@functools.cache
def _takes_rate(step: Any) -> bool:
    """Whether an `update_step` has an argument for the learning rate."""
    kinds = [p.kind for p in inspect.signature(step).parameters.values()]
    return kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) > 3 or inspect.Parameter.VAR_POSITIONAL in kinds


class CustomSteps:
    """The methods of `Optimizer` that such optimizers call."""

    def _has_step(self) -> bool:
        return hasattr(type(self), "update_step")

    def _step(self, grad: Any, var: Any, state: dict) -> Any:
        """Calls `update_step`. Gradients of some rows are given as they are to steps of two arguments."""
        step = type(self).update_step                            # type: ignore[attr-defined]
        if _takes_rate(step):
            if isinstance(grad, IndexedSlices):
                grad = self._spread(grad.values, var, grad.indices)                    # type: ignore[attr-defined]
            return step(self, grad, var, self._coefficients(var, state)["lr_t"])       # type: ignore[attr-defined]
        if isinstance(grad, IndexedSlices):
            values, indices = deduplicated(grad.values, grad.indices)
            grad = IndexedSlices(values, indices, grad.dense_shape)
        return step(self, grad, var)

    # -- learning rates ------------------------------------------------------------------------------------------------
    def _build_learning_rate(self, learning_rate: Any) -> Any:
        """Sets the learning rate: a number, which becomes a variable, or a schedule."""
        self._set_hyper("learning_rate", learning_rate)          # type: ignore[attr-defined]
        if isinstance(learning_rate, LearningRateSchedule):
            return learning_rate
        with init_scope():
            return self._get_hyper("learning_rate")              # type: ignore[attr-defined]

    def _hyper_attribute(self, name: str) -> Any:
        """A hyperparameter as an attribute. Own steps see the present value of a schedule."""
        found = self._get_hyper(name)                            # type: ignore[attr-defined]
        if name == "learning_rate" and isinstance(found, LearningRateSchedule) and self._has_step():
            return self._decayed_lr(dtypes.float32)              # type: ignore[attr-defined]
        return found

    # -- variables -----------------------------------------------------------------------------------------------------
    def _build_index_dict(self, var_list: Any) -> None:
        self._index_dict = {self._var_key(v): i for i, v in enumerate(var_list)}       # type: ignore[attr-defined]

    def _get_variable_index(self, variable: Any) -> int:
        """The index of a variable among the trained ones."""
        return self._index_dict[self._var_key(variable)]         # type: ignore[attr-defined]

    def add_variable_from_reference(self, model_variable: Any = None, variable_name: str | None = None, shape: Any = None,
                                    initial_value: Any = None, *, reference_variable: Any = None, name: str | None = None,
                                    initializer: Any = "zeros", dtype: Any = None) -> Any:
        """A variable of the optimizer with the shape and type of another one.

        Args:
            model_variable: The other variable (`reference_variable` in Keras 3).
            variable_name: What its name ends in (`name` in Keras 3).
            shape: Another shape.
            initial_value: Its first value; zeros by default.
            reference_variable: See `model_variable`.
            name: See `variable_name`.
            initializer: How the first value is made, if it is not given.
            dtype: Another type.
        """
        model = model_variable if model_variable is not None else reference_variable
        dims = model.shape if shape is None else shape
        kind = model.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype)
        value = initial_value if initial_value is not None else initializers.get(initializer)(dims, dtype=kind)
        return self.add_variable(dims, kind, value, f"{variable_name or name or 'variable'}/{model._shared_name}")

    def add_variable(self, shape: Any, dtype: Any = None, initializer: Any = "zeros", name: str | None = None,
                     **kwargs: Any) -> Any:
        """A variable of the optimizer. Keras 3 passes the initializer before the type: both orders are accepted."""
        if isinstance(dtype, str) and not isinstance(initializer, str) or callable(dtype):
            dtype, initializer = (None if initializer == "zeros" else initializer), dtype
        kind = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
        with init_scope():
            made = self.add_weight(name or "variable", shape, kind, initializer, trainable=False)   # type: ignore[attr-defined]
        self._weights.append(made)                               # type: ignore[attr-defined]
        return made

    # -- updates -------------------------------------------------------------------------------------------------------
    def assign(self, variable: Any, value: Any) -> Any:
        """Sets a variable."""
        return variable.assign(value)

    def assign_add(self, variable: Any, value: Any) -> Any:
        """Adds to a variable."""
        return variable.assign_add(value)

    def assign_sub(self, variable: Any, value: Any) -> Any:
        """Subtracts from a variable."""
        return variable.assign_sub(value)
