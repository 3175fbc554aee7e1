"""`python player.py MODULE CASES RESULTS [DONE ...]`: makes the calls of a file, with MODULE as TensorFlow.

The same file runs on both sides, so it knows neither the generator nor penstock. A call that lasts longer than its time is
ended together with the process; the caller starts the next one behind it.
"""

import base64
import importlib
import json
import os
import signal
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import ml_dtypes
import numpy as np

tf = importlib.import_module(sys.argv[1])
SECONDS = 20  # of one call
SEED = 5
EXTENDED = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")}


def named(name):
    """What a public name stands for."""
    value = tf
    for part in name.split("."):
        value = getattr(value, part)
    return value


def array(spec):
    """A numpy array of what the generator wrote."""
    dtype, shape, data = spec
    if dtype == "string":
        out = np.empty(len(data), object)
        out[:] = [base64.b64decode(x) for x in data]
        return out.reshape(shape)
    raw = base64.b64decode(data)
    return np.frombuffer(raw, EXTENDED.get(dtype) or np.dtype(dtype)).reshape(shape).copy()


def scalar(value):
    """A value that takes one argument, for parameters that want a function."""
    return value


def build(value, tensors):
    """An argument; the next of `tensors` stands where one is given, and is appended where the list is to be filled."""
    if not isinstance(value, dict):
        return [build(v, tensors) for v in value] if isinstance(value, list) else value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors(array(content), content[0])
    if kind == "numpy":
        return array(content)
    if kind == "tuple":
        return tuple(build(v, tensors) for v in content)
    if kind == "dict":
        return {k: build(v, tensors) for k, v in content.items()}
    if kind == "dtype":
        return tf.as_dtype(content)
    if kind == "shape":
        return tf.TensorShape(content)
    if kind == "function":
        return named(content)
    if kind == "lambda":
        return LAMBDAS[content]
    if kind == "complex":
        return complex(*content)
    if kind == "slice":
        return slice(*(build(v, tensors) for v in content))
    if kind == "ellipsis":
        return ...
    if kind == "newaxis":
        return tf.newaxis
    if kind == "ragged":
        values, splits = content
        return tf.RaggedTensor.from_nested_row_splits(build(values, tensors), [np.array(s, np.int64) for s in splits])
    if kind == "sparse":
        indices, values, shape = content
        return tf.SparseTensor(array(indices), build(values, tensors), shape)
    if kind == "slices":
        values, indices, shape = content
        return tf.IndexedSlices(build(values, tensors), tf.constant(indices, tf.int32), tf.constant(shape, tf.int32))
    if kind == "variable":
        return tf.Variable(array(content))
    if kind == "object":
        name, args, kwargs = content
        return named(name)(*build(args, tensors), **{k: build(v, tensors) for k, v in kwargs.items()})
    raise ValueError(kind)


LAMBDAS = {
    "identity": lambda x: x,
    "double": lambda x: x + x,
    "square": lambda x: x * x,
    "add": lambda a, b: a + b,
    "pair": lambda x: (x, x),
    "shape": lambda x: tf.shape(x),
    "sum": lambda x: tf.reduce_sum(x),
    "positive": lambda x: tf.reduce_sum(tf.cast(x, tf.float32)) > 0,
    "even": lambda x: tf.equal(tf.cast(x, tf.int64) % 2, 0),
    "mod3": lambda x: tf.cast(x, tf.int64) % 3,
    "as_string": lambda x: tf.strings.as_string(x),
    "range": lambda x: tf.data.Dataset.range(tf.cast(x, tf.int64) % 4),
    "repeat2": lambda x: tf.data.Dataset.from_tensors(x).repeat(2),
    "batch2": lambda key, window: window.batch(2),
    "length": lambda x: tf.cast(tf.size(x), tf.int32),
    "scan": lambda state, x: (state + tf.cast(x, tf.int64), x),
    "reduce": lambda state, x: state + tf.cast(x, tf.int64),
    "flatten": lambda x: tf.data.Dataset.from_tensor_slices(tf.reshape(x, [-1])),
    "one": lambda: tf.constant(1),
    "two": lambda: tf.constant(2),
    "less": lambda i: i < 5,
    "increment": lambda i: i + 1,
}


