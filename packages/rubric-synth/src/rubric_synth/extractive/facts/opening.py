"""What stands before the parts of a question about prose: what they are about."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from rubric_core.rewriting import patterns
from rubric_synth import language
from rubric_synth.cleaning.markup import sections
from rubric_synth.document import Document
from rubric_synth.extractive.claims import Passage
from rubric_synth.extractive.facts import sound
from rubric_synth.extractive.facts.fact import Fact
from rubric_synth.tables import read_table

_SHARED: Final = 2
"""Parts of a question that a heading shares words with, where it is their subject."""
_FEWEST_MARKS: Final = 6
_FEWEST_NAMED: Final = 4
_FEWEST_SECTIONS: Final = 3
_SHORTEST_NAME: Final = 4
_BESIDE: Final = r"\b[A-Z][a-z-]+ {0}\b|\b{0} [A-Z][a-z-]+"
"""A name with another word that has a capital: "Carlo" alone names nothing."""
_BARE: Final = re.compile(r"\bthe [a-z-]+(?: (?!of\b)[a-z]+){0,2}$")
_MOST_NAMES: Final = 8
_NAME: Final = patterns(read_table("patterns")["prose_signs"])["name"]


def names_of(text: str) -> frozenset[str]:
    """Return the words that a text writes with a capital inside sentences more often than not."""
    capital = Counter(_NAME.findall(text))
    small = Counter(word for word in language.words(text) if word.islower())
    return frozenset(word for word in capital if capital[word] > small[word.lower()])


def product_of(document: Document) -> str:
    """Return the program that a document is about; "" for any other document.

    Its name stands in the title, in the source's path, or, where the text shows code, in a third
    of the sections.

    Args:
        document: Prose.
    """
    if any(map(str.isupper, document.title[1:])) and len(document.title.split()) == 1:
        return ""  # the title is the name
    names = names_of(document.text)
    counts = Counter(word for word in _NAME.findall(document.text) if word in names)
    title = document.title.lower()
    path = document.source.lower().rpartition("/")[2]
    parts = [
        f"{section.heading} {' '.join(section.paragraphs)}"
        for section in sections(document.text)
    ]
    shows_code = (
        document.text.count("`") >= _FEWEST_MARKS and len(parts) >= _FEWEST_SECTIONS
    )
    for place, (name, count) in enumerate(counts.most_common(_MOST_NAMES)):
        low = name.lower()
        is_titled = (
            count >= _FEWEST_NAMED
            and len(low) >= _SHORTEST_NAME
            and low in path + title
        )
        is_product = any(letter.isupper() for letter in name[1:]) or shows_code
        spread = sum(name in part for part in parts)
        is_there = (
            not place
            and shows_code
            and count >= _FEWEST_NAMED
            and 2 * spread >= len(parts)
        )
        is_whole = 2 * len(re.findall(_BESIDE.format(name), document.text)) < count
        if is_whole and ((is_titled and is_product) or is_there):
            return name
    return ""


def in_setting(
    facts: Mapping[str, Fact], product: str, document: Document
) -> dict[str, Fact]:
    """Return the facts that a question can ask for as the document is named in it.

    Of a manual whose program has no name there, those that name what they are about are left.

    Args:
        facts: Those of the document, by sentence.
        product: Name of its program; "" where it has none.
        document: Where they stand.
    """
    is_manual = document.text.count("`") >= _FEWEST_MARKS
    if product or not is_manual:
        return dict(facts)
    names = names_of(document.text)
    return {raw: fact for raw, fact in facts.items() if _has_name(fact.question, names)}


def _has_name(question: str, names: frozenset[str]) -> bool:
    words = question.split()
    signs = (
        any(map(str.isupper, w[1:])) or any(map(str.isdigit, w)) or "`" in w
        for w in words
    )
    return any(signs) or any(word in names for word in words)


def opening_of(facts: Sequence[Fact], passage: Passage, product: str) -> str:
    """Return what facts are about, as it stands before their questions; "" where they say it.

    Args:
        facts: Those that criteria are made of.
        passage: Where they stand.
        product: Name of the program that the document is about; "" where it is about none.
    """
    first = facts[0].question if facts else ""
    asked_for = language.stems(first)
    own = language.stems(" ".join(language.content_words(passage.subject)))
    shared = sum(bool(own & language.stems(fact.question)) for fact in facts)
    subject = passage.subject if shared >= _SHARED or not passage.context else ""
    titles = (title for title in (subject, passage.context) if sound.is_title(title))
    about: list[str] = []
    for name in (next(titles, ""), product):
        before = " ".join(about)
        is_told = language.stems(name) <= asked_for | language.stems(before)
        initials = "".join(word[0] for word in language.words(before)).lower()
        if (
            name
            and not is_told
            and not _is_in(name, before)
            and name.lower() not in initials
        ):
            about.append(name)
    return language.capital_first(" in ".join(about))


def _is_in(name: str, text: str) -> bool:
    """Tell whether a text holds a name, however it is written: "Patient-level prediction"."""
    small, whole = ("".join(filter(str.isalnum, one.lower())) for one in (name, text))
    return small in whole


def has_title(passage: Passage) -> bool:
    """Tell whether a passage has a title that its question can begin with, or holds anyway."""
    return sound.is_title(passage.subject) or sound.is_title(passage.context)


def needs_opening(fact: Fact) -> bool:
    """Tell whether a question asks for "the" thing of one word, which needs what it is about."""
    return _BARE.search(fact.question) is not None


def question_of(facts: Sequence[Fact], passage: Passage, product: str) -> str:
    """Ask for facts, what they are about first.

    Args:
        facts: Those that criteria are made of.
        passage: Where they stand.
        product: Name of the program that the document is about; "" where it is about none.
    """
    about = opening_of(facts, passage, product)
    first, *others = (fact.question for fact in facts)
    first = f"{about}: {first}" if about else language.capital_first(first)
    return " ".join([f"{first}?", *(f"{language.capital_first(o)}?" for o in others)])
