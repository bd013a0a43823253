"""What a fact of a page must be, once it is written: new, whole, and about what it names."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rubric_core import CriterionKind
from rubric_core.rewriting import patterns
from rubric_judge.lexical.words import stem
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.extractive.facts import wording
from rubric_synth.extractive.facts.fact import Fact
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
"""Stems that a result may share with what the object does."""


def news(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the stems of a text that say more than names and light words do.

    Args:
        text: A sentence or part of one.
        names: Of the object, its parameters and values, as code or as words.
    """
    names = list(names)
    own = wording.own_stems(*names)
    whole = "".join(re.sub(r"[\W_]", "", name.lower()) + " " for name in names)
    found: set[str] = set()
    for token in _TOKEN.findall(_CODE.sub(" ", text)):
        joined = token.replace("-", "").lower()
        if joined in whole.split():
            continue
        parts = [part for part in token.lower().split("-") if _counts(part, whole, own)]
        found.add(stem(joined) if len(parts) > 1 else stem(parts[0]) if parts else "")
    return frozenset(found - {""})


def _counts(part: str, whole: str, own: frozenset[str]) -> bool:
    """Tell whether a word says something that neither the names nor the light words say."""
    shown = (part, stem(part))
    if any(len(one) >= _SHORTEST_PART and one in whole for one in shown):
        return False
    is_literal = part in {"true", "false", "none"} or part[:1].isdigit()
    return (is_literal or bool(language.content_words(part))) and stem(
        part
    ) not in own | _BARE


