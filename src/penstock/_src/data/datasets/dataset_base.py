"""What all datasets share: a variant tensor, the type of the elements, options and iteration."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base import html, nest
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import INFINITE, UNKNOWN
from penstock._src.data.datasets.dataset_spec import Classes, DatasetSpec, NestedVariant
from penstock._src.data.datasets.functions import ElementFunction, call_op
from penstock._src.data.datasets.iterators import OwnedIterator
from penstock._src.data.datasets.loops import for_dataset
from penstock._src.data.datasets.numpy_iterator import NumpyIterator
from penstock._src.data.datasets.options import Options, merged
from penstock._src.eager.function import function
from penstock._src.graph import context
from penstock._src.graph.trackable import Trackable
from penstock._src.ops.data.dataset_recipe import rebuilt
from penstock._src.ops.registry import get


def methods() -> Any:
    """The functions that methods call, imported late because their modules import this one."""
    from penstock._src.data.datasets import methods as module
    return module


class DatasetBase(Trackable):
    """A dataset without the methods that make others: its tensor, type and options, iteration, and how it is saved."""

    def __init__(self, variant_tensor: Any):
        self._variant_tensor = variant_tensor
        self._graph = context.current_graph()
        self._options: Options | None = None
        for d in self._inputs():
            if d._options is not None:
                self._options = d._options if self._options is None else merged(self._options, d._options)

    # -- what subclasses say ------------------------------------------------------------------------------------------
    def _inputs(self) -> list:
        """The datasets that this one is created from."""
        raise NotImplementedError("Dataset._inputs")

    @property
    def element_spec(self) -> Any:
        """The type of the elements: a structure of TypeSpecs."""
        raise NotImplementedError("Dataset.element_spec")

    def _functions(self) -> list:
        """The functions that it calls."""
        return []

    @classmethod
    def _public(cls) -> Any:
        """The public class of the API that a dataset belongs to."""
        return Classes.public

    # -- making others --------------------------------------------------------------------------------------------------
    @classmethod
    def _made(cls, variant: Any, spec: Any, inputs: Any = (), functions: Any = ()) -> Any:
        """A dataset of the API that this one belongs to."""
        raise NotImplementedError("Dataset._made")

    def _then(self, op: str, *args: Any, spec: Any = None, functions: dict[str, ElementFunction] | None = None,
              inputs: Any = None, **attrs: Any) -> Any:
        """The dataset produced by an op whose first input is this one."""
        spec = self.element_spec if spec is None else spec
        variant = call_op(op, self._variant_tensor, *args, functions=functions, **structure.outputs(spec), **attrs)
        return self._made(variant, spec, (self,) if inputs is None else inputs, list((functions or {}).values()))

    def _function(self, function: Callable, where: str, spec: Any = None) -> ElementFunction:
        return ElementFunction(function, where, self.element_spec if spec is None else spec)

    @property
    def _type_spec(self) -> DatasetSpec:
        return DatasetSpec(self.element_spec)

    @staticmethod
    def _stacked(datasets: list) -> Any:
        """Several datasets of one type as one value."""
        spec = datasets[0].element_spec
        for d in datasets[1:]:
            spec = structure.map_structure(lambda a, b: a.most_specific_compatible_type(b), spec, d.element_spec)
        return NestedVariant(tf.stack([d._variant_tensor for d in datasets]), spec, TensorShape([len(datasets)]))

    @property
    def _flat_types(self) -> list:
        return structure.flat_types(self.element_spec)

    @property
    def _flat_shapes(self) -> list:
        return structure.flat_shapes(self.element_spec)

    @property
    def _flat_structure(self) -> dict[str, list]:
        return structure.outputs(self.element_spec)

    # -- iterating ----------------------------------------------------------------------------------------------------
    def __iter__(self) -> Any:
        if context.executing_eagerly() or context.current_graph().building_function:
            return OwnedIterator(self)
        raise RuntimeError("__iter__() is only supported inside of tf.function or when eager execution is enabled.")

    def _autograph_for(self, go_on: Any, body: Any, state: Any, options: dict[str, Any]) -> None:
        """How AutoGraph builds a loop over this dataset."""
        for_dataset(self, go_on, body, state, options)

    def as_numpy_iterator(self) -> Any:
        """An iterator over the elements as numpy arrays (eager execution)."""
        if not context.executing_eagerly():
            raise RuntimeError("as_numpy_iterator() is not supported while tracing functions")
        for spec in structure.flatten(self.element_spec):
            kind = spec.value_type
            if kind is not None and not issubclass(kind, (tf.Tensor, tf.RaggedTensor, tf.SparseTensor, type(None))):
                raise TypeError("`tf.data.Dataset.as_numpy_iterator()` is not supported for datasets that produce values of "
                                f"type {kind}")
        return NumpyIterator(self)

    def __len__(self) -> int:
        if not context.executing_eagerly():
            raise TypeError("`tf.data.Dataset` only supports `len` in eager mode. Use `tf.data.Dataset.cardinality()` "
                            "instead.")
        n = int(self.cardinality())
        if n == INFINITE:
            raise TypeError("The dataset is infinite.")
        if n == UNKNOWN:
            raise TypeError("The dataset length is unknown.")
        return n

    def _repr_html_(self) -> str:
        rows = [[type(spec).__name__, getattr(spec, "shape", ""), getattr(getattr(spec, "dtype", None), "name", "")]
                for spec in nest.flatten(self.element_spec)]
        return html.table(f"{type(self).__name__}: components of an element", ["kind", "shape", "type"], rows)

    def __bool__(self) -> bool:
        return True

    __nonzero__ = __bool__

    def cardinality(self) -> Any:
        """The number of elements as a tensor; negative if it is infinite (-1) or unknown (-2).

        >>> tf.data.Dataset.range(42).cardinality().numpy()
        42
        """
        return get("DatasetCardinality")(self._variant_tensor)

    def options(self) -> Options:
        """The options that were set on this dataset and on those that it is created from."""
        return Options() if self._options is None else self._options

    def with_options(self, options: Options, name: str | None = None) -> Any:
        """The same dataset with options set."""
        variant = self._variant_tensor
        if options._serialized():
            variant = call_op("OptionsDataset", variant, serialized_options=options._serialized(),
                              **structure.outputs(self.element_spec))
        out = self._made(variant, self.element_spec, (self,))
        out._kind = "_OptionsDataset"
        out._options = merged(self.options(), options)
        return out

    def fingerprint(self) -> Any:
        """A number (uint64) that datasets made by the same transformations of the same inputs have in common."""
        return call_op("DatasetFingerprint", self._variant_tensor)

    # -- as a graph -----------------------------------------------------------------------------------------------------
    def _as_serialized_graph(self, stateful_whitelist: Any = None) -> Any:
        """The GraphDef of the ops that make this dataset, as a string tensor."""
        return get("DatasetToGraph")(self._variant_tensor)

    def _trace_variant_creation(self) -> Any:
        """A concrete function without arguments that creates the variant tensor of this dataset (eager execution only)."""
        return _VariantTracker(self._variant_tensor).creator.get_concrete_function()

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        if self._tracker is None:
            self._tracker = _VariantTracker(self._variant_tensor)
        return {"_variant_tracker": self._tracker}

    _tracker: Any = None

    def __repr__(self) -> str:
        names = structure.map_structure(lambda s: s, self.element_spec)
        return f"<{self._label} element_spec={names}>"

    @property
    def _label(self) -> str:
        """The class that TensorFlow has for datasets of this kind: it is named after the op."""
        if type(self).__name__ != "VariantDataset":
            return type(self).__name__
        if self._kind is not None:
            return self._kind
        variant = self._variant_tensor
        recipe = getattr(variant._value, "recipe", None) if hasattr(variant, "_value") else None
        kind = recipe.opdef.name if recipe is not None else variant.op.type if not hasattr(variant, "_value") else ""
        kind = kind.rstrip("0123456789").removesuffix("V")
        if not kind.endswith("Dataset"):
            return "_VariantDataset"
        return kind if kind == "CacheDataset" else f"_{kind}"

    _kind: str | None = None                     # where it is not the op that tells


class _VariantTracker(Trackable):
    """The variant of a dataset in a SavedModel: a function recreates it where the model is loaded."""

    def __init__(self, variant: Any):
        self.resource_handle = variant

    @property
    def creator(self) -> Any:
        """A function without arguments that creates the variant."""
        if not hasattr(self.resource_handle, "_value"):
            raise NotImplementedError("Only eager datasets can be converted to a function.")
        return function(lambda: rebuilt(self.resource_handle._value), input_signature=[], autograph=False)

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return {"_create_resource": self.creator} if hasattr(self.resource_handle, "_value") else {}
