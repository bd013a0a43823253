"""Answers of known truth that a language model writes: one call a task, and no judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated

import anyio
from pydantic import BaseModel, ConfigDict, ValidationError, WithJsonSchema

from rubric_core import RubricError, Task, Usage
from rubric_core.errors import NotJsonError
from rubric_core.schema import sealed
from rubric_core.strict_json import decode
from rubric_judge.errors import JudgeTransportError
from rubric_judge.judges.llm.prompt import fenced
from rubric_judge.models.chat import ChatReply
from rubric_judge.models.chat_model import ChatModel
from rubric_judge.models.model_config import ModelConfig
from rubric_judge.quality.labels.likeness import longest_shared_run
from rubric_judge.quality.labels.rows import LONGEST_NAME, rater_name
from rubric_judge.quality.labels.writing import WrittenStore, written_answer
from rubric_judge.quality.labels.written import COPIED, Truth, is_blank
from rubric_judge.ui.page.rendering import text_template

if TYPE_CHECKING:
    from jinja2 import Template

MOST_SHARED = COPIED - 1
"""Consecutive words of passage or reference that a right answer may repeat."""
_ATTEMPTS = 2
"""Most times that a model is asked for a pair that can be used."""
_LONGEST_REPLY = 100_000

# Hosted servers refuse a schema with the length that `sealed.Text` states.
_Text = Annotated[sealed.Text, WithJsonSchema({"type": "string"})]


# Models of the replies. Docstrings would go to the model.
class _Pair(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    right: _Text
    false: _Text


class _Ready(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ready: bool


class _RefusedError(Exception):
    """A reply that cannot be used, and why; `again` where another one may be."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        self.why = why
        self.again = again
        super().__init__(why)


@dataclass
class ByModel:
    """Outcome of asking a model for answers."""

    written: int = 0
    """Number of tasks with both answers."""
    failed: Counter[str] = field(default_factory=Counter[str])
    """Number of tasks without, by the reason."""
    details: dict[str, str] = field(default_factory=dict[str, str])
    """Detail of the first failure, by the reason."""
    usage: Usage = field(default_factory=Usage)
    authors: Counter[str] = field(default_factory=Counter[str])
    """Number of tasks, by the model that answered."""


async def open_tasks(
    model: ChatModel, config: ModelConfig, tasks: Sequence[Task], store: WrittenStore
) -> list[Task]:
    """Return the tasks to which the file does not hold both answers of this model.

    A server may say another name than it is asked for. Where the file holds answers of names that
    the configuration does not say, it is asked.

    Args:
        model: to ask.
        config: its configuration.
        tasks: tasks that need answers.
        store: the file.

    Raises:
        JudgeTransportError: it was asked, and no answer came.
    """
    names = {
        _author(name) for name in (config.model, config.served_name, *model.routes)
    }
    if store.authors(by_model=True).keys() - names:
        user = 'Answer with JSON: {"ready": true}'
        answer = await model.complete(system="Are you ready?", user=user, reply=_Ready)
        names.add(_author(_answering(answer)))
    done = {
        task_id
        for name in names
        for task_id, answers in store.of(name, by_model=True).items()
        if answers.keys() == set(Truth)
    }
    return [task for task in tasks if task.task_id not in done]


async def write_by_model(
    model: ChatModel,
    tasks: Iterable[Task],
    store: WrittenStore,
    *,
    workers: int,
    on_task: Callable[[], None],
) -> ByModel:
    """Have both answers to each task written, and keep each pair as it comes.

    Args:
        model: writes them; its limits bound what is asked at once.
        tasks: to write for.
        store: keeps the pairs.
        workers: most tasks at once.
        on_task: called when a task is over.

    Returns:
        Numbers of tasks with and without answers.

    Raises:
        RubricFileError: another program has changed the file.
        OSError: it could not be written.
    """
    outcome = ByModel()
    waiting = iter(tasks)
    broken: list[RubricError | OSError] = []

    async def work() -> None:
        for task in waiting:
            try:
                await _write(model, task, store, outcome)
            except (RubricError, OSError) as error:
                broken.append(error)
                group.cancel_scope.cancel()
                return
            on_task()

    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(work)
    if broken:
        raise broken[0]
    return outcome


