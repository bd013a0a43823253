from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from rubric_core import (
    Answerer,
    JudgeResult,
    JudgeView,
    LeakError,
    Reason,
    read_tasks,
    write_tasks,
)
from rubric_judge.testing import FailingJudge, ScriptedJudge
from rubric_train_openrlhf.errors import (
    JudgeAbortError,
    NoInformativePromptError,
    PolicyLoadError,
    ResumeError,
    TrainConfigError,
)
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow, RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_train_openrlhf.config.train import TrainConfig

    MakeConfig = Callable[..., TrainConfig]
    MadeRun = Callable[[int], TrainConfig]
    WholeRun = Callable[[int], Path]


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    return load_policy(checkpoint).model.state_dict()


def assert_equal_weights(one: Path, other: Path) -> None:
    expected = weights(other)
    assert all(
        torch.equal(tensor, expected[name]) for name, tensor in weights(one).items()
    )


def rollout_rows(folder: RunFolder, step: int) -> list[RolloutRow]:
    lines = (folder.rollouts / f"step_{step:06d}.jsonl").read_text("utf-8").splitlines()
    return [RolloutRow.model_validate_json(line) for line in lines]


def judgement_rows(folder: RunFolder, step: int) -> list[JudgementRow]:
    lines = (
        (folder.judgements / f"step_{step:06d}.jsonl").read_text("utf-8").splitlines()
    )
    return [JudgementRow.model_validate_json(line) for line in lines]


def test_a_run_with_the_embedded_judge_writes_the_whole_folder(
    make_config: MakeConfig,
) -> None:
    config = make_config()

    summary = run_grpo(config)

    names = {path.name for path in config.out.iterdir()}
    assert names == {
        "config.resolved.yaml",
        "environment.json",
        "metrics.jsonl",
        "heldout.jsonl",
        "summary.json",
        "rollouts",
        "judgements",
        "checkpoints",
        "tensorboard",
    }
    assert summary == RunSummary.model_validate_json(
        (config.out / "summary.json").read_text()
    )
    assert (summary.status, summary.steps) == ("finished", 4)
    folder = RunFolder(config.out)
    assert [row.step for row in folder.read_metrics()] == [1, 2, 3, 4]
    assert [row.step for row in folder.read_heldout()] == [0, 2, 4]
    assert any(row.reward_std > 0 for row in folder.read_metrics())
    environment = json.loads((config.out / "environment.json").read_text())
    assert environment["seed"] == 0
    assert torch.__version__.startswith(environment["versions"]["torch"])


def test_rollouts_and_judgements_join_by_id_and_attribution_sums_to_the_advantage(
    make_config: MakeConfig,
) -> None:
    config = make_config(steps=1)

    run_grpo(config)

    folder = RunFolder(config.out)
    rollouts, judgements = rollout_rows(folder, 1), judgement_rows(folder, 1)
    assert [row.id for row in rollouts] == [row.id for row in judgements]
    assert rollouts[5].id == "s000001-p001-g01"
    assert any(row.advantage for row in rollouts)
    for rollout, judgement in zip(rollouts, judgements, strict=True):
        reward = sum(judgement.shares[name] * z for name, z in judgement.z.items())
        assert rollout.reward == pytest.approx(reward, abs=1e-12)
        assert sum(judgement.attribution.values()) == pytest.approx(
            rollout.advantage, abs=1e-9
        )


