"""tf.keras.utils."""
from penstock.keras.utils import generic_utils
