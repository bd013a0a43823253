"""Checks of the written facts of a page: new, whole, and about what they name."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rubric_core import CriterionKind
from rubric_core.rewriting import patterns
from rubric_judge.judges.lexical.words import stem
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.stages.extractive.facts import wording
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("patterns")["soundness"])
_PARAMETERS: Final = patterns(read_table("patterns")["parameters"])
_TABLE: Final = {
    name: frozenset(words.split())
    for name, words in read_table("facts")["soundness"].items()
}
_BARE: Final = language.stems(" ".join(_TABLE["bare"]))
_TYPE_BARE: Final = language.stems(" ".join(_TABLE["types"]))
_CODE: Final = re.compile(r"`[^`]*`")
_NO_MEANINGS: Final = ("vague_gloss", "second_verb", "adverb", "says_input")
_TOKEN: Final = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*|(?<![\w.])-?\d[\d.]*")
_AS_TYPE: Final = re.compile(r"(?<=returns), as [^`]*?,(?= (?:the|a|an|any)\b)")
_SHORTEST_PART: Final = 4
_FEWEST_OF_A_MEANING: Final = 2
_FEWEST_SHARED: Final = 2
_SHARE: Final = 0.6
_SHARE_OF_A_PURPOSE: Final = 0.5
"""Share of stems that a result may have in common with the purpose of the object."""


def news(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the stems of a text that say more than names and light words do.

    Args:
        text: A sentence or part of one.
        names: Names of the object, its parameters and values, as code or as words.
    """
    names = list(names)
    own = wording.own_stems(*names)
    whole = "".join(re.sub(r"[\W_]", "", name.lower()) + " " for name in names)
    whole_names = frozenset(whole.split())
    stems: set[str] = set()
    for token in _TOKEN.findall(_CODE.sub(" ", text)):
        joined = token.replace("-", "").lower()
        if joined in whole_names:
            continue
        parts = [part for part in token.lower().split("-") if _counts(part, whole, own)]
        if parts:
            stems.add(stem(joined if len(parts) > 1 else parts[0]))
    stems.discard("")
    return frozenset(stems)


def _counts(part: str, whole: str, own: frozenset[str]) -> bool:
    """Tell whether a word says something that neither the names nor the light words say."""
    part_stem = stem(part)
    for form in (part, part_stem):
        if len(form) >= _SHORTEST_PART and form in whole:
            return False
    if part_stem in own or part_stem in _BARE:
        return False
    is_literal = part in {"true", "false", "none"} or part[:1].isdigit()
    return is_literal or bool(language.content_words(part))


def says_something(fact: Fact, entry: ApiEntry, item: ApiItem | None) -> bool:
    """Tell whether a fact says more than the names and values in it.

    Args:
        fact: A meaning, or a condition with what follows; any other does.
        entry: Entry of the object.
        item: The parameter that it is about; None for the object.
    """
    names = [entry.name, *re.findall(r"`([^`]*)`", fact.topic)]
    others = language.stems(" ".join(parameter.name for parameter in entry.parameters))
    if fact.kind == CriterionKind.DEFINITION:
        left = news(fact.sentence, names) - others
        if fact.topic and item is not None:
            left -= _TYPE_BARE | language.stems(item.kind)
        return len(left) >= _FEWEST_OF_A_MEANING
    if fact.kind == CriterionKind.RETURNS:
        return bool(news(without_type(fact.sentence), names) - others - {"object"})
    if fact.kind != CriterionKind.CONDITION:
        return True
    condition, _, rest = fact.sentence.partition(", ")
    condition_words = re.sub(r"[`'\"]", " ", condition).split()
    return bool(news(rest, [*names, *condition_words]))


def without_type(sentence: str) -> str:
    """Return a sentence about a result without its type: "returns, as a float, the mean"."""
    return _AS_TYPE.sub(" ", sentence, count=1)


def is_whole(fact: Fact, item: ApiItem | None) -> bool:
    """Tell whether a fact is all that its parameter's description says of the matter.

    Args:
        fact: About the parameter.
        item: The parameter; None for the object.
    """
    if item is None or fact.kind != CriterionKind.DEFINITION:
        return True
    sentences = language.sentences(item.description)
    if len(sentences) > 1 and _PATTERNS["goes_on"].match(sentences[1]):
        return False
    kind = item.kind.lower()
    if not kind or "bool" in kind or "true" in kind or "false" in kind:
        return True
    return _PATTERNS["whether"].search(fact.sentence) is None


def is_clear(fact: Fact) -> bool:
    """Tell whether a fact points at nothing that its sentence does not name, and is certain."""
    sentence = fact.sentence
    if _PATTERNS["no_topic"].match(sentence) or _PATTERNS["opener"].match(sentence):
        return False
    if sentence.rstrip(".").endswith("?"):
        return False
    pointers = (_PATTERNS["dangling"], _PATTERNS["outside_name"])
    if any(pointer.search(sentence) for pointer in pointers):
        return False
    if fact.kind == CriterionKind.DEFINITION:
        return not any(_PATTERNS[name].search(sentence) for name in _NO_MEANINGS)
    if fact.kind == CriterionKind.CONDITION:
        rest = sentence.partition(", ")[2]
        return _PATTERNS["weakened"].search(rest) is None
    return True


def assumes(sentence: str) -> bool:
    """Tell whether a sentence assumes something, on which those behind it rest.

    Args:
        sentence: "Given a record of a year, …".
    """
    return _PATTERNS["assumption"].match(sentence) is not None


