"""Samples of summaries: the messages are TensorFlow's, byte for byte (but for the PNGs in images)."""
import numpy as np

from tests.registry.sample import f, i, s, sample, scalar_string

TAG = scalar_string(b"a tag")
sample("ScalarSummary", TAG, np.float32(1.5))
sample("ScalarSummary", s("a", "b"), np.array([2, 3], np.int32))
sample("HistogramSummary", TAG, f(20))
sample("HistogramSummary", TAG, i(2, 7))
sample("TensorSummary", f(2, 3), description="what it is", labels=["x"], display_name="shown")
sample("TensorSummary", s("text", "more"))
sample("TensorSummaryV2", TAG, f(2, 3), scalar_string(b""))
sample("TensorSummaryV2", TAG, np.float32(3), scalar_string(b""))
sample("AudioSummaryV2", TAG, f(2, 8, 1, low=-1, high=1), np.float32(8000))
sample("AudioSummary", TAG, f(3, 8, low=-1, high=1), sample_rate=4000.0, max_outputs=2)
sample("ImageSummary", TAG, i(2, 3, 4, 3, low=0, high=256, dtype=np.uint8), random=True)
sample("MergeSummary", [scalar_string(b""), scalar_string(b"\n\x05\n\x01a\x10\x00")])
