"""OpenRLHF's remote reward: its queries and labels read, its rewards written.

OpenRLHF decodes prompt and response together, with special tokens, so the prompt is cut off here;
a label, the only other column that it sends, says which task the response answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from rubric_core import JudgeResult, JudgeView, Outcome, SchemaError, Task, normalized_reward
from rubric_core.errors import RepeatedKeyError
from rubric_core.strict_json import decode
from rubric_core.task import TaskRow
from rubric_judge.serve.config import OnUnavailable
from rubric_judge.serve.refusal import RefusedError
from rubric_judge.serve.schemas import RewardRequest, RewardResponse
from rubric_judge.serve.service import JudgeService

__all__ = ["response_of", "reward_response", "reward_views"]

_LONGEST_END_TOKEN = 48
_END_TOKEN = re.compile(r"<(?:[|｜][^<>|｜\s]{1,40}[|｜]|/?s|eos|pad|unk|end_of_turn)>\Z")
_RETRY_AFTER_S = 1


def response_of(query: str, prompt: str) -> str | None:
    """Return what follows the prompt, without the special tokens that end it.

    A prompt longer than the model's window was cut from its left, so its longest end that the
    query starts with is taken off. Nothing is searched for further inside: a response that repeats
    its prompt must not hide what stands before.

    Args:
        query: prompt and response, decoded together.
        prompt: the prompt, whole.

    Returns:
        The response, or None if the query does not start with the prompt.
    """
    start = _overlap(query, prompt)
    if start is None:
        return None
    response = query[start:].rstrip()
    while found := _END_TOKEN.search(response[-_LONGEST_END_TOKEN:]):
        response = response[: len(response) - len(found[0])].rstrip()
    return response.lstrip()


def _overlap(query: str, prompt: str) -> int | None:
    if query.startswith(prompt):
        return len(prompt)
    # Knuth, Morris and Pratt's table over query + prompt ends with the longest overlap.
    text = f"{query[: len(prompt)]}\ud800{prompt}"  # a lone surrogate stands in neither
    borders = [0] * len(text)
    for position in range(1, len(text)):
        border = borders[position - 1]
        while border and text[position] != text[border]:
            border = borders[border - 1]
        borders[position] = border + (text[position] == text[border])
    return borders[-1] or None


def reward_views(service: JudgeService, request: RewardRequest) -> list[JudgeView]:
    """Return what the judge will see of each query.

    Raises:
        RefusedError: lists of different lengths, a query that does not start with its prompt, or
            a label that names no task.
    """
    lengths = {len(request.query), len(request.prompts), len(request.labels)}
    if len(lengths) > 1:
        raise RefusedError(
            "invalid_request",
            "query, prompts and labels have different lengths: send one of each for a response",
            field="labels",
        )
    service.check_items(len(request.query))
    views: list[JudgeView] = []
    rows = zip(request.query, request.prompts, request.labels, strict=True)
    for position, (query, prompt, label) in enumerate(rows):
        task = _task(service, label, field=f"labels.{position}")
        response = response_of(query, prompt)
        if response is None:
            raise RefusedError(
                "invalid_request",
                "the query does not start with its prompt, so the response is not known: send "
                "both with the same chat template applied",
                field=f"query.{position}",
            )
        views.append(task.judge_view(response))
    return views


def _task(service: JudgeService, label: JsonValue, *, field: str) -> Task:
    decoded = _decoded(label) if isinstance(label, str) else label
    if isinstance(decoded, str):
        return service.task(decoded, field=field)
    if isinstance(decoded, dict):
        row = cast("dict[str, object]", decoded)
        if isinstance(task_id := row.get("task_id"), str):
            return service.task(task_id, field=field)
        try:
            return service.inline_task(TaskRow.model_validate(row), field=field)
        except SchemaError as error:
            raise RefusedError(
                "invalid_request",
                f"the label is no task: {error}",
                field=f"{field}.{error.field}" if error.field else field,
            ) from None
    raise RefusedError(
        "invalid_request",
        'a label is a task id, or {"task_id": …}, or a task in the paper\'s JSON; set '
        "--data.label_key to the column that holds it",
        field=field,
    )


def _decoded(label: str) -> object:
    if not label.lstrip().startswith("{"):
        return label
    try:
        return decode(label)
    except (json.JSONDecodeError, RepeatedKeyError, RecursionError):
        return None


def reward_response(
    views: Sequence[JudgeView],
    results: Sequence[JudgeResult],
    *,
    on_unavailable: OnUnavailable,
) -> RewardResponse:
    """Write the rewards as OpenRLHF reads them.

    It has no way to leave a sample out: a missing reward ends the training run. So a response that
    could not be judged is asked for again, or gets 0 with a mark, as configured.

    Raises:
        RefusedError: a judgement is unavailable and `on_unavailable` is `retry`.
    """
    missing = [result for result in results if result.outcome is Outcome.UNAVAILABLE]
    if missing and on_unavailable == "retry":
        raise RefusedError(
            "unavailable",
            f"{len(missing)} of {len(results)} responses could not be judged "
            f"({missing[0].reason}): ask again",
            retry_after_s=_RETRY_AFTER_S,
        )
    rewards = [
        0.0 if result.outcome is Outcome.UNAVAILABLE else normalized_reward(result, view.rubric)
        for view, result in zip(views, results, strict=True)
    ]
    logs = {
        f"judge_{outcome.value}": [float(result.outcome is outcome) for result in results]
        for outcome in Outcome
    }
    # OpenRLHF makes a tensor of [value] for its one query: a list would give it an axis too many.
    if len(results) == 1:
        return RewardResponse(
            rewards=rewards[0],
            scores=rewards[0],
            extra_logs={name: values[0] for name, values in logs.items()},
        )
    return RewardResponse(rewards=rewards, scores=rewards, extra_logs=dict(logs))
