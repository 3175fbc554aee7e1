"""Datasets and iterators: sources, transformations, the four kinds of iterators, errors, threads."""
import gc
import inspect
import sys
import threading

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.base import errors
from tests.checks import eventually

Dataset = tf.data.Dataset


def elements(ds):
    return list(ds.as_numpy_iterator())


def test_slices_map_batch_in_order():
    x = np.arange(10, dtype=np.float32)
    got = elements(Dataset.from_tensor_slices({"a": x, "b": np.stack([x, -x], 1)}).map(
        lambda e: (e["a"] * 2, tf.reduce_sum(e["b"]))).batch(4))
    np.testing.assert_array_equal(np.concatenate([g[0] for g in got]), x * 2)
    assert [len(g[0]) for g in got] == [4, 4, 2]
    assert all((g[1] == 0).all() for g in got)


@pytest.mark.parametrize("size", [1, 3, 10, 100])
def test_shuffle_is_a_permutation_that_the_seed_decides(size):
    ds = Dataset.range(50).shuffle(size, seed=7, reshuffle_each_iteration=False)
    first, again = elements(ds), elements(ds)
    assert sorted(first) == list(range(50)) and first == again
    assert (first == list(range(50))) == (size == 1)
    assert all(v <= i + size for i, v in enumerate(first))          # nothing comes before it can be in the buffer


def test_shuffle_gives_the_same_order_in_blocks_and_one_by_one():
    by_block = np.concatenate(elements(Dataset.range(3000).shuffle(100, seed=3).batch(64)))
    strings = elements(Dataset.range(3000).map(lambda x: tf.strings.as_string(x)).shuffle(100, seed=3))
    assert by_block.tolist() == [int(s) for s in strings]


@pytest.mark.parametrize("size, rounds", [
    (10, [[1, 7, 2, 5, 4, 0, 6, 3, 8, 9], [3, 7, 4, 8, 5, 1, 9, 2, 0, 6], [6, 2, 0, 7, 4, 3, 1, 8, 9, 5]]),
    (40, [[1, 7, 2, 5, 4, 0, 6, 3, 8, 9], [3, 7, 4, 8, 5, 1, 9, 2, 0, 6], [6, 2, 0, 7, 4, 3, 1, 8, 9, 5]]),
])
def test_shuffle_has_the_order_of_tensorflow_in_every_round(size, rounds):
    ds = Dataset.range(10).shuffle(size, seed=4)
    assert [elements(ds) for _ in rounds] == rounds
    assert elements(Dataset.range(10).shuffle(size, seed=4).repeat(len(rounds))) == sum(rounds, [])


def test_shuffle_through_a_small_buffer_has_the_order_of_tensorflow():
    fixed = Dataset.range(10).shuffle(4, seed=1, reshuffle_each_iteration=False)
    assert elements(fixed) == elements(fixed) == [3, 4, 0, 5, 2, 7, 8, 9, 1, 6]
    assert elements(Dataset.range(10).shuffle(4, seed=1).repeat(2)) == [
        0, 4, 5, 1, 2, 7, 9, 8, 6, 3, 2, 1, 3, 4, 6, 8, 7, 9, 5, 0]
    one_by_one = Dataset.from_generator(lambda: iter(range(12)), tf.int64).shuffle(5, seed=2)
    assert elements(one_by_one) == [0, 3, 5, 2, 8, 6, 9, 1, 11, 4, 10, 7]
    many = elements(Dataset.range(3000).shuffle(257, seed=9))
    assert sum((i + 1) * int(x) for i, x in enumerate(many)) == 8912651695


def test_shuffle_draws_every_place():
    firsts = {elements(Dataset.range(4).shuffle(4))[0] for _ in range(100)}
    assert firsts == {0, 1, 2, 3}


def test_repeat_reshuffles():
    got = elements(Dataset.range(20).shuffle(20, seed=1).repeat(2))
    assert sorted(got[:20]) == sorted(got[20:]) == list(range(20)) and got[:20] != got[20:]


