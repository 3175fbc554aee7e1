"""Samples of Unicode ops: encodings, malformed text, scripts."""
import numpy as np

from tests.registry.sample import s, sample

TEXT = s("aé€😀", b"\xffa\xe2\x82", "", "\x01b")
SPLITS = np.array([0, 2, 2, 3], np.int64)

sample("UnicodeDecode", TEXT, input_encoding="UTF-8")
sample("UnicodeDecode", TEXT, input_encoding="UTF-8", errors="ignore", replace_control_characters=True)
sample("UnicodeDecodeWithOffsets", TEXT, input_encoding="UTF-8", replacement_char=63)
sample("UnicodeDecodeWithOffsets", s("aé😀".encode("utf-16-be")), input_encoding="UTF-16-BE")
sample("UnicodeEncode", np.array([65, 0x1F600, 0xE9], np.int32), SPLITS, output_encoding="UTF-8",
       expect=lambda v, p: s("A😀", "", "é"))
sample("UnicodeEncode", np.array([65, -1, 0x110000], np.int32), SPLITS, output_encoding="UTF-16-BE")
sample("UnicodeEncode", np.array([65, -1, 66], np.int32), SPLITS, output_encoding="UTF-32-BE", errors="ignore")
sample("UnicodeTranscode", TEXT, input_encoding="UTF-8", output_encoding="UTF-16-BE")
sample("UnicodeTranscode", s("é".encode("latin1")), input_encoding="latin1", output_encoding="UTF-8",
       expect=lambda x: s("é"))
sample("UnicodeScript", np.array([65, 0x3B1, 0x4E00, 0x5D0, 0x20, -1, 0x110000], np.int32),
       expect=lambda x: np.array([25, 14, 17, 19, 0, -1, -1], np.int32))
