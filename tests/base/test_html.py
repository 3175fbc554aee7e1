"""What notebooks show: tables of models, histories, datasets, graphs and sessions, with every name escaped."""
from html.parser import HTMLParser

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.base import html


class _Reader(HTMLParser):
    """The texts of a page; fails on tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def _texts(value):
    return _Reader(value._repr_html_()).texts


def _model():
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, name="hidden"), tf.keras.layers.Dense(1, name="out")], name="net")
    model.compile("sgd", "mse")
    return model


def test_models_before_and_after_building():
    model = _model()
    assert "hidden (Dense)" in _texts(model) and any("not built" in t for t in _texts(model))
    model.build([None, 2])
    assert {"net: 13 parameters, 13 trainable", "hidden (Dense)", "9", "4"} <= set(_texts(model))


def test_history_has_a_row_per_epoch_and_a_curve_per_metric():
    history = _model().fit(np.ones([4, 2]), np.ones([4, 1]), epochs=3, verbose=0)
    page = _Reader(history._repr_html_())
    assert page.tags.count("tr") == 4 and page.tags.count("polyline") == 1
    assert f"{history.history['loss'][2]:.4g}" in page.texts


def test_datasets_show_the_components():
    dataset = tf.data.Dataset.from_tensor_slices({"x": np.ones([4, 2], np.float32), "y": np.arange(4)}).batch(2)
    assert {"(None, 2)", "float32", "(None,)", "int64"} <= set(_texts(dataset))


def test_graphs_and_sessions():
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        v1.identity(x, name="same")
        assert {"Graph of 2 operations", "x", "Placeholder", "float32(None, 2)"} <= set(_texts(graph))
        with v1.Session() as session:
            texts = _texts(session)
        assert "same" in texts and any("CPU:0" in t for t in texts)
        assert _texts(session) == ["Session, closed"]


def test_a_session_of_an_empty_graph_is_shown():
    with v1.Session(graph=v1.Graph()) as session:
        assert any("CPU:0" in t for t in _texts(session))


def test_names_are_escaped_and_long_tables_cut():
    page = html.table("<script>", ["a"], [["<b>&"]] * 5, most=2)
    assert "script" not in _Reader(page).tags and _Reader(page).texts == ["<script>", "a", "<b>&", "<b>&", "… 3 more"]


@pytest.mark.parametrize("values", [[], [1.], [float("nan"), 2.], [float("inf"), 1.]])
def test_no_curve_of_fewer_than_two_numbers(values):
    assert html.curve("loss", values) == ""
