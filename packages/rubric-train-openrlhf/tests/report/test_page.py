from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    Rubric,
    RubricFileError,
    Task,
    write_tasks,
)
from rubric_judge.ui.page.rendering import inert_json, visible
from rubric_train_openrlhf.report.page import Revealed, write_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VOID = {"meta", "input", "path", "use", "rect", "wbr"}


class _Page(HTMLParser):
    """Elements, text and scripts of a page; fails on a tag closed out of turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.scripts: dict[str, str] = {}
        self.text = ""
        self._script = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.addresses += [
            value
            for name, value in attrs
            if name in {"src", "href", "action"} and value
        ]
        self._script = values.get("id") or "code"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
        elif inside != "style":
            self.text += data


def _written(run: Path) -> tuple[str, _Page]:
    text = write_report(run).read_text(encoding="utf-8")
    return text, _Page(text)


def _change_row(path: Path, number: int, fields: dict[str, object]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **fields})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_page_of_a_finished_run_is_whole_and_needs_nothing_else(
    make_run: Callable[..., Path],
) -> None:
    text, page = _written(make_run(steps=8))
    assert "Finished: 8 steps, 5 min 47 s for steps and validation." in page.text
    for title in (
        "Rubric reward",
        "Zero reward",
        "KL to the reference policy",
        "Rollouts",
    ):
        assert title in page.text
    assert all(address.startswith("#") for address in page.addresses)
    assert not re.search(r"@import|url\((?!#)", text)
    assert len(page.ids) == len(set(page.ids))
    data = {"chart-data", "policy-data", "judge-data", "criteria-data"}
    assert set(page.scripts) == data | {"code"}


def test_page_forbids_the_network(make_run: Callable[..., Path]) -> None:
    text, _ = _written(make_run(steps=1, prompts=1, group=2))
    assert "default-src 'none'" in text


def test_same_folder_gives_the_same_page(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=3, prompts=2, group=2)
    assert _written(run)[0] == _written(run)[0]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("no run", encoding="utf-8")
    with pytest.raises(RubricFileError, match="holds no run"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_a_run_that_has_just_begun_gives_a_page_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").touch()
    _, page = _written(tmp_path)
    assert "No step has been finished yet" in page.text
    assert "No rollouts yet." in page.text
    assert "0 steps on disk." in page.text


def test_a_single_step_is_drawn(make_run: Callable[..., Path]) -> None:
    _, page = _written(make_run(steps=1, prompts=1, group=2))
    assert "Finished: 1 step" in page.text
    assert "svg" in page.tags


def test_page_does_without_held_out_rows_or_records(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=2, prompts=1, group=2)
    for name in (
        "heldout.jsonl",
        "summary.json",
        "environment.json",
        "config.resolved.yaml",
    ):
        (run / name).unlink()
    _, page = _written(run)
    assert "2 steps on disk." in page.text
    assert "Criteria, validation" not in page.text


def test_page_does_without_training_rows(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=2, prompts=1, group=2)
    (run / "metrics.jsonl").unlink()
    assert "Criteria, validation" in _written(run)[1].text


def test_a_rollout_without_its_judgement_is_still_shown(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    (run / "judgements" / "step_000001.jsonl").unlink()
    _, page = _written(run)
    assert json.loads(page.scripts["judge-data"]) == {}
    assert len(json.loads(page.scripts["policy-data"])["steps"][0]["rows"]) == 2


def test_a_torn_last_line_is_left_out_and_said(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=4)
    metrics = run / "metrics.jsonl"
    metrics.write_text(metrics.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    _, page = _written(run)
    assert "The last line of metrics.jsonl is incomplete" in page.text
    assert "3 of 4 steps" in page.text


HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<!-- <script> -->",
    "<img src=x onerror=alert(1)>",
    "line\u2028paragraph\u2029end",
    "&lt;b&gt; &amp; <b>",
    '"];alert(1);//',
    "null \x00 and bell \x07",
    "Zürich 漢字 🙂",
]


def test_text_of_a_response_is_inert_and_whole(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=1, prompts=1, group=len(HOSTILE))
    clean = _written(run)[1]
    for number, text in enumerate(HOSTILE):
        _change_row(
            run / "rollouts" / "step_000001.jsonl",
            number,
            {"response": text, "prompt": text},
        )
    page_text, page = _written(run)
    assert page.tags == clean.tags
    data = json.loads(page.scripts["policy-data"])
    shown = [row["response"] for row in data["steps"][0]["rows"]]
    assert shown == [visible(text) for text in HOSTILE]
    assert data["prompts"] == shown
    assert not re.search("[\u2028\u2029]", page_text)


def test_a_lone_surrogate_does_not_stop_the_page(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    (run / "summary.json").write_text(
        '{"status": "failed", "error": "before \\ud800 after"}', encoding="utf-8"
    )
    assert "before [U+D800] after" in _written(run)[1].text


def test_other_text_on_the_page_is_escaped(
    make_run: Callable[..., Path], comparison: dict[str, Any]
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    bold = "<b id=owned>"
    comparison["claim"] = comparison["judge"] = bold
    comparison["heldout"]["sft"]["label"] = bold
    comparison["heldout"]["sft"]["criteria"] = {bold: 0.5}
    (run / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
    (run / "config.resolved.yaml").write_text(f"seed: '{bold}'\n", encoding="utf-8")
    (run / "environment.json").write_text(f'{{"device": "{bold}"}}', encoding="utf-8")
    (run / "summary.json").write_text(
        json.dumps({"status": "failed", "error": bold}), encoding="utf-8"
    )
    _change_row(run / "metrics.jsonl", 0, {"criteria": {bold: 0.5, "$x_1$": 0.25}})
    _, page = _written(run)
    assert "owned" not in page.ids
    assert "b" not in page.tags
    assert page.text.count(bold) >= 6


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_lacks_become_null(value: float) -> None:
    assert json.loads(inert_json({"a": [value, 1.5]})) == {"a": [None, 1.5]}


def test_the_policy_view_holds_nothing_of_the_judge(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=2, prompts=1, group=2)
    rows = run / "judgements" / "step_000001.jsonl"
    result = json.loads(rows.read_text(encoding="utf-8").splitlines()[0])["result"]
    reasoning = "PASSAGE-CANARY and RUBRIC-TEXT-CANARY"
    _change_row(rows, 0, {"result": {**result, "reasoning": reasoning}})
    text, page = _written(run)
    assert "CANARY" not in text  # nobody asked for what the judge knew
    assert "--reveal-grounding" in page.text
    policy = json.loads(page.scripts["policy-data"])
    assert set(policy["steps"][0]["rows"][0]) == {
        "id",
        "prompt",
        "task",
        "response",
        "reward",
        "advantage",
        "tokens",
        "ended",
        "outcome",
    }


def _reveal(run: Path, passage: str = "PASSAGE-CANARY of the mean.") -> Task:
    """Give the run's tasks a file, with the first rollout's task in it."""
    task = Task(
        question="What does it return?",
        grounding=Grounding(passage),
        rubric=Rubric(
            criteria=(
                Criterion(
                    id="returns",
                    weight=1.0,
                    description="RUBRIC-CANARY",
                    required_elements=("the mean", "eigenvalue"),
                ),
            )
        ),
    )
    write_tasks(run / "train.jsonl", [task])
    config = yaml.safe_load((run / "config.resolved.yaml").read_text(encoding="utf-8"))
    config["data"] = {"train": str(run / "train.jsonl")}
    (run / "config.resolved.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    for folder in ("rollouts", "judgements"):
        _change_row(run / folder / "step_000001.jsonl", 0, {"task_id": task.task_id})
    return task


def test_a_revealed_page_shows_criteria_missing_terms_passage_and_reasoning(
    make_run: Callable[..., Path], comparison: dict[str, Any]
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    task = _reveal(run)
    rows = run / "rollouts" / "step_000001.jsonl"
    _change_row(rows, 0, {"response": "It returns the mean of its input."})
    answers = {"sft": "It returns an eigenvalue.", "grpo": "It returns the mean."}
    comparison["answers"] = [
        {"task_id": task.task_id, "question": task.question, "answers": answers}
    ]
    (run / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
    assert "CANARY" not in _written(run)[0]
    text = write_report(run, reveal=Revealed()).read_text(encoding="utf-8")
    page = _Page(text)
    grounding = json.loads(page.scripts["grounding-data"])[task.task_id]
    assert grounding["passage"] == "PASSAGE-CANARY of the mean."
    assert grounding["rubric"] == [
        {"id": "returns", "weight": 1.0, "text": "RUBRIC-CANARY"}
    ]
    judged = next(iter(json.loads(page.scripts["judge-data"]).values()))
    missing = [entry[4] for entry in judged["criteria"] if entry[0] == "returns"]
    assert missing == [["eigenvalue"]]
    assert "well-formed sentence" in judged["reasoning"]
    assert "for the judge’s side" in page.text
    lacks = page.text.partition("what each answer lacks")[2]
    assert (
        lacks.index("the mean")
        < lacks.index("eigenvalue")
        < lacks.index("PASSAGE-CANARY")
    )
    assert "CANARY" not in page.scripts["policy-data"]


def test_tasks_that_are_gone_can_be_named(
    make_run: Callable[..., Path], tmp_path: Path
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    task = _reveal(run)
    (run / "train.jsonl").rename(tmp_path / "moved.jsonl")
    with pytest.raises(ConfigError, match="--tasks"):
        write_report(run, reveal=Revealed())
    text = write_report(run, reveal=Revealed((tmp_path / "moved.jsonl",))).read_text(
        "utf-8"
    )
    assert task.task_id in json.loads(_Page(text).scripts["grounding-data"])


def test_the_judge_view_is_joined_by_id(make_run: Callable[..., Path]) -> None:
    _, page = _written(make_run(steps=1, prompts=2, group=3))
    rows = json.loads(page.scripts["policy-data"])["steps"][0]["rows"]
    judge = json.loads(page.scripts["judge-data"])
    assert set(judge) == {row["id"] for row in rows}
    for row in rows:
        parts = [
            entry[3] for entry in judge[row["id"]]["criteria"] if entry[3] is not None
        ]
        if parts:
            assert sum(parts) == pytest.approx(row["advantage"])


def test_comparison_shows_stages_controls_differences_and_claim(
    make_run: Callable[..., Path], comparison: dict[str, Any]
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    comparison["differences"].append({"a": "sft", "b": "grpo", "mean": -0.1, "n": 1})
    (run / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
    _, page = _written(run)
    head, _, rest = page.text.partition("Finished: 1 step")
    assert "45.2\N{NO-BREAK SPACE}%." in head
    head = head.replace("\N{NO-BREAK SPACE}", " ")
    assert comparison["result"] in head  # before any other figure
    assert comparison["claim"] in rest
    for shown in (
        "GRPO − SFT at its best temperature, 0.7",
        "+8.8 to +12.2",
        "49.6 to 53.0",
        "SFT − GRPO",
        "too few to say",
        "Fixed template",
        "not the subject",
    ):
        assert shown in page.text


def test_the_answers_of_all_stages_stand_side_by_side(
    make_run: Callable[..., Path], comparison: dict[str, Any]
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    comparison["answers"] = [
        {
            "question": "What does it return?",
            "answers": {"sft": "The <b>mean</b>.", "grpo": "The mean of its input."},
            "rewards": {"sft": None, "grpo": 0.625},
        }
    ]
    (run / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
    text = _written(run)[1].text
    heading, _, answers = text.partition("What does it return?")
    assert "Answers to the same test questions" in heading
    assert answers.index("The <b>mean</b>.") < answers.index("62.5 %")
    assert answers.index("62.5 %") < answers.index("The mean of its input.")


def test_without_a_comparison_there_is_no_such_section(
    make_run: Callable[..., Path],
) -> None:
    assert (
        "Test: stages and controls"
        not in _written(make_run(steps=1, prompts=1, group=2))[1].text
    )


def test_the_head_says_what_a_calibration_withholds(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=2, prompts=1, group=2)
    assert "Admitted weight" not in _written(run)[1].text

    rows = [
        json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()
    ]
    withheld = zip(rows, (0.5, 0.7), strict=True)
    lines = [
        json.dumps(row | {"withheld_weight_frac": frac}) + "\n"
        for row, frac in withheld
    ]
    (run / "metrics.jsonl").write_text("".join(lines))
    admission = {
        "factors": {"returns": 0, "caveat": 0.0, "structure": 0.5},
        "rates": {},
    }
    (run / "admission.json").write_text(json.dumps(admission))
    text = _written(run)[1].text
    assert "Admitted weight40.0 % (criteria masked: 2, weighed down: 1)" in text

    (run / "metrics.jsonl").write_text("")
    text = _written(run)[1].text
    assert "Admitted weightcriteria masked: 2, weighed down: 1" in text


def test_a_long_run_says_that_its_table_is_a_sample(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=130, prompts=1, group=2)
    assert "Numbers by step, 100 of 130" in _written(run)[1].text


@pytest.mark.parametrize(("share", "warns"), [(0.97, True), (0.4, False)])
def test_the_page_warns_where_most_responses_were_cut(
    make_run: Callable[..., Path], share: float, *, warns: bool
) -> None:
    run = make_run(steps=8, prompts=1, group=2)
    for number in range(3, 8):
        _change_row(run / "metrics.jsonl", number, {"truncated_frac": share})

    _, page = _written(run)

    said = "97.0 % of the responses of the last 5 steps were cut at"
    assert (said in page.text) is warns


def test_a_difference_whose_interval_holds_zero_is_not_bold(
    make_run: Callable[..., Path], comparison: dict[str, Any]
) -> None:
    run = make_run(steps=2, prompts=1, group=2)
    first, *others = comparison["differences"]
    unclear = {"ci_low": first["mean"] - 1, "ci_high": first["mean"] + 1}
    comparison["differences"] = [first, {**first, **unclear}, *others]
    (run / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")

    text, _ = _written(run)

    shown = f"+{100 * first['mean']:.1f}"
    cells = re.findall(rf'<td class="(mean[^"]*)">{re.escape(shown)}</td>', text)
    assert cells == ["mean best", "mean"]


@pytest.mark.parametrize("greedy", [True, False])
def test_greedy_answers_are_called_so(
    make_run: Callable[..., Path], comparison: dict[str, Any], *, greedy: bool
) -> None:
    run = make_run(steps=2, prompts=1, group=2)
    comparison["answers"] = [{"question": "What?", "answers": {"base": "This."}}]
    if greedy:
        comparison["answers_greedy"] = True
    (run / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")

    _, page = _written(run)

    assert ("Greedy answers" in page.text) is greedy
    assert ("not the means of 4 sampled answers" in page.text) is greedy
