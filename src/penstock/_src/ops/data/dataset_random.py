"""Datasets that draw random numbers: shuffles, samples, numbers; and the generators of seeds that several of them share."""
from __future__ import annotations

from typing import Any

from penstock._src.base import errors
from penstock._src.data.pipelines import ordering, sources
from penstock._src.data.pipelines.base import UNKNOWN
from penstock._src.ops.data.dataset_base import dataset, integer, number, stage_of
from penstock._src.ops.registry import op

_IN = "input_dataset: variant"
_SEEDS = "seed: int64, seed2: int64"
_SHUFFLE = f"{_IN}, buffer_size: int64, {_SEEDS}"
_AGAIN = "reshuffle_each_iteration: bool = True"
_METADATA = "metadata: string = ''"


# -- generators of seeds --------------------------------------------------------------------------------------------------
def _two_seeds(seed: Any, seed2: Any, reshuffle: bool) -> ordering.SeedGenerator:
    return ordering.SeedGenerator(integer(seed, "seed"), integer(seed2, "seed2"), reshuffle)


def _chosen(generator: Any, seed: Any, seed2: Any, reshuffle: bool) -> ordering.SeedGenerator:
    """The generator of a handle; a new one for the handle of a dummy."""
    return generator if isinstance(generator, ordering.SeedGenerator) else _two_seeds(seed, seed2, reshuffle)


anonymous = op("AnonymousSeedGenerator", f"{_SEEDS}, reshuffle: bool -> handle: resource, deleter: variant",
               stateful=True).no_gradient()
anonymous_random = op("AnonymousRandomSeedGenerator", f"{_SEEDS} -> handle: resource, deleter: variant",
                      stateful=True).no_gradient()
dummy = op("DummySeedGenerator", "-> handle: resource", stateful=True).no_gradient()
anonymous.shape(lambda seed, seed2, reshuffle: [(), ()])
anonymous_random.shape(lambda seed, seed2: [(), ()])
dummy.shape(lambda: ())
dummy.kernel(lambda: object(), device="cpu")


@anonymous.kernel(device="cpu")
def _anonymous_kernel(seed, seed2, reshuffle):
    made = _two_seeds(seed, seed2, bool(number(reshuffle, "reshuffle")))
    return made, made


@anonymous_random.kernel(device="cpu")
def _anonymous_random_kernel(seed, seed2):
    made = _two_seeds(seed, seed2, True)
    return made, made


for _name in ("DeleteSeedGenerator", "DeleteRandomSeedGenerator"):
    _delete = op(_name, "handle: resource, deleter: variant ->", stateful=True).no_gradient()
    _delete.shape(lambda handle, deleter: [])
    _delete.kernel(lambda handle, deleter: None, device="cpu")      # its memory is freed with the last reference to it


# -- shuffles ---------------------------------------------------------------------------------------------------------------
@dataset("ShuffleDataset", inputs=_SHUFFLE, attrs=_AGAIN)
def _shuffle_dataset(input_dataset, buffer_size, seed, seed2, *, reshuffle_each_iteration):
    return ordering.Shuffle(stage_of(input_dataset), integer(buffer_size, "buffer_size"),
                            _two_seeds(seed, seed2, reshuffle_each_iteration))


@dataset("ShuffleDatasetV2", inputs=f"{_IN}, buffer_size: int64, seed_generator: resource", attrs=_METADATA, stateful=True)
def _shuffle_dataset_v2(input_dataset, buffer_size, seed_generator):
    if not isinstance(seed_generator, ordering.SeedGenerator):
        raise errors.NotFoundError(None, None, "seed_generator is not the handle of a generator of seeds")
    return ordering.Shuffle(stage_of(input_dataset), integer(buffer_size, "buffer_size"), seed_generator)


@dataset("ShuffleDatasetV3", inputs=f"{_SHUFFLE}, seed_generator: resource", attrs=f"{_AGAIN}, {_METADATA}", stateful=True)
def _shuffle_dataset_v3(input_dataset, buffer_size, seed, seed2, seed_generator, *, reshuffle_each_iteration):
    return ordering.Shuffle(stage_of(input_dataset), integer(buffer_size, "buffer_size"),
                            _chosen(seed_generator, seed, seed2, reshuffle_each_iteration))


@dataset("ShuffleAndRepeatDataset", inputs=f"{_SHUFFLE}, count: int64", attrs=_AGAIN)
def _shuffle_and_repeat_dataset(input_dataset, buffer_size, seed, seed2, count, *, reshuffle_each_iteration):
    return ordering.Shuffle(stage_of(input_dataset), integer(buffer_size, "buffer_size"),
                            _two_seeds(seed, seed2, reshuffle_each_iteration), integer(count, "count"))


@dataset("ShuffleAndRepeatDatasetV2", inputs=f"{_SHUFFLE}, count: int64, seed_generator: resource",
         attrs=f"{_AGAIN}, {_METADATA}", stateful=True)
def _shuffle_and_repeat_dataset_v2(input_dataset, buffer_size, seed, seed2, count, seed_generator, *,
                                   reshuffle_each_iteration):
    return ordering.Shuffle(stage_of(input_dataset), integer(buffer_size, "buffer_size"),
                            _chosen(seed_generator, seed, seed2, reshuffle_each_iteration), integer(count, "count"))


@dataset("GlobalShuffleDataset", inputs=f"{_IN}, {_SEEDS}, seed_generator: resource", attrs=f"{_AGAIN}, {_METADATA}",
         stateful=True)
def _global_shuffle_dataset(input_dataset, seed, seed2, seed_generator, *, reshuffle_each_iteration):
    source = stage_of(input_dataset)
    if source.cardinality() < 0:
        raise errors.invalid("`global_shuffle` requires the input dataset to have a known, finite cardinality, got "
                             f"{source.cardinality()}.")
    return ordering.Shuffle(source, UNKNOWN, _chosen(seed_generator, seed, seed2, reshuffle_each_iteration))


# -- numbers ------------------------------------------------------------------------------------------------------------------
@dataset("RandomDataset", "ExperimentalRandomDataset", inputs=_SEEDS, stateful=True)
def _random_dataset(seed, seed2):
    return sources.Random(_two_seeds(seed, seed2, False).next_seeds)


@dataset("RandomDatasetV2", inputs=f"{_SEEDS}, seed_generator: resource",
         attrs=f"rerandomize_each_iteration: bool = False, {_METADATA}", stateful=True)
def _random_dataset_v2(seed, seed2, seed_generator, *, rerandomize_each_iteration):
    generator = _chosen(seed_generator, seed, seed2, True) if rerandomize_each_iteration else _two_seeds(seed, seed2, False)
    return sources.Random(generator.next_seeds)


@dataset("SamplingDataset", inputs=f"{_IN}, rate: float32, {_SEEDS}")
def _sampling_dataset(input_dataset, rate, seed, seed2):
    return ordering.Sample(stage_of(input_dataset), float(number(rate, "rate")), _two_seeds(seed, seed2, False).seeds)
