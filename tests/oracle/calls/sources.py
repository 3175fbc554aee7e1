"""Where calls come from: signatures of public functions, the samples of ops, Keras objects, chains of dataset methods."""

from __future__ import annotations

import inspect
import pathlib
import re
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.ops.registry import OPS
from tests.oracle.calls import keras_objects, operators, pipelines
from tests.oracle.calls.arguments import call
from tests.oracle.calls.values import COMPLEX, FLOATS, INTEGERS, Draw, as_numpy, encoded, tensor
from tests.registry.load import all_samples
from tests.registry.variants import cast, variants

RECORDS = pathlib.Path(__file__).parents[2] / "api"
NAMES, NAMES_V1 = RECORDS / "names_2_21.txt", RECORDS / "names_v1.txt"
FOLDERS = re.compile(
    r"^(math|linalg|nn|image|strings|signal|sparse|ragged|random|bitwise|sets|io|audio|dtypes|quantization|experimental\.numpy|"
    r"debugging|nest)\.|^[^.]+$"
)
FOLDERS_V1 = re.compile(
    r"^((math|linalg|nn|image|strings|signal|sparse|ragged|random|bitwise|sets|io|audio|dtypes|quantization|debugging|losses|layers)\.)?"
    r"[a-z]\w*$|^train\.\w*(decay|constant)\w*$"
)
# What is about the graph or the session instead of tensors.
ABOUT_GRAPHS = re.compile(
    r"collection|variables|get_default|get_seed|session|placeholder|reset_default|add_loss|losses\.get|scope|colocate|container|"
    r"tables|keras_style|record_iterator|wrap_function|make_template|hessians|add_check|serialize_many|_initialize|initialize_"
)
DRAWS = re.compile("random|dropout|shuffle|bernoulli|sampler|Random|Multinomial|Stateless|multinomial|nce_loss|sampled_softmax")
# What changes the process, reads or writes files, runs without end, or returns what nobody can compare.
LEFT_OUT = re.compile(
    r"gfile|write_|read_file|load|matching_files|py_function|numpy_function|^print$|^device$|init_scope|name_scope|control_dep|register|"
    r"enable|disable|^function$|no_op|import_graph|custom_gradient|recompute|variable_creator|get_logger|executing|RegisterGradient|"
    r"nondifferentiable_batch|^gradients$|no_gradient|grad_pass|get_current_name|while_loop|^case$|switch_case|^cond$|is_symbolic|"
    r"parse_|decode_(png|jpeg|gif|bmp|image|proto|json|wav)|jpeg_quality|py_func|inside_function|random\.[a-z]*seed|get_global|set_global|"
    r"create_rng|fixed_unigram|make_tensor_proto|group$|timestamp|tuple$|random_seed|extract_jpeg|map_fn|vectorized_map|dispatch"
)


def callable_names(names: pathlib.Path, folders: re.Pattern, prefix: str = "") -> list[str]:
    """The functions among recorded names that are called."""
    return [
        n
        for n in (line.split("(")[0] for line in names.read_text().split("\n"))
        if n
        and folders.match(n)
        and not LEFT_OUT.search(n)
        and inspect.isroutine(resolved(prefix + n))
        and not isinstance(resolved(prefix + n), type)
    ]


def functions() -> list[str]:
    """The public functions that are called."""
    return callable_names(NAMES, FOLDERS)


def functions_v1() -> list[str]:
    """The functions of compat.v1 that differ from those of 2.x."""
    names = [f"compat.v1.{n}" for n in callable_names(NAMES_V1, FOLDERS_V1, "compat.v1.") if not ABOUT_GRAPHS.search(n)]
    return [n for n in names if resolved(n) is not resolved(n.removeprefix("compat.v1."))]


