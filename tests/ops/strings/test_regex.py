"""Regular expressions: RE2's syntax and meaning, errors, and linear time."""
import time

import pytest

import penstock as tf
from penstock._src.kernels import re2


def replaced(text, pattern, rewrite="-"):
    return tf.strings.regex_replace(text, pattern, rewrite).numpy()


@pytest.mark.parametrize("pattern, words", [
    ("a(", "missing \\)"), ("a)", "unexpected \\)"), ("[a", "missing ]"), ("a**", "bad repetition operator"),
    ("*a", "no argument for repetition"), ("(?=a)", "invalid perl operator"), ("(?P=x)", "invalid"),
    ("a{1001}", "repetition size"), ("(a{100}){100}", "repetition size"), ("a{2,1}", "repetition size"),
    ("\\1", "escape sequence"), ("\\Z", "escape sequence"), ("[[:foo:]]", "character class range"),
    ("\\p{Klingon}", "character class range"), ("[b-a]", "character class range"), ("a\\", "trailing"),
    ("(?<n>a)", "invalid perl operator"), ("(" * 200, "nesting too deep"), ("[\\", "trailing|missing"),
])
def test_invalid_patterns(pattern, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Invalid pattern: .*{words}"):
        replaced("a", pattern)


def test_invalid_rewrites():
    for rewrite in ("\\", "\\a", "\\2"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid rewrite"):
            replaced("a", "(a)", rewrite)


@pytest.mark.parametrize("text, pattern, expected", [
    ("abxd", "x*", b"-a-b-d-"),                  # an empty match counts, except right after another match
    ("a\n", "$", b"a\n-"),                       # $ is the end of the text, not of its last line
    ("a\nb", "(?m)^", b"-a\n-b"),
    (b"a\xffb", ".", b"-\xff-"),                 # what is not UTF-8 is matched by nothing
    ("a\vb c", "\\s", b"a\vb-c"),
    ("é_1", "\\w", "é--".encode()),
    ("aaa", "(?U)a+", b"---"),
    ("Straße", "(?i)STRASSE|ß", b"Stra-e"),
    ("αx", "\\p{Greek}", b"-x"),
    ("αx", "[^[:alpha:]]", b"-x"),
    ("a.b", "\\Q.\\E", b"a-b"),
    ("ab", "(?i:A)B|b", b"a-"),
    ("\u212a", "(?i)k", b"-"),                   # the Kelvin sign is a k
])
def test_meaning(text, pattern, expected):
    assert replaced(text, pattern) == expected


def test_groups():
    assert replaced("abab", "((a)|(b))*", "<\\1\\2\\3>") == b"<bab>"
    assert replaced("aab", "(a*)*b", "[\\1]") == b"[aa]"
    assert replaced("ab", "(a)(x)?", "<\\2>") == b"<>b"


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(\\w+\\s*)+!", "(a*)*b", "((a{1,9}){1,9}){1,9}b"])
def test_ambiguous_loops_take_linear_time(pattern):
    start = time.thread_time()
    assert not re2.compiled(pattern.encode()).full_match(b"a" * 3000)
    assert time.thread_time() - start < 5


def test_engines():
    """Python's engine where it cannot run away, the automaton where it could."""
    for pattern, automaton in ((rb"\w+\s", False), (rb"(\w+\s)+", False), (rb"<[^>]*>", False), (rb"(\w+\s*)+", True),
                               (rb"(a|ab)*c", True), (rb"(ab|cd)*", False)):
        assert isinstance(re2.compiled(pattern)._engine, re2._Automaton) is automaton, pattern


def test_pattern_as_tensor():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="rank 0"):
            tf.strings.regex_replace(["a"], tf.constant(["a"]), "b")
        t = tf.compat.v1.placeholder(tf.string)
        out = tf.strings.regex_full_match(["ab", "b"], t)
        with tf.compat.v1.Session() as sess:
            assert sess.run(out, {t: "a?b"}).tolist() == [True, True]
            with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
                sess.run(out, {t: ["a"]})


TEXTS = [b"", b"one two", b"\xff raw", b"caf\xc3\xa9 \xe2\x82", b"a\nb", b"x1y22z", b"two", b"1"]


@pytest.mark.parametrize("pattern", [rb"[^a-z]", rb"\d+", rb".", rb"o|tw", rb"\bt\w", rb"^.", rb".$", rb"(?m)^\w", rb"[a-z]*",
                                     rb"\s+", rb"\W+", rb"[xyz]+?", rb"[a-m\n]+", rb"(?s).+", rb"\xc3\xa9", rb"(a+)+b"])
@pytest.mark.parametrize("rewrite", [b"", b"-", b"\\\\", b"<\\0>", b"\xff", b"\\\\1"])
def test_many_texts_are_replaced_as_each_one(pattern, rewrite):
    compiled = re2.compiled(pattern)
    for texts in (TEXTS, [t for t in TEXTS if b"\xff" not in t], [t for t in TEXTS if t.isascii()], TEXTS[1:2], []):
        for everywhere in (True, False):
            wanted = [compiled.replace(t, re2.Rewrite(rewrite), everywhere) for t in texts]
            assert compiled.replace_all(texts, re2.Rewrite(rewrite), everywhere) == wanted
