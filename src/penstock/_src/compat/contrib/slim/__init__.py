"""tf.contrib.slim: layers, losses and metrics under one name, a training and an evaluation loop, readers of data; networks in
`nets`.

The layers, argument scopes and variables are those of contrib.layers and contrib.framework, which export their slim names
themselves.
"""
from penstock._src.compat.contrib import deeper, framework, layers, losses, metrics  # noqa: F401
from penstock._src.compat.contrib.slim import analysis, data, evaluation, learning, queues, summaries  # noqa: F401

deeper("slim", "slim")
