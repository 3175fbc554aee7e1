"""The command line: unknown subcommands, the list of subcommands, and what it loads."""
import subprocess
import sys

import pytest

import penstock
from penstock_cli import main

COMMANDS = ("check", "explain", "launch", "run", "saved-model", "serve", "simulate", "status")


@pytest.mark.parametrize("argv", [["frobnicate"], ["demo"], ["digits", "--epochs", "1"], ["main"]], ids=" ".join)
def test_an_unknown_subcommand_is_answered_with_the_known_ones(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"invalid choice: '{argv[0]}'" in said
    assert all(f"'{name}'" in said for name in COMMANDS)


def test_help_lists_every_subcommand_with_a_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    for name in COMMANDS:
        line = next(line for line in said.splitlines() if line.split()[:1] == [name])
        assert len(line.split()) > 3


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_that_of_the_package(flag, capsys):
    with pytest.raises(SystemExit) as ended:
        main([flag])
    assert ended.value.code == 0 and capsys.readouterr().out == f"penstock {penstock.__version__}\n"


@pytest.mark.parametrize("flag", ["--version", "--help", "frobnicate"])
def test_short_answers_load_neither_the_package_nor_torch(flag):
    code = ("import sys, penstock_cli\ntry:\n    penstock_cli.main()\nexcept SystemExit:\n    pass\n"
            "assert not {'penstock', 'torch', 'numpy'} & set(sys.modules)")
    done = subprocess.run([sys.executable, "-c", code, flag], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
