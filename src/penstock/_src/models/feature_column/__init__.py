"""tf.feature_column: how the columns of a table become the inputs of a model."""
from penstock._src.models.feature_column import categorical, combined, dense, layers, sequence  # noqa: F401
