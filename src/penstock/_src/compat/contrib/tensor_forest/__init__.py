"""tf.contrib.tensor_forest: random forests that grow from batches. growing.py is a tree, graphs.py the graph, client.py the
estimator."""
from penstock._src.compat.contrib.tensor_forest import client, graphs  # noqa: F401
