"""The part of Model that saves and loads: which format a path means, and which module writes it."""
from __future__ import annotations

import contextlib
import copyreg
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import penstock as tf
from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule, export
from penstock._src.base.dtypes import as_dtype
from penstock._src.base.static_shape import as_shape
from penstock._src.base.version import KERAS_VERSIONS
from penstock._src.graph import context
from penstock._src.graph.node import PACKAGE
from penstock._src.graph.scopes import variable_creator_scope
from penstock._src.io import archives
from penstock._src.models.keras.saving.compile_config import compile_config, compile_from_config
from penstock._src.models.keras.saving.export import export_model
from penstock._src.models.keras.utils import function_code
from penstock._src.state.checkpoint.checkpoint import TrackableSaver
from penstock._src.state.checkpoint.object_graph import ObjectGraphView
from penstock._src.state.checkpoint.state import write_state
from penstock._src.state.saved_model.load_context import load_context

backend = LazyModule("penstock._src.models.keras.backend")
hdf5 = LazyModule("penstock._src.models.keras.saving.hdf5")
archive = LazyModule("penstock._src.models.keras.saving.archive")
saved_model = LazyModule("penstock._src.models.keras.saving.saved_model")

_HDF5 = (".h5", ".hdf5", ".keras_h5")


def parsed_json(text: str | bytes) -> Any:
    """A parsed description; ValueError if it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("The description of the model is nested too deeply.") from None


@contextlib.contextmanager
def well_formed() -> Iterator[None]:
    """Raises ValueError where this package finds no such key, item or attribute in the description of a model.

    Errors of the user's own classes keep their types.
    """
    try:
        yield
    except (AttributeError, LookupError, OverflowError, RecursionError) as e:
        trace = e.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if isinstance(e, errors.OpError) or trace is None or not trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
            raise
        raise ValueError(f"Improperly formatted model config: {type(e).__name__}: {e}") from e


@contextlib.contextmanager
def bounded(path: Any, stored: int) -> Iterator[None]:
    """Raises ResourceExhaustedError where variables take far more bytes than the file has for them."""
    most, total = max(archives.FLOOR, archives.RATIO * stored), 0

    def counted(following: Callable, **kwargs: Any) -> Any:
        nonlocal total
        shape, dtype = as_shape(kwargs.get("shape")), as_dtype(kwargs.get("dtype") or backend.floatx())
        total += (shape.num_elements() or 0) * dtype.size
        if total > most:
            raise errors.ResourceExhaustedError(None, None, f"{path} has {stored} bytes of weights, and describes a model with "
                                                f"more than {most}")
        return following(**kwargs)
    with variable_creator_scope(counted):
        yield


def plain_json(x: Any) -> Any:
    """Converts values that json cannot serialize."""
    if hasattr(x, "get_config"):
        return {"class_name": type(x).__name__, "config": x.get_config()}
    if hasattr(x, "tolist"):
        return x.tolist()
    if hasattr(x, "as_list"):
        return x.as_list() if x.rank is not None else None
    if type(x).__name__ == "Dimension":
        return x.value
    if hasattr(x, "name") and hasattr(x, "as_numpy_dtype"):
        return x.name
    if callable(x) and hasattr(x, "__name__"):
        return x.__name__
    if isinstance(x, type(os)):
        return x.__name__
    if hasattr(x, "_self_wrapped"):
        return x._self_wrapped
    raise TypeError(f"Not JSON Serializable: {x!r}")


class Saved:
    """Saving and loading of a model."""

    name: str
    optimizer: Any
    compile: Any
    _is_compiled: bool

    # -- copies and exports --------------------------------------------------------------------------------------------
    def __reduce__(self) -> Any:
        """A model that is built, or a stack of layers, is pickled as a `.keras` file and its classes; another as any object."""
        described = self.built or hasattr(self, "add")                                    # type: ignore[attr-defined]
        if not described or not context.eager_outside_functions():
            return copyreg.__newobj__, (type(self),), self.__getstate__()          # type: ignore[attr-defined]
        return archive.unpacked, archive.packed(self)

    def __deepcopy__(self, memo: dict) -> Any:
        """A copy with separate variables, compiled as this one."""
        make, held = self.__reduce__()[:2]
        if make is archive.unpacked:
            made = make(*held)
            memo[id(self)] = made
            return made
        return archive.copied(self, memo)

    def export(self, filepath: Any) -> None:
        """Writes a SavedModel for inference: one function `serve`, and the variables.

        Args:
            filepath: The folder.

        >>> model.export("/models/classifier/1")
        >>> tf.saved_model.load("/models/classifier/1").serve(images)
        """
        export_model(self, str(filepath))

    def get_compile_config(self) -> dict[str, Any]:
        """The arguments of `compile` as plain data; empty for a model that is not compiled."""
        return compile_config(self) if self._is_compiled and self.optimizer is not None else {}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles the model with the result of `get_compile_config`; a model with its own `compile` has to override this."""
        if config and not type(self).compile.__module__.startswith("penstock."):
            logging.warning("`compile()` was not called as part of model loading because the model's `compile()` method is "
                            "custom. All subclassed Models that have `compile()` overridden should also override "
                            "`get_compile_config()` and `compile_from_config(config)`.")
            return
        if config:
            compile_from_config(self, config)

    # -- weights -----------------------------------------------------------------------------------------------------
    def save_weights(self, filepath: Any, overwrite: bool = True, save_format: str | None = None) -> None:
        """Writes the weights: `.h5` and `.weights.h5` as HDF5, other paths as a checkpoint of objects.

        >>> model.save_weights("model.weights.h5")
        """
        self._assert_weights_created()                                       # type: ignore[attr-defined]
        filepath = os.fspath(filepath)
        is_hdf5 = filepath.endswith(_HDF5) or filepath.endswith(".keras") and save_format in ("h5", "keras")
        kind = "h5" if save_format is None and is_hdf5 else "tf" if save_format is None else \
            {"h5": "h5", "hdf5": "h5", "keras": "h5", "tf": "tf", "tensorflow": "tf"}.get(save_format.strip().lower())
        if kind is None:
            raise ValueError(f"Unknown format \"{save_format}\". Was expecting one of {{\"tf\", \"h5\"}}.")
        if kind == "tf" and is_hdf5:
            raise ValueError(f"save_weights got save_format=\"tf\"/\"tensorflow\", but the filepath (\"{filepath}\") "
                             "looks like an "
                             "HDF5 file. Omit the \".h5\"/\".keras\" when saving in TensorFlow format.")
        target = filepath if kind == "h5" else filepath + ".index"
        if not overwrite and os.path.exists(target) and not _may_overwrite(target):
            return
        if filepath.endswith(".weights.h5") and kind == "h5":
            archive.save_weights(self, filepath)
        elif kind == "h5":
            hdf5.save_weights_file(self, filepath)
        else:
            self._save_checkpoint(filepath)

    def _saver(self) -> Any:
        found = self.__dict__.get("_object_saver")
        if found is None:
            view = ObjectGraphView(self, cached=not context.executing_eagerly())
            found = self.__dict__["_object_saver"] = TrackableSaver(view)
        return found

    def _save_checkpoint(self, filepath: str) -> None:
        session = None if context.executing_eagerly() else backend.get_session()
        self._saver().save(filepath, session=session)
        write_state(os.path.dirname(filepath) or ".", filepath, [filepath], relative=True)

    def load_weights(self, filepath: Any, by_name: bool = False, skip_mismatch: bool = False, options: Any = None) -> Any:
        """Reads weights, from HDF5 or a checkpoint; of a checkpoint returns the status of the restore.

        >>> model.load_weights("model.weights.h5")
        """
        filepath = os.fspath(filepath)
        if skip_mismatch and not by_name and not filepath.endswith((".weights.h5", ".keras")):
            raise ValueError("load_weights supports skip_mismatch=True only with by_name=True.")
        if filepath.endswith(".keras") or filepath.endswith(".weights.h5") and archive.is_weights_file(filepath):
            archive.load_weights(self, filepath, skip_mismatch)
            return None
        if _is_hdf5(filepath):
            return hdf5.load_weights_file(self, filepath, by_name, skip_mismatch)
        return self._load_checkpoint(filepath, by_name)

    def _load_checkpoint(self, filepath: str, by_name: bool) -> Any:
        if by_name:
            raise NotImplementedError("Weights may only be loaded based on topology into Models when loading "
                                      "TensorFlow-formatted weights (got by_name=True to load_weights).")
        try:
            status = self._saver().restore(filepath)
        except errors.NotFoundError:
            raise errors.NotFoundError(None, None, f"Unable to open checkpoint or HDF5 file: {filepath}") from None
        if not context.executing_eagerly():
            session = backend.get_session()
            status.run_restore_ops(session=session)
            if hasattr(status, "_checkpoint"):       # what is made later is restored then
                status._checkpoint.new_restore_ops_callback = lambda ops: session.run(ops, feed_dict=status._feed_dict)
        status.assert_nontrivial_match()
        return status

    # -- whole models ------------------------------------------------------------------------------------------------
    def save(self, filepath: Any, overwrite: bool = True, include_optimizer: bool = True, save_format: str | None = None,
             signatures: Any = None, options: Any = None, save_traces: bool = True, **kwargs: Any) -> None:
        """Writes the whole model: `.keras`, `.h5`, or a directory with a SavedModel.

        >>> model.save("model.keras")
        """
        save_model(self, filepath, overwrite, include_optimizer, save_format, signatures, options)

    def to_json(self, **kwargs: Any) -> str:
        """The description of the model as JSON text."""
        return json.dumps(self._updated_config(), default=plain_json, **kwargs)

    def to_yaml(self, **kwargs: Any) -> str:
        """Not supported: reading YAML would run code."""
        raise RuntimeError("Method `model.to_yaml()` has been removed due to security risk of arbitrary code execution. Please "
                           "use `model.to_json()` instead.")

    def _updated_config(self) -> dict[str, Any]:
        return {"class_name": type(self).__name__, "config": self.get_config(),       # type: ignore[attr-defined]
                "keras_version": KERAS_VERSIONS["v2" if context.eager_outside_functions() else "v1"],
                "backend": "tensorflow"}

    _tracking_metadata = property(lambda self: saved_model.metadata(self))

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return saved_model.extra_dependencies(self, serialization_cache)

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return saved_model.functions(self, serialization_cache)


