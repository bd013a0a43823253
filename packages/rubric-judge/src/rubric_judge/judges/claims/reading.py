"""Clauses of a text, with their words, denials, values and names."""

import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from rubric_judge.judges.claims import lexicon
from rubric_judge.judges.lexical.words import FUNCTION_WORDS, stem

_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)[\"')\]]*\s+(?=[\"'(\[`$]*[\w`$'-])|\n+"
)
_WRAPPED = re.compile(
    r"^([^\n]{39,}[^\s.!?:;|])[ \t]*\n(?=[ \t]*[\w`(\"'$])(?![ \t]*\d+[.)]\s)",
    re.MULTILINE,
)
"""A line that is long, ends no sentence, and goes on in the next."""
_CLAUSE_END = re.compile(
    r"[;:—]\s|,\s(?=but\b)|,?\s(?=(?:whereas|while|although|though|unless)\b)"
    r"|,\s(?=(?:and|or|so|because|since|which|if|when|in which|for which|where|yet|not)\b)"
)
_TOKEN = re.compile(
    r"(?P<quoted>(?<!\w)'[\w./+-]{1,20}'(?!\w)|\"[\w./+-]{1,20}\")"
    r"|(?P<option>(?<![\w-])--?[A-Za-z][\w-]*)"
    r"|(?P<prefix>(?<![\w.])0[xob](?![\da-fA-F]))"
    r"|(?P<number>(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s?[×x*]\s?10\^?[{]?[-−]?\d+[}]?)?)"
    r"|(?P<word>[A-Za-z_][\w']*(?:\.\w+)*)"
)
_NEGATIONS = frozenset(
    f"{lexicon.GRAMMAR['negations']} {lexicon.GRAMMAR['implicatives']}".split()
)
_WITH_TO = frozenset(lexicon.GRAMMAR["with_to"].split())
_TO = re.compile(r"\s+to\b")
_OF = re.compile(r"\s+of\b")
_CLAUSE_WORDS = frozenset(lexicon.GRAMMAR["clause_words"].split())
_OPENINGS = _CLAUSE_WORDS | {"unlike", "without"}
"""Words that open a part of a sentence that ends at the next comma, as does a denial in it."""
_NUMBERS = {word: float(n) for n, word in enumerate(lexicon.GRAMMAR["numbers"].split())}
_PHRASES = {
    phrase: word
    for word, phrases in lexicon.GRAMMAR["phrases"].items()
    for phrase in phrases
}
_PHRASE = re.compile(rf"\b(?:{'|'.join(_PHRASES)})\b", re.IGNORECASE)
_LITERALS = frozenset({"True", "False", "None", "NaN", "nan", "inf", "infinity", "Inf"})
_NEED = "need"
"""The one verb that a denial behind it denies: what need not be is not needed."""
_CONTRAST = "insteadof"
_REACH = 7
"""Number of words that a denial reaches over."""
_LATEX = re.compile(r"\\(?:text|mathrm|rm)\b|[{}$\\]")
_VALUES = frozenset[object]({"a value"})
_MOST_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Token:
    """One word or value."""

    root: str
    """Its stem, or the value in a plain form."""
    text: str
    """The word as written."""
    weight: float
    """Weight of the word, in [0, 1]."""
    denied: bool
    """Whether a denial stands before the word in its clause."""
    number: float | None = None
    """Numeric value of the word, where it is a number."""
    literal: bool = False
    """Whether the word is a value without a paraphrase: a number, a string, True."""

    replaced: bool = False
    """Whether "instead of" stands before the word in its clause."""
    keys: frozenset[object] = frozenset()
    """Look-up keys; a word of the same meaning shares at least one."""


@dataclass(frozen=True)
class Clause:
    """Part of a sentence that says one thing."""

    text: str
    tokens: tuple[Token, ...]
    sentence: int
    """Position of the clause's sentence."""
    names: frozenset[str] = frozenset()
    """Identifiers that the clause speaks of; those of the clause before where it names none."""

    @cached_property
    def content(self) -> tuple[Token, ...]:
        """The words that tell something."""
        return tuple(token for token in self.tokens if token.weight > 0)

    @cached_property
    def total(self) -> float:
        """Sum of the weights of `content`."""
        return sum(token.weight for token in self.content)

    @cached_property
    def roots(self) -> frozenset[str]:
        """Stems of `content`."""
        return frozenset(token.root for token in self.content)

    @cached_property
    def spoken(self) -> tuple[Token, ...]:
        """The words in order, without denials."""
        return tuple(
            token
            for token in self.tokens
            if token.literal or not _is_denial(token.root)
        )

    @cached_property
    def divided(self) -> frozenset[str]:
        """Stems that the clause both denies and affirms."""
        denied = {token.root for token in self.content if token.denied}
        affirmed = {token.root for token in self.content if not token.denied}
        return frozenset(denied & affirmed)

    @cached_property
    def places(self) -> dict[object, list[int]]:
        """Positions in `content` by the look-up keys of the words."""
        positions: dict[object, list[int]] = {}
        for place, token in enumerate(self.content):
            for key in token.keys:
                positions.setdefault(key, []).append(place)
        return positions

    @cached_property
    def directions(self) -> dict[int, tuple[list[int], str]]:
        """Sides of each scale that the clause takes, and a word that says so.

        A denied word takes the other side.
        """
        sides_by_axis: dict[int, tuple[list[int], str]] = {}
        for token in self.tokens:
            for axis, side in lexicon.sides(token.root):
                sides, _ = sides_by_axis.setdefault(axis, ([], token.text))
                sides.append(side ^ int(token.denied))
        return sides_by_axis


