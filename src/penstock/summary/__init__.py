"""tf.summary: what a program shows in TensorBoard. Ops of both APIs, and the writers of event files."""
from penstock import api as _api
from penstock.summary import file_writer, graph_summaries, profiling, values, writers  # noqa: F401

_api.install(__name__, "v2", "summary.")
