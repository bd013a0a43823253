"""Facts of prose: sentences that stand alone and answer a question of their own."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from spacy.tokens import Doc

from rubric_core import CriterionKind
from rubric_judge.lexical.words import stem
from rubric_synth import language
from rubric_synth.cleaning.markup import sections
from rubric_synth.document import Document
from rubric_synth.extractive import phrases
from rubric_synth.extractive.claims import Passage
from rubric_synth.extractive.facts import (
    asking,
    context,
    gate,
    parsing,
    shortened,
    sound,
    tails,
)
from rubric_synth.extractive.facts.clauses import lowered
from rubric_synth.extractive.facts.context import Scene
from rubric_synth.extractive.facts.fact import Fact, says_the_same
from rubric_synth.extractive.facts.opening import names_of, product_of
from rubric_synth.extractive.phrases import CorpusTerms
from rubric_synth.tables import phrase

_WORDS: Final = range(7, 33)
_MOST: Final = 6
_MOST_PARSED: Final = 90
"""Sentences of one document that are parsed, the likeliest first."""
_FEWEST_NEW: Final = 2
"""Words of a definition that the question does not hold."""
_LEAK: Final = 8
"""Words of a run that a question may not share: `quality.leak_words` as it is by default."""
_CODE: Final = re.compile(r"`[^`]*`")
_TOKEN: Final = re.compile(r"\w+")
_MOST_OF_A_KIND: Final = 4
_BEFORE: Final = 3
"""Sentences before a fact that may say which one "the" means."""
_ENOUGH: Final = 3
"""Facts with one answer each that no open one is added to."""
_PICTURE: Final = phrase("picture")
_HINT: Final = phrase("fact_hint")
_POINTER: Final = phrase("fact_pointer")
_ADDITION: Final = phrase("addition", re.NOFLAG)
_FEWEST_AT_HOME: Final = 3
_BOLD_TITLE: Final = re.compile(
    r"^\s*(\*\*|__)[^*_]{2,80}\1[.:]?\s+(?=[A-Z])(?![A-Z]\w* (?:is|are)\b.{0,3}$)"
)
_TITLE_ALONE: Final = re.compile(r"^\W*(?:\w+\W{1,3}){1,6}$")
_SUPPOSED: Final = phrase("supposed")
_LINKS: Final = re.compile(
    r"[:,;(]|\b(?:of|for|in|to|with|and|or|from|by|on|at|the|an?)\b"
)
_EMPHASIS: Final = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*]+)(?<=\S)\1(?![\w*])")
"""Marks about the term that a textbook's sentence introduces: "A **solute** is …"."""


def facts_of(document: Document, passages: Iterable[Passage]) -> dict[str, Fact]:
    """Return the facts of a document by the sentence that states each.

    Args:
        document: Prose.
        passages: Its passages, whose headings say what it is about.
    """
    known: dict[str, frozenset[str]] = {}
    scenes: dict[str, Scene] = {}
    shown = _in_examples(document.text)
    about_all = f"{document.title} {product_of(document)}"
    for passage in passages:
        about = [passage.subject, passage.context, document.title]
        for paragraph in passage.paragraphs:
            if _PICTURE.match(paragraph) or paragraph in shown:
                continue
            raws = sentences_of(paragraph)
            for place, raw in enumerate(raws):
                if _SUPPOSED.search(raw):
                    break  # what follows holds of an example
                known.setdefault(raw, _heads(about))
                before = raws[max(0, place - _BEFORE) : place]
                scenes.setdefault(raw, Scene(raw, before, document.text, about_all))
    return facts_in(known, document.text, scenes)


