"""Regular expressions: RE2's syntax and meaning, errors, and linear time."""
import random
import re
import time

import pytest

import penstock as tf
from penstock._src.kernels import re2, re2_automaton, re2_cost


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
    """Recorded of TensorFlow: an absent group changes nothing; what is before an invalid escape replaces all matches."""
    def both(rewrite):
        return [tf.raw_ops.RegexReplace(input=["abcb", "x"], pattern="(b)", rewrite=rewrite, replace_global=g).numpy().tolist()
                for g in (True, False)]
    same = [b"abcb", b"x"]
    assert both("q\\2") == both("<\\0>\\9") == [same, same]
    assert both("q\\x") == both("q\\") == [[b"aqcq", b"x"], same]
    assert both("<\\0>\\z<\\0>") == [[b"a<b>c<b>", b"x"], same]
    assert both("\\\\2") == [[b"a\\2c\\2", b"x"], [b"a\\2cb", b"x"]]


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


@pytest.mark.parametrize("pattern, power", [
    (r"abc", 0), (r"\w+\s", 1), (r"(\w+\s)+", 1), (r"<[^>]*>", 1), (r"(ab|cd)*", 1), (r"\s*(\w+)\s*=\s*(\d+)\s*", 1),
    (r"a*a*", 2), (r"a*b?a*", 2), (r"a*ba*", 1), (r".*foo.*foo.*", 3), (r"a*a*-b*b*", 3), (r"(a*|b*)[ab]*", 2),
    (r"a*" * 30, 30), (r"\d{2,20}\d{2,20}", 2)])
def test_how_the_time_of_backtracking_grows(pattern, power):
    assert re2_cost.degree(re2.parse(pattern.encode())[0]) == power


@pytest.mark.parametrize("pattern", [r"(\w+\s*)+", r"(a|ab)*c", r"(a*)*", r"(a|a)*", r"a*" * 50, r"a?" * 3000])
def test_what_backtracking_would_not_end(pattern):
    """The automaton runs these, however short the text is."""
    assert re2_cost.degree(re2.parse(pattern.encode())[0]) == re2_cost.EXPONENTIAL


@pytest.mark.parametrize("pattern", ["(a|a)*" * 200 + "b", "a*" * 30 + "b", "(a|b|ab)*(a|b)*c", r"(\ba+\b|a)*b"])
def test_many_loops_take_linear_time(pattern):
    start = time.thread_time()
    assert not tf.strings.regex_full_match(["a" * 40_000], pattern).numpy()[0]
    assert tf.strings.regex_full_match(["a" * 40_000 + pattern[-1]], pattern).numpy()[0]
    assert time.thread_time() - start < 10


def test_a_text_that_needs_too_many_steps(monkeypatch):
    monkeypatch.setattr(re2_automaton, "_MAX_STEPS", 1000)
    pattern = re2.Pattern(b"(a|ab|b)*c")
    for run in (pattern.full_match, lambda text: pattern.replace(text, re2.Rewrite(b"-"), True)):
        assert run(b"ab" * 3) in (False, b"ababab")
        with pytest.raises(tf.errors.ResourceExhaustedError, match="1000 steps"):
            run("".join(map(chr, range(98, 1000))).encode() + b"a" * 1000)


def test_sets_of_places_are_forgotten(monkeypatch):
    """The automaton keeps a bounded number of sets, and finds the same."""
    monkeypatch.setattr(re2_automaton, "_MAX_KEPT", 30)
    pattern = re2.Pattern(b"((a|b)*a(a|b){6}|ab)*")
    texts = ["".join(random.choices("ab", k=n)).encode() for n in range(40)]
    wanted = [any(text[i:i + 1] == b"a" for i in range(len(text) - 6)) and bool(re.fullmatch(b"((a|b)*?a(a|b){6}|ab)*", text))
              or bool(re.fullmatch(b"(ab)*", text)) for text in texts]
    assert [pattern.full_match(t) for t in texts] == wanted and 0 < sum(wanted) < 40
    assert sum(len(places) for places, _ in pattern._linear._sets) <= 60


@pytest.mark.parametrize("pattern", [
    rb"a*b*", rb"(a|b)*?b", rb"(^a|b$)*", rb"\ba+\b", rb"(a\B|b)+", rb"(?m)(^a$\n?)+", rb"(a|ab)(c|bcd)*", rb"(x?y?)*", rb""])
def test_both_engines_agree(monkeypatch, pattern):
    texts = ["".join(random.choices("abcdxy \n", k=n % 7)).encode() for n in range(300)]
    quick = re2.Pattern(pattern)
    quick._longest_match = quick._longest_search = 100
    linear = re2.Pattern(pattern)
    linear._longest_match = linear._longest_search = -1
    assert [quick.full_match(t) for t in texts] == [linear.full_match(t) for t in texts]
    assert [quick.replace(t, re2.Rewrite(b"<\\0>"), True) for t in texts] == \
        [linear.replace(t, re2.Rewrite(b"<\\0>"), True) for t in texts]


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
