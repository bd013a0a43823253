from __future__ import annotations

import asyncio
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

from rubric_core import FolderLockError, JudgeResult, RubricError
from rubric_core.locks import folder_lock
from rubric_judge.testing import FakeEndpoint
from rubric_train_openrlhf.errors import (
    JudgeAbortError,
    NonFiniteLogitsError,
    ResumeError,
    TrainConfigError,
)
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_core import JudgeView
    from rubric_judge.testing import ScriptedJudge
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.run.records import MetricsRow

    MakeConfig = Callable[..., TrainConfig]
    MadeRun = Callable[[int], TrainConfig]

TAKEN = [
    "metrics.jsonl",
    "heldout.jsonl",
    "rollouts/step_000001.jsonl",
    "judgements/mine.txt",
    "ledger.sqlite",
    "checkpoints/step_000000/mine.bin",
    "tensorboard/events",
    "environment.json",
    "summary.json",
]


def files(folder: Path) -> dict[str, bytes]:
    paths = [
        path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def summary(config: TrainConfig) -> RunSummary:
    return RunSummary.model_validate_json((config.out / "summary.json").read_text())


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("resume", [False, True])
def test_files_under_a_runs_names_are_never_written_over(
    make_config: MakeConfig, spread_judge: ScriptedJudge, name: str, *, resume: bool
) -> None:
    config = make_config(steps=1)
    (config.out / name).parent.mkdir(parents=True)
    (config.out / name).write_text("mine")

    with pytest.raises(ResumeError, match=rf"holds no run.*{name.partition('/')[0]}"):
        run_grpo(config, judge=spread_judge, resume=resume)

    assert files(config.out) == {name: b"mine"}


def test_other_files_in_the_folder_stay_as_they_are(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(steps=1)
    others = [
        "documents/a",
        "tasks/.env",
        "base/b",
        "sft/.git/HEAD",
        ".notes.tmp",
        "notes.txt",
    ]
    for name in others:
        (config.out / name).parent.mkdir(parents=True, exist_ok=True)
        (config.out / name).write_text("mine")

    run_grpo(config, judge=spread_judge)
    run_grpo(config, judge=spread_judge, resume=True)

    after = files(config.out)
    assert all(after[name] == b"mine" for name in others)


def test_a_folder_in_use_is_refused_before_it_is_read(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(steps=1)

    with folder_lock(config.out):
        with pytest.raises(
            FolderLockError, match=f"in use by another process, pid {os.getpid()}"
        ):
            run_grpo(config, judge=spread_judge)
        assert files(config.out).keys() == {".lock"}

    def again(_: object) -> None:
        with pytest.raises(FolderLockError, match="in use"):
            run_grpo(config, judge=spread_judge, resume=True)

    run_grpo(config, judge=spread_judge, on_step=again)


@pytest.mark.parametrize("name", ["train", "validation"])
@pytest.mark.parametrize("change", ["the order of the tasks", "the passages"])
def test_a_run_is_not_resumed_with_other_tasks(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
    name: str,
    change: str,
) -> None:
    config = make_config(steps=1)
    path = tmp_path / f"{name}.jsonl"
    shutil.copy(getattr(config.data, name), path)
    config = make_config(steps=1, data={name: path})
    run_grpo(config, judge=spread_judge)
    before = files(config.out)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    if change == "the passages":
        rows[0]["passage"] += " Not."
    else:
        rows.reverse()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    words = rf"^data\.{name} \(.*{name}\.jsonl'\): {change} changed since the run"
    with pytest.raises(ResumeError, match=words):
        run_grpo(
            make_config(steps=2, data={name: path}), judge=spread_judge, resume=True
        )

    assert files(config.out) == before


DAMAGE: dict[str, tuple[str, bytes | None]] = {
    "config not UTF-8": ("config.resolved.yaml", b"\xff\xfe"),
    "config not YAML": ("config.resolved.yaml", b"a: [\n"),
    "config deep": ("config.resolved.yaml", b"[" * 5000),
    "config no such day": ("config.resolved.yaml", b"seed: 2001-99-99"),
    "config list": ("config.resolved.yaml", b"[]"),
    "config empty": ("config.resolved.yaml", b""),
    "environment gone": ("environment.json", None),
    "environment list": ("environment.json", b"[]"),
    "environment without tasks": ("environment.json", b"{}"),
    "environment not UTF-8": ("environment.json", b"\xff"),
    "metrics gone": ("metrics.jsonl", None),
    "metrics not UTF-8": ("metrics.jsonl", b"\xff\n"),
    "heldout gone": ("heldout.jsonl", None),
    "heldout junk": ("heldout.jsonl", b"{}\n"),
    "state empty": ("trainer_state.pt", b""),
    "state not UTF-8": ("trainer_state.pt", b"\x80\x02X\x01\x00\x00\x00\xff."),
}


@pytest.mark.parametrize("damage", DAMAGE, ids=str)
def test_a_damaged_run_folder_is_refused_and_left_as_it_is(
    make_config: MakeConfig, made_run: MadeRun, spread_judge: ScriptedJudge, damage: str
) -> None:
    config = made_run(2)
    name, content = DAMAGE[damage]
    path = next(config.out.rglob(f"step_000002/{name}"), config.out / name)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    before = files(config.out)

    with pytest.raises(
        ResumeError, match=rf"{name}.*(start again in|choose) another `out`"
    ):
        run_grpo(make_config(steps=3), judge=spread_judge, resume=True)

    assert files(config.out) == before


def test_a_pipe_in_place_of_any_file_is_refused_or_replaced_and_never_waited_for(
    make_config: MakeConfig,
    made_run: MadeRun,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
) -> None:
    config = made_run(1)
    shutil.copytree(config.out, tmp_path / "whole", symlinks=True)
    refused: set[str] = set()

    for name in files(config.out):
        shutil.rmtree(config.out)
        shutil.copytree(tmp_path / "whole", config.out, symlinks=True)
        (config.out / name).unlink()
        os.mkfifo(config.out / name)
        with suppress(RubricError):
            run_grpo(make_config(steps=2), judge=spread_judge, resume=True)
            continue
        refused.add(name.rpartition("/")[2])

    rows = {"metrics.jsonl", "heldout.jsonl"}
    assert refused >= rows | {
        "config.resolved.yaml",
        "environment.json",
        "model.safetensors",
    }


@pytest.mark.parametrize(
    ("step", "name"),
    [(0, "model.safetensors"), (2, "model.safetensors"), (2, "tokenizer.json")],
)
def test_a_checkpoint_with_another_model_in_it_is_refused_and_left_as_it_is(
    make_config: MakeConfig,
    made_run: MadeRun,
    spread_judge: ScriptedJudge,
    step: int,
    name: str,
) -> None:
    config = made_run(2)
    path = config.out / "checkpoints" / f"step_{step:06d}" / name
    if name.endswith("safetensors"):
        weights = {key: tensor * 1.5 for key, tensor in load_file(path).items()}
        save_file(weights, path, metadata={"format": "pt"})
    else:
        path.write_text(path.read_text() + " ")
    before = files(config.out)

    with pytest.raises(
        ResumeError, match=rf"step_00000{step}/{name}.* is not what the run wrote"
    ):
        run_grpo(make_config(steps=3), judge=spread_judge, resume=True)

    assert files(config.out) == before


def test_a_checkpoint_of_before_the_digests_goes_on(
    make_config: MakeConfig, made_run: MadeRun, spread_judge: ScriptedJudge
) -> None:
    config = made_run(2)
    for path in config.out.rglob("trainer_state.pt"):
        state = torch.load(path, weights_only=True)
        del state["files"]
        torch.save(state, path)

    assert run_grpo(make_config(steps=3), judge=spread_judge, resume=True).steps == 3


def test_the_model_that_a_run_started_from_is_not_read_again(
    make_config: MakeConfig,
    whole_run: Callable[[int], Path],
    spread_judge: ScriptedJudge,
    tmp_path: Path,
) -> None:
    """Step 0 holds it: what becomes of `model.path` later has no influence."""
    model = tmp_path / "model"
    shutil.copytree(str(getattr(make_config().model, "path", "")), model)
    changes = {"model": {"type": "path", "path": model}}
    run_grpo(make_config(steps=2, **changes), judge=spread_judge)
    shutil.rmtree(model)

    config = make_config(steps=4, **changes)
    run_grpo(config, judge=spread_judge, resume=True)

    last = "checkpoints/step_000004/model.safetensors"
    assert (config.out / last).read_bytes() == (whole_run(4) / last).read_bytes()


def test_rows_without_a_checkpoint_are_never_wiped(
    made_run: MadeRun, spread_judge: ScriptedJudge
) -> None:
    config = made_run(1)
    shutil.rmtree(config.out / "checkpoints")
    before = files(config.out)

    with pytest.raises(ResumeError, match="no checkpoint, but the run has rows"):
        run_grpo(config, judge=spread_judge, resume=True)

    assert files(config.out) == before


def test_a_state_that_does_not_fit_its_model_or_name_is_refused(
    make_config: MakeConfig, made_run: MadeRun, spread_judge: ScriptedJudge
) -> None:
    config = made_run(2)
    path = config.out / "checkpoints" / "step_000002" / "trainer_state.pt"
    state = torch.load(path, weights_only=True)

    torch.save({**state, "step": 1}, path)
    with pytest.raises(ResumeError, match="holds the trainer state of step 1"):
        run_grpo(make_config(steps=3), judge=spread_judge, resume=True)
    torch.save({**state, "optimizer": {}}, path)
    with pytest.raises(ResumeError, match=r"step 2 .* does not fit its model"):
        run_grpo(make_config(steps=3), judge=spread_judge, resume=True)


def test_stray_names_do_not_keep_a_run_from_going_on(
    make_config: MakeConfig, made_run: MadeRun, spread_judge: ScriptedJudge
) -> None:
    config = made_run(1)
    for name in ("checkpoints", "rollouts", "judgements"):
        (config.out / name / "step_foo.jsonl").write_text("mine")

    assert run_grpo(make_config(steps=2), judge=spread_judge, resume=True).steps == 2

    for name in ("checkpoints", "rollouts", "judgements"):
        assert (config.out / name / "step_foo.jsonl").read_text() == "mine"


def test_an_unexpected_exception_leaves_its_type_alone_in_the_summary(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(steps=2)

    def break_off(_: object) -> None:
        raise ZeroDivisionError("the secret passage")

    with pytest.raises(ZeroDivisionError):
        run_grpo(config, judge=spread_judge, on_step=break_off)

    assert (summary(config).status, summary(config).error) == (
        "failed",
        "ZeroDivisionError",
    )
    assert run_grpo(config, judge=spread_judge, resume=True).status == "finished"


class Breaking:
    """A judge that breaks its contract on some calls."""

    name = "breaking"

    def __init__(self, fault: BaseException | JudgeResult, *, every: int) -> None:
        self._fault = fault
        self._every = every
        self._calls = 0

    async def judge(self, view: JudgeView) -> JudgeResult:
        self._calls += 1
        if self._calls % self._every:
            scores = {
                one.id: one.weight * (len(view.response) % 7) / 7 for one in view.rubric
            }
            return JudgeResult.scored(view.rubric, scores, judge=self.name)
        if isinstance(self._fault, JudgeResult):
            return self._fault
        raise self._fault


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (SystemExit(3), "judge_error"),
        (KeyboardInterrupt(), "judge_error"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
def test_a_judge_that_exits_or_cancels_is_an_unavailable_judge(
    make_config: MakeConfig, fault: BaseException, reason: str
) -> None:
    config = make_config(steps=1, data={"validation": None})

    with pytest.raises(
        JudgeAbortError, match=rf"unavailable judgements 100\.0%.*{reason} 16"
    ):
        run_grpo(config, judge=Breaking(fault, every=1))

    assert summary(config).status == "failed"
    spared = make_config(
        steps=1, data={"validation": None}, out=config.out.with_name("spared")
    )
    run_grpo(spared, judge=Breaking(fault, every=4))
    assert RunFolder(spared.out).read_metrics()[0].unavailable_frac == 0.25


def test_weights_that_are_no_numbers_are_named_before_anything_is_judged(
    make_config: MakeConfig, spread_judge: ScriptedJudge, tmp_path: Path
) -> None:
    config = make_config()
    shutil.copytree(Path(str(getattr(config.model, "path", ""))), tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    save_file(
        {name: tensor * torch.nan for name, tensor in load_file(path).items()},
        path,
        metadata={"format": "pt"},
    )
    config = make_config(model={"type": "path", "path": tmp_path / "model"})

    said = r"token 1 of .* \(the first is row 0\); the model's weights hold NaN"
    with pytest.raises(NonFiniteLogitsError, match=said):
        run_grpo(config, judge=spread_judge)

    assert summary(config).error is not None
    assert "NonFiniteLogitsError" in (summary(config).error or "")


def test_more_threads_than_cores_are_refused_with_the_number_of_cores(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(threads=10**6)

    with pytest.raises(
        TrainConfigError, match=f"this machine has {os.cpu_count()} cores"
    ):
        run_grpo(config, judge=spread_judge)

    assert not config.out.exists()


def test_a_run_folder_that_cannot_be_made_is_named(
    make_config: MakeConfig, spread_judge: ScriptedJudge, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(FolderLockError, match="file"):
        run_grpo(make_config(out=tmp_path / "file"), judge=spread_judge)


def test_the_environment_holds_a_hash_of_each_task_file(made_run: MadeRun) -> None:
    config = made_run(1)

    hashes = json.loads((config.out / "environment.json").read_text())["tasks_sha256"]
    assert hashes.keys() == {"train", "validation"}
    assert hashes["train"] != hashes["validation"]


def test_a_step_that_was_cut_off_is_not_judged_again(make_config: MakeConfig) -> None:
    with FakeEndpoint(lambda call: 0.1 * (call.number % 10)) as endpoint:
        spec = {"type": "llm", "model": "openai/fake", "api_base": endpoint.url}
        config = make_config(
            steps=2,
            judge={"spec": {**spec, "transport": "direct"}},
            checkpoint={"every": 2},
        )

        def cut_off(row: MetricsRow) -> None:
            raise KeyboardInterrupt(row.step)

        with pytest.raises(KeyboardInterrupt):
            run_grpo(config, on_step=cut_off)
        first = (config.out / "judgements" / "step_000001.jsonl").read_text()
        asked = len(endpoint.calls)
        run_grpo(config, resume=True)
        run_grpo(config, resume=True)  # it is finished, and asks nothing
        again = (config.out / "judgements" / "step_000001.jsonl").read_text()

    prompts = [json.dumps(call.body["messages"]) for call in endpoint.calls]
    assert asked > 1
    assert (
        sum("Are you ready?" in prompt for prompt in prompts) == 2
    )  # once for each start
    assert len(prompts) == len(set(prompts)) + 1 > asked + 1
    assert again == first