def test_nested_datasets():
    assert elements(Dataset.range(4).flat_map(lambda n: Dataset.range(n))) == [0, 0, 1, 0, 1, 2]
    assert elements(Dataset.range(1, 4).interleave(lambda n: Dataset.from_tensors(n).repeat(2), 2, 1)) == [1, 2, 1, 2, 3, 3]
    windows = [elements(w) for w in Dataset.range(7).window(3, shift=2, drop_remainder=True)]
    assert windows == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]


@pytest.mark.parametrize("calls", [None, 1, 3])
def test_map_over_strings_keeps_the_order(calls):
    ds = Dataset.range(50).map(lambda x: tf.strings.as_string(x), num_parallel_calls=calls)
    assert elements(ds) == [str(i).encode() for i in range(50)]


def test_choosing():
    r = Dataset.range(10)
    assert elements(r.take(3)) == [0, 1, 2] and elements(r.skip(8)) == [8, 9] and elements(r.take(-1)) == list(range(10))
    assert elements(r.shard(3, 1)) == [1, 4, 7] and elements(r.filter(lambda x: x % 4 == 0)) == [0, 4, 8]
    assert elements(r.take(2).concatenate(r.skip(9))) == [0, 1, 9]
    assert elements(Dataset.zip((r, r.skip(7)))) == [(0, 7), (1, 8), (2, 9)]
    assert elements(r.skip(8).enumerate(5)) == [(5, 8), (6, 9)]
    assert elements(r.batch(4, drop_remainder=True).unbatch()) == list(range(8))
    assert int(r.reduce(np.int64(0), lambda a, b: a + b)) == 45


def test_padded_batch():
    got = elements(Dataset.range(1, 4).map(lambda n: tf.fill([n], n)).padded_batch(3, [None], np.int64(-1)))
    np.testing.assert_array_equal(got[0], [[1, -1, -1], [2, 2, -1], [3, 3, 3]])
    with pytest.raises(errors.DataLossError):
        elements(Dataset.range(1, 4).map(lambda n: tf.fill([n], n)).padded_batch(3, [2]))


def test_cardinality():
    r = Dataset.range(10)
    many = (r, r.batch(3), r.batch(3, True), r.take(20), r.repeat(2), r.map(lambda x: x))
    assert [len(d) for d in many] == [10, 4, 3, 10, 20, 10]
    assert int(r.repeat().cardinality()) == tf.data.INFINITE_CARDINALITY
    assert int(r.filter(lambda x: True).cardinality()) == tf.data.UNKNOWN_CARDINALITY


def test_sparse_and_ragged_elements():
    sp = tf.sparse.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
    rows = list(Dataset.from_tensor_slices(sp))
    assert rows[0].indices.numpy().tolist() == [[1]] and rows[0].values.numpy().tolist() == [5]
    back = next(iter(Dataset.from_tensor_slices(sp).batch(2)))
    assert tf.sparse.to_dense(back).numpy().tolist() == [[0, 5], [6, 0]]
    rt = tf.ragged.constant([[1, 2], [3], []])
    assert next(iter(Dataset.from_tensors(rt))).to_list() == [[1, 2], [3], []]


def test_an_error_is_one_element():
    x = np.array([1., 2., np.nan, 4.], np.float32)
    ds = Dataset.from_tensor_slices(x).map(lambda x: tf.debugging.check_numerics(x, "bad"))
    it = iter(ds)
    assert [float(next(it)), float(next(it))] == [1, 2]
    with pytest.raises(errors.InvalidArgumentError, match="bad"):
        next(it)
    assert float(next(it)) == 4
    with pytest.raises(StopIteration):
        next(it)


def test_errors_in_functions_name_the_users_line():
    ds = Dataset.from_tensors([1., np.nan]).map(lambda x: tf.debugging.check_numerics(x, "bad"))
    with pytest.raises(errors.InvalidArgumentError, match="test_core.py"):
        next(iter(ds))


