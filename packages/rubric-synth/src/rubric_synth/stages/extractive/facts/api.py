"""Facts of an API entry: purpose, parameters with defaults and choices, results, conditions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.stages.extractive import phrases
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.facts import (
    conditions,
    gate,
    objects,
    parameters,
    parsing,
    prose,
    purposes,
    results,
    soundness,
    tidying,
    wording,
)
from rubric_synth.stages.extractive.facts.conditions import Frame
from rubric_synth.stages.extractive.facts.fact import Fact, says_the_same
from rubric_synth.stages.extractive.facts.parsing import child, root_of
from rubric_synth.tables import patterns, word_sets

_FEWEST = 4
_MOST_TYPES = 2
"""Most facts that give only a type, where others are too few."""
_MOST = 8
_MOST_TOPICS = 4
_MOST_OF_A_TOPIC = 4
_MOST_NOTES = 3
_MOST_CONDITIONS = 3
_MOST_ERRORS = 3
_PATTERNS = patterns("parameters")
_NOUNS = frozenset({"NOUN", "PROPN"})
_WORDS = word_sets("facts", "soundness")
_KINDS = _WORDS["kinds"]
_IS_THE = re.compile(" is (the|any) ")
_UNUSED_MODULES = _WORDS["unused_modules"]
_NOUNS_OF = word_sets("facts", "pages")


def api_facts(entry: ApiEntry, terms: CorpusTerms | None = None) -> list[Fact]:
    """Read the facts of an entry, those first that an answer should open with.

    Args:
        entry: The entry.
        terms: Words of its collection; None where no other page is known.
    """
    text = entry.rendered()
    entry = tidying.tidied(entry)
    spelling = tidying.Spelling(entry, terms)
    items = {f"`{item.name}`": item for item in entry.parameters}
    sound: list[Fact] = []
    for raw_fact in _parsed_facts(entry):
        if spelling.has_slip(raw_fact.sentence):
            continue
        fact = soundness.repaired(raw_fact, entry)
        if entry.is_of_manual:
            fact = objects.repaired(fact, entry.name, text)
        first_topic = fact.topic.partition(" and ")[0]
        first_topic = first_topic.partition(",")[0]
        item = items.get(first_topic)
        if not _is_sound(fact, entry, item):
            continue
        if _is_common(fact, item, terms):
            continue
        if entry.is_of_manual and not objects.is_sound(fact, text, item):
            continue
        sound.append(fact)
    distinct: list[Fact] = []
    for fact in soundness.without_shared_meanings(sound):
        if not any(_repeats(fact, other, entry) for other in distinct):
            distinct.append(fact)
    return distinct


def _parsed_facts(entry: ApiEntry) -> Iterator[Fact]:
    """Yield the facts of an entry whose sentences the parser can read."""
    frames = [frame for frame in _frames(entry) if frame is not None]
    texts: list[str] = []
    for frame in frames:
        if frame.probe:
            texts.append(frame.probe)
        if frame.bare:
            texts.append(frame.bare)
    docs = iter(parsing.parsed(texts))
    for frame in frames:
        fact: Fact | None = frame.fact
        if frame.probe:
            fact = _checked(frame, next(docs))
        is_command = False
        if frame.bare:
            is_command = _commands(next(docs))
        if fact is not None and not is_command:
            yield fact


def _is_common(
    fact: Fact,
    item: ApiItem | None,
    terms: CorpusTerms | None,
) -> bool:
    """Tell whether a fact is a meaning that pages of the collection give a parameter."""
    if item is None:
        return False
    if terms is None:
        return False
    if fact.kind != CriterionKind.DEFINITION:
        return False
    return terms.glosses.is_common(item.name, item.description)


def _is_sound(
    fact: Fact,
    entry: ApiEntry,
    item: ApiItem | None,
) -> bool:
    if not soundness.is_clear(fact):
        return False
    if not soundness.is_whole(fact, item):
        return False
    return soundness.says_something(fact, entry, item)


def is_unused(entry: ApiEntry) -> bool:
    """Tell whether an object is not for callers: its page says so, or its module is old.

    Args:
        entry: The page.
    """
    parts = entry.qualified_name.split(".")
    if not _UNUSED_MODULES.isdisjoint(parts):
        return True
    if any(part.startswith("_") for part in parts):
        return True
    internal = _PATTERNS["internal"]
    texts = (*entry.summary, *entry.notes)
    return any(internal.search(text) is not None for text in texts)


def _repeats(fact: Fact, other: Fact, entry: ApiEntry) -> bool:
    """Tell whether a fact says what another says, their names left out."""
    if (
        soundness.overlaps(fact, other, entry)
        or soundness.is_same_case(fact, other)
        or soundness.lists_again(fact, other)
    ):
        return True
    if not fact.topic and fact.kind == other.kind == CriterionKind.DEFINITION:
        return not other.topic  # one purpose is enough
    is_error = CriterionKind.RAISES in {fact.kind, other.kind}
    if is_error and fact.kind != other.kind:
        condition = other
        if other.kind == CriterionKind.RAISES:
            condition = fact
        if _PATTERNS["error"].search(condition.sentence) is None:
            return False
        return says_the_same(fact.sentence, other.sentence)
    if fact.required or other.required:
        return fact.sentence == other.sentence
    return says_the_same(_without_names(fact), _without_names(other))


def _without_names(fact: Fact) -> str:
    sentence = soundness.without_type(fact.sentence)
    return re.sub("`[^`]*`", "", sentence)


def _frames(entry: ApiEntry) -> Iterator[Frame | None]:
    names = frozenset(item.name for item in entry.parameters)
    proper = tidying.lowered_names(entry)
    yield from purposes.purposes_of(entry, proper)
    items = [item for item in entry.parameters if item.name not in {"", "self"}]
    for _, group in groupby(items, key=lambda item: item.description or item.name):
        yield from parameters.frames_of(list(group), entry, names, proper)
    yield from results.results_of(entry, names, proper)
    errors = entry.raises[:_MOST_ERRORS]
    yield from results.errors_of(errors, entry, names)
    yield from _notes(entry, names)


def _checked(frame: Frame, doc: Doc) -> Fact | None:
    """Return the fact of a frame whose sentence the parser can read; None for any other."""
    fact = _without_second_clause(frame.fact, doc)
    if frame.probe.startswith(("If ", "When ")):
        if not gate.follows(doc):
            return None
        return fact
    root = root_of(doc)
    if root is None or not gate.says_of_it(doc):
        return None
    if frame.is_phrase:
        return _of_phrase(frame._replace(fact=fact), root)
    if root.pos_ in {"VERB", "AUX"} or child(root, "aux") is not None:
        return fact
    return None


def _commands(doc: Doc) -> bool:
    """Tell whether a phrase without its article is read as a command: "arrange a list"."""
    root = root_of(doc)
    if root is None:
        return False
    if root.i > 1:
        return False
    if root.tag_ not in {"VB", "VBP", "VBZ"}:
        return False
    return child(root, "dobj", "ccomp", "attr", "xcomp") is not None


def _without_second_clause(fact: Fact, doc: Doc) -> Fact:
    """Return a fact without a clause that "and" joins to it with a subject of its own."""
    root = root_of(doc)
    if root is None or fact.kind == CriterionKind.LIMIT:
        return fact
    joint = child(root, "cc")
    if joint is None:
        return fact
    for second in root.children:
        if second.dep_ != "conj":
            continue
        if joint.i > second.left_edge.i:
            continue
        if child(second, "nsubj", "nsubjpass") is None:
            continue
        joints_behind = 0
        for token in doc[joint.i + 1 :]:
            joints_behind += token.lower_ == joint.lower_
        separator = f" {joint.text} "
        parts = fact.sentence.rstrip(".").split(separator)
        count = len(parts) - 1 - joints_behind
        first_clause = separator.join(parts[:count])
        if not first_clause:
            return fact
        first_clause = first_clause.rstrip(" ,")
        return fact._replace(sentence=f"{first_clause}.")
    return fact


def _of_phrase(frame: Frame, root: Token) -> Fact | None:
    """Return a fact that says what something is, where a noun phrase follows its verb."""
    fact = frame.fact
    target = _target(root)
    if target is None:
        return None
    gives = root.lower_ == "gives"
    lemma = target.lemma_.lower()
    is_singular = target.tag_ in {"NN", "NNP"}
    is_of_many = lemma in _KINDS or fact.question.startswith("what is ")
    takes_a = bool(frame.bare) and is_singular and is_of_many
    is_tool = lemma in _NOUNS_OF["tools"]
    if gives and (is_tool or not takes_a):
        sentence = _of_activity(fact.sentence, lemma)
        return fact._replace(sentence=sentence)
    if takes_a:
        sentence = wording.with_one_of_many(fact.sentence)
        return fact._replace(sentence=sentence)
    if target.tag_ != "NNS" or root.lower_ != "is":
        return fact
    if not fact.topic:
        return None
    sentence = _IS_THE.sub(r" holds \1 ", fact.sentence, count=1)
    return fact._replace(sentence=sentence)


def _target(root: Token) -> Token | None:
    """Return the noun after "is" or "gives"; None where the phrase says something else."""
    target = child(root, "attr", "dobj")
    if target is None or target.pos_ not in _NOUNS or root.i != 1:
        return None
    prep = child(target, "prep")
    if prep is not None and prep.lower_ == "to":
        return None  # "the state space to transfer function"
    if root.lower_ == "gives" and target.lower_.endswith("ing"):
        return None
    if child(root, "conj", "ccomp", "parataxis") is not None:
        return None
    return target


def _of_activity(sentence: str, noun: str) -> str:
    """Say what an object does or is where "gives" does not fit its noun: "gives the utility for".

    Args:
        sentence: "`f` gives the …".
        noun: The noun after "gives".
    """
    if noun in _NOUNS_OF["tools"]:
        sentence = sentence.replace(" gives the ", " is a ", 1)
        return sentence.replace(" gives ", " is ", 1)
    if noun in _NOUNS_OF["activities"]:
        return sentence.replace(" gives ", " performs ", 1)
    return sentence


def _notes(entry: ApiEntry, names: frozenset[str]) -> Iterator[Frame | None]:
    """Yield the conditions in the running text that are about a parameter."""
    kinds: dict[str, str] = {}
    for item in entry.parameters:
        kinds.setdefault(item.name, item.kind)
    is_assumed = False
    for paragraph in (*entry.summary[1:], *entry.notes):
        before = ""
        for raw in language.sentences(paragraph):
            sentence = phrases.LEAD_IN.sub("", raw)
            sentence = sentence.rstrip(". ")
            name = conditions.conditioned(sentence, names)
            is_assumed = is_assumed or soundness.assumes(raw)
            is_one_way = _PATTERNS["one_way"].search(before) is not None
            before += f"{raw} "
            if not name or is_assumed or is_one_way:
                continue
            if re.match(r"(?:If|When)\s", sentence):
                yield conditions.condition_frame(
                    sentence,
                    "",
                    entry.name,
                    names,
                    kinds[name],
                )


def note_facts(entry: ApiEntry) -> list[Fact]:
    """Read the facts of the running text of an entry, as of any other prose.

    Args:
        entry: The entry.
    """
    title = " ".join(entry.summary[:1])
    known = language.stems(f"{entry.name} {title}")
    names = frozenset(item.name for item in entry.parameters)
    sentences = [
        sentence
        for paragraph in (*entry.summary[1:], *entry.notes)
        for sentence in language.sentences(paragraph)
    ]
    known_by_sentence = {
        wording.marked(sentence, names): known
        for sentence in sentences
        if wording.is_readable(sentence.rstrip("."))
    }
    facts = prose.facts_in(known_by_sentence, " ".join(sentences))
    return [
        fact
        for fact in facts.values()
        if soundness.is_note(fact) and soundness.is_clear(fact)
    ]


def chosen(of_page: Sequence[Fact], notes: Sequence[Fact]) -> list[Fact]:
    """Choose facts for one question: of several parameters rather than many of one.

    Args:
        of_page: Facts of summary, parameters, results and errors.
        notes: Facts of the running text.
    """
    by_topic = Counter(fact.topic for fact in of_page if fact.topic)

    def facts_of_topic(topic: str) -> int:
        return min(by_topic[topic], _MOST_OF_A_TOPIC)

    # The sort is stable, so among topics with as many facts the page's order stays.
    topics = sorted(by_topic, key=facts_of_topic, reverse=True)
    chosen_topics = topics[:_MOST_TOPICS]
    bare = [fact for fact in of_page if _is_bare_none(fact, of_page)]
    types = [fact for fact in of_page if fact.kind == CriterionKind.SHAPE]
    rich = [fact for fact in of_page if fact not in types and fact not in bare]
    of_object = [fact for fact in rich if not fact.topic]
    of_topics = [fact for fact in rich if fact.topic in chosen_topics]
    selection = _varied((*of_object, *of_topics))[:_MOST]
    most_notes = min(_MOST_NOTES, _MOST - len(selection))
    for fact in notes[:most_notes]:
        sentences = [other.sentence for other in selection]
        if not any(says_the_same(fact.sentence, sentence) for sentence in sentences):
            selection.append(fact)
    lacking = max(_FEWEST - len(selection), 0)
    selection += types[: min(_MOST_TYPES, lacking)]
    lacking = max(_FEWEST - len(selection), 0)
    selection += bare[: min(1, lacking)]
    in_order = (*rich, *types, *bare[:1], *notes)
    places = {id(fact): place for place, fact in enumerate(in_order)}
    return sorted(selection, key=lambda fact: places[id(fact)])


def _varied(facts: Iterable[Fact]) -> list[Fact]:
    """Return facts without those beyond the most conditions, and the most of one topic."""
    counts = Counter[str]()
    conditions_so_far = 0
    varied: list[Fact] = []
    for fact in facts:
        is_condition = fact.kind == CriterionKind.CONDITION
        if is_condition and conditions_so_far == _MOST_CONDITIONS:
            continue
        if fact.topic and counts[fact.topic] == _MOST_OF_A_TOPIC:
            continue
        counts[fact.topic] += 1
        conditions_so_far += is_condition
        varied.append(fact)
    return varied


def _is_bare_none(fact: Fact, facts: Sequence[Fact]) -> bool:
    """Tell whether a fact is a default of None whose effect no other fact gives."""
    if not _PATTERNS["no_default"].match(fact.sentence):
        return False
    case = f"If {fact.topic} is None,"
    return not any(other.sentence.startswith(case) for other in facts)
