"""What keeps a question of prose from having one right answer that an expert knows.

The gate leaves out sentences that do not stand alone; the rules here read what stands alone, and
leave out what would be asked in vain.
"""

import re
from typing import Final

from spacy.tokens import Token

from rubric_synth import language
from rubric_synth.extractive.facts.clauses import NOUNS, Clause
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
    patterns = (_UNSOUND, _NO_WAYS)
    is_open = any(pattern.search(bare) is not None for pattern in patterns)
    return _NO_OPENING.match(bare) is None and not is_open


def is_combined(word: str) -> bool:
    """Tell whether a word begins with what makes words of others: "Multilayer"."""
    return _COMBINING.match(word) is not None


def is_added(sentence: str) -> bool:
    """Tell whether the opening of a sentence joins it to others: "For example, …"."""
    return _ADDED.match(sentence) is not None


def is_title(title: str) -> bool:
    """Tell whether a title can stand before a question, as what it is about."""
    return (
        bool(title)
        and len(title.split()) <= _MOST_OF_A_TITLE
        and title[:1].isalpha()
        and _TITLE.match(title) is None
        and _GENERIC.match(title) is None
    )


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
    if token.lower_ in WORDS["no_comparison"]:
        is_degree = token.lower_ in {"more", "less"} and token.head.pos_ in {
            "ADJ",
            "ADV",
        }
        return is_degree and before not in {"or", "one", "no"}
    return before not in {"no", "or", "the"}


def is_specific(clause: Clause) -> bool:
    """Tell whether the subject of a clause names what its question is about without the page."""
    subject = clause.subject
    lemma = subject.lemma_.lower()
    parts = [child for child in subject.children if child.dep_ not in {"det", "punct"}]
    names = (part for part in parts if part.pos_ in NOUNS and part.dep_ in _NAMING)
    behind = [
        part
        for part in parts
        if part.i > subject.i and part.dep_ in {"prep", "acl", "relcl"}
    ]
    if behind or subject.pos_ == "PROPN":
        return True
    if any(name.lower_ not in WORDS["sizes"] for name in names):
        return True
    is_bare = all(part.dep_ in {"conj", "cc"} for part in parts)
    is_one_of_many = clause.subject_words[0].lower_ == "the" and subject.tag_ == "NNS"
    if is_bare and (is_one_of_many or lemma in WORDS["generic"]):
        return False
    sizes = [part for part in parts if part.lower_ in WORDS["sizes"]]
    is_vague = lemma in WORDS["relational"] | WORDS["generic"]
    return not (is_vague and len(sizes) == len(parts))


def has_one_complement(clause: Clause) -> bool:
    """Tell whether one phrase alone follows the verb, so that its question has one slot."""
    behind = [child for child in clause.root.children if child.i > clause.root.i]
    slots = [
        token
        for token in behind
        if token.dep_ in {"prep", "agent", "dobj", "xcomp", "advcl"}
    ]
    return len(slots) == 1


def is_modal(clause: Clause) -> bool:
    """Tell whether a verb says what may be, which is one thing of many."""
    return clause.helper is not None and clause.helper.lower_ in WORDS["modals"]


def is_focused(clause: Clause) -> bool:
    """Tell whether a predicate turns on a word that its question leaves out: "only", "even"."""
    behind = clause.doc[clause.root.i :]
    words = {token.lower_ for token in behind}
    is_limit = any(one.lower_ == "as" and _follows_degree(one) for one in behind)
    return is_limit or not words.isdisjoint(WORDS["focused"])


def _follows_degree(token: Token) -> bool:
    return token.i > 0 and token.nbor(-1).lower_ in {
        "many",
        "much",
        "long",
        "few",
        "far",
        "soon",
    }


def says_something(target: Token) -> bool:
    """Tell whether a noun that answers a question names something: not "other forms"."""
    words = target.doc[target.i :]
    lemma = target.lemma_.lower()
    is_crowd = lemma in WORDS["crowd"] or target.lower_ in {
        "other",
        "another",
    }  # "each other"
    if is_crowd or any(child.lower_ in WORDS["crowd"] for child in target.children):
        return False
    if lemma not in WORDS["empty_answer"]:
        return True
    lists = {
        "including",
        "such",
        "like",
        "namely",
        ":",
        "called",
        "that",
        "which",
        "whose",
    }
    seconds = (child for child in target.children if child.dep_ == "conj")
    is_list = any(word.lower_ in lists for word in words)
    if is_list or any(
        second.lemma_.lower() not in WORDS["empty_answer"] for second in seconds
    ):
        return True
    before = [
        child for child in target.children if child.i < target.i and child.dep_ != "det"
    ]
    is_said = any(
        token.lower_ not in WORDS["empty_before"] and not token.like_num
        for token in before
    )
    if before and not is_said:
        return False
    behind = [
        child
        for child in target.children
        if child.i > target.i and child.dep_ in {"prep", "acl"}
    ]
    return is_said or bool(behind)


def names_itself(clause: Clause) -> bool:
    """Tell whether the cause of a thing is in its name: of "rabies" the "rabies virus"."""
    cause = _CAUSE.search(_BRACKETS.sub("", clause.doc.text))
    if cause is None:
        return False
    said = language.stems(" ".join(language.content_words(cause.group(1))))
    known = language.stems(" ".join(WORDS["cause_words"]))
    own = language.stems(" ".join(word.text for word in clause.subject.subtree))
    return bool(said - known) and said - known <= own


def negations(tokens: list[Token]) -> set[str]:
    """Return the words of denial among words."""
    return {token.lower_ for token in tokens} & WORDS["negations"]
