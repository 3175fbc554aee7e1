"""A language model of the Penn Treebank: embedding, LSTMs, logits of the next word."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from penstock.compat import v1 as tf


class RNN(tf.keras.Model):
    """LSTM cells one above the other, over time steps in the first dimension."""

    def __init__(self, hidden_dim: int, num_layers: int, keep_ratio: float):
        super().__init__()
        self.keep_ratio = keep_ratio
        self.cells = tf.contrib.checkpoint.List([tf.nn.rnn_cell.BasicLSTMCell(hidden_dim) for _ in range(num_layers)])

    def call(self, input_seq: Any, training: bool) -> list:
        for cell in self.cells:
            state, outputs = cell.zero_state(int(input_seq.shape[1]), tf.float32), []
            for step in tf.unstack(input_seq, num=int(input_seq.shape[0]), axis=0):
                output, state = cell(step, state)
                outputs.append(output)
            input_seq = tf.stack(outputs, axis=0)
            if training:
                input_seq = tf.nn.dropout(input_seq, self.keep_ratio)
        return [input_seq]


class PTBModel(tf.keras.Model):
    """Logits, a row for each word of a (steps, batch) sequence: `model(words, training=False)`."""

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, num_layers: int, dropout_ratio: float,
                 use_cudnn_rnn: bool = True):
        super().__init__()
        uniform = tf.random_uniform_initializer(-0.1, 0.1)
        self.keep_ratio, self.use_cudnn_rnn, self._hidden_dim = 1 - dropout_ratio, use_cudnn_rnn, hidden_dim
        self.embedding = tf.keras.layers.Embedding(vocab_size, embedding_dim, embeddings_initializer=uniform)
        self.rnn = tf.contrib.cudnn_rnn.CudnnLSTM(num_layers, hidden_dim, dropout=dropout_ratio) if use_cudnn_rnn else \
            RNN(hidden_dim, num_layers, self.keep_ratio)
        self.linear = tf.keras.layers.Dense(vocab_size, kernel_initializer=uniform)

    def call(self, input_seq: Any, training: bool) -> Any:
        y = self.embedding(input_seq)
        if training:
            y = tf.nn.dropout(y, self.keep_ratio)
        return self.linear(tf.reshape(self.rnn(y, training=training)[0], [-1, self._hidden_dim]))


def clip_gradients(grads_and_vars: Any, clip_ratio: float) -> Any:
    """Pairs of gradients and variables, with gradients cut to a global norm."""
    gradients, variables = zip(*grads_and_vars)
    return zip(tf.clip_by_global_norm(gradients, clip_ratio)[0], variables)


def loss_fn(model: Any, inputs: Any, targets: Any, training: bool) -> Any:
    """The mean cross-entropy of the words that follow."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(targets, [-1]), logits=model(inputs, training=training)))


def train(model: Any, optimizer: Any, train_data: Any, sequence_length: int, clip_ratio: float) -> None:
    """An epoch over a (steps, batch) array of words, eagerly."""
    for start in range(0, train_data.shape[0] - 1, sequence_length):
        end = min(start + sequence_length, train_data.shape[0] - 1)
        with tf.GradientTape() as tape:
            loss = loss_fn(model, tf.constant(train_data[start:end]), tf.constant(train_data[start + 1:end + 1]), True)
        pairs = zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        optimizer.apply_gradients(clip_gradients(pairs, clip_ratio))


class Datasets:
    """`ptb.train.txt` and `ptb.valid.txt` of a folder as numbers of words."""

    def __init__(self, path: str):
        self.word2idx: dict[str, int] = {}
        self.train, self.valid = (self.tokenize(os.path.join(path, f"ptb.{part}.txt")) for part in ("train", "valid"))

    def vocab_size(self) -> int:
        """How many words there are."""
        return len(self.word2idx)

    def tokenize(self, path: str) -> np.ndarray:
        """The numbers of a file's words, with `<eos>` behind each line."""
        with tf.gfile.Open(path, "r") as file:
            words = [word for line in file for word in (*line.split(), "<eos>")]
        return np.array([self.word2idx.setdefault(word, len(self.word2idx)) for word in words], np.int64)


def small_model(use_cudnn_rnn: bool) -> PTBModel:
    """200 units, no dropout."""
    return PTBModel(10000, 200, 200, 2, 0.0, use_cudnn_rnn)


def large_model(use_cudnn_rnn: bool) -> PTBModel:
    """650 units, half of them dropped."""
    return PTBModel(10000, 650, 650, 2, 0.5, use_cudnn_rnn)


def test_model(use_cudnn_rnn: bool) -> PTBModel:
    """20 units and 100 words."""
    return PTBModel(100, 20, 20, 2, 0.0, use_cudnn_rnn)
