"""tf.contrib.tensorboard.plugins.projector: the file that tells TensorBoard which embeddings to show, and with which labels."""
from __future__ import annotations

import os
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf

_PLACE = "contrib.tensorboard.plugins.projector"


def _message(name: str) -> Any:
    from tensorboard.plugins.projector import projector_config_pb2
    return getattr(projector_config_pb2, name)


for _name in ("ProjectorConfig", "EmbeddingInfo", "SpriteMetadata"):
    export.later(lambda _name=_name: _message(_name), v1=[f"{_PLACE}.{_name}"])


@export(v1=[f"{_PLACE}.visualize_embeddings"])
def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Writes the configuration into the directory of a summary writer.

    Args:
        summary_writer: Writer, or its folder.
        config: ProjectorConfig.

    Returns:
        None.

    >>> projector = tf.contrib.tensorboard.plugins.projector
    >>> config = projector.ProjectorConfig()
    >>> config.embeddings.add().tensor_name = "embedding:0"
    >>> with tf.Graph().as_default(), tf.summary.FileWriter("log") as writer:
    ...     projector.visualize_embeddings(writer, config)
    >>> tf.io.gfile.exists("log/projector_config.pbtxt")
    True
    """
    logdir = summary_writer if isinstance(summary_writer, str) else summary_writer.get_logdir()
    if logdir is None:
        raise ValueError("Summary writer must have a logdir")
    from google.protobuf import text_format
    with tf.gfile.GFile(os.path.join(os.fsdecode(logdir), "projector_config.pbtxt"), "w") as f:
        f.write(text_format.MessageToString(config))