def _may_overwrite(path: str) -> bool:
    answer = input(f"[WARNING] {path} already exists - overwrite? [y/n]")
    while answer.strip().lower() not in ("y", "n"):
        answer = input("Enter \"y\" (overwrite) or \"n\" (cancel).")
    return answer.strip().lower() == "y"


def _is_hdf5(path: str) -> bool:
    if not os.path.isfile(path):
        if path.endswith(_HDF5) and not os.path.exists(path + ".index"):
            raise FileNotFoundError(f"Unable to open file: no such file: '{path}'")
        return False
    with open(path, "rb") as f:
        return f.read(8) == b"\x89HDF\r\n\x1a\n"


@export("keras.models.save_model", v2=["keras.saving.save_model"])
def save_model(model: Any, filepath: Any, overwrite: bool = True, include_optimizer: bool = True,
               save_format: str | None = None, signatures: Any = None, options: Any = None) -> None:
    """Writes a whole model: `.keras`, `.h5`, or a directory with a SavedModel.

    Args:
        model: The model.
        filepath: The file or directory.
        overwrite: Whether an existing file is replaced without a question.
        include_optimizer: Whether the state of the optimizer is written, too.
        save_format: `"keras"`, `"h5"` or `"tf"`; by default the ending of the file decides.
        signatures: The functions of a SavedModel that other programs call.
        options: `tf.saved_model.SaveOptions` of a SavedModel.

    Returns:
        None.

    Raises:
        ValueError: if the format is not known, or a model that was not built is to be written.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> tf.keras.models.save_model(model, "model.keras")
    >>> tf.keras.models.load_model("model.keras", compile=False).output_shape
    (None, 1)
    """
    is_file = hasattr(filepath, "create_group")
    path = filepath if is_file else os.fspath(filepath)
    kind = save_format or ("h5" if is_file or path.endswith(_HDF5) else "keras" if path.endswith(".keras") else "tf")
    kind = "keras" if kind == "keras_v3" else kind                       # its name in 2.11 to 2.13
    if kind not in ("tf", "tensorflow", "h5", "hdf5", "keras"):
        raise ValueError(f"Unknown save format {save_format!r}: use \"keras\", \"h5\" or \"tf\".")
    if not is_file and not overwrite and os.path.exists(path) and not _may_overwrite(path):
        return
    if kind in ("h5", "hdf5"):
        if not model._is_graph_network and type(model).get_config is _network_config():
            raise NotImplementedError("Saving the model to HDF5 format requires the model to be a Functional model or a "
                                      "Sequential model. It does not work for subclassed models, because such models are "
                                      "defined "
                                      "via the body of a Python method, which isn't safely serializable. Consider saving "
                                      "to the "
                                      "Tensorflow SavedModel format (by setting save_format=\"tf\") or using `save_weights`.")
        hdf5.save_model_file(model, path, include_optimizer)
    elif kind == "keras":
        archive.save_model(model, path, include_optimizer)
    else:
        saved_model.save(model, path, include_optimizer, signatures)


