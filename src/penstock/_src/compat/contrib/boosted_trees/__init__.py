"""tf.contrib.boosted_trees: the trees of `tf.estimator`; a message says how they grow (learner.py), estimators of contrib.learn
stand around them (estimators.py)."""
from penstock._src.compat.contrib.boosted_trees import estimators, learner  # noqa: F401
