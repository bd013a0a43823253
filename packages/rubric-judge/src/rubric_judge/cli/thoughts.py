"""The option that says how thoughts are told from answers."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token
from pydantic import TypeAdapter, ValidationError

from rubric_core import Thoughts, ThoughtTags

_THOUGHTS: TypeAdapter[Thoughts] = TypeAdapter(Thoughts)


def _parse_thoughts(_type: object, tokens: Sequence[Token]) -> Thoughts:
    text = tokens[0].value
    if text.startswith("{"):
        return ThoughtTags.model_validate_json(text)
    try:
        return _THOUGHTS.validate_python(text)
    except ValidationError:
        raise ValueError(
            f"{text!r} is no way to tell thoughts from answers: give cut, opened or kept, or "
            'the tags as JSON, {"open": "<think>", "close": "</think>"}'
        ) from None


HowThoughts = Annotated[
    Thoughts,
    Parameter(
        converter=_parse_thoughts,
        n_tokens=1,
        negative=(),
        accepts_keys=False,
        json_dict=False,
        help="How thoughts are told from answers: `cut` by the tags that are known, `opened` where"
        " the prompt opens each, `kept` to judge the whole, or the tags as JSON.",
    ),
]
