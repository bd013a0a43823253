"""What a criterion looks for, compiled: exact terms, phrases and stems in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from rubric_judge.lexical.sentences import Sentence
from rubric_judge.lexical.words import FUNCTION_WORDS, WORD, stem

SentenceTest = Callable[[Sentence], bool]

_IDENTIFIER = re.compile(r"\S*[A-Z_]\S*")


def exact_term(term: str) -> SentenceTest:
    """Look for a required element: whole words, as written.

    Args:
        term: a word, an identifier, a phrase or a formula. One that holds no space and has a
            capital or an underscore is an identifier, and its case matters.

    Returns:
        The test of one sentence.
    """
    plain = " ".join(term.replace("`", "").split())
    is_identifier = _IDENTIFIER.fullmatch(plain) is not None
    if WORD.fullmatch(plain):
        folded = plain.lower()
        if is_identifier:
            return lambda sentence: plain in sentence.exact
        return lambda sentence: folded in sentence.folded
    if all(WORD.fullmatch(word) for word in plain.split()):
        phrase = f" {plain.lower()} "
        return lambda sentence: phrase in sentence.joined
    before = r"(?<!\w)" if WORD.match(plain) else ""
    after = r"(?!\w)" if WORD.match(plain[-1]) else ""
    spaced = r"\s+".join(map(re.escape, plain.split()))
    search = re.compile(
        before + spaced + after, re.NOFLAG if is_identifier else re.IGNORECASE
    ).search
    return lambda sentence: search(sentence.text) is not None


def stemmed_term(term: str) -> SentenceTest:
    """Look for a keyword or a concept: the stems of its content words, in one sentence.

    Args:
        term: one or more words; function words in a phrase do not have to occur.

    Returns:
        The test of one sentence.
    """
    words = WORD.findall(term)
    if not words:
        return exact_term(term)
    content = [word for word in words if word.lower() not in FUNCTION_WORDS] or words
    needed = frozenset(map(stem, content))
    return lambda sentence: needed <= sentence.stems


@lru_cache(maxsize=1024)  # directives name the same few words in rubric after rubric
def word_or_identifier(term: str) -> SentenceTest:
    """Look for a word of a directive: an identifier exactly, any other word in all its forms."""
    return exact_term(term) if _IDENTIFIER.fullmatch(term) else stemmed_term(term)
