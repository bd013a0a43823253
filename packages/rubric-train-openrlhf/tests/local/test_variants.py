"""A package that is not ours adds an estimator, a divergence, a surrogate and a correction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import structlog
import yaml

from rubric_core import PluginError
from rubric_train_openrlhf import cli
from rubric_train_openrlhf.config.train import TrainConfig, dump_config, load_config
from rubric_train_openrlhf.errors import ObjectiveShapeError
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.run.records import RolloutRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rubric_judge.testing import ScriptedJudge

    MakeConfig = Callable[..., TrainConfig]
    Install = Callable[[str, str, dict[str, dict[str, str]]], Path]

MODULE = '''
import numpy as np
import torch
from pydantic import Field

from rubric_core.reward.estimators import AdvantageEstimator
from rubric_train_openrlhf.objective import Divergence, ImportanceCorrection, SurrogateLoss


class Ranks(AdvantageEstimator):
    """How many responses of the group a response beats, minus how many beat it."""

    estimator: str = "acme-ranks"
    scale: float = Field(default=1.0, gt=0)

    def advantages(self, groups):
        r = np.where(groups.valid_PG, groups.rewards_PG, np.nan)
        return self.scale * np.nansum(np.sign(r[:, :, None] - r[:, None, :]), axis=2)


class NotANumber(AdvantageEstimator):
    estimator: str = "acme-nan"

    def advantages(self, groups):
        return np.full(groups.rewards_PG.shape, np.nan)


class Absolute(Divergence):
    type: str = "acme-abs"

    def of_log_ratio(self, log_ratio):
        return log_ratio.abs()


class Averaged(Divergence):
    type: str = "acme-mean"

    def of_log_ratio(self, log_ratio):
        return log_ratio.mean()


class Cispo(SurrogateLoss):
    """-sg[min(r, cap)] A log p; reads no clips."""

    type: str = "acme-cispo"
    cap: float = 2.0

    def of_ratio(self, ratio_BT, advantages_B, *, clips):
        from rubric_train_openrlhf.objective import Surrogate

        capped = ratio_BT.detach().clamp(max=self.cap)
        loss = -advantages_B[:, None] * capped * ratio_BT / ratio_BT.detach()
        off = torch.zeros_like(loss, dtype=torch.bool)
        return Surrogate(loss, ratio_BT.detach() > self.cap, off)


class Half(ImportanceCorrection):
    type: str = "acme-half"

    def weights(self, old_logprobs_BT, gen_logprobs_BT, *, mask_BT):
        return mask_BT.to(gen_logprobs_BT.dtype) / 2
'''
POINTS = {
    "rubric.advantages": {"acme-ranks": "acme:Ranks", "acme-nan": "acme:NotANumber"},
    "rubric.divergences": {"acme-abs": "acme:Absolute", "acme-mean": "acme:Averaged"},
    "rubric.surrogates": {"acme-cispo": "acme:Cispo"},
    "rubric.importance": {"acme-half": "acme:Half"},
}
ALL: dict[str, Any] = {
    "advantage": {"estimator": "acme-ranks", "scale": 0.5},
    "objective": {
        "kl": {"type": "acme-abs"},
        "surrogate": {"type": "acme-cispo", "cap": 1.5},
        "importance": {"type": "acme-half"},
    },
}


@pytest.fixture(autouse=True)
def _acme(install_plugin: Install) -> Iterator[None]:
    install_plugin("acme", MODULE, POINTS)
    yield
    structlog.reset_defaults()


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    return int(caught.value.code or 0)


def for_a_cluster(config: TrainConfig, **sections: dict[str, Any]) -> Path:
    """A file of this configuration with some sections replaced, for the other backend."""
    values = yaml.safe_load(dump_config(config))
    values |= {
        "backend": "openrlhf",
        "precision": "bfloat16",
        "device": "auto",
        "threads": None,
    }
    values["rollout"] |= {"prompts": 16}
    values["optim"] |= {"micro_batch": 1}
    path = config.out.with_name("cluster.yaml")
    path.write_text(yaml.safe_dump(values | sections))
    return path


def rollouts(config: TrainConfig, step: int) -> list[RolloutRow]:
    path = config.out / "rollouts" / f"step_{step:06d}.jsonl"
    return [
        RolloutRow.model_validate_json(line) for line in path.read_text().splitlines()
    ]


def test_a_run_from_yaml_trains_with_all_four_and_goes_on(
    make_config: MakeConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.yaml"
    values = yaml.safe_load(dump_config(make_config(steps=1)))
    values["advantage"] = ALL["advantage"]
    values["objective"] |= ALL["objective"]
    path.write_text(yaml.safe_dump(values))
    config = load_config(path)

    assert call("plan", str(path), "--full") == 0
    assert "acme-ranks" in capsys.readouterr().out
    assert call("run", str(path)) == 0
    assert call("run", str(path), "--steps", "2", "--resume") == 0

    resolved = yaml.safe_load((config.out / "config.resolved.yaml").read_text())
    assert resolved["advantage"] == ALL["advantage"]
    assert resolved["objective"]["surrogate"] == {"type": "acme-cispo", "cap": 1.5}
    seen = set[float]()
    for step in (1, 2):
        groups = np.array([row.reward for row in rollouts(config, step)]).reshape(4, 4)
        ranks = np.sign(groups[:, :, None] - groups[:, None, :]).sum(axis=2) / 2
        assert [
            row.advantage for row in rollouts(config, step)
        ] == ranks.ravel().tolist()
        seen |= set(ranks.ravel())
    assert len(seen) > 1, "the case must have something to rank"
    judgements = (
        (config.out / "judgements" / "step_000001.jsonl").read_text().splitlines()
    )
    assert all(json.loads(line)["attribution"] == {} for line in judgements)


@pytest.mark.parametrize("section", ["kl", "surrogate", "importance"])
def test_each_part_of_the_objective_reaches_the_update(
    make_config: MakeConfig, spread_judge: ScriptedJudge, tmp_path: Path, section: str
) -> None:
    losses = [
        run_and_lose(
            make_config(steps=1, out=tmp_path / name, objective=objective), spread_judge
        )
        for name, objective in (
            ("plain", {"kl_coef": 1.0}),
            ("other", {"kl_coef": 1.0, section: ALL["objective"][section]}),
        )
    ]

    assert losses[0] != losses[1]


def run_and_lose(config: TrainConfig, judge: ScriptedJudge) -> float:
    rows: list[Any] = []
    run_grpo(config, judge=judge, on_step=rows.append)
    return rows[0].loss


def test_an_estimator_that_gives_no_number_stops_the_run_before_an_update(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(steps=1, advantage={"estimator": "acme-nan"})

    with pytest.raises(
        PluginError, match="'acme-nan' gave nan for response 0 of group 0"
    ):
        run_grpo(config, judge=spread_judge)

    assert not (config.out / "metrics.jsonl").exists()


def test_a_divergence_of_another_shape_is_never_broadcast(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(steps=1, objective={"kl": {"type": "acme-mean"}})

    with pytest.raises(ObjectiveShapeError, match="one value for each of"):
        run_grpo(config, judge=spread_judge)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            "surrogate",
            "objective.surrogate.type='acme-cispo': the loss here is OpenRLHF's own",
        ),
        ("importance", "objective.importance.type='acme-half': the corrections here"),
    ],
)
def test_plan_of_a_cluster_refuses_what_its_loss_cannot_compute(
    make_config: MakeConfig,
    capsys: pytest.CaptureFixture[str],
    section: str,
    words: str,
) -> None:
    path = for_a_cluster(make_config(), objective={section: ALL["objective"][section]})

    assert call("plan", str(path)) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert "backend: local" in shown


def test_plan_of_a_cluster_takes_estimators_and_divergences(
    make_config: MakeConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    objective = {"kl": ALL["objective"]["kl"]}
    path = for_a_cluster(make_config(), advantage=ALL["advantage"], objective=objective)

    assert call("plan", str(path), "--full") == 0
    assert "acme-ranks" in capsys.readouterr().out


def test_a_run_of_before_these_keys_goes_on(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    config = make_config(steps=1)
    run_grpo(config, judge=spread_judge)
    path = config.out / "config.resolved.yaml"
    values = yaml.safe_load(path.read_text())
    del values["objective"]["kl"], values["objective"]["surrogate"]
    path.write_text(yaml.safe_dump(values))

    assert run_grpo(make_config(steps=2), judge=spread_judge, resume=True).steps == 2
