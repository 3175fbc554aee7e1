"""The demo: it learns, prints the path of its log, and the log can be read."""
import re

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from penstock._src.tools import demo


def run(capsys, tmp_path, *options):
    assert demo.main([*options, "--logdir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert f"log in {tmp_path}" in text and "tensorboard --logdir" in text
    return float(re.search(r"held-out accuracy ([\d.]+)% after", text).group(1))


def test_one_epoch_learns_and_logs(capsys, tmp_path):
    accuracy = run(capsys, tmp_path, "--epochs", "1")
    assert accuracy > 80
    log = EventAccumulator(str(tmp_path)).Reload()
    losses = [e.value for e in log.Scalars("loss")]
    assert len(losses) > 40 and losses[-1] < losses[0] / 2
    assert log.Scalars("accuracy")[0].value == pytest.approx(accuracy / 100, abs=1e-4)
    assert any(node.op == "Conv2D" for node in log.Graph().node)


def test_the_whole_demo_reaches_its_accuracy(capsys, tmp_path):
    assert run(capsys, tmp_path) >= 96


@pytest.mark.parametrize("options", [["--epochs", "0"], ["--lr", "-1"], ["--batch", "x"]])
def test_bad_options(options, capsys):
    with pytest.raises(SystemExit):
        demo.main(options)
    assert "argument" in capsys.readouterr().err
