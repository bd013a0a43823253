"""The command `view`: every source with its texts, and what is refused."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    CriterionKind,
    Grounding,
    JudgeResult,
    Outcome,
    Pooling,
    Reason,
    Rubric,
    RubricFileError,
    Task,
    write_tasks,
)
from rubric_judge.cli.score import score
from rubric_judge.cli.view import view
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.quality.criteria.record import judgement_record
from rubric_judge.quality.responses import (
    JudgedResponse,
    read_judgements,
    read_responses,
    write_judgements,
)
from rubric_judge.quality.view.inputs import write_inputs
from rubric_judge.quality.view.sources import (
    Kind,
    read_source,
    read_texts,
    told_kind,
)

TASKS = [
    Task(
        question=f"What is the sum of {number}?",
        grounding=Grounding(f"PASSAGE of {number}."),
        rubric=Rubric(
            criteria=(
                Criterion(id="names", weight=3.0, description="Says what it names."),
                Criterion(
                    id="cost",
                    weight=1.0,
                    description="Says the cost.",
                    kind=CriterionKind.QUANTITY,
                ),
            )
        ),
    )
    for number in range(3)
]
ANSWERS = [
    "It names the sum.",
    "</script><script>document.title = 'run'</script>",
    "=1+1",
    "The cost is \u202e 4.",
]


class Files:
    """The files of a study, written when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks = folder / "tasks.jsonl"
        self.responses = folder / "answers.jsonl"
        write_tasks(self.tasks, TASKS)
        rows = [
            {"task_id": task.task_id, "response": answer}
            for task in TASKS
            for answer in ANSWERS
        ]
        lines(self.responses, rows)

    def judged(
        self, name: str, judge: str, scores: Callable[[int], tuple[float, float] | None]
    ) -> Path:
        """Write judgements: z of both criteria by line, None for a failure."""
        by_id = {task.task_id: task for task in TASKS}
        rows: list[JudgedResponse] = []
        for line, asked in read_responses(self.responses, by_id):
            z = scores(line)
            if z is None:
                result = JudgeResult.invalid(Reason.NOT_JSON, judge=judge)
            else:
                result = JudgeResult.scored(
                    asked.rubric,
                    {"names": 3 * z[0], "cost": z[1]},
                    judge=judge,
                    reasoning=f"Reasons of {judge}.",
                )
            rows.append(JudgedResponse(line, asked, result))
        path = self.folder / name
        write_judgements(path, rows)
        write_inputs(path, tasks=self.tasks, responses=self.responses, thoughts="cut")
        return path

    def labels(self, *rows: tuple[int, str, float, str]) -> Path:
        """Write labels: line, criterion, score, rater."""
        path = self.folder / "labels.jsonl"
        lines(
            path,
            [
                {
                    "line": line,
                    "task_id": TASKS[(line - 1) // len(ANSWERS)].task_id,
                    "criterion": criterion,
                    "score": score,
                    "rater": rater,
                }
                for line, criterion, score, rater in rows
            ],
        )
        return path


def lines(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="view-data">(.*?)</script>',
        page.read_text("utf-8"),
        re.DOTALL,
    )
    assert found is not None
    return json.loads(found[1])


def lenient(line: int) -> tuple[float, float] | None:
    return None if line == 4 else (1.0, float(line % 2))


def strict(line: int) -> tuple[float, float]:
    return (0.0 if line == 1 else 1.0, float(line % 2))


def test_the_page_of_a_file_of_judgements_finds_its_texts(files: Files) -> None:
    judged = files.judged("judged.jsonl", "lenient", lenient)

    assert view(judged) == 0

    page = judged.with_name("judged.jsonl.html")
    data = data_of(page)
    assert [task["q"] for task in data["tasks"]] == [task.question for task in TASKS]
    assert data["tasks"][0]["g"] == "PASSAGE of 0."
    assert data["tasks"][0]["c"] == [
        ["names", "kind.none", 0.75, "Says what it names."],
        ["cost", "kind.quantity", 0.25, "Says the cost."],
    ]
    first, *_, fourth = data["samples"][:4]
    assert first["r"] == [ANSWERS[0]]
    assert first["v"][0] == {
        "o": "scored", "r": 1.0, "z": {"0": 1.0, "1": 1.0}, "t": "Reasons of lenient.",
    }  # fmt: skip
    assert fourth["r"] == ["The cost is [U+202E] 4."]
    assert (fourth["v"][0]["o"], fourth["v"][0]["z"]) == ("invalid", {})
    assert "Private." in page.read_text("utf-8")


def test_judgements_have_the_form_of_older_readers(files: Files) -> None:
    judged = files.judged("judged.jsonl", "lenient", lenient)

    rows = [row for _, row in read_judgements(judged)]

    fields = set(json.loads(judged.read_text("utf-8").splitlines()[0]))
    assert fields == {"line", "task_id", "reward", "thought", "result"}
    assert len(rows) == len(TASKS) * len(ANSWERS)
    assert "names" not in judged.with_name("judged.jsonl.inputs.json").read_text()


def test_a_moved_folder_still_finds_its_texts(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    there = Files(inner)
    there.judged("judged.jsonl", "lenient", lenient)
    moved = inner.rename(tmp_path / "moved")

    assert view(moved / "judged.jsonl") == 0


def test_two_judges_stand_side_by_side_with_people(files: Files) -> None:
    one = files.judged("one.jsonl", "lenient", lenient)
    two = files.judged("two.jsonl", "strict", strict)
    labels = files.labels(
        (1, "names", 0.0, "Anna"), (1, "names", 3.0, "Ben"), (2, "cost", 1.0, "Anna")
    )
    page = files.folder / "page.html"

    view(one, two, labels=(labels,), out=page)

    data = data_of(page)
    assert data["columns"] == [["one.jsonl", "lenient"], ["two.jsonl", "strict"]]
    first, second = data["samples"][:2]
    assert [verdict["z"]["0"] for verdict in first["v"]] == [1.0, 0.0]
    assert first["h"] == {"0": {"Anna": 0.0, "Ben": 1.0}}
    assert second["h"] == {"1": {"Anna": 1.0}}
    # Of the 12 samples the judges differ on `names` in one; the raters are tied there.
    row = re.search(r"criterion=names.*?</tr>", page.read_text("utf-8"), re.DOTALL)
    assert row is not None
    assert re.findall(r"([\d.]+)</td>", row[0])[-1] == "9.1"


def test_a_sample_has_one_address_on_every_page(files: Files) -> None:
    one = files.judged("one.jsonl", "lenient", lenient)
    two = files.judged("two.jsonl", "strict", strict)
    names: list[list[str]] = []
    for path in (one, two):
        view(path)
        data = data_of(path.with_name(f"{path.name}.html"))
        names.append([sample["n"] for sample in data["samples"]])

    assert names[0] == names[1]
    assert len(set(names[0])) == len(names[0])


def test_a_ledger_shows_each_judge(files: Files) -> None:
    path = files.folder / "l.ledger"
    view_of = TASKS[0].judge_view(ANSWERS[0])
    with Ledger(path) as ledger:
        result = JudgeResult.scored(
            TASKS[0].rubric, {"names": 3.0, "cost": 0.0}, judge="j"
        )
        ledger.record(ledger.key(view_of, judge="f"), view_of, result, judge="f")

    view(path, tasks=(files.tasks,))

    data = data_of(path.with_name("l.ledger.html"))
    assert [sample["r"] for sample in data["samples"]] == [[ANSWERS[0]]]
    assert data["samples"][0]["v"][0]["z"] == {"0": 1.0, "1": 0.0}


def test_answers_of_two_runs_are_joined_by_task(files: Files, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    later = Files(other)
    lines(
        later.responses,
        [{"task_id": TASKS[0].task_id, "response": "Another answer."}],
    )
    one = files.judged("one.jsonl", "lenient", lenient)
    two = later.judged("two.jsonl", "lenient", strict)
    page = tmp_path / "page.html"

    with pytest.raises(ConfigError, match=r"share no sample: 1 task is .*--by task"):
        view(one, two, out=page)
    view(one, two, by="task", out=page)

    first, second = data_of(page)["samples"][:2]
    assert first["r"] == [ANSWERS[0], "Another answer."]
    assert first["v"][1]["x"] == 1
    assert second["v"][1] == 0


def run_folder(files: Files, *, rollouts: bool = True) -> Path:
    run = files.folder / "run"
    (run / "judgements").mkdir(parents=True)
    (run / "rollouts").mkdir()
    (run / "config.resolved.yaml").write_text(f"data:\n  train: {files.tasks}\n")
    result = JudgeResult.scored(TASKS[0].rubric, {"names": 3.0, "cost": 0.0}, judge="j")
    row = {
        "id": "s1-p0-g0",
        "step": 1,
        "task_id": TASKS[0].task_id,
        "result": result.model_dump(mode="json"),
        "z": {"names": 1.0, "cost": 0.0},
        "shares": {"names": 0.75, "cost": 0.25},
        "attribution": {},
    }
    lines(run / "judgements" / "step_000001.jsonl", [row])
    rollout = {"id": row["id"], "prompt": "p", "response": "<think>…", "answer": "A."}
    if rollouts:
        lines(run / "rollouts" / "step_000001.jsonl", [rollout])
    return run


def test_a_run_is_shown_beside_its_judgements_and_never_its_rollouts(
    files: Files,
) -> None:
    run = run_folder(files)

    view(run)

    data = data_of(run / "judgements" / "view.html")
    assert data["samples"][0]["r"] == ["A."]
    assert data["samples"][0]["p"] == "step 1"
    assert data["tasks"][0]["g"] == "PASSAGE of 0."
    assert [*(run / "rollouts").glob("*.html"), *run.glob("*.html")] == []


def test_a_run_without_rollouts_says_so(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"no answer: rollouts/step_\*\.jsonl"):
        view(run_folder(files, rollouts=False))


def evaluation(files: Files) -> Path:
    root = files.folder / "evaluation"
    place = {"task_id": TASKS[0].task_id, "sample": 0, "key": "k"}
    rows: dict[str, dict[str, object]] = {
        "questions.jsonl": {
            "task_id": TASKS[0].task_id,
            "question": TASKS[0].question,
            "weights": {"names": 3.0, "cost": 1.0},
        },
        "answers/base/seed_0.jsonl": {**place, "text": "It names."},
        "scores/judge_a/base/seed_0.jsonl": {
            **place,
            "outcome": "scored",
            "reward": 0.75,
            "criteria_z": {"names": 1.0, "cost": 0.0},
        },
        "judgements/judge_a/base/seed_0.jsonl": {**place, "reasoning": "Named."},
    }
    for name, row in rows.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        lines(root / name, [row])
    return root


def test_an_evaluation_is_read_by_its_files(files: Files) -> None:
    page = files.folder / "page.html"

    view(evaluation(files), out=page)

    data = data_of(page)
    assert data["columns"] == [["evaluation", "judge_a"]]
    assert data["tasks"][0]["c"] == [["names", "", 0.75, ""], ["cost", "", 0.25, ""]]
    (sample,) = data["samples"]
    assert (sample["p"], sample["r"], sample["v"][0]["t"]) == (
        "base", ["It names."], "Named.",
    )  # fmt: skip


def logs(files: Files) -> list[tuple[Kind, Path]]:
    result = JudgeResult.scored(TASKS[0].rubric, {"names": 3.0, "cost": 0.0}, judge="j")
    seen = TASKS[0].judge_view(ANSWERS[0])
    record = judgement_record(seen, result, Pooling.of(TASKS)).model_dump_json()
    own = {"rubric/judgement": record}
    messages = [{"role": "user", "content": TASKS[0].question}]
    said = {"role": "assistant", "content": ANSWERS[0]}
    rows: list[tuple[Kind, str, dict[str, object]]] = [
        (
            "verl",
            "1.jsonl",
            {"input": "q", "output": ANSWERS[0], "score": 1, "step": 1, **own},
        ),
        (
            "verifiers",
            "traces.jsonl",
            {
                "task": {"key": "k", "data": {"prompt": "q"}},
                "traces": [{"nodes": [{"message": said}], "info": own, "ok": True}],
            },
        ),
        (
            "nemo-gym",
            "rollouts.jsonl",
            {
                "_ng_task_index": 0,
                "responses_create_params": {"input": messages},
                "response": {
                    "output": [
                        {"type": "reasoning", "summary": []},
                        {
                            "type": "message",
                            "content": [{"type": "output_text", "text": ANSWERS[0]}],
                        },
                    ]
                },
                **own,
            },
        ),
    ]
    return [(kind, lines(files.folder / name, [row])) for kind, name, row in rows]


def test_logs_of_other_stacks_are_shown_with_their_texts(files: Files) -> None:
    for kind, path in logs(files):
        assert told_kind(path) == kind
        source = read_source(path, kind, read_texts(path, kind, tasks=[files.tasks]))

        (row,) = source.rows
        assert (row.question, row.response) == (TASKS[0].question, ANSWERS[0])
        assert row.verdict.outcome is Outcome.SCORED
        assert row.verdict.z == {"names": 1.0, "cost": 0.0}
        assert row.verdict.reward == 0.75


def test_completions_of_trl_are_shown_with_their_texts(files: Files) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {
        "step": [1, 1],
        "prompt": ["q", "q"],
        "completion": ["one", "two"],
        "names": [1.0, 0.0],
        "advantage": [0.5, -0.5],
    }
    path = files.folder / "completions_00001.parquet"
    pq.write_table(pa.table(columns), path)

    source = read_source(path, "trl", read_texts(path, "trl"))

    assert [(row.question, row.response) for row in source.rows] == [
        ("q", "one"),
        ("q", "two"),
    ]
    assert any("give --tasks" in note for note in source.notes)


def test_a_page_is_not_written_beside_what_a_policy_may_read(files: Files) -> None:
    for path in [evaluation(files), *(path for _, path in logs(files))]:
        with pytest.raises(ConfigError, match=r"--out.*passages and rubrics.*name a"):
            view(path)
    assert [*files.folder.rglob("*.html")] == []


def test_judgements_without_responses_are_refused(files: Files) -> None:
    judged = files.judged("judged.jsonl", "lenient", lenient)
    judged.with_name("judged.jsonl.inputs.json").unlink()

    with pytest.raises(ConfigError, match=r"no answer: name .* in --responses"):
        view(judged)
    with pytest.raises(ConfigError, match="name the file of their tasks too"):
        view(judged, responses=files.responses)


def test_responses_of_other_tasks_are_refused(files: Files, tmp_path: Path) -> None:
    judged = files.judged("judged.jsonl", "lenient", lenient)
    turned = tmp_path / "turned.jsonl"
    rows = files.responses.read_text("utf-8").splitlines(keepends=True)
    turned.write_text("".join(reversed(rows)), encoding="utf-8")

    with pytest.raises(
        ConfigError, match=r"judges response 1, .* but that line answers"
    ):
        view(judged, responses=turned)
    turned.write_text(rows[0], encoding="utf-8")
    with pytest.raises(ConfigError, match=r"judges response 2, .* line is not there"):
        view(judged, responses=turned)


def test_responses_that_changed_since_are_refused(files: Files) -> None:
    judged = files.judged("judged.jsonl", "lenient", lenient)
    files.responses.write_text(
        files.responses.read_text("utf-8").replace("sum", "sums"), encoding="utf-8"
    )

    with pytest.raises(ConfigError, match=r"--responses: .* has changed since"):
        view(judged)
    files.responses.unlink()
    with pytest.raises(ConfigError, match=r"--responses: .* not there any more"):
        view(judged)


def test_a_ledger_without_tasks_is_refused(files: Files) -> None:
    path = files.folder / "l.ledger"
    with Ledger(path) as ledger:
        result = JudgeResult.scored(
            TASKS[0].rubric, {"names": 3.0, "cost": 0.0}, judge="j"
        )
        asked = TASKS[0].judge_view("a")
        ledger.record(ledger.key(asked, judge="f"), asked, result, judge="f")
    other = lines(files.folder / "other.jsonl", [])
    rows = files.tasks.read_text("utf-8").splitlines(keepends=True)
    other.write_text(rows[1], encoding="utf-8")

    with pytest.raises(ConfigError, match=r"no text of a question .* give --tasks"):
        view(path)
    with pytest.raises(ConfigError, match=r"--tasks holds none .* give the file"):
        view(path, tasks=(other,))


def test_inputs_without_a_common_task_are_refused(files: Files, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    later = Files(other)
    row = {"task_id": TASKS[2].task_id, "response": "Another."}
    lines(files.responses, [{"task_id": TASKS[0].task_id, "response": "One."}])
    lines(later.responses, [row])
    one = files.judged("one.jsonl", "lenient", lenient)
    two = later.judged("two.jsonl", "lenient", strict)

    with pytest.raises(ConfigError, match=r"share no sample: give two that judge the"):
        view(one, two, out=tmp_path / "page.html")


def test_labels_of_other_responses_are_refused(files: Files, tmp_path: Path) -> None:
    judged = files.judged("judged.jsonl", "lenient", lenient)
    few = tmp_path / "few.jsonl"
    few.write_text(judged.read_text("utf-8").splitlines(keepends=True)[0])
    labels = files.labels((2, "names", 3.0, "Anna"))

    with pytest.raises(ConfigError, match=r"--labels: none of the 1 label is of a"):
        view(few, labels=(labels,), responses=files.responses, tasks=(files.tasks,))
    with pytest.raises(ConfigError, match=r"--labels are of lines of a file"):
        view(evaluation(files), labels=(labels,), out=tmp_path / "page.html")


def test_options_that_do_not_fit_are_refused(files: Files) -> None:
    judged = files.judged("judged.jsonl", "lenient", lenient)

    with pytest.raises(ConfigError, match=r"--last is for logs .* leave it out"):
        view(judged, last=1)
    with pytest.raises(ConfigError, match=r"--judge 'j': no such .* 'lenient'"):
        view(judged, judge=("j",))
    with pytest.raises(ConfigError, match="nothing to show"):
        view()
    with pytest.raises(RubricFileError, match="no log that is known"):
        view(files.tasks)


def test_scores_are_printed_by_criterion(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = files.folder / "judge.yaml"
    judge.write_text("type: lexical\n", encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "80")

    score(files.tasks, files.responses, judge=judge, out=files.folder / "judged.jsonl")

    printed = capsys.readouterr().out
    table = printed.partition("by criterion, the lowest first")[2].split("\n\n")[0]
    cells = [line.split()[:3] for line in table.splitlines() if "%" in line]
    assert sorted(name for name, *_ in cells) == ["cost", "names"]
    assert {count for _, count, _ in cells} == {"12"}
    means = [float(mean) for _, _, mean in cells]
    assert means == sorted(means)
    assert view(files.folder / "judged.jsonl") == 0
