"""A model that costs next to nothing: one template with words of the document, for benchmarks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from rubric_synth.testing.prompted import asked_for

if TYPE_CHECKING:
    from rubric_judge.testing import FakeCall

_TITLE: Final = "\nTitle: "
_LONG_WORD: Final = re.compile(r"\b[a-z]{6,}\b")
_READ_CHARS: Final = 1_500
_TITLE_WORDS: Final = 5
_CRITERIA: Final = ("core_mechanism", "limiting_factor", "observable_effect", "control", "caveat")
_TERMS: Final = 3
"""Words of the document that each criterion asks for."""
_ASKED: Final = 2
"""And further ones that the question names."""
_NEEDED: Final = _TERMS * len(_CRITERIA) + _ASKED

_ANALYSIS: Final = json.dumps(
    {
        "genre": "technical report",
        "contribution": "It explains how the parts of a process depend on each other.",
        "concepts": ["dependence", "limits"],
        "depth": "advanced",
        "reasoning_mode": "causal",
    }
)
_ENRICHMENT: Final = json.dumps(
    {
        "criteria": [
            {
                "id": name,
                "cues": {
                    "full_credit": "Every term is there and the connection is right.",
                    "partial_credit": "A term is missing.",
                    "no_credit": "The connection is wrong or not there.",
                },
                "expected_keywords": [],
                "expected_concepts": [],
                "verification_patterns": ["one sentence with all terms"],
            }
            for name in _CRITERIA
        ]
    }
)
_CLAIMS: Final = (
    "The {} begins at the {} and spreads from there into the {}.",
    "What limits it most is the {}, because neither {} nor {} can take its place.",
    "An increase of the {} is seen first in the {} and much later in the {}.",
    "Operators keep the {} steady by changing the {} before they touch the {}.",
    "None of this holds once the {} fails, since {} would then act against the {}.",
)
_QUESTION: Final = (
    "Which connection of cause and effect governs {title}, how far does it reach, and under which "
    "conditions does the part that {} plays beside {} cease to matter?"
)


def _template() -> str:
    """Return the reply of stage 2 with `%(title)s` and `%(w0)s`, `%(w1)s` … in it."""
    slots = [f"%(w{number})s" for number in range(_NEEDED)]
    asked = slots[-_ASKED:]
    criteria = [
        _criterion(name, weight, slots[_TERMS * number :][:_TERMS])
        for number, (name, weight) in enumerate(zip(_CRITERIA, (3, 2, 2, 1, 2), strict=True))
    ]
    claims = [
        claim.format(*slots[_TERMS * number :][:_TERMS]) for number, claim in enumerate(_CLAIMS)
    ]
    draft = {
        "question_rationale": "The parts have to be put into an order of cause and effect.",
        "first_paragraph": 1,
        "last_paragraph": 1,
        "question": _QUESTION.format(*asked, title="%(title)s"),
        "criteria": criteria,
        "reference_answer": " ".join(claims),
    }
    return json.dumps({"drafts": [draft]})


def _criterion(name: str, weight: float, slots: list[str]) -> dict[str, object]:
    return {
        "id": name,
        "name": name.replace("_", " ").capitalize(),
        "description": f"The answer says what {name.replace('_', ' ')} there is.",
        "required_elements": slots[:1],
        "expected_keywords": slots[1:],
        "verification_method": "Look for one sentence that connects the terms.",
        "scoring_guide": "In proportion to the terms that are connected.",
        "weight": weight,
    }


_SYNTHESIS: Final = _template()
_REPLIES: Final = {
    "_Ready": '{"ready": true}',
    "AnalysisReply": _ANALYSIS,
    "EnrichmentReply": _ENRICHMENT,
}


def template_reply(call: FakeCall) -> str:
    """Answer a stage with a template: an `Award` for `FakeEndpoint` of little work.

    The document needs some twenty different long words at its beginning, as generated ones have.

    Raises:
        ValueError: Something else is asked, or the document has too few words.
    """
    asked = asked_for(call.body)
    if asked in _REPLIES:
        return _REPLIES[asked]
    if asked != "SynthesisReply":
        raise ValueError(f"{asked!r} is asked for, which is no stage of open synthesis")
    message = call.messages[-1]["content"]
    start = message.index(_TITLE) + len(_TITLE)
    end = message.index("\n", start)
    title = message[start:end].split()
    found = _LONG_WORD.findall(message, end, end + _READ_CHARS)
    words = [word for word in dict.fromkeys(found) if word not in title][:_NEEDED]
    if len(words) < _NEEDED:
        raise ValueError(f"{len(words)} different long words at the beginning, {_NEEDED} needed")
    named = " ".join([*title[: _TITLE_WORDS - 1], title[-1]])
    slots = {f"w{number}": word for number, word in enumerate(words)}
    return _SYNTHESIS % {"title": json.dumps(named)[1:-1], **slots}
