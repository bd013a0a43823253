"""Checks that a question of prose has one right answer that an expert knows.

The gate leaves out sentences that do not stand alone; the rules here leave out those of the rest
that would be asked in vain.
"""

import re
from typing import Final

from spacy.tokens import Token

from rubric_synth import language
from rubric_synth.stages.extractive.facts.clauses import NOUNS, Clause
from rubric_synth.tables import phrase, read_table

_TABLE: Final = read_table("sound")
WORDS: Final = {
    name: frozenset(words.split()) for name, words in _TABLE["words"].items()
}
"""Lists of words, by lemma."""
FORMS: Final = {
    name: frozenset(words.split()) for name, words in _TABLE["forms"].items()
}
"""Verbs and nouns that one of the rules of asking takes."""
BEHIND: Final = {
    name: frozenset(words.split()) for name, words in _TABLE["behind"].items()
}
"""Verbs of a passive by the preposition that their answer stands behind."""


def turn_of_phrase(name: str) -> re.Pattern[str]:
    """Return a pattern for one of the turns of phrase of the table."""
    row = _TABLE[name]
    return re.compile(
        f"{row['before']}(?:{'|'.join(row['any'])}){row['after']}", re.IGNORECASE
    )


_UNSOUND: Final = turn_of_phrase("unsound")
_NO_OPENING: Final = re.compile(turn_of_phrase("no_opening").pattern)
_LOST_TAIL: Final = turn_of_phrase("lost_tail")
_TITLE: Final = turn_of_phrase("unsound_title")
_ADDED: Final = turn_of_phrase("added")
_COMBINING: Final = turn_of_phrase("combining")
_NO_WAYS: Final = turn_of_phrase("no_ways")
_CAUSE: Final = turn_of_phrase("cause")
_GENERIC: Final = phrase("generic_opening")
_BRACKETS: Final = re.compile(r"\s*\([^)]*\)")
_MOST_OF_A_TITLE: Final = 9
_NAMING: Final = frozenset({"compound", "poss", "nmod"})


def is_whole(sentence: str) -> bool:
    """Tell whether a sentence adds to no other, shows no picture, and has lost no part.

    Args:
        sentence: Not parsed yet, as the document has it.
    """
    bare = _ADDED.sub("", sentence)
    if _NO_OPENING.match(bare) is not None:
        return False
    return _UNSOUND.search(bare) is None and _NO_WAYS.search(bare) is None


def is_combined(word: str) -> bool:
    """Tell whether a word begins with a combining form: "Multilayer"."""
    return _COMBINING.match(word) is not None


def is_added(sentence: str) -> bool:
    """Tell whether the opening of a sentence joins it to others: "For example, …"."""
    return _ADDED.match(sentence) is not None


def is_title(title: str) -> bool:
    """Tell whether a title can stand before a question, as its topic."""
    if not title[:1].isalpha() or len(title.split()) > _MOST_OF_A_TITLE:
        return False
    return _TITLE.match(title) is None and _GENERIC.match(title) is None


def is_cut(question: str) -> bool:
    """Tell whether a question ends in a word that something must follow."""
    return _LOST_TAIL.search(question) is not None


def compares_openly(clause: Clause) -> bool:
    """Tell whether a sentence compares with nothing that it names: "a more practical set"."""
    words = {token.lower_ for token in clause.doc}
    if not words.isdisjoint({"than", "compared", "relative", "whereas"}):
        return False
    return any(_is_open_comparative(token) for token in clause.doc)


def _is_open_comparative(token: Token) -> bool:
    if token.tag_ not in {"JJR", "RBR"}:
        return False
    before = token.nbor(-1).lower_ if token.i else ""
    if token.lower_ not in WORDS["no_comparison"]:
        return before not in {"no", "or", "the"}
    if token.lower_ not in {"more", "less"} or before in {"or", "one", "no"}:
        return False
    return token.head.pos_ in {"ADJ", "ADV"}