def test_iterators_of_arrays_have_next():
    iterator = Dataset.range(2).as_numpy_iterator()
    assert (iterator.next(), iterator.next()) == (0, 1)
    with pytest.raises(StopIteration):
        iterator.next()


def test_generator_is_read_lazily_and_called_anew():
    calls = []

    def generate(n):
        calls.append(int(n))
        yield from range(n)
    ds = Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.int32), args=(3,))
    assert not calls
    assert elements(ds) == elements(ds) == [0, 1, 2] and calls == [3, 3]
    with pytest.raises(errors.InvalidArgumentError, match="yielded an element"):
        elements(Dataset.from_generator(lambda: iter(["x"]), tf.int32))


@pytest.mark.parametrize("dtype", [tf.int32, tf.string, tf.bool])
def test_empty_lists_of_generators_have_the_type_of_the_dataset(dtype):
    ds = Dataset.from_generator(lambda: iter([[], ()]), output_signature=tf.TensorSpec([None], dtype))
    for element in ds:
        assert element.dtype == dtype and element.shape == [0]


@pytest.mark.parametrize("bad", [lambda r: r.batch(0), lambda r: r.shuffle(0), lambda r: r.window(0), lambda r: r.shard(0, 0),
                                 lambda r: r.batch(-5), lambda r: r.prefetch(-7), lambda r: Dataset.range(0, 5, 0)])
def test_impossible_sizes_raise(bad):
    with pytest.raises(errors.InvalidArgumentError):
        elements(bad(Dataset.range(3)))


def test_batches_of_different_shapes_raise():
    with pytest.raises(errors.InvalidArgumentError, match="different shapes in component 0"):
        elements(Dataset.range(3).map(lambda n: tf.zeros([n])).batch(3))


# -- iterators of graphs --------------------------------------------------------------------------------------------------
@pytest.fixture
def sess():
    with tf1.Graph().as_default(), tf1.Session() as s:
        yield s


def drain(sess, fetch, **kwargs):
    out = []
    with pytest.raises(errors.OutOfRangeError):
        while True:
            out.append(sess.run(fetch, **kwargs))
    return out


def test_one_shot(sess):
    x = tf1.data.make_one_shot_iterator(tf1.data.Dataset.range(3).map(lambda v: v + 1)).get_next()
    assert drain(sess, x) == [1, 2, 3]
    with tf1.Session() as other:
        assert drain(other, x) == [1, 2, 3]


def test_one_shot_refuses_state(sess):
    v = tf1.Variable(1, name="myvar", dtype=tf.int64)
    with pytest.raises(ValueError, match="capture stateful objects.+myvar"):
        tf1.data.make_one_shot_iterator(tf1.data.Dataset.range(3).map(lambda x: x + v))


def test_initializable_feeds_and_captures(sess):
    n = tf1.placeholder(tf.int64, [])
    v = tf1.get_variable("v", initializer=np.int64(10), use_resource=True)
    it = tf1.data.make_initializable_iterator(tf1.data.Dataset.range(n).map(lambda x: x + v))
    x = it.get_next()
    with pytest.raises(errors.FailedPreconditionError, match="not been initialized"):
        sess.run(x)
    sess.run(v.initializer)
    for k in (2, 3):
        sess.run(it.initializer, {n: k})
        assert drain(sess, x) == list(range(10, 10 + k))


def test_reinitializable_and_feedable(sess):
    a, b = tf1.data.Dataset.range(2), tf1.data.Dataset.range(5, 8)
    it = tf1.data.Iterator.from_structure(a.output_types, a.output_shapes)
    x = it.get_next()
    for d, want in ((a, [0, 1]), (b, [5, 6, 7])):
        sess.run(it.make_initializer(d))
        assert drain(sess, x) == want
    handles = [sess.run(tf1.data.make_one_shot_iterator(d).string_handle()) for d in (a, b)]
    h = tf1.placeholder(tf.string, [])
    y = tf1.data.Iterator.from_string_handle(h, tf.int64, []).get_next()
    assert [sess.run(y, {h: handles[i]}) for i in (0, 1, 0, 1)] == [0, 5, 1, 6]
    with pytest.raises(errors.InvalidArgumentError):
        sess.run(tf1.data.Iterator.from_string_handle(h, tf.float32, []).get_next(), {h: handles[0]})


