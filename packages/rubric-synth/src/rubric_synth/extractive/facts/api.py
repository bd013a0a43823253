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
from rubric_synth.extractive.facts import gate, parameters, parsing, prose, wording
from rubric_synth.extractive.facts.fact import Fact, says_the_same
from rubric_synth.extractive.facts.parameters import Frame
from rubric_synth.extractive.facts.parsing import child, root_of
from rubric_synth.tables import read_table

_FEWEST: Final = 5
_MOST_TYPES: Final = 2
"""Facts that say no more than a type, where others are too few."""
_MOST: Final = 8
_MOST_TOPICS: Final = 4
_MOST_OF_A_TOPIC: Final = 4
_MOST_NOTES: Final = 3
_MOST_CONDITIONS: Final = 3
_PLACES: Final = ("first", "second", "third", "fourth")
_LONGEST_LABEL: Final = 4
_PATTERNS: Final = patterns(read_table("patterns")["parameters"])
_NOUNS: Final = frozenset({"NOUN", "PROPN"})
_NOUNS_OF: Final = {
    name: frozenset(read_table("facts")["pages"][name].split()) for name in ("tools", "activities")
}


def api_facts(entry: ApiEntry) -> list[Fact]:
    """Read the facts of an entry, those first that an answer should open with.

    Args:
        entry: The entry.
    """
    frames = [frame for frame in _frames(entry) if frame is not None]
    texts = [text for frame in frames for text in (frame.probe, frame.bare) if text]
    docs = iter(parsing.parsed(texts))
    found: list[Fact] = []
    for frame in frames:
        fact = _checked(frame, next(docs)) if frame.probe else frame.fact
        is_command = bool(frame.bare) and _commands(next(docs))
        fact = None if is_command else fact
        if fact is None or any(_repeats(fact, other) for other in found):
            continue
        found.append(fact)
    return found


def is_internal(entry: ApiEntry) -> bool:
    """Tell whether a page says that its object is not for callers.

    Args:
        entry: The page.
    """
    texts = (*entry.summary, *entry.notes)
    return any(_PATTERNS["internal"].search(text) is not None for text in texts)


def _repeats(fact: Fact, other: Fact) -> bool:
    """Tell whether a fact says what another says, their names left out."""
    is_error = CriterionKind.RAISES in {fact.kind, other.kind}
    if is_error and (fact.kind != other.kind):
        condition = fact if other.kind == CriterionKind.RAISES else other
        return _PATTERNS["error"].search(condition.sentence) is not None and says_the_same(
            fact.sentence, other.sentence
        )
    if fact.required or other.required:
        return fact.sentence == other.sentence
    plain, before = (re.sub("`[^`]*`", "", one.sentence) for one in (fact, other))
    return says_the_same(plain, before)


def _frames(entry: ApiEntry) -> Iterator[Frame | None]:
    names = frozenset(item.name for item in entry.parameters)
    proper = language.proper_names(". ".join(entry.texts()))
    yield _purpose(entry, proper)
    items = [item for item in entry.parameters if item.name and item.name != "self"]
    for _, group in groupby(items, key=lambda item: item.description or item.name):
        yield from parameters.frames_of(list(group), entry, names, proper)
    yield from _results(entry, names, proper)
    for item in entry.raises[:2]:
        yield _raised(entry, item, names)
    yield from _notes(entry, names)


def _checked(frame: Frame, doc: Doc) -> Fact | None:
    """Return the fact of a frame whose sentence the parser can read; None for any other."""
    if frame.probe.startswith(("If ", "When ")):
        return frame.fact if gate.follows(doc) else None
    root = root_of(doc)
    if root is None or not gate.says_of_it(doc):
        return None
    if frame.is_phrase:
        return _of_phrase(frame.fact, root)
    is_verb = root.pos_ in {"VERB", "AUX"} or child(root, "aux") is not None
    return frame.fact if is_verb else None


def _commands(doc: Doc) -> bool:
    """Tell whether a phrase without its article is read as a command: "arrange a list"."""
    root = root_of(doc)
    if root is None or root.i > 1 or root.tag_ not in {"VB", "VBP", "VBZ"}:
        return False
    return child(root, "dobj", "ccomp", "attr", "xcomp") is not None


def _of_phrase(fact: Fact, root: Token) -> Fact | None:
    """Return a fact that says what something is, where a noun phrase stands behind its verb."""
    target = child(root, "attr", "dobj")
    to = child(target, "prep") if target is not None else None
    if target is None or target.pos_ not in _NOUNS or (to is not None and to.lower_ == "to"):
        return None  # "the state space to transfer function"
    is_activity = target.lower_.endswith("ing") and root.lower_ == "gives"
    is_split = any(one.dep_ in {"conj", "ccomp", "parataxis"} for one in root.children)
    if root.i != 1 or is_activity or is_split:
        return None
    if root.lower_ == "gives":
        return fact._replace(sentence=_of_activity(fact.sentence, target.lemma_.lower()))
    if target.tag_ != "NNS" or root.lower_ != "is":
        return fact
    told = fact.sentence.replace(" is the ", " holds the ", 1)
    return fact._replace(sentence=told) if fact.topic else None