def is_specific(clause: Clause) -> bool:
    """Tell whether the subject of a clause names what its question is about without the page."""
    subject = clause.subject
    if subject.pos_ == "PROPN":
        return True
    parts = [child for child in subject.children if child.dep_ not in {"det", "punct"}]
    for part in parts:
        if part.i > subject.i and part.dep_ in {"prep", "acl", "relcl"}:
            return True
        is_name = part.pos_ in NOUNS and part.dep_ in _NAMING
        if is_name and part.lower_ not in WORDS["sizes"]:
            return True
    lemma = subject.lemma_.lower()
    is_one_of_many = clause.subject_words[0].lower_ == "the" and subject.tag_ == "NNS"
    if is_one_of_many or lemma in WORDS["generic"]:
        is_bare = all(part.dep_ in {"conj", "cc"} for part in parts)
        if is_bare:
            return False
    if lemma not in WORDS["relational"] | WORDS["generic"]:
        return True
    return not all(part.lower_ in WORDS["sizes"] for part in parts)


def has_one_complement(clause: Clause) -> bool:
    """Tell whether one phrase alone follows the verb, so that its question has one slot."""
    complements = [
        child
        for child in clause.root.children
        if child.dep_ in {"prep", "agent", "dobj", "xcomp", "advcl"}
    ]
    return sum(child.i > clause.root.i for child in complements) == 1


def is_modal(clause: Clause) -> bool:
    """Tell whether a verb says "may" or the like, which leaves other answers open."""
    return clause.helper is not None and clause.helper.lower_ in WORDS["modals"]


def is_focused(clause: Clause) -> bool:
    """Tell whether a predicate turns on a word that its question leaves out: "only", "even"."""
    behind = clause.doc[clause.root.i :]
    if any(token.lower_ in WORDS["focused"] for token in behind):
        return True
    return any(token.lower_ == "as" and _follows_degree(token) for token in behind)


_DEGREES: Final = frozenset({"many", "much", "long", "few", "far", "soon"})


def _follows_degree(token: Token) -> bool:
    return token.i > 0 and token.nbor(-1).lower_ in _DEGREES


def says_something(target: Token) -> bool:
    """Tell whether a noun that answers a question names something: not "other forms"."""
    lemma = target.lemma_.lower()
    if lemma in WORDS["crowd"] or target.lower_ in {"other", "another"}:
        return False
    children = list(target.children)
    if any(child.lower_ in WORDS["crowd"] for child in children):
        return False
    if lemma not in WORDS["empty_answer"]:
        return True
    if any(word.lower_ in _OPENS_LIST for word in target.doc[target.i :]):
        return True
    seconds = (child for child in children if child.dep_ == "conj")
    if any(second.lemma_.lower() not in WORDS["empty_answer"] for second in seconds):
        return True
    return _is_described(target)


def _is_described(noun: Token) -> bool:
    """Tell whether a telling word stands before a noun, or a phrase behind it."""
    before = [
        child for child in noun.children if child.i < noun.i and child.dep_ != "det"
    ]
    for child in before:
        if child.lower_ not in WORDS["empty_before"] and not child.like_num:
            return True
    if before:
        return False
    behind = (child for child in noun.children if child.i > noun.i)
    return any(child.dep_ in {"prep", "acl"} for child in behind)


_OPENS_LIST: Final = frozenset(
    {"including", "such", "like", "namely", ":", "called", "that", "which", "whose"}
)
"""Words that an enumeration or an explanation of a noun begins with."""


def names_itself(clause: Clause) -> bool:
    """Tell whether the cause of a thing is in its name: of "rabies" the "rabies virus"."""
    cause = _CAUSE.search(_BRACKETS.sub("", clause.doc.text))
    if cause is None:
        return False
    stems = language.stems(" ".join(language.content_words(cause.group(1))))
    stems -= language.stems(" ".join(WORDS["cause_words"]))
    own = language.stems(" ".join(word.text for word in clause.subject.subtree))
    return bool(stems) and stems <= own


def negations(tokens: list[Token]) -> set[str]:
    """Return the words of denial among words."""
    return {token.lower_ for token in tokens} & WORDS["negations"]
