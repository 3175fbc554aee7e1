"""Ten programs of sequences, recommendation, graphs, control and audio beside TensorFlow on the CPU.
"""
from __future__ import annotations

import numpy as np

from workloads import work_table
from workloads.programs import stepping

WORK, workload = work_table()


def _floats(tf, *dims, seed=0, scale=1.0):
    return tf.constant((np.random.RandomState(seed).randn(*dims) * scale).astype("f"))


@workload
def memory_addressing(tf):
    """A controller that reads and writes a memory by content, as tf.scan over time."""
    w = [tf.Variable(_floats(tf, *d, seed=i, scale=0.2)) for i, d in enumerate([(24, 16), (16, 12), (16, 12), (28, 8)])]
    x, y = _floats(tf, 20, 8, 12), _floats(tf, 20, 8, 8, seed=5)

    def loss(x, y):
        def step(state, now):
            memory, read = state
            h = tf.tanh(tf.concat([now, read], 1) @ w[0])
            key, value = h @ w[1], tf.tanh(h @ w[2])
            scores = tf.einsum("bnd,bd->bn", memory, key) / (tf.norm(key, axis=1, keepdims=True) + 1e-3)
            weights = tf.nn.softmax(scores)[..., None]
            memory = memory * (1.0 - 0.5 * weights) + weights * value[:, None]
            return memory, tf.reduce_sum(weights * memory, 1)
        memories, reads = tf.scan(step, x, (0.1 * tf.ones([8, 10, 12]), tf.zeros([8, 12])))
        h = tf.concat([reads, x, reads[..., :4]], 2)
        return tf.reduce_mean(tf.square(tf.tensordot(h, w[3], 1) - y)) + 1e-3 * tf.reduce_mean(memories)
    step = stepping(tf, w, tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(x, y))


