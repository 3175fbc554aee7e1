"""Code points of many texts at once: those of each text alone."""
import random

import pytest

from penstock._src.kernels import unicode_text

PIECES = ["a", "é", "漢", "😀", "\x03", "xyz", ""]


def texts(seed, encoding):
    """Some texts, of which some are cut within a character."""
    r = random.Random(seed)
    for _ in range(r.randint(0, 7)):
        text = "".join(r.choice(PIECES) for _ in range(r.randint(0, 6))).encode(encoding)
        begin = r.randint(0, len(text)) if r.random() < 0.2 else 0
        yield text[begin:r.randint(0, len(text))] if r.random() < 0.3 else text[begin:]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE"])
@pytest.mark.parametrize("seed", range(40))
def test_many_texts_are_converted_as_one_by_one(seed, encoding):
    given = list(texts(seed, encoding))
    each = [unicode_text.code_points(text, encoding) for text in given]
    points, at, sizes = unicode_text.all_code_points(given, encoding)
    assert points.tolist() == [p for found, _ in each for p in found.tolist()]
    assert at.tolist() == [p for _, found in each for p in found.tolist()]
    assert sizes.tolist() == [len(found) for found, _ in each]
