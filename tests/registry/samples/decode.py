"""Samples of decoding: raw numbers, CSV, serialized tensors, compressed data."""
import gzip
import zlib

import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import f, i, s, sample

NUMBERS = f(2, 3)

for _type in ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "complex64", "bool"):
    _data = (np.arange(6) % 2 if _type == "bool" else np.arange(6)).astype(_type)
    sample("DecodeRaw", s(_data[:3].tobytes(), _data[3:].tobytes()), out_type=dtypes.as_dtype(_type),
           expect=lambda x, d=_data: d.reshape(2, 3))
sample("DecodeRaw", s(NUMBERS.astype(">f4").tobytes()), out_type=dtypes.float32, little_endian=False,
       expect=lambda x: NUMBERS.reshape(1, 6))
sample("DecodePaddedRaw", s(b"\x01\x02", b"\x03", b"\x04\x05\x06\x07\x08"), np.int32(4), out_type=dtypes.uint8,
       expect=lambda x, n: np.array([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 7]], np.uint8))
sample("DecodePaddedRaw", s(b"\x01\x02\x03\x04"), np.int32(4), out_type=dtypes.int16, little_endian=False)

ROWS = s("1,2.5,a", ',,"b,""c"""', "3,nan,")
sample("DecodeCSV", ROWS, [np.array([7], np.int32), np.array([0.5], np.float32), s("z")])
sample("DecodeCSV", ROWS, [np.array([7], np.int64)], select_cols=[0])
sample("DecodeCSV", s("1|-|x").reshape(()), [np.array(1.0), np.array([2], np.int32), s("")], field_delim="|",
       na_value="-", use_quote_delim=False)

sample("SerializeTensor", i(2, 3))
sample("SerializeTensor", NUMBERS)
sample("SerializeTensor", s("a", "bc"))
sample("ParseTensor", s(b"\x08\x03\x12\x04\x12\x02\x08\x02\x22\x08\x01\x00\x00\x00\x02\x00\x00\x00").reshape(()),
       out_type=dtypes.int32, expect=lambda x: np.array([1, 2], np.int32))
sample("DecodeCompressed", s(zlib.compress(b"abc"), zlib.compress(b"")), compression_type="ZLIB",
       expect=lambda x: s("abc", ""))
sample("DecodeCompressed", s(gzip.compress(b"abc", mtime=0)), compression_type="GZIP", expect=lambda x: s("abc"))
sample("DecodeCompressed", s("abc"), expect=lambda x: x)
sample("DecodeJSONExample", s('{"features": {"feature": {"a": {"int64List": {"value": [1]}}}}}'))
