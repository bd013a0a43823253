"""Checks of the written facts of a page: new, whole, and about what they name."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rubric_core import CriterionKind
from rubric_judge.judges.lexical.words import stem
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.stages.extractive.facts import wording
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns, word_sets

_PATTERNS = patterns("soundness")
_PARAMETERS = patterns("parameters")
_TABLE = word_sets("facts", "soundness")
_BARE = language.stems(" ".join(_TABLE["bare"]))
_TYPE_BARE = language.stems(" ".join(_TABLE["types"]))
_CODE = re.compile(r"`[^`]*`")
_NO_MEANINGS = ("vague_gloss", "second_verb", "adverb", "says_input")
_TOKEN = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*|(?<![\w.])-?\d[\d.]*")
_AS_TYPE = re.compile(r"(?<=returns), as [^`]*?,(?= (?:the|a|an|any)\b)")
_SHORTEST_PART = 4
_FEWEST_OF_A_MEANING = 2
_FEWEST_SHARED = 2
_SHARE = 0.6
_SHARE_OF_A_PURPOSE = 0.5
"""Share of stems that a result may have in common with the purpose of the object."""


def news(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the stems of a text that say more than names and light words do.

    Args:
        text: A sentence or part of one.
        names: Names of the object, its parameters and values, as code or as words.
    """
    names = list(names)
    own = wording.own_stems(*names)
    whole_names = {re.sub(r"[\W_]", "", name.lower()) for name in names}
    whole = " ".join(whole_names)
    stems: set[str] = set()
    without_code = _CODE.sub(" ", text)
    for token in _TOKEN.findall(without_code):
        word = token.lower()
        joined = word.replace("-", "")
        if joined in whole_names:
            continue
        parts = [part for part in word.split("-") if _counts(part, whole, own)]
        if len(parts) > 1:
            stems.add(stem(joined))
        elif parts:
            stems.add(stem(parts[0]))
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
    if part in {"true", "false", "none"} or part[:1].isdigit():
        return True
    return bool(language.content_words(part))


def says_something(
    fact: Fact,
    entry: ApiEntry,
    item: ApiItem | None,
) -> bool:
    """Tell whether a fact says more than the names and values in it.

    Args:
        fact: A meaning, or a condition with what follows; any other does.
        entry: Entry of the object.
        item: The parameter that it is about; None for the object.
    """
    topics = re.findall(r"`([^`]*)`", fact.topic)
    names = [entry.name, *topics]
    parameters = " ".join(parameter.name for parameter in entry.parameters)
    others = language.stems(parameters)
    if fact.kind == CriterionKind.DEFINITION:
        new_stems = news(fact.sentence, names) - others
        if fact.topic and item is not None:
            new_stems -= _TYPE_BARE
            new_stems -= language.stems(item.kind)
        return len(new_stems) >= _FEWEST_OF_A_MEANING
    if fact.kind == CriterionKind.RETURNS:
        sentence = without_type(fact.sentence)
        new_stems = news(sentence, names) - others
        return bool(new_stems - {"object"})
    if fact.kind != CriterionKind.CONDITION:
        return True
    condition, _, rest = fact.sentence.partition(", ")
    condition_words = re.sub(r"[`'\"]", " ", condition).split()
    return bool(news(rest, names + condition_words))


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
    if not kind:
        return True
    if any(word in kind for word in ("bool", "true", "false")):
        return True
    return _PATTERNS["whether"].search(fact.sentence) is None


def is_clear(fact: Fact) -> bool:
    """Tell whether a fact points at nothing that its sentence does not name, and is certain."""
    sentence = fact.sentence
    for name in ("no_topic", "opener"):
        if _PATTERNS[name].match(sentence):
            return False
    if sentence.rstrip(".").endswith("?"):
        return False
    for name in ("dangling", "outside_name"):
        if _PATTERNS[name].search(sentence):
            return False
    if fact.kind == CriterionKind.DEFINITION:
        return not any(_PATTERNS[name].search(sentence) for name in _NO_MEANINGS)
    if fact.kind == CriterionKind.CONDITION:
        rest = sentence.partition(", ")[2]
        return _PATTERNS["weakened"].search(rest) is None
    return True


