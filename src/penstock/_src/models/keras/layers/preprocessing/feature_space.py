"""FeatureSpace: columns of structured data, each with its preprocessing layer, as one vector or a dictionary of vectors."""
from __future__ import annotations

import builtins
from typing import Any, NamedTuple

from penstock._src.base.api import export
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_layer import Input
from penstock._src.models.keras.layers.core import Identity
from penstock._src.models.keras.layers.merge import Concatenate
from penstock._src.models.keras.layers.preprocessing.base import PreprocessingLayer
from penstock._src.models.keras.layers.preprocessing.lookup import IntegerLookup, StringLookup
from penstock._src.models.keras.layers.preprocessing.numeric import (
    CategoryEncoding,
    Discretization,
    HashedCrossing,
    Hashing,
    Normalization,
    Rescaling,
)
from penstock.compat import v1 as tf


class Feature(NamedTuple):
    """A column: its dtype, its layer, and whether the result is used as it is ("int", "float") or one-hot encoded."""
    dtype: str
    preprocessor: Any
    output_mode: str


class Cross(NamedTuple):
    """Several columns whose values are hashed together."""
    feature_names: tuple[str, ...]
    crossing_dim: int
    output_mode: str = "one_hot"

    @property
    def name(self) -> str:
        """The name of the result."""
        return "_X_".join(self.feature_names)


def _checked(mode: str, allowed: tuple[str, ...]) -> str:
    if mode not in allowed:
        raise ValueError(f"Invalid value for argument `output_mode`. Expected one of {set(allowed)}. Received: "
                         f"output_mode={mode}")
    return mode


