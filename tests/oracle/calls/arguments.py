"""Arguments for public functions, from their signatures: the name of a parameter says what is usually given for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.calls.values import COMPLEX, FLOATS, INTEGERS, STRINGS, Draw, encoded, plain, tensor

MAKERS: list[tuple[re.Pattern, Callable[[Draw, str], Any]]] = []
OMIT = object()  # a maker's word for: leave the parameter out


def makes(pattern: str) -> Callable:
    """Registers what is given for the parameters whose name matches, as `function parameter` (the name alone after a space)."""

    def register(maker: Callable) -> Callable:
        MAKERS.append((re.compile(pattern), maker))
        return maker

    return register


def note(d: Draw, name: str, value: np.ndarray) -> Any:
    """Keeps an array for the parameters after it."""
    d.made.setdefault("first", value)
    d.made[name] = value
    return d.wrap(value)


def first_shape(d: Draw) -> list[int]:
    """The shape of the call's first tensor."""
    return list(d.made["first"].shape) if "first" in d.made else d.shape


def first_rank(d: Draw) -> int:
    """The rank of the call's first tensor."""
    return len(first_shape(d))


@makes(r" (axis|dim|axes|batch_axis|seq_axis|axis1|axis2|axisa|axisb|axisc|concat_dim|reduction_dimension|source|destination)$")
def axis(d: Draw, name: str) -> Any:
    rank = first_rank(d)
    how = d.rng.uniform()
    one = d.integer(-rank, rank - 1) if rank and how < 0.95 else d.integer(-4, 4)
    if name.endswith("axes") or how < 0.12:
        return [d.integer(-max(rank, 1), max(rank - 1, 0)) for _ in range(d.integer(0, 2))] if not d.chance(0.2) else one
    if how < 0.2:
        return tensor(np.array(one, d.pick(("int32", "int64"))))
    return None if how < 0.25 else one


@makes(
    r" (shape|output_shape|dims|size|new_shape|newshape|input_sizes|dense_shape|sizes|batch_shape|"
    r"mask_shape|noise_shape|inner_shape)$"
)
def shape(d: Draw, name: str) -> Any:
    known = first_shape(d)
    if "image" in name:
        value = [d.integer(1, 8), d.integer(1, 8)]
    elif d.chance(0.5) and known:
        value = [known[i] for i in d.rng.permutation(len(known))]
    else:
        value = d.some_shape()
    if "reshape" in name and value and d.chance(0.5):
        value[d.integer(0, len(value) - 1)] = -1
    how = d.rng.uniform()
    return tensor(np.array(value, d.pick(("int32", "int64")))) if how < 0.4 else {"tuple": value} if how < 0.5 else value


@makes(r" (paddings|pad_width|base_paddings|crops)$")
def paddings(d: Draw, name: str) -> Any:
    pairs = d.rng.randint(0, 3, (max(first_rank(d), 1) if "batch" not in name else d.integer(1, 2), 2))
    return d.wrap(pairs.astype("int32"))


@makes(r" (perm|permutation)$")
def perm(d: Draw, name: str) -> Any:
    return None if d.chance(0.2) else d.wrap(d.rng.permutation(first_rank(d)).astype(d.pick(("int32", "int64"))))


@makes(
    r" (dtype|out_type|output_type|Tout|x_type|y_type|type1|type2|index_type|output_idx_type|type|arg1|"
    r"arg2|row_splits_dtype|output_dtype|tensor_dtype)$"
)
def dtype(d: Draw, name: str) -> Any:
    some = (
        ("int32", "int64") if re.search("out|index|splits", name) and d.chance(0.7) else (*FLOATS, *INTEGERS, *COMPLEX, "bool")
    )
    found = d.pick(some)
    return found if d.chance(0.15) else {"dtype": found}


@makes(r" (seed|key|counter)$")
def seed(d: Draw, name: str) -> Any:
    return (
        tensor(d.rng.randint(-9, 99, 2).astype(d.pick(("int32", "int64"))))
        if "stateless" in name or "key" in name
        else d.integer(0, 99)
    )


@makes(r" (segment_ids|value_rowids)$")
def segment_ids(d: Draw, name: str) -> Any:
    n = first_shape(d)[0] if first_rank(d) else 1
    ids = np.sort(d.rng.randint(0, 4, n)) if "unsorted" not in name else d.rng.randint(-1, 4, n)
    return tensor(ids.astype(d.pick(("int32", "int64"))))


