"""What layers and models are made of: layers, the graph between them, models, and training."""
from penstock.keras.engine import base_layer as base_layer
from penstock.keras.engine import input_layer as input_layer
from penstock.keras.engine import input_spec as input_spec
from penstock.keras.engine import sequential as sequential
from penstock.keras.engine import training as training
