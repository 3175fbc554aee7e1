"""tf.contrib.seq2seq: decoders that run in a loop, their helpers, attention, beam search, and the loss of sequences."""
from penstock._src.compat.contrib import deeper
from penstock._src.compat.contrib.seq2seq import attention, beam_search, decoding, helpers, loss  # noqa: F401

deeper("seq2seq", "ops.attention_wrapper", "ops.basic_decoder", "ops.beam_search_decoder", "ops.decoder", "ops.helper",
       "ops.loss")
