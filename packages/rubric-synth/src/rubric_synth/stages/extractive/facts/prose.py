"""Facts of prose: sentences that stand alone and answer a question of their own."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from spacy.tokens import Doc

from rubric_core import CriterionKind
from rubric_judge.judges.lexical.words import stem
from rubric_synth import language
from rubric_synth.document import Document
from rubric_synth.sources.cleaning.markup import sections
from rubric_synth.stages.extractive import phrases
from rubric_synth.stages.extractive.claims import Passage
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.facts import (
    asking,
    context,
    gate,
    parsing,
    shortened,
    sound,
    tails,
)
from rubric_synth.stages.extractive.facts.clauses import Query, lowered
from rubric_synth.stages.extractive.facts.context import Scene
from rubric_synth.stages.extractive.facts.fact import Fact, says_the_same
from rubric_synth.stages.extractive.facts.opening import (
    names_of,
    product_of,
    written_in,
)
from rubric_synth.tables import phrase

_WORDS = range(7, 33)
_MOST = 6
_MOST_PARSED = 90
"""Number of sentences of one document that are parsed, the likeliest first."""
_FEWEST_NEW = 2
"""Fewest words of a definition that the question does not hold."""
_LEAK = 8
"""Length of a run of words that a question may not share: the default of `quality.leak_words`."""
_CODE = re.compile(r"`[^`]*`")
_TOKEN = re.compile(r"\w+")
_MOST_OF_A_KIND = 4
_BEFORE = 3
"""Number of sentences before a fact that may say which one "the" means."""
_ENOUGH = 3
"""Number of facts with one answer each that no open one is added to."""
_PICTURE = phrase("picture")
_HINT = phrase("fact_hint")
_POINTER = phrase("fact_pointer")
_ADDITION = phrase("addition", re.NOFLAG)
_FEWEST_AT_HOME = 3
_BOLD_TITLE = re.compile(
    r"^\s*(\*\*|__)[^*_]{2,80}\1[.:]?\s+(?=[A-Z])(?![A-Z]\w* (?:is|are)\b.{0,3}$)"
)
_TITLE_ALONE = re.compile(r"^\W*(?:\w+\W{1,3}){1,6}$")
_SUPPOSED = phrase("supposed")
_LINKS = re.compile(r"[:,;(]|\b(?:of|for|in|to|with|and|or|from|by|on|at|the|an?)\b")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*]+)(?<=\S)\1(?![\w*])")
"""Marks around the term that a textbook's sentence introduces: "A **solute** is …"."""


def facts_of(document: Document, passages: Iterable[Passage]) -> dict[str, Fact]:
    """Return the facts of a document by the sentence that states each.

    Args:
        document: Prose.
        passages: Its passages, whose headings say what it is about.
    """
    known: dict[str, frozenset[str]] = {}
    scenes: dict[str, Scene] = {}
    example_paragraphs = _in_examples(document.text)
    about_all = f"{document.title} {product_of(document)}"
    for passage in passages:
        titles = (passage.subject, passage.context, document.title)
        heads = _heads(titles)
        for paragraph in passage.paragraphs:
            if _PICTURE.match(paragraph) or paragraph in example_paragraphs:
                continue
            raws = sentences_of(paragraph)
            for place, raw in enumerate(raws):
                if _SUPPOSED.search(raw):
                    break  # what follows holds of an example
                known.setdefault(raw, heads)
                before = raws[max(0, place - _BEFORE) : place]
                scene = Scene(raw, before, document.text, about_all)
                scenes.setdefault(raw, scene)
    return facts_in(known, document.text, scenes)