@makes(
    r" (num_segments|num_classes|depth|num_rows|num_cols|num_columns|num_buckets|num_partitions|"
    r"vocab_size|nbins|minlength|maxlength|maxlen|nrows|num_split)$"
)
def count(d: Draw, name: str) -> Any:
    n = d.integer(0, 6)
    return tensor(np.array(n, d.pick(("int32", "int64")))) if d.chance(0.3) else n


@makes(
    r" (indices|ids|begin|shift|multiples|reps|repeats|partitions|targets|lengths|seq_lengths|"
    r"sequence_length|block_shape|index|starts|limits|pos|len)$"
)
def indices(d: Draw, name: str) -> Any:
    known = first_shape(d)
    low, high = (-1, 3) if re.search("shift|pos", name) else (0, max(known[0] if known else 1, 1) - (not d.chance(0.05)))
    if "nd" in name:
        shape = [*d.some_shape(d.integer(0, 2)), d.integer(0, max(len(known), 1))]
        return tensor(d.rng.randint(0, max(min(known or [1]), 1), shape).astype(d.pick(("int32", "int64"))))
    if re.search("multiples|shift|reps|block_shape", name):
        return d.wrap(d.rng.randint(low, max(high, low) + 2, len(known)).astype(d.pick(("int32", "int64"))))
    if re.search("length|pos|len|starts|limits|repeats", name):
        return d.wrap(d.rng.randint(low, max(high, low) + 2, known[: d.integer(0, 1)]).astype(d.pick(("int32", "int64"))))
    value = d.rng.randint(low, max(high, low) + 1, d.some_shape()).astype(d.pick(("int32", "int64")))
    return d.wrap(value)


@makes(r"(strings|bytes|decode_raw|base64|to_number|unicode|regex|hash)\S* (input|inputs|data|a|x|input_bytes|strings|bytes)$")
def strings(d: Draw, name: str) -> Any:
    value = d.numbers(d.some_shape(), "string")
    d.made["first"] = value
    how = d.rng.uniform()
    if how < 0.1:
        return {"ragged": [tensor(d.numbers([4], "string")), [[0, 1, 1, 4]]]}
    return d.pick(STRINGS) if how < 0.15 else tensor(value)


@makes(r" (images?|img1|img2|contents_image)$")
def images(d: Draw, name: str) -> Any:
    if "first" in d.made:
        return tensor(d.numbers(d.made["first"].shape, d.made["first"].dtype.name, 0, 1))
    kind = d.pick(("float32", "float32", "uint8", "float16", "float64", "int32", "uint16", "bfloat16"))
    side = (12, 13) if "ssim" in name else (d.integer(1, 6), d.integer(1, 6))
    value = d.numbers([*([d.integer(1, 2)] if d.chance(0.4) else []), *side, d.pick((3, 3, 3, 1, 4))], kind, 0, 1)
    if kind == "uint8":
        value = d.rng.randint(0, 256, value.shape).astype("uint8")
    d.made["first"] = value
    return tensor(value)


@makes(r" (target_height|target_width|offset_height|offset_width|crop_size|glimpse)$")
def sides(d: Draw, name: str) -> Any:
    return d.integer(0, 2) if "offset" in name else d.integer(1, 7)


@makes(r"linalg\S* (matrix|input|a|tensor|x|chol|lower_upper|rhs|operand|b)$")
def matrices(d: Draw, name: str) -> Any:
    if re.search("norm|diag|tensordot|cross|l2|einsum|trace|matmul|matvec", name):
        return values(d, name)
    kind = d.dtype if d.dtype in (*FLOATS, *COMPLEX) and d.dtype not in ("float16", "bfloat16") else "float32"
    if "first" in d.made:
        known = first_shape(d)
        return tensor(d.numbers([*known[:-1], d.integer(1, 3)], d.made["first"].dtype.name))
    n = d.integer(0, 4) if d.chance(0.1) else d.integer(1, 4)
    square = d.numbers([*d.some_shape(d.integer(0, 2)), n, n], kind) + np.eye(n, dtype=kind) * 5
    square = square.astype(kind)
    if re.search("chol|adjoint|eigh", name):
        square = (square + np.conj(np.swapaxes(square, -1, -2))) / 2
    d.made["first"] = square
    return tensor(square)


