"""SavedModels: graphs with variables, assets and signatures, as TensorFlow reads them, and objects with functions."""
from penstock.saved_model import model_builder, model_loader, names, object_loading, object_saving, signatures, tensor_info  # noqa: F401
