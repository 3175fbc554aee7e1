"""Strings of ragged tensors."""
import penstock as tf
import penstock.compat.v1 as v1


def test_splitting_strings_is_not_splitting_a_tensor():
    """Ragged tensors go to the function that is called, where two public functions have the same last name."""
    words = tf.ragged.constant([["a b", "c"], ["d e f"]])
    wanted = [[[b"a", b"b"], [b"c"]], [[b"d", b"e", b"f"]]]
    assert v1.strings.split(words, result_type="RaggedTensor").to_list() == wanted
    assert tf.strings.split(words).to_list() == wanted
    first, second = tf.split(tf.ragged.constant([[1, 2], [3]]), 2)
    assert (first.to_list(), second.to_list()) == ([[1, 2]], [[3]])
