"""`rubric-synth stats` and `rubric-eval heldout --controls`: controls of one name are the same."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import structlog

from rubric_core import Ask, Criterion, Decoding, Grounding, Rubric, Task, read_tasks
from rubric_eval.cli import main
from rubric_eval.heldout.table import HeldoutTable
from rubric_eval.responders.opening import CONTROLS as EVALUATED
from rubric_eval.responders.opening import open_controls
from rubric_judge.quality.attack.cases import Target
from rubric_judge.quality.attack.families import FAMILIES
from rubric_judge.quality.attack.plan import plan_attacks
from rubric_judge.quality.wrong_answers import CONTROLS
from rubric_synth import collect, dataset_statistics, synthesise
from rubric_synth.stats.controls import WRITTEN, answers_of
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy


def test_both_commands_give_a_control_the_same_reward(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    synthesise(collect(["python:numpy.linalg"], Path("documents")).out, Path("tasks"))
    splits = [
        Path("tasks", f"{name}.jsonl") for name in ("train", "validation", "test")
    ]
    Path("all.jsonl").write_bytes(b"".join(one.read_bytes() for one in splits))
    tasks = list(read_tasks("all.jsonl"))
    build_tiny_policy(
        [task.question for task in tasks],
        TinyConfig(hidden_size=16, intermediate_size=16, layers=1, heads=2, kv_heads=2),
        seed=0,
    ).save(Path("base"))
    shutil.copy(root / "configs" / "judge" / "claims.yaml", "claims.yaml")
    command = (
        "rubric-eval heldout base=policy:base --tasks all.jsonl --judge claims.yaml"
    )
    monkeypatch.setattr(
        "sys.argv", shlex.split(f"{command} --controls --max-tokens 2 --out eval")
    )
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        structlog.reset_defaults()
    assert not ended.value.code

    table = HeldoutTable.model_validate_json(Path("eval", "heldout.json").read_bytes())
    heldout = {row.model.removeprefix("control_"): row.mean for row in table.rows}
    stats = dataset_statistics(Path("tasks")).controls
    shared = set(heldout) & set(CONTROLS)
    made = {"fixed_template", "shuffled", "negated", "other_reference"}
    assert shared == made | set(
        WRITTEN
    )  # of this package, some pages have written answers
    assert {name: heldout[name] for name in shared} == pytest.approx(
        {name: stats[name] for name in shared}
    )


REFERENCES = (
    "If `axes` is None, no reordering is done. `pinv` raises an error if it does not converge.",
    "A valve is a flow device. The table stays fast because the load factor is kept low.",
    "`cholesky` returns the factor of `a`. By default `upper` is False.",
    "Walls are stateless. A flow device connects two reactors.",
)
DOCUMENTS = ("a", "a", "b", "b")


@pytest.fixture
def tasks() -> list[Task]:
    """Tasks, two of each document, with real sentences as reference answers."""
    rubric = Rubric(criteria=(Criterion(id="c", weight=1.0, description="Says it."),))
    return [
        Task(
            question=f"Which is number {number}?",
            grounding=Grounding(text.upper()),
            doc_hash=document,
            rubric=rubric,
            reference_answer=text,
        )
        for number, (document, text) in enumerate(
            zip(DOCUMENTS, REFERENCES, strict=True)
        )
    ]


@pytest.mark.anyio
async def test_stats_evaluation_and_attacks_make_the_same_texts(
    tasks: list[Task],
) -> None:
    of_stats = answers_of(tasks)
    for model in open_controls(tasks):
        asks = [Ask(view=task.policy_view(), seed=0) for task in tasks]
        replies = model.responder.respond(asks, Decoding())
        texts = [reply.text async for _, reply in replies]
        name = model.name.removeprefix("control_")
        assert texts == [of_stats[name][task.task_id] for task in tasks]

    for task in tasks:
        for family, attack, name in (
            ("negated_answers", "each_sentence", "negated"),
            ("shuffled_words", "within_sentences", "shuffled"),
        ):
            texts = {
                case.name: case.response for case in FAMILIES[family](Target(task))
            }
            assert texts[attack] == of_stats[name][task.task_id]
    off_topic = {
        control.view.task_id: control.view.response
        for control in plan_attacks(tasks, {}).controls
        if control.name == "off_topic"
    }
    assert off_topic == of_stats["other_reference"]


def test_a_control_is_described_in_the_same_words_everywhere(root: Path) -> None:
    assert EVALUATED.items() <= CONTROLS.items()
    for page, prefix, controls in (
        ("synth.md", "", CONTROLS),
        ("eval/heldout.md", "control_", EVALUATED),
    ):
        text = (root / "docs" / page).read_text("utf-8")
        rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE))
        for name, description in controls.items():
            assert rows[f"{prefix}{name}"] == description