def assumes(sentence: str) -> bool:
    """Tell whether a sentence assumes something, on which those after it rest.

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
    """Return a fact without a second one after it, and with a name for "the function".

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
    sentence: str,
    pattern: re.Pattern[str],
    name: str,
    entry: ApiEntry,
) -> str:
    """Put a name for the words that a pattern matches, where none of them is a parameter."""
    match = pattern.search(sentence)
    names = {item.name for item in entry.parameters}
    if match is None:
        return sentence
    if not names.isdisjoint(match[0].split()):
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
    if kinds != {CriterionKind.RAISES, CriterionKind.LIMIT}:
        if fact.required or other.required:
            return False
        if kinds.isdisjoint(_SHARING):
            return False
    light = wording.own_stems(entry.name) | _TYPE_BARE
    first = _content_stems(fact) - light
    second = _content_stems(other) - light
    fewest = min(len(first), len(second))
    if fewest < _FEWEST_SHARED:
        return False
    is_purpose = kinds == {CriterionKind.RETURNS, CriterionKind.DEFINITION}
    is_one_of_several = ", as the " in f"{fact.sentence}{other.sentence}"
    share = _SHARE
    if is_purpose and not is_one_of_several:
        share = _SHARE_OF_A_PURPOSE
    return len(first & second) >= share * fewest


def _content_stems(fact: Fact) -> frozenset[str]:
    sentence = without_type(fact.sentence)
    without_code = _CODE.sub(" ", sentence)
    words = language.content_words(without_code)
    return language.stems(" ".join(words))


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
    if other.kind != CriterionKind.DEFAULT:
        return _case_of(other) == case
    if other.topic != case:
        return False
    if _PARAMETERS["no_default"].match(other.sentence) is not None:
        return False
    return _PATTERNS["not_given"].match(fact.sentence) is not None


def _case_of(fact: Fact) -> str:
    """Return the parameter of which a condition says that it has no value; "" for any other."""
    if fact.kind != CriterionKind.CONDITION:
        return ""
    condition = fact.sentence.partition(", ")[0]
    match = _PATTERNS["no_value"].match(condition)
    if match is None:
        return ""
    return match["topic"]


def lists_again(fact: Fact, other: Fact) -> bool:
    """Tell whether a limit lists values that another fact lists already.

    Args:
        fact: "`mode` must be 'wrap' or 'clip'".
        other: "`mode` is one of 'wrap' or 'clip'".
    """
    if fact.kind != CriterionKind.LIMIT:
        return False
    if other.kind != CriterionKind.CHOICES:
        return False
    if fact.topic != other.topic:
        return False
    values = set(_QUOTED.findall(fact.sentence))
    other_values = set(_QUOTED.findall(other.sentence))
    return bool(values) and values <= other_values


_QUOTED = re.compile(r"'([^']*)'")


def without_shared_meanings(facts: Sequence[Fact]) -> list[Fact]:
    """Return facts without meanings that two parameters share, which tell neither from the other.

    Args:
        facts: Facts of one object.
    """
    counts = Counter(map(_meaning_of, facts))
    own: list[Fact] = []
    for fact in facts:
        meaning = _meaning_of(fact)
        if not meaning or counts[meaning] == 1:
            own.append(fact)
    return own


def _meaning_of(fact: Fact) -> str:
    """Return the definition of a parameter without its name; "" of any other fact."""
    if fact.kind != CriterionKind.DEFINITION or not fact.topic:
        return ""
    return fact.sentence.removeprefix(fact.topic)


_SHARING = frozenset({CriterionKind.RETURNS, CriterionKind.SHAPE, CriterionKind.LIMIT})
