"""Do the prompts fit, in the tokens of the model that is trained?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed
from rubric_train_openrlhf.config import PathModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rubric_core import Task
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject

_REPORTED: Final = 5
_TEMPLATE_BYTES: Final = 256
"""Room for a chat template around a question; a system text of Llama 3.1's has some 130 bytes."""


def check_prompt_lengths(subject: Subject) -> Iterator[Finding]:
    """Count each prompt's tokens against what `cluster.max_len` leaves beside a response."""
    config = subject.known
    limit = config.cluster.max_len - config.rollout.max_new_tokens
    room = (
        f"cluster.max_len={config.cluster.max_len} − "
        f"rollout.max_new_tokens={config.rollout.max_new_tokens} = {limit} tokens"
    )
    tasks = (*subject.train_tasks, *subject.tasks.get("data.validation", ()))
    if subject.codec is None:
        # No tokenizer joins two words in one token.
        words = {task.task_id: len(task.question.split()) for task in tasks}
        too_long = list(_too_long(subject, words, "words, each a token or more", limit, room))
        yield from too_long or [_bounded_by_bytes(subject, tasks, limit=limit, room=room)]
        return
    lengths = {
        task.task_id: len(subject.codec.encode_prompt(task.policy_view()).token_ids)
        for task in tasks
    }
    too_long = list(_too_long(subject, lengths, "tokens", limit, room))
    yield from too_long
    if not too_long:
        yield passed(
            f"the longest of {len(tasks)} prompts has {max(lengths.values())} tokens, of {room}"
        )


def _too_long(
    subject: Subject, lengths: Mapping[str, int], unit: str, limit: int, room: str
) -> Iterator[Finding]:
    """Name the longest of those that do not fit, and count the others."""
    over = sorted((key for key in lengths if lengths[key] > limit), key=lambda key: -lengths[key])
    for task_id in over[:_REPORTED]:
        yield failed(
            f"the prompt of task {subject.place(task_id)} has {lengths[task_id]} {unit}: more than "
            f"{room}",
            where="cluster.max_len",
            remedy="raise cluster.max_len, lower rollout.max_new_tokens, or drop the task",
        )
    if len(over) > _REPORTED:
        more = f"and {len(over) - _REPORTED} more of {len(lengths)} prompts are too long"
        yield failed(more, where="cluster.max_len")


def _bounded_by_bytes(
    subject: Subject, tasks: tuple[Task, ...], *, limit: int, room: str
) -> Finding:
    """Without a tokenizer: one that knows every byte makes no more tokens than there are bytes."""
    most = max(len(task.question.encode()) for task in tasks) + _TEMPLATE_BYTES
    if most <= limit:
        return passed(
            f"no prompt has more than {most} bytes, chat template included, and so no more "
            f"tokens: {room}"
        )
    model = subject.known.model
    at = str(model.path) if isinstance(model, PathModel) else model.type
    return subject.absent(
        f"no tokenizer at {at!r} to count with; the longest prompt has up to {most} bytes, and "
        f"there is room for {room}",
        where="model.path",
        remedy="copy the model's tokenizer files and config.json here",
    )
