from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import write_tasks
from rubric_train_openrlhf.cluster.rehearse.checking import Report, Request
from rubric_train_openrlhf.cluster.rehearse.rehearsal import rehearse
from rubric_train_openrlhf.cluster.rehearse.stand_ins import made_tasks, stand_in_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Production:
    """A production run's files, and its configuration's values."""

    folder: Path
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def rows(self) -> list[dict[str, Any]]:
        """The training tasks as they stand in their file."""
        return [
            json.loads(line)
            for line in (self.folder / "train.jsonl").read_text().splitlines()
        ]

    def with_train(self, rows: list[dict[str, Any]]) -> Production:
        """The same run with other training rows."""
        path = self.folder / "changed.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return self.having(data={"train": str(path)})

    def having(self, **sections: Any) -> Production:
        """The same run with keys put over its sections."""
        values = dict(self.values)
        for name, change in sections.items():
            keeps = isinstance(change, dict) and "type" not in change
            values[name] = {**values.get(name, {}), **change} if keeps else change
        return replace(self, values=values)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "Llama-3-made"
    stand_in_model(
        folder.name, folder, texts=[task.question for task in made_tasks()], seed=0
    )
    return folder


@pytest.fixture
def production(tmp_path: Path, model_folder: Path) -> Production:
    """A run in which nothing is wrong, on 8 GPUs, with the lexical judge."""
    tasks = made_tasks()
    write_tasks(tmp_path / "train.jsonl", tasks[:8])
    write_tasks(tmp_path / "validation.jsonl", tasks[8:])
    return Production(
        tmp_path,
        {
            "backend": "openrlhf",
            "model": {"type": "path", "path": str(model_folder)},
            "data": {
                "train": str(tmp_path / "train.jsonl"),
                "validation": str(tmp_path / "validation.jsonl"),
            },
            "rollout": {"prompts": 64, "group_size": 8, "max_new_tokens": 512},
            "optim": {"updates_per_rollout": 4, "micro_batch": 4},
            "precision": "bfloat16",
            "cluster": {"max_len": 1024},
            "steps": 100,
            "out": str(tmp_path / "out"),
        },
    )


@pytest.fixture
def check_only(tmp_path: Path) -> Callable[..., Report]:
    """Rehearse without the two steps."""

    def check(production: Production, **options: Any) -> Report:
        request = Request(
            source=tmp_path / "production.yaml",
            values=production.values,
            folder=tmp_path / "rehearsal",
            run=False,
            **options,
        )
        return rehearse(request)

    return check
