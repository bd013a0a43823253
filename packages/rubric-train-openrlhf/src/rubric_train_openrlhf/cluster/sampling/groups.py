"""The groups that a step is trained on. Engines may die; groups of equal rewards may be dropped.

Prompts come in the order of `PromptOrder`, which has no end: a batch is never partial. Every draw
of a token has a seed of its own, so a resumed run asks for what the killed one would have; engines
repeat it as far as their kernels give the same numbers for batches of another make-up.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from vllm import SamplingParams

from rubric_train_openrlhf.cluster.sampling import (
    fleet,
    judge_calls,
    policy_run,
    samples,
)
from rubric_train_openrlhf.randomness import PromptOrder, derived_seed
from rubric_train_openrlhf.step.passes import draw_rounds, total_timing


class RubricSamplesGenerator(SamplesGenerator):
    """Draws prompts and has their groups sampled and judged."""

    def __init__(
        self,
        strategy: Any,
        *,
        run: policy_run.PolicyRun,
        fleet: fleet.EngineFleet,
        coordinator: judge_calls.CoordinatorClient,
        prompts: Sequence[samples.Prompt],
        heldout: Sequence[samples.Prompt] = (),
    ) -> None:
        """Take the parts of a run.

        Args:
            strategy: OpenRLHF's, which holds its arguments.
            run: the run.
            fleet: samples.
            coordinator: says which groups differ in reward.
            prompts: to train on, in the order of the dataset.
            heldout: of the held-out passes.
        """
        super().__init__(strategy, None, None, None, [])
        self._run = run
        self._fleet = fleet
        self._coordinator = coordinator
        self._prompts = prompts
        self._heldout = heldout
        self._order = PromptOrder(len(prompts), seed=run.seed)

    def draw_step(self, *, step: int, position: int) -> samples.Draw:
        """Sample and judge the groups of one step.

        Args:
            step: its number, part of the random seed.
            position: of the first prompt in the endless order.

        Raises:
            JudgeAbortError: too many judgements failed.
            NoInformativePromptError: dynamic sampling found too few groups with a spread.
            ClusterError: an engine died for good.
        """
        rounds = draw_rounds(
            lambda _, before, n: self._draw(n, step=step, position=position + before),
            spread=lambda drawn: self._coordinator.spread(step, drawn.groups),
            config=self._run,
            step=step,
        )
        draws = [drawn for drawn, _ in rounds]
        return samples.Draw(
            groups=[
                drawn.groups[place] for drawn, places in rounds for place in places
            ],
            generated_tokens=sum(drawn.generated_tokens for drawn in draws),
            timing=total_timing([drawn.timing for drawn in draws]),
            resent=sum(drawn.resent for drawn in draws),
            prompts=sum(drawn.prompts for drawn in draws),
        )

    def draw_heldout(self) -> samples.Draw:
        """Sample and judge the held-out questions, with the same draws in every pass."""
        size = self._run.validation.samples
        temperature = self._run.validation.temperature
        seed_of = partial(derived_seed, self._run.seed, step=0, purpose="validation")
        return self._answered(
            self._heldout, size, temperature=temperature, seed_of=seed_of
        )

    def _draw(self, n: int, *, step: int, position: int) -> samples.Draw:
        run = self._run
        size = self._run.rollout.group_size
        seed_of = partial(derived_seed, run.seed, step=step, purpose="rollout")
        return self._answered(
            [self._prompts[index] for index in self._order.take(n, start=position)],
            size,
            temperature=run.rollout.temperature,
            seed_of=seed_of if run.cluster.engines.seeded else None,
            first=position * size,
        )

    def _answered(
        self,
        prompts: Sequence[samples.Prompt],
        size: int,
        *,
        temperature: float,
        seed_of: Callable[..., int] | None,
        first: int = 0,
    ) -> samples.Draw:
        sampling: dict[str, Any] = {
            "temperature": temperature,
            "max_tokens": self._run.rollout.max_new_tokens,
            # OpenRLHF forbids an end token at first, which no policy in training would know of.
            "min_tokens": 0,
            "stop_token_ids": list(self._run.end_token_ids),
            "skip_special_tokens": False,
            "logprobs": 0,
        }
        requests = [
            samples.SampleRequest(
                prompt.text,
                prompt.task_id,
                SamplingParams(**sampling, seed=seed),
                max_length=self._run.cluster.max_len,
                group=number,
            )
            for number, prompt in enumerate(prompts)
            for row in range(number * size, (number + 1) * size)
            for seed in [seed_of(part=first + row) if seed_of else None]
        ]
        if self._run.cluster.engines_sleep:
            self._fleet.on_all("wake_up")
        answers = self._fleet.ask(requests)
        if self._run.cluster.engines_sleep:
            self._fleet.on_all("sleep")
        drawn = [self._sample(response) for response in answers.responses]
        return samples.Draw(
            groups=[
                samples.Group(prompt, tuple(drawn[number * size : (number + 1) * size]))
                for number, prompt in enumerate(prompts)
            ],
            generated_tokens=sum(sample.tokens for sample in drawn),
            timing=answers.timing,
            resent=answers.resent,
            prompts=len(prompts),
        )

    def _sample(self, response: dict[str, Any]) -> samples.Sample:
        experience = self._process_response_into_experience(
            response, max_len=self._run.cluster.max_len
        )
        return samples.Sample(
            experience=experience,
            judgement=samples.JudgementId.read(response["label"]),
            completion=response["completion"],
            tokens=int(experience.response_length.item()),
            ended=not response["truncated"],
        )
