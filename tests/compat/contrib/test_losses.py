"""tf.contrib.losses: weights of rows, the collection of losses, pairs."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(0)
P, L = RNG.rand(3, 4).astype(np.float32), RNG.rand(3, 4).astype(np.float32)
losses = tf.contrib.losses


@pytest.mark.parametrize("weights", [
    2.0, 0.0, [1.0, 0.0, 2.0], [[1.0], [0.0], [2.0]], RNG.randint(0, 2, [3, 4]).astype(np.float32)])
def test_weights_may_have_fewer_dimensions(weights, run):
    w = np.broadcast_to(np.asarray(weights, np.float32).reshape([-1] + [1] * (np.ndim(weights) != 0))
                        if np.size(weights) in (1, 3) else weights, [3, 4])
    _, squared, absolute = run(losses.mean_squared_error(P, L, weights=weights), losses.absolute_difference(P, L, weights))
    count = max(np.count_nonzero(w), 1)
    np.testing.assert_allclose(squared, (w * (P - L) ** 2).sum() / count, rtol=1e-5)
    np.testing.assert_allclose(absolute, (w * np.abs(P - L)).sum() / count, rtol=1e-5)


@pytest.mark.parametrize("weights", [1.0, [1.0, 0.5, 2.0]])
def test_pairs_include_each_element_with_itself(weights, run):
    _, found = run(losses.mean_pairwise_squared_error(P, L, weights))
    d = P - L
    rows = ((d[:, :, None] - d[:, None, :]) ** 2).mean((1, 2))
    np.testing.assert_allclose(found, (rows * weights).sum(), rtol=1e-4)


def test_collection_is_an_argument_of_add_loss():
    with tf.contrib.framework.arg_scope([losses.add_loss], loss_collection=None):
        losses.log_loss(P, L)
        losses.softmax_cross_entropy(P, L)
    assert not losses.get_losses()
    assert losses.sigmoid_cross_entropy(P, L).op.name == "sigmoid_cross_entropy_loss/value"
    assert len(losses.get_losses()) == 1


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="dimensions"):
        losses.softmax_cross_entropy(P, L, weights=np.ones([3, 4], np.float32))
    with pytest.raises(ValueError, match="ndims cannot be None"):
        losses.mean_squared_error(P, L, weights=tf.placeholder(tf.float32))
    with pytest.raises(ValueError, match="compatible"):
        losses.hinge_loss(P, np.ones([2, 1], np.float32))


LABELS, E = np.array([0, 1, 0, 2, 1, 0]), RNG.randn(6, 3).astype(np.float32)


def pairs():
    """Each anchor and positive, with the distances to all rows and which of them are negatives."""
    squares = ((E[:, None] - E[None]) ** 2).sum(-1)
    for a in range(6):
        for p in range(6):
            if a != p and LABELS[a] == LABELS[p]:
                yield a, p, squares, LABELS != LABELS[a], LABELS != LABELS[p]


def test_triplets_with_semi_hard_negatives(run):
    found = losses.metric_learning.triplet_semihard_loss(LABELS, E, margin=0.7)
    wanted = []
    for a, p, d, negative, _ in pairs():
        farther = d[a][negative & (d[a] > d[a, p])]
        wanted.append(max(0.7 + d[a, p] - (farther.min() if farther.size else d[a][negative].max()), 0))
    np.testing.assert_allclose(run(found)[1], np.mean(wanted), rtol=1e-5)


def test_lifted_structure(run):
    found = losses.metric_learning.lifted_struct_loss(LABELS, E)
    wanted = []
    for a, p, d, of_a, of_p in pairs():
        d = np.sqrt(d)
        wanted.append(np.log(np.exp(1 - d[a][of_a]).sum() + np.exp(1 - d[p][of_p]).sum()) + d[a, p])
    np.testing.assert_allclose(run(found)[1], (np.maximum(wanted, 0) ** 2).mean() / 2, rtol=1e-4)


def test_pairs_of_embeddings(run):
    learning, other = losses.metric_learning, RNG.randn(6, 3).astype(np.float32)
    rows = [tf.SparseTensor([[k]], [True], [3]) for k in LABELS]
    found = [learning.npairs_loss(LABELS, E, other), learning.npairs_loss_multilabel(rows, E, other),
             learning.contrastive_loss(LABELS > 0, E, other)]
    _, one, several, contrast = run(*found)
    logits = E @ other.T
    equal = (LABELS[:, None] == LABELS).astype(float)
    entropy = -(equal / equal.sum(1, keepdims=True) * (logits - np.log(np.exp(logits).sum(1, keepdims=True)))).sum(1).mean()
    np.testing.assert_allclose(one, entropy + 0.0005 * ((E ** 2).sum(1).mean() + (other ** 2).sum(1).mean()), rtol=1e-5)
    np.testing.assert_allclose(several, one, rtol=1e-5)
    d = np.sqrt(((E - other) ** 2).sum(1))
    np.testing.assert_allclose(contrast, np.where(LABELS > 0, d ** 2, np.maximum(1 - d, 0) ** 2).mean(), rtol=1e-5)


@pytest.mark.parametrize("name", ["triplet_semihard_loss", "lifted_struct_loss"])
def test_gradients_of_equal_embeddings_are_finite(name, run):
    x = tf.constant(np.concatenate([E[:3], E[:3]]))
    _, slope = run(tf.gradients(getattr(losses.metric_learning, name)(LABELS, x), x)[0])
    assert np.isfinite(slope).all()
