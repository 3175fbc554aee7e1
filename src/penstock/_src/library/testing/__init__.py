"""tf.test: what programs test themselves with. Imported when one of its names is first requested.

    >>> class SquareTest(tf.test.TestCase):
    ...     def testSquare(self):
    ...         self.assertAllClose(tf.square([1., 2.]), [1., 4.])
    >>> tf.test.main()
"""
from unittest import mock

from penstock._src.base.api import export
from penstock._src.library.testing import benchmark, case, conditions, gradients, graphs, local_cluster, platform, stubs

export.value(mock, "test.mock")