def _of_activity(sentence: str, noun: str) -> str:
    """Say what an object does or is where "gives" does not fit its noun: "gives the utility for".

    Args:
        sentence: "`f` gives the …".
        noun: What it gives.
    """
    if noun in _NOUNS_OF["tools"]:
        return sentence.replace(" gives the ", " is a ", 1).replace(" gives ", " is ", 1)
    if noun in _NOUNS_OF["activities"]:
        return sentence.replace(" gives ", " performs ", 1)
    return sentence


def _purpose(entry: ApiEntry, proper: frozenset[str]) -> Frame | None:
    summary = next(iter(language.sentences("".join(entry.summary[:1]))), "").rstrip(". ")
    summary = wording.marked(
        _PATTERNS["this_object"].sub("", summary), frozenset(item.name for item in entry.parameters)
    )
    if not wording.is_readable(summary) or parameters.is_pointing(summary):
        return None
    name = f"`{entry.name}`"
    own = wording.own_stems(entry.name)
    question = f"what does {name} do"
    predicate = wording.as_predicate(summary)
    if _PATTERNS["no_verb"].match(summary):
        return None
    if predicate:
        told = f"{name} {predicate}."
        frame = Frame(
            Fact(CriterionKind.DEFINITION, told, question=question),
            parameters.probe(told),
        )
    elif (" to " in summary and entry.form != "class") or not wording.is_whole_phrase(summary):
        return None  # "State space to transfer function"
    else:
        is_title = re.match(r"(?!The\b)[A-Z][a-z]+ [A-Z]", summary) is not None
        lowered = summary if is_title else language.lower_first(summary, proper)
        verb = "is" if entry.form == "class" else "gives"
        told = f"{name} {verb} {wording.with_article(lowered)}."
        frame = Frame(
            Fact(CriterionKind.DEFINITION, told, question=question),
            parameters.probe(told),
            is_phrase=True,
            bare=parameters.probe(summary) if not lowered.startswith(("a ", "an ", "the ")) else "",
        )
    return frame if wording.defines(told, own) else None


def _results(
    entry: ApiEntry, names: frozenset[str], proper: frozenset[str]
) -> Iterator[Frame | None]:
    sure = [one for one in entry.returns if not _PATTERNS["if_wanted"].search(one.description)]
    if len(sure) > len(_PLACES):
        return
    for place, item in enumerate(sure):
        told = [one.rstrip(". ") for one in language.sentences(item.description)]
        told = [wording.marked(one, names | {entry.name}) for one in told]
        if not told:
            return
        first = re.sub(r"^(?:returns?|returned)\s+", "", told[0], flags=re.IGNORECASE)
        label, colon, rest = first.partition(": ")
        first = re.split(r";\s", rest if colon and _is_label(label, rest) else first)[0]
        if (
            _PATTERNS["no_result"].search(first)
            or ": " in first
            or not wording.is_readable(first)
            or not wording.is_whole_phrase(first)
            or parameters.is_pointing(first)
        ):
            return  # the place of a second result needs the first
        lowered = wording.with_article(language.lower_first(first, proper))
        sentence = f"`{entry.name}` returns {lowered}."
        if len(sure) > 1:
            sentence = (
                f"`{entry.name}` returns {lowered}, as {_PLACES[place]} of {len(sure)} results."
            )
        fact = Fact(CriterionKind.RETURNS, sentence, question=f"what does `{entry.name}` return")
        if wording.defines(sentence, wording.own_stems(entry.name)):
            is_bare = not first.lower().startswith(("a ", "an ", "the "))
            yield Frame(
                fact,
                parameters.probe(f"`{entry.name}` returns {lowered}."),
                is_phrase=True,
                bare=parameters.probe(first) if is_bare else "",
            )
        for one in told[1:]:
            yield parameters.condition_frame(one, "", entry.name, names)


def _is_label(label: str, rest: str) -> bool:
    """Tell whether what stands before a colon names a way, and the result stands behind it."""
    words = rest.split()
    return len(label.split()) <= _LONGEST_LABEL and len(words) > _LONGEST_LABEL and "," not in rest


def _raised(entry: ApiEntry, item: ApiItem, names: frozenset[str]) -> Frame | None:
    condition = item.description.split(". ")[0].rstrip(". ")
    if not condition or not item.name.isidentifier():
        return None
    is_bare = not condition.lower().startswith(("if ", "when "))
    said = wording.marked(language.lower_first(condition, frozenset()), names)
    said = f"if {said}" if is_bare else said
    told = f"`{entry.name}` raises {item.name} {said}."
    if not wording.is_readable(told) or parameters.is_pointing(told) or "raise" in said:
        return None
    question = f"which error does `{entry.name}` raise, and when"
    fact = Fact(CriterionKind.RAISES, told, required=(item.name,), question=question)
    return Frame(fact, parameters.probe(language.capital_first(f"{said}, errors are raised.")))


