"""Facts of a parameter: meaning, default, choices, conditions, limits."""

import re
from collections.abc import Iterator, Sequence

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.stages.extractive.facts import defaults, objects, typed, wording
from rubric_synth.stages.extractive.facts.conditions import (
    Frame,
    condition_frame,
    probe,
)
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns

_PATTERNS = patterns("parameters")
_CHOICES = range(2, 6)
_LITERALS = ("None", "True", "False")


def frames_of(
    items: Sequence[ApiItem],
    entry: ApiEntry,
    names: frozenset[str],
    proper: frozenset[str],
) -> Iterator[Frame]:
    """Yield the facts of parameters that share one description, each as a sentence.

    Args:
        items: One parameter, or several that were documented together.
        entry: Entry of the object.
        names: Names of all its parameters.
        proper: Words that keep their capital.
    """
    item = items[0]
    topic = language.listed([f"`{parameter.name}`" for parameter in items])
    sentences = _description(items, entry.name, names)
    meaning = _meaning_in(sentences[0]) if sentences else ""
    limit = _PATTERNS["limit_of"].pattern.replace("NAME", re.escape(item.name))
    is_choice = _PATTERNS["choice"].match(item.description) is not None
    frame: Frame | None = None
    if not is_choice and re.match(limit, meaning) is None:
        frame = _meaning_frame(topic, meaning, entry, len(items) > 1, proper)
    own = wording.own_stems(*(parameter.name for parameter in items), entry.name)
    if frame is not None and wording.defines(frame.fact.sentence, own):
        yield frame
    if len(items) > 1:
        return
    further: list[Frame] = []
    if entry.is_of_manual:
        sentences = [objects.with_name(text, item.name) for text in sentences]
    for sentence in sentences if frame is None else sentences[1:]:
        candidate = _further_frame(item, topic, sentence, entry.name, names)
        if candidate is None:
            continue
        if wording.tells(candidate.fact.sentence, frozenset(), 1):
            further.append(candidate)
    limits = sum(candidate.fact.kind == CriterionKind.LIMIT for candidate in further)
    duties = sum(_PATTERNS["must"].search(text) is not None for text in sentences)
    if limits < duties:
        further = [
            candidate
            for candidate in further
            if candidate.fact.kind != CriterionKind.LIMIT
        ]
    first = sentences[0] if sentences else ""
    is_first = item == entry.parameters[0]
    if entry.is_of_manual:
        yield from objects.default_frames(item, topic, names)
    else:
        yield from defaults.default_frames(item, topic, first)
    yield from _values(item, topic, is_first=is_first)
    yield from further


def _meaning_frame(
    topic: str,
    meaning: str,
    entry: ApiEntry,
    is_several: bool,  # noqa: FBT001 - private
    proper: frozenset[str],
) -> Frame | None:
    """Return what a parameter means; an object of a manual may do something instead."""
    if not entry.is_of_manual:
        return _meaning(topic, meaning, is_several, proper)
    meaning = objects.without_subject(meaning)
    if not objects.is_about_object(meaning):
        return None
    frame = objects.purpose_frame(topic, meaning)
    return frame or _meaning(topic, meaning, is_several, proper)


def _description(
    items: Sequence[ApiItem],
    function: str,
    names: frozenset[str],
) -> list[str]:
    """Return the sentences of a description, with the names in them in code marks."""
    known = names | wording.code_name(function)
    words = {item.name for item in items if item.name.isalpha() and len(item.name) > 1}
    sentences: list[str] = []
    for raw in _sentences(items[0].description, names):
        sentence = _PATTERNS["aside"].sub("", raw)
        if sentence.strip(". "):
            marks = known if sentences else known - words
            sentences.append(wording.marked(sentence.rstrip(". "), marks))
    return sentences


def _meaning_in(sentence: str) -> str:
    """Return the part of a first sentence that may say what a parameter is; "" for none."""
    meaning = _PATTERNS["default_clause"].sub("", sentence).strip(" ,;:")
    if re.search(r":\s+(?:if|when)\b", meaning, re.IGNORECASE) is not None:
        meaning = ""
    meaning = re.split(r";\s|\s[-–—]+\s|:\s", meaning)[0]
    meaning = _PATTERNS["long_aside"].sub("", meaning)
    meaning = _PATTERNS["leading"].sub("", meaning)
    return _PATTERNS["pointer_behind"].sub("", meaning)


