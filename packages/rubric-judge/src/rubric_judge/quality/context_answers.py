"""Answers copied from a context by rule: what looking up earns without understanding.

A policy that is shown a context has learned something if it earns more than these. `rubric-synth
stats` and `rubric-eval heldout --controls` both make them here.
"""

import math
from collections import Counter
from collections.abc import Sequence

from rubric_core import Section
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, WORD, pieces, stem

START_WORDS = 80
"""Length of the control that begins at the context's start: that of a short answer."""
SENTENCES = 3
_K1 = 1.5
_B = 0.75


def context_start(context: Sequence[Section]) -> str:
    """Return the first words of a context, whose texts are read without their headings."""
    words = " ".join(section.text for section in context).split()
    return " ".join(words[:START_WORDS])


def nearest_sentences(question: str, context: Sequence[Section]) -> str:
    """Return the sentences of a context that are nearest to a question by BM25, in their order.

    Args:
        question: the question; its words are compared by stem, without function words.
        context: the context; its sentences are the documents of the formula. Among equally near
            ones the first are taken.
    """
    distinct: dict[str, None] = {}
    for section in context:
        distinct.update(dict.fromkeys(pieces(section.text)))
    sentence_texts = list(distinct)
    terms = [_terms(sentence) for sentence in sentence_texts]
    mean = sum(map(len, terms)) / max(len(terms), 1)
    holding = Counter(term for sentence in terms for term in set(sentence))
    asked = set(_terms(question))

    def nearness(place: int) -> float:
        counts = Counter(terms[place])
        norm = _K1 * (1 - _B + _B * len(terms[place]) / mean) if mean else 1.0
        return sum(
            math.log1p((len(terms) - holding[term] + 0.5) / (holding[term] + 0.5))
            * counts[term]
            / (counts[term] + norm)
            for term in sorted(asked & counts.keys())
        )

    best = sorted(
        range(len(sentence_texts)), key=lambda place: (-nearness(place), place)
    )[:SENTENCES]
    return " ".join(sentence_texts[place] for place in sorted(best))


def _terms(text: str) -> list[str]:
    return [
        stem(word) for word in WORD.findall(text) if word.lower() not in FUNCTION_WORDS
    ]
