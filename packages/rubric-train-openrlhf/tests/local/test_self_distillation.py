"""A policy that teaches itself: no judge in its steps, and nothing hidden on the student's side."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rubric_core import Criterion, Rubric, SftExample, read_tasks, write_tasks
from rubric_core.schema.conversation import as_question
from rubric_judge.testing import ScriptedJudge
from rubric_train_openrlhf import write_report
from rubric_train_openrlhf.config.method import SelfDistillation
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.errors import (
    PolicyLoadError,
    ResumeError,
    TrainConfigError,
)
from rubric_train_openrlhf.local import distilling, rollout
from rubric_train_openrlhf.local.plan import describe_plan
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.local.teaching import teacher_view
from rubric_train_openrlhf.policy import (
    ChatCodec,
    SftConfig,
    TinyConfig,
    build_tiny_policy,
    load_policy,
    sample_groups,
    sft,
)
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rubric_core import JudgeView, Task
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.policy import Policy

    MakeConfig = Callable[..., TrainConfig]

METHOD = {"type": "self_distillation"}
SHAPE = TinyConfig(
    vocab_size=400, hidden_size=32, intermediate_size=64, layers=2, heads=2, kv_heads=2,
    max_positions=512,
)  # fmt: skip


@pytest.fixture(scope="module")
def planted(
    tmp_path_factory: pytest.TempPathFactory, workspace: Any, canaries: Any
) -> dict[str, Any]:
    """Tasks with words in all that is hidden, and a policy that can spell them."""
    folder = tmp_path_factory.mktemp("planted")
    tasks = [canaries.plant(task) for task in workspace.tasks]
    write_tasks(folder / "train.jsonl", tasks[:12])
    write_tasks(folder / "validation.jsonl", tasks[12:])
    texts = [f"{task.question} {task.reference_answer}" for task in workspace.tasks]
    policy = build_tiny_policy(texts, SHAPE, seed=0)
    examples = [
        SftExample(
            task_id=task.task_id, question=task.question, answer=task.reference_answer
        )
        for task in workspace.tasks
    ]
    sft(policy, examples, SftConfig(steps=60, learning_rate=1e-2, batch_size=6), seed=0)
    policy.save(folder / "model")
    data = {
        "train": folder / "train.jsonl",
        "validation": folder / "validation.jsonl",
    }
    return {
        "model": {"type": "path", "path": folder / "model"},
        "data": data,
        "method": METHOD,
    }


def files(folder: Path, *, but: Sequence[str] = ()) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in but
    }


def refusing(view: JudgeView) -> float:
    raise AssertionError(f"the judge was asked about {view.task_id}")


def test_what_the_teacher_is_shown_reaches_nothing_of_the_students(
    make_config: MakeConfig,
    planted: dict[str, Any],
    canaries: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    config = make_config(**planted, steps=2)
    codec = load_policy(planted["model"]["path"]).codec
    asked: list[tuple[int, ...]] = []
    shown: list[tuple[int, ...]] = []
    encode = distilling.teacher_prompts

    def sampled(model: Any, prompts: Sequence[Any], **settings: Any) -> Any:
        asked.extend(prompt.token_ids for prompt in prompts)
        return sample_groups(model, prompts, **settings)

    def encoded(*arguments: Any) -> Any:
        prompts = encode(*arguments)
        shown.extend(prompt.token_ids for prompt in prompts)
        return prompts

    monkeypatch.setattr(rollout, "sample_groups", sampled)
    monkeypatch.setattr("rubric_train_openrlhf.local.loop.teacher_prompts", encoded)
    with capture_logs() as logs:
        run_grpo(config, judge=ScriptedJudge(lambda _: 0.5))
    page = write_report(config.out).read_text("utf-8")
    assert "Divergence from the teacher" in page
    assert "KL to the reference policy" not in page

    task = next(iter(read_tasks(planted["data"]["train"])))
    view = task.policy_view()

    def texts(prompts: Sequence[tuple[int, ...]]) -> list[str]:
        return [codec.decode(view, tokens) for tokens in prompts]

    assert len(shown) == 8
    for text in texts(shown):  # a teacher that is shown nothing would pass what follows
        assert text.count("zqcanary") > 3
    assert len(asked) == 8 + 2 * 4
    assert [text for text in texts(asked) if "zqcanary" in text] == []
    # The judge's own files hold what it was asked about in held-out passes, and only those.
    assert canaries.in_files(config.out) == []
    assert canaries.looked_at["files"] > 100_000
    assert "zqcanary" not in json.dumps(logs, default=repr)
    assert "zqcanary" not in "".join(capfd.readouterr())
    assert "zqcanary" not in repr(teacher_view(task, shown="rubric"))
    rows = [
        json.loads(line)
        for path in sorted((config.out / "rollouts").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert len(rows) == 2 * 16
    assert {row["outcome"] for row in rows} == {"unjudged"}
    assert {row["reward"] for row in rows} == {None}


def test_no_judge_is_asked_but_of_held_out_answers(
    make_config: MakeConfig, planted: dict[str, Any]
) -> None:
    data = {"train": planted["data"]["train"], "validation": None}
    config = make_config(**{**planted, "data": data}, steps=1)
    run_grpo(config, judge=ScriptedJudge(refusing))
    assert not (config.out / "judgements").exists()

    judged: list[str] = []

    def judge(view: JudgeView) -> float:
        judged.append(view.task_id)
        return 0.5

    config = make_config(**planted, steps=1, out=config.out.with_name("other"))
    run_grpo(config, judge=ScriptedJudge(judge))
    held_out = read_tasks(planted["data"]["validation"])
    assert set(judged) == {task.task_id for task in held_out}


@pytest.mark.parametrize(
    ("teacher", "beta"), [("start", 1.0), ("start", 0.0), ("current", 0.5)]
)
def test_the_student_comes_closer_to_its_teacher(
    make_config: MakeConfig, planted: dict[str, Any], teacher: str, beta: float
) -> None:
    method = {**METHOD, "teacher": teacher, "beta": beta}
    config = make_config(**{**planted, "method": method}, steps=12)
    summary = run_grpo(config, judge=ScriptedJudge(lambda _: 0.5))
    rows = RunFolder(config.out).read_distillation()
    assert summary.steps == 12
    assert summary.status == "finished"
    assert [row.step for row in rows] == list(range(1, 13))
    first, last = (
        sum(row.divergence for row in part) for part in (rows[:3], rows[-3:])
    )
    assert last < 0.8 * first
    assert not RunFolder(config.out).metrics.exists()


def test_micro_batches_do_not_change_what_is_learned(
    make_config: MakeConfig, planted: dict[str, Any], tmp_path: Path
) -> None:
    found: list[tuple[float, float]] = []
    for size in (1, 3, 16):
        config = make_config(
            **planted, steps=1, optim={"micro_batch": size}, out=tmp_path / str(size)
        )
        run_grpo(config, judge=ScriptedJudge(lambda _: 0.5))
        (row,) = RunFolder(config.out).read_distillation()
        found.append((row.divergence, row.grad_norm))

    assert found[1:] == [pytest.approx(found[0], rel=1e-4)] * 2


def test_a_resumed_run_ends_as_if_it_had_not_been_cut(
    make_config: MakeConfig, planted: dict[str, Any]
) -> None:
    judge = ScriptedJudge(lambda _: 0.5)
    whole = make_config(**planted, steps=4)
    run_grpo(whole, judge=judge)
    cut = make_config(**planted, steps=2, out=whole.out.with_name("cut"))
    run_grpo(cut, judge=judge)
    # Rows of a third step, and half of a fourth's, as a kill leaves them.
    folder = RunFolder(cut.out)
    lines = RunFolder(whole.out).distillation.read_bytes().splitlines(keepends=True)
    with folder.distillation.open("ab") as file:
        file.write(lines[2] + lines[3][:20])
    shutil.copy(whole.out / "rollouts/step_000003.jsonl", cut.out / "rollouts")
    longer = make_config(**planted, steps=4, out=cut.out)
    run_grpo(longer, judge=judge, resume=True)

    assert files(whole.out / "rollouts") == files(cut.out / "rollouts")
    names = ("model.safetensors", "trainer_state.pt")
    last = "checkpoints/step_000004"
    assert (whole.out / last / names[0]).read_bytes() == (
        cut.out / last / names[0]
    ).read_bytes()
    timed = {"tokens_per_s", "generate_s", "update_s", "step_s"}
    assert [row.model_dump(exclude=timed) for row in folder.read_distillation()] == [
        row.model_dump(exclude=timed)
        for row in RunFolder(whole.out).read_distillation()
    ]
    with pytest.raises(ResumeError, match=r"other values of method\.beta"):
        run_grpo(
            make_config(
                **{**planted, "method": {**METHOD, "beta": 0.5}}, steps=5, out=cut.out
            ),
            judge=judge,
            resume=True,
        )
    shutil.rmtree(cut.out / "checkpoints/step_000000")
    with pytest.raises(ResumeError, match="start again"):
        run_grpo(make_config(**planted, steps=5, out=cut.out), judge=judge, resume=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(
    make_config: MakeConfig, planted: dict[str, Any], forks: Any
) -> None:
    """A real process and a real `kill -9`, after its third step."""
    changes = {**planted, "steps": 12, "checkpoint": {"every": 2}}
    whole = make_config(**changes)
    run_grpo(whole)
    cut = make_config(**changes, out=whole.out.with_name("cut"))
    path = cut.out.with_suffix(".yaml")
    path.write_text(dump_config(cut))
    folder = RunFolder(cut.out)

    run = forks.start("run", str(path))
    deadline_s = time.monotonic() + 300
    while time.monotonic() < deadline_s:
        rows = folder.distillation
        if rows.exists() and rows.read_bytes().count(b"\n") >= 3:
            break
        time.sleep(0.005)
    os.kill(run.pid, signal.SIGKILL)
    status, errors = run.wait()
    assert status == -signal.SIGKILL, errors
    run_grpo(cut, resume=True)

    assert files(whole.out / "rollouts") == files(cut.out / "rollouts")
    assert [row.step for row in folder.read_distillation()] == list(range(1, 13))
    weights = "checkpoints/step_000012/model.safetensors"
    assert (whole.out / weights).read_bytes() == (cut.out / weights).read_bytes()


def test_one_response_to_a_prompt_is_enough(
    make_config: MakeConfig, planted: dict[str, Any]
) -> None:
    rollout_1 = {"prompts": 4, "group_size": 1}
    config = make_config(**planted, steps=1, rollout=rollout_1)
    run_grpo(config, judge=ScriptedJudge(lambda _: 0.5))
    assert len(RunFolder(config.out).read_distillation()) == 1
    with pytest.raises(TrainConfigError, match="use at least 2"):
        make_config(rollout=rollout_1)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"backend": "openrlhf"}, "the processes of a cluster that train it never"),
        ({"shaping": {"alpha_stop": 0.5}}, "shaping has no effect"),
        ({"dynamic_sampling": {}}, "dynamic_sampling has no effect"),
        ({"objective": {"kl_coef": 0.5}}, "objective has no effect"),
        ({"advantage": {"std": "population"}}, "advantage has no effect"),
        ({"rubric_weights": {"dropout": 0.5}}, "rubric_weights has no effect"),
        ({"trackers": [{"type": "wandb"}]}, "trackers has no effect"),
        (
            {"audit": {"spec": {"type": "lexical"}}},
            "an audit watches a policy that learns its judge",
        ),
        ({"method": {"type": "distillation"}}, "use one of grpo, self_distillation"),
        (
            {"method": {**METHOD, "beta": 1.5}},
            r"method\.self_distillation\.beta|method.beta",
        ),
        ({"method": {**METHOD, "teacher": "ema"}}, "'start' or 'current'"),
        ({"method": {**METHOD, "shwon": "rubric"}}, "shown"),
    ],
)
def test_what_does_not_go_together_is_said(
    make_config: MakeConfig, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TrainConfigError, match=problem):
        make_config(**{"method": METHOD, **changes})


def test_a_configuration_without_a_method_is_written_as_before(
    make_config: MakeConfig,
) -> None:
    assert "method" not in dump_config(make_config())
    assert "method" not in dump_config(make_config(method={"type": "grpo"}))
    config = make_config(method=METHOD)
    assert "type: self_distillation" in dump_config(config)


def test_a_teacher_prompt_without_room_is_refused(
    make_config: MakeConfig, planted: dict[str, Any]
) -> None:
    config = make_config(**planted, rollout={"max_new_tokens": 440}, steps=1)
    refusals: list[str] = []
    for refuses in (describe_plan, run_grpo):
        with pytest.raises(
            TrainConfigError, match=r"method\.shown='passage_and_rubric', 12 of 12"
        ) as refused:
            refuses(config)
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]
    assert "longer than the 72 tokens" in refusals[0]
    assert re.search(r"the longest has \d+ \(task ", refusals[0])
    assert "the teacher" in describe_plan(make_config(**planted, steps=1))


def test_what_is_shown_follows_the_setting(tasks: tuple[Task, ...]) -> None:
    task = tasks[3]
    passage = task.grounding.reveal()
    (only,) = teacher_view(task, shown="passage_and_rubric").messages
    both = only["content"]
    assert only["role"] == "user"
    assert passage in both
    assert "- fn_3\n- left_3, right_3\n- returns, sum" in both
    assert both.endswith(f"Question: {task.question}")
    assert passage not in teacher_view(task, shown="rubric").plain_text
    assert "left_3, right_3\n" not in teacher_view(task, shown="passage").plain_text
    named = task.model_copy(
        update={
            "rubric": Rubric(
                criteria=(
                    Criterion(id="a", weight=1, name="N", description="Says D."),
                    Criterion(id="b", weight=1, name="Name"),
                    Criterion(id="c", weight=1),
                )
            )
        }
    )
    assert "- Says D.\n- Name\n- c\n" in teacher_view(named, shown="rubric").plain_text


def test_a_chat_template_is_given_what_is_shown_after_a_conversation(
    tasks: tuple[Task, ...], policy: Policy
) -> None:
    """Sections go before the words of the last message, as a student's context does."""
    tokenizer = policy.codec._tokenizer  # pyright: ignore[reportPrivateUsage]
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
    )
    codec = ChatCodec(tokenizer)
    question = as_question([("user", "Hi"), ("assistant", "Yes?"), ("user", "Why?")])
    changes = {"question": question, "conversation": True}
    task = tasks[0].model_copy(update=changes)

    text = codec.prompt_text(teacher_view(task, shown="passage"))

    assert text.startswith("user=Hi;assistant=Yes?;user=Read what was found")
    assert "quokka0" in text
    assert text.endswith("Question: Why?;")


def test_a_template_that_quotes_the_passage_is_not_repeated(
    tasks: tuple[Task, ...], policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(view: Any) -> None:
        raise PolicyLoadError(f"it says: {view.plain_text}", path=Path("model"))

    monkeypatch.setattr(policy.codec, "encode_prompt", refuse)
    method = SelfDistillation.model_validate(METHOD)
    with pytest.raises(PolicyLoadError, match=tasks[0].task_id) as caught:
        distilling.teacher_prompts(policy.codec, tasks, method)
    assert "quokka" not in "".join(traceback.format_exception(caught.value))
