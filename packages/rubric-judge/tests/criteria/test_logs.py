"""Logs of other stacks without our adapter, formats told by content, and what is refused."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    Reason,
    Rubric,
    RubricFileError,
    Task,
)
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.quality.criteria.measure import measure
from rubric_judge.quality.criteria.ours import step_files
from rubric_judge.quality.criteria.report import CriteriaReport, CriterionLife
from rubric_judge.quality.criteria.sources import Format, open_log, told_format
from rubric_judge.quality.responses import JudgedResponse, write_judgements
from rubric_judge.testing import ScriptedJudge

TASK = Task(
    question="What is it?",
    grounding=Grounding("It is a sum."),
    rubric=Rubric(
        criteria=(Criterion(id="names", weight=3.0), Criterion(id="cost", weight=1.0))
    ),
)
TASKS = {TASK.task_id: TASK}


def measured(*paths: Path, by: Any = "criterion", **options: Any) -> CriteriaReport:
    log = open_log(paths, **options)
    report = measure(
        log.answers,
        source=log.format,
        by=by,
        tasks=(options.get("tasks") or {}).values(),
    )
    return report.model_copy(update={"notes": tuple(log.all_notes())})


def rows_of(report: CriteriaReport) -> dict[str, CriterionLife]:
    return {row.name: row for row in report.rows}


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(path: Path, **columns: list[Any]) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def completions(path: Path, *, step: int = 1, **rewards: list[Any]) -> Path:
    """A file of TRL for two prompts of two answers each."""
    return parquet(
        path,
        step=[step] * 4,
        prompt=["p", "p", "q", "q"],
        completion=[f"{step} {g}" for g in range(4)],
        **rewards,
        advantage=[0.0] * 4,
    )


def test_reward_functions_of_trl_are_criteria_of_one_weight(tmp_path: Path) -> None:
    for step in (1, 2):
        completions(
            tmp_path / f"completions/completions_{step:05d}.parquet",
            step=step,
            names=[1.0, 1.0, 1.0, 1.0],
            cost=[0.0, 1.0, 0.5, None],
        )

    report = measured(tmp_path)
    rows = rows_of(report)

    assert (report.source, report.steps, report.groups) == ("trl", 2, 4)
    assert (rows["names"].saturated, rows["names"].gradient) == (1.0, 0.0)
    # What does not apply is no score, and 0 in TRL's sum: the third answer is pushed up by it.
    assert (rows["cost"].scores, rows["cost"].groups) == (6, 2)
    assert rows["cost"].mean == pytest.approx(0.5)
    assert rows["cost"].gradient == pytest.approx(1.0)
    assert "weighed alike" in report.notes[0]


def test_a_batch_that_trl_writes_twice_is_read_once(tmp_path: Path) -> None:
    for number in (1, 2):
        completions(
            tmp_path / f"completions_{number:05d}.parquet", cost=[0.0, 1.0, 0.5, 0.5]
        )

    report = measured(tmp_path)

    assert report.responses == 4
    assert "1 files repeat the batch" in report.notes[0]


def test_two_groups_of_one_prompt_side_by_side_are_two(tmp_path: Path) -> None:
    file = parquet(
        tmp_path / "completions_00001.parquet",
        step=[1] * 6,
        prompt=["p"] * 4 + ["q"] * 2,
        completion=[str(g) for g in range(6)],
        cost=[0.0, 0.0, 1.0, 1.0, 0.0, 1.0],
        advantage=[0.0] * 6,
    )

    assert rows_of(measured(file))["cost"].constant == pytest.approx(2 / 3)
    assert measured(file).groups == 3
    with pytest.raises(ConfigError, match=r"--group-size 3: .* 4 rows of one prompt"):
        measured(file, group_size=3)


def test_numbers_of_verl_are_criteria_and_equal_prompts_a_group(tmp_path: Path) -> None:
    row = {"output": "y", "gts": "t", "score": 1.0, "step": 3}
    lines(
        tmp_path / "3.jsonl",
        {"input": "p", **row, "names": 1.0, "cost": 0.0, "pred": "y"},
        {"input": "q", **row, "names": 1.0, "cost": 1.0, "pred": "y"},
        {"input": "p", **row, "names": 1.0, "cost": 1.0, "pred": "y"},
        {"input": "q", **row, "names": 0.0, "cost": 1.0, "pred": "y"},
    )

    report = measured(tmp_path)

    assert (report.source, report.steps, report.groups) == ("verl", 1, 2)
    assert {name: row.constant for name, row in rows_of(report).items()} == {
        "names": 0.5,
        "cost": 0.5,
    }


def test_rewards_of_verifiers_have_their_weights(tmp_path: Path) -> None:
    def episode(names: float, cost: float | None) -> dict[str, Any]:
        rewards = {
            "names": {"score": names, "weight": 3.0},
            "cost": {"score": cost, "weight": 1.0},
        }
        failed = dict.fromkeys(rewards)
        return {
            "task": {"key": "k", "data": {"prompt": "p"}},
            "traces": [
                {"rewards": failed if cost is None else rewards, "ok": cost is not None}
            ],
        }

    file = lines(
        tmp_path / "traces.jsonl", episode(1, 0), episode(0, 1), episode(0, None)
    )

    report = measured(file)

    assert (report.groups, report.responses, report.unavailable) == (1, 3, 1)
    assert rows_of(report)["names"].share == 0.75
    assert rows_of(report)["cost"].held_down == 1.0
    assert not report.notes


def test_a_negative_weight_of_verifiers_is_a_fault_to_avoid(tmp_path: Path) -> None:
    def episode(names: float, repeats: float) -> dict[str, Any]:
        rewards = {
            "names": {"score": names, "weight": 1.0},
            "repeats": {"score": repeats, "weight": -3.0},
        }
        task = {"key": "k", "data": {"prompt": "p"}}
        return {"task": task, "traces": [{"rewards": rewards, "ok": True}]}

    file = lines(tmp_path / "traces.jsonl", episode(1, 1), episode(0, 0), episode(0, 1))

    report = measured(file)
    rows = rows_of(report)

    # The rewards are −2, 0 and −3: the second answer is the best, for it does not repeat.
    parts = {
        "names": 0.25 * np.array([1.0, 0.0, 0.0]),
        "repeats": -0.75 * np.array([1.0, 0.0, 1.0]),
    }
    rewards = parts["names"] + parts["repeats"]
    about = rewards - rewards.mean()
    for name, part in parts.items():
        expected = ((part - part.mean()) @ about) / (about @ about)
        assert rows[name].gradient == pytest.approx(expected)
    assert rows["repeats"].share == 0.75
    assert rows["repeats"].mean == pytest.approx(1 / 3)
    assert rows["names"].held_down == 1.0
    (note,) = report.notes
    assert note.startswith("'repeats': the weight is negative")
    assert note.endswith("figures are of 1 − z")


def test_a_group_whose_first_answer_failed_has_the_names_of_the_others(
    tmp_path: Path,
) -> None:
    record = {"task_id": "t", "outcome": "scored", "shares": {"a_1": 1.0}}
    traces = [
        {"ok": False},
        *(
            {"ok": True, "info": {"rubric/judgement": json.dumps({**record, **more})}}
            for more in (
                {"z": {"a_1": 1.0}, "pools": {"a_1": "kind.cause"}},
                {"z": {"a_1": 0.0}, "pools": {"a_1": "kind.cause"}},
            )
        ),
    ]
    task = {"key": "k", "data": {"prompt": "p"}}
    file = lines(
        tmp_path / "traces.jsonl",
        *({"task": task, "traces": [trace]} for trace in traces),
    )

    assert list(rows_of(measured(file))) == ["kind.cause"]
    assert list(rows_of(measured(file, by="prompt"))) == ["t"]
    assert measured(file).unavailable == 1


def test_episodes_of_two_steps_may_come_in_turns(tmp_path: Path) -> None:
    def episode(step: int, cost: float) -> dict[str, Any]:
        return {
            "task": {"key": "k", "data": {"prompt": "p"}},
            "run": {"work": {"type": "train", "step": step}},
            "traces": [{"rewards": {"cost": {"score": cost}}, "ok": True}],
        }

    episodes = [episode(step, cost) for cost in (0.0, 1.0) for step in (1, 2)]

    report = measured(lines(tmp_path / "traces.jsonl", *episodes))

    assert (report.steps, report.groups, report.cells) == (2, 2, 2)


def test_a_judgement_that_was_made_up_for_counts_once(tmp_path: Path) -> None:
    view = TASK.judge_view("an answer")
    other = TASK.judge_view("another")
    judge = ScriptedJudge(1.0)
    with Ledger(tmp_path / "l.ledger") as ledger:
        for asked, result in (
            (view, JudgeResult.unavailable(Reason.TIMEOUT)),
            (other, JudgeResult.invalid(Reason.NOT_JSON)),  # suspect as yet
            (view, asyncio.run(judge.judge(view))),
        ):
            key = ledger.key(asked, judge="j")
            ledger.record(key, asked, result, judge="j")

    report = measured(tmp_path / "l.ledger", tasks=TASKS)

    assert (report.responses, report.invalid, report.unavailable) == (2, 1, 0)
    assert rows_of(report)["names"].scores == 1


def test_files_of_steps_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"step_{step:06d}.jsonl" for step in (2, 999_999, 1_000_000)]
    for name in reversed(names):
        (tmp_path / name).touch()

    assert [path.name for path in step_files(tmp_path)] == names
    assert [path.name for path in step_files(tmp_path, last=1)] == names[-1:]


def test_components_of_nemo_gym_are_criteria(tmp_path: Path) -> None:
    rows = [
        {
            "_ng_task_index": g // 2,
            "_ng_rollout_index": g % 2,
            "responses_create_params": {"input": "p"},
            "response": {},
            "reward": 0.5,
            "reward_components": {"names": 1.0, "cost": float(g % 2)},
        }
        for g in range(4)
    ]
    failure = {**rows[0], "_ng_failure_class": "judge_failed"}
    lost = {**failure, "_ng_rollout_index": 2}
    del failure["reward_components"]
    del lost["reward_components"]
    lines(tmp_path / "rollouts.jsonl", *rows)
    # The first was tried again with success.
    lines(tmp_path / "rollouts_failures.jsonl", failure, lost)

    report = measured(tmp_path / "rollouts.jsonl")

    assert (report.groups, report.responses, report.unavailable) == (2, 5, 1)
    assert rows_of(report)["names"].saturated == 1.0


def test_a_second_judgement_of_an_answer_is_noise_and_nothing_else(
    tmp_path: Path,
) -> None:
    def view(g: int) -> Any:
        return TASK.judge_view(f"answer {g}")

    def result(names: float, cost: float) -> Any:
        return asyncio.run(ScriptedJudge({"names": names, "cost": cost}).judge(view(0)))

    first = [result(3.0, 1.0), result(0.0, 1.0)]
    again = [result(1.5, 1.0), result(0.0, 1.0)]
    for name, results in (("first", first), ("again", again)):
        judged = [JudgedResponse(g + 1, view(g), one) for g, one in enumerate(results)]
        write_judgements(tmp_path / f"{name}.jsonl", judged)
    with Ledger(tmp_path / "l.ledger") as ledger:
        for replicate, results in enumerate((first, again)):
            for g, one in enumerate(results):
                key = ledger.key(view(g), judge="j", replicate=replicate)
                ledger.record(key, view(g), one, judge="j", replicate=replicate)

    alone = measured(tmp_path / "first.jsonl", tasks=TASKS)
    for both in (
        measured(tmp_path / "first.jsonl", tmp_path / "again.jsonl", tasks=TASKS),
        measured(tmp_path / "l.ledger", tasks=TASKS),
    ):
        # z of the first answer is 1 and .5: a variance of .125, and none of the second.
        assert rows_of(both)["names"].noise == pytest.approx(math.sqrt(0.125 / 2))
        assert rows_of(both)["cost"].noise == 0
        without = {"noise"}
        for name, row in rows_of(both).items():
            assert row.model_dump(exclude=without) == pytest.approx(
                rows_of(alone)[name].model_dump(exclude=without)
            )
    assert {row.noise for row in alone.rows} == {None}
    assert alone.tokens is None


@pytest.mark.parametrize(
    ("kind", "name", "row"),
    [
        (
            "run",
            "s.jsonl",
            {"id": 1, "step": 1, "task_id": "t", "result": {}, "z": {}, "shares": {}},
        ),
        ("judged", "s.jsonl", {"line": 1, "task_id": "t", "reward": 1, "result": {}}),
        (
            "verl",
            "1.jsonl",
            {"input": "", "output": "", "score": 1, "step": 1, "gts": ""},
        ),
        ("verifiers", "traces.jsonl", {"task": {}, "traces": []}),
        ("nemo-gym", "r.jsonl", {"responses_create_params": {}, "reward": 1}),
    ],
)
def test_a_format_is_told_by_the_content(
    kind: Format, name: str, row: dict[str, Any], tmp_path: Path
) -> None:
    file = lines(tmp_path / name, row)

    assert told_format(file) == told_format(tmp_path) == kind


def test_what_is_no_log_says_what_was_looked_for(tmp_path: Path) -> None:
    other = lines(tmp_path / "rows.jsonl", {"text": "secret", "label": 1})
    (tmp_path / "empty").mkdir()

    with pytest.raises(
        RubricFileError, match=r"a line with 'label', 'text'; looked for"
    ) as e:
        open_log([other])
    assert "secret" not in str(e.value)
    for kind in ("(run)", "(ledger)", "(judged)", "(trl)", "(verl)", "(verifiers)"):
        assert kind in str(e.value)
    with pytest.raises(RubricFileError, match="a folder without a log"):
        open_log([tmp_path / "empty"])
    with pytest.raises(RubricFileError, match=r"^[^:]*: there is no such file"):
        open_log([tmp_path / "absent.jsonl"])
    with pytest.raises(RubricFileError, match="without files of format 'verl'"):
        open_log([tmp_path / "empty"], kind="verl")
    (tmp_path / "broken.jsonl").write_text('{"a"\n', encoding="utf-8")
    with pytest.raises(
        RubricFileError, match=r"broken\.jsonl:1: not JSON: Expecting .:. delimiter"
    ):
        open_log([tmp_path / "broken.jsonl"])


@pytest.mark.parametrize(
    ("kind", "row", "key"),
    [
        ("verl", {"output": "y", "score": 1.0}, "`uid`, or equal `input` and `gts`"),
        ("verifiers", {"task": {}, "traces": []}, "`group.id` or `task.key`"),
        ("nemo-gym", {"responses_create_params": {}, "reward": 1}, "`_ng_task_index`"),
    ],
)
def test_rows_without_groups_say_which_key_names_one(
    kind: Format, row: dict[str, Any], key: str, tmp_path: Path
) -> None:
    file = lines(tmp_path / "rows.jsonl", row)

    with pytest.raises(RubricFileError, match=key) as error:
        measured(file, kind=kind)
    assert error.value.line == 1


def test_rows_without_scores_by_criterion_say_what_could_hold_them(
    tmp_path: Path,
) -> None:
    row = {
        "input": "p",
        "output": "y",
        "gts": "t",
        "score": 1.0,
        "step": 1,
        "uid": "a_0_0",
    }
    file = lines(tmp_path / "1.jsonl", row)

    with pytest.raises(
        RubricFileError, match=r"validation_data_dir.*use_v1=false"
    ) as error:
        measured(file)
    assert "log_judgements=True" in str(error.value)


def test_a_record_that_is_not_ours_is_refused_with_its_place(tmp_path: Path) -> None:
    row = {
        "input": "p",
        "output": "y",
        "score": 1.0,
        "step": 1,
        "rubric/judgement": "{}",
    }
    file = lines(tmp_path / "1.jsonl", row)

    with pytest.raises(RubricFileError, match=r"1\.jsonl:1: field 'task_id'"):
        measured(file)


def test_answers_of_one_group_under_two_rubrics_are_refused(tmp_path: Path) -> None:
    def record(**shares: float) -> str:
        return json.dumps(
            {
                "task_id": "t",
                "outcome": "scored",
                "shares": shares,
                "z": dict.fromkeys(shares, 1),
            }
        )

    row = {"input": "p", "output": "y", "score": 1.0, "step": 1}
    file = lines(
        tmp_path / "1.jsonl",
        {**row, "rubric/judgement": record(names=1.0)},
        {**row, "rubric/judgement": record(names=0.5, cost=0.5)},
    )

    with pytest.raises(
        ConfigError, match=r"task 't' in one group .* different criteria"
    ):
        measured(file)


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    row = {"input": "p", "output": "y", "score": 1.0, "step": 1, "cost": 1.0}
    verl = lines(tmp_path / "1.jsonl", row)
    judged = lines(
        tmp_path / "j.jsonl", {"line": 1, "task_id": "t", "reward": 1, "result": {}}
    )

    with pytest.raises(ConfigError, match="--group-size is for TRL's logs"):
        open_log([verl], group_size=4)
    with pytest.raises(ConfigError, match=r"format 'verl'.*'judged'"):
        open_log([verl, judged])
    with pytest.raises(ConfigError, match="no weights w_j: give --tasks"):
        measured(judged)
    with pytest.raises(ConfigError, match="no log is named"):
        open_log([])
    with pytest.raises(
        ConfigError, match="--last is for logs with a file for each step"
    ):
        open_log([judged], last=2)
    with pytest.raises(ConfigError, match="--only names scores of other stacks"):
        open_log([judged], only=["cost"])
    with Ledger(tmp_path / "l.ledger"):
        pass
    with pytest.raises(ConfigError, match="a ledger holds scores s_j"):
        measured(tmp_path / "l.ledger")


def test_single_answers_are_measured_as_far_as_they_can_be(tmp_path: Path) -> None:
    row = {"output": "y", "score": 1.0, "step": 1, "cost": 0.5}
    file = lines(tmp_path / "1.jsonl", {"input": "p", **row}, {"input": "q", **row})

    report = measured(file)

    assert report.cells == 0
    (cost,) = report.rows
    assert (cost.mean, cost.spread, cost.constant, cost.gradient) == (
        0.5,
        None,
        None,
        None,
    )


def test_only_the_named_scores_are_criteria(tmp_path: Path) -> None:
    row = {"output": "y", "score": 1.0, "step": 1, "cost": 0.5, "num_turns": 3}
    verl = lines(tmp_path / "1.jsonl", {"input": "p", **row}, {"input": "p", **row})
    rows = [
        {
            "_ng_task_index": 0,
            "responses_create_params": {},
            "reward": 1.0,
            "cost": cost,
        }
        for cost in (0.0, 1.0)
    ]
    gym = lines(tmp_path / "rollouts.jsonl", *rows)

    assert set(rows_of(measured(verl))) == {"cost", "num_turns"}
    for file in (verl, gym):
        report = measured(file, only=["cost"])
        assert set(rows_of(report)) == {"cost"}
        assert "one score for each answer" in report.notes[0]
    with pytest.raises(RubricFileError, match="holds no scores by criterion"):
        measured(verl, only=["absent"])
