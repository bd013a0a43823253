"""Facts of an API entry: purpose, parameters with defaults and choices, results, conditions."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_core.rewriting import patterns
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.extractive import phrases
from rubric_synth.extractive.facts import (
    conditions,
    gate,
    parameters,
    parsing,
    prose,
    results,
    soundness,
    tidying,
    wording,
)
from rubric_synth.extractive.facts.conditions import Frame
from rubric_synth.extractive.facts.fact import Fact, says_the_same
from rubric_synth.extractive.facts.parsing import child, root_of
from rubric_synth.extractive.phrases import CorpusTerms
from rubric_synth.tables import read_table

_FEWEST: Final = 4
_MOST_TYPES: Final = 2
"""Facts that say no more than a type, where others are too few."""
_MOST: Final = 8
_MOST_TOPICS: Final = 4
_MOST_OF_A_TOPIC: Final = 4
_MOST_NOTES: Final = 3
_MOST_CONDITIONS: Final = 3
_MOST_ERRORS: Final = 3
_PATTERNS: Final = patterns(read_table("patterns")["parameters"])
_NOUNS: Final = frozenset({"NOUN", "PROPN"})
_KINDS: Final = frozenset(read_table("facts")["soundness"]["kinds"].split())
_UNUSED_MODULES: Final = frozenset(
    read_table("facts")["soundness"]["unused_modules"].split()
)
_NOUNS_OF: Final = {
    name: frozenset(read_table("facts")["pages"][name].split())
    for name in ("tools", "activities")
}


def api_facts(entry: ApiEntry, terms: CorpusTerms | None = None) -> list[Fact]:
    """Read the facts of an entry, those first that an answer should open with.

    Args:
        entry: The entry.
        terms: Words of its collection; None where no other page is known.
    """
    entry = tidying.tidied(entry)
    spelling = tidying.Spelling(entry, terms)
    items = {f"`{item.name}`": item for item in entry.parameters}
    frames = [frame for frame in _frames(entry) if frame is not None]
    texts = [text for frame in frames for text in (frame.probe, frame.bare) if text]
    docs = iter(parsing.parsed(texts))
    sound: list[Fact] = []
    for frame in frames:
        fact = _checked(frame, next(docs)) if frame.probe else frame.fact
        is_command = bool(frame.bare) and _commands(next(docs))
        if fact is None or is_command or spelling.has_slip(fact.sentence):
            continue
        fact = soundness.repaired(fact, entry)
        item = items.get(fact.topic.partition(" and ")[0].partition(",")[0])
        is_meaning = fact.kind == CriterionKind.DEFINITION and item is not None
        is_common = is_meaning and terms is not None and _is_common(item, terms)
        if _is_sound(fact, entry, item) and not is_common:
            sound.append(fact)
    kept: list[Fact] = []
    for fact in soundness.without_shared_meanings(sound):
        if not any(_repeats(fact, other, entry) for other in kept):
            kept.append(fact)
    return kept


def _is_common(item: ApiItem | None, terms: CorpusTerms) -> bool:
    return item is not None and terms.glosses.is_common(item.name, item.description)


def _is_sound(fact: Fact, entry: ApiEntry, item: ApiItem | None) -> bool:
    return (
        soundness.is_clear(fact)
        and soundness.is_whole(fact, item)
        and soundness.says_something(fact, entry, item)
    )


def is_unused(entry: ApiEntry) -> bool:
    """Tell whether an object is not for callers: its page says so, or its module is old.

    Args:
        entry: The page.
    """
    texts = (*entry.summary, *entry.notes)
    parts = entry.qualified_name.split(".")
    return (
        any(_PATTERNS["internal"].search(text) is not None for text in texts)
        or not _UNUSED_MODULES.isdisjoint(parts)
        or any(part.startswith("_") for part in parts)
    )


def _repeats(fact: Fact, other: Fact, entry: ApiEntry) -> bool:
    """Tell whether a fact says what another says, their names left out."""
    rules = (soundness.is_same_case, soundness.lists_again)
    if soundness.overlaps(fact, other, entry) or any(
        rule(fact, other) for rule in rules
    ):
        return True
    if not fact.topic and fact.kind == other.kind == CriterionKind.DEFINITION:
        return not other.topic  # one purpose is enough
    is_error = CriterionKind.RAISES in {fact.kind, other.kind}
    if is_error and (fact.kind != other.kind):
        condition = fact if other.kind == CriterionKind.RAISES else other
        return _PATTERNS["error"].search(
            condition.sentence
        ) is not None and says_the_same(fact.sentence, other.sentence)
    if fact.required or other.required:
        return fact.sentence == other.sentence
    plain, before = (
        re.sub("`[^`]*`", "", soundness.without_type(each.sentence))
        for each in (fact, other)
    )
    return says_the_same(plain, before)


def _frames(entry: ApiEntry) -> Iterator[Frame | None]:
    names = frozenset(item.name for item in entry.parameters)
    proper = tidying.lowered_names(entry)
    yield from (_purpose(sentence, entry, proper) for sentence in _purposes(entry))
    items = [item for item in entry.parameters if item.name and item.name != "self"]
    for _, group in groupby(items, key=lambda item: item.description or item.name):
        yield from parameters.frames_of(list(group), entry, names, proper)
    yield from results.results_of(entry, names, proper)
    yield from results.errors_of(entry.raises[:_MOST_ERRORS], entry, names)
    yield from _notes(entry, names)


def _checked(frame: Frame, doc: Doc) -> Fact | None:
    """Return the fact of a frame whose sentence the parser can read; None for any other."""
    frame = frame._replace(fact=_without_second_clause(frame.fact, doc))
    if frame.probe.startswith(("If ", "When ")):
        return frame.fact if gate.follows(doc) else None
    root = root_of(doc)
    if root is None or not gate.says_of_it(doc):
        return None
    if frame.is_phrase:
        return _of_phrase(frame, root)
    is_verb = root.pos_ in {"VERB", "AUX"} or child(root, "aux") is not None
    return frame.fact if is_verb else None


def _commands(doc: Doc) -> bool:
    """Tell whether a phrase without its article is read as a command: "arrange a list"."""
    root = root_of(doc)
    if root is None or root.i > 1 or root.tag_ not in {"VB", "VBP", "VBZ"}:
        return False
    return child(root, "dobj", "ccomp", "attr", "xcomp") is not None


def _without_second_clause(fact: Fact, doc: Doc) -> Fact:
    """Return a fact without a clause that "and" joins to it with a subject of its own."""
    root = root_of(doc) if fact.kind != CriterionKind.LIMIT else None
    for second in root.children if root is not None else ():
        is_clause = (
            second.dep_ == "conj" and child(second, "nsubj", "nsubjpass") is not None
        )
        joins = child(root, "cc") if root is not None and is_clause else None
        if joins is None or joins.i > second.left_edge.i:
            continue
        behind = sum(token.lower_ == joins.lower_ for token in doc[joins.i + 1 :])
        parts = fact.sentence.rstrip(".").split(f" {joins.text} ")
        kept = f" {joins.text} ".join(parts[: len(parts) - 1 - behind])
        return fact._replace(sentence=f"{kept.rstrip(' ,')}.") if kept else fact
    return fact


def _of_phrase(frame: Frame, root: Token) -> Fact | None:
    """Return a fact that says what something is, where a noun phrase stands behind its verb."""
    fact = frame.fact
    target = child(root, "attr", "dobj")
    to = child(target, "prep") if target is not None else None
    if (
        target is None
        or target.pos_ not in _NOUNS
        or (to is not None and to.lower_ == "to")
    ):
        return None  # "the state space to transfer function"
    is_activity = target.lower_.endswith("ing") and root.lower_ == "gives"
    is_split = any(one.dep_ in {"conj", "ccomp", "parataxis"} for one in root.children)
    if root.i != 1 or is_activity or is_split:
        return None
    lemma = target.lemma_.lower()
    is_one = target.tag_ in {"NN", "NNP"}
    is_of_many = lemma in _KINDS or fact.question.startswith("what is ")
    takes_a = bool(frame.bare) and is_one and is_of_many
    if root.lower_ == "gives" and (lemma in _NOUNS_OF["tools"] or not takes_a):
        return fact._replace(sentence=_of_activity(fact.sentence, lemma))
    if takes_a:
        return fact._replace(sentence=wording.with_one_of_many(fact.sentence))
    if target.tag_ != "NNS" or root.lower_ != "is":
        return fact
    told = re.sub(" is (the|any) ", r" holds \1 ", fact.sentence, count=1)
    return fact._replace(sentence=told) if fact.topic else None


def _of_activity(sentence: str, noun: str) -> str:
    """Say what an object does or is where "gives" does not fit its noun: "gives the utility for".

    Args:
        sentence: "`f` gives the …".
        noun: What it gives.
    """
    if noun in _NOUNS_OF["tools"]:
        return sentence.replace(" gives the ", " is a ", 1).replace(
            " gives ", " is ", 1
        )
    if noun in _NOUNS_OF["activities"]:
        return sentence.replace(" gives ", " performs ", 1)
    return sentence


def _purposes(entry: ApiEntry) -> Iterator[str]:
    """Yield the sentences that may say what an object does: the first, and more about it."""
    for number, paragraph in enumerate(entry.summary[:2]):
        for place, sentence in enumerate(language.sentences(paragraph)):
            is_title = not number and not place
            if is_title or _PATTERNS["this_object"].match(sentence):
                yield sentence


def _purpose(sentence: str, entry: ApiEntry, proper: frozenset[str]) -> Frame | None:
    summary = sentence.rstrip(". ")
    names = frozenset(item.name for item in entry.parameters)
    summary = wording.marked(_PATTERNS["this_object"].sub("", summary), names)
    if not wording.is_readable(summary) or conditions.is_pointing(summary):
        return None
    name = f"`{entry.name}`"
    own = wording.own_stems(entry.name) | wording.cut_short(summary, entry.name)
    question = f"what does {name} do"
    predicate = wording.as_predicate(summary)
    is_itself = entry.form == "class" and summary.lower().startswith(
        f"{entry.name.lower()} "
    )
    if is_itself or _PATTERNS["no_verb"].match(summary):
        return None  # "Bounds constraint on the variables" of `Bounds`
    if predicate:
        told = f"{name} {predicate}."
        frame = Frame(
            Fact(CriterionKind.DEFINITION, told, question=question),
            conditions.probe(told),
        )
    elif (" to " in summary and entry.form != "class") or not wording.is_whole_phrase(
        summary
    ):
        return None  # "State space to transfer function"
    else:
        is_title = re.match(r"(?!The\b)[A-Z][a-z]+ [A-Z]", summary) is not None
        lowered = summary if is_title else language.lower_first(summary, proper)
        verb = "is" if entry.form == "class" else "gives"
        question = f"what is {name}" if entry.form == "class" else question
        told = f"{name} {verb} {wording.with_article(lowered)}."
        frame = Frame(
            Fact(CriterionKind.DEFINITION, told, question=question),
            conditions.probe(told),
            is_phrase=True,
            bare=conditions.probe(summary)
            if not lowered.startswith(("a ", "an ", "the "))
            else "",
        )
    return frame if wording.defines(told, own) else None


def _notes(entry: ApiEntry, names: frozenset[str]) -> Iterator[Frame | None]:
    """Yield the conditions in the running text that are about a parameter."""
    is_assumed = False
    for paragraph in (*entry.summary[1:], *entry.notes):
        before = ""
        for raw in language.sentences(paragraph):
            one = phrases.LEAD_IN.sub("", raw).rstrip(". ")
            about = conditions.conditioned(one, names)
            is_assumed = is_assumed or soundness.assumes(raw)
            is_general = not is_assumed and _PATTERNS["one_way"].search(before) is None
            if about and is_general and re.match(r"(?:If|When)\s", one):
                items = (item for item in entry.parameters if item.name == about)
                kind = next(items).kind
                yield conditions.condition_frame(one, "", entry.name, names, kind)
            before += f"{raw} "


def note_facts(entry: ApiEntry) -> list[Fact]:
    """Read the facts of the running text of an entry, as of any other prose.

    Args:
        entry: The entry.
    """
    paragraphs = (*entry.summary[1:], *entry.notes)
    known = language.stems(f"{entry.name} {' '.join(entry.summary[:1])}")
    names = frozenset(item.name for item in entry.parameters)
    raws = [raw for paragraph in paragraphs for raw in language.sentences(paragraph)]
    usable = [raw for raw in raws if wording.is_readable(raw.rstrip("."))]
    marked = (wording.marked(raw, names) for raw in usable)
    found = prose.facts_in(dict.fromkeys(marked, known), " ".join(raws)).values()
    return [
        fact for fact in found if soundness.is_note(fact) and soundness.is_clear(fact)
    ]


def chosen(found: Sequence[Fact], notes: Sequence[Fact]) -> list[Fact]:
    """Choose facts for one question: of several parameters rather than many of one.

    Args:
        found: Those of summary, parameters, results and errors.
        notes: Those of the running text.
    """
    by_topic = Counter(fact.topic for fact in found if fact.topic)
    topics = sorted(by_topic, key=lambda topic: -min(by_topic[topic], _MOST_OF_A_TOPIC))
    wanted = set(topics[:_MOST_TOPICS])
    bare = [fact for fact in found if _is_bare_none(fact, found)]
    none = bare[:1]
    types = [fact for fact in found if fact.kind == CriterionKind.SHAPE]
    found = [fact for fact in found if fact.kind != CriterionKind.SHAPE]
    found = [fact for fact in found if fact not in bare]
    own = [fact for fact in found if not fact.topic]
    per = Counter[str]()
    count = 0
    kept: list[Fact] = []
    for fact in (*own, *(fact for fact in found if fact.topic in wanted)):
        is_condition = fact.kind == CriterionKind.CONDITION
        full = is_condition and count == _MOST_CONDITIONS
        if full or (fact.topic and per[fact.topic] == _MOST_OF_A_TOPIC):
            continue
        per[fact.topic] += 1
        count += is_condition
        kept.append(fact)
    kept = kept[:_MOST]
    for fact in notes[: min(_MOST_NOTES, _MOST - len(kept))]:
        if not any(says_the_same(fact.sentence, other.sentence) for other in kept):
            kept.append(fact)
    kept += types[: min(_MOST_TYPES, max(_FEWEST - len(kept), 0))]
    kept += none[: max(_FEWEST - len(kept), 0)]
    order = {
        id(fact): place for place, fact in enumerate((*found, *types, *none, *notes))
    }
    return sorted(kept, key=lambda fact: order[id(fact)])


def _is_bare_none(fact: Fact, found: Sequence[Fact]) -> bool:
    """Tell whether a fact is a default of None of which nothing says what it does."""
    if not _PATTERNS["no_default"].match(fact.sentence):
        return False
    return not any(
        other.sentence.startswith(f"If {fact.topic} is None,") for other in found
    )
