"""The soak run sees growth, and a short one ends well."""
from tests.chaos import soak


def _samples(*megabytes, descriptors=9):
    return [soak.Sample(i, m, descriptors, 1) for i, m in enumerate(megabytes)]


def test_growth_is_seen():
    assert soak.growth(_samples(*[100.0] * 12)) == []
    assert soak.growth(_samples(50.0, 70.0, 90.0, *[100.0] * 9)) == []            # caches fill first
    assert soak.growth(_samples(*[100.0 + 2 * i for i in range(12)])) == ["megabytes: 108 to 120"]
    leaking = [s._replace(descriptors=9 + i) for i, s in enumerate(_samples(*[100.0] * 12))]
    assert soak.growth(leaking) == ["descriptors: 13 to 19"]


def test_a_round_leaves_nothing_behind(tmp_path):
    soak.one_round(str(tmp_path))
    before = soak.sample(1)
    soak.one_round(str(tmp_path))
    after = soak.sample(2)
    assert (after.descriptors, after.threads) == (before.descriptors, before.threads)