def _network_config() -> Any:
    from penstock._src.models.keras.engine.network import Network
    return Network.get_config


@export("keras.models.load_model", v2=["keras.saving.load_model"])
def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True, safe_mode: bool = True,
               options: Any = None) -> Any:
    """Reads a whole model, in any of the formats.

    Args:
        filepath: File or folder: HDF5, SavedModel or `.keras`.
        custom_objects: Dictionary from names to classes and functions that are not Keras's.
        compile: Whether to compile the model as it was.
        safe_mode: Whether to refuse code in the file.
        options: `LoadOptions`.

    Returns:
        A model.

    Raises:
        ValueError: if the file is not valid, or needs code while `safe_mode` is True.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> model.save("model.keras")
    >>> tf.keras.models.load_model("model.keras").output_shape
    (None, 1)
    """
    with function_code.loading(safe_mode):
        return _load_model(filepath, custom_objects, compile, options)


def _load_model(filepath: Any, custom_objects: Any, compile: bool, options: Any) -> Any:
    if hasattr(filepath, "create_group"):
        return hdf5.load_model_file(filepath, custom_objects, compile)
    path = os.fspath(filepath)
    if os.path.isdir(path):
        with load_context(options):
            return saved_model.load(path, custom_objects, compile)
    if not os.path.exists(path):
        raise OSError(f"No file or directory found at {path}")
    if archive.is_archive(path):
        return archive.load_model(path, custom_objects, compile)
    if _is_hdf5(path):
        return hdf5.load_model_file(path, custom_objects, compile)
    raise OSError(f"Unable to load model. Filepath is not an hdf5 file, a .keras file or a SavedModel: {path}")


