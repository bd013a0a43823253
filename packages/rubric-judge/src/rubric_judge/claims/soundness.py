"""Sentences of an answer that say nothing, or say that what they hold is wrong."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rubric_judge.claims.reading import Clause, tokens
from rubric_judge.lexical.polarity import disowns_the_rest, opens_by_disowning
from rubric_judge.lexical.scoring import echoes
from rubric_judge.lexical.words import (
    FUNCTION_WORDS,
    OUT_OF_ORDER,
    Sentence,
    read_sentences,
    repeated_share,
)

_MOST_JUMBLED: Final = 0.5
"""Share of sentences from which an answer is no prose."""
_MOST_OUT_OF_ORDER: Final = 0.25
"""The same, of sentences whose words English does not allow in this order: two at least."""
_FEWEST: Final = 4
"""Words of a sentence."""
_FORMS: Final = 4
"""Sentences in which a form is told from chance."""
_MOST_REPEATED: Final = 0.4
"""Share of three-word runs that other sentences have too; of 600 honest answers none had .2."""
_LIST: Final = 8
"""Short parts from which a sentence is a list; of 489 honest answers none had more than six."""
_BETWEEN: Final = re.compile(r"[,;]|\b(?:and|or)\b")
_REACH: Final = 3
"""A word that is said stands at most so many words away from a function word or an end."""


def flaws_of(
    sentences: Sequence[str], claims: Sequence[str], *, question: str
) -> dict[int, str]:
    """Say which sentences can state no claim, and why: by position.

    Words in a list or in no order name what a claim is about, and say nothing of it. "It is a myth
    that …" and "None of the following is right" take back what stands behind them. Where half of
    the sentences are no prose, or a quarter is out of order, none counts: the others came out as
    one by chance. No more does one form that is filled with word after word, or a long list.

    Args:
        sentences: of an answer, in order.
        claims: of its rubric; where one denies in these words too, a sentence may.
        question: what was asked; to give it back states nothing.
    """
    read = [read_sentences(sentence) for sentence in sentences]
    if any(disowns_the_rest(part) for parts in read for part in parts):
        return dict.fromkeys(range(len(read)), "disowned")
    jumbled = {
        place: why for place, parts in enumerate(read) if (why := _jumble(parts))
    }
    if _is_no_prose(list(jumbled.values()), of=len(read)) or _is_one_form(read):
        return (
            dict.fromkeys(range(len(read)), "in an answer that is no prose") | jumbled
        )
    bare = (place for place, parts in enumerate(read) if all(map(_is_bare, parts)))
    lists = (place for place, one in enumerate(sentences) if _items(one) >= _LIST)
    echo = (
        i
        for i, parts in enumerate(read)
        if any(echoes(part, question) for part in parts)
    )
    listed = dict.fromkeys(lists, "a list")
    short = dict.fromkeys(bare, "too short") | dict.fromkeys(
        echo, "copied from the question"
    )
    if any(
        opens_by_disowning(part) for claim in claims for part in read_sentences(claim)
    ):
        return short | listed | jumbled
    disowned = (
        place for place, parts in enumerate(read) if any(map(opens_by_disowning, parts))
    )
    return short | listed | dict.fromkeys(disowned, "disowned") | jumbled


def _is_no_prose(jumbled: Sequence[str], *, of: int) -> bool:
    out_of_order = jumbled.count(OUT_OF_ORDER)
    is_mixed = out_of_order >= max(2, _MOST_OUT_OF_ORDER * of)
    return is_mixed or len(jumbled) >= _MOST_JUMBLED * of


def _is_one_form(read: Sequence[Sequence[Sentence]]) -> bool:
    """Tell whether sentences are one form with other words put in: "This is about X, and …"."""
    parts = {
        part.joined: part for of in read for part in of
    }  # one said twice is no form
    return len(parts) >= _FORMS and repeated_share([*parts.values()]) >= _MOST_REPEATED


def _items(sentence: str) -> int:
    """Count the short parts of a list."""
    parts = (part.split() for part in _BETWEEN.split(sentence))
    return sum(0 < len(part) <= _FEWEST for part in parts)


def _is_bare(sentence: Sentence) -> bool:
    """Tell whether this is a heading or an item of a list: a few words without an end, no value."""
    ends = sentence.text.rstrip("\"')]*_ ").endswith((".", "!", "?"))
    is_short = len(sentence.words) < _FEWEST and not ends
    return is_short and not any(token.literal for token in tokens(sentence.text))


def _jumble(parts: Sequence[Sentence]) -> str:
    return next((part.jumble for part in parts if part.jumble), "")


def framed(clause: Clause) -> Clause:
    """Leave out words in the middle of a list, which says nothing of any of them; values stay.

    Args:
        clause: of an answer.
    """
    frames = [*(token.text.lower() in FUNCTION_WORDS for token in clause.tokens), True]
    kept = tuple(
        one
        for place, one in enumerate(clause.tokens)
        if one.literal or any(frames[max(0, place - _REACH) : place + _REACH + 1])
    )
    return clause if len(kept) == len(clause.tokens) else replace(clause, tokens=kept)
