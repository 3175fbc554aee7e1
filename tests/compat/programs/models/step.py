"""Run by `penstock run`, and by real TensorFlow (real_tensorflow.py): a published model forward, then one training step.

    step.py gpt2|bert RESULT.npz [small]      with the folder of the model's source on PYTHONPATH

The weights are drawn by numpy from the names of the variables, so that both sides have the same ones.
"""
import sys
import zlib

import numpy as np
import tensorflow as tf

SMALL = sys.argv[3:] == ["small"]
BATCH, LENGTH = 2, 16 if SMALL else 48


def gpt2(tokens):
    """openai/gpt-2, the 124M shape: the language model's loss, trained by Adam as its users do."""
    import model
    hparams = model.default_hparams()
    hparams.override_from_dict({"n_vocab": 50257} if not SMALL else
                               {"n_vocab": 101, "n_ctx": 32, "n_embd": 32, "n_head": 2, "n_layer": 2})
    logits = model.model(hparams=hparams, X=tf.constant(tokens % hparams.n_vocab, tf.int32))["logits"]
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.constant(tokens[:, 1:] % hparams.n_vocab), logits=logits[:, :-1]))
    return logits, loss, lambda: tf.train.AdamOptimizer(1e-3).minimize(loss)


def bert(tokens):
    """google-research/bert, the base shape: a classifier on the pooled output, trained by the repository's own optimizer."""
    import modeling
    import optimization
    sizes = {"vocab_size": 30522} if not SMALL else {"vocab_size": 101, "hidden_size": 32, "num_hidden_layers": 2,
                                                     "num_attention_heads": 2, "intermediate_size": 64}
    config = modeling.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes)
    mask = np.ones_like(tokens)
    mask[1, -5:] = 0
    model = modeling.BertModel(config=config, is_training=True, input_ids=tf.constant(tokens % config.vocab_size, tf.int32),
                               input_mask=tf.constant(mask, tf.int32), token_type_ids=tf.constant(tokens % 2, tf.int32))
    weights = tf.get_variable("output_weights", [3, config.hidden_size])
    logits = tf.matmul(model.get_pooled_output(), weights, transpose_b=True)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.constant([0, 2]), logits=logits))
    loss += tf.reduce_mean(tf.square(model.get_sequence_output())) * 0.1
    return model.get_sequence_output(), loss, lambda: optimization.create_optimizer(loss, 1e-5, 10 ** 6, 0, use_tpu=False)


def weights(variable):
    """The value that a variable has on both sides."""
    draw = np.random.RandomState(zlib.crc32(variable.name.encode()) & 0x7FFFFFFF)
    shape = variable.shape.as_list()
    value = draw.standard_normal(shape).astype(np.float32) * 0.02
    return value + 1 if variable.name.split("/")[-1] in ("g:0", "gamma:0") else value


def main():
    tokens = np.random.RandomState(0).randint(1, 1 << 20, [BATCH, LENGTH])
    output, loss, optimize = {"gpt2": gpt2, "bert": bert}[sys.argv[1]](tokens)
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables)
    train = optimize()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for v in variables:
            v.load(weights(v), session)
        count = sum(int(np.prod(v.shape.as_list())) for v in variables)
        first, before = session.run([output, loss])
        norms = session.run([tf.sqrt(tf.reduce_sum(tf.square(tf.convert_to_tensor(g)))) for g in gradients])
        session.run(train)
        after = session.run(loss)
        changed = {v.name: session.run(tf.reshape(v, [-1])[:50]) for v in variables}
    print("parameters %d, loss %.6f, then %.6f" % (count, before, after))
    np.savez(sys.argv[2], output=first, losses=[before, after], norms=norms, count=count,
             **{"variable " + n.replace("/", "|"): a for n, a in changed.items()})


main()
