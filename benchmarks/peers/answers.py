"""What the endpoint of `judge_throughput.py` answers: full marks, in the form of each library."""

import json

from rubric_judge.testing import FakeCall

__all__ = ["CRITERIA", "answer"]

CRITERIA = 5
_REASON = "The response states the figure from the second paragraph and cites it, so it holds."


def _items(**fields: str) -> list[dict[str, object]]:
    return [
        {key: value.replace("#", str(number)) for key, value in fields.items()}
        for number in range(CRITERIA)
    ]


_TEXTS = {
    "plain": {
        "scores": [
            {"criterion_id": f"fact_{number}", "awarded": 1.0, "reason": _REASON}
            for number in range(CRITERIA)
        ]
    },
    "item": {
        "judgments": [
            {**one, "selected_option": None}
            for one in _items(
                criterion_id="c#", criterion_status="MET", explanation=_REASON
            )
        ]
    },
    "oneshot": {
        "criteria_evaluations": [
            {
                "criterion_number": number + 1,
                "criterion_status": "MET",
                "explanation": _REASON,
            }
            for number in range(CRITERIA)
        ]
    },
    "verdicts": {"verdicts": _items(name="fact_#", reason=_REASON, verdict="yes")},
}
_BY_MODEL = {model: json.dumps(reply) for model, reply in _TEXTS.items()}


def answer(call: FakeCall) -> str:
    """Return the reply that the calling library expects, known by its model name."""
    model = str(call.body["model"])
    if model in _BY_MODEL:
        return _BY_MODEL[model]
    scores = dict(call.weights)
    total = sum(scores.values())
    reasoning = " ".join([_REASON] * CRITERIA)
    return json.dumps(
        {"reasoning": reasoning, "scores": scores, "total": total, "max_total": total}
    )
