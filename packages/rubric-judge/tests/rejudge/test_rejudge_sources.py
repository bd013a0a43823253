"""Where stored responses come from, which task is theirs, and what has changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import (
    ConfigError,
    Grounding,
    JudgeResult,
    Reason,
    RubricFileError,
    Task,
)
from rubric_judge.quality.rejudge import compare, match_tasks, read_stored
from rubric_judge.quality.responses import JudgedResponse

PASSAGE = Grounding("The model minimises the cross entropy of the labels.")
INVALID = JudgeResult.invalid(Reason.NOT_JSON, judge="m")
UNAVAILABLE = JudgeResult.unavailable(Reason.TIMEOUT, judge="m")

Record = Callable[..., None]
Scored = Callable[..., JudgeResult]
WriteRun = Callable[[Path, Task], None]


# --- sources --------------------------------------------------------------------------------------


def test_a_ledger_gives_each_response_once_with_the_judgement_that_it_finds(
    tmp_path: Path, task: Task, record: Record, scored: Scored
) -> None:
    half = scored(task, 0.5)
    record(
        tmp_path / "ledger", task, {"d": INVALID, "e": INVALID}
    )  # without a valid answer
    first = {"a": UNAVAILABLE, "b": INVALID, "c": UNAVAILABLE, "d": half}
    record(tmp_path / "ledger", task, first)
    record(tmp_path / "ledger", task, {"a": half, "b": scored(task, 1.0)})
    record(tmp_path / "ledger", task, {"a": scored(task, 0.25)}, replicate=1)

    stored = read_stored(tmp_path / "ledger")

    assert [(one.answer.text, one.before) for one in stored] == [
        ("d", half),
        ("e", INVALID),
        ("a", half),
        ("b", INVALID),
        ("c", UNAVAILABLE),
    ]
    assert {one.passage_sha256 for one in stored} == {PASSAGE.sha256}


def test_one_judge_is_chosen_of_a_ledger_that_holds_several(
    tmp_path: Path, task: Task, record: Record, scored: Scored
) -> None:
    record(
        tmp_path / "ledger", task, {"a": scored(task, 0.5, judge="gentle")}, judge="f1"
    )
    record(
        tmp_path / "ledger", task, {"a": scored(task, 0.1, judge="strict")}, judge="f2"
    )
    with pytest.raises(
        ConfigError, match=r"several judges.*'gentle' \(f1, 1 judgements\)"
    ):
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
    tmp_path: Path, task: Task, record: Record, scored: Scored
) -> None:
    record(
        tmp_path / "ledger", task, {"a": scored(task, 0.5, judge="gentle")}, judge="f1"
    )
    record(
        tmp_path / "ledger", task, {"a": scored(task, 0.1, judge="strict")}, judge="f2"
    )
    with pytest.raises(ConfigError) as caught:
        read_stored(tmp_path / "ledger", judge="unknown")
    assert "no judgement by 'unknown'; it holds those of 'gentle' (f1, 1 j" in str(
        caught.value
    )
    assert "'strict' (f2, 1 judgements)" in str(caught.value)
    with pytest.raises(ConfigError, match="several judges"):
        read_stored(tmp_path / "ledger", judge="f")
    record(tmp_path / "ledger", task, {"a": scored(task, 0.9, judge="f")}, judge="e3")
    (one,) = read_stored(
        tmp_path / "ledger", judge="f"
    )  # a whole name goes before a beginning
    assert one.before is not None
    assert one.before.judge == "f"


def test_a_run_gives_its_rollouts_with_their_judgements(
    tmp_path: Path, task: Task, scored: Scored, write_run: WriteRun
) -> None:
    write_run(tmp_path, task)
    stored = read_stored(tmp_path)
    assert [(one.line, one.id, one.before) for one in stored] == [
        (1, "s1", scored(task, 0.5)),
        (2, "s2", scored(task, 0.75)),
    ]
    (one,) = read_stored(tmp_path / "rollouts" / "step_000002.jsonl")
    assert (one.id, one.before) == ("s2", scored(task, 0.75))


def test_a_row_that_is_no_rollout_is_named_without_its_text(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "step_000001.jsonl").write_text(
        '{"id": "s1", "task_id": ["Zyzzyva"]}'
    )
    with pytest.raises(
        RubricFileError, match=r"step_000001\.jsonl:1: field 'task_id'"
    ) as caught:
        read_stored(tmp_path)
    assert "Zyzzyva" not in str(caught.value)


def test_a_source_that_holds_nothing_says_what_a_source_is(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"holds no response: give a ledger, a run folder"
    ):
        read_stored(tmp_path)


# --- matching -------------------------------------------------------------------------------------


def test_a_response_finds_the_same_question_of_the_same_passage_under_another_rubric(
    tmp_path: Path, task: Task, other_rubric: Task, record: Record
) -> None:
    elsewhere = Task(
        question=task.question,
        grounding=Grounding("Another."),
        rubric=other_rubric.rubric,
    )
    record(tmp_path / "ledger", task, {"a": INVALID})
    stored = read_stored(tmp_path / "ledger")

    by_id = match_tasks(stored, [other_rubric, task])
    by_passage = match_tasks(stored, [elsewhere, other_rubric])
    none = match_tasks(stored, [elsewhere])
    several = match_tasks(
        stored, [other_rubric, Task.from_json({**_json(other_rubric), "doc_hash": "d"})]
    )

    assert ([task for _, task in by_id.pairs], by_id.same) == ([task], 1)
    assert ([task for _, task in by_passage.pairs], by_passage.same) == (
        [other_rubric],
        0,
    )
    assert none.unmatched == several.unmatched == tuple(stored)


def test_no_task_at_all_is_said(tmp_path: Path, task: Task, record: Record) -> None:
    record(tmp_path / "ledger", task, {"a": INVALID})
    with pytest.raises(ConfigError, match="the task file holds no task"):
        match_tasks(read_stored(tmp_path / "ledger"), [])


def _json(task: Task) -> dict[str, object]:
    return task.to_json(reveal_grounding=True)


def test_a_rollout_finds_its_task_by_its_question_or_by_the_tasks_of_before(
    tmp_path: Path, task: Task, other_rubric: Task, write_run: WriteRun
) -> None:
    write_run(tmp_path, task)
    stored = read_stored(tmp_path / "rollouts" / "step_000001.jsonl")
    # The same document in another cut, which only its hash tells.
    document = {
        **_json(other_rubric),
        "doc_hash": task.doc_hash,
        "passage": "A shorter cut.",
    }
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


def test_a_comparison_by_hand(task: Task, scored: Scored) -> None:
    before = [scored(task, share) for share in (0.0, 0.5, 1.0)] + [
        INVALID,
        UNAVAILABLE,
        None,
    ]
    after = [scored(task, share) for share in (0.5, 0.0, 1.0, 0.0, 1.0, 1.0)]

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


def test_equal_judgements_change_nothing_and_constant_ones_have_no_rank(
    task: Task, scored: Scored
) -> None:
    results = [scored(task, share) for share in (0.1, 0.7, 0.4)]
    same = compare(results, _after(task, results))
    assert same is not None
    assert (same.changed_frac, same.order_kept_frac) == (0.0, 1.0)
    assert same.rank_correlation == pytest.approx(1.0)
    flat = compare([INVALID] * 3, _after(task, results))
    assert flat is not None
    assert (flat.rank_correlation, flat.order_kept_frac) == (None, None)
    assert compare([UNAVAILABLE, None, None], _after(task, results)) is None
