"""What a stopped command says of what it kept."""

import inspect

import pytest
from cyclopts import App

from rubric_judge.cli import app, main


def _stop(*_words: object, **_options: object) -> None:
    raise KeyboardInterrupt


def test_only_commands_that_keep_judgements_speak_of_a_ledger_when_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [name for name in app if not name.startswith("-")]
    parameters = {
        name: inspect.signature(app[name].default_command or _stop).parameters
        for name in names
    }
    monkeypatch.setattr(App, "__call__", _stop)
    for name in names:
        monkeypatch.setattr("sys.argv", ["rubric-judge", name])
        with pytest.raises(SystemExit):
            main()
        told = capsys.readouterr().err
        assert told.startswith("rubric-judge: stopped; ")
        assert ("ledger" in told) == ("ledger" in parameters[name])
        assert ("called saved is in --out" in told) == (name == "label")
