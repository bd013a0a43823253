"""Drawing groups by spread, with the engines' answers made up and the judge's arithmetic real."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Answer
from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.sampling.samples import Prompt
from rubric_train_openrlhf.errors import ClusterError, NoInformativePromptError
from rubric_train_openrlhf.policy.completion import Completion
from rubric_train_openrlhf.randomness import PromptOrder
from rubric_train_openrlhf.run.records import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.openrlhf

PROMPTS = [Prompt(f"<q{n}>", f"t{n}", f"question {n}") for n in range(10)]


class Answering:
    """Answers every request; tasks whose number is even get responses of one reward."""

    def __init__(self, batch: Any) -> None:
        self._results = batch.coordinator.results
        self._groups = batch.groups
        self.asked: list[Any] = []
        self.calls: list[str] = []

    def ask(self, requests: Sequence[Any]) -> SimpleNamespace:
        first = len(self.asked)
        self.asked += requests
        responses = [self._answer(one, first + n) for n, one in enumerate(requests)]
        timing = Timing(generate_s=1.0, judge_s=2.0, judge_wait_s=0.5)
        return SimpleNamespace(responses=responses, timing=timing, resent=0)

    def on_all(self, method: str, **_arguments: object) -> None:
        self.calls.append(method)

    def _answer(self, request: Any, number: int) -> dict[str, Any]:
        ties = int(request.task_id.removeprefix("t")) % 2 == 0
        # The first group of the batch has rewards that differ, the second has not.
        judged = self._groups[1 if ties else 0].samples[number % 4].judgement.text
        name = f"{request.task_id}:{number}"
        self._results[name] = self._results[judged]
        return {
            "prompt": request.prompt,
            "label": name,
            "observation_tokens": [5, 6, 7, 8, 9],
            "action_ranges": [(3, 5)],
            "rollout_log_probs": [0.0, 0.0, 0.0, -1.0, -2.0],
            "truncated": number % 2 == 0,
            "reward": 0.5,
            "scores": 0.5,
            "completion": Completion(f"answer {number}", Answer(f"answer {number}")),
            "images": None,
            "mm_train_inputs": None,
            "extra_logs": {"rubric/judge_s": 0.1},
        }


@pytest.fixture
def make_generator(make_batch: Callable[..., Any]) -> Callable[..., Any]:
    def make(**sections: Any) -> tuple[Any, Answering, Any]:
        from rubric_train_openrlhf.cluster.sampling.groups import RubricSamplesGenerator

        batch = make_batch(
            [[0.0, 0.2, 0.4, 1.0], [0.5, 0.5, 0.5, 0.5]],
            rollout={"prompts": 4, "group_size": 4, "max_new_tokens": 24},
            optim={"updates_per_rollout": 1, "micro_batch": 4},
            cluster={
                "gpus_per_node": 1,
                "max_len": 64,
                "deepspeed": {"forward_micro_batch": 4},
            },
            **sections,
        )
        run = PolicyRun.of(
            batch.coordinator.config, namespace="n", end_token_ids=(2, 1)
        )
        fleet = Answering(batch)
        generator = RubricSamplesGenerator(
            SimpleNamespace(args=None),
            run=run,
            fleet=fleet,
            coordinator=batch.coordinator,
            prompts=PROMPTS,
            heldout=PROMPTS[:2],
        )
        return generator, fleet, batch.coordinator

    return make


def test_a_step_asks_for_its_prompts_in_order_and_every_draw_has_a_seed(
    make_generator: Callable[..., Any],
) -> None:
    generator, fleet, _ = make_generator()
    drawn = generator.draw_step(step=3, position=8)

    order = PromptOrder(10, seed=0).take(4, start=8)
    assert [group.prompt for group in drawn.groups] == [PROMPTS[n] for n in order]
    assert drawn.prompts == 4
    assert drawn.generated_tokens == 4 * 4 * 2
    seeds = [request.sampling.seed for request in fleet.asked]
    assert len(set(seeds)) == 16
    again, other, _ = make_generator()
    again.draw_step(step=3, position=8)
    assert [request.sampling.seed for request in other.asked] == seeds
    assert fleet.asked[0].sampling.max_tokens == 24
    assert fleet.asked[0].sampling.logprobs == 0
    assert fleet.asked[0].sampling.min_tokens == 0
    assert fleet.asked[0].sampling.stop_token_ids == [2, 1]
    assert fleet.calls == ["wake_up", "sleep"]


def test_a_sample_keeps_text_length_and_end(make_generator: Callable[..., Any]) -> None:
    generator, _, _ = make_generator()
    group = generator.draw_step(step=1, position=0).groups[0]
    assert [sample.completion.text for sample in group.samples] == [
        f"answer {n}" for n in range(4)
    ]
    assert group.lengths == [2, 2, 2, 2]
    assert group.ended == [False, True, False, True]
    experience = group.samples[0].experience
    assert experience.action_mask.tolist() == [[0, 0, 1, 1]]
    assert experience.rollout_log_probs.tolist() == [[0.0, 0.0, -1.0, -2.0]]


def test_groups_without_a_spread_are_replaced_until_the_batch_is_full(
    make_generator: Callable[..., Any],
) -> None:
    generator, _, _ = make_generator(dynamic_sampling={"max_resample_rounds": 8})
    drawn = generator.draw_step(step=1, position=0)

    assert len(drawn.groups) == 4
    assert all(int(group.prompt.task_id[1:]) % 2 for group in drawn.groups)
    order = [
        PROMPTS[n].task_id for n in PromptOrder(10, seed=0).take(drawn.prompts, start=0)
    ]
    informative = [task for task in order if int(task[1:]) % 2]
    assert [group.prompt.task_id for group in drawn.groups] == informative
    names = [name for group in drawn.groups for name in group.judgements]
    assert max(Counter(names).values()) == 1
    assert drawn.timing.generate_s > 1.0


def test_a_run_whose_groups_all_tie_stops_with_a_reason(
    make_generator: Callable[..., Any],
) -> None:
    generator, fleet, _ = make_generator(dynamic_sampling={"max_resample_rounds": 2})
    generator._prompts = [PROMPTS[0], PROMPTS[2]]
    generator._order = PromptOrder(2, seed=0)
    with pytest.raises(
        NoInformativePromptError, match=r"only 0 of 4 .* 12 prompts"
    ) as caught:
        generator.draw_step(step=5, position=0)
    assert (caught.value.step, caught.value.wanted, caught.value.found) == (5, 4, 0)
    assert len(fleet.asked) == 3 * 4 * 4


def test_held_out_questions_are_answered_greedily_unless_a_temperature_is_set(
    make_generator: Callable[..., Any],
) -> None:
    generator, fleet, _ = make_generator()
    generator.draw_heldout()
    assert {request.sampling.temperature for request in fleet.asked} == {0.0}


def test_every_held_out_pass_has_the_same_draws(
    make_generator: Callable[..., Any],
) -> None:
    validation = {"samples": 3, "temperature": 0.5}
    generator, fleet, _ = make_generator(validation=validation)
    groups = generator.draw_heldout().groups
    assert [group.prompt for group in groups] == PROMPTS[:2]
    assert [len(group.samples) for group in groups] == [3, 3]
    generator.draw_heldout()
    seeds = [request.sampling.seed for request in fleet.asked]
    assert seeds[:6] == seeds[6:]
    assert fleet.asked[0].sampling.temperature == 0.5


def test_sampling_without_seeds_is_left_to_the_engines(
    make_generator: Callable[..., Any],
) -> None:
    generator, fleet, _ = make_generator()
    engines = generator._run.cluster.engines.model_copy(update={"seeded": False})
    cluster = generator._run.cluster.model_copy(update={"engines": engines})
    generator._run = generator._run.model_copy(update={"cluster": cluster})
    generator.draw_step(step=1, position=0)
    assert {request.sampling.seed for request in fleet.asked} == {None}


def test_a_prompt_dataset_reads_back(tmp_path: Path) -> None:
    from rubric_train_openrlhf.cluster.sampling.samples import read_prompts

    rows = [
        {"input": p.text, "label": p.task_id, "question": p.question} for p in PROMPTS
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_prompts(path) == PROMPTS


@pytest.mark.parametrize("text", [None, "{\n", '{"input": "x"}\n'])
def test_a_damaged_prompt_dataset_names_itself(
    tmp_path: Path, text: str | None
) -> None:
    from rubric_train_openrlhf.cluster.sampling.samples import read_prompts

    path = tmp_path / "train.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterError, match=r"train\.jsonl"):
        read_prompts(path)
