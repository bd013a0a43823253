"""Prompt datasets: the question as the policy reads it, and a task id to judge by; no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, NamedTuple

from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.run.writing import write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rubric_core import PolicyView
    from rubric_train_openrlhf.policy import ChatCodec

Source = Literal["train", "heldout"]


class TooLong(NamedTuple):
    """A prompt that leaves no room for a response."""

    task_id: str
    tokens: int


def write_prompts(
    path: Path,
    views: Sequence[PolicyView],
    *,
    codec: ChatCodec,
    source: Source,
    max_prompt_tokens: int,
) -> None:
    """Write the dataset that OpenRLHF reads prompts from, in the order of the views.

    A row is `{"input", "label", "question"}`: the prompt as text that tokenizes to
    `encode_prompt` where no special token is added, the task id, and the question as it was asked.

    Args:
        path: of the file.
        views: what the policy may see of the tasks.
        codec: writes a prompt as the policy reads it.
        source: which dataset this is, for an error.
        max_prompt_tokens: longest prompt that leaves room for a response.

    Raises:
        TrainConfigError: a prompt is longer.
        DiskWriteError: the file could not be written.
    """
    if too_long := list(long_prompts(views, codec=codec, max_prompt_tokens=max_prompt_tokens)):
        longest = max(too_long, key=lambda one: one.tokens)
        raise TrainConfigError(
            f"{len(too_long)} of {len(views)} {source} prompts are longer than the "
            f"{max_prompt_tokens} tokens that rollout.max_new_tokens leaves of cluster.max_len; "
            f"the longest has {longest.tokens} (task {longest.task_id}): raise cluster.max_len to "
            "it and the response together, or leave such tasks out",
            location="cluster.max_len",
        )
    write_lines(path, _rows(views, codec=codec))


def long_prompts(
    views: Sequence[PolicyView], *, codec: ChatCodec, max_prompt_tokens: int
) -> Iterator[TooLong]:
    """Find the prompts that leave no room for a response.

    OpenRLHF would cut them from the left: the policy would be asked something else.
    """
    for view in views:
        tokens = len(codec.encode_prompt(view).token_ids)
        if tokens > max_prompt_tokens:
            yield TooLong(view.task_id, tokens)


def _rows(views: Sequence[PolicyView], *, codec: ChatCodec) -> Iterator[str]:
    for view in views:
        row = {
            "input": codec.prompt_text(view),
            "label": view.task_id,
            "question": view.question,
        }
        yield json.dumps(row)
