"""docs/train/variants.md lists every kind that is registered, and its example trains."""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rubric_core.plugins.variants import Variant, find_variant
from rubric_core.reward.estimates import estimated_advantages
from rubric_core.reward.estimators import AdvantageEstimator, JudgedGroups
from rubric_train_openrlhf.cluster.command.refusals import check_expressible
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.objective import (
    Divergence,
    ImportanceCorrection,
    SurrogateLoss,
)

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "train" / "variants.md"
KINDS: dict[str, type[Variant]] = {
    "advantage": AdvantageEstimator,
    "objective.kl": Divergence,
    "objective.surrogate": SurrogateLoss,
    "objective.importance": ImportanceCorrection,
}


def block(language: str) -> str:
    pattern = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    (found,) = pattern.findall(PAGE.read_text("utf-8"))
    return found


def registered(group: str) -> Iterator[str]:
    """Names that our own packages declare: others may be installed beside them."""
    for path in sorted(ROOT.glob("packages/*/pyproject.toml")):
        points = tomllib.loads(path.read_text("utf-8"))["project"].get(
            "entry-points", {}
        )
        yield from points.get(group, {})


def on_a_cluster(setting: str, key: str, name: str) -> str:
    """What `plan` says of this kind."""
    section, _, part = setting.partition(".")
    config = parse_config(
        {
            "backend": "openrlhf",
            "precision": "bfloat16",
            "model": {"type": "path", "path": "model"},
            "data": {"train": "train.jsonl"},
            section: {part: {key: name}} if part else {key: name},
            "steps": 1,
            "out": "run",
        }
    )
    try:
        check_expressible(config)
    except TrainConfigError:
        return "refused"
    return "yes"


def rows() -> Iterator[str]:
    for setting, kind in KINDS.items():
        for name in sorted(registered(kind.group)):
            found = find_variant(kind, name)
            summary, _, rest = (inspect.getdoc(found) or "").partition("\n")
            source = re.search(r"^Source: (.*)$", rest, re.MULTILINE)
            assert source is not None, f"{found.__name__} names no source"
            keys = [f"`{field}`" for field in found.model_fields if field != kind.key]
            cells = (
                f"`{setting}: {{{kind.key}: {name}}}`",
                summary.removesuffix("."),
                ", ".join(keys) or "none",
                source[1].removesuffix("."),
                on_a_cluster(setting, kind.key, name),
            )
            yield f"| {' | '.join(cells)} |"


def test_the_table_is_what_is_registered() -> None:
    head = "| setting | computes | keys | source | `backend: openrlhf` |\n|---|---|---|---|---|\n"
    table = PAGE.read_text("utf-8").partition(head)[2].partition("\n\n")[0]

    assert table.splitlines() == list(rows())


def test_the_groups_are_named_here_and_in_the_architecture() -> None:
    for page in (PAGE, ROOT / "docs" / "architecture.md"):
        text = page.read_text("utf-8")
        missing = [
            kind.group for kind in KINDS.values() if f"`{kind.group}`" not in text
        ]
        assert missing == []


def test_the_example_is_found_and_computes_what_it_says(
    install_plugin: Callable[[str, str, dict[str, Any]], Path],
) -> None:
    project = tomllib.loads(block("toml"))["project"]
    install_plugin(project["name"], block("python"), project["entry-points"])
    config = parse_config(
        {
            "model": {"type": "path", "path": "model"},
            "data": {"train": "train.jsonl"},
            "steps": 1,
            "out": "run",
            **yaml.safe_load(block("yaml")),
        }
    )
    rewards_PG = np.array([[0.0, 0.25, 1.0], [0.5, np.nan, 1.0]])
    groups = JudgedGroups(
        rewards_PG, ~np.isnan(rewards_PG), np.zeros((2, 3, 1)), np.ones((2, 1))
    )

    advantages_PG = estimated_advantages(config.advantage, groups)

    assert advantages_PG.tolist() == [[-0.5, 0.0, 1.5], [-0.5, 0.0, 0.5]]


@pytest.mark.parametrize("setting", KINDS)
def test_every_key_of_a_kind_is_described(setting: str) -> None:
    kind = KINDS[setting]
    undescribed = [
        f"{name}.{key}"
        for name in registered(kind.group)
        for key, field in find_variant(kind, name).model_fields.items()
        if key != kind.key and not field.description
    ]

    assert undescribed == []
