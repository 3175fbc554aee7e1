"""tf.summary: data for TensorBoard. Ops of both APIs, and the writers of event files."""
from penstock._src.training.summary import file_writer, graph_summaries, profiling, values, writers  # noqa: F401
