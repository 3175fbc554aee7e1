"""The ops of datasets that no class of tf.data makes, called by their names. The values are those of TensorFlow 2.21."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

R = tf.raw_ops
NUMBERS = {"output_types": [tf.int64], "output_shapes": [tf.TensorShape([])]}
VECTORS = {"output_types": [tf.int64], "output_shapes": [tf.TensorShape([None])]}


def i64(*values):
    return tf.constant(values[0] if len(values) == 1 else values, tf.int64)


def numbers(n):
    return R.RangeDataset(start=i64(0), stop=i64(n), step=i64(1), **NUMBERS)


def batches(n, size, drop=False):
    return R.BatchDatasetV2(input_dataset=numbers(n), batch_size=i64(size), drop_remainder=drop, **VECTORS)


def elements(variant, outputs=NUMBERS, most=100):
    iterator = R.AnonymousIteratorV3(**outputs)
    R.MakeIterator(dataset=variant, iterator=iterator)
    found = []
    for _ in range(most):
        try:
            parts = [np.asarray(t.numpy()).tolist() for t in R.IteratorGetNext(iterator=iterator, **outputs)]
        except tf.errors.OutOfRangeError:
            break
        found.append(parts[0] if len(parts) == 1 else parts)
    return found


def function(f, *specs):
    return tf.function(f).get_concrete_function(*specs)


SCALAR = tf.TensorSpec([], tf.int64)


@pytest.mark.parametrize("n, size, replicas, expected", [
    (10, 4, 2, [[0, 1], [2, 3], [4, 5], [6, 7], [8], [9]]),
    (20, 8, 3, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9, 10], [11, 12, 13], [14, 15], [16, 17], [18, 19], []]),
    (9, 7, 4, [[0, 1], [2, 3], [4, 5], [6], [7], [8], [], []])])
def test_rebatch_splits_each_batch(n, size, replicas, expected):
    for op in (R.RebatchDataset, R.ExperimentalRebatchDataset):
        assert elements(op(input_dataset=batches(n, size), num_replicas=i64(replicas), **VECTORS), VECTORS) == expected


@pytest.mark.parametrize("sizes, drop, expected", [
    ([2, 1], False, [[0, 1], [2], [3, 4], [5], [6, 7], [8], [9, 10]]),
    ([2, 0], False, [[0, 1], [], [2, 3], [], [4, 5], [], [6, 7], [], [8, 9], [], [10]]),
    ([3], True, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])])
def test_rebatch_v2_cycles_through_sizes(sizes, drop, expected):
    made = R.RebatchDatasetV2(input_dataset=batches(11, 4), batch_sizes=i64(sizes), drop_remainder=drop, **VECTORS)
    assert elements(made, VECTORS) == expected


def test_rebatch_refuses_sizes():
    with pytest.raises(tf.errors.InvalidArgumentError, match="batch_sizes"):
        R.RebatchDatasetV2(input_dataset=batches(4, 2), batch_sizes=i64([0]), drop_remainder=False, **VECTORS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero"):
        R.RebatchDataset(input_dataset=batches(4, 2), num_replicas=i64(0), **VECTORS)


@pytest.mark.parametrize("n, size, shift, stride, drop, expected", [
    (7, 3, 2, 1, True, [[0, 1, 2], [2, 3, 4], [4, 5, 6]]),
    (7, 3, 2, 1, False, [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6]]),
    (9, 2, 1, 3, True, [[0, 3], [1, 4], [2, 5], [3, 6], [4, 7], [5, 8]]),
    (9, 2, 1, 3, False, [[0, 3], [1, 4], [2, 5], [3, 6], [4, 7], [5, 8], [6], [7], [8]])])
def test_sliding_windows(n, size, shift, stride, drop, expected):
    made = R.SlidingWindowDataset(input_dataset=numbers(n), window_size=i64(size), window_shift=i64(shift),
                                  window_stride=i64(stride), drop_remainder=drop, **VECTORS)
    assert elements(made, VECTORS) == expected


def test_sampling_draws_the_numbers_of_tensorflow():
    made = R.SamplingDataset(input_dataset=numbers(40), rate=0.5, seed=i64(1), seed2=i64(2), **NUMBERS)
    assert elements(made) == [0, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 17, 20, 24, 27, 30, 32, 35, 37, 38]


def test_random_numbers_of_each_iteration():
    again, _ = R.AnonymousSeedGenerator(seed=i64(1), seed2=i64(2), reshuffle=True)
    same = R.RandomDatasetV2(seed=i64(1), seed2=i64(2), seed_generator=R.DummySeedGenerator(), **NUMBERS)
    other = R.RandomDatasetV2(seed=i64(1), seed2=i64(2), seed_generator=again, rerandomize_each_iteration=True, **NUMBERS)
    assert [elements(same, most=3) for _ in range(2)] == [[3878945999, 2364392915, 1057429302]] * 2
    assert [elements(other, most=3) for _ in range(2)] == [[1801043212, 1974464429, 2710738260],
                                                           [3111139111, 2247037790, 1806887132]]


def shuffles(generator):
    common = {"input_dataset": numbers(20), "seed": i64(1), "seed2": i64(2), "seed_generator": generator, **NUMBERS}
    yield R.ShuffleDatasetV3(buffer_size=i64(5), **common)
    yield R.GlobalShuffleDataset(**common)
    yield R.ShuffleAndRepeatDatasetV2(buffer_size=i64(5), count=i64(1), **common)
    yield R.ShuffleDatasetV2(input_dataset=numbers(20), buffer_size=i64(5), seed_generator=generator, **NUMBERS)


@pytest.mark.parametrize("reshuffle", [True, False])
def test_shuffles_share_a_generator_of_seeds(reshuffle):
    for number in range(4):
        generator, deleter = R.AnonymousSeedGenerator(seed=i64(1), seed2=i64(2), reshuffle=reshuffle)
        made = list(shuffles(generator))[number]
        first, second = elements(made), elements(made)
        assert sorted(first) == sorted(second) == list(range(20)) != first
        assert (first == second) is not reshuffle
        R.DeleteSeedGenerator(handle=generator, deleter=deleter)
    one, other = (list(shuffles(R.AnonymousSeedGenerator(seed=i64(1), seed2=i64(2), reshuffle=True)[0]))[0] for _ in range(2))
    assert elements(one) == elements(other)


def test_global_shuffle_needs_a_finite_dataset():
    endless = R.RepeatDataset(input_dataset=numbers(3), count=i64(-1), **NUMBERS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="finite cardinality"):
        R.GlobalShuffleDataset(input_dataset=endless, seed=i64(1), seed2=i64(2), seed_generator=R.DummySeedGenerator(),
                               **NUMBERS)


def test_lists_and_windows_of_tensors():
    assert elements(R.ListDataset(tensors=[i64(1), i64(5), i64(2)], **NUMBERS)) == [1, 5, 2]
    assert elements(R.WindowOp(inputs=[i64(1), i64(2)], **NUMBERS)) == [1, 2]
    pairs = {"output_types": [tf.int64] * 2, "output_shapes": [tf.TensorShape([])] * 2}
    assert elements(R.ListDataset(tensors=[i64(1), i64(5), i64(2), i64(6)], **pairs), pairs) == [[1, 5], [2, 6]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="multiple"):
        R.ListDataset(tensors=[i64(1)], **pairs)


def test_batch_size():
    prefetched = R.PrefetchDataset(input_dataset=batches(10, 4), buffer_size=i64(1), **VECTORS)
    found = [int(R.ComputeBatchSize(input_dataset=d)) for d in (batches(10, 4), batches(10, 4, True), prefetched, numbers(3))]
    assert found == [4, 4, 4, -1]


def test_options_are_those_of_the_last_dataset_that_sets_any():
    set_ = R.OptionsDataset(input_dataset=numbers(3), serialized_options=b"\x08\x01", **NUMBERS)
    behind = R.PrefetchDataset(input_dataset=set_, buffer_size=i64(1), **NUMBERS)
    assert [R.GetOptions(input_dataset=d).numpy() for d in (numbers(3), set_, behind)] == [b"", b"\x08\x01", b"\x08\x01"]


def test_element_at_an_index():
    assert [int(R.GetElementAtIndex(dataset=numbers(4), index=i64(i), **NUMBERS)[0]) for i in (0, 3)] == [0, 3]
    for i in (4, -1):
        with pytest.raises(tf.errors.OutOfRangeError, match=rf"Index out of range \[0, 4\):{i}"):
            R.GetElementAtIndex(dataset=numbers(4), index=i64(i), **NUMBERS)


def test_compressed_elements_come_back():
    given = [tf.constant([1, 2], tf.int64), tf.constant(b"ab" * 1000), tf.constant([[0.5]], tf.bfloat16)]
    types, shapes = [t.dtype for t in given], [t.shape for t in given]
    compressed = R.CompressElement(components=given)
    assert compressed.dtype == tf.variant and compressed.shape == []
    for a, b in zip(R.UncompressElement(compressed=compressed, output_types=types, output_shapes=shapes), given, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    with pytest.raises(tf.errors.FailedPreconditionError, match="3 components"):
        R.UncompressElement(compressed=compressed, output_types=types[:1], output_shapes=shapes[:1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="compressed element"):
        R.UncompressElement(compressed=numbers(1), output_types=types, output_shapes=shapes)


def test_map_defun_calls_a_function_of_rows():
    times = function(lambda x, y: x * y, SCALAR, SCALAR)
    common = {"captured_inputs": [i64(5)], "f": times, **NUMBERS}
    assert R.MapDefun(arguments=[i64([1, 2, 3])], **common)[0].numpy().tolist() == [5, 10, 15]
    assert R.MapDefun(arguments=[tf.zeros([0], tf.int64)], **common)[0].shape == [0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank at least 1"):
        R.MapDefun(arguments=[i64(1)], **common)


def test_multi_device_iterator_deals_elements_out():
    handle, deleter = R.AnonymousMultiDeviceIterator(devices=["/cpu:0", "/cpu:0"], **NUMBERS)

    def take(shard, number):
        return int(R.MultiDeviceIteratorGetNextFromShard(multi_device_iterator=handle, shard_num=shard, incarnation_id=number,
                                                         **NUMBERS)[0])
    with pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"):
        take(0, i64(0))
    R.MultiDeviceIteratorInit(dataset=numbers(9), multi_device_iterator=handle, max_buffer_size=i64(2))
    number = R.MultiDeviceIteratorInit(dataset=numbers(5), multi_device_iterator=handle, max_buffer_size=i64(2))
    assert [take(shard, number) for shard in (0, 0, 1, 1, 0)] == [0, 2, 1, 3, 4]
    for shard in (1, 0):
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            take(shard, number)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid incarnation id. Provided: 77; Expected: 2"):
        take(0, i64(77))
    with pytest.raises(tf.errors.InvalidArgumentError, match="shard_num"):
        take(2, number)
    R.DeleteMultiDeviceIterator(multi_device_iterator=handle, iterators=[], deleter=deleter)


def test_multi_device_iterator_waits_for_the_slower_reader():
    """The buffer of shard 1 is full: shard 0 gets its third element when one was taken there."""
    handle = R.AnonymousMultiDeviceIteratorV3(devices=["/cpu:0", "/cpu:0"], **NUMBERS)
    number = R.MultiDeviceIteratorInit(dataset=numbers(6), multi_device_iterator=handle, max_buffer_size=i64(1))
    found = []

    def take(shard):
        return int(R.MultiDeviceIteratorGetNextFromShard(multi_device_iterator=handle, shard_num=shard, incarnation_id=number,
                                                         **NUMBERS)[0])
    reader = threading.Thread(target=lambda: found.extend(take(0) for _ in range(3)))
    reader.start()
    others = [take(1) for _ in range(3)]
    reader.join(60)
    assert found == [0, 2, 4] and others == [1, 3, 5]


def test_string_handles_of_multi_device_iterators_in_a_session():
    with tf1.Graph().as_default(), tf1.Session() as session:
        handle = R.MultiDeviceIterator(devices=["/cpu:0"], shared_name="", container="", **NUMBERS)
        init = R.MultiDeviceIteratorInit(dataset=numbers(2), multi_device_iterator=handle, max_buffer_size=i64(1))
        text = R.MultiDeviceIteratorToStringHandle(multi_device_iterator=handle)
        again = R.MultiDeviceIteratorFromStringHandle(string_handle=text, **NUMBERS)
        number = session.run(init)
        get = R.MultiDeviceIteratorGetNextFromShard(multi_device_iterator=again, shard_num=0, incarnation_id=i64(1), **NUMBERS)
        assert number == 1 and [session.run(get) for _ in range(2)] == [[0], [1]]


def test_where_an_iterator_is():
    iterator = R.AnonymousIteratorV3(**NUMBERS)
    assert R.IteratorGetDevice(resource=iterator).numpy().decode().endswith("CPU:0")


@pytest.mark.parametrize("policy, expected", [(0, [1, 3, 5]), (2, [1, 3, 5]), (-1, [*range(6)]), (3, [*range(6)])])
def test_auto_shard_of_a_dataset_without_files(policy, expected):
    made = R.AutoShardDataset(input_dataset=numbers(6), num_workers=i64(2), index=i64(1), auto_shard_policy=policy, **NUMBERS)
    assert elements(made) == expected


def test_auto_shard_by_files(tmp_path):
    strings = {"output_types": [tf.string], "output_shapes": [tf.TensorShape([])]}
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(f"{i}a\n{i}b\n")
    files = [str(tmp_path / f"{i}.txt") for i in range(3)]
    lines = R.TextLineDataset(filenames=files, compression_type="", buffer_size=i64(0))

    def shard(index, workers, policy):
        return elements(R.AutoShardDataset(input_dataset=lines, num_workers=i64(workers), index=i64(index),
                                           auto_shard_policy=policy, **strings), strings)
    assert shard(0, 2, 1) == [b"0a", b"0b", b"2a", b"2b"] and shard(1, 2, 0) == [b"1a", b"1b"]
    assert shard(1, 4, 0) == [b"0b", b"2b"]                    # fewer files than workers: every worker gets elements
    with pytest.raises(tf.errors.NotFoundError, match="unshardable"):
        shard(1, 4, 1)


def test_a_dataset_as_a_graph_and_back():
    graph = R.DatasetToGraphV2(input_dataset=batches(10, 4))
    assert [n.op for n in tf1.GraphDef.FromString(graph.numpy()).node][-2:] == ["BatchDatasetV2", "_Retval"]
    assert elements(R.DatasetFromGraph(graph_def=graph), VECTORS) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    doubled = tf.data.Dataset.range(3).map(lambda x: 2 * x)
    assert elements(R.DatasetFromGraph(graph_def=R.DatasetToGraphV2(input_dataset=doubled._variant_tensor))) == [0, 2, 4]
    for bad in (b"no graph", tf1.GraphDef().SerializeToString()):
        with pytest.raises(tf.errors.InvalidArgumentError, match="graph"):
            R.DatasetFromGraph(graph_def=bad)


def test_fingerprints():
    found = [int(R.DatasetFingerprint(input_dataset=numbers(n))) for n in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


def test_graph_of_a_dataset_with_state():
    variable = tf.Variable(1, dtype=tf.int64)
    stateful = tf.data.Dataset.range(3).map(lambda x: x + variable)
    with pytest.raises(tf.errors.FailedPreconditionError):
        R.DatasetToGraphV2(input_dataset=stateful._variant_tensor, external_state_policy=2)


def test_choose_fastest_and_sleep():
    equal = [numbers(4), R.SleepDataset(input_dataset=numbers(4), sleep_microseconds=i64(2000), **NUMBERS)]
    for trials in (1, 3, 9):
        assert elements(R.ChooseFastestDataset(input_datasets=equal, num_experiments=trials, **NUMBERS)) == [0, 1, 2, 3]


def test_threads_and_rewrites_keep_the_elements():
    pool = R.ThreadPoolHandle(num_threads=2, display_name="pool")
    mapped = tf.data.Dataset.range(5).map(lambda x: x + 1, num_parallel_calls=4)._variant_tensor
    empty = tf.constant([], tf.string)
    for made in (R.ThreadPoolDataset(input_dataset=mapped, thread_pool=pool, **NUMBERS),
                 R.FinalizeDataset(input_dataset=mapped, **NUMBERS),
                 R.RewriteDataset(input_dataset=mapped, rewrite_name="", **NUMBERS),
                 R.OptimizeDatasetV2(input_dataset=mapped, optimizations_enabled=empty, optimizations_disabled=empty,
                                     optimizations_default=empty, **NUMBERS)):
        assert elements(made) == [1, 2, 3, 4, 5]
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_threads"):
        R.ThreadPoolHandle(num_threads=0, display_name="pool")


def test_datasets_share_the_memory_of_a_cache():
    shared, deleter = R.AnonymousMemoryCache()

    def cached(n, cache):
        return elements(R.CacheDatasetV2(input_dataset=numbers(n), filename="", cache=cache, **NUMBERS))
    assert [cached(3, shared), cached(5, shared), cached(5, R.DummyMemoryCache())] == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3, 4]]
    R.DeleteMemoryCache(handle=shared, deleter=deleter)
    assert cached(5, shared) == [0, 1, 2, 3, 4]


def test_parallel_versions_give_what_their_plain_ones_give():
    odd = function(lambda x: x % 2 == 1, SCALAR)
    filtered = R.ParallelFilterDataset(input_dataset=numbers(6), other_arguments=[], num_parallel_calls=i64(2), predicate=odd,
                                       **NUMBERS)
    assert elements(filtered) == [1, 3, 5]
    batched = R.ParallelBatchDataset(input_dataset=numbers(5), batch_size=i64(2), num_parallel_calls=i64(2),
                                     drop_remainder=True, **VECTORS)
    assert elements(batched, VECTORS) == [[0, 1], [2, 3]]
    ranges = function(lambda x: R.RangeDataset(start=x, stop=x + 2, step=i64(1), **NUMBERS), SCALAR)
    common = {"input_dataset": numbers(3), "other_arguments": [], "cycle_length": i64(2), "block_length": i64(1), "f": ranges,
              "deterministic": "true", **NUMBERS}
    ahead = {"buffer_output_elements": i64(1), "prefetch_input_elements": i64(0)}
    expected = [0, 1, 1, 2, 2, 3]
    assert elements(R.ParallelInterleaveDatasetV3(num_parallel_calls=i64(2), **common)) == expected
    assert elements(R.ParallelInterleaveDatasetV4(num_parallel_calls=i64(2), **ahead, **common)) == expected
    assert elements(R.LegacyParallelInterleaveDatasetV2(**ahead, **common)) == expected
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_parallel_calls"):
        R.ParallelInterleaveDatasetV3(num_parallel_calls=i64(0), **common)


def test_records_from_an_offset(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for text in (b"one", b"two", b"three"):
            writer.write(text)
    strings = {"output_types": [tf.string], "output_shapes": [tf.TensorShape([])]}
    second = 8 + 4 + len(b"one") + 4
    common = {"compression_type": "", "buffer_size": i64(0)}
    made = R.TFRecordDatasetV2(filenames=[path, path], byte_offsets=i64([second, 0]), **common)
    assert elements(made, strings) == [b"two", b"three", b"one", b"two", b"three"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="byte_offsets"):
        R.TFRecordDatasetV2(filenames=[path], byte_offsets=i64([0, 0]), **common)


def test_csv_without_some_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2,3\n4,5,6\n")
    pairs = {"output_types": [tf.int64] * 2, "output_shapes": [tf.TensorShape([])] * 2}

    def made(select, exclude):
        return R.CSVDatasetV2(filenames=str(path), compression_type="", buffer_size=i64(1000), header=False, field_delim=",",
                              use_quote_delim=True, na_value="", select_cols=tf.constant(select, tf.int64),
                              record_defaults=[tf.constant([], tf.int64)] * 2, exclude_cols=tf.constant(exclude, tf.int64),
                              output_shapes=pairs["output_shapes"])
    assert elements(made([], [1]), pairs) == [[1, 3], [4, 6]] and elements(made([1, 2], []), pairs) == [[2, 3], [5, 6]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="should be empty"):
        made([0, 1], [2])


def test_a_table_from_a_dataset():
    table = R.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    pairs = tf.data.Dataset.from_tensor_slices((["a", "b"], tf.constant([1, 2], tf.int64)))
    R.InitializeTableFromDataset(table_handle=table, dataset=pairs._variant_tensor)
    found = R.LookupTableFindV2(table_handle=table, keys=["b", "c"], default_value=tf.constant(-1, tf.int64))
    assert found.numpy().tolist() == [2, -1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="two output types"):
        R.InitializeTableFromDataset(table_handle=table, dataset=numbers(1))


@pytest.mark.parametrize("made", [
    lambda: R.RebatchDataset(input_dataset=batches(20, 8), num_replicas=i64(3), **VECTORS),
    lambda: R.RebatchDatasetV2(input_dataset=batches(20, 8), batch_sizes=i64([3, 0]), drop_remainder=False, **VECTORS),
    lambda: R.SlidingWindowDataset(input_dataset=numbers(9), window_size=i64(3), window_shift=i64(2), window_stride=i64(1),
                                   **VECTORS)], ids=["rebatch", "rebatch_v2", "sliding"])
def test_positions_are_saved(made):
    first, second = (R.AnonymousIteratorV3(**VECTORS) for _ in range(2))
    for iterator in (first, second):
        R.MakeIterator(dataset=made(), iterator=iterator)

    def take(iterator):
        return R.IteratorGetNext(iterator=iterator, **VECTORS)[0].numpy().tolist()
    for _ in range(2):
        take(first)
    R.DeserializeIterator(resource_handle=second, serialized=R.SerializeIterator(resource_handle=first))
    assert [take(first) for _ in range(2)] == [take(second) for _ in range(2)]
