"""Facts of results, of yielded values and of errors."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.stages.extractive.facts import conditions, typed, wording
from rubric_synth.stages.extractive.facts.conditions import Frame
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns

_PLACES = ("first", "second", "third", "fourth")
_COUNTS = ("", "one", "two", "three", "four")
_LONGEST_LABEL = 4
_RETURNS = re.compile(
    r"^(?:returns?|returned|yields?)\s+",
    re.IGNORECASE,
)
_PATTERNS = patterns("parameters")
_TYPES = patterns("types_said")


def results_of(
    entry: ApiEntry,
    names: frozenset[str],
    proper: frozenset[str],
) -> Iterator[Frame | None]:
    """Yield the facts of results up to the first that is not always returned.

    They are counted where each of them is always returned.

    Args:
        entry: Entry of the object.
        names: Names of its parameters.
        proper: Words that keep their capital.
    """
    sure = list(takewhile(_is_sure, entry.returns))
    if len(sure) > len(_PLACES):
        return
    is_each_one = not any("," in item.name for item in sure)
    is_all = len(sure) == len(entry.returns)
    is_counted = is_each_one and is_all and len(sure) > 1
    for place, item in enumerate(sure):
        sentences = _sentences(item, entry, names)
        first = _result(sentences[0]) if sentences else ""
        if not first or _disagrees(item, first):
            return  # the place of a second result needs the first
        after = ""
        if is_counted:
            after = f", as the {_PLACES[place]} of {_COUNTS[len(sure)]} results"
        kind = _type_of(item, first)
        yield from _returned(entry, "returns", first, after, proper, kind)
        for sentence in sentences[1:]:
            yield conditions.condition_frame(sentence, "", entry.name, names)
    if not entry.returns and len(entry.yields) == 1:
        sentences = _sentences(entry.yields[0], entry, names)
        first = _result(sentences[0]) if sentences else ""
        if first:
            yield from _returned(entry, "yields", first, "", proper, "")


def _is_sure(item: ApiItem) -> bool:
    """Tell whether a result is always returned."""
    optional = _PATTERNS["optional_result"]
    if optional.search(item.kind) is not None:
        return False
    return optional.search(item.description) is None


def _sentences(
    item: ApiItem,
    entry: ApiEntry,
    names: frozenset[str],
) -> list[str]:
    known = names | wording.code_name(entry.name)
    sentences = language.sentences(item.description)
    return [wording.marked(sentence.rstrip(". "), known) for sentence in sentences]


def _result(sentence: str) -> str:
    """Return the phrase that says what a result is; "" where the sentence does not say it."""
    first = _RETURNS.sub("", sentence)
    label, colon, rest = first.partition(": ")
    if colon and _is_label(label, rest):
        first = rest
    first = re.split(r";\s", first)[0]
    if _PATTERNS["no_result"].search(first) or ": " in first:
        return ""
    if not wording.is_readable(first):
        return ""
    if not wording.is_whole_phrase(first):
        return ""
    if conditions.is_pointing(first):
        return ""
    return first


def _type_of(item: ApiItem, first: str) -> str:
    """Return the type of a result as a sentence has it; "" where its phrase says it, or none is.

    Args:
        item: The result.
        first: The phrase of the page for it.
    """
    kind = typed.plain_type(item.kind or item.name)
    if not kind or _TYPES["named_type"].search(first):
        return ""
    return typed.listed_types(kind)


def _disagrees(item: ApiItem, first: str) -> bool:
    """Tell whether a page calls a result by another container than its type names."""
    match = _TYPES["container"].match(first)
    containers = _TYPES["any_container"].findall(item.kind)
    if match is None or not containers:
        return False
    return match["what"].lower() not in containers


def _returned(
    entry: ApiEntry,
    verb: str,
    first: str,
    after: str,
    proper: frozenset[str],
    kind: str,
) -> Iterator[Frame]:
    lowered = wording.with_article(language.lower_first(first, proper))
    as_type = f", as {kind}," if kind else ""
    sentence = f"`{entry.name}` {verb}{as_type} {lowered}{after}."
    question = f"what does `{entry.name}` {verb.removesuffix('s')}"
    if not wording.defines(sentence, wording.own_stems(entry.name)):
        return
    fact = Fact(CriterionKind.RETURNS, sentence, question=question)
    probe = conditions.probe(f"`{entry.name}` {verb} {lowered}.")
    bare = ""
    if not first.lower().startswith(("a ", "an ", "the ")):
        bare = conditions.probe(first)
    yield Frame(fact, probe, is_phrase=True, bare=bare)


def _is_label(label: str, rest: str) -> bool:
    """Tell whether the text before a colon names a case, and the result follows it."""
    is_short = len(label.split()) <= _LONGEST_LABEL
    is_long = len(rest.split()) > _LONGEST_LABEL
    return is_short and is_long and "," not in rest


def errors_of(
    items: Sequence[ApiItem],
    entry: ApiEntry,
    names: frozenset[str],
) -> list[Frame]:
    """Return which errors an object raises and which warnings it gives, each with its condition.

    Args:
        items: The documented exceptions.
        entry: Entry of the object.
        names: Names of its parameters.
    """
    frames = (_raised(entry, item, names) for item in items)
    return [frame for frame in frames if frame is not None]


def _raised(
    entry: ApiEntry,
    item: ApiItem,
    names: frozenset[str],
) -> Frame | None:
    cases = [case.rstrip(". ") for case in item.description.split(". ")]
    condition, *others = cases
    if all(map(_is_condition, cases)):
        lowered = [language.lower_first(case, frozenset()) for case in others]
        condition = ", or ".join((condition, *lowered))
    if not condition or not item.name.isidentifier():
        return None
    case = language.lower_first(condition, frozenset())
    case = wording.marked(case, names)
    if not _is_condition(condition):
        case = f"if {case}"
    if item.name.endswith("Warning"):
        sentence = f"`{entry.name}` gives {wording.with_a(item.name)} {case}."
        question = f"which warning does `{entry.name}` give, and when"
    else:
        sentence = f"`{entry.name}` raises {item.name} {case}."
        question = f"which error does `{entry.name}` raise, and when"
    if not wording.is_readable(sentence) or conditions.is_pointing(sentence):
        return None
    if "raise" in case:
        return None
    required = (item.name,)
    fact = Fact(
        CriterionKind.RAISES,
        sentence,
        required=required,
        question=question,
    )
    consequence = language.capital_first(f"{case}, errors are raised.")
    return Frame(fact, conditions.probe(consequence))


def _is_condition(case: str) -> bool:
    return case.lower().startswith(("if ", "when "))
