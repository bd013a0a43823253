"""The price of asking the strong judge of a group's cascade."""

from collections.abc import Sequence

from rubric_core import JudgeView
from rubric_judge.config import CascadeConfig, HybridConfig, JudgeConfig
from rubric_judge.judges.cascade.value import Costs

_PROMPT_CHARS = 2500
"""Instructions of a judge's prompt."""
_REPLY_CHARS = 150
"""Score and words on one criterion in a judge's reply."""


def strong_costs(config: CascadeConfig, views: Sequence[JudgeView]) -> Costs:
    """Return what asking the strong judge costs: a call, and each criterion in it.

    A judge that asks for each criterion in a call of its own shares all that comes before it: only
    criteria count. One that asks for several at once pays its prompt in every call, in characters.
    Any other is taken to be paid by call.

    Args:
        config: the cascade's.
        views: the group; their mean length counts.
    """
    spec = config.judges[-1]
    reader = spec.judge if isinstance(spec, HybridConfig) else spec
    if not isinstance(reader, JudgeConfig):
        return Costs(call=1, cell=0)
    if reader.granularity != "rubric":
        return Costs(call=0, cell=1)
    view = views[0]
    response = sum(len(asked.response) for asked in views) / len(views)
    passage = min(len(view.grounding.reveal()), reader.passage_chars)
    sizes = [
        len(criterion.model_dump_json())
        for criterion in view.rubric
        if criterion.weight
    ]
    return Costs(
        call=_PROMPT_CHARS + passage + len(view.question) + response,
        cell=sum(sizes) / len(sizes) + _REPLY_CHARS,
    )
