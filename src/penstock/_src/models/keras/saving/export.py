"""SavedModels for inference alone: `Model.export`, and `ExportArchive`, which takes functions of any layers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph import context
from penstock._src.models.keras.saving.saved_model import input_specs
from penstock._src.state.auto_trackable import AutoTrackable
from penstock._src.state.saved_model.object_saving import save


@export(v2=["keras.export.ExportArchive"])
class ExportArchive(AutoTrackable):
    """Functions of layers, and their variables, for a SavedModel that contains nothing else.

    >>> archive = tf.keras.export.ExportArchive()
    >>> archive.track(model)
    >>> archive.add_endpoint("serve", model.call, [tf.TensorSpec([None, 4], tf.float32)])
    >>> archive.write_out("/models/1")
    """

    _tracked: list

    def __init__(self) -> None:
        super().__init__()
        self._endpoint_names: list[str] = []
        self.__dict__["_tracked"] = []

    def track(self, resource: Any) -> None:
        """Adds the variables and tables of a layer or another trackable object.

        Args:
            resource: A layer or model, or any trackable object.
        """
        if not getattr(resource, "built", True):
            raise ValueError(f"The layer provided has not yet been built. It must be built before export: {resource}")
        if not hasattr(resource, "_trackable_children"):
            raise ValueError("Invalid resource type. Expected an instance of a TensorFlow object that can be tracked. "
                             f"Received: {resource} of type {type(resource)}")
        self._tracked.append(resource)
        setattr(self, f"_resource_{len(self._tracked)}", resource)
        for name in ("variables", "trainable_variables", "non_trainable_variables"):
            found = {id(v): v for r in self._tracked for v in getattr(r, name, ())}
            setattr(self, name, list(found.values()))

    def add_endpoint(self, name: str, fn: Any, input_signature: Any = None) -> None:
        """Adds a function.

        Args:
            name: The name of the function in the SavedModel.
            fn: A function, or a `tf.function` that was called before.
            input_signature: The TensorSpecs of the arguments of a plain function.
        """
        if name in self._endpoint_names:
            raise ValueError(f"Endpoint name '{name}' is already taken.")
        if input_signature is not None:
            made: Any = Function(fn, name, list(input_signature))
            made.get_concrete_function()
        elif isinstance(fn, (Function, ConcreteFunction)):
            made = fn
            if isinstance(fn, Function) and not fn._list_all_concrete_functions():
                raise ValueError(f"The provided tf.function '{fn}' has never been called: the shapes and dtypes of its "
                                 "arguments are not known. Call it before, or pass an `input_signature` to `add_endpoint()`.")
        else:
            raise ValueError("If the `fn` argument provided is not a `tf.function`, you must provide an `input_signature` "
                             f"argument to specify the shape and dtype of the function arguments. Received: fn={fn}")
        setattr(self, name, made)
        self._endpoint_names = [*self._endpoint_names, name]

    def add_variable_collection(self, name: str, variables: Any) -> None:
        """Adds a list of variables under a name, for programs that continue training.

        Args:
            name: The attribute of the loaded object.
            variables: A list of variables.
        """
        if not isinstance(variables, (list, tuple, set)):
            raise ValueError("Expected `variables` to be a list/tuple/set. Received instead object of type "
                             f"'{type(variables)}'.")
        if not all(hasattr(v, "assign") for v in variables):
            raise ValueError("Expected all elements in `variables` to be `tf.Variable` instances. Found instead the following "
                             f"types: {list({type(v) for v in variables})}")
        setattr(self, name, list(variables))

    def write_out(self, filepath: str, options: Any = None) -> None:
        """Writes the SavedModel; the first function is its default signature.

        Args:
            filepath: The folder.
            options: `tf.saved_model.SaveOptions`.
        """
        if not self._endpoint_names:
            raise ValueError("No endpoints have been set yet. Call add_endpoint().")
        signatures = {name: self._concrete(name) for name in self._endpoint_names}
        signatures["serving_default"] = signatures[self._endpoint_names[0]]
        save(self, filepath, signatures, options)

    def _concrete(self, name: str) -> Any:
        made = getattr(self, name)
        return made if isinstance(made, ConcreteFunction) else made._list_all_concrete_functions()[0]


def export_model(model: Any, filepath: str) -> None:
    """Writes a model's call as the function `serve`."""
    if not context.executing_eagerly():
        raise NotImplementedError("`export` works in eager mode; in graphs use `tf.saved_model.simple_save`.")
    specs = input_specs(model)
    if not model.built or specs is None:
        raise ValueError("The layer provided has not yet been built. It must be built before export: call it on some data "
                         "first.")
    archive = ExportArchive()
    archive.track(model)
    many = isinstance(specs, (list, tuple))

    def serve(*args: Any) -> Any:
        return model(list(args) if many else args[0], training=False)
    archive.add_endpoint("serve", serve, list(specs) if many else [specs])
    archive.write_out(filepath)
