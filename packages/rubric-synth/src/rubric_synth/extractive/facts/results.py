"""What the documentation says of results, of what is yielded and of errors."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from rubric_core import CriterionKind
from rubric_core.rewriting import patterns
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.extractive.facts import conditions, typed, wording
from rubric_synth.extractive.facts.conditions import Frame
from rubric_synth.extractive.facts.fact import Fact
from rubric_synth.tables import read_table

_PLACES: Final = ("first", "second", "third", "fourth")
_COUNTS: Final = ("", "one", "two", "three", "four")
_LONGEST_LABEL: Final = 4
_PATTERNS: Final = patterns(read_table("patterns")["parameters"])
_TYPES: Final = patterns(read_table("patterns")["types_said"])


def results_of(
    entry: ApiEntry, names: frozenset[str], proper: frozenset[str]
) -> Iterator[Frame | None]:
    """Yield what is said of results up to the first that does not always come.

    They are counted where each of them always comes.

    Args:
        entry: Of the object.
        names: Of its parameters.
        proper: Words that keep their capital.
    """
    sure = list(takewhile(lambda item: not _is_optional(item), entry.returns))
    if len(sure) > len(_PLACES):
        return
    is_each_one = not any("," in item.name for item in sure)
    is_counted = is_each_one and 1 < len(sure) == len(entry.returns)
    for place, item in enumerate(sure):
        told = _told_of(item, entry, names)
        first = _result(told[0]) if told else ""
        if not first or _disagrees(item, first):
            return  # the place of a second result needs the first
        behind = (
            f", as the {_PLACES[place]} of {_COUNTS[len(sure)]} results"
            if is_counted
            else ""
        )
        yield from _said(entry, "returns", first, behind, proper, _type_of(item, first))
        for sentence in told[1:]:
            yield conditions.condition_frame(sentence, "", entry.name, names)
    if not entry.returns and len(entry.yields) == 1:
        told = _told_of(entry.yields[0], entry, names)
        if first := _result(told[0]) if told else "":
            yield from _said(entry, "yields", first, "", proper, "")


def _is_optional(item: ApiItem) -> bool:
    return any(
        _PATTERNS["optional_result"].search(text)
        for text in (item.kind, item.description)
    )


def _told_of(item: ApiItem, entry: ApiEntry, names: frozenset[str]) -> list[str]:
    told = [sentence.rstrip(". ") for sentence in language.sentences(item.description)]
    return [wording.marked(one, names | wording.code_name(entry.name)) for one in told]


def _result(sentence: str) -> str:
    """Return the phrase that says what a result is; "" where the sentence does not say it."""
    first = re.sub(
        r"^(?:returns?|returned|yields?)\s+", "", sentence, flags=re.IGNORECASE
    )
    label, colon, rest = first.partition(": ")
    first = re.split(r";\s", rest if colon and _is_label(label, rest) else first)[0]
    is_sound = (
        not _PATTERNS["no_result"].search(first)
        and ": " not in first
        and wording.is_readable(first)
        and wording.is_whole_phrase(first)
        and not conditions.is_pointing(first)
    )
    return first if is_sound else ""


def _type_of(item: ApiItem, first: str) -> str:
    """Return the type of a result as a sentence has it; "" where its phrase says it, or none is.

    Args:
        item: The result.
        first: What the page says that it is.
    """
    kind = typed.plain_type(item.kind or item.name)
    return (
        ""
        if not kind or _TYPES["named_type"].search(first)
        else typed.listed_types(kind)
    )


def _disagrees(item: ApiItem, first: str) -> bool:
    """Tell whether a page calls a result by another container than its type names."""
    named = _TYPES["container"].match(first)
    containers = _TYPES["any_container"].findall(item.kind)
    return (
        named is not None
        and bool(containers)
        and named["what"].lower() not in containers
    )


def _said(
    entry: ApiEntry,
    verb: str,
    first: str,
    behind: str,
    proper: frozenset[str],
    kind: str,
) -> Iterator[Frame]:
    lowered = wording.with_article(language.lower_first(first, proper))
    as_type = f", as {kind}," if kind else ""
    sentence = f"`{entry.name}` {verb}{as_type} {lowered}{behind}."
    question = f"what does `{entry.name}` {verb.removesuffix('s')}"
    if wording.defines(sentence, wording.own_stems(entry.name)):
        is_bare = not first.lower().startswith(("a ", "an ", "the "))
        yield Frame(
            Fact(CriterionKind.RETURNS, sentence, question=question),
            conditions.probe(f"`{entry.name}` {verb} {lowered}."),
            is_phrase=True,
            bare=conditions.probe(first) if is_bare else "",
        )


def _is_label(label: str, rest: str) -> bool:
    """Tell whether what stands before a colon names a way, and the result stands behind it."""
    words = rest.split()
    return (
        len(label.split()) <= _LONGEST_LABEL
        and len(words) > _LONGEST_LABEL
        and "," not in rest
    )


def errors_of(
    items: Sequence[ApiItem], entry: ApiEntry, names: frozenset[str]
) -> list[Frame]:
    """Return which errors an object raises and which warnings it gives, each with its condition.

    Args:
        items: The documented exceptions.
        entry: Of the object.
        names: Of its parameters.
    """
    found = (_raised(entry, item, names) for item in items)
    return [frame for frame in found if frame is not None]


def _raised(entry: ApiEntry, item: ApiItem, names: frozenset[str]) -> Frame | None:
    cases = [case.rstrip(". ") for case in item.description.split(". ")]
    is_each_one = all(case.lower().startswith(("if ", "when ")) for case in cases)
    several = [
        cases[0],
        *(language.lower_first(case, frozenset()) for case in cases[1:]),
    ]
    condition = ", or ".join(several) if is_each_one else cases[0]
    if not condition or not item.name.isidentifier():
        return None
    is_bare = not condition.lower().startswith(("if ", "when "))
    said = wording.marked(language.lower_first(condition, frozenset()), names)
    said = f"if {said}" if is_bare else said
    is_warning = item.name.endswith("Warning")
    verb = "gives" if is_warning else "raises"
    told = f"`{entry.name}` {verb} {wording.with_a(item.name) if is_warning else item.name} {said}."
    if not wording.is_readable(told) or conditions.is_pointing(told) or "raise" in said:
        return None
    question = (
        f"which warning does `{entry.name}` give, and when"
        if is_warning
        else f"which error does `{entry.name}` raise, and when"
    )
    fact = Fact(CriterionKind.RAISES, told, required=(item.name,), question=question)
    return Frame(
        fact, conditions.probe(language.capital_first(f"{said}, errors are raised."))
    )
