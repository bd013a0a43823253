"""docs/judge/ledger.md and docs/judge/lint.md: what they show, runs; what they list, is there."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from rubric_core import Criterion, JudgeResult, Rubric, Task, read_tasks, write_tasks
from rubric_judge.cli import main
from rubric_judge.quality import lint
from rubric_judge.quality.lint.run import lint_task
from rubric_judge.quality.rejudge import match_tasks, read_stored
from rubric_synth import collect, synthesise
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow


def _blocks(root: Path, page: str, language: str) -> list[str]:
    text = (root / "docs" / "judge" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", shlex.split(command))
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        structlog.reset_defaults()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    """Tasks as the quickstart makes them."""
    folder = tmp_path_factory.mktemp("dataset")
    synthesise(
        collect(["python:numpy.linalg"], folder / "documents").out, folder / "dataset"
    )
    return list(read_tasks(folder / "dataset" / "train.jsonl"))


def _plainer(task: Task) -> Task:
    """The same question of the same passage, under its first criterion alone."""
    rubric = Rubric(criteria=task.rubric.criteria[:1])
    return Task(question=task.question, grounding=task.grounding, rubric=rubric)


def test_the_commands_of_the_ledger_page_run_one_after_the_other(
    root: Path, tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tasks("tasks.jsonl", tasks)
    write_tasks("new_rubrics.jsonl", map(_plainer, tasks))
    rows = [
        {"task_id": task.task_id, "response": task.reference_answer} for task in tasks
    ]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    Path("lexical.yaml").write_text("type: lexical\n", "utf-8")
    (commands,) = _blocks(root, "ledger.md", "bash")

    for command in commands.splitlines():
        assert _run(command, monkeypatch) == 0

    judged, again, plainer = (
        [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]
        for name in ("judged.jsonl", "rejudged.jsonl", "under_new_rubrics.jsonl")
    )
    assert len(judged) == len(again) == len(plainer) == len(tasks)
    assert [row["reward"] for row in again] == [
        row["origin"]["reward"] for row in again
    ]
    assert [row["reward"] for row in again] == [row["reward"] for row in judged]
    assert {row["task_id"] for row in plainer} == {
        _plainer(task).task_id for task in tasks
    }


def test_the_python_of_the_ledger_page_prints_what_it_says(
    root: Path, printed: Callable[[str], str]
) -> None:
    (code,) = _blocks(root, "ledger.md", "python")
    (promised,) = re.findall(r"^# prints (.+), then (.+)$", code, re.MULTILINE)
    assert tuple(printed(code).splitlines()) == promised


def test_the_rows_of_a_training_run_can_be_judged_again(
    tasks: list[Task], tmp_path: Path
) -> None:
    task = tasks[0]
    result = JudgeResult.scored(
        task.rubric,
        {criterion.id: criterion.weight for criterion in task.rubric},
        judge="m",
    )
    rollout = RolloutRow(
        id="s000001-p000-g00",
        step=1,
        task_id=task.task_id,
        prompt=task.question,
        response="An answer.",
        reward=1.0,
        advantage=0.0,
        tokens=3,
        ended=True,
        outcome="scored",
    )
    judgement = JudgementRow(
        id=rollout.id,
        step=1,
        task_id=task.task_id,
        result=result,
        z={},
        shares={},
        attribution={},
    )
    for kind, row in (("rollouts", rollout), ("judgements", judgement)):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "step_000001.jsonl").write_text(
            row.model_dump_json() + "\n", "utf-8"
        )

    (one,) = read_stored(tmp_path)

    assert (one.answer.text, one.before) == ("An answer.", result)
    ((_, found),) = match_tasks([one], [_plainer(task)]).pairs
    assert found == _plainer(task)


def test_the_command_of_the_lint_page_finds_nothing_in_what_the_quickstart_makes(
    root: Path, tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dataset").mkdir()
    write_tasks("dataset/train.jsonl", tasks)
    (command,) = _blocks(root, "lint.md", "bash")
    assert _run(command, monkeypatch) == 0
    found = json.loads(Path("findings.json").read_text("utf-8"))
    assert (found["tasks"], found["findings"]) == (len(tasks), [])


def test_the_lint_page_lists_every_kind_of_finding_with_its_severity(
    root: Path,
) -> None:
    (folder,) = lint.__path__
    source = "".join(path.read_text("utf-8") for path in Path(folder).glob("*.py"))
    kinds = re.findall(r'\bas_(error|warning)\(\s*"(\w+)"', source)
    page = (root / "docs" / "judge" / "lint.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (error|warning) \|", page, re.MULTILINE))

    assert listed == {code: severity for severity, code in kinds}
    assert len(listed) == len(kinds)


def test_a_repeated_criterion_is_found_in_a_synthesised_task(tasks: list[Task]) -> None:
    first, *others = tasks[0].rubric
    copy = Criterion.model_validate({**first.reveal(), "id": "copy"})
    rubric = Rubric(criteria=(first, *others, copy))
    task = Task(question=tasks[0].question, grounding=tasks[0].grounding, rubric=rubric)
    assert [(f.code, f.criterion_id) for f in lint_task(task)] == [
        ("duplicate_criterion", "copy")
    ]
