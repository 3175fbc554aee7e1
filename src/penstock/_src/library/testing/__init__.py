"""tf.test: utilities for the tests of user programs. Imported on first use.

    >>> class SquareTest(tf.test.TestCase):
    ...     def testSquare(self):
    ...         self.assertAllClose(tf.square([1., 2.]), [1., 4.])
    >>> tf.test.main()
"""
from unittest import mock

from penstock._src.base.api import export
from penstock._src.library.testing import benchmark, case, conditions, gradients, graphs, local_cluster, platform, stubs

export.value(mock, "test.mock")
