"""Chains of dataset methods with random arguments."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from tests.oracle.calls.values import Draw, tensor

LENGTH = 6


def source(d: Draw) -> tuple[str, list]:
    """A dataset of numbers, or of rows."""
    how = d.rng.uniform()
    if how < 0.5:
        return "range", [d.pick((0, 1, 5, LENGTH, 10))]
    if how < 0.85:
        return "from_tensor_slices", [
            tensor(d.numbers([d.pick((1, 4, LENGTH)), *d.some_shape(d.integer(0, 1))], d.pick(("float32", "int64", "int32"))))
        ]
    return "from_tensors", [tensor(d.numbers(d.some_shape(1), "int64"))]


def step(d: Draw, rank: int) -> tuple[str, list, dict]:
    """A method that takes elements of a rank as they are, or fails on both sides alike."""
    n = d.integer(1, 4)
    some: list[tuple[str, list, dict]] = [
        ("batch", [n], {"drop_remainder": d.chance(0.4)}),
        ("padded_batch", [n], {"drop_remainder": d.chance(0.3)}),
        ("ragged_batch", [n], {}),
        ("unbatch", [], {}),
        ("repeat", [d.pick((0, 1, 2))], {}),
        ("take", [d.pick((-1, 0, 2, 9))], {}),
        ("skip", [d.pick((-1, 0, 2, 9))], {}),
        ("shard", [d.integer(1, 3), 0], {}),
        ("window", [n], {"shift": d.pick((None, 1, 2)), "stride": d.pick((1, 2)), "drop_remainder": d.chance(0.4)}),
        (
            "map",
            [{"lambda": d.pick(("double", "square", "pair", "sum", "shape", "as_string", "length"))}],
            {"num_parallel_calls": d.pick((None, 2))},
        ),
        ("filter", [{"lambda": d.pick(("positive", "even"))}], {}),
        ("flat_map", [{"lambda": d.pick(("range", "repeat2", "flatten"))}], {}),
        (
            "interleave",
            [{"lambda": d.pick(("range", "repeat2"))}],
            {"cycle_length": d.integer(1, 3), "block_length": d.integer(1, 2), "num_parallel_calls": d.pick((None, 2))},
        ),
        ("enumerate", [d.pick((0, 3))], {}),
        ("cache", [], {}),
        ("prefetch", [2], {}),
        ("shuffle", [d.integer(1, 5)], {"seed": d.integer(0, 9), "reshuffle_each_iteration": d.chance(0.5)}),
        ("scan", [tensor(d.numbers([], "int64")), {"lambda": "scan"}], {}),
        ("take_while", [{"lambda": "positive"}], {}),
        ("unique", [], {}),
        ("group_by_window", [{"lambda": "mod3"}, {"lambda": "batch2"}], {"window_size": d.integer(1, 3)}),
        ("rebatch", [n], {"drop_remainder": d.chance(0.3)}),
        ("bucket_by_sequence_length", [{"lambda": "length"}], {"bucket_boundaries": [2, 4], "bucket_batch_sizes": [2, 2, 1]}),
        ("concatenate", [{"object": ["data.Dataset.range", [n], {}]}], {}),
        ("ignore_errors", [], {}),
        ("sparse_batch", [2, [5]], {}),
        ("rejection_resample", [], {}),
        ("get_single_element", [], {}),
        ("counter", [], {}),
        ("random", [], {"seed": 3}),
        ("batch", [0], {}),
        ("batch", [-1], {}),
        ("apply", [{"object": ["data.experimental.dense_to_ragged_batch", [n], {}]}], {}),
        ("apply", [{"object": ["data.experimental.dense_to_sparse_batch", [n, [6]], {}]}], {}),
        ("apply", [{"object": ["data.experimental.assert_cardinality", [d.integer(0, 6)], {}]}], {}),
        ("apply", [{"object": ["data.experimental.take_while", [{"lambda": "positive"}], {}]}], {}),
        (
            "apply",
            [{"object": ["data.experimental.map_and_batch", [{"lambda": "double"}, n], {"drop_remainder": d.chance(0.5)}]}],
            {},
        ),
        ("apply", [{"object": ["data.experimental.shuffle_and_repeat", [3, 2], {"seed": 4}]}], {}),
        ("options", [], {}),
        (
            "sample_from_datasets",
            [[{"object": ["data.Dataset.range", [n], {}]}, {"object": ["data.Dataset.range", [5], {}]}]],
            {"seed": 2, "stop_on_empty_dataset": d.chance(0.5)},
        ),
        (
            "choose_from_datasets",
            [
                [{"object": ["data.Dataset.range", [n], {}]}, {"object": ["data.Dataset.range", [5], {}]}],
                {"object": ["data.Dataset.range", [2], {}]},
            ],
            {"stop_on_empty_dataset": d.chance(0.5)},
        ),
    ]
    return some[d.rng.randint(len(some))]


def calls(seed: int, each: int) -> Iterator[dict]:
    """Chains of one to four methods."""
    for number in range(each * 150):
        d = Draw((zlib.crc32(f"chain {number}".encode()) + seed) % 2**32)
        name, args = source(d)
        chain: list[Any] = [list(step(d, 0)) for _ in range(d.integer(1, 4))]
        if d.chance(0.1):
            chain.append(["reduce", [tensor(d.numbers([], "int64")), {"lambda": "reduce"}], {}])
        yield {"kind": "chain", "name": f"data.Dataset.{name}", "args": args, "kwargs": {}, "chain": chain}
