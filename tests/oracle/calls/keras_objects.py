"""Calls of Keras layers, losses, metrics and optimizers with random options."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.oracle.calls.values import Draw, tensor

ACTIVATIONS = (
    None,
    "relu",
    "tanh",
    "sigmoid",
    "elu",
    "selu",
    "softplus",
    "softsign",
    "swish",
    "gelu",
    "softmax",
    "exponential",
    "hard_sigmoid",
    "mish",
    "linear",
    "relu6",
    "log_softmax",
)
INITIALIZERS = ("zeros", "ones", "glorot_uniform", "he_normal", "orthogonal", "identity", "lecun_uniform", "random_normal")
REGULARIZERS = (None, None, "l1", "l2", "l1_l2")
CONSTRAINTS = (None, None, None, "non_neg", "max_norm", "unit_norm")
CORE = {
    "units": (1, 3, 4),
    "activation": ACTIVATIONS,
    "use_bias": (True, False),
    "kernel_regularizer": REGULARIZERS,
    "kernel_constraint": CONSTRAINTS,
    "activity_regularizer": REGULARIZERS,
    "dtype": ("float32", "float32", "float64", "mixed_float16"),
}
CONV = {
    **{k: CORE[k] for k in ("activation", "use_bias", "kernel_regularizer")},
    "filters": (1, 2, 4),
    "kernel_size": (1, 2, 3),
    "strides": (1, 1, 2),
    "padding": ("valid", "same"),
    "dilation_rate": (1, 1, 2),
    "groups": (1, 1, 2),
}
TRANSPOSED = {**{k: v for k, v in CONV.items() if k != "groups"}, "output_padding": (None, None, 0, 1)}
SEPARABLE = {**{k: v for k, v in CONV.items() if k not in ("groups", "kernel_regularizer")}, "depth_multiplier": (1, 2)}
DEPTHWISE = {k: v for k, v in SEPARABLE.items() if k != "filters"}
POOL = {"pool_size": (1, 2, 3), "strides": (None, 1, 2), "padding": ("valid", "same")}
GLOBAL = {"keepdims": (False, True)}
RNN = {
    "units": (1, 3),
    "activation": ("tanh", "relu", "sigmoid", None),
    "use_bias": (True, False),
    "return_sequences": (True, False),
    "return_state": (True, False),
    "go_backwards": (False, True),
    "unroll": (False, True),
    "time_major": (False, False, True),
}
GATED = {**RNN, "recurrent_activation": ("sigmoid", "hard_sigmoid", "tanh")}
CONV_RNN = {
    "filters": (1, 2),
    "kernel_size": (1, 2),
    "padding": ("same", "valid"),
    "return_sequences": (True, False),
    "return_state": (True, False),
    "recurrent_activation": ("sigmoid", "hard_sigmoid"),
    "use_bias": (True, False),
}
AXIS = {"axis": (-1, 1, -2), "epsilon": (1e-3, 1e-5), "center": (True, False), "scale": (True, False)}

# layer: (its options, ranks of its inputs), of which the last size is that of channels
LAYERS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "Dense": (CORE, [2]),
    "EinsumDense": ({"equation": ("abc,cd->abd",), "output_shape": ((None, 4),), "bias_axes": (None, "d")}, [3]),
    "Conv1D": ({**CONV, "padding": ("valid", "same", "causal")}, [3]),
    "Conv2D": (CONV, [4]),
    "Conv3D": (CONV, [5]),
    "Conv1DTranspose": (TRANSPOSED, [3]),
    "Conv2DTranspose": (TRANSPOSED, [4]),
    "Conv3DTranspose": (TRANSPOSED, [5]),
    "SeparableConv1D": (SEPARABLE, [3]),
    "SeparableConv2D": (SEPARABLE, [4]),
    "DepthwiseConv1D": (DEPTHWISE, [3]),
    "DepthwiseConv2D": (DEPTHWISE, [4]),
    **{f"{k}Pooling{n}D": (POOL, [n + 2]) for k in ("Max", "Average") for n in (1, 2, 3)},
    **{f"Global{k}Pooling{n}D": (GLOBAL, [n + 2]) for k in ("Max", "Average") for n in (1, 2, 3)},
    "UpSampling1D": ({"size": (1, 2, 3)}, [3]),
    "UpSampling3D": ({"size": (1, 2, (1, 2, 3))}, [5]),
    "UpSampling2D": ({"size": (1, 2, (3, 1)), "interpolation": ("nearest", "bilinear", "bicubic", "area", "lanczos3")}, [4]),
    "ZeroPadding1D": ({"padding": (1, (0, 2))}, [3]),
    "ZeroPadding2D": ({"padding": (1, (0, 2), ((1, 0), (2, 1)))}, [4]),
    "ZeroPadding3D": ({"padding": (1, (0, 2, 1))}, [5]),
    "Cropping1D": ({"cropping": (1, (0, 1))}, [3]),
    "Cropping2D": ({"cropping": (1, (0, 1), ((1, 0), (0, 1)))}, [4]),
    "Cropping3D": ({"cropping": (1, (0, 1, 1))}, [5]),
    "SimpleRNN": (RNN, [3]),
    "GRU": ({**GATED, "reset_after": (True, False)}, [3]),
    "LSTM": ({**GATED, "unit_forget_bias": (True, False)}, [3]),
    "ConvLSTM1D": (CONV_RNN, [4]),
    "ConvLSTM2D": (CONV_RNN, [5]),
    "BatchNormalization": ({**AXIS, "momentum": (0.99, 0.5)}, [2, 3, 4, 5]),
    "LayerNormalization": ({**AXIS, "axis": (-1, 1, [1, 2], -2)}, [3, 4]),
    "UnitNormalization": ({"axis": (-1, 1)}, [2, 3]),
    "GroupNormalization": ({"groups": (1, 2, -1), "axis": (-1, 1), "center": (True, False)}, [3, 4]),
    "Activation": ({"activation": ACTIVATIONS[1:]}, [1, 2, 3]),
    "ReLU": ({"max_value": (None, 1.0), "negative_slope": (0.0, 0.2), "threshold": (0.0, 0.5)}, [2, 4]),
    "LeakyReLU": ({"alpha": (0.1, 0.3)}, [2, 3]),
    "ELU": ({"alpha": (1.0, 0.3)}, [2]),
    "ThresholdedReLU": ({"theta": (0.5, 1.0)}, [2]),
    "PReLU": ({"alpha_initializer": INITIALIZERS[:2], "shared_axes": (None, [1])}, [2, 3, 4]),
    "Softmax": ({"axis": (-1, 1, [1, 2])}, [3]),
    "Flatten": ({"data_format": (None, "channels_first", "channels_last")}, [1, 2, 4]),
    "Reshape": ({"target_shape": ((-1,), (2, -1), (1, -1, 1))}, [2, 3]),
    "Permute": ({"dims": ((2, 1), (1, 2))}, [3]),
    "RepeatVector": ({"n": (1, 3)}, [2]),
    "Masking": ({"mask_value": (0.0, 1.0)}, [3]),
    "Dropout": ({"rate": (0, 0.3), "noise_shape": (None, (None, 1))}, [2]),
    "GaussianNoise": ({"stddev": (0.0, 1.0)}, [2]),
    "SpatialDropout2D": ({"rate": (0.0, 0.3)}, [4]),
    "AlphaDropout": ({"rate": (0.0,)}, [2]),
    "ActivityRegularization": ({"l1": (0.0, 0.1), "l2": (0.1,)}, [2]),
    "Rescaling": ({"scale": (0.5, 2), "offset": (0.0, -1.0)}, [2, 4]),
    "CenterCrop": ({"height": (2, 3, 6), "width": (2, 6)}, [3, 4]),
    "Resizing": (
        {
            "height": (2, 5),
            "width": (3, 6),
            "interpolation": ("bilinear", "nearest", "bicubic", "area", "gaussian", "mitchellcubic"),
            "crop_to_aspect_ratio": (False, True),
        },
        [3, 4],
    ),
    "Normalization": ({"axis": (-1, None), "mean": (1.0,), "variance": (2.0,), "invert": (False, True)}, [2, 3]),
    "Discretization": (
        {"bin_boundaries": ([0.0, 1.0], [-1.0, 0.0, 0.5]), "output_mode": ("int", "one_hot", "multi_hot", "count")},
        [1, 2],
    ),
    "Identity": ({}, [0, 2]),
    "Lambda": ({"function": ({"lambda": "square"}, {"lambda": "double"})}, [2]),
}
INTEGERS = {
    "Embedding": (
        {"input_dim": (7,), "output_dim": (1, 3), "mask_zero": (False, True), "embeddings_regularizer": REGULARIZERS},
        7,
    ),
    "CategoryEncoding": ({"num_tokens": (7,), "output_mode": ("multi_hot", "one_hot", "count")}, 7),
    "Hashing": (
        {
            "num_bins": (3, 5),
            "mask_value": (None, 2),
            "salt": (None, 3, [1, 2]),
            "output_mode": ("int", "one_hot", "multi_hot", "count"),
        },
        9,
    ),
    "IntegerLookup": (
        {
            "vocabulary": ([1, 2, 5], [3, 4]),
            "num_oov_indices": (0, 1, 2),
            "mask_token": (None, 0),
            "oov_token": (-1,),
            "output_mode": ("int", "one_hot", "multi_hot", "count"),
            "invert": (False, False, True),
        },
        7,
    ),
}
MERGES = {
    "Add": {},
    "Subtract": {},
    "Multiply": {},
    "Average": {},
    "Maximum": {},
    "Minimum": {},
    "Concatenate": {"axis": (-1, 1)},
    "Dot": {"axes": (-1, (1, 1), (2, 2)), "normalize": (False, True)},
    "Attention": {"use_scale": (False, True), "score_mode": ("dot", "concat"), "dropout": (0.0,)},
    "AdditiveAttention": {"use_scale": (True, False)},
}
WORDS = ("a", "b", "hello world", "A b!", "", "c a b")
TEXTS = {
    "StringLookup": {
        "vocabulary": (["a", "b"], ["hello world", "c", "a"]),
        "num_oov_indices": (0, 1, 2),
        "mask_token": (None, ""),
        "output_mode": ("int", "one_hot", "multi_hot", "count"),
    },
    "TextVectorization": {
        "vocabulary": (["a", "b", "hello"], ["c", "a"]),
        "standardize": (None, "lower", "strip_punctuation", "lower_and_strip_punctuation"),
        "split": (None, "whitespace", "character"),
        "ngrams": (None, 2, (1, 2)),
        "output_mode": ("int", "multi_hot", "count"),
        "output_sequence_length": (None, 3),
        "ragged": (False, True),
    },
}
LOSS = {"reduction": ("auto", "none", "sum", "sum_over_batch_size")}
SMOOTH = {**LOSS, "from_logits": (False, True), "label_smoothing": (0.0, 0.2)}
# loss: (options, kind of labels)
LOSSES: dict[str, tuple[dict[str, Any], str]] = {
    **{
        k: (LOSS, "real")
        for k in (
            "MeanSquaredError",
            "MeanAbsoluteError",
            "MeanAbsolutePercentageError",
            "MeanSquaredLogarithmicError",
            "LogCosh",
            "Poisson",
            "KLDivergence",
        )
    },
    **{k: (LOSS, "sign") for k in ("Hinge", "SquaredHinge", "CategoricalHinge")},
    "Huber": ({**LOSS, "delta": (1.0, 0.5)}, "real"),
    "CosineSimilarity": ({**LOSS, "axis": (-1, 0)}, "real"),
    "BinaryCrossentropy": ({**SMOOTH, "axis": (-1, 0)}, "binary"),
    "CategoricalCrossentropy": (SMOOTH, "one hot"),
    "SparseCategoricalCrossentropy": ({**LOSS, "from_logits": (False, True), "ignore_class": (None, 1)}, "class"),
    "BinaryFocalCrossentropy": (
        {**SMOOTH, "gamma": (2.0, 0.5), "apply_class_balancing": (False, True), "alpha": (0.25, 0.6)},
        "binary",
    ),
    "CategoricalFocalCrossentropy": ({**SMOOTH, "gamma": (2.0, 0.5), "alpha": (0.25, 0.6)}, "one hot"),
}
THRESHOLDS = {"thresholds": (None, 0.3, [0.2, 0.7]), "top_k": (None, None, 1, 2), "class_id": (None, None, 1)}
RATES = {"num_thresholds": (3, 20)}
METRICS: dict[str, tuple[dict[str, Any], str]] = {
    **{
        k: ({}, "real")
        for k in (
            "MeanSquaredError",
            "RootMeanSquaredError",
            "MeanAbsoluteError",
            "MeanAbsolutePercentageError",
            "MeanSquaredLogarithmicError",
            "LogCoshError",
            "Poisson",
            "KLDivergence",
        )
    },
    **{k: ({}, "sign") for k in ("Hinge", "SquaredHinge", "CategoricalHinge")},
    "CosineSimilarity": ({"axis": (-1, 0)}, "real"),
    "Accuracy": ({}, "binary"),
    "BinaryAccuracy": ({"threshold": (0.5, 0.2)}, "binary"),
    "CategoricalAccuracy": ({}, "one hot"),
    "SparseCategoricalAccuracy": ({}, "class"),
    "TopKCategoricalAccuracy": ({"k": (1, 2, 5)}, "one hot"),
    "SparseTopKCategoricalAccuracy": ({"k": (1, 2, 5)}, "class"),
    "BinaryCrossentropy": ({k: SMOOTH[k] for k in ("from_logits", "label_smoothing")}, "binary"),
    "CategoricalCrossentropy": ({k: SMOOTH[k] for k in ("from_logits", "label_smoothing")}, "one hot"),
    "SparseCategoricalCrossentropy": ({"from_logits": (False, True), "ignore_class": (None, 1)}, "class"),
    "Precision": (THRESHOLDS, "binary"),
    "Recall": (THRESHOLDS, "binary"),
    **{
        k: ({"thresholds": (None, 0.3, [0.2, 0.7])}, "binary")
        for k in ("TruePositives", "TrueNegatives", "FalsePositives", "FalseNegatives")
    },
    "AUC": (
        {
            **RATES,
            "curve": ("ROC", "PR"),
            "summation_method": ("interpolation", "minoring", "majoring"),
            "multi_label": (False, True),
            "from_logits": (False, True),
        },
        "binary",
    ),
    "PrecisionAtRecall": ({"recall": (0.5, 0.8), **RATES}, "binary"),
    "RecallAtPrecision": ({"precision": (0.5, 0.8), **RATES}, "binary"),
    "SensitivityAtSpecificity": ({"specificity": (0.5, 0.8), **RATES}, "binary"),
    "SpecificityAtSensitivity": ({"sensitivity": (0.5, 0.8), **RATES}, "binary"),
    "MeanIoU": ({"num_classes": (3,), "ignore_class": (None, 1)}, "classes"),
    "IoU": ({"num_classes": (3,), "target_class_ids": ([0], [0, 2])}, "classes"),
    "BinaryIoU": ({"threshold": (0.5, 0.2), "target_class_ids": ((0, 1), (1,))}, "binary"),
    "OneHotIoU": ({"num_classes": (3,), "target_class_ids": ([0, 2],)}, "one hot"),
    "OneHotMeanIoU": ({"num_classes": (3,)}, "one hot"),
    "MeanRelativeError": ({"normalizer": ([1.0, 2.0, 3.0],)}, "real"),
    "R2Score": ({"class_aggregation": ("uniform_average", None, "variance_weighted_average")}, "real"),
    "F1Score": ({"average": (None, "micro", "macro", "weighted"), "threshold": (None, 0.5)}, "one hot"),
    "FBetaScore": ({"average": (None, "micro", "macro", "weighted"), "beta": (1.0, 2.0)}, "one hot"),
}
STEP = {
    "learning_rate": (0.1, 0.01),
    "weight_decay": (None, None, 0.1),
    "clipnorm": (None, None, 0.5),
    "clipvalue": (None, None, 0.3),
    "use_ema": (False, False, True),
    "global_clipnorm": (None, None, 1.0),
}
OLD = {"learning_rate": (0.1, 0.01), "clipnorm": (None, None, 0.5), "clipvalue": (None, None, 0.3), "decay": (0.0, 0.1)}
OWN: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": (0.0, 0.9), "nesterov": (False, True)},
    "RMSprop": {"rho": (0.9, 0.5), "momentum": (0.0, 0.9), "centered": (False, True)},
    "Adam": {"beta_1": (0.9, 0.5), "amsgrad": (False, True), "epsilon": (1e-7, 0.1)},
    "Adamax": {"beta_1": (0.9, 0.5)},
    "Nadam": {"beta_2": (0.999, 0.9)},
    "Adagrad": {"initial_accumulator_value": (0.1, 0.0)},
    "Adadelta": {"rho": (0.95, 0.5)},
    "Ftrl": {"l1_regularization_strength": (0.0, 0.1), "l2_regularization_strength": (0.0, 0.1)},
}
NEW = {
    "AdamW": {"beta_1": (0.9, 0.5), "amsgrad": (False, True)},
    "Lion": {"beta_1": (0.9, 0.5)},
    "Adafactor": {"relative_step": (True, False)},
}


def options(d: Draw, table: dict[str, Any], required: tuple = ()) -> dict:
    """Some of the options, with random values; those that are required always."""
    chosen = {}
    for key, values in table.items():
        if key in required or d.chance(0.45):
            value = d.pick(values)
            chosen[key] = (
                {"tuple": [{"tuple": list(v)} if isinstance(v, tuple) else v for v in value]}
                if isinstance(value, tuple)
                else value
            )
    return chosen


REQUIRED = (
    "units",
    "filters",
    "kernel_size",
    "equation",
    "output_shape",
    "input_dim",
    "output_dim",
    "num_tokens",
    "num_bins",
    "vocabulary",
    "n",
    "dims",
    "target_shape",
    "height",
    "width",
    "rate",
    "stddev",
    "activation",
    "function",
    "bin_boundaries",
    "mean",
    "variance",
    "num_classes",
    "target_class_ids",
    "normalizer",
    "recall",
    "precision",
    "specificity",
    "sensitivity",
    "scale",
    "l2",
    "axes",
)


def layers(d: Draw, name: str) -> dict:
    """A layer on a random input."""
    call: dict[str, Any] = {}
    if d.chance(0.3):
        call["training"] = d.chance(0.5)
    if name in LAYERS:
        table, ranks = LAYERS[name]
        rank = d.pick(ranks)
        value = d.rng.uniform(
            -2, 2, [d.integer(1, 3), *(d.integer(3, 6) for _ in range(rank - 2)), d.pick((2, 2, 4))][:rank] if rank else []
        )
        kind = "float32" if d.chance(0.9) else d.pick(("float64", "float16", "int32"))
        args = [tensor(value.astype(kind))]
        if name in ("SimpleRNN", "GRU", "LSTM") and d.chance(0.3):
            call["mask"] = tensor(np.arange(value.shape[1]) < d.rng.randint(1, value.shape[1] + 1, [len(value), 1]))
    elif name in INTEGERS:
        table, high = INTEGERS[name]
        args = [tensor(d.rng.randint(0, high, d.some_shape(d.integer(1, 2))).astype(d.pick(("int32", "int64"))))]
    elif name in MERGES:
        table, shape = MERGES[name], [2, 3, 4]
        args = [[tensor(d.rng.uniform(-2, 2, shape if d.chance(0.9) else [2, 1, 4]).astype("float32")) for _ in range(2)]]
    else:
        table = TEXTS[name]
        words = np.array([d.pick(WORDS) for _ in range(4)], object)
        args = [tensor(words.reshape(d.pick(([4], [4, 1], [2, 2]))) if name == "StringLookup" else words)]
    return {"kind": "layer", "name": f"keras.layers.{name}", "kwargs": options(d, table, REQUIRED), "args": args, "call": call}


def pair(d: Draw, labels: str) -> list:
    """Labels and predictions."""
    n, kind = d.integer(1, 5), "float32" if d.chance(0.85) else d.pick(("float64", "float16"))
    predicted = d.rng.uniform(0.05, 0.95, [n, 3])
    if labels in ("one hot", "class"):
        predicted /= predicted.sum(-1, keepdims=True)
    if labels == "class":
        return [
            tensor(d.rng.randint(0, 3, [n] if d.chance(0.7) else [n, 1]).astype(d.pick(("int32", "int64", "float32")))),
            tensor(predicted.astype(kind)),
        ]
    if labels == "classes":
        return [
            tensor(d.rng.randint(0, 3, [n]).astype("int32")),
            tensor(d.rng.randint(0, 3, [n]).astype(d.pick(("int32", "float32")))),
        ]
    if labels == "one hot":
        truth = np.eye(3)[d.rng.randint(0, 3, n)]
    else:
        truth = {
            "real": d.rng.uniform(0, 2, [n, 3]),
            "sign": d.rng.choice([-1.0, 1.0], [n, 3]),
            "binary": d.rng.randint(0, 2, [n, 3]),
        }[labels]
        if d.chance(0.2):
            truth, predicted = truth[:, 0], predicted[:, 0]
    return [tensor(np.asarray(truth).astype(kind if d.chance(0.8) else "float32")), tensor(predicted.astype(kind))]


def measures(d: Draw, name: str) -> dict:
    """A loss or a metric on random labels."""
    folder, short = name.split(".")
    table, labels = (LOSSES if folder == "losses" else METRICS)[short]
    args = pair(d, labels)
    call = {}
    if d.chance(0.4):
        n = args[1]["tensor"][1][0]
        call["sample_weight"] = (
            tensor(d.rng.uniform(0, 2, [n] if d.chance(0.7) else [n, 1]).astype("float32")) if d.chance(0.9) else 2.0
        )
    return {"kind": "measured", "name": f"keras.{name}", "kwargs": options(d, table, REQUIRED), "args": args, "call": call}


def optimizers(d: Draw, name: str) -> dict:
    """Three steps of an optimizer on two variables, one gradient of which may be sparse."""
    *_, short = name.split(".")
    table = {**(OLD if "legacy" in name else STEP), **OWN.get(short, {}), **NEW.get(short, {})}
    variables = [d.rng.uniform(-1, 1, shape).astype("float32") for shape in ([3, 2], [4])]
    steps = []
    for _ in range(3):
        rows = [0, 2] if d.chance(0.6) else [2, 2, 1]
        some = {"slices": [tensor(d.rng.uniform(-1, 1, [len(rows), 2]).astype("float32")), rows, [3, 2]]}
        dense = tensor(d.rng.uniform(-1, 1, [3, 2]).astype("float32"))
        steps.append([some if d.chance(0.4) else dense, tensor(d.rng.uniform(-1, 1, [4]).astype("float32"))])
    return {
        "kind": "optimizer",
        "name": f"keras.{name}",
        "kwargs": options(d, table),
        "args": [],
        "variables": [v["tensor"] for v in map(tensor, variables)],
        "steps": steps,
    }


def calls(seed: int, each: int) -> Iterator[dict]:
    """Calls of all of them."""
    groups: list[tuple[Callable, list[str]]] = [
        (layers, [*LAYERS, *INTEGERS, *MERGES, *TEXTS]),
        (measures, [f"losses.{n}" for n in LOSSES] + [f"metrics.{n}" for n in METRICS]),
        (optimizers, [f"optimizers.{n}" for n in (*OWN, *NEW)] + [f"optimizers.legacy.{n}" for n in OWN]),
    ]
    for make, names in groups:
        for name in names:
            for number in range(each):
                yield make(Draw((zlib.crc32(f"{name} {number}".encode()) + seed) % 2**32), name)
