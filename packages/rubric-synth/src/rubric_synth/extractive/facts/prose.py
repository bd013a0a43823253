"""Facts of prose: sentences that stand alone and answer a question of their own."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from spacy.tokens import Doc

from rubric_core import CriterionKind
from rubric_core.rewriting import patterns
from rubric_judge.lexical.words import stem
from rubric_synth import language
from rubric_synth.cleaning.markup import sections
from rubric_synth.document import Document
from rubric_synth.extractive import phrases
from rubric_synth.extractive.claims import Passage
from rubric_synth.extractive.facts import asking, gate, parsing
from rubric_synth.extractive.facts.clauses import lowered
from rubric_synth.extractive.facts.fact import Fact, says_the_same
from rubric_synth.extractive.facts.parsing import child, root_of, text_of
from rubric_synth.extractive.phrases import CorpusTerms
from rubric_synth.tables import phrase, read_table

_WORDS: Final = range(7, 33)
_MOST: Final = 6
_MOST_PARSED: Final = 90
"""Sentences of one document that are parsed, the likeliest first."""
_FEWEST_NEW: Final = 2
"""Words of a definition that the question does not hold."""
_LEAK: Final = 8
"""Words of a run that a question may not share: `quality.leak_words` as it is by default."""
_TOKEN: Final = re.compile(r"\w+")
_MOST_OF_A_KIND: Final = 3
_PICTURE: Final = phrase("picture")
_HINT: Final = phrase("fact_hint")
_ACTS: Final = re.compile(
    rf"\b(?:{'|'.join(' '.join(read_table('facts')['kinds'].values()).split())})(?:e?s)?\b"
)
"""A verb that one of the rules asks about."""
_POINTER: Final = phrase("fact_pointer")
_ADDITION: Final = phrase("addition", re.NOFLAG)
_GENERIC: Final = phrase("generic_opening")
_SHARED: Final = 2
"""Parts of a question that a heading shares words with, where it is their subject."""
_FEWEST_MARKS: Final = 6
_FEWEST_NAMED: Final = 4
_FEWEST_SECTIONS: Final = 3
_SHORTEST_NAME: Final = 4
_MOST_NAMES: Final = 8
_FEWEST_AT_HOME: Final = 3
_BOLD_TITLE: Final = re.compile(
    r"^\s*(\*\*|__)[^*_]{2,80}\1[.:]?\s+(?=[A-Z])(?![A-Z]\w* (?:is|are)\b.{0,3}$)"
)
_TITLE_ALONE: Final = re.compile(r"^\W*(?:\w+\W{1,3}){1,6}$")
_SUPPOSED: Final = phrase("supposed")
_LINKS: Final = re.compile(r"[:,;(]|\b(?:of|for|in|to|with|and|or|from|by|on|at|the|an?)\b")
_EMPHASIS: Final = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*]+)(?<=\S)\1(?![\w*])")
"""Marks about the term that a textbook's sentence introduces: "A **solute** is …"."""
_NAME: Final = patterns(read_table("patterns")["prose_signs"])["name"]


def facts_of(document: Document, passages: Iterable[Passage]) -> dict[str, Fact]:
    """Return the facts of a document by the sentence that states each.

    Args:
        document: Prose.
        passages: Its passages, whose headings say what it is about.
    """
    known: dict[str, frozenset[str]] = {}
    shown = _in_examples(document.text)
    for passage in passages:
        about = [passage.subject, passage.context, document.title]
        for paragraph in passage.paragraphs:
            if _PICTURE.match(paragraph) or paragraph in shown:
                continue
            for raw in sentences_of(paragraph):
                if _SUPPOSED.search(raw):
                    break  # what follows holds of an example
                known.setdefault(raw, _heads(about))
    return facts_in(known, document.text)


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
    return frozenset(stem(part.split()[-1].strip("'\"`")) for part in parts if part.strip())


def facts_in(known: Mapping[str, frozenset[str]], text: str) -> dict[str, Fact]:
    """Return the facts among sentences, by sentence.

    Args:
        known: Sentences, each with the stems of what its question names anyway.
        text: Where they stand, which shows what is a name.
    """
    likely = (raw for raw in known if _is_candidate(raw))
    usable = [raw for raw in likely if gate.may_stand_alone(_without_addition(raw))]
    usable = usable[:_MOST_PARSED]
    names = names_of(text)
    small = {word for word in language.words(text) if word.islower()}
    plain = [_without_addition(raw) for raw in usable]
    found: dict[str, Fact] = {}
    for raw, doc in zip(usable, parsing.parsed(plain), strict=True):
        first = doc[0]
        known_word = first.lower_ in small or parsing.is_english(first.lower_)
        is_name = first.tag_.startswith("NNP") and not known_word
        fact = _fact(doc, known[raw], names | {first.text} if is_name else names)
        if fact is not None:
            found[raw] = fact
    return found


def names_of(text: str) -> frozenset[str]:
    """Return the words that a text writes with a capital inside sentences more often than not."""
    capital = Counter(_NAME.findall(text))
    small = Counter(word for word in language.words(text) if word.islower())
    return frozenset(word for word in capital if capital[word] > small[word.lower()])


