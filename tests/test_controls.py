"""`rubric-synth stats` and `rubric-eval heldout --controls`: controls of one name are the same."""

import shlex
import shutil
from pathlib import Path

import pytest
import structlog

from rubric_core import read_tasks
from rubric_eval.cli import main
from rubric_eval.heldout.table import HeldoutTable
from rubric_synth import collect, dataset_statistics, synthesise
from rubric_synth.stats.controls import CONTROLS, WRITTEN
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
