"""Samples of checks that hold, and of printing."""
import numpy as np

from tests.registry.sample import f, i, s, sample

sample("Assert", np.array(True), [f(2), s("text")], summarize=2)
sample("CheckNumerics", f(2, 3), message="values", expect=lambda x: x)
sample("CheckNumerics", f(3, dtype=np.float16), message="values", expect=lambda x: x)
sample("CheckNumericsV2", f(2, 3), message="values", expect=lambda x: x)
sample("Print", f(2, 3), [i(2), s("a")], message="printed by a sample: ", first_n=0, expect=lambda x, data: x)
sample("PrintV2", s("printed by a sample").reshape(()), output_stream="file:///dev/null")
sample("Timestamp", random=True)
