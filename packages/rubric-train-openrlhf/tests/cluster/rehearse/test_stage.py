"""What a rehearsal runs on: the run's own where it is here, something like it where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rubric_core import read_tasks
from rubric_judge import JudgeConfig
from rubric_train_openrlhf.cluster.rehearse.checking import Request, Subject, run_checks
from rubric_train_openrlhf.cluster.rehearse.rehearsal import BEFORE
from rubric_train_openrlhf.cluster.rehearse.stage import staged
from rubric_train_openrlhf.policy import load_codec

if TYPE_CHECKING:
    from pathlib import Path


def checked(production: Any, tmp_path: Path, **options: Any) -> Subject:
    folder = tmp_path / "rehearsal"
    folder.mkdir()
    request = Request(
        source=tmp_path / "p.yaml", values=production.values, folder=folder
    )
    subject = Subject(Request(**{**vars(request), **options}))
    run_checks(BEFORE, subject)
    return subject


def test_the_run_s_own(production: Any, tmp_path: Path) -> None:
    subject = checked(production, tmp_path)
    with staged(subject) as small:
        assert small.judge.spec.type == "claims"
        own = {task.task_id for task in read_tasks(production.values["data"]["train"])}
        assert {task.task_id for task in read_tasks(small.data.train)} <= own
        assert (
            load_codec(small.model.path).eos_token_id
            == load_codec(  # type: ignore[union-attr]
                production.folder / production.values["model"]["path"]
            ).eos_token_id
        )
    assert not any("tasks" in what for what in subject.stand_ins)


def test_something_like_it(production: Any, tmp_path: Path) -> None:
    spec = {"type": "llm", "model": "anthropic/some-model"}
    elsewhere = production.having(
        data={"train": "/nowhere/a.jsonl", "validation": "/nowhere/b.jsonl"},
        model={"type": "path", "path": "/nowhere/Qwen3-8B"},
        judge={"spec": spec},
        dynamic_sampling={},
    )
    subject = checked(elsewhere, tmp_path)
    with staged(subject) as small:
        assert isinstance(small.judge.spec, JudgeConfig)
        assert str(small.judge.spec.api_base).startswith("http://127.0.0.1:")
        assert small.judge.spec.model == "openai/some-model"
        assert small.dynamic_sampling is not None
    said = " ".join(subject.stand_ins)
    assert "Qwen3ForCausalLM" in said
    assert "its tokenizer could not be checked" in said
    assert "held-out tasks: 4 made" in said


def test_an_audit_judge_is_asked_where_the_run_s_own_judge_is(
    production: Any, tmp_path: Path
) -> None:
    audited = production.having(
        audit={"spec": {"type": "lexical"}}, checkpoint={"best_by": "audit"}
    )
    subject = checked(audited, tmp_path)
    with staged(subject) as small:
        assert small.audit is not None
    assert not any("audit" in what for what in subject.stand_ins)
    (tmp_path / "other").mkdir()
    elsewhere = checked(audited, tmp_path / "other", judge="lexical")
    with staged(elsewhere) as small:
        assert small.audit is None
        assert small.checkpoint.best_by == "judge"
    assert any("audit: off" in what for what in elsewhere.stand_ins)


def test_given_tasks_come_first(production: Any, tmp_path: Path) -> None:
    given = production.folder / "validation.jsonl"
    subject = checked(production, tmp_path, data=given)
    with staged(subject) as small:
        assert {task.task_id for task in read_tasks(small.data.train)} == {
            task.task_id for task in read_tasks(given)
        }


def test_a_random_model_cannot_spread_a_program_s_rewards(
    production: Any,
    tmp_path: Path,
) -> None:
    subject = checked(production.having(dynamic_sampling={}), tmp_path)
    with staged(subject) as small:
        assert small.dynamic_sampling is None
    assert any("dynamic sampling: off" in what for what in subject.stand_ins)