def test_waiting_for_an_element_ends_with_the_session():
    with tf1.Graph().as_default():
        q = tf1.FIFOQueue(1, tf.int64)
        it = tf1.data.make_initializable_iterator(tf1.data.Dataset.range(3).map(lambda x: x + q.dequeue()).prefetch(1))
        x = it.get_next()
        s = tf1.Session()
        s.run(it.initializer)
        raised = []

        def wait():
            try:
                s.run(x)
            except errors.OpError as e:
                raised.append(e)
        t = threading.Thread(target=wait)
        t.start()
        t.join(0.2)
        assert t.is_alive()
        s.close()
        t.join(60)
        assert not t.is_alive() and isinstance(raised[0], errors.CancelledError)


@pytest.mark.parametrize("build", [
    lambda d: d.map(_fails, num_parallel_calls=2).prefetch(1), lambda d: d.map(_fails, num_parallel_calls=2),
    lambda d: d.map(_fails).prefetch(2),
    lambda d: d.interleave(lambda x: Dataset.from_tensors(x).map(_fails), num_parallel_calls=2)])
def test_threads_end_with_an_iterator_that_failed(build):
    """The error names the iterator in its traceback: the thread that met it must not keep it."""
    before = set(threading.enumerate())
    iterator = iter(build(Dataset.range(20)))
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            next(iterator)
    del iterator

    def ended():
        gc.collect()
        return not set(threading.enumerate()) - before
    assert eventually(ended)


def _fails(x):
    return tf.numpy_function(_refuse, [x], tf.int64)


def _refuse(x):
    raise ValueError("refused")


def test_threads_end_with_the_iterator():
    before = threading.active_count()
    it = iter(Dataset.range(1000).map(lambda x: tf.numpy_function(abs, [x], tf.int64), num_parallel_calls=3))
    next(it)
    assert threading.active_count() > before
    del it
    for t in threading.enumerate():
        if t.name == "penstock pipeline":
            t.join(60)
    assert eventually(lambda: threading.active_count() <= before)


def test_datasets_through_functions():
    @tf.function
    def total(ds):
        return ds.reduce(np.int64(0), lambda a, b: a + b)
    assert int(total(Dataset.range(4))) == 6 and int(total(Dataset.range(5))) == 10

    @tf.function
    def first():
        return next(iter(Dataset.range(7, 9)))
    assert int(first()) == int(first()) == 7


def test_graphs_with_datasets_can_be_exchanged(sess):
    it = tf1.data.make_initializable_iterator(tf1.data.Dataset.range(4).map(lambda x: x * x).batch(2))
    x = tf1.identity(it.get_next(), name="x")
    message = tf1.get_default_graph().as_graph_def()
    with tf1.Graph().as_default(), tf1.Session() as other:
        init, y = tf1.import_graph_def(message, return_elements=[it.initializer.name, x.name], name="")
        other.run(init)
        assert [v.tolist() for v in drain(other, y)] == [[0, 1], [4, 9]]


def test_counts_are_scalars():
    with tf1.Graph().as_default():
        for make in (lambda d: d.take([1, 2]), lambda d: d.skip([1]), lambda d: d.repeat([1, 2])):
            with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
                make(tf1.data.Dataset.range(3))


def test_rows_of_a_sparse_tensor_are_its_parts():
    rows = tf1.data.Dataset.from_sparse_tensor_slices(tf1.SparseTensor([[0, 0], [1, 1]], [4., 5.], [2, 3]))
    found = [[part.numpy().tolist() for part in row] for row in rows]
    assert found == [[[[0]], [4.], [3]], [[[1]], [5.], [3]]]