def sentences_of(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph, a title in bold before them left out.

    Args:
        paragraph: Prose.
    """
    return language.sentences(_BOLD_TITLE.sub("", paragraph))


def _in_examples(text: str) -> frozenset[str]:
    """Return the paragraphs under "Example", "Answer" and the like, up to the next heading."""
    found: set[str] = set()
    for section in sections(text):
        is_shown = _PICTURE.match(section.heading) is not None
        for paragraph in section.paragraphs:
            if _TITLE_ALONE.match(paragraph):
                is_shown = _PICTURE.match(paragraph) is not None
            elif is_shown:
                found.add(paragraph)
    return frozenset(found)


def _heads(phrases_: Iterable[str]) -> frozenset[str]:
    """Return the stems of the nouns that carry phrases: "rate" and "flow" of "rate of a flow"."""
    parts = (part for one in phrases_ for part in _LINKS.split(one.lower()))
    return frozenset(
        stem(part.split()[-1].strip("'\"`")) for part in parts if part.strip()
    )


def facts_in(
    known: Mapping[str, frozenset[str]],
    text: str,
    scenes: Mapping[str, Scene] | None = None,
) -> dict[str, Fact]:
    """Return the facts among sentences, by sentence.

    Args:
        known: Sentences, each with the stems of what its question names anyway.
        text: Where they stand, which shows what is a name.
        scenes: What stands about them; None where each stands for itself.
    """
    likely = (raw for raw in known if _is_candidate(raw))
    usable = [raw for raw in likely if gate.may_stand_alone(_without_addition(raw))]
    usable = usable[:_MOST_PARSED]
    names = names_of(text)
    small = {word for word in language.words(text) if word.islower()}
    plain = [_without_addition(raw) for raw in usable]
    found: dict[str, Fact] = {}
    for raw, doc in zip(usable, parsing.parsed(plain), strict=True):
        own = names | {doc[0].text} if _begins_with_a_name(doc, small, text) else names
        scene = (scenes or {}).get(raw)
        fact = _fact(doc, known[raw], own, scene)
        may_add = fact is not None and fact.kind == CriterionKind.DEFINITION
        if fact is not None and (may_add or not sound.is_added(raw)):
            found[raw] = fact
    return found


def _begins_with_a_name(doc: Doc, small: AbstractSet[str], text: str) -> bool:
    """Tell whether the first word keeps its capital: "Claviceps purpurea", no "Multilayer".

    Args:
        doc: The sentence.
        small: Words that the text writes without a capital.
        text: The text, which may shorten a species: "C. difficile".
    """
    first, *rest = doc[:2]
    if rest and rest[0].text.islower() and f"{first.text[0]}. {rest[0].text} " in text:
        return True
    if not first.tag_.startswith("NNP"):
        return False
    second = rest[0].text if rest else ""
    if second.isalpha() and second.islower() and not parsing.is_english(second):
        return True  # of a species
    is_word = first.lower_ in small or parsing.is_english(first.lower_)
    is_plain = is_word or sound.is_combined(first.text)
    return not is_plain


def _without_addition(raw: str) -> str:
    bare = _EMPHASIS.sub(r"\2", raw)
    return language.capital_first(_ADDITION.sub("", phrases.CITATION.sub("", bare)))


def _is_candidate(raw: str) -> bool:
    return (
        len(raw.split()) in _WORDS
        and raw.lstrip("*")[:1].isupper()
        and raw.endswith(".")
        and gate.is_plain(_EMPHASIS.sub(r"\2", raw))
        and _HINT.search(raw) is not None
        and _POINTER.search(raw) is None
        and sound.is_whole(raw)
    )


def _fact(
    doc: Doc, known: frozenset[str], names: frozenset[str], scene: Scene | None
) -> Fact | None:
    if not gate.stands_alone(doc, known):
        return None
    found = asking.asked(doc, names)
    if found is None or (
        scene and context.rests_on_others(doc, found.kind, scene, known)
    ):
        return None
    sentence = tails.main_sentence(doc, found.kind)
    is_broken = any(code not in doc.text for code in _CODE.findall(found.question))
    if is_broken or not sentence:
        return None  # a word was moved out of its marks, or no cut is sure
    question: str | None = found.question
    if scene is not None:
        question = shortened.written_out(found.question, scene, names)
        sentence = shortened.written_out(sentence, scene, names)
    if not question or not sentence or _shares_a_run(question, sentence):
        return None  # a leak of the rubric
    capitals = frozenset(word for word in question.split() if word[:1].isupper())
    required = tuple(one for one in found.required if one)
    fewest = {CriterionKind.DEFINITION: _FEWEST_NEW, CriterionKind.COMPARISON: 0}.get(
        found.kind, 1
    )
    told = language.stems(" ".join(language.content_words(sentence)))
    if not required and len(told - language.stems(question)) < fewest:
        return None  # the question holds the answer
    return Fact(
        found.kind,
        sentence,
        required=required,
        claim=lowered(sentence.rstrip("."), names | capitals),
        question=question,
        is_open=found.is_open,
    )


def _shares_a_run(question: str, sentence: str) -> bool:
    """Tell whether a question holds a run of words of a sentence that is long enough to leak."""
    asked, told = (
        f" {' '.join(_TOKEN.findall(text.lower()))} " for text in (question, sentence)
    )
    words = asked.split()
    runs = (words[at : at + _LEAK] for at in range(len(words) - _LEAK + 1))
    return any(f" {' '.join(run)} " in told for run in runs)


def chosen(
    passage: Passage, facts: Mapping[str, Fact], terms: CorpusTerms, title: str
) -> list[Fact]:
    """Choose the facts of a passage that one question asks for, in the order of the text.

    Args:
        passage: Where they stand.
        facts: Those of the document.
        terms: Weights of words in the collection.
        title: Of the document, to recognise boilerplate.
    """
    subject = language.stems(passage.subject)
    key = language.stems(" ".join(terms.key_terms(passage.text, limit=25)))
    found: list[tuple[float, int, Fact]] = []
    for place, raw in enumerate(_sentences(passage)):
        fact = facts.get(raw)
        if fact is None or terms.is_boilerplate(raw, title):
            continue
        own = language.stems(fact.question)
        score = (1 + len(own & key)) * (1.5 if own & subject else 1.0)
        found.append((score / len(fact.question.split()) ** 0.5, place, fact))
    kept: list[tuple[int, Fact]] = []
    kinds = Counter[str]()
    for _, at, fact in sorted(found, key=lambda one: (one[2].is_open, -one[0])):
        if fact.is_open and len(kept) >= _ENOUGH:
            break
        is_new = not any(
            fact.question == other.question
            or says_the_same(fact.sentence, other.sentence)
            or _is_short_for(fact, other)
            or _is_short_for(other, fact)
            for _, other in kept
        )
        if len(kept) < _MOST and is_new and kinds[fact.kind] < _MOST_OF_A_KIND:
            kept.append((at, fact))
            kinds[fact.kind] += 1
    return [fact for _, fact in sorted(kept, key=lambda pair: pair[0])]


def _is_short_for(fact: Fact, other: Fact) -> bool:
    """Tell whether a definition is of the short form of what another one defines."""
    is_defined = fact.kind == other.kind == CriterionKind.DEFINITION
    return is_defined and f"({fact.question.split()[-1]})" in other.sentence


def gathered(
    passages: Sequence[Passage], facts: Mapping[str, Fact], title: str, most_words: int
) -> Passage | None:
    """Join the paragraphs of a document that hold facts to one passage; None where none does.

    Args:
        passages: Those of the document.
        facts: Its facts, by sentence.
        title: What the document is about.
        most_words: Paragraphs beyond so many words are left out.
    """
    kept: dict[str, str] = {}
    for passage in passages:
        for paragraph, home in zip(passage.paragraphs, _homes(passage), strict=True):
            room = most_words - sum(len(one.split()) for one in kept)
            holds_one = any(raw in facts for raw in sentences_of(paragraph))
            if holds_one and paragraph not in kept and len(paragraph.split()) <= room:
                kept[paragraph] = home
    contexts = Counter(passage.context for passage in passages if passage.context)
    subject = next(iter(contexts), passages[0].subject if len(passages) == 1 else title)
    return Passage(subject, "", tuple(kept), tuple(kept.values())) if kept else None


def _homes(passage: Passage) -> tuple[str, ...]:
    return passage.homes or ("",) * len(passage.paragraphs)


def _sentences(passage: Passage) -> list[str]:
    return [raw for paragraph in passage.paragraphs for raw in sentences_of(paragraph)]


def at_home(
    found: Sequence[Fact], facts: Mapping[str, Fact], passage: Passage
) -> Passage:
    """Return a passage with the subject of the section that most of its facts stand in.

    Where no section holds three of them, the subject is the document's title.

    Args:
        found: Facts that criteria are made of.
        facts: Those of the document, by sentence.
        passage: Where they stand.
    """
    if not passage.homes:
        return passage
    ids = {id(fact) for fact in found}
    homes = Counter(
        home
        for paragraph, home in zip(passage.paragraphs, passage.homes, strict=True)
        for raw in sentences_of(paragraph)
        if id(facts.get(raw)) in ids
    )
    (home, count), *_ = homes.most_common(1) or [("", 0)]
    if passage.subject in homes and homes[passage.subject] == count:
        return passage
    title = passage.context or passage.subject
    if home and count >= _FEWEST_AT_HOME:
        is_same = language.stems(home) <= language.stems(title)
        return passage._replace(subject=home, context="" if is_same else title)
    return passage._replace(subject=title, context="")


def of_home(
    asked_for: Sequence[Fact], facts: Mapping[str, Fact], passage: Passage
) -> list[Fact]:
    """Return facts without those of other sections than the one that their question opens with.

    Args:
        asked_for: Facts that criteria are made of.
        facts: Those of the document, by sentence.
        passage: Where they stand, with the section as its subject.
    """
    if passage.subject not in passage.homes:
        return list(asked_for)
    own = {
        id(facts[raw])
        for paragraph, home in zip(passage.paragraphs, passage.homes, strict=True)
        for raw in sentences_of(paragraph)
        if home == passage.subject and raw in facts
    }
    kept = [fact for fact in asked_for if id(fact) in own]
    return kept if len(kept) >= _FEWEST_AT_HOME else list(asked_for)
