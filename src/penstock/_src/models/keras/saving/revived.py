"""Models of SavedModels whose classes are not known here: they are called by the functions in the SavedModel."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras.engine.training import Model


class Revived(Model):
    """A model that calls the functions of a loaded object. Those for training exist if they were saved."""

    def __init__(self, loaded: Any, name: str | None = None):
        super().__init__(name=name)
        self._loaded = loaded
        for variable in getattr(loaded, "variables", None) or ():
            own = self._trainable_weights if variable.trainable else self._non_trainable_weights
            if all(variable is not v for v in (*self._trainable_weights, *self._non_trainable_weights)):
                own.append(variable)
        self.built = True

    def call(self, inputs: Any, *args: Any, training: Any = False, mask: Any = None, **kwargs: Any) -> Any:
        """What the saved function returns; models without an argument `training` are called without."""
        try:
            return self._loaded(inputs, *args, training=bool(training), **kwargs)
        except (TypeError, ValueError):
            return self._loaded(inputs, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Not available: the class of the model is not known."""
        raise NotImplementedError("This model was loaded without its class. Pass the class in `custom_objects` of `load_model` "
                                  "to get a model with a config.")
