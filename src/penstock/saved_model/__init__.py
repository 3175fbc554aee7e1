"""SavedModels: graphs with variables, assets and signatures, as TensorFlow reads them, and objects with functions."""
from penstock import api as _api
from penstock.saved_model import model_builder, model_loader, names, object_loading, object_saving, signatures, tensor_info  # noqa: F401

_api.install(__name__, "v2", "saved_model.")       # also when a module of ours is imported before the public name is used
