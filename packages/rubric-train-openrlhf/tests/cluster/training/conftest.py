from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import Answer, Criterion, Grounding, JudgeResult, Reason, Rubric, Task
from rubric_judge.pool.ray_start import start_ray
from rubric_train_openrlhf.cluster.sampling.samples import (
    Group,
    JudgementId,
    Prompt,
    Sample,
)
from rubric_train_openrlhf.policy import load_policy, sample_groups
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.step.credit import Crediting
from rubric_train_openrlhf.step.rewards import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from conftest import RealInput
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.policy import Rollouts
    from rubric_train_openrlhf.step.credit import StepCredit

RUBRIC = Rubric(criteria=(Criterion(id="a", weight=2), Criterion(id="b", weight=3)))
TASK = Task(question="Q", grounding=Grounding(text="A passage."), rubric=RUBRIC)

MAX_LEN = 96
_DRIFT = 0.5
"""Of the policy from its sampler, in standard deviations of each tensor."""


@pytest.fixture(scope="module")
def group_of_one(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """A group of one process, over which OpenRLHF sums; DeepSpeed leaves one behind it."""
    if torch.distributed.is_initialized():
        yield
        return
    store = tmp_path_factory.mktemp("group") / "store"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def module_ray(request: pytest.FixtureRequest) -> Generator[Any]:
    """Ray of its own for a test module, whose classes its workers are told of."""
    import ray  # the stack is loaded only by tests that need it

    # Ray's workers know no test module.
    ray.cloudpickle.register_pickle_by_value(request.module)
    # A short name: the paths of Ray's sockets are bounded.
    with tempfile.TemporaryDirectory(
        prefix="ray-", ignore_cleanup_errors=True
    ) as folder:
        start_ray(
            ray,
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=100 * 2**20,
            _temp_dir=folder,
            log_to_driver=False,
        )
        yield ray
        ray.shutdown()


@pytest.fixture(scope="session")
def rollouts(real_input: RealInput) -> Rollouts:
    """Four responses to each of two questions."""
    policy = load_policy(real_input.folder / "model")
    return sample_groups(
        policy.model,
        [
            policy.codec.encode_prompt(task.policy_view())
            for task in real_input.tasks[:2]
        ],
        group_size=4,
        max_new_tokens=24,
        temperature=1.0,
        generator=torch.Generator().manual_seed(1),
        eos_token_id=policy.codec.eos_token_id,
        pad_token_id=policy.codec.pad_token_id,
    )


@pytest.fixture(scope="session")
def drifted(real_input: RealInput, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy that is updated: not the one that sampled, so that clip and divergence act."""
    policy = load_policy(real_input.folder / "model")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(_DRIFT * parameter.std() * noise)
    folder = tmp_path_factory.mktemp("drifted") / "model"
    policy.save(folder)
    return folder


@pytest.fixture(scope="session")
def as_groups() -> Callable[[Rollouts], list[Group]]:
    """Sampled tokens as an engine's executor hands them in."""
    return _as_groups


def _as_groups(rollouts: Rollouts) -> list[Group]:
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    to_experience: Any = SamplesGenerator._process_response_into_experience
    samples: list[Sample] = []
    for row in range(len(rollouts.tokens_BT)):
        prompt, response = (
            list(rollouts.prompt_of(row).token_ids),
            list(rollouts.response(row)),
        )
        logprobs = rollouts.logprobs_BT[row, : len(response)].tolist()
        answer = {
            "prompt": "p",
            "label": "t",
            "observation_tokens": [*prompt, *response],
            "action_ranges": [(len(prompt), len(prompt) + len(response))],
            "rollout_log_probs": [0.0] * len(prompt) + logprobs,
            "reward": 0.0,
            "scores": 0.0,
        }
        experience = to_experience(None, answer, max_len=MAX_LEN)
        samples.append(
            Sample(
                experience,
                JudgementId("t", key=str(row)),
                Completion("", Answer("")),
                len(response),
                ended=True,
            )
        )
    size = rollouts.group_size
    return [
        Group(Prompt("p", "t", "q"), tuple(samples[first : first + size]))
        for first in range(0, len(samples), size)
    ]


@pytest.fixture
def make_batch(make_config: Callable[..., TrainConfig]) -> Callable[..., Batch]:
    """Responses of random lengths whose judgements have the rewards given."""

    def make(
        rewards_PG: Sequence[Sequence[float | None]],
        *,
        seed: int = 0,
        **sections: object,
    ) -> Batch:
        return _make_batch(rewards_PG, config=make_config(**sections), seed=seed)

    return make


@dataclass
class CoreCoordinator:
    """A coordinator in this process: judgements by name, and the arithmetic of the real one."""

    config: TrainConfig
    results: dict[str, JudgeResult]

    def spread(self, step: int, groups: Sequence[Group]) -> list[bool]:
        del step
        results, tasks = self._results(groups), [TASK] * len(groups)
        return Crediting(self.config).informative(results, tasks, sizes(groups))

    def credit(self, step: int, groups: Sequence[Group]) -> StepCredit:
        results, tasks = self._results(groups), [TASK] * len(groups)
        credit, _ = Crediting(self.config).of_step(step, results, tasks, sizes(groups))
        return credit

    def _results(self, groups: Sequence[Group]) -> list[list[JudgeResult]]:
        return [[self.results[name] for name in group.judgements] for group in groups]


def sizes(groups: Sequence[Group]) -> Sizes:
    return Sizes.of(
        [group.lengths for group in groups], [group.ended for group in groups]
    )


def judged(reward: float | None) -> JudgeResult:
    """A result of this reward; none for a judge that was away, negative for a broken reply."""
    if reward is None:
        return JudgeResult.unavailable(Reason.TIMEOUT, judge="test")
    if reward < 0:
        return JudgeResult.invalid(Reason.NOT_JSON, judge="test")
    return JudgeResult.scored(RUBRIC, {"a": 2 * reward, "b": 3 * reward}, judge="test")


@dataclass(frozen=True)
class Batch:
    """P groups of G, as they come from the engines."""

    groups: list[Group]
    coordinator: CoreCoordinator

    @property
    def labels(self) -> list[str]:
        return [name for group in self.groups for name in group.judgements]


def _make_batch(
    rewards_PG: Sequence[Sequence[float | None]], *, config: TrainConfig, seed: int = 0
) -> Batch:
    from openrlhf.trainer.ppo_utils.experience import Experience

    rng = np.random.default_rng(seed)
    results: dict[str, JudgeResult] = {}
    groups: list[Group] = []
    for p, rewards in enumerate(rewards_PG):
        prompt_tokens = int(rng.integers(3, 9))
        samples: list[Sample] = []
        for g, reward in enumerate(rewards):
            tokens = int(rng.integers(1, 12))
            total = prompt_tokens + tokens
            judgement = JudgementId(f"t{p}", key=str(g))
            results[judgement.text] = judged(reward)
            mask = torch.zeros(1, total - 1, dtype=torch.long)
            mask[:, prompt_tokens - 1 :] = 1
            experience = Experience(
                sequences=torch.from_numpy(rng.integers(5, 300, (1, total))),
                attention_mask=torch.ones(1, total, dtype=torch.long),
                action_mask=mask,
                rollout_log_probs=-torch.from_numpy(rng.random((1, total - 1))).float()
                * mask,
                prompts=[f"p{p}"],
                labels=[judgement.text],
                images=[None],
                mm_train_inputs=[None],
                rewards=torch.tensor([reward or 0.0]),
                scores=torch.tensor([reward or 0.0]),
                response_length=torch.tensor([tokens]),
                truncated=torch.tensor([False]),
                total_length=torch.tensor([float(total)]),
                info={"reward": torch.tensor([reward or 0.0])},
            )
            written = Completion(f"answer {p}.{g}", Answer(f"answer {p}.{g}"))
            samples.append(Sample(experience, judgement, written, tokens, ended=True))
        groups.append(Group(Prompt(f"p{p}", f"t{p}", f"q{p}"), tuple(samples)))
    return Batch(groups, CoreCoordinator(config, results))