def resolved(name: str) -> Any:
    """What a public name stands for here; None for what is absent."""
    value: Any = tf
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def shapes(d: Draw, args: Any) -> list:
    """Shapes under which a function takes the tensors of the arguments: known, partly known, or unknown."""
    found: list = []

    def visit(value: Any) -> None:
        if isinstance(value, list):
            for v in value:
                visit(v)
        elif isinstance(value, dict):
            ((kind, content),) = value.items()
            if kind == "tensor":
                how = d.rng.uniform()
                found.append(
                    None if how < 0.3 else [n if d.chance(0.4) else None for n in content[1]] if how < 0.8 else content[1]
                )
            elif kind == "dict":
                visit(list(content.values()))
            elif kind == "object":
                visit(content[1])
                visit(list(content[2].values()))
            elif kind in ("tuple", "ragged", "sparse", "slices", "slice"):
                visit([c for c in content if isinstance(c, dict)] if kind != "sparse" else [content[1]])

    visit(args)
    return found


def in_all_ways(d: Draw, name: str, args: list, kwargs: dict) -> Iterator[dict]:
    """The call executed eagerly, in a function, and differentiated."""
    base = {"name": name, "args": args, "kwargs": kwargs}
    yield {"kind": "eager", **base}
    found = shapes(d, [args, list(kwargs.values())])
    if found:
        yield {"kind": "function", **base, "shapes": found}
    if found and not DRAWS.search(name):
        yield {"kind": "vectorized", **base}
    if any(
        f'"{t}"' in repr(base).replace("'", '"')
        for t in ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
    ):
        yield {"kind": "gradients", **base}


def seeded(seed: int, name: str, number: int) -> Draw:
    """The random choices of one call; they do not depend on other names."""
    return Draw((zlib.crc32(f"{name} {number}".encode()) + seed) % 2**32)


def of_functions(seed: int, each: int) -> Iterator[dict]:
    """Calls of public functions."""
    for name in functions():
        signature = inspect.signature(resolved(name))
        for number in range(each):
            d = seeded(seed, name, number)
            yield from in_all_ways(d, name, *call(d, name, signature))


def of_functions_v1(seed: int, each: int) -> Iterator[dict]:
    """Calls of functions of 1.x, in graphs and eagerly."""
    for name in functions_v1():
        signature = inspect.signature(resolved(name))
        for number in range(each):
            d = seeded(seed, name, number)
            args, kwargs = call(d, name, signature)
            base = {"name": name, "args": args, "kwargs": kwargs}
            yield {"kind": "graph", **base, "shapes": shapes(d, [args, list(kwargs.values())])}
            yield {"kind": "eager", **base}


# Values that hardly any argument accepts, to compare errors.
WRONG = (None, "zebra", -7, 1e9, 2**40, [], [[1], [2, 3]], {"tuple": []}, {"dict": {}}, {"dtype": "string"}, {"lambda": "one"},
         True, {"tensor": ["string", [1], ["YQ=="]]}, {"numpy": ["float64", [0], ""]}, {"shape": None})


def of_mistakes(seed: int, each: int) -> Iterator[dict]:
    """Calls of functions with one argument that does not belong there."""
    for name in functions():
        signature = inspect.signature(resolved(name))
        for number in range(each):
            d = seeded(seed, f"{name} mistake", number)
            args, kwargs = call(d, name, signature)
            places = [*range(len(args)), *kwargs]
            if not places:
                continue
            at, wrong = d.pick(places), d.pick(WRONG)
            if isinstance(at, int):
                args[at] = wrong
            else:
                kwargs[at] = wrong
            yield {"kind": "eager", "name": name, "args": args, "kwargs": kwargs}


def of_samples(seed: int, each: int) -> Iterator[dict]:
    """Calls of raw ops: their samples, with sizes, values and attributes changed."""
    for sample in all_samples():
        op = OPS[sample.op]
        if resolved(f"raw_ops.{sample.op}") is None or any(a.is_ref for a in op.inputs if hasattr(a, "is_ref")):
            continue
        for number, (_, variant) in zip(range(each), variants(sample, op), strict=False):
            for again in range(2):
                d = seeded(seed, f"{sample.op} {zlib.crc32(repr(sample.inputs).encode())}", number * 2 + again)
                inputs = mutated(d, [np.asarray(v, object) if isinstance(v, bytes) else v for v in variant.inputs])
                kwargs = {
                    a.name: [tensor(x) for x in v] if isinstance(v, list) else tensor(v)
                    for a, v in zip(op.inputs, inputs, strict=True)
                }
                attributes = {k: attribute(v) for k, v in variant.attrs.items()}
                yield from in_all_ways(d, f"raw_ops.{sample.op}", [], {**kwargs, **attributes})