@makes(r"nn\.\S*(conv|pool|dilation|erosion|space|depth|lrn|atrous|batch_norm|fused)\S* (input|value|x|features)$")
def feature_maps(d: Draw, name: str) -> Any:
    kind = d.pick(("float32", "float32", "float32", "float64", "float16", "bfloat16"))
    dims = 3 if "3d" in name else 1 if "1d" in name else 2
    value = d.numbers([d.integer(1, 2), *(d.integer(3, 7) for _ in range(dims)), d.pick((1, 2, 3))], kind)
    d.made["first"], d.made["dims"] = value, dims
    return tensor(value)


@makes(r" (filters?|depthwise_filter|pointwise_filter)$")
def filters(d: Draw, name: str) -> Any:
    dims, known = d.made.get("dims", 2), first_shape(d)
    channels = known[-1] if known else 1
    size = [1] * dims if "pointwise" in name else [d.integer(1, 3) for _ in range(dims)]
    out = [] if re.search("dilation2d|erosion", name) else [d.integer(1, 3)]
    if "pointwise" in name:
        channels *= d.made.get("multiplier", 1)
    if "depthwise" in name and out:
        d.made["multiplier"] = out[0]
    if "transpose" in name:
        out, channels = [channels], d.integer(1, 3)
    return tensor(d.numbers([*size, channels, *out], d.made["first"].dtype.name if "first" in d.made else "float32"))


@makes(r" (strides?|dilations|ksize|rates|window_shape|ksizes|dilation_rate)$")
def steps(d: Draw, name: str) -> Any:
    dims = d.made.get("dims", 2)
    value = [d.integer(1, 2 + bool(re.search("ksize|window", name))) for _ in range(dims)]
    if re.search("depthwise|separable", name) and "stride" in name:
        value = [value[0]] * dims
    if re.search("extract|dilation2d|erosion|depthwise|separable", name) and "dilation_rate" not in name and len(value) == 2:
        return [1, *value, 1] if not (name.endswith("dilations") and "wise" in name) else value
    how = d.rng.uniform()
    return value[0] if how < 0.4 else value if how < 0.7 or dims > 3 else [1, *value, 1]


@makes(r" padding$")
def padding(d: Draw, name: str) -> Any:
    return d.pick(("SAME", "VALID", "SAME", "VALID", "same", "EXPLICIT"))


@makes(r" (data_format)$")
def data_format(d: Draw, name: str) -> Any:
    return OMIT


CHOICES = {
    "mode": ("CONSTANT", "REFLECT", "SYMMETRIC", "constant", "wrap", "full", "same", "valid", "reduced"),
    "side": ("left", "right"),
    "method": ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"),
    "direction": ("ASCENDING", "DESCENDING"),
    "combiner": ("mean", "sum", "sqrtn"),
    "norm": (None, "ortho"),
    "unit": ("BYTE", "UTF8_CHAR"),
    "input_encoding": ("UTF-8", "UTF-16-BE", "UTF-32-BE"),
    "encoding": ("", "utf-8"),
    "output_encoding": ("UTF-8", "UTF-16-BE", "UTF-32-BE"),
    "errors": ("replace", "ignore", "strict"),
    "num_bits": (2, 4, 8, 16),
    "ord": ("euclidean", "fro", 1, 2, float("inf"), 3, "nuc"),
    "round_mode": ("HALF_TO_EVEN", "HALF_UP"),
    "pattern": ("a+", "[0-9]+", "(\\w)(\\w)", "", "^x", "\\s"),
    "rewrite": ("", "z", "\\1-\\0", "<\\0>"),
    "sep": ("", ",", " ", None, "bc"),
    "separator": ("", ",", " "),
    "type": (3, 2, 1, 4),
    "equation": ("ij,jk->ik", "ij->ji", "bij,bjk->bik", "ii->i", "...i,...i->...", "ij->"),
    "subscripts": ("ij,jk->ik", "ij->ji", "ii->i", "...i,...i->..."),
    "indexing": ("ij", "xy"),
    "kind": ("quicksort", "stable"),
    "align": ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"),
    "alg": ("philox", "threefry", "auto_select"),
    "N": (1, 2, 3, None),
    "k": (0, 1, 2, -1),
    "n": (0, 1, 2, 3),
    "num": (0, 1, 3, 5),
    "num_true": (1, 2),
    "block_size": (1, 2),
    "fft_length": (None, [2], [4], 4),
    "frame_length": (1, 2, 4),
    "frame_step": (1, 2, 3),
    "window_length": (1, 2, 5, 8),
    "T": ({"dtype": "quint8"}, {"dtype": "qint8"}),
    "num_or_size_splits": (1, 2, 3, [1, 1], [1, -1], [2, 1]),
    "indices_or_sections": (1, 2, 3, [1], [1, 2]),
    "batch_dims": (0, 0, 1, -1),
    "template": ("x {} y", "{}", "{} {}"),
    "shape_x": ([1, 2], [3], [0]),
    "delimiter": (",",),
    "rank": (0, 1, 2),
    "ragged_rank": (1, 2),
    "window_fn": ({"function": "signal.hann_window"}, None),
    "ngram_width": (1, 2, [1, 2]),
    "summarize": (None, 1, -1),
    "order": (1, 2, 3, 2.5),
    "decimals": (0, 1, -1, 2),
    "transpose_rhs": (False, True),
    "num_lower": (0, 1, -1),
    "num_upper": (0, 1, -1),
    "minval": (0, -2, 1),
    "maxval": (None, 3, 10),
    "partial_pivoting": (True, False),
    "validate_args": (False, True),
    "axisc": (-1,),
    "ddof": (0, 1),
}