@workload
def clipped_policy_updates(tf):
    """Proximal policy optimization: four epochs over shuffled minibatches inside of one function."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    actor = tf.keras.Sequential([K.Dense(32, "tanh"), K.Dense(32, "tanh"), K.Dense(5)])
    critic = tf.keras.Sequential([K.Dense(32, "tanh"), K.Dense(1)])
    seen, actions = _floats(tf, 128, 10), tf.constant(r.randint(0, 5, 128))
    old, gains = _floats(tf, 128, seed=1, scale=0.1) - 1.6, _floats(tf, 128, seed=2)
    actor(seen), critic(seen)
    params = [*actor.trainable_variables, *critic.trainable_variables]
    opt = tf.keras.optimizers.Adam(3e-4)

    @tf.function
    def update():
        total = 0.0
        for _ in tf.range(4):
            for begin in tf.range(0, 128, 32):
                part = [tf.reshape(t[begin:begin + 32], [32, *t.shape[1:]]) for t in (seen, actions, old, gains)]
                with tf.GradientTape() as tape:
                    logits = tf.nn.log_softmax(actor(part[0]))
                    ratio = tf.exp(tf.gather(logits, part[1], batch_dims=1) - part[2])
                    clipped = tf.clip_by_value(ratio, 0.8, 1.2)
                    policy = -tf.reduce_mean(tf.minimum(ratio * part[3], clipped * part[3]))
                    value = tf.reduce_mean(tf.square(critic(part[0])[:, 0] - part[3]))
                    entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(logits) * logits, 1))
                    loss = policy + 0.5 * value - 0.01 * entropy
                grads, _ = tf.clip_by_global_norm(tape.gradient(loss, params), 0.5)
                opt.apply_gradients(zip(grads, params, strict=True))
                total += loss
        return total
    return lambda: float(update())


@workload
def advantage_scan(tf):
    """Generalized advantages by a reversed scan, and a step of the value function."""
    value = tf.keras.Sequential([tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(1)])
    seen, rewards = _floats(tf, 64, 16, 6), _floats(tf, 64, 16, seed=1)
    value(seen)

    def loss(seen, rewards):
        v = value(seen)[..., 0]
        deltas = rewards[:-1] + 0.99 * tf.stop_gradient(v[1:]) - tf.stop_gradient(v[:-1])
        gains = tf.scan(lambda a, d: d + 0.99 * 0.95 * a, deltas, tf.zeros([16]), reverse=True)
        return tf.reduce_mean(tf.square(v[:-1] - (gains + tf.stop_gradient(v[:-1]))))
    step = stepping(tf, value.trainable_variables, tf.keras.optimizers.SGD(1e-3), loss)
    return lambda: float(step(seen, rewards))


def _v1(tf, build):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(0)
        loss, feed, opt = build(v1)
        train, init = opt.minimize(loss), v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    return lambda: session.run([loss, train], feed)[0]


@workload
def v1_attention_pointer(tf):
    """A pointer network of 1.x: an encoder loop, then a loop that attends to its states and picks one."""
    def build(v1):
        x, y = v1.placeholder(tf.float32, [None, 12, 2]), v1.placeholder(tf.int32, [None, 12])
        w = v1.get_variable("w", [2 + 32, 64])
        a, b, v = (v1.get_variable(n, s) for n, s in (("a", [32, 32]), ("b", [32, 32]), ("v", [32, 1])))
        batch = tf.shape(x)[0]

        def cell(now, h):
            gate, new = tf.split(tf.concat([now, h], 1) @ w, 2, 1)
            gate = tf.sigmoid(gate)
            return gate * h + (1.0 - gate) * tf.tanh(new)

        def encode(t, h, states):
            h = cell(x[:, t], h)
            return t + 1, h, states.write(t, h)
        _, h, states = tf.while_loop(lambda t, *_: t < 12, encode, [0, tf.zeros([batch, 32]), tf.TensorArray(tf.float32, 12)])
        memory = tf.transpose(states.stack(), [1, 0, 2])
        keys = tf.tensordot(memory, a, 1)

        def decode(t, h, total):
            scores = tf.squeeze(tf.tensordot(tf.tanh(keys + (h @ b)[:, None]), v, 1), 2)
            total += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y[:, t], logits=scores))
            return t + 1, cell(tf.reduce_sum(tf.nn.softmax(scores)[..., None] * x, 1), h), total
        _, _, total = tf.while_loop(lambda t, *_: t < 12, decode, [0, h, 0.0])
        r = np.random.RandomState(0)
        return total, {x: r.rand(16, 12, 2), y: r.randint(0, 12, [16, 12])}, v1.train.RMSPropOptimizer(1e-3)
    return _v1(tf, build)


@workload
def session_recommender(tf):
    """Sessions through a recurrent cell; pairwise ranking against items of other rows of the batch."""
    r = np.random.RandomState(0)
    items, out = (tf.Variable(_floats(tf, 3000, 32, seed=i, scale=0.1)) for i in range(2))
    cell = tf.keras.layers.GRUCell(32)
    cell.build((None, 32))
    clicks = tf.constant(r.randint(0, 3000, [32, 16]))

    def loss(clicks):
        h, total = tf.zeros([32, 32]), 0.0
        for t in tf.range(15):
            h, _ = cell(tf.gather(items, clicks[:, t]), [h])
            scores = tf.matmul(h, tf.gather(out, clicks[:, t + 1]), transpose_b=True)
            weights = tf.nn.softmax(scores - 1e9 * tf.eye(32))
            good = tf.linalg.diag_part(scores)[:, None]
            total -= tf.reduce_mean(tf.math.log(tf.reduce_sum(weights * tf.sigmoid(good - scores), 1) + 1e-9))
        return total / 15.0
    step = stepping(tf, [items, out, *cell.trainable_variables], tf.keras.optimizers.Adagrad(0.05), loss)
    return lambda: float(step(clicks))


@workload
def self_attentive_recommender(tf):
    """Two blocks of causal attention over item histories, with layer norms and a sampled binary loss."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    items, places = tf.Variable(_floats(tf, 2000, 32, scale=0.1)), tf.Variable(_floats(tf, 20, 32, scale=0.1))
    blocks = [[K.Dense(96), K.Dense(32), K.LayerNormalization(), K.Dense(32, "relu"), K.Dense(32)] for _ in range(2)]
    past = tf.constant(r.randint(1, 2000, [32, 20]))
    good, bad = (tf.constant(r.randint(1, 2000, [32, 20])) for _ in range(2))
    mask = np.triu(np.full([20, 20], -1e9, "f"), 1)

    def network(past):
        h = tf.nn.embedding_lookup(items, past) * 5.6 + places
        for qkv, join, norm, wide, back in blocks:
            q, k, v = tf.split(qkv(norm(h)), 3, -1)
            h += join(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 5.6 + mask) @ v)
            h += back(wide(h))
        return h
    network(past)

    def loss(past, good, bad):
        h = network(past)
        up, down = (tf.reduce_sum(h * tf.nn.embedding_lookup(items, t), -1) for t in (good, bad))
        return tf.reduce_mean(tf.nn.softplus(-up) + tf.nn.softplus(down))
    params = [items, places, *(v for block in blocks for layer in block for v in layer.trainable_variables)]
    step = stepping(tf, params, tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(past, good, bad))


