"""Every sample of every op: value, graph against eager, static shapes, unknown shapes, GraphDef, dtypes, gradients."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.graph.gradients import is_trainable
from penstock._src.ops.registry import GRADIENTS, OPS
from tests.oracle.differences import unset
from tests.registry import recorded
from tests.registry.compare import TOLERANCE, differs
from tests.registry.load import all_samples, ids
from tests.registry.running import Built, eager, flat_arrays
from tests.registry.variants import variants

ALL = all_samples()
each = pytest.mark.parametrize("sample", ALL, ids=ids(ALL))


def same(found, expected, rtol=1e-5, atol=1e-5):
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        # As an array of numpy's own strings, a string would lose the zeros at its end.
        f, e = (np.array(v, object) if isinstance(v, bytes) else np.asarray(v) for v in (f, e))
        assert f.shape == e.shape
        if f.dtype == object or f.dtype.kind in "SUb":
            assert f.tolist() == e.tolist()
        elif f.dtype.fields is None:
            wide = np.complex128 if f.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(f.astype(wide), e.astype(wide), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "sample"), list(zip(ids(ALL), ALL, strict=True)), ids=ids(ALL))
def test_value(name, sample):
    """The kernel against numpy, or else against what real TensorFlow gave."""
    if sample.expect is None:
        found, given = eager(sample), recorded.values(name, sample)
        if given is not None:
            tolerance = max((TOLERANCE.get(np.asarray(v).dtype.name, 0) for v in (*flat_arrays(sample), *found)), default=0)
            skipped = unset(sample, str(flat_arrays(sample)[0].dtype) if sample.inputs else "")
            assert [differs(f, g, tolerance) for i, (f, g) in enumerate(zip(found, given, strict=True))
                    if i not in skipped and differs(f, g, tolerance)] == []
        return
    want = sample.expect(*sample.inputs)
    same(eager(sample), list(want) if isinstance(want, (list, tuple)) else [want], sample.rtol, sample.atol)


@each
def test_graph_agrees_with_eager(sample):
    """A session returns what eager execution returns; static shapes hold for the actual values."""
    built = Built(sample)
    found = built.run()
    for t, v in zip(built.outputs, found, strict=True):
        if hasattr(v, "shape"):
            assert t.shape.is_compatible_with(np.shape(v)), f"static {t.shape}, actual {np.shape(v)}"
            assert t.dtype.base_dtype == tf.string or t.dtype.is_quantized or t.dtype.base_dtype == tf.as_dtype(v.dtype)
    if not sample.random:
        same(found, eager(sample), 1e-4, 1e-4)


@each
@pytest.mark.parametrize("unknown", ["dims", "rank"])
def test_unknown_shapes(sample, unknown):
    """With unknown dimensions or ranks the op still builds, runs, and claims no wrong shape."""
    try:
        built = Built(sample, unknown)
    except ValueError as e:
        pytest.skip(f"needs static information, as in TensorFlow: {e}")
    found = built.run()
    assumed = sample.attrs.get("incompatible_shape_error") is False      # shapes are assumed to broadcast, as in TensorFlow
    for t, v in zip(built.outputs, found, strict=True):
        if hasattr(v, "shape") and not assumed:
            assert t.shape.is_compatible_with(np.shape(v)), f"static {t.shape}, actual {np.shape(v)}"
    if not sample.random:
        same(found, eager(sample), 1e-4, 1e-4)


@each
def test_graphdef_round_trip(sample):
    """Written as a GraphDef and read back, the graph returns the same values."""
    built = Built(sample)
    if not built.outputs:
        return
    message = built.graph.as_graph_def()
    with tf.Graph().as_default() as g:
        tf.import_graph_def(type(message).FromString(message.SerializeToString()), name="")
        with tf.Session() as sess:
            found = sess.run([t.name for t in built.outputs], {k.name: v for k, v in built.feeds.items()})
        assert g.as_graph_def().node[-1].op == message.node[-1].op
    if not sample.random:
        same(found, eager(sample), 1e-4, 1e-4)


# What they return has the bytes of the type in it, or its lowest and highest numbers.
SHOW_THE_TYPE = {"Bitcast", "SerializeTensor", "SerializeSparse", "SerializeManySparse", "UnsortedSegmentMin",
                 "UnsortedSegmentMax", "TensorSummary", "TensorSummaryV2"}


def in_other_dtypes(found):
    return [(label, s, v) for s in found for label, v in variants(s, OPS[s.op]) if v is not s]


def check_dtype(sample, variant):
    """An op runs in every dtype that it declares, or says that it has no kernel; in double precision, as in single."""
    try:
        found = Built(variant).run()
    except (TypeError, ValueError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError):
        return
    same_kind = [np.asarray(a).dtype == np.float64 for a in flat_arrays(variant) if np.asarray(a).dtype.kind == "f"]
    if all(same_kind) and same_kind and not sample.random and sample.op not in SHOW_THE_TYPE:
        same(found, eager(sample), 2e-3, 2e-3)


FIRST = in_other_dtypes([s for s, name in zip(ALL, ids(ALL), strict=True) if name.endswith("-0")])
OTHERS = in_other_dtypes([s for s, name in zip(ALL, ids(ALL), strict=True) if not name.endswith("-0")])


@pytest.mark.parametrize(("sample", "variant"), [c[1:] for c in FIRST], ids=[f"{s.op}-{label}" for label, s, _ in FIRST])
def test_other_dtypes(sample, variant):
    check_dtype(sample, variant)


@pytest.mark.slow
@pytest.mark.parametrize(("sample", "variant"), [c[1:] for c in OTHERS],
                         ids=[f"{n}-{s.op}-{label}" for n, (label, s, _) in enumerate(OTHERS)])
def test_other_dtypes_of_other_samples(sample, variant):
    check_dtype(sample, variant)


def differentiable(sample):
    return sample.grad is not False and not sample.random and GRADIENTS.get(sample.op) is not None and any(
        a.dtype in (np.float32, np.float64, np.complex64, np.complex128) for a in flat_arrays(sample))


SMOOTH = [s for s in ALL if differentiable(s)]


@pytest.mark.parametrize("sample", SMOOTH, ids=ids(SMOOTH))
def test_gradient(sample):
    """The gradient against central differences along a random direction, in double precision where the op has it."""
    wide = _widened(sample)
    built = Built(wide)
    with built.graph.as_default():
        rng = np.random.RandomState(3)
        ys = [t for i, t in enumerate(built.outputs) if is_trainable(t) and smooth(t)
              and (sample.through is None or i in sample.through)]
        xs = [t for i, t in enumerate(built.inputs) if t in built.feeds and smooth(t)
              and (sample.grad is True or i in sample.grad)]
        if not ys or not xs:
            pytest.skip("no floating inputs and outputs")
        with tf.Session() as sess:
            shapes = [np.shape(v) for v in sess.run(ys, built.feeds)]
            weights = [direction(rng, s, y.dtype.as_numpy_dtype) for y, s in zip(ys, shapes, strict=True)]
            loss = tf.add_n([tf.cast(tf.reduce_sum(tf.math.real(y * tf.constant(w))), tf.float64)
                             for y, w in zip(ys, weights, strict=True)])
            grads = tf.gradients(loss, xs)
            double = all(t.dtype in (tf.float64, tf.complex128) for t in (*xs, *ys))
            check_directions(sess, loss, xs, grads, built.feeds, rng, double)


def smooth(t):
    return t.dtype.is_floating or t.dtype.is_complex


def direction(rng, shape, dtype):
    """Random numbers between -1 and 1, in both parts of complex ones."""
    made = rng.uniform(-1, 1, shape)
    return (made + 1j * rng.uniform(-1, 1, shape) if np.dtype(dtype).kind == "c" else made).astype(dtype)


def check_directions(sess, loss, xs, grads, feeds, rng, double):
    """d loss / d x · v by the gradient and by central differences."""
    values = sess.run([tf.convert_to_tensor(g) for g in grads if g is not None], feeds)
    known = iter(values)
    for x, g in zip(xs, grads, strict=True):
        got = next(known) if g is not None else np.zeros(np.shape(feeds[x]))
        v = direction(rng, np.shape(feeds[x]), feeds[x].dtype)
        eps = 1e-5 if double else 1e-2
        hi = sess.run(loss, {**feeds, x: feeds[x] + eps * v})
        lo = sess.run(loss, {**feeds, x: feeds[x] - eps * v})
        numeric, exact = (hi - lo) / (2 * eps), float(np.sum(np.conj(got.astype(np.complex128)) * v).real)
        assert np.isclose(numeric, exact, rtol=1e-4 if double else 3e-2, atol=1e-4 if double else 3e-2), \
            f"{x.name}: numeric {numeric}, gradient {exact}"


WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}
WIDER_ATTR = {tf.float32: tf.float64, tf.complex64: tf.complex128}


def _widened(sample):
    """The sample in double precision, if the op takes it."""
    import dataclasses

    def up(a):
        a = np.asarray(a)
        return a.astype(WIDER.get(a.dtype, a.dtype))
    wide = dataclasses.replace(sample, inputs=tuple([up(a) for a in v] if isinstance(v, list) else up(v)
                                                    for v in sample.inputs),
                               attrs={k: WIDER_ATTR.get(v, v) if isinstance(v, tf.DType) else v
                                      for k, v in sample.attrs.items()})
    try:
        Built(wide)
        return wide
    except (TypeError, ValueError):
        return sample


def test_every_sample_names_an_op():
    assert [s.op for s in ALL if s.op not in OPS] == []


def test_nearly_every_sample_has_a_reference_for_its_value():
    """`make oracle` records TensorFlow's values for samples that have none."""
    bare = [n for n, s in zip(ids(ALL), ALL, strict=True) if recorded.wanted(s) and recorded.values(n, s) is None]
    assert len(bare) <= 0.05 * len(ALL), f"run `make oracle`: {bare}"
