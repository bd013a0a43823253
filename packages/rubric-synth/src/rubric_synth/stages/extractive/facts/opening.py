"""The topic that a question about prose opens with."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rubric_synth import language
from rubric_synth.document import Document
from rubric_synth.sources.cleaning.markup import sections
from rubric_synth.stages.extractive.claims import Passage
from rubric_synth.stages.extractive.facts import sound
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns

_SHARED = 2
"""Fewest parts of a question that share words with the heading that is their subject."""
_FEWEST_MARKS = 6
_FEWEST_NAMED = 4
_FEWEST_SECTIONS = 3
_SHORTEST_NAME = 4
_BESIDE = r"\b[A-Z][a-z-]+ {0}\b|\b{0} [A-Z][a-z-]+"
"""A name with another word that has a capital: "Carlo" alone names nothing."""
_BARE = re.compile(r"\bthe [a-z-]+(?: (?!of\b)[a-z]+){0,2}$")
_OF_A_CALL = re.compile(r"\b(?:argument|parameter|option|field)s?\b", re.IGNORECASE)
_LABEL = re.compile(r"^(?!The |An? )[\w-]+(?: [\w-]+)? is the ")
"""A column of a report that a sentence explains: "Row name is the name of the row."."""
_MOST_NAMES = 8
_NAME = patterns("prose_signs")["name"]


class Written(NamedTuple):
    """How often a text writes its words."""

    capital: Counter[str]
    """Words with a capital inside sentences."""
    small: Counter[str]
    """Words without capitals."""


@lru_cache(maxsize=16)
def written_in(text: str) -> Written:
    """Count the words of a text; each document in work is counted once.

    Args:
        text: A document.
    """
    small = filter(str.islower, language.words(text))
    return Written(Counter(_NAME.findall(text)), Counter(small))


def names_of(text: str) -> frozenset[str]:
    """Return the words that a text writes with a capital inside sentences more often than not."""
    capital, small = written_in(text)
    return frozenset(
        word for word, count in capital.items() if count > small[word.lower()]
    )


def product_of(document: Document) -> str:
    """Return the program that a document is about; "" for any other document.

    Its name stands in the title, in the source's path, or, where the text shows code, in a third
    of the sections.

    Args:
        document: Prose.
    """
    return _product(document.title, document.source, document.text)


@lru_cache(maxsize=16)
def _product(title: str, source: str, text: str) -> str:
    is_one_word = len(title.split()) == 1
    if is_one_word and any(map(str.isupper, title[1:])):
        return ""  # the title is the name
    names = names_of(text)
    capital = written_in(text).capital
    counts = Counter({word: capital[word] for word in capital if word in names})
    file = source.lower().rpartition("/")[2]
    place = file + title.lower()
    parts: list[str] = []
    for section in sections(text):
        body = " ".join(section.paragraphs)
        parts.append(f"{section.heading} {body}")
    has_marks = text.count("`") >= _FEWEST_MARKS
    shows_code = has_marks and len(parts) >= _FEWEST_SECTIONS
    likely = [name for name, _ in counts.most_common(_MOST_NAMES)]
    candidates = [
        name
        for name in likely
        if len(name) >= _SHORTEST_NAME
        and name.lower() in place
        and (shows_code or any(map(str.isupper, name[1:])))
    ]
    if shows_code:
        spread = sum(likely[0] in part for part in parts) if likely else 0
        candidates += likely[:1] if 2 * spread >= len(parts) else []
    for name in candidates:
        beside = re.findall(_BESIDE.format(name), text)
        if counts[name] >= _FEWEST_NAMED and 2 * len(beside) < counts[name]:
            return name
    return ""


def in_setting(
    facts: Mapping[str, Fact],
    product: str,
    document: Document,
) -> dict[str, Fact]:
    """Return the facts that a question can ask for as the document is named in it.

    In a manual whose program has no name there, only facts that name their topic are kept.

    Args:
        facts: Facts of the document, by sentence.
        product: Name of its program; "" where it has none.
        document: The document that states them.
    """
    is_manual = document.text.count("`") >= _FEWEST_MARKS
    if product or not is_manual:
        return dict(facts)
    names = names_of(document.text)
    return {
        sentence: fact
        for sentence, fact in facts.items()
        if _has_name(fact.question, names)
    }


def _has_name(question: str, names: frozenset[str]) -> bool:
    return any(
        any(map(str.isupper, word[1:]))
        or any(map(str.isdigit, word))
        or "`" in word
        or word in names
        for word in question.split()
    )


def opening_of(
    facts: Sequence[Fact],
    passage: Passage,
    product: str,
) -> str:
    """Return the topic of facts that stands before their questions; "" where they name it.

    Args:
        facts: Facts that criteria are made of.
        passage: The passage that states them.
        product: Name of the program that the document is about; "" where it is about none.
    """
    first = facts[0].question if facts else ""
    question_stems = language.stems(first)
    words = language.content_words(passage.subject)
    own = language.stems(" ".join(words))
    shared = sum(bool(own & language.stems(fact.question)) for fact in facts)
    subject = ""
    if shared >= _SHARED or not passage.context:
        subject = passage.subject
    title = ""
    for candidate in (subject, passage.context):
        if sound.is_title(candidate):
            title = candidate
            break
    topics: list[str] = []
    for name in (title, product):
        before = " ".join(topics)
        if not name:
            continue
        if language.stems(name) <= question_stems | language.stems(before):
            continue
        if _bare(name) in _bare(before):
            continue
        initials = "".join(word[0] for word in language.words(before))
        if name.lower() not in initials.lower():
            topics.append(name)
    return language.capital_first(" in ".join(topics))


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def has_title(passage: Passage) -> bool:
    """Tell whether a passage has a title that its question can begin with, or holds anyway."""
    if sound.is_title(passage.subject):
        return True
    return sound.is_title(passage.context)


def needs_opening(fact: Fact) -> bool:
    """Tell whether a question asks for "the" thing in a word or two, which needs a topic."""
    return _BARE.search(fact.question) is not None


def names_section(passage: Passage, topic: str) -> bool:
    """Tell whether a topic, of `opening_of`, names the section that a passage is of."""
    return passage.subject in passage.homes and passage.subject.lower() in topic.lower()


def needs_section(fact: Fact) -> bool:
    """Tell whether a fact is one of many, of an argument of some call, or of a report's column."""
    if _LABEL.match(fact.sentence) is not None:
        return True
    return fact.is_open or _OF_A_CALL.search(fact.question) is not None


def question_of(facts: Sequence[Fact], topic: str) -> str:
    """Ask for facts, with their topic, of `opening_of`, first."""
    first, *others = (fact.question for fact in facts)
    opening = f"{topic}: {first}" if topic else language.capital_first(first)
    parts = [opening, *map(language.capital_first, others)]
    return " ".join(f"{part}?" for part in parts)
