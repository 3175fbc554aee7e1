"""Samples of regular expressions: both engines, Unicode, empty matches, groups."""
import re

import numpy as np

from tests.registry.sample import s, sample

TEXT = s("ab cd", "aab", "Äpfel", "", "a\nb").reshape(5, 1)


def one(text):
    return s(text).reshape(())


sample("RegexReplace", TEXT, one("[ab]+"), one("<\\0>"))
sample("RegexReplace", TEXT, one("(a|b)*"), one("<\\1>"))
sample("RegexReplace", TEXT, one("x*"), one("-"), replace_global=False)
sample("StaticRegexReplace", TEXT, pattern="\\pL", rewrite=".")
sample("StaticRegexReplace", TEXT, pattern="(?i)B|$", rewrite="<\\\\>")
sample("StaticRegexReplace", s("a1b22"), pattern="\\d+", rewrite="#", expect=lambda x: s(re.sub(b"\\d+", b"#", x[0])))
sample("RegexFullMatch", TEXT, one("[ab]+|.pfel"))
sample("RegexFullMatch", s("aaa", "aab"), one("(a+)+"), expect=lambda x, p: np.array([True, False]))
sample("StaticRegexFullMatch", TEXT, pattern="(?s).*b")
sample("StaticRegexFullMatch", TEXT, pattern="[a-c]+")
sample("StaticRegexFullMatch", TEXT.reshape(1, -1), pattern="")
