from pathlib import Path

import pytest
import structlog

from rubric_judge.cli import main

FILES = "--judge judge.yaml --out out"


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("reliability tasks.jsonl responses.jsonl", "--seed"),
        ("rejudge responses.jsonl tasks.jsonl", "--replicate"),
    ],
)
@pytest.mark.parametrize("count", [-1, 2**63])
def test_a_number_that_is_no_count_is_one_line_and_no_traceback(
    command: str,
    flag: str,
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["rubric-judge", *command.split(), *FILES.split(), f"{flag}={count}"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    structlog.reset_defaults()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    bound = ">= 0" if count < 0 else f"< {2**63}"
    assert (
        said == f'rubric-judge: Invalid value "{count}" for {flag}. Must be {bound}.\n'
    )
