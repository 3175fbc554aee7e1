"""The base of layers and models: layers, the graph between them, models, and training."""
from penstock._src.models.keras.engine import base_layer as base_layer
from penstock._src.models.keras.engine import input_layer as input_layer
from penstock._src.models.keras.engine import input_spec as input_spec
from penstock._src.models.keras.engine import sequential as sequential
from penstock._src.models.keras.engine import training as training
