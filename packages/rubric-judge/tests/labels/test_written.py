"""Answers that were written to be right, or false: their file, their tasks, and as labels."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from rubric_core import (
    Criterion,
    Grounding,
    Rubric,
    RubricFileError,
    Task,
    normalized_reward,
    read_tasks,
    write_tasks,
)
from rubric_judge import ClaimJudge
from rubric_judge.cli import main
from rubric_judge.pool.ledger.entry import hash_rubric
from rubric_judge.quality.attack import default_tasks
from rubric_judge.quality.calibration.record import Verdict, read_calibration
from rubric_judge.quality.labels.written import (
    WRITTEN_FILE,
    Truth,
    WrittenAnswer,
    WrittenAnswers,
    read_known,
    shipped_answers,
    warnings_of,
)

FEWEST_PAGES = 40
CLAIMS = (
    "Says that the pump runs at 50 hertz.",
    "Says that the valve opens when the pressure exceeds 3 bar.",
)
RIGHT = "Fifty cycles a second, 50 hertz, drive the pump. Once the pressure exceeds 3 bar, the "
RIGHT += "valve opens."
FALSE = "The pump runs at 60 hertz. The valve closes when the pressure exceeds 3 bar."


def _task(number: int = 0, question: str = "How does pump {0} work?") -> Task:
    return Task(
        question=question.format(number),
        grounding=Grounding(
            f"Pump {number} runs at 50 hertz. Its valve opens above 3 bar."
        ),
        rubric=Rubric(
            criteria=tuple(
                Criterion(id=f"c{place}", weight=2.0, description=text)
                for place, text in enumerate(CLAIMS)
            )
        ),
    )


def _answer(task: Task, truth: str = "right", **changes: object) -> dict[str, object]:
    row = {
        "task_id": task.task_id,
        "question": task.question,
        "truth": truth,
        "author": "Anna",
    }
    return {**row, "response": f"{truth} by {changes.get('author', 'Anna')}", **changes}


def _write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def test_forty_pages_have_answers_that_ship() -> None:
    answers = shipped_answers()
    attacked = {task.question for task in default_tasks()}
    by_question: dict[str, dict[Truth, str]] = {}
    for answer in answers:
        texts = by_question.setdefault(answer.question, {})
        assert answer.truth not in texts
        texts[answer.truth] = answer.response
        assert answer.by_model
        assert answer.task_id is None
    assert all(len(texts) == len(Truth) for texts in by_question.values())
    assert attacked <= by_question.keys()
    assert len(by_question) >= FEWEST_PAGES + len(attacked)
    # The length does not tell which is which.
    for texts in by_question.values():
        right, false = (len(texts[truth].split()) for truth in Truth)
        assert 0.75 < right / false < 1.33


def test_the_judge_of_claims_tells_right_answers_from_false_ones_to_the_six_tasks() -> (
    None
):
    tasks, judge = default_tasks(), ClaimJudge()
    known = WrittenAnswers().to(tasks)
    for task in tasks:
        right, false = (
            normalized_reward(judge.judge_now(task.judge_view(text)), task.rubric)
            for truth in Truth
            if (text := known.text(truth, task)) is not None
        )
        assert right > false


def test_answers_are_joined_by_task_and_question(tmp_path: Path) -> None:
    first, second, third = (_task(n) for n in range(3))
    twin = _task(3).model_copy(update={"question": third.question})
    rows = [
        _answer(first, author="GPT", by_model=True),
        _answer(first, author="Anna"),
        _answer(first, author="Ben"),
        _answer(first, "false", author="GPT", by_model=True),
        _answer(second, question="What was asked before?"),
        {**_answer(second), "task_id": None},
        {**_answer(third, "false"), "task_id": None},  # of two tasks with one question
    ]
    _write(tmp_path / WRITTEN_FILE, *rows)
    written = WrittenAnswers(tmp_path)
    known = written.to([first, second, third, twin])
    assert known.text(Truth.RIGHT, first) == "right by Anna"
    assert known.text(Truth.FALSE, first) == "false by GPT"
    assert known.text(Truth.RIGHT, second) == "right by Anna"
    assert known.text(Truth.FALSE, third) is None
    assert known.text(Truth.RIGHT, twin) is None
    assert known.strange == 2
    assert known.controls == {
        "right_in_other_words": {
            first.task_id: "right by Anna",
            second.task_id: "right by Anna",
        },
        "false_in_the_same_words": {first.task_id: "false by GPT"},
    }
    assert {first.question, "What was asked before?"} < written.questions
    assert WrittenAnswers(tmp_path / "elsewhere").to([first]).controls == {}


def test_an_answer_to_another_rubric_belongs_to_no_task(tmp_path: Path) -> None:
    task = _task()
    rows = (
        _answer(task, rubric_sha256="0" * 64),
        _answer(task, "false", response="Not so."),
    )
    _write(tmp_path / WRITTEN_FILE, *rows)
    known = WrittenAnswers(tmp_path).to([task])
    assert known.text(Truth.RIGHT, task) is None
    assert (known.strange, known.copied) == (1, 0)
    (told,) = warnings_of(strange=known.strange, copied=known.copied)
    assert told.startswith(
        f"1 answer of {WRITTEN_FILE} left out: no task that was read asks"
    )


def test_a_right_answer_in_the_same_words_is_said_to_be_one(tmp_path: Path) -> None:
    task = _task().model_copy(update={"reference_answer": RIGHT})
    _write(tmp_path / WRITTEN_FILE, _answer(task, response=RIGHT))
    known = WrittenAnswers(tmp_path).to([task])
    assert known.copied == 1
    (told,) = warnings_of(strange=0, copied=known.copied)
    assert told.startswith(
        "1 right answer with 12 or more words in a row of passage or reference"
    )


def test_one_text_has_one_truth(tmp_path: Path) -> None:
    task = _task()
    rows = (_answer(task, response="So."), _answer(task, "false", response=" So."))
    _write(tmp_path / WRITTEN_FILE, *rows)
    with pytest.raises(
        RubricFileError, match="the same text is right in line 1 and false here"
    ):
        WrittenAnswers(tmp_path)


def test_a_folder_of_the_name_is_no_file_without_answers(tmp_path: Path) -> None:
    (tmp_path / WRITTEN_FILE).mkdir()
    with pytest.raises(OSError, match="directory"):
        WrittenAnswers(tmp_path)


def test_own_answers_go_before_those_that_ship(tmp_path: Path) -> None:
    task = default_tasks()[0]
    shipped = WrittenAnswers().to([task])
    _write(tmp_path / WRITTEN_FILE, _answer(task, author="GPT", by_model=True))
    known = WrittenAnswers(tmp_path).to([task])
    assert known.text(Truth.RIGHT, task) == "right by GPT"
    assert known.text(Truth.FALSE, task) == shipped.text(Truth.FALSE, task)


def test_a_line_is_written_as_it_is_read() -> None:
    answer = WrittenAnswer(
        question="Q?", truth=Truth.FALSE, response="No.", author="Anna"
    )
    assert WrittenAnswer.model_validate_json(answer.line_of_file()) == answer
    assert b"by_model" not in answer.line_of_file()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"truth": "maybe"}, "truth"),
        ({"response": "  "}, "response"),
        ({"response": "\u200b \u2800"}, "response"),
        ({"author": ""}, "author"),
        ({"score": 2}, "score"),
    ],
)
def test_what_is_no_written_answer_is_refused(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    _write(tmp_path / WRITTEN_FILE, _answer(_task()), _answer(_task(), **changes))
    with pytest.raises(RubricFileError, match=rf"{WRITTEN_FILE}:2: .*{told}"):
        WrittenAnswers(tmp_path)


def test_truths_are_labels_of_every_criterion(tmp_path: Path) -> None:
    task = _task()
    path = _write(
        tmp_path / "a.jsonl", _answer(task), _answer(task, "false", author="Ben")
    )
    views, labels = read_known(path, {task.task_id: task})
    assert {line: view.response for line, view in views.items()} == {
        1: "right by Anna",
        2: "false by Ben",
    }
    assert [(one.line, one.criterion, one.score, one.rater) for one in labels] == [
        (1, "c0", 2.0, "Anna"),
        (1, "c1", 2.0, "Anna"),
        (2, "c0", 0.0, "Ben"),
        (2, "c1", 0.0, "Ben"),
    ]


def test_answers_to_another_rubric_or_question_are_no_labels(tmp_path: Path) -> None:
    task = _task()
    same = _write(
        tmp_path / "a.jsonl", _answer(task, rubric_sha256=hash_rubric(task.rubric))
    )
    assert len(read_known(same, {task.task_id: task})[1]) == len(CLAIMS)
    other = _write(tmp_path / "b.jsonl", _answer(task, rubric_sha256="0" * 64))
    with pytest.raises(RubricFileError, match="another than the author saw"):
        read_known(other, {task.task_id: task})
    strange = _write(tmp_path / "c.jsonl", _answer(_task(5)))
    with pytest.raises(RubricFileError, match="no task asks this question"):
        read_known(strange, {task.task_id: task})


@pytest.fixture
def calibrate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `rubric-judge calibrate` beside 40 tasks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rubric_judge.ui.console.progress.QUIET_S", 3600.0)
    write_tasks("tasks.jsonl", map(_task, range(40)))
    Path("claims.yaml").write_text("type: claims\n")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(
            "sys.argv", ["rubric-judge", "calibrate", "tasks.jsonl", *words]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        structlog.reset_defaults()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_a_judge_is_calibrated_on_written_answers(
    calibrate: Callable[..., tuple[int, str, str]],
) -> None:
    rows = [
        _answer(task, truth, response=text)
        for task in read_tasks(Path("tasks.jsonl"))
        for truth, text in (("right", RIGHT), ("false", FALSE))
    ]
    _write(Path(WRITTEN_FILE), *rows)
    words = (
        WRITTEN_FILE,
        "--judge",
        "claims.yaml",
        "--out",
        "out",
        "--resamples",
        "30",
    )
    status, printed, told = calibrate(*words)
    assert status == 0
    found = read_calibration(Path("out/calibration.json"))
    assert [one.verdict for one in found.criteria] == [Verdict.ADMIT, Verdict.ADMIT]
    assert [one.youden_j.value for one in found.criteria] == [1.0, 1.0]
    assert "160 labels by 1 rater" in printed
    assert "written to be right, or false" in told

    few = _write(Path("few.jsonl"), *rows[:4])
    status, printed, _ = calibrate(str(few), "--judge", "claims.yaml", "--out", "out2")
    assert status == 0
    assert "rubric-judge label tasks.jsonl --write --out few.jsonl" in printed


def test_responses_without_a_truth_need_labels(
    calibrate: Callable[..., tuple[int, str, str]],
) -> None:
    _write(Path("a.jsonl"), {"task_id": _task().task_id, "response": "It runs."})
    status, _, told = calibrate("a.jsonl", "--judge", "claims.yaml", "--out", "out")
    assert status == 2
    assert "--labels is missing, and a.jsonl does not say" in told
