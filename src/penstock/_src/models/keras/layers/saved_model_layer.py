"""TFSMLayer: a function of a SavedModel as a layer, for inference with exported models."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import LazyModule, export
from penstock._src.models.keras.engine.base_layer import Layer

object_loading = LazyModule("penstock._src.state.saved_model.object_loading")


@export("keras.layers.TFSMLayer")
class TFSMLayer(Layer):
    """Calls an endpoint of a SavedModel: one of its signatures, or a function such as the `serve` of Keras' `export`.

    >>> layer = tf.keras.layers.TFSMLayer("/models/classifier", call_endpoint="serving_default")
    >>> outputs = layer(images)
    """

    def __init__(self, filepath: str, call_endpoint: str = "serve", call_training_endpoint: str | None = None,
                 trainable: bool = True, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, trainable=trainable, dtype=dtype)
        self.filepath, self.call_endpoint, self.call_training_endpoint = str(filepath), call_endpoint, call_training_endpoint
        self._reloaded = object_loading.load(self.filepath)
        self._serve = self._endpoint(call_endpoint)
        self._train = self._endpoint(call_training_endpoint) if call_training_endpoint else self._serve
        for variable in getattr(self._reloaded, "variables", ()) or ():
            own = self._trainable_weights if trainable and variable.trainable else self._non_trainable_weights
            own.append(variable)
        self.built = True

    def _endpoint(self, name: str) -> Any:
        signatures = getattr(self._reloaded, "signatures", {})
        if name in signatures:
            return signatures[name]
        if callable(found := getattr(self._reloaded, name, None)):
            return found
        raise ValueError(f"The SavedModel at {self.filepath} has no endpoint {name!r}: its signatures are "
                         f"{sorted(signatures)}; other functions are named by their attribute.")

    def call(self, inputs: Any, training: bool = False, **kwargs: Any) -> Any:
        """What the endpoint returns."""
        function = self._train if training else self._serve
        if isinstance(inputs, dict):
            try:
                return function(**inputs, **kwargs)
            except TypeError:
                return function(inputs, **kwargs)
        return function(inputs, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """The path of the SavedModel, and the endpoint."""
        return {**super().get_config(), "filepath": self.filepath, "call_endpoint": self.call_endpoint,
                "call_training_endpoint": self.call_training_endpoint}
