"""Words, function words and stems: the only linguistic knowledge of the lexical judge (English)."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from rubric_core.files import toml_beside

WORD = re.compile(r"\w+")

_TABLE = toml_beside(__file__, "words.toml")
FUNCTION_WORDS = frozenset(_TABLE["function_words"].split())

_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem under which forms of one word are equal: plural, -ed, -ing and final e.

    This light stemmer is written out here so that a score never depends on a library's version:
    "values" and "value", "computing" and "computed" meet; "convolve" and "convolution" do not.

    Args:
        word: one word; case is ignored.

    Returns:
        The stem in lower case, at least three letters long if the word is.
    """
    root = _without_tense(_without_plural(word.lower()))
    if root.endswith("e") and len(root) > _SHORTEST_STEM:
        return root[:-1]
    return root


def _without_plural(word: str) -> str:
    if (
        not word.endswith("s")
        or word.endswith(("ss", "us", "is"))
        or len(word) <= _SHORTEST_STEM
    ):
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_STEM + 1:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _without_tense(word: str) -> str:
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST_STEM and _VOWEL.search(root):
            doubled = root[-1] == root[-2] and root[-1] not in "lsz"
            return root[:-1] if doubled else root
    return word


# A full stop after one of these does not end a sentence.
_ABBREVIATIONS = "".join(
    rf"(?<!\b{word}\s)"
    for word in (r"e\.g\.", r"i\.e\.", r"cf\.", r"vs\.", r"al\.", r"Fig\.", r"Eq\.")
)
# The space comes first, and the text before it is checked afterwards: few characters are spaces.
_BOUNDARY = re.compile(
    rf"""\s(?:(?<=[.!?]\s){_ABBREVIATIONS}\s*|(?<=[.!?]["')\]”’]\s)\s*|(?<=\n)\n*)"""
)
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*•>#]+|\d+[.)])[ \t]+", re.MULTILINE)
_CLOSERS = "\"')]”’*_ "
_END_MARKS = frozenset(".!?")

_MIN_WORDS = 4
_MAX_WORDS = 45
_MIN_FUNCTION_SHARE = 0.15
_MAX_FUNCTION_SHARE = 0.75
_MIN_DISTINCT_SHARE = 0.6
_MIN_LETTER_SHARE = 0.75
_WORDS_PER_UNIT = 2
_FRAME_REACH = 3
"""Longest distance in words from a word in a frame to a function word or the end."""

_LONGEST_KEPT = 500
"""Characters; a longer text is no sentence, and a few of them would fill the memory."""


