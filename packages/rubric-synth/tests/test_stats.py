import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import read_tasks
from rubric_judge.quality.labels.written import WRITTEN_FILE, Truth, WrittenAnswer
from rubric_judge.quality.wrong_answers import CONTROLS, keyword_spam
from rubric_judge.testing import FailingJudge
from rubric_synth import (
    DatasetFolderError,
    OutputError,
    UnfinishedError,
    dataset_statistics,
    synthesise,
)
from rubric_synth.stats.controls import (
    OF_CONTEXT,
    WRITTEN,
    learned_template,
    overpaid,
    usual_terms,
)


def test_statistics_count_what_the_dataset_holds(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    out = tmp_path / "data"
    report = synthesise(collected(), out)
    statistics = dataset_statistics(out)
    total = sum(report.tasks.values())
    assert statistics.tasks == report.tasks
    assert statistics.rejected == report.rejected
    assert sum(statistics.criteria_per_task.values()) == total
    assert statistics.criteria["definition_1"] <= total
    assert (
        4
        <= min(statistics.criteria_per_task)
        <= max(statistics.criteria_per_task)
        <= 10
    )
    assert (
        1 < statistics.effective_criteria.min <= statistics.effective_criteria.max <= 10
    )
    assert json.loads((out / "stats.json").read_text())["tasks"] == report.tasks


def test_a_page_that_cannot_be_written_is_said_before_anything_is_judged(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    judge = FailingJudge()

    for page in (tmp_path / f"{'a' * 250}.html", tmp_path / "data/train.jsonl/x.html"):
        with pytest.raises(OutputError, match=r"nothing was changed"):
            dataset_statistics(tmp_path / "data", judge=judge, page=page)

    assert not (tmp_path / "data" / "stats.json").exists()
    page = tmp_path / "new" / "folder" / "x.html"
    dataset_statistics(tmp_path / "data", page=page)
    assert page.exists()


def test_answers_that_know_nothing_earn_much_less_than_the_reference(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    controls = dataset_statistics(tmp_path / "data").controls
    assert controls["reference"] >= 0.85
    assert controls["fixed_template"] <= 0.45
    assert controls["other_reference"] <= 0.2
    assert controls["keyword_spam"] <= 0.05
    assert controls["question"] <= 0.05
    assert controls["empty"] == 0.0
    others = {*OF_CONTEXT, *WRITTEN}
    assert tuple(controls) == tuple(name for name in CONTROLS if name not in others)
    assert controls["learned_template"] < controls["reference"] - 0.2


def test_written_answers_are_controls_of_the_questions_that_have_them(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    first, second, *_ = read_tasks(tmp_path / "data" / "train.jsonl")
    rows = [
        WrittenAnswer(question=asked, truth=truth, response=text or "-", author="Anna")
        for asked, truth, text in (
            (first.question, Truth.RIGHT, first.reference_answer),
            (second.question, Truth.RIGHT, ""),
            (first.question, Truth.FALSE, "Nothing of it is so."),
            ("What does nobody ask?", Truth.FALSE, "That."),
        )
    ]
    lines = b"".join(row.line_of_file() for row in rows)
    (tmp_path / "data" / WRITTEN_FILE).write_bytes(lines)
    found = dataset_statistics(
        tmp_path / "data", controls=3
    )  # most of a sample: all that have one
    right, false = (found.controls[name] for name in WRITTEN)
    assert 0.4 < right <= 0.5
    assert false == 0
    assert found.written_answers == dict(zip(WRITTEN, (2, 1), strict=True))
    assert found.strange_answers == 1
    page = (tmp_path / "data" / "stats.html").read_text(encoding="utf-8")
    assert "the most that a policy can earn, for 2 questions" in page
    assert "false, in the same words 0.0\N{NO-BREAK SPACE}%" in page


def test_words_out_of_order_and_denials_earn_at_most_a_third_of_the_reference(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    controls = dataset_statistics(tmp_path / "data").controls
    for name in (
        "shuffled",
        "negated",
        "other_reference",
        "question",
        "fixed_template",
    ):
        assert controls[name] <= controls["reference"] / 3


def test_the_learned_template_reads_the_question_and_other_rubrics_alone(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    tasks = list(read_tasks(tmp_path / "data" / "train.jsonl"))
    usual = usual_terms(tasks)
    assert set(usual) <= {
        criterion.id.rstrip("_1234") for task in tasks for criterion in task.rubric
    }
    answer = learned_template("Describe tides. Cover high water and the ebb.", usual)
    assert "The high water is " in answer
    assert "`f` is used to" in learned_template("Explain `f` with `a`.", usual)


def test_a_dataset_without_tasks_or_files_is_refused(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    with pytest.raises(DatasetFolderError, match=r"manifest\.json"):
        dataset_statistics(tmp_path)
    with pytest.raises(UnfinishedError):
        synthesise(collected(), tmp_path / "data", judge=FailingJudge())
    with pytest.raises(DatasetFolderError, match="no task"):
        dataset_statistics(tmp_path / "data")


def test_keyword_spam_has_every_term_of_the_rubric(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    for task in read_tasks(tmp_path / "data" / "train.jsonl"):
        assert all(
            word in keyword_spam(task)
            for c in task.rubric
            for word in c.expected_keywords
        )


def test_wrong_answers_that_earn_half_of_the_reference_are_warned_of() -> None:
    warned = overpaid(
        {"reference": 0.8, "negated": 0.7, "shuffled": 0.4, "empty": 0.39}
    )
    assert set(warned) == {"negated", "shuffled"}
    assert "70.0 %, where the reference earns 80.0 %" in warned["negated"]
    assert "the opposite is said" in warned["negated"]
    # The opening of the passage is what nobody who has not read it can write.
    assert overpaid({"reference": 0.5, "passage_start": 0.5}) == {}
    assert overpaid({"reference": 0.0, "empty": 0.0}) == overpaid({}) == {}
