"""What `rubric-judge init` writes can be used at once, and takes no file's place."""

import json
from pathlib import Path

import pytest

from rubric_core import ConfigError, read_tasks
from rubric_judge import read_judge_spec
from rubric_judge.cli import main
from rubric_judge.ui.starting import preset, presets, write_new


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """Run the command; return its exit status."""
    monkeypatch.setattr("sys.argv", ["rubric-judge", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_what_is_written_is_judged_by_the_command_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(monkeypatch, "init", "first") == 0
    lint, score = capsys.readouterr().out.splitlines()[-2:]
    assert run(monkeypatch, *lint.split()[1:]) == 0
    assert run(monkeypatch, *score.split()[1:]) == 0

    rows = [
        json.loads(line) for line in Path("first/judged.jsonl").read_text().splitlines()
    ]
    good, poor = ([row["reward"] for row in rows[start::2]] for start in (0, 1))
    assert len(good) == len(poor) == len(list(read_tasks("first/tasks.jsonl"))) == 6
    assert min(good) > max(poor) == 0


@pytest.mark.parametrize("name", presets("rubric_judge"))
def test_every_judge_can_be_written_and_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, "init", str(tmp_path / name), "--judge", name) == 0

    text = (tmp_path / name / "judge.yaml").read_text("utf-8")
    assert text.startswith("# ")
    assert read_judge_spec(tmp_path / name / "judge.yaml")


def test_nothing_is_overwritten_and_then_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks.jsonl").write_text("mine", encoding="utf-8")

    assert run(monkeypatch, "init", str(tmp_path)) == 2

    assert "tasks.jsonl: there already, and not overwritten" in capsys.readouterr().err
    assert [path.read_text("utf-8") for path in tmp_path.iterdir()] == ["mine"]


def test_a_link_to_nowhere_is_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").symlink_to(tmp_path / "absent")

    with pytest.raises(ConfigError, match="there already"):
        write_new(tmp_path, {"judge.yaml": "type: lexical\n"})
    assert not (tmp_path / "absent").exists()


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(ConfigError, match="name another folder"):
        write_new(tmp_path / "file", {"judge.yaml": "type: lexical\n"})


def test_an_unknown_configuration_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"--judge 'gpt'.*anthropic, cascade, claims, gemini"
    ):
        preset("rubric_judge", "gpt", flag="--judge")


def test_the_help_names_every_judge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "init", "--help") in {0, None}
    shown = capsys.readouterr().out
    assert [name for name in presets("rubric_judge") if name not in shown] == []


def test_swapped_files_are_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(monkeypatch, "init", ".")
    told = "this is a line of answers; tasks are wanted here"
    for first, said in (
        ("answers", told),
        ("tasks", "this is a line of tasks, which another place"),
    ):
        words = (
            "score",
            f"{first}.jsonl",
            "tasks.jsonl",
            "--judge",
            "judge.yaml",
            "--out",
            "o",
        )
        assert run(monkeypatch, *words) == 2
        assert said in capsys.readouterr().err