def numbers(value):
    """An array as JSON: dtype, shape, content."""
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in value.ravel().tolist()]
        return ["string", list(value.shape), [base64.b64encode(v).decode() for v in flat]]
    return [value.dtype.name, list(value.shape), base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()]


def leaves(value, out):
    """Appends [kind, content] of every part of a result."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, complex)):
        out.append([type(value).__name__, repr(value)])
    elif isinstance(value, tf.IndexedSlices):
        out.append(["slices", numbers(tf.convert_to_tensor(value))])
    elif isinstance(value, tf.RaggedTensor):
        out.append(["ragged", numbers(value.flat_values)])
        out.extend(["splits", numbers(s)] for s in value.nested_row_splits)
    elif isinstance(value, tf.SparseTensor):
        out.extend(["sparse", numbers(v)] for v in (value.indices, value.values, value.dense_shape))
    elif isinstance(value, tf.TensorShape):
        out.append(["shape", repr(value.as_list() if value.rank is not None else None)])
    elif isinstance(value, tf.DType):
        out.append(["dtype", value.name])
    elif isinstance(value, tf.data.Dataset):
        out.append(["spec", repr(value.element_spec)])
        for element in value.take(40):
            leaves(element, out)
    elif isinstance(value, dict):
        for k in sorted(value, key=repr):
            out.append(["key", repr(k)])
            leaves(value[k], out)
    elif isinstance(value, (list, tuple)):
        out.append([type(value).__name__, str(len(value))])
        for v in value:
            leaves(v, out)
    elif isinstance(value, tf.Variable):
        out.append(["variable", numbers(value.numpy())])
    elif tf.is_tensor(value):
        if value.dtype in (tf.variant, tf.resource):
            out.append(["tensor", value.dtype.name])
        else:
            out.append(["tensor", numbers(value.numpy())])
    elif isinstance(value, (np.ndarray, np.generic)):
        out.append(["numpy", numbers(value)])
    else:
        out.append(["object", type(value).__name__])
    return out


def constant(value, dtype):
    """The tensor of an array, in the dtype of the generator (numpy has no string dtype of its own)."""
    return tf.constant(value, tf.as_dtype(dtype))


def called(case, tensors):
    """The result of the case's call."""
    target = case["name"]
    args = build(case["args"], tensors)
    kwargs = {k: build(v, tensors) for k, v in case["kwargs"].items()}
    if target.startswith("."):  # a method or attribute of the first argument
        method = getattr(args[0], target[1:])
        return method(*args[1:], **kwargs) if callable(method) else method
    return named(target)(*args, **kwargs)


def eagerly(case):
    """The result of the call, executed eagerly."""
    return leaves(called(case, constant), [])


def in_function(case):
    """The static shapes and the result of the call inside of a function whose arguments have the shapes of the case."""
    arrays = []
    called_specs = iter(case["shapes"])

    def collect(value, dtype):
        arrays.append((constant(value, dtype), tf.TensorSpec(next(called_specs), tf.as_dtype(dtype))))
        return arrays[-1][0]

    build(case["args"], collect)
    for v in case["kwargs"].values():
        build(v, collect)
    static = []

    def body(*tensors):
        given = iter(tensors)
        static.clear()
        result = called(case, lambda value, dtype: next(given))
        for leaf in tf.nest.flatten(result, expand_composites=True):
            if tf.is_tensor(leaf):
                static.append(["static", leaf.dtype.name, repr(leaf.shape.as_list() if leaf.shape.rank is not None else None)])
        return result

    result = tf.function(body, input_signature=[s for _, s in arrays], autograph=False)(*[t for t, _ in arrays])
    return leaves(result, []) + sorted(static)


