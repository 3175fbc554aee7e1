"""The ops of the word2vec tutorial."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text(" ".join(["the cat sat on the mat and the dog sat too"] * 40) + " rare")
    return str(path)


def skipgram(path, **attrs):
    attrs = {"batch_size": 200, "window_size": 2, "min_count": 5, "subsample": 0.0, **attrs}
    return tf.raw_ops.Skipgram(filename=path, **attrs)


def test_pairs_are_neighbours(text):
    with tf.Graph().as_default(), tf.Session() as sess:
        made = skipgram(text)
        seen = [sess.run(made) for _ in range(30)]
    first, last = seen[0], seen[-1]
    words = [w.decode() for w in first.vocab_word]
    assert words[:2] == ["UNK", "the"] and "rare" not in words and first.vocab_freq[:2].tolist() == [1, 120]
    assert first.words_per_epoch == 441 and first.vocab_freq.sum() == 441
    near = {(a, b) for line in [["the cat sat on the mat and the dog sat too"] * 3] for s in [" ".join(line).split()]
            for i, a in enumerate(s) for b in s[max(0, i - 2):i] + s[i + 1:i + 3]}
    for step in seen:
        for e, label in zip(step.examples, step.labels):
            pair = (words[e], words[label])
            assert pair in near or "UNK" in pair or set(pair) <= {"too", "the", "sat", "dog", "cat"}  # the end meets the start
    assert first.current_epoch == 2 and last.current_epoch > first.current_epoch             # stretches of 1,000 words or more
    assert 0 < first.total_words_processed < last.total_words_processed <= 30 * 200


def test_frequent_words_are_left_out(text):
    with tf.Graph().as_default(), tf.Session() as sess:
        often = [np.bincount(sess.run(skipgram(text, subsample=s, batch_size=4000)).examples, minlength=3)[1] / 4000
                 for s in (0.0, 0.01)]
    assert often[1] < 0.8 * often[0]


def test_negative_sampling_descends():
    draw = np.random.RandomState(0)
    start, labels = draw.randn(2, 5, 3).astype(np.float32), [1, 2]
    with tf.Graph().as_default(), tf.Session() as sess:
        w_in, w_out = (tf.Variable(w, use_resource=False) for w in start)
        train = tf.raw_ops.NegTrain(w_in=w_in._ref(), w_out=w_out._ref(), examples=[0, 3], labels=labels, lr=0.5,
                                    vocab_count=[1, 1, 1, 1, 1], num_negative_samples=0)
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        found_in, found_out = sess.run([w_in, w_out])
    wanted_in, wanted_out = start.copy()
    for example, label in zip([0, 3], labels):
        g = 0.5 / (1 + np.exp(wanted_in[example] @ wanted_out[label]))
        wanted_in[example], wanted_out[label] = (wanted_in[example] + g * wanted_out[label],
                                                 wanted_out[label] + g * wanted_in[example])
    np.testing.assert_allclose(found_in, wanted_in, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found_out, wanted_out, rtol=1e-5, atol=1e-6)


def test_words_that_stand_together_become_alike(text):
    word2vec = tf.load_op_library("/nowhere/word2vec_ops.so")
    with tf.Graph().as_default(), tf.Session() as sess:
        words, counts, _, _, _, examples, labels = word2vec.skipgram_word2vec(
            filename=text, batch_size=50, window_size=2, min_count=5, subsample=0.0)
        words, counts = sess.run([words, counts])
        w_in, w_out = (tf.Variable(tf.random_uniform([len(words), 8], -0.1, 0.1, seed=s), use_resource=False) for s in (1, 2))
        train = word2vec.neg_train_word2vec(w_in, w_out, examples, labels, 0.1, vocab_count=counts.tolist(),
                                            num_negative_samples=4)
        sess.run(tf.global_variables_initializer())
        near = tf.reduce_mean(tf.reduce_sum(tf.gather(w_in, examples) * tf.gather(w_out, labels), 1))
        for _ in range(200):
            sess.run(train)
        assert sess.run(near) > sess.run(tf.reduce_mean(tf.matmul(w_in, w_out, transpose_b=True))) + 0.3


def test_wrong_arguments(text, tmp_path):
    (tmp_path / "short").write_text("a b c")
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="too little data: 3 words"):
            sess.run(skipgram(str(tmp_path / "short")))
        with pytest.raises(tf.errors.NotFoundError):
            sess.run(skipgram(str(tmp_path / "none")))
        w = tf.Variable(np.ones([2, 2], np.float32), use_resource=False)
        sess.run(w.initializer)
        for wrong, match in ((dict(examples=[5]), r"in \[0, 2\)"), (dict(vocab_count=[1]), "vocab_size mismatches: 2 vs. 1"),
                             (dict(vocab_count=[0, 0]), "one of them positive"), (dict(num_negative_samples=-1), "negative")):
            arguments = dict(examples=[0], labels=[1], lr=0.1, vocab_count=[1, 1], num_negative_samples=1)
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                sess.run(tf.raw_ops.NegTrain(w_in=w._ref(), w_out=w._ref(), **{**arguments, **wrong}))
