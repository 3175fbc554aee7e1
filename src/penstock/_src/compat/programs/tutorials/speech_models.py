"""`examples.speech_commands.models`: networks that recognize spoken words."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf

# Convolutions of each network: (height, width, channels), strides, padding, pooling; then sizes of dense layers. A height of 0
# is that of the whole input.
_NETWORKS: dict[str, tuple[list, list[int]]] = {
    "single_fc": ([], []),
    "conv": ([((20, 8, 64), 1, "SAME", True), ((10, 4, 64), 1, "SAME", False)], []),
    "low_latency_conv": ([((0, 8, 186), 1, "VALID", False)], [128, 128]),
    "tiny_conv": ([((10, 8, 8), 2, "SAME", False)], []),
    "tiny_embedding_conv": ([((10, 8, 8), 2, "SAME", False), ((10, 8, 8), 8, "SAME", False)], []),
}
_ORDINALS = ("first", "second", "third")


def prepare_model_settings(label_count: int, sample_rate: int, clip_duration_ms: float, window_size_ms: float,
                           window_stride_ms: float, feature_bin_count: int, preprocess: str) -> dict[str, Any]:
    """The sizes that follow from how sound is cut into windows, and windows into frequencies."""
    samples, window, stride = (int(sample_rate * ms / 1000) for ms in (clip_duration_ms, window_size_ms, window_stride_ms))
    length = 1 + (samples - window) // stride if samples >= window else 0
    averaged, width = -1, feature_bin_count
    if preprocess == "average":
        bins = 1 + (1 << max(window - 1, 0).bit_length()) / 2
        averaged = int(bins // feature_bin_count)
        width = int(-(-bins // averaged))
    elif preprocess not in ("mfcc", "micro"):
        raise ValueError(f'Unknown preprocess mode "{preprocess}" (should be "mfcc", "average", or "micro")')
    return {"desired_samples": samples, "window_size_samples": window, "window_stride_samples": stride,
            "spectrogram_length": length, "fingerprint_width": width, "fingerprint_size": width * length,
            "label_count": label_count, "sample_rate": sample_rate, "preprocess": preprocess, "average_window_width": averaged}


def create_model(fingerprint_input: Any, model_settings: dict[str, Any], model_architecture: str, is_training: bool,
                 runtime_settings: Any = None) -> Any:
    """Logits of a network; in training also the placeholder of the probability with which units are kept."""
    if model_architecture not in _NETWORKS:
        raise ValueError(f'model_architecture argument "{model_architecture}" not recognized, should be one of '
                         f"{', '.join(_NETWORKS)}")
    kept = tf.placeholder(tf.float32, name="dropout_prob") if is_training else None
    convolutions, sizes = _NETWORKS[model_architecture]
    x = fingerprint_input
    if convolutions:
        x = tf.reshape(x, [-1, model_settings["spectrogram_length"], model_settings["fingerprint_width"], 1])
    for name, ((height, width, channels), stride, padding, pooled) in zip(_ORDINALS, convolutions):
        size = [height or model_settings["spectrogram_length"], width, int(x.shape[-1]), channels]
        weights, bias = _weights(f"{name}_weights", size, 0.01), _weights(f"{name}_bias", [channels])
        x = tf.nn.relu(tf.nn.conv2d(x, weights, [1, stride, stride, 1], padding) + bias)
        x = x if kept is None else tf.nn.dropout(x, kept)
        x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME") if pooled else x
    if convolutions:
        x = tf.reshape(x, [-1, x.shape[1:].num_elements()])
    for name, units in zip(_ORDINALS, sizes):
        x = tf.matmul(x, _weights(f"{name}_fc_weights", [int(x.shape[1]), units], 0.01)) + _weights(f"{name}_fc_bias", [units])
        x = x if kept is None else tf.nn.dropout(x, kept)
    last, labels = "final_fc_" if convolutions else "", model_settings["label_count"]
    width = int(x.shape[1]) if convolutions else model_settings["fingerprint_size"]
    logits = tf.matmul(x, _weights(f"{last}weights", [width, labels], 0.01 if convolutions else 0.001)) + \
        _weights(f"{last}bias", [labels])
    return logits if kept is None else (logits, kept)


def _weights(name: str, shape: list[int], deviation: float = 0.0) -> Any:
    return tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=deviation) if deviation else
                           tf.zeros_initializer())


def load_variables_from_checkpoint(sess: Any, start_checkpoint: str) -> None:
    """Puts the values of a checkpoint into all variables."""
    tf.train.Saver(tf.global_variables()).restore(sess, start_checkpoint)
