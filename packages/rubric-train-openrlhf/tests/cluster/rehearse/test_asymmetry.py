"""The search of a rehearsal for what only the judge may read, with one leak planted at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import (
    Criterion,
    DocumentAnalysis,
    Grounding,
    Rubric,
    Task,
    write_tasks,
)
from rubric_train_openrlhf.cluster.rehearse.aftermath import check_asymmetry
from rubric_train_openrlhf.cluster.rehearse.checking import Status
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_train_openrlhf.cluster.rehearse.checking import Finding
    from rubric_train_openrlhf.config.train import TrainConfig


def task_of(name: str) -> Task:
    """Each hidden text of it has words of its own, more than eight in a row."""

    def text(kind: str) -> str:
        return " ".join(f"{name}{kind}{number}" for number in range(10))

    return Task(
        question=f"What is said of {name} in the text, and by which method was it found?",
        grounding=Grounding(f"{text('passage')}.\n„Größe“: {text('later')}"),
        rubric=Rubric(
            criteria=(
                Criterion(
                    id="a",
                    weight=1,
                    description=text("description"),
                    scoring_guide=text("guide"),
                    verification_method=text("method"),
                    required_elements=(text("element"),),
                    expected_keywords=("short",),
                    expected_concepts=(text("concept"),),
                ),
            )
        ),
        question_rationale=text("rationale"),
        document_analysis=DocumentAnalysis(contribution=text("contribution")),
        reference_answer=text("answer"),
    )


TRAIN, HELDOUT = task_of("train"), task_of("heldout")
QUESTIONS = {"train": TRAIN.question, "heldout": HELDOUT.question}
HIDDEN = {
    "passage": TRAIN.grounding.reveal(),
    "description": TRAIN.rubric.criteria[0].description,
    "guide": TRAIN.rubric.criteria[0].scoring_guide,
    "method": TRAIN.rubric.criteria[0].verification_method,
    "element": TRAIN.rubric.criteria[0].required_elements[0],
    "concept": TRAIN.rubric.criteria[0].expected_concepts[0],
    "rationale": TRAIN.question_rationale,
    "contribution": TRAIN.document_analysis.contribution
    if TRAIN.document_analysis
    else "",
    "answer": str(TRAIN.reference_answer),
    "heldout passage": HELDOUT.grounding.reveal(),
    "heldout description": HELDOUT.rubric.criteria[0].description,
    "heldout answer": str(HELDOUT.reference_answer),
}
PLACES = (
    "run/cluster/train.prompts.jsonl",
    "run/cluster/heldout.prompts.jsonl",
    "run/cluster/run.json",
    "run/cluster/warm_start/examples.jsonl",
    "run/cluster/warm_start/model/config.json",
    "run/config.resolved.yaml",
    "run/rollouts/step_000001.jsonl",
    "run/metrics.jsonl",
    "run/tensorboard/events.out.tfevents.1",
    "run/checkpoints/step_000001/tokenizer.json",
    "run/logs/driver.log",
    "run/logs/ray/worker-01.out",
    "run.log",
    "rehearsal.yaml",
    "model/tokenizer.json",
)


@pytest.fixture
def rehearsed(tmp_path: Path) -> Path:
    """What a rehearsal leaves, and no leak: questions where the policy reads them."""
    for place in PLACES:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(QUESTIONS))
    write_tasks(tmp_path / "train.jsonl", [TRAIN])
    write_tasks(tmp_path / "validation.jsonl", [HELDOUT])
    (tmp_path / "run" / "judgements").mkdir()
    for name in ("judgements/step_000001.jsonl", "ledger.sqlite", "ledger.sqlite-wal"):
        (tmp_path / "run" / name).write_text(json.dumps(HIDDEN))
    return tmp_path


def config_of(folder: Path, **sections: object) -> TrainConfig:
    values: dict[str, Any] = {
        "backend": "openrlhf",
        "model": {"type": "path", "path": str(folder / "model")},
        "data": {
            "train": str(folder / "train.jsonl"),
            "validation": str(folder / "validation.jsonl"),
        },
        "rollout": {"prompts": 2, "group_size": 4, "max_new_tokens": 10},
        "optim": {"updates_per_rollout": 1, "micro_batch": 2},
        "cluster": {
            "device": "cpu",
            "gpus_per_node": 1,
            "max_len": 64,
            "deepspeed": {"forward_micro_batch": 2},
        },
        "steps": 2,
        "out": str(folder / "run"),
    }
    return parse_config(values | sections)


def searched(folder: Path, *arguments: bytes, **sections: object) -> list[Finding]:
    config = config_of(folder, **sections)
    return list(check_asymmetry(config, RunFolder(config.out), arguments=arguments))


def test_nothing_is_found_where_nothing_leaks(rehearsed: Path) -> None:
    [found] = searched(rehearsed, b"python", b"HOME=/root")
    assert found.status is Status.PASSED
    assert "of 2 tasks" in found.detail
    assert f"in {len(PLACES)} files and 3 arguments" in found.detail


@pytest.mark.parametrize("place", PLACES)
def test_a_leak_is_seen_wherever_the_policy_could_read_it(
    rehearsed: Path, place: str
) -> None:
    with (rehearsed / place).open("a") as file:
        file.write(json.dumps({"input": HIDDEN["passage"]}) + "\n")
    [found] = searched(rehearsed)
    assert found.status is Status.FAILED
    assert found.detail == f"{place} holds text of a passage"


@pytest.mark.parametrize("name", HIDDEN)
def test_every_text_of_the_judges_is_searched_for(rehearsed: Path, name: str) -> None:
    (rehearsed / "run" / "logs" / "driver.log").write_text(
        f"asked about {HIDDEN[name]!r}\n"
    )
    [found] = searched(rehearsed)
    assert found.status is Status.FAILED
    kind = found.detail.partition(" holds text of ")[2]
    expected = (
        "a passage",
        "a rubric",
        "a rationale",
        "a document's analysis",
        "a reference answer",
    )
    assert kind in expected
    assert HIDDEN[name].split()[0] not in found.detail


def test_a_leak_in_an_argument_is_seen(rehearsed: Path) -> None:
    [found] = searched(rehearsed, f"--passage={HIDDEN['heldout passage']}".encode())
    assert found.status is Status.FAILED
    assert (
        found.detail == "an argument or a variable of a process holds text of a passage"
    )


def test_a_leak_in_the_command_is_seen(rehearsed: Path) -> None:
    cluster = config_of(rehearsed).cluster.model_dump()
    cluster["extra_flags"] = {"logger.comment": HIDDEN["description"]}
    [found] = searched(rehearsed, cluster=cluster)
    assert found.status is Status.FAILED
    assert (
        found.detail == "an argument or a variable of a process holds text of a rubric"
    )


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(HIDDEN["passage"]).encode(),
        json.dumps(HIDDEN["passage"], ensure_ascii=False).upper().encode(),
        repr(HIDDEN["passage"]).encode(),
        HIDDEN["passage"].replace(" ", "\n  ").encode(),
        bytes(range(256)) + HIDDEN["passage"].encode() + bytes(64),
        " ".join(HIDDEN["passage"].split()[1:9]).encode(),
    ],
    ids=["json", "other case", "repr", "wrapped", "binary", "eight words"],
)
def test_a_leak_is_seen_in_any_form(rehearsed: Path, content: bytes) -> None:
    (rehearsed / "run" / "cluster" / "cache").mkdir()
    (rehearsed / "run" / "cluster" / "cache" / "train.arrow").write_bytes(content)
    [found] = searched(rehearsed)
    assert found.status is Status.FAILED
    assert found.detail == "run/cluster/cache/train.arrow holds text of a passage"


def test_seven_words_may_stand_together_by_chance(rehearsed: Path) -> None:
    (rehearsed / "run.log").write_text(" ".join(HIDDEN["passage"].split()[1:8]))
    assert [found.status for found in searched(rehearsed)] == [Status.PASSED]


def test_a_warm_start_may_read_the_answers_that_it_learns(rehearsed: Path) -> None:
    examples = rehearsed / "run" / "cluster" / "warm_start" / "examples.jsonl"
    examples.write_text(
        json.dumps({"input": TRAIN.question, "output": HIDDEN["answer"]})
    )
    sft = {"steps": 1, "batch_size": 1, "learning_rate": 1e-4}
    assert [found.status for found in searched(rehearsed, sft=sft)] == [Status.PASSED]
    assert [found.status for found in searched(rehearsed)] == [Status.FAILED]
    examples.write_text(
        json.dumps({"input": TRAIN.question, "output": HIDDEN["heldout answer"]})
    )
    [found] = searched(rehearsed, sft=sft)
    assert found.detail.endswith("examples.jsonl holds text of a reference answer")


def test_what_is_too_short_to_be_searched_for_is_said(rehearsed: Path) -> None:
    short = Task(
        question="What is it?",
        grounding=Grounding("It is so."),
        rubric=Rubric(criteria=(Criterion(id="a", weight=1, description="Says it"),)),
    )
    for name in ("train", "validation"):
        write_tasks(rehearsed / f"{name}.jsonl", [short])
    assert [found.status for found in searched(rehearsed)] == [Status.WARNING]
