"""Every configuration that is shipped can be read by the model that it is for."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import rubric_judge.config
import rubric_synth
import rubric_train_openrlhf

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path.relative_to(ROOT / "configs") for path in ROOT.glob("configs/*/*.y*ml")
)
READERS: Mapping[str, Callable[[Path], object]] = {
    "judge": rubric_judge.config.read_judge_spec,
    "synth": rubric_synth.load_config,
    "train": rubric_train_openrlhf.load_config,
}


def test_every_command_that_reads_a_configuration_has_one_to_start_from() -> None:
    assert {path.parts[0] for path in FILES} == set(READERS)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_shipped_configuration_can_be_read(path: Path) -> None:
    assert READERS[path.parts[0]](ROOT / "configs" / path) is not None


@pytest.mark.parametrize("package", ["judge", "train_openrlhf"])
def test_what_init_writes_is_a_configuration_of_the_repository(package: str) -> None:
    configs = ROOT / "configs" / package.partition("_")[0]
    (folder,) = ROOT.glob(f"packages/*/src/rubric_{package}/starting")

    shipped = {path.name: path.read_text("utf-8") for path in folder.glob("*.yaml")}

    assert shipped
    assert shipped == {name: (configs / name).read_text("utf-8") for name in shipped}


def test_the_paper_preset_has_the_papers_numbers() -> None:
    config = rubric_train_openrlhf.load_config(ROOT / "configs/train/paper.yaml")
    objective, optim = config.objective, config.optim

    assert (config.rollout.prompts, config.rollout.group_size) == (64, 32)
    assert (config.judge.workers, config.judge.micro_batch) == (32, 4)
    assert (objective.clip_low, objective.clip_high, objective.kl_coef) == (
        0.2,
        0.2,
        0.01,
    )
    assert (optim.learning_rate, optim.weight_decay, optim.max_grad_norm) == (
        3e-7,
        0.01,
        1.0,
    )
    assert (optim.warmup_steps, optim.warmup_start_frac) == (13, 0.1)
    assert (optim.betas, optim.eps, optim.updates_per_rollout) == (
        (0.9, 0.999),
        1e-8,
        1,
    )
