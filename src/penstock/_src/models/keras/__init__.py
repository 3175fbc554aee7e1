"""tf.keras: layers, models and how they are trained, in terms of penstock's public operations.

`backend` has the session, the learning phase and the functions that layers are written with; `engine` the base classes of
layers and models; `layers` one module per family of layers. In these modules a name that both APIs have, with different
meanings, is the 2.x one; its 1.x sister ends in V1 (`LSTM`, `LSTMV1`). Loaded when `tf.keras` is first used.
"""
import importlib as _importlib

# The parts that export public names, in an order in which they can be loaded.
_PARTS = ("backend", "activations", "initializers", "regularizers", "constraints", "utils", "mixed_precision", "engine",
          "layers", "losses", "metrics", "optimizers", "callbacks", "preprocessing", "datasets", "models", "premade",
          "saving.objects", "saving.export", "applications", "wrappers")

for _part in _PARTS:
    _importlib.import_module(f"{__name__}.{_part}")
