"""tf.contrib.boosted_trees: the trees of `tf.estimator`, configured by a message (learner.py), with estimators of contrib.learn
around them (estimators.py)."""
from penstock._src.compat.contrib.boosted_trees import estimators, learner  # noqa: F401