@export("keras.models.model_from_config")
def model_from_config(config: Any, custom_objects: Any = None) -> Any:
    """A model from its config."""
    if isinstance(config, list):
        raise TypeError(f"`model_from_config` expects a dictionary, not a list: {config}. Maybe you meant to use "
                        "`Sequential.from_config(config)`?")
    with function_code.loading(True):
        return tf.keras.layers.deserialize(config, custom_objects=custom_objects)


@export("keras.models.model_from_json")
def model_from_json(json_string: str, custom_objects: Any = None) -> Any:
    """A model from its description as JSON text; it has the weights of its initializers.

    Args:
        json_string: What `model.to_json()` returned.
        custom_objects: A dictionary from the names of your own classes and functions to these.

    Returns:
        The model, which is not compiled.

    Raises:
        ValueError: if the text names a class that is not known.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> tf.keras.models.model_from_json(model.to_json()).output_shape
    (None, 1)
    """
    with well_formed():
        return model_from_config(parsed_json(json_string), custom_objects)


@export("keras.models.model_from_yaml", v1=[])
def model_from_yaml(yaml_string: str, custom_objects: Any = None) -> Any:
    """Not supported: reading YAML would run code."""
    raise RuntimeError("Method `model_from_yaml()` has been removed due to security risk of arbitrary code execution. "
                       "Please use "
                       "`Model.to_json()` and `model_from_json()` instead.")
