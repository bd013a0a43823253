"""Prompts that leave no room for a response: a run refuses them, and its plan foresees it."""

from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig

from rubric_train_openrlhf.config.method import SelfDistillation
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.local.distilling import teacher_prompts
from rubric_train_openrlhf.policy import TextCodec
from rubric_train_openrlhf.step.tasks import TaskSet


def most_positions(model: PretrainedConfig) -> int | None:
    """Return the tokens that a model reads at the most; None where its configuration does not say.

    Args:
        model: its configuration; a vision-language model has one of its text within.
    """
    text_config: Any = model.get_text_config()
    positions: int | None = getattr(text_config, "max_position_embeddings", None)
    return positions if isinstance(positions, int) else None


def refuse_long_prompts(
    codec: TextCodec,
    positions: int | None,
    *,
    tasks: Mapping[str, TaskSet | None],
    config: TrainConfig,
) -> None:
    """Refuse prompts that leave no room for a response, before training; none is truncated.

    Args:
        codec: what the policy makes of a question.
        positions: of the model; None refuses nothing.
        tasks: the training tasks as `data.train`, held-out ones as `data.validation`.
        config: of the run.

    Raises:
        TrainConfigError: a prompt of the policy, or of its teacher, is too long.
        PolicyLoadError: the chat template refuses what a teacher is shown.
    """
    if positions is None:
        return
    new = config.rollout.max_new_tokens
    for key, task_set in tasks.items():
        views = () if task_set is None else task_set.views
        lengths = {
            view.task_id: len(codec.encode_prompt(view).token_ids) for view in views
        }
        over = {name: n for name, n in lengths.items() if n > positions - new}
        if over:
            longest = max(over, key=over.__getitem__)
            raise TrainConfigError(
                f"{len(over)} of {len(views)} {key} prompts are longer than the "
                f"{positions - new} tokens that rollout.max_new_tokens={new} leaves of the "
                f"model's {positions} positions; the longest has {over[longest]} (task "
                f"{longest}): lower rollout.max_new_tokens, leave such tasks out, or write them "
                "with less context (rubric-synth run --context, context.section_words)",
                location=key,
            )
    training = tasks["data.train"]
    if isinstance(config.method, SelfDistillation) and training is not None:
        _refuse_long_teaching(codec, config.method, positions - new, tasks=training)


def _refuse_long_teaching(
    codec: TextCodec, method: SelfDistillation, room: int, *, tasks: TaskSet
) -> None:
    prompts = teacher_prompts(codec, tasks.values(), method)
    lengths = [len(prompt.token_ids) for prompt in prompts]
    over = sum(length > room for length in lengths)
    if over:
        place = max(range(len(lengths)), key=lengths.__getitem__)
        raise TrainConfigError(
            f"with method.shown={method.shown!r}, {over} of {len(tasks)} teacher's prompts are "
            f"longer than the {room} tokens that rollout.max_new_tokens leaves of the model's "
            f"positions; the longest has {lengths[place]} (task {list(tasks)[place]}): show less, "
            "lower rollout.max_new_tokens, or leave such tasks out",
            location="method.shown",
        )
