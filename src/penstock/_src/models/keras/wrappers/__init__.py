"""tf.keras.wrappers: Keras models for other libraries."""
from penstock._src.base import api as _api
from penstock._src.models.keras.wrappers import scikit_learn

_api.install(scikit_learn.__name__, "v2", "keras.wrappers.scikit_learn.")