@export(v2=["keras.utils.FeatureSpace"])
class FeatureSpace(Layer):
    """Preprocesses and encodes structured data.

    Args:
        features: A kind for each column, by its name: a text such as `"integer_categorical"`, or a result of the methods
            `float`, `float_normalized`, `float_rescaled`, `float_discretized`, `integer_categorical`, `string_categorical`,
            `integer_hashed`, `string_hashed` and `feature`.
        output_mode: `"concat"` for one vector per example, `"dict"` for one per column.
        crosses: Columns to hash together: tuples of names, or results of `cross`.
        crossing_dim: Size of the vectors of crosses that are given by names alone.
        hashing_dim: Size of the vectors of `"integer_hashed"` and `"string_hashed"`.
        num_discretization_bins: Number of intervals of `"float_discretized"`.

    >>> space = tf.keras.utils.FeatureSpace({"age": "float_normalized", "city": "string_categorical"})
    >>> space.adapt(dataset)
    >>> vectors = space({"age": [31., 45.], "city": ["Bern", "Rome"]})
    """

    features: dict[str, Feature]
    crosses: list[Cross]
    inputs: dict[str, Any]
    encoded_features: Any

    def __init__(self, features: dict[str, Any], output_mode: str = "concat", crosses: Any = None, crossing_dim: int = 32,
                 hashing_dim: int = 32, num_discretization_bins: int = 32):
        super().__init__()
        if not features:
            raise ValueError("The `features` argument cannot be None or empty.")
        self.crossing_dim, self.hashing_dim = crossing_dim, hashing_dim
        self.num_discretization_bins = num_discretization_bins
        self.output_mode = _checked(output_mode, ("dict", "concat"))
        self.__dict__["features"] = {name: self._feature_of(name, kind) for name, kind in features.items()}
        self.__dict__["crosses"] = [self._cross_of(c, crossing_dim) for c in crosses or ()]
        self.__dict__["inputs"] = {n: Input((1,), dtype=f.dtype, name=n) for n, f in self.features.items()}
        self.preprocessors = {n: f.preprocessor for n, f in self.features.items()}
        self.crossers = {c.name: HashedCrossing(c.crossing_dim, name=c.name) for c in self.crosses}
        self.one_hot_encoders: dict[str, Any] = {}
        self.concat = Concatenate(axis=-1)
        self._is_adapted = False
        self.__dict__["encoded_features"] = None

    # -- kinds of columns ---------------------------------------------------------------------------------------------
    @classmethod
    def cross(cls, feature_names: Any, crossing_dim: int, output_mode: str = "one_hot") -> Cross:
        """Columns to hash together to a number below `crossing_dim`."""
        return Cross(tuple(feature_names), crossing_dim, _checked(output_mode, ("int", "one_hot")))

    @classmethod
    def feature(cls, dtype: str, preprocessor: Any, output_mode: str) -> Feature:
        """A column with a layer of your own."""
        return Feature(dtype, preprocessor, _checked(output_mode, ("int", "one_hot", "float")))

    @classmethod
    def float(cls, name: str | None = None) -> Feature:
        """Numbers that are used as they are."""
        return cls.feature("float32", Identity(dtype="float32", name=_name(name, "float")), "float")

    @classmethod
    def float_rescaled(cls, scale: builtins.float = 1., offset: builtins.float = 0., name: str | None = None) -> Feature:
        """Numbers times `scale` plus `offset`."""
        return cls.feature("float32", Rescaling(scale, offset, name=_name(name, "float_rescaled")), "float")

    @classmethod
    def float_normalized(cls, name: str | None = None) -> Feature:
        """Numbers with mean 0 and variance 1."""
        return cls.feature("float32", Normalization(axis=-1, name=_name(name, "float_normalized")), "float")

    @classmethod
    def float_discretized(cls, num_bins: int, bin_boundaries: Any = None, output_mode: str = "one_hot",
                          name: str | None = None) -> Feature:
        """The intervals that numbers are in."""
        bounds = {"num_bins": num_bins} if bin_boundaries is None else {"bin_boundaries": bin_boundaries}
        return cls.feature("float32", Discretization(**bounds, name=_name(name, "float_discretized")), output_mode)

    @classmethod
    def integer_categorical(cls, max_tokens: int | None = None, num_oov_indices: int = 1, output_mode: str = "one_hot",
                            name: str | None = None) -> Feature:
        """Integers that name categories."""
        return cls.feature("int64", IntegerLookup(max_tokens=max_tokens, num_oov_indices=num_oov_indices,
                                                  name=_name(name, "integer_categorical")), output_mode)

    @classmethod
    def string_categorical(cls, max_tokens: int | None = None, num_oov_indices: int = 1, output_mode: str = "one_hot",
                           name: str | None = None) -> Feature:
        """Texts that name categories."""
        return cls.feature("string", StringLookup(max_tokens=max_tokens, num_oov_indices=num_oov_indices,
                                                  name=_name(name, "string_categorical")), output_mode)

    @classmethod
    def string_hashed(cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None) -> Feature:
        """Texts, hashed to numbers below `num_bins`."""
        return cls.feature("string", Hashing(num_bins, name=_name(name, "string_hashed")), output_mode)

    @classmethod
    def integer_hashed(cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None) -> Feature:
        """Integers, hashed to numbers below `num_bins`."""
        return cls.feature("int64", Hashing(num_bins, name=_name(name, "integer_hashed")), output_mode)

    def _feature_of(self, name: str, kind: Any) -> Feature:
        if isinstance(kind, Feature):
            return kind
        sizes = {"float_discretized": (self.num_discretization_bins,), "integer_hashed": (self.hashing_dim,),
                 "string_hashed": (self.hashing_dim,), "float": (), "float_rescaled": (), "float_normalized": (),
                 "integer_categorical": (), "string_categorical": ()}
        if kind not in sizes:
            raise ValueError(f"Invalid feature type: {kind}")
        return getattr(self, kind)(*sizes[kind], name=name)

    def _cross_of(self, cross: Any, size: int) -> Cross:
        made = cross if isinstance(cross, Cross) else Cross(tuple(cross), size)
        if not set(made.feature_names) <= set(self.features):
            raise ValueError("All features referenced in the `crosses` argument should be present in the `features` dict. "
                             f"Received unknown features: {made.feature_names}")
        return made

    # -- learning -----------------------------------------------------------------------------------------------------
    def _adaptable(self) -> list[str]:
        """The columns whose layers learn from data and were not given what they would learn."""
        return [n for n, layer in self.preprocessors.items()
                if isinstance(layer, PreprocessingLayer) and type(layer).update_state is not PreprocessingLayer.update_state
                and getattr(layer, "input_mean", None) is None and getattr(layer, "input_bin_boundaries", None) is None]

    def adapt(self, dataset: Any) -> None:
        """Learns vocabularies, means and intervals.

        Args:
            dataset: A `tf.data.Dataset` of dictionaries, in batches or not.
        """
        if not isinstance(dataset, DatasetV2):
            raise ValueError(f"`adapt()` can only be called on a tf.data.Dataset. Received instead: {dataset} (of type "
                             f"{type(dataset)})")
        for name in self._adaptable():
            column = dataset.map(lambda x, name=name: x[name])
            rank = column.element_spec.shape.rank
            column = column.batch(32) if rank == 0 else column
            column = column.map(lambda x: tf.expand_dims(x, -1)) if rank in (0, 1) else column
            self.preprocessors[name].adapt(column)
        self._is_adapted = True
        self._encode_inputs()

    def _encode_inputs(self) -> None:
        """Encodes the inputs, which makes the layers that depend on what was learned."""
        if self.encoded_features is None:
            if not self._is_adapted and self._adaptable():
                raise ValueError("You need to call `.adapt(dataset)` on the FeatureSpace before you can start using it.")
            with init_scope():                          # also where a function is traced, such as that of `Dataset.map`
                self.__dict__["encoded_features"] = self._encoded(self.inputs)
        self.built = True

    def get_inputs(self) -> dict[str, Any]:
        """The symbolic inputs, for a model that takes raw data."""
        self._encode_inputs()
        return self.inputs

    def get_encoded_features(self) -> Any:
        """The encoded symbolic inputs."""
        self._encode_inputs()
        return self.encoded_features

    # -- encoding -----------------------------------------------------------------------------------------------------
    def __call__(self, data: Any, *args: Any, **kwargs: Any) -> Any:      # type: ignore[override]
        """The encoded features of a dictionary of columns; of a single example, without a batch axis."""
        self._encode_inputs()
        if not isinstance(data, dict):
            raise ValueError(f"A FeatureSpace can only be called with a dict. Received: data={data} (of type {type(data)}")
        tensors = {n: tf.convert_to_tensor(v) for n, v in data.items() if n in self.features}
        single = any(t.shape.rank == 0 for t in tensors.values())
        wide = {n: tf.reshape(t, [1, 1]) if t.shape.rank == 0 else tf.expand_dims(t, -1) if t.shape.rank == 1 else t
                for n, t in tensors.items()}
        encoded = self._encoded(wide)
        return tf.nest.map_structure(lambda t: tf.squeeze(t, 0), encoded) if single else encoded

    def _encoded(self, columns: dict[str, Any]) -> Any:
        single = {n: self.preprocessors[n](x) for n, x in columns.items()}
        crossed = {c.name: self.crossers[c.name]([single[n] for n in c.feature_names]) for c in self.crosses}
        modes = {**{n: f.output_mode for n, f in self.features.items()}, **{c.name: c.output_mode for c in self.crosses}}
        found = {n: self._encoded_one(n, x, modes[n]) for part in (single, crossed) for n, x in sorted(part.items())}
        if self.output_mode == "dict":
            return found
        for name, x in found.items():
            if not x.dtype.is_floating:
                raise ValueError(f"Cannot concatenate features because feature '{name}' has not been encoded (it has dtype "
                                 f"{x.dtype.name}). Consider using `output_mode='dict'`.")
        return self.concat(list(found.values())) if len(found) > 1 else next(iter(found.values()))

    def _encoded_one(self, name: str, x: Any, mode: str) -> Any:
        if mode != "one_hot":
            return x
        if not x.dtype.is_integer:
            raise ValueError(f"Feature '{name}' has `output_mode='one_hot'`. Thus its preprocessor should return an int64 "
                             f"dtype. Instead it returns a {x.dtype.name} dtype.")
        if name not in self.one_hot_encoders:
            self.one_hot_encoders[name] = CategoryEncoding(num_tokens=self._size(name), output_mode="multi_hot")
        return self.one_hot_encoders[name](x)

    def _size(self, name: str) -> int:
        """The number of categories that a layer returns."""
        layer = self.preprocessors[name] if name in self.preprocessors else self.crossers[name]
        if hasattr(layer, "vocabulary_size"):
            return layer.vocabulary_size()
        if isinstance(layer, Discretization) and layer.num_bins is None:
            return len(layer.bin_boundaries) + 1
        size = getattr(layer, "num_bins", None) or getattr(layer, "num_tokens", None)
        if size is None:
            raise ValueError(f"Feature '{name}' has `output_mode='one_hot'`. However it isn't a standard feature and the "
                             "dimensionality of its output space is not known, thus it cannot be one-hot encoded. Try using "
                             "`output_mode='int'`.")
        return size


def _name(name: str | None, kind: str) -> str:
    return f"{name or K.unique_object_name(kind)}_preprocessor"