def test_rows_in_batches_of_another_size():
    batches = tf.data.Dataset.range(7).batch(3)
    assert [b.tolist() for b in batches.rebatch(2).as_numpy_iterator()] == [[0, 1], [2, 3], [4, 5], [6]]
    whole = batches.rebatch(2, drop_remainder=True)
    assert [b.tolist() for b in whole.as_numpy_iterator()] == [[0, 1], [2, 3], [4, 5]]
    assert whole.element_spec.shape.as_list() == [2] and batches.rebatch(2).element_spec.shape.as_list() == [None]


def test_kernels_of_pipelines_use_one_core():
    """They run beside the step: kernels of both on all cores wait for each other."""
    import torch

    from penstock._src.kernels.host_threads import libgomp
    if libgomp() is None:
        pytest.skip("torch does not use GNU's OpenMP here")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        def threads(x):
            return tf.numpy_function(lambda x: np.int64(torch.get_num_threads()), [x], tf.int64)
        ds = tf.data.Dataset.range(20).map(threads, num_parallel_calls=2).batch(4).prefetch(1)
        assert {int(n) for batch in ds for n in batch} == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("short", [0.0, 1.0])
def test_a_parallel_map_of_short_kernels_runs_where_it_is_wanted(short, monkeypatch):
    """Without threads or with them, elements, errors between them and saved positions are the same."""
    from penstock._src.data.pipelines import background
    monkeypatch.setattr(background, "_SHORT", short)
    monkeypatch.setattr(background, "_SHORT_CALL", short)
    started = []
    monkeypatch.setattr(background, "start_thread",
                        lambda *args, usual=background.start_thread: started.append(args) or usual(*args))

    def square(x):
        with tf.control_dependencies([tf.debugging.Assert(x != 7, [x])]):
            return tf.cast(x, tf.float32) ** 2 + tf.zeros([2])
    ds = tf.data.Dataset.range(12).map(square, num_parallel_calls=3)
    ds = ds.filter(lambda x: x[0] >= 0)                       # blocks are not used after it
    found, iterator = [], iter(ds)
    while True:
        try:
            found.append(float(next(iterator)[0]))
        except tf.errors.InvalidArgumentError:
            found.append(None)
        except StopIteration:
            break
    assert found == [None if i == 7 else float(i * i) for i in range(12)]
    assert bool(started) == (short == 0.0)


def test_generators_of_optionals():
    """An element of a generator may be an optional, as Keras gives for inputs that are None."""
    def elements():
        yield 1, tf.experimental.Optional.from_value(2.0)
        yield 3, tf.experimental.Optional.empty(tf.TensorSpec([], tf.float32))

    spec = tf.TensorSpec([], tf.int32), tf.OptionalSpec(tf.TensorSpec([], tf.float32))
    (a, one), (b, none) = tf.data.Dataset.from_generator(elements, output_signature=spec)
    assert (a.numpy(), b.numpy()) == (1, 3)
    assert one.get_value().numpy() == 2 and not none.has_value().numpy()


@pytest.mark.parametrize("value, dtype, wanted", [
    (np.array([1, 2], np.int64), tf.int32, [1, 2]), (np.array([1.5, -2.5]), tf.int32, [1, -2]),
    (np.float64(1.5), tf.float32, 1.5), (np.array([True]), tf.float32, [1.0]),
    (np.array([200, -1]), tf.uint8, [200, 255]), (np.array(["1"]), tf.float32, [1.0])])
def test_arrays_of_generators_are_converted_as_numpy_does(value, dtype, wanted):
    out, = tf.data.Dataset.from_generator(lambda: iter([value]), output_signature=tf.TensorSpec(None, dtype))
    assert out.dtype == dtype and out.numpy().tolist() == wanted


