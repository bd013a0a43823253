"""OpenRLHF's remote reward over HTTP: the same labels, responses and logs as its adapter's."""

from collections.abc import Iterator, Sequence
from typing import cast

from rubric_core import ConfigError, Outcome, SchemaError
from rubric_core.traces.recorded import recorded_trace
from rubric_core.traces.views import answer_view
from rubric_judge.adapters import openrlhf, scoring
from rubric_judge.adapters.rows import label_row
from rubric_judge.quality.responses import JudgedResponse
from rubric_judge.quality.trajectories import Submitted, views_in
from rubric_judge.serve.config import OnUnavailable
from rubric_judge.serve.schemas import RefusedError, RewardRequest, RewardResponse
from rubric_judge.serve.service import JudgeService

_RETRY_AFTER_S = 1
_FIELDS = {"queries": "query", "prompts": "prompts"}
"""Fields of a request by the names in errors; all others are of the label."""


def reward_submitted(service: JudgeService, request: RewardRequest) -> list[Submitted]:
    """Return what is judged of each query.

    Raises:
        RefusedError: lists of different lengths, a query that does not start with its prompt, a
            trajectory that is not read, or a label that names no task; or trajectories with too
            many parts to judge.
    """
    lengths = {len(request.query), len(request.prompts), len(request.labels)}
    if len(lengths) > 1:
        raise RefusedError(
            "invalid_request",
            "query, prompts and labels have different lengths: send one of each for a response",
            field="labels",
        )
    service.check_items(len(request.query))
    return service.collected(_each_submitted(service, request))


def _each_submitted(
    service: JudgeService, request: RewardRequest
) -> Iterator[Submitted]:
    rows = zip(request.query, request.prompts, request.labels, strict=True)
    for position, (query, prompt, label) in enumerate(rows):
        try:
            if isinstance(query, str):
                yield _of_text(service, query, prompt, label)
            else:
                yield _of_trajectory(service, query, prompt, label)
        except ConfigError:
            # Its message holds the label, which may be anything where `label_key` is wrong.
            raise RefusedError(
                "unknown_task",
                "no task has the label's id, and the label has no column 'rubric' or "
                "'criteria': set --data.label_key to the column with the task ids",
                field=f"labels.{position}",
            ) from None
        except SchemaError as error:
            field = _FIELDS.get(error.field or "", "labels")
            raise RefusedError(
                "invalid_request", str(error), field=f"{field}.{position}"
            ) from None


def _of_text(
    service: JudgeService, query: str, prompt: object, label: object
) -> Submitted:
    if not isinstance(prompt, str):
        raise SchemaError(
            "the query is a text and its prompt is none: send both as texts, or the query as "
            "messages",
            field="prompts",
        )
    answer = openrlhf.answer_in(query, prompt, service.config.thoughts)
    view = service.tasks.view(label_row(label), prompt=prompt, response=answer)
    return Submitted(0, answer_view(view))


def _of_trajectory(
    service: JudgeService, query: object, prompt: object, label: object
) -> Submitted:
    """Return what is judged of a query that is a trajectory, with its prompt or after it."""
    before = cast("list[object]", prompt if isinstance(prompt, list) else [])
    trajectory = query
    if isinstance(query, list):
        items = cast("list[object]", query)
        is_whole = items[: len(before)] == before
        trajectory = items[len(before) :] if is_whole else items
    try:
        read = recorded_trace(
            trajectory, prompt=before, thoughts=service.config.thoughts, cut=True
        )
    except SchemaError as error:
        raise SchemaError(str(error), field="queries") from None
    asked = before or cast("object", prompt)
    view = service.tasks.view(
        label_row(label), prompt=asked, response=read.trace.answer
    )
    service.check_turns(view.rubric, read.trace)
    return Submitted(0, views_in(view, read), read)


def reward_response(
    rows: Sequence[JudgedResponse],
    *,
    on_unavailable: OnUnavailable,
) -> RewardResponse:
    """Write the rewards as OpenRLHF reads them.

    It has no way to leave a sample out: a missing reward ends the training run. So a response that
    could not be judged is asked for again, or gets 0 with a mark, as configured.

    Raises:
        RefusedError: a judgement is unavailable and `on_unavailable` is `retry`.
    """
    missing = [row.result for row in rows if row.result.outcome is Outcome.UNAVAILABLE]
    if missing and on_unavailable == "retry":
        raise RefusedError(
            "unavailable",
            f"{len(missing)} of {len(rows)} responses could not be judged "
            f"({missing[0].reason}): ask again",
            retry_after_s=_RETRY_AFTER_S,
        )
    judged = [scoring.Judgement(row.view, row.result, "zero") for row in rows]

    def shaped(values: list[float]) -> float | list[float]:
        # OpenRLHF makes a tensor of [value] for one query: a list would give it an axis too many.
        return values[0] if len(values) == 1 else values

    rewards = shaped([judgement.reward or 0.0 for judgement in judged])
    logs = {
        name: shaped(values) for name, values in scoring.metric_columns(judged).items()
    }
    return RewardResponse(rewards=rewards, scores=rewards, extra_logs=logs)
