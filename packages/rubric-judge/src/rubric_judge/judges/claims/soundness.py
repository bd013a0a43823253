"""Unsound sentences of an answer: those that say nothing, or disown what they say."""

import re
from collections.abc import Sequence
from dataclasses import replace

from rubric_judge.judges.claims import lexicon
from rubric_judge.judges.claims.order import Order, is_english, is_random, read_order
from rubric_judge.judges.claims.reading import Clause, tokens
from rubric_judge.judges.lexical.polarity import disowns_the_rest, opens_by_disowning
from rubric_judge.judges.lexical.scoring import echoes
from rubric_judge.judges.lexical.words import (
    FEW_WORDS,
    FUNCTION_WORDS,
    OUT_OF_ORDER,
    Sentence,
    read_sentences,
    repeated_share,
)

_MOST_JUMBLED = 0.5
"""Share of jumbled sentences from which an answer is not prose."""
_MOST_OUT_OF_ORDER = 0.25
"""The same for sentences whose words English does not allow in this order; two at least."""
_FEWEST = 4
"""Fewest words of a sentence."""
_FORMS = 4
"""Sentences needed to tell a form from chance."""
_MOST_REPEATED = 0.4
"""Share of three-word runs that recur in other sentences; no honest answer of 600 had .2."""
_LIST = 8
"""Short parts from which a sentence is a list; no honest answer of 489 had more than six."""
_OF_A_NAME = re.compile(lexicon.GRAMMAR["statements"]["of_a_name"])
"""Statement about a name, which is whole without a function word."""
_BETWEEN = re.compile(r"[,;]|\b(?:and|or)\b")
_REACH = 3
"""Farthest distance, in words, of a stated word from a function word or an end."""


def flaws_of(
    sentences: Sequence[str], claims: Sequence[str], *, question: str
) -> dict[int, str]:
    """Return why sentences can state no claim, by position.

    Words in a list or in no order name what a claim is about, and say nothing of it. "It is a myth
    that …" and "None of the following is right" take back what follows them. Where half of
    the sentences are not prose, or a quarter is out of order, none counts: the others look sound
    by chance. The same holds for one form that is filled with word after word, and a long list.

    Args:
        sentences: the sentences of an answer, in order.
        claims: the claims of the rubric; where one denies in these words too, a sentence may.
        question: the question; a sentence that repeats it states nothing.
    """
    parsed = [read_sentences(sentence) for sentence in sentences]
    if any(disowns_the_rest(part) for parts in parsed for part in parts):
        return dict.fromkeys(range(len(parsed)), "disowned")
    jumbled: dict[int, str] = {}
    orders = [read_order(sentence) for sentence in sentences]
    for place, parts in enumerate(parsed):
        jumble = _jumble(parts, orders[place])
        if jumble and not (jumble == FEW_WORDS and _OF_A_NAME.match(sentences[place])):
            jumbled[place] = jumble
    is_no_prose = is_random(orders) or _is_no_prose(
        list(jumbled.values()), of=len(parsed)
    )
    if is_no_prose or _is_one_form(parsed):
        no_prose = "in an answer that is no prose"
        return dict.fromkeys(range(len(parsed)), no_prose) | jumbled
    claim_parts = [part for claim in claims for part in read_sentences(claim)]
    flaws = _flaws_by_content(sentences, parsed, question)
    if not any(opens_by_disowning(part) for part in claim_parts):
        for place, parts in enumerate(parsed):
            if any(opens_by_disowning(part) for part in parts):
                flaws[place] = "disowned"
    return flaws | jumbled


def _flaws_by_content(
    sentences: Sequence[str], parsed: Sequence[Sequence[Sentence]], question: str
) -> dict[int, str]:
    """Return the flaws of headings, copies of the question and lists, by position."""
    flaws: dict[int, str] = {}
    for place, parts in enumerate(parsed):
        if all(_is_bare(part) for part in parts):
            flaws[place] = "too short"
    for place, parts in enumerate(parsed):
        if any(echoes(part, question) for part in parts):
            flaws[place] = "copied from the question"
    for place, sentence in enumerate(sentences):
        if _items(sentence) >= _LIST:
            flaws[place] = "a list"
    return flaws


def _is_no_prose(jumbled: Sequence[str], *, of: int) -> bool:
    out_of_order = jumbled.count(OUT_OF_ORDER)
    is_mixed = out_of_order >= max(2, _MOST_OUT_OF_ORDER * of)
    return is_mixed or len(jumbled) >= _MOST_JUMBLED * of


def _is_one_form(parsed: Sequence[Sequence[Sentence]]) -> bool:
    """Tell whether sentences are one form with other words put in: "This is about X, and …"."""
    # A sentence that occurs twice is not a form.
    distinct = {part.joined: part for parts in parsed for part in parts}
    return (
        len(distinct) >= _FORMS
        and repeated_share([*distinct.values()]) >= _MOST_REPEATED
    )


def _items(sentence: str) -> int:
    """Count the short parts of a list."""
    parts = (part.split() for part in _BETWEEN.split(sentence))
    return sum(0 < len(part) <= _FEWEST for part in parts)


def _is_bare(sentence: Sentence) -> bool:
    """Tell whether a sentence is a heading or a list item: few words, no end mark, no value."""
    bare_text = sentence.text.rstrip("\"')]*_ ")
    has_end = bare_text.endswith((".", "!", "?"))
    is_short = len(sentence.words) < _FEWEST and not has_end
    return is_short and not any(token.literal for token in tokens(sentence.text))


def _jumble(parts: Sequence[Sentence], order: Order) -> str:
    for part in parts:
        # "and of", "of at" and "`a` must" are out of order by their pair alone.
        is_pair = part.jumble == OUT_OF_ORDER
        if part.jumble and not (is_pair and is_english(order)):
            return part.jumble
    return OUT_OF_ORDER if is_random([order]) else ""


def framed(clause: Clause) -> Clause:
    """Drop words in the middle of a list, which says nothing of any of them; keep values.

    Args:
        clause: a clause of an answer.
    """
    if _OF_A_NAME.match(clause.text):
        return clause
    frames = [token.text.lower() in FUNCTION_WORDS for token in clause.tokens]
    frames.append(True)  # the end
    kept_tokens = tuple(
        token
        for place, token in enumerate(clause.tokens)
        if token.literal or any(frames[max(0, place - _REACH) : place + _REACH + 1])
    )
    if len(kept_tokens) == len(clause.tokens):
        return clause
    return replace(clause, tokens=kept_tokens)