def _values(
    item: ApiItem,
    topic: str,
    *,
    is_first: bool,
) -> Iterator[Frame]:
    """Yield the values and the types that a parameter may have."""
    choices = _choices(item)
    if len(choices) in _CHOICES:
        literals = [
            choice if choice in _LITERALS else f"'{choice}'" for choice in choices
        ]
        sentence = f"{topic} is one of {', '.join(literals[:-1])} or {literals[-1]}."
        fact = Fact(
            CriterionKind.CHOICES,
            sentence,
            topic,
            tuple(map(defaults.value_of, choices)),
            question=f"which values may {topic} take",
        )
        yield Frame(fact, "")
    types = typed.types_of(item, is_first=is_first)
    if types:
        sentence = f"{topic} is {typed.listed_types(types)}."
        question = f"of which type is {topic}"
        fact = Fact(CriterionKind.SHAPE, sentence, topic, question=question)
        yield Frame(fact, "")


def _choices(item: ApiItem) -> list[str]:
    """Return the values that a parameter may take: all of its type, or those after "must be".

    Nothing where a type stands beside them: a list of some values only would be false.
    """
    if _PATTERNS["quoted"].search(item.kind):
        listed = _PATTERNS["quoted"].sub(r" '\1' ", item.kind.partition("default=")[0])
        unquoted = re.sub(r"'[^']*'", "", listed)
        if _PATTERNS["beside_choices"].search(unquoted) is not None:
            return []
        pairs = re.findall(rf"'([^']+)'|\b({'|'.join(_LITERALS)})\b", listed)
        choices = list(dict.fromkeys(quoted or literal for quoted, literal in pairs))
        for choice in choices:
            if re.fullmatch(r"[\w+-]*\w[\w +-]*", choice) is None:
                return []  # a sign alone, such as '.', cannot be found in an answer
        return choices
    match = _PATTERNS["must_be"].search(item.description)
    if match is None or "default" in match[0].lower():
        return []
    values = re.findall(r"['\"`]([\w+-]+)['\"`]", match[1])
    return list(dict.fromkeys(values))


def _sentences(text: str, names: frozenset[str]) -> Iterator[str]:
    """Yield sentences; the name of a parameter in lower case begins a new one too."""
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
    if not wording.is_readable(meaning) or not _may_define(meaning):
        return None
    lowered = language.lower_first(meaning, proper)
    question = f"the meaning of {topic}"
    kind = CriterionKind.DEFINITION
    if _PATTERNS["asking"].match(meaning):
        verb = "say" if is_several else "says"
        sentence = f"{topic} {verb} {lowered}."
        fact = Fact(kind, sentence, topic, question=question)
        return Frame(fact, probe(sentence))
    if wording.describes(meaning):
        if is_several:
            return None
        sentence = f"{topic} {wording.as_predicate(meaning)}."
        fact = Fact(kind, sentence, topic, question=question)
        return Frame(fact, probe(sentence))
    verb = "are" if is_several else "is"
    is_participle = _PATTERNS["participle"].match(meaning) is not None
    phrase = lowered if is_participle else wording.with_article(lowered)
    order = ", in this order" if is_several and " and " in lowered else ""
    sentence = f"{topic} {verb} {phrase}{order}."
    is_added = phrase.startswith("the ") and not lowered.startswith("the ")
    return Frame(
        Fact(kind, sentence, topic, question=question),
        probe(sentence.replace(order, "")),
        is_phrase=not is_participle,
        bare=probe(meaning) if is_added else "",
    )


def _may_define(meaning: str) -> bool:
    """Tell whether a text can define a parameter: "Inserts a line" is about the object."""
    if (
        _PATTERNS["condition"].match(meaning)
        or _PATTERNS["limit"].match(meaning)
        or _PATTERNS["pointing"].search(meaning)
    ):
        return False
    is_old = meaning.lower().startswith(("deprecated", "not used", "unused"))
    if is_old or wording.is_command(meaning):
        return False
    if wording.describes(meaning):
        return True
    if wording.is_parameters_verb(meaning):
        return False
    if _PATTERNS["participle"].match(meaning) or _PATTERNS["asking"].match(meaning):
        return True
    return wording.is_whole_phrase(meaning)


def _further_frame(
    item: ApiItem,
    topic: str,
    sentence: str,
    function: str,
    names: frozenset[str],
) -> Frame | None:
    """Return the limit or the condition that a further sentence of a description sets."""
    if re.search(r"\bdefault", sentence, re.IGNORECASE):
        return None
    own = _PATTERNS["limit_of"].pattern.replace("NAME", re.escape(item.name))
    rest = re.sub(own, "", sentence)
    if _PATTERNS["limit"].match(rest):
        limit = f"{topic} {rest[0].lower()}{rest[1:]}."
        if not wording.is_readable(limit):
            return None
        if _PATTERNS["pointing"].search(limit):
            return None
        question = f"what must hold for {topic}"
        fact = Fact(CriterionKind.LIMIT, limit, topic, question=question)
        return Frame(fact, probe(limit))
    if not _PATTERNS["condition"].match(rest):
        return None
    return condition_frame(rest, item.name, function, names, item.kind)
