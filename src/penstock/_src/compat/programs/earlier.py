"""Names from before TensorFlow 1.0, which programs and lectures of that time use, as 1.x calls them."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.compat.programs.missing import NOTHING

RENAMED = {
    "mul": "multiply", "sub": "subtract", "neg": "negative", "pack": "stack", "unpack": "unstack", "inv": "reciprocal",
    "complex_abs": "abs", "select": "where", "div_no_nan": "div_no_nan",
    "concat_v2": "concat", "nn.deconv2d": "nn.conv2d_transpose", "batch_svd": "svd", "batch_fft": "fft", "batch_ifft": "ifft",
    "batch_fft2d": "fft2d", "batch_ifft2d": "ifft2d", "batch_matrix_determinant": "matrix_determinant",
    "batch_self_adjoint_eig": "self_adjoint_eig", "batch_matrix_band_part": "matrix_band_part",
    "batch_matrix_triangular_solve": "matrix_triangular_solve", "batch_matrix_diag_part": "matrix_diag_part",
    "batch_cholesky_solve": "cholesky_solve", "batch_matrix_solve_ls": "matrix_solve_ls",
    "batch_matmul": "matmul", "batch_cholesky": "cholesky", "batch_matrix_inverse": "matrix_inverse",
    "batch_matrix_solve": "matrix_solve", "batch_matrix_diag": "matrix_diag", "batch_matrix_transpose": "matrix_transpose",
    "scalar_summary": "summary.scalar", "histogram_summary": "summary.histogram", "image_summary": "summary.image",
    "audio_summary": "summary.audio", "merge_summary": "summary.merge", "merge_all_summaries": "summary.merge_all",
    "train.SummaryWriter": "summary.FileWriter", "python_io.TFRecordCompressionType": "io.TFRecordCompressionType",
    "all_variables": "global_variables", "initialize_all_variables": "global_variables_initializer",
    "initialize_local_variables": "local_variables_initializer", "initialize_variables": "variables_initializer",
    "nn.rnn": "nn.static_rnn", "nn.bidirectional_rnn": "nn.static_bidirectional_rnn", "nn.state_saving_rnn":
    "nn.static_state_saving_rnn", "nn.seq2seq": "contrib.legacy_seq2seq", "models.rnn.rnn_cell": "nn.rnn_cell",
    "models.rnn.rnn": "nn", "models.rnn.seq2seq": "contrib.legacy_seq2seq",
    "contrib.losses.log": "losses.log_loss", "uniform_unit_scaling_initializer": "initializers.uniform_unit_scaling",
    "train.GreedyLoadBalancingStrategy": "contrib.training.GreedyLoadBalancingStrategy",
    "ServerDef": "train.ServerDef", "ClusterDef": "train.ClusterDef", "GrpcServer": "train.Server",
    "python_io.tf_record_iterator": "io.tf_record_iterator",
}


def make_cluster_def(cluster: Any) -> Any:
    """The ClusterDef of a dictionary of jobs, as the first releases requested it."""
    return tf.train.ClusterSpec(cluster).as_cluster_def()


MADE = {"make_cluster_def": make_cluster_def}


def find(full: str) -> Any:
    """The current object for a name from before 1.0, or NOTHING."""
    if full in MADE:
        return MADE[full]
    value: Any = tf if full in RENAMED else NOTHING
    for word in RENAMED.get(full, "").split(".") if value is not NOTHING else ():
        value = getattr(value, word, NOTHING)
    return value
