from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    Reason,
    Rubric,
    RubricFileError,
    Task,
    write_tasks,
)
from rubric_judge import Ledger
from rubric_judge.cli import main
from rubric_judge.rejudge import compare, match_tasks, read_stored
from rubric_judge.responses import JudgedResponse, read_judgements
from rubric_judge.testing import FakeEndpoint, Fault

GOOD = "It is the cross entropy, a loss from the likelihood."
PASSAGE = Grounding("The model minimises the cross entropy of the labels.")


class Run(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def task(rubric: Rubric) -> Task:
    return Task(question="Which loss is minimised?", grounding=PASSAGE, rubric=rubric)


@pytest.fixture
def other_rubric(task: Task) -> Task:
    """The same question of the same document under another rubric."""
    rubric = Rubric(
        criteria=(Criterion(id="entropy", weight=1.0, required_elements=("cross entropy",)),)
    )
    return Task(question=task.question, grounding=PASSAGE, rubric=rubric)


@pytest.fixture
def rejudge(
    tmp_path: Path,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., Run]]:
    """Return a function that runs `rubric-judge rejudge` with the lexical judge."""
    write_tasks(tmp_path / "tasks.jsonl", [task])
    (tmp_path / "judge.yaml").write_text("type: lexical\n")
    monkeypatch.chdir(tmp_path)

    def run(source: str, *more: str, tasks: str = "tasks.jsonl", judge: str = "judge.yaml") -> Run:
        command = ["rejudge", source, tasks, "--judge", judge, "--out", "out.jsonl", *more]
        monkeypatch.setattr("sys.argv", ["rubric-judge", *command])
        with pytest.raises(SystemExit) as ended:
            main()
        return Run(int(ended.value.code or 0), *capsys.readouterr())

    yield run
    structlog.reset_defaults()


def _scored(task: Task, share: float, *, judge: str = "m") -> JudgeResult:
    scores = {criterion.id: criterion.weight * share for criterion in task.rubric}
    return JudgeResult.scored(task.rubric, scores, judge=judge)


INVALID = JudgeResult.invalid(Reason.NOT_JSON, judge="m")
UNAVAILABLE = JudgeResult.unavailable(Reason.TIMEOUT, judge="m")


def _record(
    path: Path, task: Task, results: dict[str, JudgeResult], *, judge: str = "j", replicate: int = 0
) -> None:
    with Ledger(path) as ledger:
        for response, result in results.items():
            view = task.judge_view(response)
            key = ledger.key(view, judge=judge, replicate=replicate)
            ledger.record(key, view, result, judge=judge, replicate=replicate)


