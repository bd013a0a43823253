"""What the documentation says of a parameter: meaning, default, choices, conditions, limits."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rubric_core import CriterionKind
from rubric_core.rewriting import patterns
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.extractive.facts import defaults, typed, wording
from rubric_synth.extractive.facts.conditions import Frame, condition_frame, probe
from rubric_synth.extractive.facts.fact import Fact
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("patterns")["parameters"])
_CHOICES: Final = range(2, 6)
_LITERALS: Final = ("None", "True", "False")


def frames_of(
    items: Sequence[ApiItem],
    entry: ApiEntry,
    names: frozenset[str],
    proper: frozenset[str],
) -> Iterator[Frame]:
    """Yield what is said of parameters that share one description, each as a sentence.

    Args:
        items: One parameter, or several that were documented together.
        entry: Of the object.
        names: Of all its parameters.
        proper: Words that keep their capital.
    """
    item = items[0]
    function = entry.name
    topic = language.listed([f"`{one.name}`" for one in items])
    known = names | wording.code_name(function)
    told = [
        _PATTERNS["aside"].sub("", sentence)
        for sentence in _sentences(item.description, names)
    ]
    told = [one.rstrip(". ") for one in told if one.strip(". ")]
    words = known - {
        one.name for one in items if one.name.isalpha() and len(one.name) > 1
    }
    told = [wording.marked(one, known if at else words) for at, one in enumerate(told)]
    own = wording.own_stems(*(one.name for one in items), function)
    meaning = _PATTERNS["default_clause"].sub("", told[0]).strip(" ,;:") if told else ""
    is_label = re.search(r":\s+(?:if|when)\b", meaning, re.IGNORECASE) is not None
    meaning = "" if is_label else re.split(r";\s|\s[-–—]+\s|:\s", meaning)[0]
    meaning = _PATTERNS["leading"].sub("", _PATTERNS["long_aside"].sub("", meaning))
    meaning = _PATTERNS["pointer_behind"].sub("", meaning)
    limit = _PATTERNS["limit_of"].pattern.replace("NAME", re.escape(item.name))
    is_choice = (
        _PATTERNS["choice"].match(item.description) or re.match(limit, meaning)
    ) is not None
    frame = None if is_choice else _meaning(topic, meaning, len(items) > 1, proper)
    if frame is not None and wording.defines(frame.fact.sentence, own):
        yield frame
    if len(items) > 1:
        return
    rest = told if frame is None else told[1:]
    further = [
        said
        for one in rest
        if (said := _said(item, topic, one, function, names)) is not None
        and wording.tells(said.fact.sentence, frozenset(), 1)
    ]
    limits = sum(said.fact.kind == CriterionKind.LIMIT for said in further)
    if limits < sum(_PATTERNS["must"].search(one) is not None for one in told):
        further = [said for said in further if said.fact.kind != CriterionKind.LIMIT]
    yield from defaults.default_frames(item, topic, told[0] if told else "")
    yield from _values(item, topic, is_first=item == entry.parameters[0])
    yield from further


def _values(item: ApiItem, topic: str, *, is_first: bool) -> Iterator[Frame]:
    """Yield the values and the types that a parameter may have."""
    choices = _choices(item)
    if len(choices) in _CHOICES:
        shown = [choice if choice in _LITERALS else f"'{choice}'" for choice in choices]
        listed = f"{', '.join(shown[:-1])} or {shown[-1]}"
        yield Frame(
            Fact(
                CriterionKind.CHOICES,
                f"{topic} is one of {listed}.",
                topic,
                tuple(map(defaults.value_of, choices)),
                question=f"which values may {topic} take",
            ),
            "",
        )
    if types := typed.types_of(item, is_first=is_first):
        said = f"{topic} is {typed.listed_types(types)}."
        question = f"of which type is {topic}"
        yield Frame(Fact(CriterionKind.SHAPE, said, topic, question=question), "")


def _choices(item: ApiItem) -> list[str]:
    """Return the values that a parameter may take: all of its type, or those behind "must be".

    Nothing where a type stands beside them: a list of some values only would be false.
    """
    if _PATTERNS["quoted"].search(item.kind):
        listed = _PATTERNS["quoted"].sub(r" '\1' ", item.kind.partition("default=")[0])
        is_all = (
            _PATTERNS["beside_choices"].search(re.sub(r"'[^']*'", "", listed)) is None
        )
        named = re.findall(rf"'([^']+)'|\b({'|'.join(_LITERALS)})\b", listed)
        choices = list(dict.fromkeys(a or b for a, b in named))
        is_all = is_all and all(
            re.fullmatch(r"[\w+-]*\w[\w +-]*", choice) for choice in choices
        )
        return (
            choices if is_all else []
        )  # no sign alone, such as '.', can be found in an answer
    match = _PATTERNS["must_be"].search(item.description)
    if match is None or "default" in match[0].lower():
        return []
    listed = re.findall(r"['\"`]([\w+-]+)['\"`]", match[1])
    return list(dict.fromkeys(listed))


def _sentences(text: str, names: frozenset[str]) -> Iterator[str]:
    """Yield sentences; one also begins with the name of a parameter in lower case."""
    for sentence in language.sentences(text):
        parts = re.split(
            r"(?<=[a-z)])\.\s+(?=([A-Za-z_]\w*)\s+(?:is|are|must|can|cannot|should|has)\b)",
            sentence,
        )
        if len(parts) > 1 and all(name in names for name in parts[1::2]):
            yield from parts[::2]
        else:
            yield sentence


def _meaning(
    topic: str,
    meaning: str,
    is_several: bool,  # noqa: FBT001 - private
    proper: frozenset[str],
) -> Frame | None:
    if (
        not wording.is_readable(meaning)
        or _PATTERNS["condition"].match(meaning)
        or _PATTERNS["limit"].match(meaning)
    ):
        return None
    if _PATTERNS["pointing"].search(meaning) or meaning.lower().startswith(
        ("deprecated", "not used", "unused")
    ):
        return None
    is_verb = wording.describes(meaning) or _PATTERNS["participle"].match(meaning)
    is_asking = _PATTERNS["asking"].match(meaning) is not None
    is_phrase = is_verb or is_asking or wording.is_whole_phrase(meaning)
    is_of_the_object = wording.is_parameters_verb(meaning) and not wording.describes(
        meaning
    )
    if wording.is_command(meaning) or is_of_the_object or not is_phrase:
        return None  # "Inserts a line": what the object does
    lowered = language.lower_first(meaning, proper)
    question = f"the meaning of {topic}"
    kind = CriterionKind.DEFINITION
    if _PATTERNS["asking"].match(meaning):
        told = f"{topic} {'say' if is_several else 'says'} {lowered}."
        return Frame(Fact(kind, told, topic, question=question), probe(told))
    if wording.describes(meaning):
        told = f"{topic} {wording.as_predicate(meaning)}."
        return (
            None
            if is_several
            else Frame(Fact(kind, told, topic, question=question), probe(told))
        )
    verb = "are" if is_several else "is"
    phrase = (
        lowered
        if _PATTERNS["participle"].match(meaning)
        else wording.with_article(lowered)
    )
    order = ", in this order" if is_several and " and " in lowered else ""
    told = f"{topic} {verb} {phrase}{order}."
    return Frame(
        Fact(kind, told, topic, question=question),
        probe(told.replace(order, "") if order else told),
        is_phrase=not _PATTERNS["participle"].match(meaning),
        bare=probe(meaning)
        if phrase.startswith("the ") and not lowered.startswith("the ")
        else "",
    )


def _said(
    item: ApiItem, topic: str, one: str, function: str, names: frozenset[str]
) -> Frame | None:
    """Return what a further sentence of a description says of a parameter."""
    if re.search(r"\bdefault", one, re.IGNORECASE):
        return None
    own = _PATTERNS["limit_of"].pattern.replace("NAME", re.escape(item.name))
    one = re.sub(own, "", one)
    if _PATTERNS["limit"].match(one):
        told = f"{topic} {one[0].lower()}{one[1:]}."
        is_sound = wording.is_readable(told) and not _PATTERNS["pointing"].search(told)
        fact = Fact(
            CriterionKind.LIMIT, told, topic, question=f"what must hold for {topic}"
        )
        return Frame(fact, probe(told)) if is_sound else None
    if not _PATTERNS["condition"].match(one):
        return None
    return condition_frame(one, item.name, function, names, item.kind)
