"""The command line names the subcommands to someone who gives it none of them."""
import pytest

from penstock._src.tools.main import main


@pytest.mark.parametrize("argv", [["frobnicate"], ["demo"], ["digits", "--epochs", "1"], ["main"]], ids=" ".join)
def test_an_unknown_subcommand_is_answered_with_the_known_ones(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"invalid choice: '{argv[0]}'" in said
    assert all(name in said for name in ("'check'", "'launch'", "'run'", "'saved-model'", "'serve'", "'status'"))