def attribute(value: Any) -> Any:
    """An attribute in the player's notation."""
    if isinstance(value, np.ndarray):
        return tensor(value)
    if isinstance(value, (list, tuple)):
        return [attribute(v) for v in value]
    if isinstance(value, (tf.DType, np.dtype)) or isinstance(value, type) and issubclass(value, np.generic):
        return {"dtype": tf.as_dtype(value).name}
    if isinstance(value, tf.TensorShape):
        return {"shape": None if value.rank is None else value.as_list()}
    if isinstance(value, bytes):
        return value.decode("latin1")
    return value.item() if isinstance(value, np.generic) else value


def mutated(d: Draw, inputs: list) -> list:
    """The inputs of a sample with one or two changes: a dimension shorter or empty everywhere, other values, special values."""
    inputs = [[np.asarray(x) for x in v] if isinstance(v, list) else np.asarray(v) for v in inputs]
    how = d.rng.uniform()
    flat = [x for v in inputs for x in (v if isinstance(v, list) else [v])]
    sizes = sorted({n for x in flat for n in x.shape if n > 1})
    if how < 0.35 and sizes:  # one size becomes smaller wherever it occurs
        size, new = d.pick(sizes), d.pick((0, 1, 1, 2))

        def cut(x: np.ndarray) -> np.ndarray:
            return x[tuple(slice(new) if n == size else slice(None) for n in x.shape)]

        return [[cut(x) for x in v] if isinstance(v, list) else cut(v) for v in inputs]
    if how < 0.75:
        at = d.integer(0, len(inputs) - 1) if inputs else 0
        return [changed(d, v) if i == at and not isinstance(v, list) else v for i, v in enumerate(inputs)]
    return inputs


def changed(d: Draw, value: np.ndarray) -> np.ndarray:
    """An array with another value somewhere."""
    if not value.size or value.dtype.kind not in "fiubc" and value.dtype.name != "bfloat16":
        return value
    value = value.copy()
    flat = value.reshape(-1)
    at = d.integer(0, flat.size - 1)
    if value.dtype.kind in "fVc":
        flat[at] = d.pick(
            (0.0, -1.0, float("nan"), float("inf"), -float("inf"), 1e30 if value.dtype.itemsize > 2 else 100.0, flat[0])
        )
    elif value.dtype.kind in "iu":
        flat[at] = d.pick((0, 1, 2, max(int(flat[at]) - 1, 0), int(flat[at]) + 1 if int(flat[at]) < 100 else 100))
    return value


def of_dtypes(seed: int, each: int) -> Iterator[dict]:
    """Samples of raw ops in every dtype that their type attributes allow."""
    for sample in all_samples():
        op = OPS[sample.op]
        if resolved(f"raw_ops.{sample.op}") is None or sample.random:
            continue
        for name, attr in op.attrs.items():
            given = [np.asarray(v[0] if isinstance(v, list) and v else v) for a, v in zip(op.inputs, sample.inputs, strict=True)
                     if a.type_attr == name]
            if attr.kind != "type" or name in sample.attrs or not given or given[0].dtype.kind not in "fiuc":
                continue
            for dtype in (*FLOATS[2:], *dict.fromkeys(INTEGERS), *COMPLEX):
                if given[0].dtype == as_numpy(dtype) or attr.allowed is not None and tf.as_dtype(dtype) not in attr.allowed:
                    continue
                inputs = cast(sample, op, name, as_numpy(dtype)).inputs
                kwargs = {a.name: [tensor(x) for x in v] if isinstance(v, list) else tensor(v)
                          for a, v in zip(op.inputs, inputs, strict=True)}
                attributes = {k: attribute(v) for k, v in sample.attrs.items()}
                yield {"kind": "eager", "name": f"raw_ops.{sample.op}", "args": [], "kwargs": {**kwargs, **attributes}}


SOURCES = {"dtypes": of_dtypes, "functions": of_functions, "functions_v1": of_functions_v1, "mistakes": of_mistakes,
           "samples": of_samples, "keras": keras_objects.calls, "data": pipelines.calls, "operators": operators.calls}

__all__ = ["SOURCES", "encoded"]