def _rows(path: str = "out.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


# --- sources --------------------------------------------------------------------------------------


def test_a_ledger_gives_each_response_once_with_the_judgement_that_it_finds(
    tmp_path: Path, task: Task
) -> None:
    half = _scored(task, 0.5)
    _record(tmp_path / "ledger", task, {"a": UNAVAILABLE, "b": INVALID, "c": UNAVAILABLE})
    _record(tmp_path / "ledger", task, {"a": half, "b": _scored(task, 1.0)})
    _record(tmp_path / "ledger", task, {"a": _scored(task, 0.25)}, replicate=1)

    stored = read_stored(tmp_path / "ledger")

    assert [(one.response, one.before) for one in stored] == [
        ("a", half),
        ("b", INVALID),
        ("c", UNAVAILABLE),
    ]
    assert {one.passage_sha256 for one in stored} == {PASSAGE.sha256}


def test_one_judge_is_chosen_of_a_ledger_that_holds_several(tmp_path: Path, task: Task) -> None:
    _record(tmp_path / "ledger", task, {"a": _scored(task, 0.5, judge="gentle")}, judge="f1")
    _record(tmp_path / "ledger", task, {"a": _scored(task, 0.1, judge="strict")}, judge="f2")
    with pytest.raises(ConfigError, match=r"several judges.*'gentle' \(f1, 1 judgements\)"):
        read_stored(tmp_path / "ledger")
    for name in ("strict", "f2"):
        (one,) = read_stored(tmp_path / "ledger", judge=name)
        assert one.before is not None
        assert one.before.judge == "strict"
    for beginning in ("str", "f2", "s"):
        (one,) = read_stored(tmp_path / "ledger", judge=beginning)
        assert one.before is not None
        assert one.before.judge == "strict"


def test_a_judge_that_a_ledger_does_not_hold_is_told_those_that_it_holds(
    tmp_path: Path, task: Task
) -> None:
    _record(tmp_path / "ledger", task, {"a": _scored(task, 0.5, judge="gentle")}, judge="f1")
    _record(tmp_path / "ledger", task, {"a": _scored(task, 0.1, judge="strict")}, judge="f2")
    with pytest.raises(ConfigError) as caught:
        read_stored(tmp_path / "ledger", judge="unknown")
    assert "no judgement by 'unknown'; it holds those of 'gentle' (f1, 1 j" in str(caught.value)
    assert "'strict' (f2, 1 judgements)" in str(caught.value)
    with pytest.raises(ConfigError, match="several judges"):
        read_stored(tmp_path / "ledger", judge="f")
    _record(tmp_path / "ledger", task, {"a": _scored(task, 0.9, judge="f")}, judge="e3")
    (one,) = read_stored(tmp_path / "ledger", judge="f")  # a whole name goes before a beginning
    assert one.before is not None
    assert one.before.judge == "f"


def _write_run(folder: Path, task: Task) -> None:
    """Two steps as a training run leaves them; only the fields that matter here."""
    for step, share in ((1, 0.5), (2, 0.75)):
        name = f"step_{step:06d}.jsonl"
        rollout = {
            "id": f"s{step}",
            "step": step,
            "task_id": task.task_id,
            "prompt": task.question,
            "response": GOOD,
            "reward": share,
        }
        judgement = {"id": f"s{step}", "result": _scored(task, share).model_dump(mode="json")}
        for kind, row in (("rollouts", rollout), ("judgements", judgement)):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            (folder / kind / name).write_text(json.dumps(row) + "\n")


def test_a_run_gives_its_rollouts_with_their_judgements(tmp_path: Path, task: Task) -> None:
    _write_run(tmp_path, task)
    stored = read_stored(tmp_path)
    assert [(one.line, one.id, one.before) for one in stored] == [
        (1, "s1", _scored(task, 0.5)),
        (2, "s2", _scored(task, 0.75)),
    ]
    (one,) = read_stored(tmp_path / "rollouts" / "step_000002.jsonl")
    assert (one.id, one.before) == ("s2", _scored(task, 0.75))


def test_a_row_that_is_no_rollout_is_named_without_its_text(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "step_000001.jsonl").write_text('{"id": "s1", "task_id": ["Zyzzyva"]}')
    with pytest.raises(RubricFileError, match=r"step_000001\.jsonl:1: field 'task_id'") as caught:
        read_stored(tmp_path)
    assert "Zyzzyva" not in str(caught.value)


def test_a_source_that_holds_nothing_says_what_a_source_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no response: give a ledger, a run folder"):
        read_stored(tmp_path)


# --- matching -------------------------------------------------------------------------------------


def test_a_response_finds_the_same_question_of_the_same_passage_under_another_rubric(
    tmp_path: Path, task: Task, other_rubric: Task
) -> None:
    elsewhere = Task(
        question=task.question, grounding=Grounding("Another."), rubric=other_rubric.rubric
    )
    _record(tmp_path / "ledger", task, {"a": INVALID})
    stored = read_stored(tmp_path / "ledger")

    by_id = match_tasks(stored, [other_rubric, task])
    by_passage = match_tasks(stored, [elsewhere, other_rubric])
    none = match_tasks(stored, [elsewhere])
    several = match_tasks(
        stored, [other_rubric, Task.from_json({**_json(other_rubric), "doc_hash": "d"})]
    )

    assert ([task for _, task in by_id.pairs], by_id.same) == ([task], 1)
    assert ([task for _, task in by_passage.pairs], by_passage.same) == ([other_rubric], 0)
    assert none.unmatched == several.unmatched == tuple(stored)


def test_no_task_at_all_is_said(tmp_path: Path, task: Task) -> None:
    _record(tmp_path / "ledger", task, {"a": INVALID})
    with pytest.raises(ConfigError, match="the task file holds no task"):
        match_tasks(read_stored(tmp_path / "ledger"), [])


def _json(task: Task) -> dict[str, object]:
    return task.to_json(reveal_grounding=True)


def test_a_rollout_finds_its_task_by_its_question_or_by_the_tasks_of_before(
    tmp_path: Path, task: Task, other_rubric: Task
) -> None:
    _write_run(tmp_path, task)
    stored = read_stored(tmp_path / "rollouts" / "step_000001.jsonl")
    # The same document in another cut, which only its hash tells.
    document = {**_json(other_rubric), "doc_hash": task.doc_hash, "passage": "A shorter cut."}
    recut = Task.from_json(document)
    elsewhere = Task.from_json({**document, "doc_hash": "other"})

    alone = match_tasks(stored, [recut])
    ambiguous = match_tasks(stored, [recut, elsewhere])
    told = match_tasks(stored, [recut, elsewhere], before=[task])

    assert [task for _, task in alone.pairs] == [recut]
    assert ambiguous.unmatched == tuple(stored)
    assert [task for _, task in told.pairs] == [recut]


# --- comparison -----------------------------------------------------------------------------------


def _after(task: Task, results: list[JudgeResult]) -> list[JudgedResponse]:
    return [
        JudgedResponse(line=line, view=task.judge_view(str(line)), result=result)
        for line, result in enumerate(results, 1)
    ]


def test_a_comparison_by_hand(task: Task) -> None:
    before = [_scored(task, share) for share in (0.0, 0.5, 1.0)] + [INVALID, UNAVAILABLE, None]
    after = [_scored(task, share) for share in (0.5, 0.0, 1.0, 0.0, 1.0, 1.0)]

    compared = compare(before, _after(task, after))

    assert compared is not None
    assert compared.rewarded == 4
    assert (compared.mean_before, compared.mean_after) == (0.375, 0.375)
    assert compared.changed_frac == 0.5
    assert compared.mean_abs_difference == pytest.approx(0.25)
    # 0 .5 1 0 -> .5 0 1 0: of the pairs (1,2) (1,3) (2,3) (2,4) (3,4), three stand as they did.
    assert compared.order_kept_frac == pytest.approx(3 / 5)
    # ranks 1.5 3 4 1.5 against 3 1.5 4 1.5
    assert compared.rank_correlation == pytest.approx(0.5)


def test_equal_judgements_change_nothing_and_constant_ones_have_no_rank(task: Task) -> None:
    results = [_scored(task, share) for share in (0.1, 0.7, 0.4)]
    same = compare(results, _after(task, results))
    assert same is not None
    assert (same.changed_frac, same.order_kept_frac) == (0.0, 1.0)
    assert same.rank_correlation == pytest.approx(1.0)
    flat = compare([INVALID] * 3, _after(task, results))
    assert flat is not None
    assert (flat.rank_correlation, flat.order_kept_frac) == (None, None)
    assert compare([UNAVAILABLE, None, None], _after(task, results)) is None


# --- the command ----------------------------------------------------------------------------------


def test_a_stored_step_is_judged_again_and_compared(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    _record(tmp_path / "ledger", task, {GOOD: _scored(task, 0.0), "No.": INVALID})

    done = rejudge("ledger")

    assert (done.returncode, done.stderr) == (0, "")
    first, second = _rows()
    assert first["reward"] == pytest.approx(2 / 3)
    assert first["result"]["judge"] == "lexical_v2"
    assert first["origin"] == {
        "id": first["origin"]["id"],
        "task_id": task.task_id,
        "judge": "m",
        "outcome": "scored",
        "reward": 0.0,
    }
    assert (second["reward"], second["origin"]["outcome"]) == (0.0, "invalid")
    for shown in ("mean reward", "0.0000", "0.3333", "50.0%", "judged again"):
        assert shown in done.stdout
    assert [row.reward for _, row in read_judgements(tmp_path / "out.jsonl")] == [
        first["reward"],
        0.0,
    ]


def test_a_run_is_judged_under_another_rubric(
    tmp_path: Path, task: Task, other_rubric: Task, rejudge: Callable[..., Run]
) -> None:
    _write_run(tmp_path / "run", task)
    write_tasks(tmp_path / "new.jsonl", [other_rubric])

    done = rejudge("run", tasks="new.jsonl")

    assert done.returncode == 0, done.stderr
    assert [(row["task_id"], row["reward"]) for row in _rows()] == [(other_rubric.task_id, 1.0)] * 2
    assert [row["origin"]["reward"] for row in _rows()] == [0.5, 0.75]
    assert "under another rubric" in done.stdout


def test_a_file_of_responses_is_compared_with_its_judgement_file(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    lines = [{"task_id": task.task_id, "response": text} for text in (GOOD, "No.")]
    (tmp_path / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    assert rejudge("responses.jsonl").returncode == 0
    assert [row["origin"] for row in _rows()] == [{"id": "", "task_id": task.task_id}] * 2
    Path("out.jsonl").rename("before.jsonl")

    done = rejudge("responses.jsonl", "--before", "before.jsonl")

    assert done.returncode == 0, done.stderr
    assert [row["origin"]["reward"] for row in _rows()] == [pytest.approx(2 / 3), 0.0]
    assert "0.0%" in done.stdout
    Path("before.jsonl").write_text(Path("before.jsonl").read_text().replace(task.task_id, "other"))
    assert "give the responses that were judged" in rejudge(
        "responses.jsonl", "--before", "before.jsonl"
    ).stderr.replace("\n", " ")


def test_only_what_failed_is_judged_again(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    results = {GOOD: _scored(task, 0.0), "No.": INVALID, "Nothing.": UNAVAILABLE}
    _record(tmp_path / "ledger", task, results)
    for only, lines in (("all", [1, 2, 3]), ("invalid", [2]), ("unavailable", [3])):
        assert rejudge("ledger", "--only", only).returncode == 0
        assert [row["line"] for row in _rows()] == lines


def test_responses_without_a_task_are_counted_and_named(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    other = Task(question="Another?", grounding=PASSAGE, rubric=task.rubric)
    _record(tmp_path / "ledger", task, {GOOD: INVALID})
    _record(tmp_path / "ledger", other, {"a": INVALID, "b": INVALID})

    done = rejudge("ledger")

    assert done.returncode == 0
    assert f"no task, or more than one, for 2 responses: tasks {other.task_id}" in done.stderr
    write_tasks(
        tmp_path / "tasks.jsonl", [Task(question="?", grounding=PASSAGE, rubric=task.rubric)]
    )
    done = rejudge("ledger")
    assert done.returncode == 2
    assert "none of the 3 responses belongs to a task" in done.stderr


def test_what_the_ledger_holds_is_not_asked_again_unless_as_a_replicate(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    _record(tmp_path / "old", task, {"a": INVALID, "b": INVALID, "c": INVALID})
    with FakeEndpoint(faults=[None, Fault.SERVER_ERROR]) as endpoint:
        Path("llm.yaml").write_text(
            f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\n"
            "transport: direct\nmax_transport_attempts: 1\n"
        )
        calls: list[int] = []
        for more in ([], [], [], ["--replicate", "1"]):
            done = rejudge("old", "--ledger", "new", *more, judge="llm.yaml")
            assert done.returncode == 0, done.stderr
            calls.append(len(endpoint.calls))
    # Three and one to see whether the judge is there; the one that was not answered, and another
    # such; nothing; three and one.
    assert calls == [4, 6, 6, 10]
    assert [row["reward"] for row in _rows()] == [1.0] * 3


def test_a_ledger_that_cannot_be_written_ends_with_status_1_and_loses_no_judgement(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    responses = {f"{number} " + "word " * 800: INVALID for number in range(30)}
    _record(tmp_path / "old", task, responses)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, before[1]))
    try:
        done = rejudge("old", "--ledger", "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.returncode == 1
    assert "not written to new: " in done.stderr
    assert [row["reward"] for row in _rows()] == [0.0] * 30


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--only", "invalid"], "no judgement is stored beside the responses; give --before"),
        (["--workers", "0"], "--workers is 0"),
        (["--before", "none.jsonl"], "No such file or directory"),
    ],
)
def test_a_wrong_input_is_one_clear_line(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run], more: list[str], problem: str
) -> None:
    row = {"task_id": task.task_id, "response": GOOD}
    (tmp_path / "responses.jsonl").write_text(json.dumps(row))
    done = rejudge("responses.jsonl", *more)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_judge_that_is_not_there_ends_at_once_with_what_to_do(
    tmp_path: Path, task: Task, rejudge: Callable[..., Run]
) -> None:
    _record(tmp_path / "old", task, {GOOD: INVALID})
    Path("llm.yaml").write_text(
        "type: llm\nmodel: openai/fake\napi_base: http://127.0.0.1:9/v1\ntransport: direct\n"
    )
    done = rejudge("old", judge="llm.yaml")
    assert done.returncode == 2
    assert "http://127.0.0.1:9/v1" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