@makes(r" (" + "|".join(CHOICES) + ")$")
def choice(d: Draw, name: str) -> Any:
    found = d.pick(CHOICES[name.split(" ")[-1]])
    if isinstance(found, int) and not isinstance(found, bool) and d.chance(0.1):
        return tensor(np.array(found, d.pick(("int32", "int64"))))
    return found


@makes(r" (fn|func|f|true_fn|false_fn|uniform_sampler|activation|body|initializer)$")
def functions(d: Draw, name: str) -> Any:
    return {
        "lambda": d.pick(("one", "two"))
        if "true" in name or "false" in name
        else d.pick(("double", "square", "sum", "pair", "shape"))
    }


@makes(r" (condition|pred|cond|mask|where|to_retain)$")
def conditions(d: Draw, name: str) -> Any:
    return d.wrap(d.numbers(d.near_shape(d.shape), "bool"))


@makes(r" (labels)$")
def labels(d: Draw, name: str) -> Any:
    known = first_shape(d)
    if "sparse" in name:
        return note(d, "labels", d.rng.randint(0, 3, d.some_shape(d.integer(0, 2))).astype(d.pick(("int32", "int64"))))
    return d.wrap(d.numbers(d.near_shape(known), d.dtype if d.dtype in FLOATS else "float32", 0, 1))


@makes(r"sparse_softmax\S* (logits)$")
def sparse_logits(d: Draw, name: str) -> Any:
    return tensor(d.numbers([*first_shape(d), 3], d.pick(FLOATS)))


@makes(r" (sp_input|sp_a|sp_b|sp_ids|sparse_ids|sp_weights|hypothesis|truth)$")
def sparse(d: Draw, name: str) -> Any:
    return sparse_of(
        d, d.numbers(d.made["first"].shape if "first" in d.made else d.some_shape(2), d.dtype if "ids" not in name else "int64")
    )


def sparse_of(d: Draw, dense: np.ndarray) -> Any:
    """Some of the entries of an array as a SparseTensor."""
    dense = dense if dense.ndim else dense.reshape(1)
    d.made.setdefault("first", dense)
    keep = np.argwhere(d.rng.uniform(size=dense.shape) < 0.5).astype(np.int64).reshape(-1, dense.ndim)
    return {"sparse": [encoded(keep), tensor(dense[tuple(keep.T)]), list(dense.shape)]}


def ragged_of(d: Draw) -> Any:
    """A ragged tensor of the call's dtype."""
    inner = d.some_shape(d.integer(0, 1))
    lengths = [d.rng.randint(0, 4, d.integer(1, 3)).tolist()]
    if d.chance(0.4):
        lengths.append(d.rng.randint(0, 3, sum(lengths[0])).tolist())
    splits = [[0, *np.cumsum(n).tolist()] for n in lengths]
    values = d.numbers([splits[-1][-1], *inner])
    d.made.setdefault("first", np.zeros([len(lengths[0]), 3, *inner]))
    return {"ragged": [tensor(values), splits]}


@makes(r" (rt|rt_input|ragged)$")
def ragged(d: Draw, name: str) -> Any:
    return ragged_of(d)


