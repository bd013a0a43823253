"""Short forms in questions and claims, written out as the text does."""

import re

from rubric_synth import language
from rubric_synth.stages.extractive.facts.clauses import lowered
from rubric_synth.stages.extractive.facts.context import Scene
from rubric_synth.stages.extractive.facts.parsing import is_english
from rubric_synth.stages.extractive.facts.sound import WORDS

_SHORT = re.compile(r"(?<![\w`(-])[A-Z][A-Z0-9]*[A-Z][A-Z0-9]*s?(?![\w`-]| \d{3})")
"""A short form that no number of an accession follows: "NC 013790"."""
_FEWEST = 3
"""Capitals of a short form that nobody can be expected to know."""
_FORMULA = re.compile(r"^(?:(?:[HCNOSPFIKBVWUY]|Cl|Na|Mg|Ca|Fe|Zn|Cu|Li|Si)\d*)+$")
_EXPLAINED = re.compile(r"\bstands? for\b")
_ROMAN = re.compile(r"^[IVX]+$")
_KNOWN = frozenset(map(str.upper, WORDS["known_short"]))
_MOST_WORDS = 8
_VOWELS = "aeiou"


def long_form(short: str, text: str) -> str:
    """Return the long form that a text writes before or after a short one; "" if nowhere.

    Args:
        short: Such as "CHP".
        text: A text with, perhaps, "capillary hydrostatic pressure (CHP)".
    """
    bare = short.removesuffix("s")
    escaped = re.escape(bare)
    for match in re.finditer(rf"\(({escaped}s?)\)", text):
        before = text[: match.start()].split()
        words = before[-_MOST_WORDS:]
        for start in reversed(range(len(words))):
            if _stands_for(bare, words[start:]):
                full = " ".join(words[start:])
                # as of "hidden Markov models (HMMs)"
                return full.removesuffix("s") if match[1] != bare else full
    match = re.search(rf"\b{escaped} \(([A-Za-z][\w -]+)\)", text)
    if match is not None:
        words = match.group(1).split()
        if _stands_for(bare, words):
            return " ".join(words)
    if bare.isalpha() and len(bare) >= _FEWEST:
        return _spelled(bare, text)
    return ""


def _spelled(short: str, text: str) -> str:
    """Return the words of a text that begin with the letters of a short form, if it has such."""
    for letters in (short.lower(), short):
        pattern = " ".join(rf"{letter}[a-z]{{3,}}" for letter in letters)
        match = re.search(rf"\b{pattern}\b", text)
        if match is None:
            continue
        words = match.group().split()
        if language.STOP_WORDS.isdisjoint(word.lower() for word in words):
            return " ".join(words)
        return ""
    return ""


def _stands_for(short: str, words: list[str]) -> bool:
    """Tell whether the letters of a short form stand in order in words, the first ahead of all."""
    text = " ".join(words).lower()
    letters = short.lower()
    if re.fullmatch(r"[\w' -]+", text) is None:
        return False
    if text[:1] != letters[:1]:
        return False
    if words[0].lower() in {"the", "a", "an", "of"}:
        return False
    starts = "".join(part[:1] for part in re.split(r"[ -]", text))
    if starts == letters:
        return True
    at = 0
    for letter in letters:
        at = text.find(letter, at) + 1
        if not at:
            return False
    is_near = len(words) <= len(letters)
    return is_near and _begin_in_order(starts, letters)


def _begin_in_order(starts: str, letters: str) -> bool:
    """Tell whether every word begins with a letter of the short form, in order."""
    at = 0
    for letter in starts:
        place = letters.find(letter, at)
        if place < 0:
            return False
        at = place + 1
    return True


def is_unknown(short: str, about: str) -> bool:
    """Tell whether a short form needs its long one.

    Args:
        short: Such as "CHP".
        about: Names that the question has anyway: title and heading.
    """
    if _is_known(short):
        return False
    bare = short.removesuffix("s")
    if _ROMAN.match(bare) or _FORMULA.match(bare):
        return False
    capitals = sum(map(str.isupper, bare))
    return capitals >= _FEWEST and bare not in about


def _is_known(short: str) -> bool:
    """Tell whether everybody knows a short form, in the singular or the plural: GPS, CPUs."""
    return short.upper() in _KNOWN or short.removesuffix("s").upper() in _KNOWN


def written_out(
    sentence: str,
    scene: Scene,
    names: frozenset[str],
) -> str | None:
    """Return a question or a claim with its short forms written out; None where one stays unknown.

    Args:
        sentence: The question or the claim.
        scene: The scene of its sentence; its document may hold the long forms.
        names: Words that keep their capital.
    """
    if _EXPLAINED.search(sentence):
        return sentence
    for short in dict.fromkeys(_SHORT.findall(sentence)):
        if f"({short})" in sentence:
            continue
        if _is_known(short):
            continue
        full = long_form(short, scene.text)
        if not full and is_unknown(short, scene.about):
            return None
        if full and full.lower() not in sentence.lower():
            full = _in_number(full, short, scene.text, names)
            sentence = _replaced(sentence, short, full)
    return sentence


def _in_number(
    full: str,
    short: str,
    text: str,
    names: frozenset[str],
) -> str:
    """Return a long form in the number of its short one, and small where it is no name."""
    first = full.partition(" ")[0].lower()
    written_small = re.search(rf"\b{re.escape(first)}\b", text)
    if is_english(first) or written_small is not None:
        full = lowered(full, names)
    if short.endswith("s") and not full.endswith("s"):
        return f"{full}s"
    return full


def _replaced(text: str, short: str, full: str) -> str:
    """Put a long form in place of a short one, with the article that it takes."""
    name = re.escape(short)
    starts_with_vowel = full[:1].lower() in _VOWELS

    def with_article(match: re.Match[str]) -> str:
        if starts_with_vowel:
            return f"{match[1]}n {full}"
        return f"{match[1]} {full}"

    text = re.sub(rf"\b(a|A)n? {name}\b", with_article, text)
    if text[:1].isupper():
        capital_form = full[:1].upper() + full[1:]
        text = re.sub(rf"^{name}\b", capital_form, text)
    return re.sub(rf"(?<![\w(]){name}\b", full, text)
