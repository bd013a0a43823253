"""What is said of a criterion, and what the command prints and writes."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rubric_judge.cli import main
from rubric_judge.quality.criteria.report import CriteriaReport, CriterionLife


def life(**figures: Any) -> CriterionLife:
    values: dict[str, Any] = {
        "name": "names",
        "prompts": 10,
        "groups": 40,
        "scores": 160,
        "invalid": 0,
        "unavailable": 0,
        "share": 0.5,
        "mean": 0.5,
        "spread": 0.3,
        "saturated": 0.0,
        "unmet": 0.0,
        "constant": 0.1,
        "held_down": 0.1,
        "gradient": 0.5,
        "noise": None,
        "tokens": None,
        "idle_tokens": None,
    }
    return CriterionLife(**values | figures)


def report(*rows: CriterionLife) -> CriteriaReport:
    return CriteriaReport(
        source="run",
        by="criterion",
        steps=2,
        prompts=10,
        groups=40,
        responses=160,
        invalid=3,
        unavailable=1,
        cells=80,
        constant_frac=0.45,
        constant_weight_frac=0.46,
        idle_frac=0.45,
        tokens=1000.0,
        idle_tokens=460.0,
        untold_tokens=0,
        rows=rows,
    )


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"constant": 1.0, "saturated": 1.0}, "met by every answer: drop it"),
        ({"constant": 0.95, "unmet": 0.95}, "never met: judge the reference answer"),
        ({"constant": 1.0, "saturated": 0.5, "unmet": 0.5}, "decided by the prompt"),
        ({"constant": 1.0}, "always the same partial score"),
        (
            {"constant": 0.6, "saturated": 0.6},
            "met by all answers in 60% of the groups",
        ),
        ({"constant": 0.7, "unmet": 0.7}, "met by no answer in 70% of the groups"),
        ({"held_down": 0.6}, "60% of the answers that do better on it"),
        ({"noise": 0.3}, "noise (0.30) is no less than the spread"),
        ({}, None),
        ({"constant": 1.0, "saturated": 1.0, "groups": 7}, None),
        ({"constant": None, "groups": 0}, None),
    ],
)
def test_a_criterion_comes_with_what_to_do(
    figures: dict[str, Any], said: str | None
) -> None:
    (*texts,) = report(life(**figures)).remedies().texts

    if said is None:
        assert texts == []
    else:
        ((name, text),) = texts
        assert name == "names"
        assert said in text


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"constant": 1.0, "saturated": 1.0}, "every answer meets everything"),
        ({"constant": 1.0, "unmet": 1.0}, "no answer meets anything"),
        ({"constant": 0.9, "unmet": 0.5}, "its answers do not differ"),
        ({"constant": 0.8, "held_down": 0.9}, None),
    ],
)
def test_a_prompt_comes_with_what_to_do(
    figures: dict[str, Any], said: str | None
) -> None:
    prompts = report(life(**figures)).model_copy(update={"by": "prompt"})

    assert [said in text for _, text in prompts.remedies().texts if said] == [
        True
    ] * bool(said)
    assert bool(prompts.remedies().rows) is bool(said)
    assert "weight %" not in prompts.table().header


def test_the_summary_says_what_could_not_matter() -> None:
    text = report(life()).summary()

    assert (
        "2 steps, 10 prompts, 40 groups, 160 responses (3 invalid, 1 unavailable)"
        in text
    )
    assert "In 45.0% of 80 comparisons" in text
    assert "46.0% of the weight" in text
    assert "46.0% of the judge's 1,000 tokens could not change an advantage" in text
    assert "divided equally among its criteria" in text


def test_columns_that_the_log_cannot_tell_are_left_out() -> None:
    plain = report(life()).table().header
    full = report(life(noise=0.1, tokens=10.0, idle_tokens=4.0, invalid=1)).table()

    assert not {"noise", "idle tokens %", "failed"} & set(plain)
    assert {"noise", "idle tokens %", "failed"} < set(full.header)
    assert full.texts[0][full.header.index("idle tokens %")] == "40.0"


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    code = "from rubric_judge.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "criteria", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_prints_a_table_and_writes_every_figure(tmp_path: Path) -> None:
    row = {"input": "p", "output": "y", "gts": "t", "score": 1.0, "names": 1.0}
    (tmp_path / "dumps").mkdir()
    for step in range(1, 10):
        lines = [{**row, "step": step, "cost": float(g)} for g in range(2)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"dumps/{step}.jsonl").write_text(text, encoding="utf-8")

    done = run(tmp_path / "dumps", "--last", "8", "--json", tmp_path / "out.json")

    assert done.returncode == 0, done.stderr
    assert "8 steps, 1 prompt, 8 groups, 16 responses" in done.stdout
    assert "met by every answer: drop it" in done.stdout
    assert "weighed alike" in done.stderr
    written = CriteriaReport.model_validate_json(
        (tmp_path / "out.json").read_text("utf-8")
    )
    assert {line.name: line.saturated for line in written.rows} == {
        "names": 1,
        "cost": 0,
    }
    assert written.notes


def test_the_command_that_is_named_shows_the_answers_behind_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"input": "p", "output": "y", "gts": "t", "score": 1.0, "step": 1}
    rows = [{**row, "names": 1.0, "cost": float(number)} for number in range(2)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "1.jsonl").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    (line,) = re.findall("answers behind a row: (.*)", run("1.jsonl").stdout)

    command, _, address = line.partition(", whose page opens there at ")
    assert address == "#criterion=cost"
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert '"cost"' in (tmp_path / "judgements.html").read_text("utf-8")


def test_the_command_ends_with_1_where_nothing_could_be_compared(
    tmp_path: Path,
) -> None:
    row = {"input": "p", "output": "y", "score": 1.0, "step": 1, "cost": 1.0}
    (tmp_path / "1.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    done = run(tmp_path / "1.jsonl")

    assert done.returncode == 1
    assert "No group holds two answers" in done.stderr
