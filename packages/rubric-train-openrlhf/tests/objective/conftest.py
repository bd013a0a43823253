"""Responses to compute with, and the other stacks' own loss functions."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import types
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch

from rubric_train_openrlhf.objective import ObjectiveBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torch import Tensor

    MakeResponses = Callable[..., "Responses"]


@dataclass(frozen=True)
class Responses:
    """Log-probabilities far enough apart for every clip, band and clamp to act."""

    logprobs: Tensor
    gen: Tensor
    old: Tensor
    ref: Tensor
    advantages: Tensor
    mask: Tensor

    def batch(self, rows: slice = slice(None)) -> ObjectiveBatch:
        return ObjectiveBatch(
            gen_logprobs_BT=self.gen[rows],
            advantages_B=self.advantages[rows],
            mask_BT=self.mask[rows],
            ref_logprobs_BT=self.ref[rows],
            old_logprobs_BT=self.old[rows],
        )

    def on_policy(self) -> Responses:
        """The same responses, sampled by the policy itself."""
        own = self.logprobs.detach()
        return Responses(self.logprobs, own, own, self.ref, self.advantages, self.mask)


def _responses(
    seed: int = 1,
    lengths: tuple[int, ...] = (9, 3, 5, 1, 7, 2),
    *,
    dtype: torch.dtype = torch.float64,
    spread: float = 1.0,
    mismatch: float = 0.3,
) -> Responses:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    logprobs = normal(*shape) - 3
    old = logprobs - spread * normal(*shape)
    gen = old - mismatch * normal(*shape)
    ref = logprobs + spread * normal(*shape)
    mask = torch.arange(shape[1])[None] < torch.tensor(lengths)[:, None]
    return Responses(
        logprobs=logprobs.to(dtype).requires_grad_(),
        gen=gen.to(dtype),
        old=old.to(dtype),
        ref=ref.to(dtype),
        advantages=normal(shape[0]).to(dtype),
        mask=mask,
    )


@pytest.fixture(scope="session")
def make_responses() -> MakeResponses:
    return _responses


@pytest.fixture
def responses() -> Responses:
    return _responses()


@pytest.fixture(scope="session")
def trl() -> types.ModuleType:
    return _imported("trl")


@pytest.fixture(scope="session")
def verl_algorithms() -> types.ModuleType:
    return _imported("verl.trainer.ppo.core_algos")


@pytest.fixture(scope="session")
def verl_corrections() -> types.ModuleType:
    return _imported("verl.trainer.ppo.rollout_corr_helper")


@pytest.fixture(scope="session")
def openrlhf_import() -> Iterator[Callable[[str], types.ModuleType]]:
    """OpenRLHF's modules without the package files that import DeepSpeed and flash-attn."""
    try:
        root: Path = importlib.metadata.distribution("openrlhf").locate_file("openrlhf")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs openrlhf: uv sync --group stacks")
    # Stand-ins for the session of these tests only; a real package is never covered up.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("deepspeed", "flash_attn"):
            if importlib.util.find_spec(name) is None:
                patch.setitem(sys.modules, name, _bare_package(name))
        for name in (
            "openrlhf",
            "openrlhf.models",
            "openrlhf.trainer",
            "openrlhf.utils",
        ):
            folder = root.joinpath(*name.split(".")[1:])
            patch.setitem(sys.modules, name, _bare_package(name, str(folder)))
        folder = root / "trainer" / "ppo_utils"
        name = "openrlhf.trainer.ppo_utils"
        patch.setitem(sys.modules, name, _bare_package(name, str(folder)))
        # Only named in annotations there.
        launcher = _bare_package("openrlhf.trainer.ray.launcher")
        launcher.RayActorGroup = object
        patch.setitem(
            sys.modules, "openrlhf.trainer.ray", _bare_package("openrlhf.trainer.ray")
        )
        patch.setitem(sys.modules, "openrlhf.trainer.ray.launcher", launcher)
        yield _imported


@pytest.fixture(scope="session")
def openrlhf_loss(
    openrlhf_import: Callable[[str], types.ModuleType],
) -> types.ModuleType:
    return openrlhf_import("openrlhf.models.loss")


@pytest.fixture(scope="session")
def openrlhf_models(
    openrlhf_import: Callable[[str], types.ModuleType],
) -> types.ModuleType:
    return openrlhf_import("openrlhf.models.utils")


@pytest.fixture(scope="session")
def openrlhf_experience(
    openrlhf_import: Callable[[str], types.ModuleType],
) -> types.ModuleType:
    return openrlhf_import("openrlhf.trainer.ppo_utils.experience_maker")


def _imported(name: str) -> types.ModuleType:
    # What other stacks warn about while they are imported is not ours to mend.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            pytest.skip(f"needs {error.name}: uv sync --group stacks")


def _bare_package(name: str, folder: str | None = None) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = [] if folder is None else [folder]
    return module