def is_note(fact: Fact) -> bool:
    """Tell whether a fact of the running text can be asked about an object of programming.

    The meaning of a term and the limit of a parameter can; reasons, relations and comparisons are
    about something that the question would have to introduce first.

    Args:
        fact: The fact of a sentence.
    """
    if fact.kind == CriterionKind.LIMIT:
        return fact.sentence.startswith("`")
    if fact.kind != CriterionKind.DEFINITION:
        return False
    return _PATTERNS["note_opener"].match(fact.sentence) is None


def repaired(fact: Fact, entry: ApiEntry) -> Fact:
    """Return a fact without a second one behind it, and with a name for "the function".

    Args:
        fact: The fact as it was read.
        entry: Entry of the object.
    """
    sentence = _PATTERNS["tail"].sub("", fact.sentence.rstrip("."))
    if entry.form == "function":
        name = f"`{entry.name}`"
        sentence = _with_name(sentence, _PATTERNS["the_object"], name, entry)
        result = f"the result of {name}"
        sentence = _with_name(sentence, _PATTERNS["the_result"], result, entry)
    if not sentence.startswith("`"):
        sentence = language.capital_first(sentence)
    sentence = _PATTERNS["stops"].sub("", sentence)
    return fact._replace(sentence=f"{sentence}.")


def _with_name(
    sentence: str, pattern: re.Pattern[str], name: str, entry: ApiEntry
) -> str:
    """Put a name for the words that a pattern matches, where none of them is a parameter."""
    match = pattern.search(sentence)
    names = {item.name for item in entry.parameters}
    if match is None or not names.isdisjoint(match[0].split()):
        return sentence
    return pattern.sub(name, sentence, count=1)


def overlaps(fact: Fact, other: Fact, entry: ApiEntry) -> bool:
    """Tell whether a result, type, limit or error says most of what another fact says.

    Args:
        fact: A fact of an object.
        other: Another fact of the same object.
        entry: Entry of the object.
    """
    kinds = {fact.kind, other.kind}
    is_required = bool(fact.required or other.required)
    is_error = kinds == {CriterionKind.RAISES, CriterionKind.LIMIT}
    if not is_error and (is_required or not kinds & _SHARING):
        return False
    light = wording.own_stems(entry.name) | _TYPE_BARE
    first = _content_stems(fact) - light
    second = _content_stems(other) - light
    fewest = min(len(first), len(second))
    is_purpose = kinds == {CriterionKind.RETURNS, CriterionKind.DEFINITION}
    is_whole = is_purpose and ", as the " not in f"{fact.sentence}{other.sentence}"
    share = _SHARE_OF_A_PURPOSE if is_whole else _SHARE
    return fewest >= _FEWEST_SHARED and len(first & second) >= share * fewest


def _content_stems(fact: Fact) -> frozenset[str]:
    plain = _CODE.sub(" ", without_type(fact.sentence))
    return language.stems(" ".join(language.content_words(plain)))


def is_same_case(fact: Fact, other: Fact) -> bool:
    """Tell whether two facts say what a parameter left out does: as None, or as not given.

    A default that is a value says it as well.

    Args:
        fact: A fact of an object.
        other: Another fact of the same object.
    """
    case = _case_of(fact)
    if not case:
        return False
    if other.kind == CriterionKind.DEFAULT:
        is_value = _PARAMETERS["no_default"].match(other.sentence) is None
        is_named = _PATTERNS["not_given"].match(fact.sentence) is not None
        return other.topic == case and is_value and is_named
    return _case_of(other) == case


def _case_of(fact: Fact) -> str:
    """Return the parameter of which a condition says that it has no value; "" for any other."""
    if fact.kind != CriterionKind.CONDITION:
        return ""
    condition = fact.sentence.partition(", ")[0]
    match = _PATTERNS["no_value"].match(condition)
    return match["topic"] if match is not None else ""


def lists_again(fact: Fact, other: Fact) -> bool:
    """Tell whether a limit lists values that another fact lists already.

    Args:
        fact: "`mode` must be 'wrap' or 'clip'".
        other: "`mode` is one of 'wrap' or 'clip'".
    """
    if fact.kind != CriterionKind.LIMIT or other.kind != CriterionKind.CHOICES:
        return False
    if fact.topic != other.topic:
        return False
    values = set(_QUOTED.findall(fact.sentence))
    return bool(values) and values <= set(_QUOTED.findall(other.sentence))


_QUOTED: Final = re.compile(r"'([^']*)'")


def without_shared_meanings(facts: Sequence[Fact]) -> list[Fact]:
    """Return facts without meanings that two parameters share, which tell neither from the other.

    Args:
        facts: Facts of one object.
    """
    meanings = [_meaning_of(fact) for fact in facts]
    counts = Counter(meanings)
    return [
        fact
        for fact, meaning in zip(facts, meanings, strict=True)
        if not meaning or counts[meaning] == 1
    ]


def _meaning_of(fact: Fact) -> str:
    is_meaning = fact.kind == CriterionKind.DEFINITION and bool(fact.topic)
    return fact.sentence.removeprefix(fact.topic) if is_meaning else ""


_SHARING: Final = frozenset(
    {CriterionKind.RETURNS, CriterionKind.SHAPE, CriterionKind.LIMIT}
)