def test_the_best_checkpoint_is_the_one_with_the_highest_heldout_reward(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(
        steps=6, validation={"every": 1}, checkpoint={"every": 6, "keep": 1}
    )

    summary = run_grpo(config, judge=spread_judge)

    rows = RunFolder(config.out).read_heldout()
    best = max(rows, key=lambda row: (row.reward_mean, -row.step))
    assert summary.best_step == best.step
    assert summary.best_heldout_reward == best.reward_mean
    link = config.out / "checkpoints" / "best"
    assert link.is_symlink()
    assert not Path(link.readlink()).is_absolute()
    assert link.resolve().name == f"step_{best.step:06d}"
    kept = {path.name for path in (config.out / "checkpoints").glob("step_*")}
    assert kept == {"step_000000", f"step_{best.step:06d}", "step_000006"}
    load_policy(link)


def test_without_validation_tasks_the_last_checkpoint_is_the_best(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(data={"validation": None})

    summary = run_grpo(config, judge=spread_judge)

    assert summary.best_step is None
    assert (config.out / "checkpoints" / "best").resolve().name == "step_000004"


def test_the_same_seed_gives_the_same_weights_and_another_seed_does_not(
    make_config: MakeConfig,
    whole_run: WholeRun,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
) -> None:
    for name, seed in (("same", 0), ("other", 4)):
        run_grpo(
            make_config(out=tmp_path / name, seed=seed, steps=2), judge=spread_judge
        )

    last = "checkpoints/step_000002"
    assert_equal_weights(whole_run(2) / last, tmp_path / "same" / last)
    with pytest.raises(AssertionError):
        assert_equal_weights(whole_run(2) / last, tmp_path / "other" / last)


class Killed(BaseException):
    """Stands for a kill: nothing in the loop may catch it."""


@pytest.mark.parametrize("killed_after", [1, 3, 4])
def test_a_resumed_run_has_every_step_once_and_the_same_weights(
    make_config: MakeConfig,
    whole_run: WholeRun,
    spread_judge: ScriptedJudge,
    killed_after: int,
) -> None:
    whole, cut = whole_run(5), make_config(steps=5)

    def kill(row: object) -> None:
        if getattr(row, "step", None) == killed_after:
            raise Killed

    with pytest.raises(Killed):
        run_grpo(cut, judge=spread_judge, on_step=kill)
    with (cut.out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "reward_me')
    summary = run_grpo(cut, judge=spread_judge, resume=True)

    assert summary.status == "finished"
    assert_equal_weights(
        cut.out / "checkpoints" / "step_000005", whole / "checkpoints" / "step_000005"
    )
    timings = {
        "tokens_per_s",
        "generate_s",
        "judge_s",
        "judge_wait_s",
        "update_s",
        "step_s",
    }
    one, other = RunFolder(cut.out), RunFolder(whole)
    assert [row.model_dump(exclude=timings) for row in one.read_metrics()] == [
        row.model_dump(exclude=timings) for row in other.read_metrics()
    ]
    assert [row.model_dump(exclude={"eval_s"}) for row in one.read_heldout()] == [
        row.model_dump(exclude={"eval_s"}) for row in other.read_heldout()
    ]
    for step in range(1, 6):
        assert rollout_rows(one, step) == rollout_rows(other, step)
        assert judgement_rows(one, step) == judgement_rows(other, step)


def test_a_finished_run_can_be_resumed_for_more_steps(
    make_config: MakeConfig,
    made_run: MadeRun,
    whole_run: WholeRun,
    spread_judge: ScriptedJudge,
) -> None:
    config = made_run(2)
    run_grpo(make_config(steps=4), judge=spread_judge, resume=True)

    last = "checkpoints/step_000004"
    assert_equal_weights(config.out / last, whole_run(4) / last)


def test_a_folder_with_a_run_is_never_written_over(
    made_run: MadeRun, spread_judge: ScriptedJudge
) -> None:
    config = made_run(1)

    with pytest.raises(ResumeError, match="continue it with --resume"):
        run_grpo(config, judge=spread_judge)


def test_resuming_another_run_names_what_differs(
    make_config: MakeConfig, made_run: MadeRun, spread_judge: ScriptedJudge
) -> None:
    made_run(1)

    with pytest.raises(
        ResumeError, match=r"other values of optim\.learning_rate, seed"
    ):
        run_grpo(
            make_config(seed=1, optim={"learning_rate": 5e-3}),
            judge=spread_judge,
            resume=True,
        )


def test_masked_responses_have_no_reward_and_no_part_in_the_update(
    make_config: MakeConfig,
) -> None:
    def sometimes(view: object) -> JudgeResult | float:
        response: str = getattr(view, "response", "")
        if len(response) % 3 == 0:
            return JudgeResult.unavailable(Reason.TIMEOUT)
        return (len(response) % 7) / 7

    config = make_config(steps=2, judge={"max_unavailable_frac": 0.99})

    run_grpo(config, judge=ScriptedJudge(sometimes))

    folder = RunFolder(config.out)
    masked = [row for row in rollout_rows(folder, 1) if row.outcome == "unavailable"]
    assert masked
    assert all(row.reward is None and row.advantage == 0.0 for row in masked)
    metrics = folder.read_metrics()[0]
    assert metrics.unavailable_frac == len(masked) / 16
    assert "timeout" not in metrics.zero_reward_by_reason


def test_what_a_fallback_judged_is_counted_in_metrics_and_summary(
    make_config: MakeConfig,
) -> None:
    def judged(view: JudgeView) -> JudgeResult:
        share = (len(view.response) % 7) / 7
        scores = {one.id: share * one.weight for one in view.rubric}
        name = "spare" if len(view.response) % 2 else ""
        by = Answerer(model="large", fallback=name)
        result = JudgeResult.scored(view.rubric, scores, judge="j")
        return result.model_copy(update={"answered_by": by})

    config = make_config(steps=2)
    summary = run_grpo(config, judge=ScriptedJudge(judged))

    folder = RunFolder(config.out)
    odd = [
        sum(len(one.response) % 2 for one in rollout_rows(folder, step))
        for step in (1, 2)
    ]
    counted = [row.by_fallback.get("spare", 0) for row in folder.read_metrics()]
    assert counted == odd
    assert summary.by_fallback == {"spare": sum(odd)}


@pytest.mark.parametrize(
    ("failure", "rate"),
    [(Reason.TIMEOUT, "unavailable_frac"), (Reason.NOT_JSON, "invalid_frac")],
)
def test_a_judge_that_always_fails_stops_the_run_and_says_why(
    make_config: MakeConfig, failure: Reason, rate: str
) -> None:
    config = make_config(data={"validation": None})

    with pytest.raises(
        JudgeAbortError, match=f"step 1: .*100.0%.*reasons: {failure.value} 16"
    ) as caught:
        run_grpo(config, judge=FailingJudge(failure))

    assert getattr(caught.value, rate) == 1.0
    assert caught.value.reasons == {failure.value: 16}
    summary = RunSummary.model_validate_json((config.out / "summary.json").read_text())
    assert summary.status == "failed"
    assert "JudgeAbortError" in (summary.error or "")


def test_invalid_answers_below_the_threshold_count_as_zero_with_their_reason(
    make_config: MakeConfig,
) -> None:
    def sometimes(view: object) -> JudgeResult | float:
        response: str = getattr(view, "response", "")
        return JudgeResult.invalid(Reason.REFUSED) if len(response) % 3 == 0 else 0.5

    config = make_config(steps=1, judge={"max_invalid_frac": 1.0})

    run_grpo(config, judge=ScriptedJudge(sometimes))

    row = RunFolder(config.out).read_metrics()[0]
    assert row.zero_reward_by_reason == {"refused": row.invalid_frac}
    assert row.zero_reward_frac == row.invalid_frac > 0


def test_dynamic_sampling_trains_on_informative_groups_alone(
    make_config: MakeConfig,
) -> None:
    flat = {f"fn_{number}" for number in range(6)}

    def half(view: object) -> float:
        question: str = getattr(view, "question", "")
        response: str = getattr(view, "response", "")
        return (
            0.5
            if any(f"`{name}`" in question for name in flat)
            else (len(response) % 7) / 7
        )

    config = make_config(steps=2, dynamic_sampling={"max_resample_rounds": 20})

    run_grpo(config, judge=ScriptedJudge(half))

    folder = RunFolder(config.out)
    for row in folder.read_metrics():
        assert row.resampled_prompts > 0
        assert row.degenerate_group_frac > 0
        rewards = [rollout.reward for rollout in rollout_rows(folder, row.step)]
        groups = [rewards[first : first + 4] for first in range(0, 16, 4)]
        assert len(groups) == 4
        assert all(len(set(group)) > 1 for group in groups)


def test_a_resampled_prompt_that_nobody_could_judge_is_held_against_the_whole_step(
    make_config: MakeConfig,
) -> None:
    seen: list[str] = []

    def in_turn(view: object) -> JudgeResult | float:
        question: str = getattr(view, "question", "")
        response: str = getattr(view, "response", "")
        if question not in seen:
            seen.append(question)
        number = seen.index(question)
        if number == 0:
            return 0.5  # its place is the only one that is drawn again, by prompt 4
        return (
            JudgeResult.unavailable(Reason.TIMEOUT)
            if number == 4
            else (len(response) % 7) / 7
        )

    config = make_config(
        steps=1,
        data={"validation": None},
        dynamic_sampling={"max_resample_rounds": 20},
        judge={"max_unavailable_frac": 0.25},
    )

    run_grpo(config, judge=ScriptedJudge(in_turn))

    [row] = RunFolder(config.out).read_metrics()
    assert row.unavailable_frac == 4 / (16 + 4 * row.resampled_prompts)


def test_dynamic_sampling_without_an_informative_prompt_stops_with_a_clear_error(
    make_config: MakeConfig,
) -> None:
    config = make_config(dynamic_sampling={"max_resample_rounds": 2})

    with pytest.raises(
        NoInformativePromptError, match=r"only 0 of 4 prompts.*12 prompts in 3 rounds"
    ):
        run_grpo(config, judge=ScriptedJudge(0.5))


def test_penalties_change_what_is_trained_on_and_not_what_is_reported(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(
        steps=1, shaping={"alpha_stop": 0.0, "length_penalty": {"buffer_tokens": 20}}
    )

    run_grpo(config, judge=spread_judge)

    folder = RunFolder(config.out)
    judgements = judgement_rows(folder, 1)
    assert any("shaping" in row.attribution for row in judgements)
    for rollout, judgement in zip(rollout_rows(folder, 1), judgements, strict=True):
        reward = sum(judgement.shares[name] * z for name, z in judgement.z.items())
        assert rollout.reward == pytest.approx(reward, abs=1e-12)
        assert sum(judgement.attribution.values()) == pytest.approx(
            rollout.advantage, abs=1e-9
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": {"ratio": "sequence", "aggregation": "sequence"}},
        {"objective": {"importance": {"type": "tis"}}},
        {"objective": {"importance": {"type": "icepop"}}},
        {
            "objective": {
                "importance": {"type": "seq_mask_tis", "low": 0.9, "high": 1.1}
            }
        },
        {"objective": {"dual_clip": 3.0}},
        {"objective": {"kl_coef": 0.0}},
        {"advantage": {"estimator": "decoupled"}},
        {"advantage": {"std": "leave_one_out"}},
        {"rollout": {"temperature": 0.7}},
        {"precision": "bfloat16"},
        {"optim": {"gradient_checkpointing": True}},
    ],
    ids=str,
)
def test_every_variant_trains_with_sensible_metrics(
    make_config: MakeConfig, spread_judge: ScriptedJudge, changes: dict[str, object]
) -> None:
    config = make_config(steps=2, data={"validation": None}, **changes)

    run_grpo(config, judge=spread_judge)

    for row in RunFolder(config.out).read_metrics():
        assert row.grad_norm > 0
        assert row.entropy > 0
        assert 0.8 < row.ratio_mean < 1.2
        assert row.kl >= 0
        assert 0 <= row.clip_frac <= 1
        assert (row.dual_clip_frac, row.is_weight_bounded_frac) == (0.0, 0.0)
        assert row.is_weight_mean == pytest.approx(1.0)
        assert abs(row.loss) < 10
    before, after = (
        weights(config.out / "checkpoints" / name)
        for name in ("step_000000", "step_000002")
    )
    assert any(not torch.equal(after[name], tensor) for name, tensor in before.items())


def test_a_missing_model_is_found_before_the_run_folder_exists(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    config = make_config(model={"path": tmp_path / "nowhere"})

    with pytest.raises(PolicyLoadError, match="nowhere"):
        run_grpo(config)

    assert not config.out.exists()


def test_missing_and_empty_task_files_are_named(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    with pytest.raises(TrainConfigError, match=r"absent\.jsonl"):
        run_grpo(make_config(data={"train": tmp_path / "absent.jsonl"}))

    with pytest.raises(TrainConfigError, match="no task file"):
        run_grpo(make_config(data={"validation": tmp_path / ("x" * 300)}))
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(
        TrainConfigError, match=r"\(data\.train\) holds no task.*of rubric-synth$"
    ):
        run_grpo(make_config(data={"train": tmp_path / "empty.jsonl"}))


def test_nothing_on_the_policys_side_holds_the_passage(make_config: MakeConfig) -> None:
    config = make_config(steps=2)

    run_grpo(config)

    judges_side = config.out / "judgements"
    for path in config.out.rglob("*"):
        if path.is_file() and judges_side not in path.parents:
            assert b"quokka" not in path.read_bytes(), path


def test_a_question_that_leaks_stops_the_run(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    config = make_config()
    row = next(iter(read_tasks(config.data.train))).to_json(reveal_grounding=True)
    row["question"] = row["passage"] = "one two three four five six seven eight nine"
    (tmp_path / "leaky.jsonl").write_text(json.dumps(row))

    with pytest.raises(LeakError, match="2 with passage"):
        run_grpo(make_config(data={"train": tmp_path / "leaky.jsonl"}))


def test_a_policy_can_be_built_from_nothing_and_warm_started(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text(
        json.dumps({"text": "one two three four five six seven " * 9}) + "\n"
    )
    shape = {
        "vocab_size": 340,
        "hidden_size": 32,
        "layers": 1,
        "heads": 2,
        "kv_heads": 2,
    }
    phases: list[str] = []

    run_grpo(
        make_config(
            model={
                "type": "tiny",
                "documents": documents,
                "architecture": shape,
                "pretrain": {"steps": 3, "window_tokens": 16},
            },
            sft={"steps": 2, "batch_size": 2},
            steps=1,
        ),
        on_supervised=lambda phase, _: phases.append(phase),
    )

    assert phases == ["pretrain"] * 3 + ["sft"] * 2


def test_a_warm_start_needs_reference_answers(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    config = make_config()
    rows = [
        task.model_copy(update={"reference_answer": None})
        for task in read_tasks(config.data.train)
    ]
    write_tasks(tmp_path / "bare.jsonl", rows)

    with pytest.raises(TrainConfigError, match="reference_answer"):
        run_grpo(
            make_config(
                data={"train": tmp_path / "bare.jsonl"},
                sft={"steps": 1, "learning_rate": 1e-3},
            )
        )