def test_static_shapes_of_sparse_elements():
    """What a signature says of a sparse shape is known in functions, also in those they call; each shape has its trace."""
    spec = tf.SparseTensorSpec([None, 5], tf.float32)
    element = tf.sparse.from_dense(np.eye(4, 5, dtype=np.float32))
    dataset = tf.data.Dataset.from_generator(lambda: iter([element, element]), output_signature=spec)
    assert dataset.element_spec == spec
    seen = []

    @tf.function(autograph=False)
    def inner(x):
        seen.append(x.shape.as_list())
        return tf.sparse.reduce_sum(x)

    @tf.function(autograph=False)
    def outer(iterator):
        x = next(iterator)
        seen.append(x.shape.as_list())
        y = tf.sparse.reset_shape(x, [6, 7])
        y.set_shape([6, 7])
        return inner(x), inner(tf.abs(x)), inner(y)

    assert [t.numpy() for t in outer(iter(dataset))] == [4, 4, 4]
    assert seen == [[None, 5], [None, 5], [6, 7]]


@pytest.mark.parametrize("add, n, expected", [
    (lambda ds: ds.concatenate(Dataset.range(1)), 300, [0, 1] + 300 * [0]),
    (lambda ds: ds.map(lambda x: x + 1), 120, [120, 121]),
    (lambda ds: ds.filter(lambda x: x >= 0), 120, [0, 1])], ids=["concatenate", "map", "filter"])
def test_pipelines_are_deeper_than_the_stack(add, n, expected):
    """A program may add a dataset for each of its files to the ones before."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 400)         # the smaller it is, the fewer datasets it takes
    try:
        ds = Dataset.range(2)
        for _ in range(n):
            ds = add(ds)
        assert elements(ds) == expected == elements(ds.prefetch(1))
    finally:
        sys.setrecursionlimit(limit)


def test_ranges_to_the_largest_number_have_no_end():
    largest = tf.int64.max
    assert int(tf.data.Dataset.range(largest).cardinality()) == tf.data.INFINITE_CARDINALITY
    assert int(tf.data.Dataset.range(0, largest, 2).batch(3).cardinality()) == tf.data.INFINITE_CARDINALITY
    assert int(tf.data.Dataset.range(largest - 1).cardinality()) == largest - 1
    assert int(tf.data.Dataset.counter(3, -1).repeat(2).cardinality()) == tf.data.INFINITE_CARDINALITY
    assert [int(x) for x in tf.data.Dataset.range(5, 0, -2)] == [5, 3, 1]


def test_the_ends_of_ranges_are_scalars():
    with pytest.raises(ValueError):
        tf.data.Dataset.from_tensors([1, 2]).flat_map(tf.data.Dataset.range)


def test_parallel_calls_are_not_more_than_the_cycle():
    ds = tf.data.Dataset.range(3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="cycle_length"):
        ds.interleave(tf.data.Dataset.range, cycle_length=1, num_parallel_calls=2)
    found = ds.interleave(tf.data.Dataset.range, cycle_length=2, num_parallel_calls=2)
    assert sorted(int(x) for x in found) == [0, 0, 1]


def test_skipping_known_positions_takes_no_time():
    start = 2**60
    numbers = tf.data.Dataset.range(2**62)
    assert next(iter(numbers.skip(start))).numpy() == start
    assert [x.numpy() for x in numbers.skip(start).take(3)] == [start, start + 1, start + 2]
    assert [x.numpy() for x in tf.data.Dataset.range(0, 10, 3).skip(2)] == [6, 9]
    assert not list(tf.data.Dataset.range(5).skip(2**62))
    assert [x.tolist() for x in tf.data.Dataset.from_tensor_slices(np.arange(6)).skip(4).as_numpy_iterator()] == [4, 5]


def test_a_skip_that_begins_within_a_block_jumps_from_there():
    numbers = iter(tf.data.Dataset.range(100).skip(3))
    assert [next(numbers).numpy() for _ in range(5)] == [3, 4, 5, 6, 7]
    chained = tf.data.Dataset.range(100).skip(3).skip(4)
    assert [x.numpy() for x in chained.take(2)] == [7, 8]
    pieces = tf.data.Dataset.range(10).flat_map(lambda i: tf.data.Dataset.range(i).skip(i - 1))
    assert [x.numpy() for x in pieces] == list(range(9))