OUT_OF_ORDER = "words out of order"
"""Flaw of a sentence with an order of words that English does not allow."""
FEW_WORDS = "few function words"
"""Flaw of a sentence that may be a list of terms."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of a response, without backticks, list marks and surrounding space."""

    text: str
    words: tuple[str, ...]
    """Words, identifiers and numbers as written."""

    @cached_property
    def lowered(self) -> tuple[str, ...]:
        """The words in lower case."""
        return tuple(map(str.lower, self.words))

    @cached_property
    def exact(self) -> frozenset[str]:
        """The set of words as written."""
        return frozenset(self.words)

    @cached_property
    def folded(self) -> frozenset[str]:
        """The set of words in lower case."""
        return frozenset(self.lowered)

    @cached_property
    def joined(self) -> str:
        """The words in lower case between single spaces, so that `in` finds a phrase."""
        return f" {' '.join(self.lowered)} "

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the words in a frame; a mere list of words says nothing about them."""
        frames = [*map(FUNCTION_WORDS.__contains__, self.lowered), True]
        return frozenset(
            stem(word)
            for place, word in enumerate(self.words)
            if any(frames[max(0, place - _FRAME_REACH) : place + _FRAME_REACH + 1])
        )

    @cached_property
    def framed_runs(self) -> list[tuple[str, str, str]]:
        """Runs of three words that include a function word."""
        return [
            run for run in trigrams(self.lowered) if not FUNCTION_WORDS.isdisjoint(run)
        ]

    @cached_property
    def flaw(self) -> str | None:
        """The first reason why it does not read as prose: length, end mark, words, letters."""
        n_words = len(self.words)
        if not _MIN_WORDS <= n_words <= _MAX_WORDS:
            return "too short" if n_words < _MIN_WORDS else "too long"
        if self.text.rstrip(_CLOSERS)[-1:] not in _END_MARKS:
            return "no end mark"
        function_share = sum(map(FUNCTION_WORDS.__contains__, self.lowered)) / n_words
        if not _MIN_FUNCTION_SHARE <= function_share <= _MAX_FUNCTION_SHARE:
            few = function_share < _MIN_FUNCTION_SHARE
            return FEW_WORDS if few else "few other words"
        if len(self.folded) < _MIN_DISTINCT_SHARE * n_words:
            return "repeated words"
        letters = sum(map(_letters, self.words)) + self.text.count(" ")
        if letters < _MIN_LETTER_SHARE * len(self.text):
            return "few letters"
        return OUT_OF_ORDER if faults_of_order(self.text, self.lowered) else None

    @cached_property
    def jumble(self) -> str | None:
        """The reason why the words say nothing, whatever the end; None for a few words."""
        n_words = len(self.words)
        if n_words < _MIN_WORDS:
            return None
        function_words = sum(map(FUNCTION_WORDS.__contains__, self.lowered))
        if function_words < _MIN_FUNCTION_SHARE * n_words:
            return FEW_WORDS
        if len(self.folded) < _MIN_DISTINCT_SHARE * n_words:
            return "repeated words"
        return OUT_OF_ORDER if faults_of_order(self.text, self.lowered) else None

    @property
    def capacity(self) -> int:
        """Number of units that the sentence may earn: one for every two words."""
        return len(self.words) // _WORDS_PER_UNIT


def pieces(text: str) -> list[str]:
    """Split a text at end marks and line breaks, without other changes."""
    parts = [part.strip() for part in _BOUNDARY.split(text)]
    return [part for part in parts if part]


def read_sentences(text: str) -> list[Sentence]:
    """Split a text at end marks and line breaks.

    Args:
        text: a response.

    Returns:
        Its sentences in order; pieces without a word are dropped.
    """
    plain = _LIST_MARK.sub("", text.replace("`", ""))
    sentences: list[Sentence] = []
    for piece in pieces(plain):
        is_kept = len(piece) <= _LONGEST_KEPT
        sentence = _kept_sentence(piece) if is_kept else _read_sentence(piece)
        if sentence.words:
            sentences.append(sentence)
    return sentences


def _read_sentence(text: str) -> Sentence:
    return Sentence(text=text, words=tuple(WORD.findall(text)))


def _letters(word: str) -> int:
    return len(word) if word.isalpha() else sum(map(str.isalpha, word))


# Sentences that texts of one task share are read once: those of an echo and its question, of an
# answer and a copy with a part left out.
_kept_sentence = lru_cache(maxsize=512)(_read_sentence)


def trigrams(words: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Return every run of three words, in order."""
    return list(zip(words, words[1:], words[2:], strict=False))


def repeated_share(sentences: list[Sentence]) -> float:
    """Return the share of three-word runs that occurred before.

    Args:
        sentences: the whole response, well formed or not.

    Returns:
        A share in [0, 1); 0 for a text without repetition or shorter than three words.
    """
    runs = trigrams(tuple(word for sentence in sentences for word in sentence.lowered))
    if not runs:
        return 0.0
    return 1 - len(set(runs)) / len(runs)


# Any order of a sentence's words contains the same terms, but few orders mean anything. Articles,
# prepositions and auxiliaries are few, and most pairs of them never meet: "the of", "is the was".
_END = "."
_FORBIDDEN = frozenset(
    (first, second)
    for row in _TABLE["never_followed"]
    for first in row["first"].split()
    for second in row["second"].split()
)
_OPENING = re.compile(
    r"(?<=[a-z,] )(?:An|And|Another|As|But|For|From|If|In|It|Its|Of|On|The|Then|There|These|They"
    r"|This|To|We|When|Where|Which|With|You)(?= [a-z(])"
)
_CROSSED = re.compile(r"^[^(]*\)[^)]*\(")

_NAMED_BY = frozenset(_TABLE["named_by"].split())


def faults_of_order(text: str, words: tuple[str, ...]) -> int:
    """Count faults in the order of a sentence's words.

    Args:
        text: one sentence.
        words: its words, in lower case.

    Returns:
        The number of pairs of neighbours (the last word and the end included) that English does not
        allow, plus openings of a sentence inside this one, plus 1 for crossed parentheses.
    """
    if len(words) > 1 and words[-2] in _NAMED_BY:
        words = words[:-1]  # "… after the keyword if."
    crossed = _CROSSED.match(text) is not None and text.count("(") == text.count(")")
    openings = len(_OPENING.findall(text))
    pairs = pairwise((*words, _END))
    return sum(map(_FORBIDDEN.__contains__, pairs)) + openings + crossed
