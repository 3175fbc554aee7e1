"""Functions that are integrals, against values of TensorFlow 2.21 and against their derivatives."""
import numpy as np
import pytest

import penstock as tf

X = np.array([0.0, 0.1, 0.5, 1.0, 1.6, 2.5, 6.0, 41.0])
KNOWN = {
    "dawsn": [0.0, 0.09933599239785286, 0.4244363835020223, 0.5380795069127684,
        0.3999398943230814, 0.22308372216743552, 0.08454268897454385, 0.012198752534263299],
    "expint": [-np.inf, -1.6228128139692766, 0.45421990486317354, 1.895117816355937,
        3.6053199490194694, 7.073765894578601, 85.9897621424392, 1.6006649143245042e+16],
    "fresnel_cos": [0.0, 0.09999753262708506, 0.4923442258714464, 0.779893400376823,
        0.36546168344048763, 0.45741300964177706, 0.499531467855501, 0.5077636549254546],
    "fresnel_sin": [0.0, 0.0005235895476122108, 0.06473243285999929, 0.4382591473903547,
        0.6388876835093806, 0.6191817558195929, 0.4469607612369303, 0.4999985298946724],
    "spence": [1.6449340668482264, 1.2997147230049588, 0.5822405264650135, 0.0,
        -0.5281071740446668, -1.1473806603755703, -2.749279126060808, -8.424004418259178],
}


@pytest.mark.parametrize("name", KNOWN)
def test_values(name):
    function = getattr(tf.math.special, name)
    np.testing.assert_allclose(function(tf.constant(X)), KNOWN[name], rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(function(tf.constant(X[1:5], tf.float32)), KNOWN[name][1:5], rtol=1e-6)


@pytest.mark.parametrize("name", KNOWN)
def test_gradients(name):
    x = tf.constant(X[1:6])
    value, grad = tf.test.compute_gradient(getattr(tf.math.special, name), [x], delta=1e-5)
    np.testing.assert_allclose(value[0], grad[0], rtol=1e-5, atol=1e-7)


def test_ends():
    special = tf.math.special
    ends = tf.constant([-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(special.dawsn(ends), [0, 0, np.nan])
    np.testing.assert_array_equal(special.fresnel_cos(ends), [-0.5, 0.5, np.nan])
    assert np.isnan(special.expint(-1.0)) and np.isnan(special.spence(-1.0))
    np.testing.assert_allclose(special.fresnel_sin(-0.7), -special.fresnel_sin(0.7), rtol=1e-6)
