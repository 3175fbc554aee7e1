"""SavedModels: graphs with variables, assets and signatures, as TensorFlow reads them, and objects with functions."""
from penstock._src.base import api as _api
from penstock._src.state.saved_model import (  # noqa: F401
    model_builder,
    model_loader,
    names,
    object_loading,
    object_saving,
    signatures,
    tensor_info,
)

_api.install(__name__, "v2", "saved_model.")       # also when a module of ours is imported before the public name is used
