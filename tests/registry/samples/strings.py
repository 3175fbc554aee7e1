"""Samples of string ops: formatting, joining, splitting, cutting, parsing, base64."""
import base64

import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import b, f, i, s, sample

WORDS = s("hello", "wörld", "", " a b ").reshape(2, 2)
TEXT = s("emerson lake palmer", "", "a,b,,c", " x  y ")


def each(function):
    """A reference that applies a function to every element."""
    return np.vectorize(function, otypes=[object])


sample("AsString", i(2, 3), expect=each(lambda v: str(v).encode()))
sample("AsString", f(4, dtype=np.float64), precision=3, expect=each(lambda v: b"%.3f" % v))
sample("AsString", f(3), scientific=True, width=14, fill="0")
sample("AsString", f(3), shortest=True)
sample("AsString", b(3), expect=each(lambda v: b"true" if v else b"false"))
sample("AsString", np.array([1 + 2j, -0.5j], np.complex64), precision=1)
sample("AsString", i(3, dtype=np.int64), width=6, fill="-")
sample("StringToNumber", s("1.5", " -2 ", "inf", "1e3"), expect=lambda x: x.astype(np.float32))
sample("StringToNumber", s("15", "-2"), out_type=dtypes.int32, expect=lambda x: x.astype(np.int32))
sample("StringToNumber", s("9007199254740993"), out_type=dtypes.int64, expect=lambda x: x.astype(np.int64))
sample("StringToNumber", s("0.1"), out_type=dtypes.float64, expect=lambda x: x.astype(np.float64))
sample("StringFormat", [f(2, 3), s("a", "b")], template="x = %s, y = %s!", placeholder="%s", summarize=1)
sample("StringFormat", [i(4, 5)], template="%t", placeholder="%t", summarize=-1)
sample("StringStrip", WORDS, expect=each(bytes.strip))
sample("StringLower", s("ABC", "Äx"), expect=each(bytes.lower))
sample("StringLower", s("ABC", "ÄX"), encoding="utf-8", expect=each(lambda x: x.decode().lower().encode()))
sample("StringUpper", s("abc", "äx"), expect=each(bytes.upper))
sample("StringUpper", s("straße"), encoding="utf-8", expect=each(lambda x: x.decode().upper().encode()))
sample("StringLength", WORDS, expect=lambda x: each(len)(x).astype(np.int32))
sample("StringLength", WORDS, unit="UTF8_CHAR", expect=lambda x: each(lambda v: len(v.decode()))(x).astype(np.int32))
sample("Substr", s("hello", "world"), np.int32(1), np.int32(3), expect=lambda x, p, n: each(lambda v: v[1:4])(x))
sample("Substr", s("hello", "world"), np.array([1, -2], np.int64), np.array([2, 9], np.int64))
sample("Substr", s("häßlich"), np.int32(-6), np.int32(3), unit="UTF8_CHAR")
sample("Substr", s("hello").reshape(()), i(2, 3, low=0, high=5), i(2, 3, low=0, high=5))

# joining
sample("StringJoin", [WORDS, s("x").reshape(()), WORDS], separator="|")
sample("StringJoin", [s("a", "b"), s("c", "d")], expect=lambda v: v[0] + v[1])
sample("ReduceJoin", WORDS, np.int32(0), separator="+")
sample("ReduceJoin", WORDS, np.array([0, 1], np.int32))
sample("ReduceJoin", WORDS, np.array([1, 0], np.int32), keep_dims=True, separator=",")
sample("ReduceJoin", WORDS, np.array([], np.int32), expect=lambda x, axes: x)
sample("UnsortedSegmentJoin", s("this", "a", "", "is"), np.array([0, 1, 1, 0], np.int32), np.int32(3), separator=":")
sample("UnsortedSegmentJoin", WORDS, np.array([1, 1], np.int64), np.int32(2))

# splitting
sample("StringSplit", TEXT, s(" ").reshape(()))
sample("StringSplit", TEXT, s(", ").reshape(()), skip_empty=False)
sample("StringSplit", TEXT, s("").reshape(()))
sample("StringSplitV2", TEXT, s("").reshape(()))
sample("StringSplitV2", TEXT, s(",").reshape(()), maxsplit=2)
sample("StringNGrams", s("a", "b", "c", "d"), np.array([0, 3, 3, 4], np.int64), separator="|", ngram_widths=[2, 3],
       left_pad="L", right_pad="R", pad_width=-1, preserve_short_sequences=False)
sample("StringNGrams", s("a", "b", "c", "d"), np.array([0, 3, 4], np.int32), separator=" ", ngram_widths=[2],
       left_pad="", right_pad="", pad_width=0, preserve_short_sequences=True)

sample("EncodeBase64", s("a", "ab", b"\xff\xfe\xfd"), pad=True, expect=each(base64.urlsafe_b64encode))
sample("EncodeBase64", s("a", "ab", "abc"))
sample("DecodeBase64", s("YQ==", "YWI", "YWJj", "__79"))
sample("StringStrip", s(" \t a b \n", "", "\x00 x"), expect=lambda x: s("a b", "", "\x00 x"))
sample("DecodeBase64", s("", "AAECAwQ").reshape(1, 2))
for _type, _texts, _values in ((dtypes.uint32, ("7", " 4000000000"), (7, 4_000_000_000)),
                               (dtypes.uint64, ("0", "18000000000000000000"), (0, 18_000_000_000_000_000_000))):
    sample("StringToNumber", s(*_texts), out_type=_type,
           expect=lambda _, v=_values, t=_type: np.array(v, t.as_numpy_dtype))