@workload
def graph_attention(tf):
    """Attention over edges: a softmax per node by segments, two heads, ELU."""
    r = np.random.RandomState(0)
    nodes, edges = 400, 2400
    x, y = _floats(tf, nodes, 32), tf.constant(r.randint(0, 6, nodes))
    source, target = (tf.constant(r.randint(0, nodes, edges)) for _ in range(2))
    w = [tf.Variable(_floats(tf, *d, seed=i, scale=0.2)) for i, d in enumerate(
        [(32, 16), (32, 16), (16, 1), (16, 1), (16, 1), (16, 1), (32, 6)])]

    def loss(x):
        heads = []
        for k in range(2):
            h = x @ w[k]
            scores = tf.nn.leaky_relu(tf.gather(h @ w[2 + k], source) + tf.gather(h @ w[4 + k], target))
            top = tf.gather(tf.math.unsorted_segment_max(scores, target, nodes), target)
            e = tf.exp(scores - tf.stop_gradient(top))
            share = e / (tf.gather(tf.math.unsorted_segment_sum(e, target, nodes), target) + 1e-9)
            heads.append(tf.nn.elu(tf.math.unsorted_segment_sum(share * tf.gather(h, source), target, nodes)))
        logits = tf.concat(heads, 1) @ w[6]
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = stepping(tf, w, tf.keras.optimizers.Adam(5e-3), loss)
    return lambda: float(step(x))


@workload
def label_propagation(tf):
    """Personalized page rank over a sparse matrix until it changes little, in a loop with a condition on values."""
    r = np.random.RandomState(0)
    n, places = 500, sorted({(int(a), int(b)) for a, b in r.randint(0, 500, [3000, 2])})
    values = np.array([1.0 / (1 + a % 7 + b % 3) for a, b in places], "f")
    matrix = tf.sparse.SparseTensor(places, values * 0.1, [n, n])
    start = _floats(tf, n, 8, scale=0.1)

    @tf.function
    def spread(start):
        _, h, _ = tf.while_loop(lambda t, h, change: (t < 40) & (change > 1e-4), lambda t, h, change: (
            t + 1, new := 0.8 * tf.sparse.sparse_dense_matmul(matrix, h) + 0.2 * start, tf.reduce_max(tf.abs(new - h))),
            [0, start, 1.0])
        return tf.reduce_sum(h)
    return lambda: float(spread(start))


@workload
def dilated_audio(tf):
    """Gated dilated causal convolutions with residuals and skips over raw audio."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    x, y = _floats(tf, 4, 400, 1), tf.constant(r.randint(0, 32, [4, 400]))
    first, last = K.Conv1D(24, 1), K.Conv1D(32, 1)
    stack = [(K.Conv1D(48, 2, padding="causal", dilation_rate=2 ** i), K.Conv1D(24, 1)) for i in range(6)]

    def network(x):
        h, skips = first(x), 0.0
        for wide, back in stack:
            a, b = tf.split(wide(h), 2, -1)
            part = back(tf.tanh(a) * tf.sigmoid(b))
            h, skips = h + part, skips + part
        return last(tf.nn.relu(skips))
    network(x)

    def loss(x, y):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=network(x)))
    params = [v for layer in (first, last, *(c for pair in stack for c in pair)) for v in layer.trainable_variables]
    step = stepping(tf, params, tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(x, y))


@workload
def state_space_filter(tf):
    """A Kalman filter with learned dynamics: products, solves and log determinants in a loop over time."""
    move, noise = tf.Variable(np.eye(4, dtype="f") * 0.9), tf.Variable(tf.zeros([4]))
    look = _floats(tf, 2, 4)
    seen = _floats(tf, 30, 8, 2)

    def loss(seen):
        mean, spread, total = tf.zeros([8, 4]), tf.eye(4, batch_shape=[8]), 0.0
        for t in tf.range(30):
            mean = mean @ move
            spread = tf.matmul(move, spread @ move, transpose_a=True) + tf.linalg.diag(tf.nn.softplus(noise))
            error = seen[t] - tf.matmul(mean, look, transpose_b=True)
            s = tf.matmul(look @ spread, look, transpose_b=True) + 0.1 * tf.eye(2)
            gain = tf.linalg.solve(s, look @ spread)
            mean += tf.einsum("bo,bos->bs", error, gain)
            spread -= tf.matmul(gain, look @ spread, transpose_a=True)
            far = tf.reduce_sum(error * tf.linalg.solve(s, error[..., None])[..., 0], 1)
            total += tf.reduce_mean(tf.linalg.logdet(s) + far)
        return total / 30.0
    step = stepping(tf, [move, noise], tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(seen))
