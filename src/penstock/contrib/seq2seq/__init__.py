"""tf.contrib.seq2seq: decoders that run in a loop, their helpers, attention, beam search, and the loss of sequences."""
from penstock.contrib.seq2seq import attention, beam_search, decoding, helpers, loss  # noqa: F401