def plain(text: str) -> str:
    """Return a text without code marks and LaTeX commands."""
    unmarked = text.replace("`", "").replace("\\times", "×")
    return _LATEX.sub("", unmarked)


def sentences(text: str) -> list[str]:
    """Split a text at end marks and line breaks, after joining the lines of a wrapped text."""
    whole = _WRAPPED.sub(r"\1 ", text[:_MOST_CHARS])
    parts = [part.strip() for part in _SENTENCE_END.split(whole)]
    return [part for part in parts if part]


def _number(text: str) -> float | None:
    folded = text.replace("−", "-").replace(",", "").replace(" ", "")
    scientific = re.fullmatch(r"(.+?)[×x*]10\^?([-]?\d+)", folded)
    if scientific is not None:
        folded = f"{scientific[1]}e{scientific[2]}"
    try:
        return float(folded)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[Token, ...]:
    """Return the words and values of a clause, each marked where it is denied."""
    words: list[Token] = []
    reach = 0
    contrast = 0
    text = _PHRASE.sub(lambda phrase: _PHRASES[phrase[0].lower()], plain(text))
    opening = ""
    end = 0
    for lexeme in _TOKEN.finditer(text):
        written = lexeme[0]
        lowered = written.lower()
        opening = opening or lowered
        if "," in text[end : lexeme.start()]:
            contrast = 0
        if opening in _OPENINGS and "," in text[end : lexeme.start()]:
            opening = lowered
            reach = 0
        if ")" in text[end : lexeme.start()]:
            reach = 0  # "(no leading zeros) key" denies nothing of the key
        end = lexeme.end()
        if _denies(text, lexeme):
            following = text[end : end + 6].lstrip()
            is_more = following.startswith("only")
            reach = 0 if is_more else _REACH
            if words and words[-1].root == _NEED and not is_more:
                words[-1] = replace(words[-1], denied=True)
            words.append(Token(lowered, written, 0.0, denied=False))
            continue
        if lowered == _CONTRAST:
            contrast = _REACH
            words.append(Token(lowered, written, 0.0, denied=False))
            continue
        if lowered in _CLAUSE_WORDS or lowered == "and":
            reach = 0
            contrast = 0
        token = _token(lexeme, written, denied=reach > 0)
        words.append(replace(token, replaced=True) if contrast > 0 else token)
        reach -= 1
        contrast -= 1
    return tuple(words)


def _denies(text: str, match: re.Match[str]) -> bool:
    """Tell whether a word denies what follows; the value `None` does not, "None of them" does."""
    written = match[0]
    lowered = written.lower()
    if written == "None":
        return _OF.match(text, match.end()) is not None
    if lowered in _WITH_TO:
        return _TO.match(text, match.end()) is not None
    return _is_denial(lowered)


def _is_denial(word: str) -> bool:
    return word in _NEGATIONS or word.endswith("n't")


def _token(match: re.Match[str], written: str, *, denied: bool) -> Token:
    if match["quoted"]:
        text = written.strip("'\"")
        keys = _VALUES | {text, stem(text)}
        return Token(text, written, 1.0, denied, literal=True, keys=keys)
    if match["number"]:
        return Token(
            written,
            written,
            0.8,
            denied,
            number=_number(written),
            literal=True,
            keys=_VALUES,
        )
    if written in _LITERALS:
        root = written.lower()
        return Token(root, written, 0.8, denied, literal=True, keys=_VALUES | {root})
    if match["option"]:
        weight = lexicon.weight(written)
        return Token(written, written, weight, denied, keys=frozenset({written}))
    value = _NUMBERS.get(written.lower())
    if value is not None:
        return Token(written.lower(), written, 0.4, denied, number=value, keys=_VALUES)
    root = stem(written.removesuffix("'s").removesuffix("'"))
    weight = 0.2 if lexicon.is_cue(root) else 0.0
    if len(written) > 1 and written.lower() not in FUNCTION_WORDS:
        weight = lexicon.weight(root)
    return Token(root, written, weight, denied, keys=lexicon.keys(root))


def _is_word(name: str) -> bool:
    """Tell whether a name is also a word of English, which only code marks make a name."""
    return name.lower() in FUNCTION_WORDS or name in {"a", "A", "I"}


def clauses(text: str, names: frozenset[str]) -> list[Clause]:
    """Split a text into clauses.

    Args:
        text: an answer, a passage or a claim.
        names: identifiers whose sentences belong together.

    Returns:
        The clauses in order; one that names no identifier speaks of those of the one before.
    """
    parts: list[Clause] = []
    current = frozenset[str]()
    for number, sentence in enumerate(sentences(text)):
        for part in _CLAUSE_END.split(sentence):
            part_tokens = tokens(part)
            if not part_tokens:
                continue
            here = frozenset(
                token.text
                for token in part_tokens
                if token.text in names
                and (not _is_word(token.text) or f"`{token.text}`" in part)
            )
            current = here or current
            parts.append(Clause(part.strip(), part_tokens, number, current))
    return parts
