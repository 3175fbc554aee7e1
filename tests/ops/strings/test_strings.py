"""Strings: errors, limits and public functions that samples do not show."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.kernels import hashing, summarize

v1 = tf.compat.v1
Invalid = tf.errors.InvalidArgumentError


def texts(tensor):
    return np.asarray(tensor.numpy()).tolist()


def test_as_string_refuses_what_makes_no_sense():
    for kwargs, words in (({"fill": "ab"}, "one or fewer"), ({"fill": "x"}, "not supported"),
                          ({"scientific": True, "shortest": True}, "both scientific")):
        with pytest.raises(Invalid, match=words):
            tf.strings.as_string([1.5], **kwargs)
    with pytest.raises(Invalid, match="precision not supported"):
        tf.strings.as_string([1], precision=2)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="bytes of text"):
        tf.strings.as_string([1.], width=2 ** 31 - 1, precision=2 ** 31 - 1)


@pytest.mark.parametrize("text", ["", ".", "1_0", "1 2", "0x", "1e", "abc", "٣"])
def test_text_that_is_no_number(text):
    with pytest.raises(Invalid, match="could not correctly convert string"):
        tf.strings.to_number([text])


def test_numbers_out_of_range():
    assert tf.strings.to_number("2147483647", tf.int32).numpy() == 2 ** 31 - 1
    with pytest.raises(Invalid):
        tf.strings.to_number("2147483648", tf.int32)
    numbers = tf.strings.to_number(["12", "-0034", "+7", "999999999999999999"], tf.int64)
    assert numbers.numpy().tolist() == [12, -34, 7, 10 ** 18 - 1]
    assert tf.strings.to_number(["1.5", "-2", "+0.25"]).numpy().tolist() == [1.5, -2.0, 0.25]
    assert tf.strings.to_number(tf.constant([], tf.string), tf.int32).shape == [0]
    for text in ("1_0", "1\n2", "", "0x10"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.strings.to_number(["1", text], tf.int32)
    assert tf.strings.to_number(["1e400", "-0x1p3"]).numpy().tolist() == [np.inf, -8]


def test_substr_positions():
    assert texts(tf.strings.substr("hello", 5, 1)) == b""
    assert texts(tf.strings.substr("hello", -2, -1)) == b"lo"
    for unit in ("BYTE", "UTF8_CHAR"):
        for pos in (6, -6):
            with pytest.raises(Invalid, match=f"pos {pos} out of range"):
                tf.strings.substr("hello", pos, 1, unit=unit)
    with pytest.raises(Invalid, match=r"at index \(0, 1\)"):
        tf.strings.substr([["abc", "a"]], [[0, 2]], [[1, 1]])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="pos and len shapes must match"):
        tf.strings.substr("hello", [1, 2], 1)


def test_join_needs_equal_shapes():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="(?i)shapes"):
        tf.strings.join([["a"], ["b", "c"]])
    assert texts(tf.strings.join(["a", ["b", "c"]], separator="/")) == [b"a/b", b"a/c"]


def test_reduce_join_axes():
    x = [["a", "b"], ["c", "d"]]
    assert texts(tf.strings.reduce_join(x)) == b"abcd"
    assert texts(v1.reduce_join(x, reduction_indices=0, keep_dims=True)) == [[b"ac", b"bd"]]
    with pytest.raises(Invalid, match="Duplicate"):
        tf.strings.reduce_join(x, axis=[0, -2])
    with pytest.raises(tf.errors.OutOfRangeError, match="Invalid reduction dimension"):
        tf.strings.reduce_join(x, axis=[2])


def test_segments_are_checked():
    for ids, count, words in (([0, 2], 2, "exceed"), ([0, -1], 2, "negative"), ([0], 1, "outer dimensions"),
                              ([0, 0], -1, "non-negative")):
        with pytest.raises(Invalid, match=words):
            tf.strings.unsorted_segment_join(["a", "b"], ids, count)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.raw_ops.UnsortedSegmentJoin(inputs=["a"], segment_ids=[0], num_segments=tf.constant(2 ** 40, tf.int64))


def test_ngrams_check_their_splits():
    call = dict(separator=" ", ngram_widths=[2], left_pad="", right_pad="", pad_width=0, preserve_short_sequences=False)
    for splits in ([0, 3], [1, 2], [0, 2, 1], [-1, 2]):
        with pytest.raises(Invalid):
            tf.raw_ops.StringNGrams(data=["a", "b"], data_splits=np.array(splits, np.int64), **call)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.raw_ops.StringNGrams(data=["a"], data_splits=np.array([0, 1], np.int64),
                                **{**call, "ngram_widths": [2 ** 30], "pad_width": -1, "left_pad": "x"})


def test_split_forms():
    parts = tf.strings.split(["a b", "", "c"])
    assert parts.to_list() == [[b"a", b"b"], [], [b"c"]]
    assert texts(tf.strings.split("a,b", ",")) == [b"a", b"b"]
    sparse = v1.strings.split(["a b", "c"])
    assert sparse.indices.numpy().tolist() == [[0, 0], [0, 1], [1, 0]] and texts(sparse.values) == [b"a", b"b", b"c"]
    assert v1.string_split(["a,b"], ",", result_type="RaggedTensor").to_list() == [[b"a", b"b"]]
    assert tf.strings.bytes_split(["ab", "c"]).to_list() == [[b"a", b"b"], [b"c"]]
    with pytest.raises(ValueError, match="result_type"):
        v1.strings.split(["a"], result_type="list")


def test_ngrams_forms():
    assert texts(tf.strings.ngrams(["A", "B", "C"], 2)) == [b"A B", b"B C"]
    assert texts(tf.strings.ngrams([["A", "B"], ["C", "D"]], 2, pad_values=("L", "R"))) == \
        [[b"L A", b"A B", b"B R"], [b"L C", b"C D", b"D R"]]
    ragged = tf.ragged.constant([["A", "B", "C"], ["D"]])
    assert tf.strings.ngrams(ragged, 2, separator="-").to_list() == [[b"A-B", b"B-C"], []]
    with pytest.raises(ValueError, match="greater than 0"):
        tf.strings.ngrams(["A"], 0)


def test_base64_errors():
    for text, words in (("Y", "1 modulo 4"), ("YW+j", "Invalid character"), ("YQ=", "Invalid character")):
        with pytest.raises(Invalid, match=words):
            tf.io.decode_base64(text)


def test_format():
    x = np.arange(60).reshape(3, 4, 5)
    assert texts(tf.strings.format("{}", tf.constant(x[0, 0]), summarize=2)) == b"[0 1 ... 3 4]"
    with pytest.raises(ValueError, match="expects 2 tensors"):
        tf.strings.format("{} {}", tf.constant(1))
    assert summarize.summarize_ends(x, 1).decode() == \
        "[[[0 ... 4]\n  ...\n  [15 ... 19]]\n\n ...\n\n [[40 ... 44]\n  ...\n  [55 ... 59]]]"
    assert summarize.summarize(x, 3) == "[[0 1 2...]]..."
    assert summarize.show_float(float(np.float32(1 / 3)), True) == "0.333333343"


def test_hashes_do_not_depend_on_neighbours():
    items = [bytes(range(n % 256)) * (n // 200 + 1) for n in range(0, 400, 7)]
    for hash_of in (hashing.fingerprint64, hashing.murmur64, lambda x: hashing.siphash(x, (1, 2))):
        assert hash_of(items).tolist() == [int(hash_of([x])[0]) for x in items]
        assert hash_of([]).tolist() == []
    with pytest.raises(Invalid, match="2 elements"):
        tf.strings.to_hash_bucket_strong(["a"], 10, [1])


def test_unicode_functions():
    points, starts = tf.strings.unicode_decode_with_offsets(["aé", ""], "UTF-8")
    assert points.to_list() == [[97, 233], []] and starts.to_list() == [[0, 1], []]
    assert texts(tf.strings.unicode_split("aé😀", "UTF-8")) == [b"a", "é".encode(), "😀".encode()]
    assert tf.strings.unicode_split([["ab"], ["é"]], "UTF-8").to_list() == [[[b"a", b"b"]], [["é".encode()]]]
    assert texts(tf.strings.unicode_encode([[72, 105], [33, 33]], "UTF-8")) == [b"Hi", b"!!"]
    assert tf.strings.unicode_decode(b"\xa4", "Latin-9").numpy().tolist() == [0x20AC]           # names as ICU compares them
    for encoding in ("nonsense", "rot13", "unicode_escape", "idna"):
        with pytest.raises(Invalid, match="Could not create converter"):
            tf.strings.unicode_decode("a", encoding)
    with pytest.raises(Invalid, match="Invalid formatting"):
        tf.strings.unicode_decode(b"\xff", "UTF-8", errors="strict")
    with pytest.raises(Invalid, match="replacement_char"):
        tf.strings.unicode_transcode("a", "UTF-8", "UTF-8", replacement_char=-1)
    with pytest.raises(Invalid, match="surrogate"):
        tf.strings.unicode_encode([0xD800], "UTF-8", errors="strict")
    for splits in ([], [1, 1], [0, 2], [0, 1, 0]):
        with pytest.raises(Invalid, match="nput_splits"):
            tf.raw_ops.UnicodeEncode(input_values=[65], input_splits=np.array(splits, np.int64), output_encoding="UTF-8")


def test_ragged_strings():
    words = tf.ragged.constant([["Ab ", "c"], ["1"]])
    assert tf.strings.upper(words).to_list() == [[b"AB ", b"C"], [b"1"]]
    assert tf.strings.length(words).to_list() == [[3, 1], [1]]
    assert tf.strings.regex_replace(words, "b", "x").to_list() == [[b"Ax ", b"c"], [b"1"]]
    assert tf.strings.join([words, words]).to_list() == [[b"Ab Ab ", b"cc"], [b"11"]]
    assert texts(tf.strings.reduce_join(words, axis=1, separator="-")) == [b"Ab -c", b"1"]
    assert texts(tf.strings.reduce_join(words, axis=0)) == [b"Ab 1", b"c"]


@pytest.mark.parametrize("widths", [[1], [2], [3, 1], [2, 2, 4]], ids=str)
@pytest.mark.parametrize("preserve", [False, True])
def test_ngrams_of_all_rows_are_those_of_each_row(widths, preserve):
    r = np.random.RandomState(0)
    rows = [[f"w{n}" for n in r.randint(0, 50, size)] for size in r.randint(0, 7, 40)]
    expected = [[" ".join(row[i:i + w]) for w in widths for i in range(len(row) - w + 1)] for row in rows]
    if preserve:
        expected = [made or ([" ".join(row)] if row else []) for made, row in zip(expected, rows, strict=True)]
    found = tf.strings.ngrams(tf.ragged.constant(rows), widths, preserve_short_sequences=preserve)
    assert found.to_list() == [[text.encode() for text in row] for row in expected]
