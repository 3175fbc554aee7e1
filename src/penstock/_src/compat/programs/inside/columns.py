"""Of `feature_column.feature_column` and `feature_column.feature_column_v2`: classes that programs ask columns for.

There is one family of columns here, so the names of 1.x with an underscore are the same classes.
"""
from penstock._src.models.feature_column.base import CategoricalColumn, DenseColumn, FeatureColumn
from penstock._src.models.feature_column.categorical import (
    CrossedColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
    WeightedCategoricalColumn,
)
from penstock._src.models.feature_column.combined import EmbeddingColumn, IndicatorColumn, SharedEmbeddingColumn
from penstock._src.models.feature_column.dense import BucketizedColumn, NumericColumn
from penstock._src.models.feature_column.sequence import SequenceCategoricalColumn, SequenceNumericColumn  # noqa: F401

_FeatureColumn, _DenseColumn, _CategoricalColumn = FeatureColumn, DenseColumn, CategoricalColumn
_NumericColumn, _BucketizedColumn, _IndicatorColumn = NumericColumn, BucketizedColumn, IndicatorColumn
_EmbeddingColumn, _SharedEmbeddingColumn, _CrossedColumn = EmbeddingColumn, SharedEmbeddingColumn, CrossedColumn
_IdentityCategoricalColumn, _HashedCategoricalColumn = IdentityCategoricalColumn, HashedCategoricalColumn
_VocabularyListCategoricalColumn = VocabularyListCategoricalColumn
_VocabularyFileCategoricalColumn = VocabularyFileCategoricalColumn
_WeightedCategoricalColumn, _SequenceCategoricalColumn = WeightedCategoricalColumn, SequenceCategoricalColumn