def _without_addition(raw: str) -> str:
    bare = _EMPHASIS.sub(r"\2", raw)
    return language.capital_first(_ADDITION.sub("", phrases.CITATION.sub("", bare)))


def product_of(document: Document) -> str:
    """Return the program that a document is about; "" for any other document.

    Its name stands in the title, in the source's path, or, where the text shows code, in a third
    of the sections.

    Args:
        document: Prose.
    """
    names = names_of(document.text)
    counts = Counter(word for word in _NAME.findall(document.text) if word in names)
    title, path = document.title.lower(), document.source.lower().rpartition("/")[2]
    parts = [f"{one.heading} {' '.join(one.paragraphs)}" for one in sections(document.text)]
    shows_code = document.text.count("`") >= _FEWEST_MARKS and len(parts) >= _FEWEST_SECTIONS
    for name, count in counts.most_common(_MOST_NAMES):
        low = name.lower()
        is_titled = count >= _FEWEST_NAMED and len(low) >= _SHORTEST_NAME and low in path + title
        is_product = any(letter.isupper() for letter in name[1:]) or shows_code
        spread = sum(name in part for part in parts)
        if (is_titled and is_product) or (
            shows_code and count >= _FEWEST_NAMED and 3 * spread >= len(parts)
        ):
            return name
    return ""


def _is_candidate(raw: str) -> bool:
    return (
        len(raw.split()) in _WORDS
        and raw.lstrip("*")[:1].isupper()
        and raw.endswith(".")
        and gate.is_plain(_EMPHASIS.sub(r"\2", raw))
        and (_HINT.search(raw) is not None or _ACTS.search(raw) is not None)
        and _POINTER.search(raw) is None
    )


def _fact(doc: Doc, known: frozenset[str], names: frozenset[str]) -> Fact | None:
    if not gate.stands_alone(doc, known):
        return None
    found = asking.asked(doc, names)
    if found is None:
        return None
    sentence = _main_sentence(doc)
    told = language.stems(" ".join(language.content_words(sentence)))
    if _shares_a_run(found.question, sentence):
        return None  # a leak of the rubric
    required = tuple(one for one in found.required if one)
    fewest = {CriterionKind.DEFINITION: _FEWEST_NEW, CriterionKind.COMPARISON: 0}.get(found.kind, 1)
    if not required and len(told - language.stems(found.question)) < fewest:
        return None  # the question holds the answer
    return Fact(
        found.kind,
        sentence,
        required=required,
        claim=lowered(sentence.rstrip("."), names),
        question=found.question,
    )


def _shares_a_run(question: str, sentence: str) -> bool:
    """Tell whether a question holds a run of words of a sentence that is long enough to leak."""
    asked, told = (f" {' '.join(_TOKEN.findall(text.lower()))} " for text in (question, sentence))
    words = asked.split()
    runs = (words[at : at + _LEAK] for at in range(len(words) - _LEAK + 1))
    return any(f" {' '.join(run)} " in told for run in runs)


def _main_sentence(doc: Doc) -> str:
    """Return a sentence without a second one that "and" or "but" joins to it."""
    root = root_of(doc)
    for one in root.children if root is not None else ():
        is_second = one.dep_ == "conj" and child(one, "nsubj", "nsubjpass") is not None
        joins = child(root, "cc") if root is not None and is_second else None
        if joins is not None and joins.i < one.left_edge.i:
            return f"{text_of(list(doc[: joins.i]))}."
    return doc.text


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
    for _, at, fact in sorted(found, key=lambda one: -one[0]):
        is_new = not any(
            fact.question == other.question or says_the_same(fact.sentence, other.sentence)
            for _, other in kept
        )
        if len(kept) < _MOST and is_new and kinds[fact.kind] < _MOST_OF_A_KIND:
            kept.append((at, fact))
            kinds[fact.kind] += 1
    return [fact for _, fact in sorted(kept, key=lambda pair: pair[0])]


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


def at_home(found: Sequence[Fact], facts: Mapping[str, Fact], passage: Passage) -> Passage:
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


def question_of(facts: Sequence[Fact], passage: Passage, product: str) -> str:
    """Ask for facts, what they are about first.

    Args:
        facts: Those that criteria are made of.
        passage: Where they stand.
        product: Name of the program that the document is about; "" where it is about none.
    """
    clauses = [fact.question for fact in facts]
    asked_for = language.stems(" ".join(clauses))
    own = language.stems(" ".join(language.content_words(passage.subject)))
    shared = sum(bool(own & language.stems(clause)) for clause in clauses)
    subject = passage.subject if shared >= _SHARED or not passage.context else ""
    about: list[str] = []
    for shown in (subject, passage.context, product):
        name = ": ".join(one for one in shown.split(": ") if not _GENERIC.match(one))
        is_told = language.stems(name) <= asked_for | language.stems(" ".join(about))
        if name and not name.endswith("?") and not is_told:
            about.append(name)
    opening = f"{language.capital_first(' in '.join(about))}: " if about else ""
    first, *others = clauses
    first = first if opening else language.capital_first(first)
    return " ".join([f"{opening}{first}?", *(f"{language.capital_first(o)}?" for o in others)])
