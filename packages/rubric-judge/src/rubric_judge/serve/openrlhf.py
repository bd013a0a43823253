"""OpenRLHF's remote reward over HTTP: the same labels, responses and logs as its adapter's."""

from collections.abc import Sequence

from rubric_core import ConfigError, JudgeResult, JudgeView, Outcome, SchemaError
from rubric_judge.adapters import openrlhf, scoring
from rubric_judge.adapters.rows import label_row
from rubric_judge.serve.config import OnUnavailable
from rubric_judge.serve.schemas import RefusedError, RewardRequest, RewardResponse
from rubric_judge.serve.service import JudgeService

_RETRY_AFTER_S = 1


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
        try:
            answer = openrlhf.answer_in(query, prompt, service.config.thoughts)
            view = service.tasks.view(
                label_row(label),
                prompt=prompt,
                response=answer,
            ).of_answer()
        except ConfigError:
            # Its message holds the label, which may be anything where `label_key` is wrong.
            raise RefusedError(
                "unknown_task",
                "no task has the label's id, and the label has no column 'rubric' or "
                "'criteria': set --data.label_key to the column with the task ids",
                field=f"labels.{position}",
            ) from None
        except SchemaError as error:
            field = "query" if error.field == "queries" else "labels"
            raise RefusedError(
                "invalid_request", str(error), field=f"{field}.{position}"
            ) from None
        views.append(view)
    return views


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
    judged = [
        scoring.Judgement(*pair, "zero") for pair in zip(views, results, strict=True)
    ]

    def shaped(values: list[float]) -> float | list[float]:
        # OpenRLHF makes a tensor of [value] for one query: a list would give it an axis too many.
        return values[0] if len(values) == 1 else values

    rewards = shaped([judgement.reward or 0.0 for judgement in judged])
    logs = {
        name: shaped(values) for name, values in scoring.metric_columns(judged).items()
    }
    return RewardResponse(rewards=rewards, scores=rewards, extra_logs=logs)