def says_something(fact: Fact, entry: ApiEntry, item: ApiItem | None) -> bool:
    """Tell whether a fact says more than the names and values in it.

    Args:
        fact: A meaning, or a condition with what follows; any other does.
        entry: Of the object.
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
    shown = re.sub(r"[`'\"]", " ", condition).split()
    return bool(news(rest, [*names, *shown]))


def without_type(sentence: str) -> str:
    """Return what is said of a result without its type: "returns, as a float, the mean"."""
    return _AS_TYPE.sub(" ", sentence, count=1)


def is_whole(fact: Fact, item: ApiItem | None) -> bool:
    """Tell whether a fact is all that its parameter's description says of the matter.

    Args:
        fact: About the parameter.
        item: The parameter; None for the object.
    """
    if item is None or fact.kind != CriterionKind.DEFINITION:
        return True
    _, *others = language.sentences(item.description) or [""]
    if others and _PATTERNS["goes_on"].match(others[0]):
        return False
    is_gloss_of_bool = _PATTERNS["whether"].search(fact.sentence) is not None
    kind = item.kind.lower()
    is_bool = not kind or "bool" in kind or "true" in kind or "false" in kind
    return is_bool or not is_gloss_of_bool


def is_clear(fact: Fact) -> bool:
    """Tell whether no part of a fact points at what its sentence does not name, or only may be."""
    told = fact.sentence
    if (
        _PATTERNS["no_topic"].match(told)
        or _PATTERNS["opener"].match(told)
        or told.rstrip(".").endswith("?")
    ):
        return False
    if _PATTERNS["dangling"].search(told) or _PATTERNS["outside_name"].search(told):
        return False
    if fact.kind == CriterionKind.DEFINITION and any(
        _PATTERNS[name].search(told) for name in _NO_MEANINGS
    ):
        return False
    rest = told.partition(", ")[2]
    is_condition = fact.kind == CriterionKind.CONDITION
    return not (is_condition and _PATTERNS["weakened"].search(rest))


def assumes(sentence: str) -> bool:
    """Tell whether a sentence assumes something, on which those behind it rest.

    Args:
        sentence: "Given a record of a year, …".
    """
    return _PATTERNS["assumption"].match(sentence) is not None


def is_note(fact: Fact) -> bool:
    """Tell whether a fact of the running text can be asked about an object of programming.

    What a term means and what a parameter must be can; reasons, relations and comparisons are
    about something that the question would have to introduce first.

    Args:
        fact: Of a sentence.
    """
    if fact.kind == CriterionKind.LIMIT:
        return fact.sentence.startswith("`")
    return fact.kind == CriterionKind.DEFINITION and not _PATTERNS["note_opener"].match(
        fact.sentence
    )


def repaired(fact: Fact, entry: ApiEntry) -> Fact:
    """Return a fact without a second one behind it, and with a name for "the function".

    Args:
        fact: As it was read.
        entry: Of the object.
    """
    told = _PATTERNS["tail"].sub("", fact.sentence.rstrip("."))
    names = {item.name for item in entry.parameters}
    if entry.form == "function":
        for pattern, put in (
            ("the_object", "`{}`"),
            ("the_result", "the result of `{}`"),
        ):
            match = _PATTERNS[pattern].search(told)
            if match is not None and names.isdisjoint(match[0].split()):
                told = _PATTERNS[pattern].sub(put.format(entry.name), told, count=1)
    told = language.capital_first(told) if told[:1] != "`" else told
    return fact._replace(sentence=f"{_PATTERNS['stops'].sub('', told)}.")


def overlaps(fact: Fact, other: Fact, entry: ApiEntry) -> bool:
    """Tell whether a result, type, limit or error says most of what another fact says.

    Args:
        fact: One.
        other: Another of the same object.
        entry: Of the object.
    """
    kinds = {fact.kind, other.kind}
    is_required = bool(fact.required or other.required)
    is_error = kinds == {CriterionKind.RAISES, CriterionKind.LIMIT}
    if not is_error and (is_required or not kinds & _SHARING):
        return False
    own = wording.own_stems(entry.name) | _TYPE_BARE
    mine, theirs = (
        language.stems(
            " ".join(language.content_words(_CODE.sub(" ", without_type(one.sentence))))
        )
        - own
        for one in (fact, other)
    )
    fewest = min(len(mine), len(theirs))
    shared = len(mine & theirs)
    is_purpose = kinds == {CriterionKind.RETURNS, CriterionKind.DEFINITION}
    is_whole = is_purpose and ", as the " not in f"{fact.sentence}{other.sentence}"
    share = _SHARE_OF_A_PURPOSE if is_whole else _SHARE
    return fewest >= _FEWEST_SHARED and shared >= share * fewest


def is_same_case(fact: Fact, other: Fact) -> bool:
    """Tell whether two facts say what a parameter left out does: as None, or as not given.

    A default that is a value says it as well.

    Args:
        fact: One.
        other: Another of the same object.
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
    is_condition = fact.kind == CriterionKind.CONDITION
    case = (
        _PATTERNS["no_value"].match(fact.sentence.partition(", ")[0])
        if is_condition
        else None
    )
    return case["topic"] if case is not None else ""


def lists_again(fact: Fact, other: Fact) -> bool:
    """Tell whether a limit lists values that another fact lists already.

    Args:
        fact: "`mode` must be 'wrap' or 'clip'".
        other: "`mode` is one of 'wrap' or 'clip'".
    """
    is_pair = (fact.kind, other.kind) == (CriterionKind.LIMIT, CriterionKind.CHOICES)
    values = _QUOTED.findall(fact.sentence)
    is_same = set(values) <= set(_QUOTED.findall(other.sentence))
    return is_pair and fact.topic == other.topic and bool(values) and is_same


_QUOTED: Final = re.compile(r"'([^']*)'")


def without_shared_meanings(facts: Sequence[Fact]) -> list[Fact]:
    """Return facts without meanings that two parameters share, which tell neither from the other.

    Args:
        facts: Of one object.
    """
    meant = Counter(_meaning_of(fact) for fact in facts)
    return [
        fact for fact in facts if not _meaning_of(fact) or meant[_meaning_of(fact)] == 1
    ]


def _meaning_of(fact: Fact) -> str:
    is_meaning = fact.kind == CriterionKind.DEFINITION and bool(fact.topic)
    return fact.sentence.removeprefix(fact.topic) if is_meaning else ""


_SHARING: Final = frozenset(
    {CriterionKind.RETURNS, CriterionKind.SHAPE, CriterionKind.LIMIT}
)
