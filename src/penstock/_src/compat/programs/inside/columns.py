"""Of `feature_column.feature_column` and `feature_column.feature_column_v2`: classes that programs compare columns with.

There is one family of columns here, so the names of 1.x with an underscore are the same classes.
"""
from __future__ import annotations

from typing import Any

from penstock._src.models.feature_column.base import Batch, CategoricalColumn, DenseColumn, FeatureColumn
from penstock._src.models.feature_column.categorical import (
    CrossedColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
    WeightedCategoricalColumn,
)
from penstock._src.models.feature_column.combined import EmbeddingColumn, IndicatorColumn, SharedEmbeddingColumn, lengths
from penstock._src.models.feature_column.dense import BucketizedColumn, NumericColumn
from penstock._src.models.feature_column.sequence import SequenceCategoricalColumn, SequenceNumericColumn  # noqa: F401
from penstock._src.ops.nn.embedding import safe_embedding_lookup_sparse


def is_feature_column_v2(feature_columns: Any) -> bool:
    """Whether columns are of the family of 2.x: all are."""
    return True


def sequence_length_from_sparse_tensor(sp_tensor: Any, num_elements: int = 1) -> Any:
    """The number of steps in each row of a batch of sequences."""
    found = lengths(sp_tensor)
    return found if sp_tensor.shape.rank != 2 or num_elements == 1 else -(-found // num_elements)


_LazyBuilder = FeatureTransformationCache = Batch
_FeatureColumn, _DenseColumn, _CategoricalColumn = FeatureColumn, DenseColumn, CategoricalColumn
_NumericColumn, _BucketizedColumn, _IndicatorColumn = NumericColumn, BucketizedColumn, IndicatorColumn
_EmbeddingColumn, _SharedEmbeddingColumn, _CrossedColumn = EmbeddingColumn, SharedEmbeddingColumn, CrossedColumn
_IdentityCategoricalColumn, _HashedCategoricalColumn = IdentityCategoricalColumn, HashedCategoricalColumn
_VocabularyListCategoricalColumn = VocabularyListCategoricalColumn
_VocabularyFileCategoricalColumn = VocabularyFileCategoricalColumn
_WeightedCategoricalColumn, _SequenceCategoricalColumn = WeightedCategoricalColumn, SequenceCategoricalColumn


def fused_safe_embedding_lookup_sparse(*args: Any, **kwargs: Any) -> Any:
    """`safe_embedding_lookup_sparse` by DeepRec's name: the compiler fuses it automatically."""
    return safe_embedding_lookup_sparse(*args, **kwargs)
