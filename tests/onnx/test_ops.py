"""Single ops and random small graphs as ONNX: onnxruntime computes what penstock computes."""
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="onnxruntime runs the exported files")

import penstock as tf
from tests.onnx.running import agree, session

DRAW = np.random.default_rng(3)
X = DRAW.normal(size=(3, 4, 5)).astype(np.float32)
POSITIVE = np.abs(X) + 0.1
COUNTS = np.array([[7, -7, 7, -7], [6, -6, 5, 0]], np.int32)
BY = np.array([3, 3, -3, -2], np.int32)


def checked(function, folder, *arrays, tol=1e-5, open_sizes=True, **options):
    """A function of arrays, exported for open sizes or for theirs."""
    specs = [tf.TensorSpec([None] * a.ndim if open_sizes else a.shape, a.dtype, f"x{i}") for i, a in enumerate(arrays)]
    made = tf.function(function, input_signature=specs)
    feed = {f"x{i}": a for i, a in enumerate(arrays)}
    return agree(made, folder, [feed], [made(*map(tf.constant, arrays))], tol=tol, **options)


CASES = {
    "abs": (lambda x: tf.abs(x), X), "floor": (lambda x: tf.floor(x) + tf.math.ceil(x) + tf.round(x * 3), X),
    "log1p": (lambda x: tf.math.log1p(x), np.float32([1e-8, 1e-4, 0.5, 30, 1e30, np.inf, -0.5])),
    "expm1": (lambda x: tf.math.expm1(x), np.float32([1e-8, -1e-4, 0.5, 30, -80, -2])),
    "floor_div": (lambda x, y: (x // y, x % y, tf.truncatediv(x, y), tf.truncatemod(x, y)), COUNTS, BY),
    "float_mod": (lambda x, y: (x // y, x % y), X, np.float32([1, -1, 0.5, -0.25, 2])),
    "div_no_nan": (lambda x, y: tf.math.divide_no_nan(x, y), X, np.float32([0, 1, 2, 0, -1])),
    "compare": (lambda x, y: (x < y, x >= y, x == y, x != y), np.round(X), np.float32([0, 1, -1, 0, 1])),
    "logic": (lambda x: (tf.reduce_any(x > 1, 1), tf.reduce_all(x > -1), tf.math.logical_xor(x > 0, x > 1)), X),
    "select": (lambda x: tf.where(x > 0, x, tf.exp(x)), X),
    "cast": (lambda x: (tf.cast(x, tf.int32), tf.cast(x, tf.float64), tf.cast(x, tf.bool), tf.cast(x, tf.int64)), X),
    "matmul": (lambda x, y: (tf.matmul(x, y, transpose_b=True), tf.matmul(x, y, transpose_a=True)), X, X + 1),
    "einsum": (lambda x, y: tf.einsum("abc, dbc -> ad", x, y), X, X[:2]),
    "reductions": (lambda x: (tf.reduce_sum(x, [0, 2]), tf.reduce_mean(x, -1, keepdims=True), tf.reduce_max(x),
                              tf.reduce_min(x, 1), tf.reduce_prod(x, [1]), tf.reduce_logsumexp(x, 2),
                              tf.norm(x, axis=1), tf.math.reduce_variance(x, 0)), X),
    "arguments": (lambda x: (tf.argmax(x, 1), tf.argmin(x, -1, output_type=tf.int32)), X),
    "cumsum": (lambda x: (tf.cumsum(x, 1), tf.cumsum(x, -1, exclusive=True, reverse=True)), X),
    "top_k": (lambda x: tuple(tf.math.top_k(x, 2)), X),
    "shapes": (lambda x: (tf.shape(x), tf.size(x), tf.rank(x), tf.shape(x, out_type=tf.int64)), X),
    "reshape": (lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), X),
    "expand": (lambda x: (x[:, None], tf.expand_dims(x, -1), tf.squeeze(x[:1], 0), x[..., tf.newaxis, 1]), X),
    "slices": (lambda x: (x[1:, ::2], x[..., -1], x[::-1, 1:-1], x[0, 3:0:-2], x[:, -2:], x[-1, ..., 2:4]), X),
    "slice": (lambda x, n: (tf.slice(x, [0, 1, n], [-1, 2, 2]), x[:, :n], x[n], x[:, n - 2]), X, np.array(1, np.int32)),
    "join": (lambda x: (tf.concat([x, x + 1], -1), tf.stack([x, x], 1), tf.tile(x, [1, 2, 1])), X),
    "split": (lambda x: (*tf.split(x, 2, 1), *tf.split(x, [1, 3], 1), *tf.unstack(x, 4, axis=1)), X),
    "gather": (lambda x, i: (tf.gather(x, i), tf.gather(x, i, axis=2), tf.gather_nd(x, tf.stack([i, i], 1))), X,
               np.int32([2, 0])),
    "batch_gather": (lambda x, i: tf.gather(x, i, batch_dims=1), X, np.int32([[0, 3], [1, 1], [2, 0]])),
    "one_hot": (lambda i: (tf.one_hot(i, 4), tf.one_hot(i, 3, axis=0, on_value=2, off_value=-1)), np.int64([[0, 3], [-1, 7]])),
    "where": (lambda x: tf.where(x > 0.5), X),
    "pad": (lambda x: (tf.pad(x, [[0, 1], [2, 0], [1, 1]], constant_values=7.0),
                       tf.pad(x, [[1, 1], [0, 2], [0, 0]], "REFLECT")), X),
    "fill": (lambda x: (tf.zeros_like(x), tf.ones_like(x), tf.fill(tf.shape(x)[:2], 3),
                        tf.broadcast_to(x[:1], tf.shape(x))), X),
    "range": (lambda n: (tf.range(n), tf.range(n, 0, -2)), np.array(5, np.int32)),
    "reverse": (lambda x: tf.reverse(x, [0, -1]), X),
    "scatter": (lambda i, x: (tf.scatter_nd(i[:, None], x, [6, 4, 5]), tf.math.unsorted_segment_sum(x, i, 4)),
                np.int32([3, 0, 3]), X),
    "bands": (lambda x: (tf.linalg.band_part(x, 1, 0), tf.linalg.band_part(x, -1, 1)), X),
    "activations": (lambda x: (tf.nn.relu6(x), tf.nn.leaky_relu(x, 0.3), tf.nn.elu(x), tf.nn.selu(x), tf.nn.softplus(x),
                               tf.nn.softsign(x), tf.nn.gelu(x), tf.nn.silu(x), tf.nn.log_softmax(x)), X),
    "softmax": (lambda x: tf.nn.softmax(x, axis=1), X),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("open_sizes", [True, False], ids=["open", "known"])
def test_ops(name, open_sizes, tmp_path):
    function, *arrays = CASES[name]
    checked(function, tmp_path, *arrays, open_sizes=open_sizes or name in ("range",))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64"])
def test_types(dtype, tmp_path):
    x = (X * 4).astype(dtype)
    checked(lambda x: (x + x * x - tf.cast(2, x.dtype), tf.reduce_max(x, 1), tf.transpose(x, [2, 0, 1])), tmp_path, x, tol=1e-2)


def test_strings_pass_through(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "x"), tf.TensorSpec([], tf.int32, "i")])
    def chosen(x, i):
        return tf.concat([tf.gather(x, [i]), tf.constant(["z"])], 0)
    tf.onnx.export(chosen, tmp_path / "m.onnx")
    found, = session(tmp_path / "m.onnx").run(None, {"x": np.array(["a", "b"], object), "i": np.array(1, np.int32)})
    assert found.tolist() == ["b", "z"]


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
@pytest.mark.parametrize("half, corners", [(True, False), (False, False), (False, True)])
def test_resizing(method, half, corners, tmp_path):
    op = tf.raw_ops.ResizeNearestNeighbor if method == "nearest" else tf.raw_ops.ResizeBilinear
    x = DRAW.normal(size=(2, 4, 6, 3)).astype(np.float32)
    for size in ([8, 9], [3, 4], [5, 12]):
        checked(lambda x, size=size: op(images=x, size=size, half_pixel_centers=half, align_corners=corners), tmp_path, x)


def test_blocks_and_normalization_over_channels(tmp_path):
    x = DRAW.normal(size=(2, 4, 6, 8)).astype(np.float32)
    checked(lambda x: (tf.nn.depth_to_space(x, 2), tf.nn.space_to_depth(x, 2),
                       tf.nn.local_response_normalization(x, 2, 1.0, 0.1, 0.7)), tmp_path, x)


# -- random graphs ------------------------------------------------------------------------------------------------------
UNARY = [tf.abs, tf.negative, tf.tanh, tf.sigmoid, tf.nn.relu, tf.sin, tf.square, tf.floor,
         lambda x: tf.sqrt(tf.abs(x)), lambda x: tf.nn.softmax(x), lambda x: tf.nn.softplus(x)]
BINARY = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, lambda x, y: tf.where(x > y, x, y * 0.5),
          tf.math.squared_difference, lambda x, y: x / (tf.abs(y) + 1.0)]
REDUCE = [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min]


@st.composite
def programs(draw):
    """Steps on a list of values of one rank; each adds one."""
    return draw(st.lists(st.one_of(
        st.tuples(st.just("unary"), st.integers(0, len(UNARY) - 1), st.integers(0, 9)),
        st.tuples(st.just("binary"), st.integers(0, len(BINARY) - 1), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("reduce"), st.integers(0, len(REDUCE) - 1), st.integers(0, 9), st.integers(-3, 2)),
        st.tuples(st.just("transpose"), st.integers(0, 9), st.permutations([0, 1, 2]))), min_size=1, max_size=8))


def run_program(steps, values):
    values = list(values)
    for kind, *rest in steps:
        if kind == "unary":
            made = UNARY[rest[0]](values[rest[1] % len(values)])
        elif kind == "binary":
            made = BINARY[rest[0]](values[rest[1] % len(values)], values[rest[2] % len(values)])
        elif kind == "reduce":
            made = REDUCE[rest[0]](values[rest[1] % len(values)], rest[2], keepdims=True)
        else:
            made = tf.transpose(values[rest[0] % len(values)], rest[1])
        values.append(made)
    return values[2:]


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=programs(), seed=st.integers(0, 1000), known=st.booleans())
def test_random_graphs(steps, seed, known, tmp_path):
    """Cubes keep every transpose and broadcast valid; the second input has rows of size one."""
    draw = np.random.default_rng(seed)
    x, y = (draw.normal(size=s).astype(np.float32) for s in ((3, 3, 3), (1, 3, 1)))
    checked(lambda x, y: run_program(steps, (x, y)), tmp_path, x, y, tol=1e-3, open_sizes=not known)