def rows(value):
    """An argument and two others like it: the same elements in reverse order, and the argument again."""
    return np.stack([value, value.reshape(-1)[::-1].reshape(value.shape), value])


def vectorized(case):
    """The result of the call inside of vectorized_map, for three rows of arguments."""
    stacked = []

    def collect(value, dtype):
        stacked.append(constant(rows(value), dtype))
        return constant(value, dtype)

    build([case["args"], list(case["kwargs"].values())], collect)

    def body(row):
        given = iter(row)
        return called(case, lambda value, dtype: next(given))

    return leaves(tf.vectorized_map(body, stacked), [])


def in_graph(case):
    """The static shapes, the result and the gradients of the call in a graph of 1.x, with placeholders for its tensors."""
    v1 = tf.compat.v1
    given, specs, static = {}, iter(case["shapes"]), []

    def placeholder(value, dtype):
        tensor = v1.placeholder(tf.as_dtype(dtype), next(specs))
        given[tensor] = value
        return tensor

    with v1.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(SEED)
        result = called(case, placeholder)
        flat = [x for x in tf.nest.flatten(result, expand_composites=True) if x is not None]
        tensors = [x for x in flat if tf.is_tensor(x)]
        for x in tensors:
            static.append(["static", x.dtype.name, repr(x.shape.as_list() if x.shape.rank is not None else None)])
        xs = [x for x in given if x.dtype.is_floating or x.dtype.is_complex]
        ys = [x for x in tensors if x.dtype.is_floating or x.dtype.is_complex]
        slopes = [g for g in v1.gradients(ys, xs) if g is not None] if xs and ys else []
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
        out = leaves([x for x in flat if not tf.is_tensor(x) and not isinstance(x, v1.Operation)], [])
        leaves(session.run([x for x in tensors if x.dtype not in (tf.variant, tf.resource)], given), out)
        slices = [tf.convert_to_tensor(g) for g in slopes]
        return leaves(session.run(slices, given), out) + sorted(static)


def differentiable(value):
    """The parts of a result that a tape can differentiate."""
    flat = tf.nest.flatten(value, expand_composites=True)
    return [v for v in flat if tf.is_tensor(v) and (v.dtype.is_floating or v.dtype.is_complex)]


def weights(tensor):
    """Fixed numbers of a tensor's shape and dtype, as the gradient of an output."""
    n = np.cos(np.arange(int(np.prod(tensor.shape))) + 1.0).reshape(tensor.shape)
    return tf.cast(tf.constant(n, tf.float64), tensor.dtype)


def gradients(case):
    """First and second derivatives by the case's inputs, and which of them are None or slices."""
    xs = []

    def watched(value, dtype):
        tensor = constant(value, dtype)
        if tensor.dtype.is_floating or tensor.dtype.is_complex:
            outer.watch(tensor)
            inner.watch(tensor)
            xs.append(tensor)
        return tensor

    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            ys = differentiable(called(case, watched))
        if not ys or not xs:
            return [["none", "no outputs"]]
        first = inner.gradient(ys, xs, [weights(y) for y in ys])
        found = [tf.convert_to_tensor(g) for g in first if g is not None]
    out = leaves(first, [])
    if found:
        try:
            leaves(outer.gradient(found, xs, [weights(g) for g in found]), out)
        except LookupError as e:
            out.append(["second", type(e).__name__])
    return out


def configuration(one):
    """The configuration of a Keras object, without names and nested objects; lists of all kinds are written alike."""

    def simple(value):
        if isinstance(value, (np.ndarray, np.integer)):
            return simple(value.item() if value.ndim == 0 else value.tolist())
        if isinstance(value, (list, tuple)):
            return [simple(v) for v in value]
        return float(f"{value:.6g}") if type(value) is float else value

    return [
        ["config", f"{k}={simple(v)!r}"] for k, v in sorted(one.get_config().items()) if k != "name" and not isinstance(v, dict)
    ]