async def _write(
    model: ChatModel, task: Task, store: WrittenStore, outcome: ByModel
) -> None:
    problem = ""
    for attempt in range(_ATTEMPTS):
        try:
            answer = await model.complete(reply=_Pair, **_messages(task, problem))
        except JudgeTransportError as error:
            outcome.usage = outcome.usage.plus(error.usage)
            why = f"no answer came: {error.reason.value}"
            outcome.failed[why] += 1
            outcome.details.setdefault(why, error.detail)
            return
        outcome.usage = outcome.usage.plus(answer.usage)
        try:
            pair = _read(answer, task)
        except _RefusedError as refusal:
            if refusal.again and attempt < _ATTEMPTS - 1:
                problem = refusal.why
                continue
            outcome.failed[refusal.why] += 1
            return
        author = _author(_answering(answer))
        store.put(
            written_answer(task, truth, text, author=author, by_model=True)
            for truth, text in pair.items()
        )
        outcome.written += 1
        outcome.authors[author] += 1
        return


def _messages(task: Task, problem: str) -> dict[str, str]:
    system, template = _prompt()
    passage = fenced(
        task.grounding.reveal(),
        label="SOURCE PASSAGE",
        seed=task.task_id,
    )
    user = template.render(
        passage=passage,
        question=task.question,
        criteria=task.rubric.criteria,
        most=MOST_SHARED + 1,
        problem=problem,
    )
    return {"system": system, "user": user}


@cache
def _prompt() -> tuple[str, Template]:
    folder = resources.files("rubric_judge") / "prompts"
    system, user = (
        folder.joinpath(name).read_text(encoding="utf-8").rstrip("\n")
        for name in ("write_system_v1.txt", "write_v1.jinja")
    )
    return system, text_template(user, number="{:.12g}".format)


def _read(answer: ChatReply, task: Task) -> Mapping[Truth, str]:
    """Return both texts of a reply.

    Raises:
        _RefusedError: it cannot be used.
    """
    if answer.finish == "refused":
        raise _RefusedError("the model refused")
    if answer.finish in {"truncated", "full"}:
        raise _RefusedError("the reply was cut off: raise max_tokens")
    if len(answer.text) > _LONGEST_REPLY or answer.finish == "oversized":
        raise _RefusedError(f"the reply has more than {_LONGEST_REPLY} characters")
    try:
        pair = _Pair.model_validate(decode(answer.text))
    except (NotJsonError, ValidationError):
        raise _RefusedError('the reply is not {"right": "…", "false": "…"}') from None
    right = pair.right.strip()
    false = pair.false.strip()
    if is_blank(right) or is_blank(false):
        raise _RefusedError("one of them is empty", again=True)
    if right.split() == false.split():
        raise _RefusedError("both are the same", again=True)
    texts = (task.grounding.reveal(), task.reference_answer or "")
    if longest_shared_run(right, texts) > MOST_SHARED:
        problem = f"the right one repeats {MOST_SHARED + 1} or more words in a row of the passage"
        raise _RefusedError(f"{problem} or of the reference answer", again=True)
    return {Truth.RIGHT: right, Truth.FALSE: false}


def _answering(answer: ChatReply) -> str:
    return answer.answered_by.model if answer.answered_by else ""


def _author(model: str) -> str:
    """Return a model's name as an author's: its end, where it is too long."""
    try:
        if len(model) > LONGEST_NAME:
            model = f"…{model[1 - LONGEST_NAME :]}"
        return rater_name(model)
    except ValueError:
        return "a model"