def sentences_of(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph, a title in bold before them left out.

    Args:
        paragraph: Prose.
    """
    return language.sentences(_BOLD_TITLE.sub("", paragraph))


def _in_examples(text: str) -> frozenset[str]:
    """Return the paragraphs under "Example", "Answer" and the like, up to the next heading."""
    paragraphs: set[str] = set()
    for section in sections(text):
        is_example = _PICTURE.match(section.heading) is not None
        for paragraph in section.paragraphs:
            if _TITLE_ALONE.match(paragraph):
                is_example = _PICTURE.match(paragraph) is not None
            elif is_example:
                paragraphs.add(paragraph)
    return frozenset(paragraphs)


def _heads(phrases_: Iterable[str]) -> frozenset[str]:
    """Return the stems of the nouns that carry phrases: "rate" and "flow" of "rate of a flow"."""
    stems: set[str] = set()
    for phrase_ in phrases_:
        for part in _LINKS.split(phrase_.lower()):
            if part.strip():
                last = part.split()[-1]
                stems.add(stem(last.strip("'\"`")))
    return frozenset(stems)


def facts_in(
    known: Mapping[str, frozenset[str]],
    text: str,
    scenes: Mapping[str, Scene] | None = None,
) -> dict[str, Fact]:
    """Return the facts among sentences, by sentence.

    Args:
        known: Sentences, each with the stems of the names that its question has anyway.
        text: The text around them, which shows what is a name.
        scenes: The scene of each sentence; None where each stands for itself.
    """
    likely = (raw for raw in known if _is_candidate(raw))
    usable = [raw for raw in likely if gate.may_stand_alone(_without_addition(raw))]
    usable = usable[:_MOST_PARSED]
    names = names_of(text)
    small = written_in(text).small.keys()
    plain = [_without_addition(raw) for raw in usable]
    facts: dict[str, Fact] = {}
    for raw, doc in zip(usable, parsing.parsed(plain), strict=True):
        own_names = names
        if _begins_with_a_name(doc, small, text):
            own_names |= {doc[0].text}
        scene = scenes.get(raw) if scenes is not None else None
        fact = _fact(doc, known[raw], own_names, scene)
        if fact is None:
            continue
        if fact.kind == CriterionKind.DEFINITION or not sound.is_added(raw):
            facts[raw] = fact
    return facts


def _begins_with_a_name(
    doc: Doc,
    small: AbstractSet[str],
    text: str,
) -> bool:
    """Tell whether the first word keeps its capital: "Claviceps purpurea", no "Multilayer".

    Args:
        doc: The sentence.
        small: Words that the text writes without a capital.
        text: The text, which may shorten a species: "C. difficile".
    """
    first = doc[0]
    second = doc[1].text if len(doc) > 1 else ""
    if second.islower() and f"{first.text[0]}. {second} " in text:
        return True
    if not first.tag_.startswith("NNP"):
        return False
    if second.isalpha() and second.islower() and not parsing.is_english(second):
        return True  # of a species
    if first.lower_ in small or parsing.is_english(first.lower_):
        return False
    return not sound.is_combined(first.text)


def _without_addition(raw: str) -> str:
    bare = _EMPHASIS.sub(r"\2", raw)
    bare = phrases.CITATION.sub("", bare)
    bare = _ADDITION.sub("", bare)
    return language.capital_first(bare)


def _is_candidate(raw: str) -> bool:
    """Tell whether a sentence may state a fact, as far as its words show."""
    if not raw.endswith(".") or not raw.lstrip("*")[:1].isupper():
        return False
    if len(raw.split()) not in _WORDS:
        return False
    if _HINT.search(raw) is None or _POINTER.search(raw) is not None:
        return False
    without_emphasis = _EMPHASIS.sub(r"\2", raw)
    return gate.is_plain(without_emphasis) and sound.is_whole(raw)


def _fact(
    doc: Doc,
    known: frozenset[str],
    names: frozenset[str],
    scene: Scene | None,
) -> Fact | None:
    if not gate.stands_alone(doc, known):
        return None
    query = asking.query_of(doc, names)
    if query is None or _rests_on_others(doc, query, known, scene):
        return None
    question: str | None = query.question
    sentence: str | None = tails.main_sentence(doc, query.kind)
    is_broken = any(code not in doc.text for code in _CODE.findall(question))
    if is_broken or not sentence:
        return None  # a word was moved out of its marks, or no cut is sure
    if scene is not None:
        question = shortened.written_out(question, scene, names)
        sentence = shortened.written_out(sentence, scene, names)
    if not question or not sentence or _shares_a_run(question, sentence):
        return None  # a leak of the rubric
    if not _adds_enough(question, sentence, query):
        return None  # the question holds the answer
    capitals = frozenset(word for word in question.split() if word[:1].isupper())
    return Fact(
        query.kind,
        sentence,
        required=tuple(filter(None, query.required)),
        claim=lowered(sentence.rstrip("."), names | capitals),
        question=question,
        is_open=query.is_open,
    )


def _rests_on_others(
    doc: Doc,
    query: Query,
    known: frozenset[str],
    scene: Scene | None,
) -> bool:
    if scene is None:
        return False
    return context.rests_on_others(doc, query.kind, scene, known)


def _adds_enough(question: str, sentence: str, query: Query) -> bool:
    """Tell whether a sentence answers its question with words that the question lacks."""
    if any(query.required) or query.kind == CriterionKind.COMPARISON:
        return True
    words = language.content_words(sentence)
    stems = language.stems(" ".join(words))
    stems -= language.stems(question)
    fewest = _FEWEST_NEW if query.kind == CriterionKind.DEFINITION else 1
    return len(stems) >= fewest


def _shares_a_run(question: str, sentence: str) -> bool:
    """Tell whether a question holds a run of words of a sentence that is long enough to leak."""
    words = _TOKEN.findall(question.lower())
    sentence_words = " ".join(_TOKEN.findall(sentence.lower()))
    text = f" {sentence_words} "
    starts = range(len(words) - _LEAK + 1)
    runs = (" ".join(words[start : start + _LEAK]) for start in starts)
    return any(f" {run} " in text for run in runs)


def chosen(
    passage: Passage,
    facts: Mapping[str, Fact],
    terms: CorpusTerms,
    title: str,
) -> list[Fact]:
    """Choose the facts of a passage that one question asks for, in the order of the text.

    Args:
        passage: The passage that states them.
        facts: Facts of the document, by sentence.
        terms: Weights of words in the collection.
        title: Title of the document, to recognise boilerplate.
    """
    selection: list[tuple[int, Fact]] = []
    kinds = Counter[str]()
    for place, fact in _best_first(passage, facts, terms, title):
        if fact.is_open and len(selection) >= _ENOUGH:
            break
        if len(selection) >= _MOST or kinds[fact.kind] >= _MOST_OF_A_KIND:
            continue
        if not any(_is_again(fact, other) for _, other in selection):
            selection.append((place, fact))
            kinds[fact.kind] += 1
    selection.sort(key=lambda pair: pair[0])
    return [fact for _, fact in selection]


def _best_first(
    passage: Passage,
    facts: Mapping[str, Fact],
    terms: CorpusTerms,
    title: str,
) -> list[tuple[int, Fact]]:
    """Return the facts of a passage with their places, open ones last, best ones first."""
    subject = language.stems(passage.subject)
    key_terms = terms.key_terms(passage.text, limit=25)
    key = language.stems(" ".join(key_terms))
    ranked: list[tuple[bool, float, int, Fact]] = []
    for place, raw in enumerate(_sentences(passage)):
        fact = facts.get(raw)
        if fact is None or terms.is_boilerplate(raw, title):
            continue
        own = language.stems(fact.question)
        score = 1.0 + len(own & key)
        if own & subject:
            score *= 1.5
        score /= len(fact.question.split()) ** 0.5
        ranked.append((fact.is_open, -score, place, fact))
    ranked.sort(key=lambda entry: entry[:2])
    return [(place, fact) for _, _, place, fact in ranked]


def _is_again(fact: Fact, other: Fact) -> bool:
    """Tell whether two facts are asked for, or stated, the same."""
    if fact.question == other.question:
        return True
    if says_the_same(fact.sentence, other.sentence):
        return True
    return _is_short_for(fact, other) or _is_short_for(other, fact)


def _is_short_for(fact: Fact, other: Fact) -> bool:
    """Tell whether a definition is of the short form of what another one defines."""
    if fact.kind != CriterionKind.DEFINITION or other.kind != fact.kind:
        return False
    name = fact.question.split()[-1]
    return f"({name})" in other.sentence


def gathered(
    passages: Sequence[Passage],
    facts: Mapping[str, Fact],
    title: str,
    most_words: int,
) -> Passage | None:
    """Join the paragraphs of a document that hold facts to one passage; None where none does.

    Args:
        passages: Passages of the document.
        facts: Its facts, by sentence.
        title: Title of the document.
        most_words: Paragraphs beyond so many words are left out.
    """
    homes: dict[str, str] = {}
    room = most_words
    for passage in passages:
        own_homes = passage.homes or ("",) * len(passage.paragraphs)
        for paragraph, home in zip(passage.paragraphs, own_homes, strict=True):
            count = len(paragraph.split())
            if paragraph in homes or count > room:
                continue
            if any(raw in facts for raw in sentences_of(paragraph)):
                homes[paragraph] = home
                room -= count
    if not homes:
        return None
    subject = passages[0].subject if len(passages) == 1 else title
    for passage in passages:
        if passage.context:
            subject = passage.context
            break
    return Passage(subject, "", tuple(homes), tuple(homes.values()))


def _sentences(passage: Passage) -> list[str]:
    return [
        sentence
        for paragraph in passage.paragraphs
        for sentence in sentences_of(paragraph)
    ]


def at_home(
    of_criteria: Sequence[Fact],
    facts: Mapping[str, Fact],
    passage: Passage,
) -> Passage:
    """Return a passage with the subject of the section that most of its facts stand in.

    Where no section holds three of them, the subject is the document's title.

    Args:
        of_criteria: Facts that criteria are made of.
        facts: Facts of the document, by sentence.
        passage: The passage that states them.
    """
    if not passage.homes:
        return passage
    ids = {id(fact) for fact in of_criteria}
    homes = Counter[str]()
    for paragraph, home in zip(passage.paragraphs, passage.homes, strict=True):
        raws = sentences_of(paragraph)
        count = sum(id(facts.get(raw)) in ids for raw in raws)
        if count:
            homes[home] += count
    home = ""
    count = 0
    if homes:
        home, count = homes.most_common(1)[0]
    if passage.subject in homes and homes[passage.subject] == count:
        return passage
    title = passage.context or passage.subject
    if home and count >= _FEWEST_AT_HOME:
        is_same = language.stems(home) <= language.stems(title)
        return passage._replace(subject=home, context="" if is_same else title)
    return passage._replace(subject=title, context="")


def of_home(
    of_criteria: Sequence[Fact],
    facts: Mapping[str, Fact],
    passage: Passage,
) -> list[Fact]:
    """Return the facts of the section that their question opens with, if they are enough.

    Args:
        of_criteria: Facts that criteria are made of.
        facts: Facts of the document, by sentence.
        passage: The passage that states them, with the section as its subject.
    """
    if passage.subject not in passage.homes:
        return list(of_criteria)
    own: set[int] = set()
    for paragraph, home in zip(passage.paragraphs, passage.homes, strict=True):
        if home == passage.subject:
            raws = sentences_of(paragraph)
            own |= {id(facts[raw]) for raw in raws if raw in facts}
    at_home_facts = [fact for fact in of_criteria if id(fact) in own]
    if len(at_home_facts) < _FEWEST_AT_HOME:
        return list(of_criteria)
    return at_home_facts