def layer(case):
    """What a Keras layer computes with fixed weights, and what it says of itself."""
    one = named(case["name"])(**{k: build(v, constant) for k, v in case["kwargs"].items()})
    args = build(case["args"], constant)
    kwargs = {k: build(v, constant) for k, v in case["call"].items()}
    one(*args, **kwargs)
    rng = np.random.RandomState(SEED)
    one.set_weights([rng.uniform(0.1, 1.0, w.shape).astype(w.dtype) for w in one.get_weights()])
    with tf.GradientTape() as tape:
        result = one(*args, **kwargs)
        ys = differentiable(result)
    out = leaves(result, [])
    out.extend(["weight", w.name.split("/")[-1] + " " + repr(w.shape.as_list()) + str(w.trainable)] for w in one.weights)
    if ys and one.trainable_variables:
        leaves(tape.gradient(ys, one.trainable_variables, [weights(y) for y in ys]), out)
    out.extend(configuration(one))
    specs = [tf.TensorShape(a.shape) for a in args if tf.is_tensor(a)]
    if len(specs) == 1:
        try:
            leaves(one.compute_output_shape(specs[0]), out)
        except NotImplementedError:
            out.append(["shape", "not implemented"])
    return out


def measured(case):
    """A loss called, or a metric updated twice."""
    one = named(case["name"])(**{k: build(v, constant) for k, v in case["kwargs"].items()})
    args = build(case["args"], constant)
    kwargs = {k: build(v, constant) for k, v in case["call"].items()}
    out = leaves(one(*args, **kwargs), [])
    if hasattr(one, "update_state"):
        one.update_state(*args, **kwargs)
        leaves(one.result(), out)
        out.extend(["weight", repr(w.shape.as_list())] for w in one.weights)
        leaves([w.numpy() for w in one.weights], out)
        one.reset_state()
        leaves(one.result(), out)
    return out


def optimized(case):
    """Some steps of an optimizer, dense and sparse."""
    one = named(case["name"])(**{k: build(v, constant) for k, v in case["kwargs"].items()})
    variables = [tf.Variable(array(v)) for v in case["variables"]]
    for step in case["steps"]:
        one.apply_gradients(zip(build(step, constant), variables, strict=True))
    out = leaves([v.numpy() for v in variables], [])
    out.extend(configuration(one))
    return out


def chained(case):
    """The elements of a chain of calls: each method is called on what the one before it returned."""
    value = named(case["name"])(*build(case["args"], constant), **{k: build(v, constant) for k, v in case["kwargs"].items()})
    for method, args, kwargs in case["chain"]:
        value = getattr(value, method)(*build(args, constant), **{k: build(v, constant) for k, v in kwargs.items()})
    out = leaves(value, [])
    if isinstance(value, tf.data.Dataset):
        out.append(["cardinality", str(int(value.cardinality()))])
    return out


KINDS = {
    "eager": eagerly,
    "function": in_function,
    "gradients": gradients,
    "vectorized": vectorized,
    "graph": in_graph,
    "layer": layer,
    "measured": measured,
    "optimizer": optimized,
    "chain": chained,
}


def shown(error):
    """An error in one line."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return lines[-1 if lines[0] == "in user code:" else 0].strip()[:300]


def main():
    """Writes one line of JSON per case, at once."""
    warnings.simplefilter("ignore")
    done = set(sys.argv[4:])
    with open(sys.argv[2]) as cases, open(sys.argv[3], "a", buffering=1) as out:
        for line in cases:
            case = json.loads(line)
            if str(case["id"]) in done:
                continue
            out.write(json.dumps({"start": case["id"]}) + "\n")
            signal.alarm(SECONDS)
            tf.random.set_seed(SEED)
            try:
                answer = {"id": case["id"], "leaves": KINDS[case["kind"]](case)}
            except Exception as e:
                answer = {
                    "id": case["id"],
                    "error": type(e).__name__,
                    "bases": [c.__name__ for c in type(e).__mro__],
                    "text": shown(e),
                }
            signal.alarm(0)
            out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