@makes(r" (inputs|values|tensors|arys|tup|arrays|t_list|sp_inputs|choicelist|operands|xi|args|condlist)$")
def lists(d: Draw, name: str) -> Any:
    if name.endswith("sp_inputs"):
        return [sparse(d, name) for _ in range(d.integer(1, 2))]
    if re.search(
        "stack|concat|add_n|accumulate|meshgrid|parallel|choice|cond|einsum|cross|clip_by_global|atleast|global_norm|stitch",
        name,
    ):
        base = d.some_shape() if d.chance(0.8) else d.shape
        kind = "bool" if "condlist" in name else d.dtype
        return [note(d, "list", d.numbers(base, kind)) for _ in range(d.integer(1, 3))]
    return values(d, name)


@makes(r"(segment|unsorted)\S* (data)$")
def segments(d: Draw, name: str) -> Any:
    return note(d, "data", d.numbers(d.some_shape(d.integer(1, 3))))


@makes(
    r" (x|y|input|input_tensor|a|b|x1|x2|tensor|value|values|data|features|logits|t|elems|v|array|arr|ary|"
    r"val|params|operand|rhs|real|imag|"
    r"predictions|weights|mean|variance|scale|offset|alpha|beta|gamma|bias|biases|m|M|q|z|p|targets|"
    r"signals?|log_input|tensor_in|updates|"
    r"image_size|diagonal|lower|upper|start|stop|limit|delta|low|high|base|fill_value|clip_value_min|clip_value_max|clip_norm|"
    r"constant_values|default_value|a_min|a_max|a1|a2|arr1|lam|shape_y|on_value|off_value|stddev|means|"
    r"stddevs|input_|xs|ys|magnitudes|"
    r"values_y|stfts|mdcts|log_mel_spectrograms|per_example_loss|sample_weight|pos_weight|coeffs|"
    r"contrast_factor|min|max|initial_value)$"
)
def values(d: Draw, name: str) -> Any:
    how = d.rng.uniform()
    if "first" not in d.made and how < 0.05:
        return ragged_of(d)
    if "first" not in d.made and how < 0.07:
        return sparse_of(d, d.numbers(d.some_shape(d.integer(1, 3))))
    if how > 0.97:
        return plain(d.numbers([])) if d.dtype not in COMPLEX else {"complex": [1.0, 2.0]}
    kind = d.dtype if d.chance(0.95) else d.pick((*FLOATS, *INTEGERS, "string"))
    if re.search("fft", name) and "rfft" not in name and d.chance(0.9):
        kind = d.pick(COMPLEX)
    if "bitwise" in name:
        kind = kind if kind in INTEGERS else "int32"
    if "logical" in name:
        kind = "bool"
    if re.search("matmul", name) and len(d.shape) > 1 and "first" in d.made:
        return note(
            d, name, d.numbers([*first_shape(d)[:-2], first_shape(d)[-1] if first_rank(d) > 1 else 1, d.integer(1, 3)], kind)
        )
    return note(d, name.split(" ")[-1], d.numbers(d.near_shape(first_shape(d)) if "first" in d.made else d.shape, kind))


def argument(d: Draw, function: str, parameter: inspect.Parameter) -> Any:
    """What is given for a parameter, or OMIT."""
    has_default = parameter.default is not inspect.Parameter.empty
    if parameter.name == "name" or has_default and d.chance(0.6):
        return OMIT
    if isinstance(parameter.default, bool):
        return d.chance(0.5)
    for pattern, maker in MAKERS:
        if pattern.search(f"{function} {parameter.name}"):
            return maker(d, f"{function} {parameter.name}")
    if isinstance(parameter.default, int):
        return d.integer(parameter.default - 1, parameter.default + 2)
    if isinstance(parameter.default, float):
        return float(d.rng.uniform(0, 2))
    return OMIT if has_default else values(d, f"{function} {parameter.name}")


def call(d: Draw, name: str, signature: inspect.Signature) -> tuple[list, dict]:
    """Arguments for one call: required ones by position, the others by name."""
    args: list = []
    kwargs: dict = {}
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            found = lists(d, f"{name} args")
            args.extend(found if isinstance(found, list) else [found])
            continue
        value = argument(d, name, parameter)
        if value is OMIT:
            continue
        if parameter.default is inspect.Parameter.empty and not kwargs and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(value)
        else:
            kwargs[parameter.name] = value
    return args, kwargs
