"""SavedModels: graphs with variables, assets and signatures, as TensorFlow reads them, and objects with functions."""
from penstock._src.state.saved_model import (  # noqa: F401
    model_builder,
    model_loader,
    names,
    object_loading,
    object_saving,
    signatures,
    tensor_info,
)