def _notes(entry: ApiEntry, names: frozenset[str]) -> Iterator[Frame | None]:
    for paragraph in (*entry.summary[1:], *entry.notes):
        for raw in language.sentences(paragraph):
            one = phrases.LEAD_IN.sub("", raw).rstrip(". ")
            if re.match(r"(?:If|When)\s", one):
                yield parameters.condition_frame(one, "", entry.name, names)


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
    return list(prose.facts_in(dict.fromkeys(marked, known), " ".join(raws)).values())


def chosen(found: Sequence[Fact], notes: Sequence[Fact]) -> list[Fact]:
    """Choose facts for one question: of several parameters rather than many of one.

    Args:
        found: Those of summary, parameters, results and errors.
        notes: Those of the running text.
    """
    by_topic = Counter(fact.topic for fact in found if fact.topic)
    topics = sorted(by_topic, key=lambda topic: -min(by_topic[topic], _MOST_OF_A_TOPIC))
    wanted = set(topics[:_MOST_TOPICS])
    none = [fact for fact in found if _PATTERNS["no_default"].match(fact.sentence)][:1]
    types = [fact for fact in found if fact.kind == CriterionKind.SHAPE]
    found = [fact for fact in found if fact.kind != CriterionKind.SHAPE]
    found = [fact for fact in found if not _PATTERNS["no_default"].match(fact.sentence)]
    own = [fact for fact in found if not fact.topic]
    per = Counter[str]()
    conditions = 0
    kept: list[Fact] = []
    for fact in (*own, *(fact for fact in found if fact.topic in wanted)):
        is_condition = fact.kind == CriterionKind.CONDITION
        full = is_condition and conditions == _MOST_CONDITIONS
        if full or (fact.topic and per[fact.topic] == _MOST_OF_A_TOPIC):
            continue
        per[fact.topic] += 1
        conditions += is_condition
        kept.append(fact)
    kept = kept[:_MOST]
    for fact in notes[: min(_MOST_NOTES, _MOST - len(kept))]:
        if not any(says_the_same(fact.sentence, other.sentence) for other in kept):
            kept.append(fact)
    kept += types[: min(_MOST_TYPES, max(_FEWEST + 1 - len(kept), 0))]
    kept += none[: max(_FEWEST - len(kept), 0)]
    order = {id(fact): place for place, fact in enumerate((*found, *types, *none, *notes))}
    return sorted(kept, key=lambda fact: order[id(fact)])


def question_of(entry: ApiEntry, facts: Sequence[Fact]) -> str:
    """Ask for the facts as an expert would, for each kind by the names it is asked of.

    Args:
        entry: The entry.
        facts: Those that criteria are made of.
    """
    form = "" if entry.form == "function" else f"the {entry.form} "
    link = "of" if entry.form == "method" else "from"
    described = f"{form}`{entry.name}` {link} {entry.owner}"
    topics = {kind: _topics(facts, kind) for kind in CriterionKind}
    asks: list[str] = []
    purposes = [fact for fact in facts if fact.question == f"what does `{entry.name}` do"]
    opening = f"what does {described} do" if purposes else ""
    if meant := topics[CriterionKind.DEFINITION]:
        named = language.listed(meant)
        asks.append(f"what {'do' if len(meant) > 1 else 'does'} {named} mean")
    if defaults := topics[CriterionKind.DEFAULT]:
        noun = "defaults" if len(defaults) > 1 else "default"
        asks.append(
            f"what {'are' if len(defaults) > 1 else 'is'} the {noun} of {language.listed(defaults)}"
        )
    if types := topics[CriterionKind.SHAPE]:
        asks.append(f"of which type {'are' if len(types) > 1 else 'is'} {language.listed(types)}")
    if choices := topics[CriterionKind.CHOICES]:
        asks.append(f"which values may {language.listed(choices)} take")
    plain = {
        CriterionKind.DEFINITION,
        CriterionKind.DEFAULT,
        CriterionKind.CHOICES,
        CriterionKind.SHAPE,
    }
    for fact in facts:
        asked = (
            fact.question.replace(f" does `{entry.name}` ", " does it ")
            if opening
            else fact.question
        )
        is_further = not (fact in purposes or (fact.topic and fact.kind in plain))
        if is_further and asked not in asks:
            asks.append(asked)
    if opening:
        return " ".join(f"{language.capital_first(ask)}?" for ask in (opening, *asks))
    first, *others = asks
    lead = (
        f"In a call of {described}, {first}?"
        if entry.form != "class"
        else f"For {described}, {first}?"
    )
    return " ".join((lead, *(f"{language.capital_first(ask)}?" for ask in others)))


def _topics(facts: Sequence[Fact], kind: CriterionKind) -> list[str]:
    """Return the names of parameters that facts of a kind are about, in code marks."""
    topics = (fact.topic for fact in facts if fact.topic and fact.kind == kind)
    return list(dict.fromkeys(name for topic in topics for name in re.findall("`[^`]*`", topic)))
