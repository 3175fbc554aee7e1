"""Five programs of decoding, hidden states and sparse graphs beside TensorFlow on the CPU.
"""
from __future__ import annotations

import numpy as np

from workloads import work_table
from workloads.programs import stepping

WORK, workload = work_table()


def _floats(tf, *dims, seed=0, scale=1.0):
    return tf.constant((np.random.RandomState(seed).randn(*dims) * scale).astype("f"))


@workload
def v1_attentive_decoder(tf):
    """A decoder of 1.x with an open batch: a gated cell attends to an encoded sequence, in a loop with a TensorArray."""
    v1, r = tf.compat.v1, np.random.RandomState(0)
    with tf.Graph().as_default() as graph:
        source, target = v1.placeholder(tf.float32, [None, 15, 24]), v1.placeholder(tf.float32, [None, 10, 24])
        w = [v1.get_variable(f"w{i}", d, initializer=tf.constant_initializer(r.randn(*d) * 0.1)) for i, d in enumerate(
            [(24, 32), (72, 64), (72, 32), (32, 32), (56, 24)])]
        memory = tf.tanh(tf.tensordot(source, w[0], 1))

        def step(t, h, context, outputs):
            given = tf.concat([target[:, t], context[:, :16], h], 1)
            z, r = tf.split(tf.sigmoid(given @ w[1]), 2, 1)
            new = tf.tanh(tf.concat([target[:, t], context[:, :16], r * h], 1) @ w[2])
            h = z * h + (1.0 - z) * new
            scores = tf.linalg.matvec(memory, h @ w[3])
            context = tf.reduce_sum(tf.nn.softmax(scores)[..., None] * memory, 1)
            return t + 1, h, context, outputs.write(t, tf.concat([h, context[:, :24]], 1) @ w[4])
        zeros = tf.zeros([tf.shape(source)[0], 32])
        *_, outputs = tf.while_loop(lambda t, *_: t < 10, step, [0, zeros, zeros, tf.TensorArray(tf.float32, 10)])
        loss = tf.reduce_mean(tf.square(tf.transpose(outputs.stack(), [1, 0, 2]) - target))
        train, init = v1.train.AdamOptimizer(1e-3).minimize(loss), v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    feed = {source: r.randn(16, 15, 24), target: r.randn(16, 10, 24)}
    return lambda: session.run([loss, train], feed)[0]


@workload
def viterbi(tf):
    """The best paths of a chain, forwards and backwards through arrays of pointers."""
    scores, moves = _floats(tf, 20, 16, 9), _floats(tf, 9, 9, seed=1)

    @tf.function
    def decode(scores):
        pointers = tf.TensorArray(tf.int32, 20)
        best = scores[0]
        for t in tf.range(1, 20):
            sums = best[:, :, None] + moves
            pointers = pointers.write(t, tf.argmax(sums, 1, output_type=tf.int32))
            best = tf.reduce_max(sums, 1) + scores[t]
        tags = tf.argmax(best, 1, output_type=tf.int32)
        total = tf.reduce_sum(tags)
        for t in tf.range(19, 0, -1):
            tags = tf.gather(pointers.read(t), tags, batch_dims=1)
            total += tf.reduce_sum(tags)
        return tf.reduce_sum(tf.reduce_max(best, 1)) + tf.cast(total, tf.float32)
    return lambda: float(decode(scores))


@workload
def hidden_markov(tf):
    """The forward algorithm as a tf.scan over logarithms, and its gradient."""
    w = [tf.Variable(_floats(tf, *d, seed=i, scale=0.3)) for i, d in enumerate([(8, 8), (8, 12), (8,)])]
    seen = tf.constant(np.random.RandomState(0).randint(0, 12, [25, 16]))

    def loss(seen):
        move, emit = tf.nn.log_softmax(w[0]), tf.nn.log_softmax(w[1])
        shown = tf.gather(tf.transpose(emit), seen)

        def step(alpha, now):
            return tf.reduce_logsumexp(alpha[:, :, None] + move, 1) + now
        alphas = tf.scan(step, shown[1:], tf.nn.log_softmax(w[2]) + shown[0])
        return -tf.reduce_mean(tf.reduce_logsumexp(alphas[-1], 1))
    step = stepping(tf, w, tf.keras.optimizers.Adam(1e-2), loss)
    return lambda: float(step(seen))


@workload
def beam_arrays(tf):
    """A beam search over a small recurrent model, with an open batch and a growing TensorArray of words."""
    w = [_floats(tf, *d, seed=i, scale=0.4) for i, d in enumerate([(50, 24), (24, 24), (24, 50)])]

    @tf.function(input_signature=[tf.TensorSpec([None, 24], tf.float32)])
    def search(start):
        batch = tf.shape(start)[0]
        h = tf.repeat(start, 4, axis=0)
        total = tf.tile(tf.constant([[0.0, -1e9, -1e9, -1e9]]), [batch, 1])
        words = tf.TensorArray(tf.int32, 0, dynamic_size=True)
        last = tf.zeros([batch * 4], tf.int32)
        for t in tf.range(12):
            h = tf.tanh(tf.gather(w[0], last) + h @ w[1])
            scores = tf.reshape(tf.nn.log_softmax(h @ w[2]), [batch, 4, 50]) + total[..., None]
            total, index = tf.math.top_k(tf.reshape(scores, [batch, 200]), 4)
            beam = index // 50 + 4 * tf.range(batch)[:, None]
            last = tf.reshape(index % 50, [-1])
            h = tf.gather(h, tf.reshape(beam, [-1]))
            words = words.write(t, last)
        return tf.reduce_sum(total) + 1e-3 * tf.cast(tf.reduce_sum(words.stack()), tf.float32)
    start = _floats(tf, 8, 24, seed=7)
    return lambda: float(search(start))


@workload
def v1_sparse_graph(tf):
    """Two graph convolutions over a fed sparse matrix, in a session of 1.x with dropout off."""
    v1, r = tf.compat.v1, np.random.RandomState(0)
    places = np.array(sorted({(int(a), int(b)) for a, b in r.randint(0, 600, [3600, 2])}))
    with tf.Graph().as_default() as graph:
        links = v1.sparse_placeholder(tf.float32, [600, 600])
        x, y = v1.placeholder(tf.float32, [None, 48]), v1.placeholder(tf.int32, [None])
        w = [v1.get_variable(f"w{i}", d, initializer=tf.constant_initializer(r.randn(*d) * 0.1))
             for i, d in enumerate([(48, 16), (16, 7)])]
        h = tf.nn.relu(tf.sparse.sparse_dense_matmul(links, x @ w[0]))
        logits = tf.sparse.sparse_dense_matmul(links, h @ w[1])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        loss += 5e-4 * sum(tf.nn.l2_loss(t) for t in w)
        train, init = v1.train.AdamOptimizer(1e-2).minimize(loss), v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    matrix = v1.SparseTensorValue(places, (np.ones(len(places)) / 6.0).astype("f"), [600, 600])
    feed = {links: matrix, x: r.randn(600, 48), y: r.randint(0, 7, 600)}
    return lambda: session.run([loss, train], feed)[0]
