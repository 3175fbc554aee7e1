"""The public names of TensorFlow 2.21 (scripts/make_api_names_2.py records them): each is here, or listed as absent."""
import pathlib

import pytest

import penstock

FOLDER = pathlib.Path(__file__).parent


def names(file):
    return {line for line in (FOLDER / file).read_text().splitlines() if line and line[0] != "#"}


def there(name):
    value = penstock
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            return False
    return True


def test_every_name_is_here_or_listed():
    record, absent = names("names_2_21.txt"), names("absent_2_21.txt")
    assert absent <= record
    missing = {n for n in record if not there(n)}
    assert not missing - absent, "these names of TensorFlow are gone"


@pytest.mark.slow
def test_the_list_is_not_stale():
    arrived = {n for n in names("absent_2_21.txt") if there(n)}
    assert not arrived, "these names have arrived: take them out of absent_2_21.txt and of docs/limitations.md"


def test_the_page_says_how_many_are_absent():
    page = (FOLDER.parent.parent / "docs" / "limitations.md").read_text()
    assert f"\n{len(names('absent_2_21.txt'))} of {len(names('names_2_21.txt')):,} names" in page
