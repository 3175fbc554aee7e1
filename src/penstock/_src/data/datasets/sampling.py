"""Datasets that choose among datasets, and rejection resampling."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.data.datasets.dataset_v1 import as_v1
from penstock._src.data.datasets.scanning import scan
from penstock._src.graph.convert import convert
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.ops.registry import get


def _directed(selector: Any, datasets: list, stop_on_empty: bool) -> Any:
    """The dataset that takes each element from the dataset which `selector` names."""
    first = datasets[0]
    for d in datasets[1:]:
        if structure.legacy(d.element_spec, "types") != structure.legacy(first.element_spec, "types") or \
                structure.legacy(d.element_spec, "classes") != structure.legacy(first.element_spec, "classes"):
            raise TypeError("All datasets must have the same type and class: "
                            f"{structure.legacy(first.element_spec, 'types')} and {structure.legacy(d.element_spec, 'types')}.")
    spec = first.element_spec
    for d in datasets[1:]:
        spec = structure.map_structure(lambda a, b: a.most_specific_compatible_type(b), spec, d.element_spec)
    variant = get("DirectedInterleaveDataset")(selector._variant_tensor, [d._variant_tensor for d in datasets],
                                               stop_on_empty_dataset=stop_on_empty, **structure.outputs(spec))
    return first._made(variant, spec, (selector, *datasets))


def _chosen(weights: Any, seed: Any) -> Any:
    """The index that a pair of random numbers chooses, with a probability given by the weights."""
    drawn = get("StatelessMultinomial")(tf.math.log(weights)[None], 1, seed)
    return drawn[0, 0]


def _random_pairs(seed: Any) -> Any:
    return DatasetV2.random(seed).batch(2)


def _place(number: Any) -> Any:
    """A random 32-bit number as one between 0 and 1."""
    return (tf.cast(number, dtypes.float64) + 0.5) / 2.0**32


def _weighted(datasets: list, weights: Any) -> tuple[list, Any]:
    """The datasets with their weights as a tensor; without those whose weight is zero, where that is known."""
    weights = np.ones(len(datasets), np.float32) if weights is None else weights
    values = convert(weights, None, "weights")
    if values.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"`weights` must be convertible to a tensor of `tf.float32` or `tf.float64` elements, got "
                        f"{values.dtype}.")
    if not values.shape.is_compatible_with([len(datasets)]):
        raise ValueError(f"`weights` and `datasets` should have the same length, got {values.shape} and {len(datasets)}.")
    if isinstance(weights, tf.Tensor):
        return datasets, values
    kept = np.flatnonzero(np.asarray(weights) > 0)
    if not len(kept):
        return [datasets[0].take(0)], values
    return [datasets[i] for i in kept], tf.gather(values, kept)


@export(v2=["data.experimental.sample_from_datasets"])
def sample_from_datasets(datasets: Any, weights: Any = None, seed: Any = None, stop_on_empty_dataset: bool = False) -> Any:
    """A dataset that takes each element from a dataset chosen at random, with given weights.

    >>> tf.data.Dataset.sample_from_datasets([a, b], weights=[0.5, 0.5])
    """
    datasets = list(datasets)
    if not datasets:
        raise ValueError("`datasets` must have at least one dataset.")
    if isinstance(weights, DatasetV2):
        spec = weights.element_spec
        if not isinstance(spec, TensorSpec) or not spec.shape.is_compatible_with([len(datasets)]):
            raise ValueError("`weights` must be a dataset of vectors of length `len(datasets)`.")
        selector = DatasetV2.zip((weights, _random_pairs(seed))).map(_chosen)
    else:
        datasets, weights = _weighted(datasets, weights)
        if len(datasets) == 1:
            return datasets[0]
        selector = _random_pairs(seed).map(lambda pair: _chosen(weights, pair))
    return _directed(selector, datasets, stop_on_empty_dataset)


@export(v1=["data.experimental.sample_from_datasets"])
def sample_from_datasets_v1(datasets: Any, weights: Any = None, seed: Any = None, stop_on_empty_dataset: bool = False) -> Any:
    """A dataset that takes each element from a dataset chosen at random."""
    return as_v1(sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset))


@export(v2=["data.experimental.choose_from_datasets"])
def choose_from_datasets(datasets: Any, choice_dataset: Any, stop_on_empty_dataset: bool = False) -> Any:
    """A dataset that takes each element from the dataset whose index `choice_dataset` yields.

    Unlike that of `tf.data.Dataset`, it goes on with the others when a dataset is empty.

    >>> tf.data.Dataset.choose_from_datasets([a, b], tf.data.Dataset.range(2).repeat())
    """
    datasets = list(datasets)
    if not datasets:
        raise ValueError("`datasets` must have at least one dataset.")
    spec = choice_dataset.element_spec
    if not isinstance(spec, TensorSpec) or spec.dtype != dtypes.int64 or not spec.shape.is_compatible_with([]):
        raise TypeError(f"`choice_dataset` must be a dataset of scalar `tf.int64` tensors, got {spec}.")
    return _directed(choice_dataset, datasets, stop_on_empty_dataset)


@export(v1=["data.experimental.choose_from_datasets"])
def choose_from_datasets_v1(datasets: Any, choice_dataset: Any, stop_on_empty_dataset: bool = False) -> Any:
    """A dataset that takes each element from the dataset whose index `choice_dataset` yields."""
    return as_v1(choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset))


@export("data.experimental.rejection_resample")
def rejection_resample(class_func: Callable, target_dist: Any, initial_dist: Any = None, seed: Any = None) -> Callable:
    """A transformation: drops elements at random so that classes follow `target_dist`.

    The result has pairs of a class and an element. Without `initial_dist`, the distribution is estimated from the elements so
    far.
    """
    def apply(dataset: Any) -> Any:
        target = tf.cast(convert(target_dist, None, "target_dist"), dtypes.float32)
        one = type(dataset.element_spec) is not tuple

        def with_class(*args: Any) -> Any:
            return convert(class_func(*args), None, "class"), args[0] if one else args
        classed = dataset.map(with_class)
        if initial_dist is None:
            classed = _estimated(classed, target)
        else:
            start = tf.cast(convert(initial_dist, None, "initial_dist"), dtypes.float32)
            classed = classed.map(lambda c, e: (c, e, start))

        def accepted(element: Any, number: Any) -> Any:
            c, _, dist = element
            ratio = target / tf.maximum(dist, np.finfo(np.float32).tiny)
            chance = ratio / tf.reduce_max(tf.where(dist > 0, ratio, tf.zeros_like(ratio)))
            places = tf.range(tf.size(chance, out_type=dtypes.int64))
            mine = tf.reduce_sum(tf.where(tf.equal(places, tf.cast(c, dtypes.int64)), chance, tf.zeros_like(chance)))
            return _place(number) < tf.cast(mine, dtypes.float64)
        public = dataset._public()
        chosen = public.zip((classed, public.random(seed))).filter(accepted)
        return chosen.map(lambda element, number: element[:2])
    return apply


def _estimated(dataset: Any, target: Any) -> Any:
    """The elements, each with the class frequencies of the elements so far."""
    n = target.shape.as_list()[0]

    def count(counts: Any, element: Any) -> Any:
        c, e = element
        counts = counts + tf.one_hot(c, n, dtype=dtypes.float32)
        return counts, (c, e, counts / tf.reduce_sum(counts))
    return dataset.apply(scan(tf.ones([n], dtypes.float32), count))
