"""Checks that a question of prose has one right answer that an expert knows.

The gate leaves out sentences that do not stand alone; the rules here leave out those of the rest
that would be asked in vain.
"""

import re

from spacy.tokens import Token

from rubric_synth import language
from rubric_synth.stages.extractive.facts.clauses import NOUNS, Clause
from rubric_synth.tables import phrase, read_table, word_sets

_TABLE = read_table("sound")
WORDS = word_sets("sound", "words")
"""Lists of words, by lemma."""
FORMS = word_sets("sound", "forms")
"""Verbs and nouns that one of the rules of asking takes."""
BEHIND = word_sets("sound", "behind")
"""Verbs of a passive by the preposition that their answer follows."""


def turn_of_phrase(name: str) -> re.Pattern[str]:
    """Return a pattern for one of the turns of phrase of the table."""
    row = _TABLE[name]
    turns = "|".join(row["any"])
    pattern = f"{row['before']}(?:{turns}){row['after']}"
    return re.compile(pattern, re.IGNORECASE)


_UNSOUND = turn_of_phrase("unsound")
_NO_OPENING = re.compile(turn_of_phrase("no_opening").pattern)
_LOST_TAIL = turn_of_phrase("lost_tail")
_TITLE = turn_of_phrase("unsound_title")
_ADDED = turn_of_phrase("added")
_COMBINING = turn_of_phrase("combining")
_NO_WAYS = turn_of_phrase("no_ways")
_CAUSE = turn_of_phrase("cause")
_GENERIC = phrase("generic_opening")
_BRACKETS = re.compile(r"\s*\([^)]*\)")
_MOST_OF_A_TITLE = 9
_HALF_QUOTED = re.compile(r"(?<!\w)[‘’'](?=\w)(?![^‘’']*\w[’'](?!\w))")
"""A quotation mark before a word without one behind: "labels using 'back"."""
_NAMING = frozenset({"compound", "poss", "nmod"})


def is_whole(sentence: str) -> bool:
    """Tell whether a sentence adds to no other, shows no picture, and has lost no part.

    Args:
        sentence: Not parsed yet, as the document has it.
    """
    bare = _ADDED.sub("", sentence)
    if _NO_OPENING.match(bare) is not None:
        return False
    if _UNSOUND.search(bare) is not None:
        return False
    return _NO_WAYS.search(bare) is None


def is_combined(word: str) -> bool:
    """Tell whether a word begins with a combining form: "Multilayer"."""
    return _COMBINING.match(word) is not None


def is_added(sentence: str) -> bool:
    """Tell whether the opening of a sentence joins it to others: "For example, …"."""
    return _ADDED.match(sentence) is not None


def is_title(title: str) -> bool:
    """Tell whether a title can stand before a question, as its topic."""
    if not title[:1].isalpha():
        return False
    if len(title.split()) > _MOST_OF_A_TITLE:
        return False
    if _TITLE.match(title) is not None:
        return False
    return _GENERIC.match(title) is None


def is_cut(question: str) -> bool:
    """Tell whether a question ends in a word, or a quotation, that something must follow."""
    if _HALF_QUOTED.search(question) is not None:
        return True
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
    if token.lower_ not in {"more", "less"}:
        return False
    if before in {"or", "one", "no"}:
        return False
    return token.head.pos_ in {"ADJ", "ADV"}


def is_specific(clause: Clause) -> bool:
    """Tell whether the subject of a clause names what its question is about without the page."""
    subject = clause.subject
    if subject.pos_ == "PROPN":
        return True
    parts: list[Token] = []
    for part in subject.children:
        if part.dep_ in {"det", "punct"}:
            continue
        if _names_its_noun(part):
            return True
        parts.append(part)
    lemma = subject.lemma_.lower()
    first = clause.subject_words[0].lower_
    is_one_of_many = first == "the" and subject.tag_ == "NNS"
    if is_one_of_many or lemma in WORDS["generic"]:
        is_bare = all(part.dep_ in {"conj", "cc"} for part in parts)
        if is_bare:
            return False
    if lemma not in WORDS["relational"] | WORDS["generic"]:
        return True
    return any(part.lower_ not in WORDS["sizes"] for part in parts)


def _names_its_noun(part: Token) -> bool:
    """Tell whether a dependent of a noun says which one it is: "of iron", "iron"."""
    if part.i > part.head.i and part.dep_ in {"prep", "acl", "relcl"}:
        return True
    if part.pos_ not in NOUNS or part.dep_ not in _NAMING:
        return False
    return part.lower_ not in WORDS["sizes"]


def has_one_complement(clause: Clause) -> bool:
    """Tell whether one phrase alone follows the verb, so that its question has one slot."""
    root = clause.root
    after = [child for child in root.children if child.i > root.i]
    complements = [child for child in after if child.dep_ in _COMPLEMENTS]
    return len(complements) == 1


_COMPLEMENTS = frozenset({"prep", "agent", "dobj", "xcomp", "advcl"})


def is_modal(clause: Clause) -> bool:
    """Tell whether a verb says "may" or the like, which leaves other answers open."""
    if clause.helper is None:
        return False
    return clause.helper.lower_ in WORDS["modals"]


def is_focused(clause: Clause) -> bool:
    """Tell whether a predicate turns on a word that its question leaves out: "only", "even"."""
    return any(
        token.lower_ in WORDS["focused"]
        or (token.lower_ == "as" and _follows_degree(token))
        for token in clause.doc[clause.root.i :]
    )


_DEGREES = frozenset({"many", "much", "long", "few", "far", "soon"})


def _follows_degree(token: Token) -> bool:
    if token.i == 0:
        return False
    return token.nbor(-1).lower_ in _DEGREES


def says_something(target: Token) -> bool:
    """Tell whether a noun that answers a question names something: not "other forms"."""
    target = _counted(target)
    lemma = target.lemma_.lower()
    if lemma in WORDS["crowd"] or target.lower_ in {"other", "another"}:
        return False
    children = list(target.children)
    if any(child.lower_ in WORDS["crowd"] for child in children):
        return False
    if lemma not in WORDS["empty_answer"]:
        return True
    after = target.doc[target.i :]
    if any(word.lower_ in _OPENS_LIST for word in after):
        return True
    for second in children:
        if second.dep_ != "conj":
            continue
        if second.lemma_.lower() not in WORDS["empty_answer"]:
            return True
    return _is_described(target)


def _counted(noun: Token) -> Token:
    """Return what "a number of" counts; any other noun as it is."""
    if noun.lemma_.lower() != "number":
        return noun
    words = (word for part in noun.children for word in part.children)
    return next(words, noun)


def _is_described(noun: Token) -> bool:
    """Tell whether a telling word stands before a noun, or a phrase after it."""
    children = list(noun.children)
    before = [child for child in children if child.i < noun.i]
    adjectives = [child for child in before if child.dep_ != "det"]
    for adjective in adjectives:
        if adjective.like_num:
            continue
        if adjective.lower_ not in WORDS["empty_before"]:
            return True
    if adjectives:
        return False
    after = [child for child in children if child.i > noun.i]
    return any(child.dep_ in {"prep", "acl"} for child in after)


_OPENS_LIST = frozenset(
    {"including", "such", "like", "namely", ":", "called", "that", "which", "whose"}
)
"""Words that an enumeration or an explanation of a noun begins with."""


def names_itself(clause: Clause) -> bool:
    """Tell whether the cause of a thing is in its name: of "rabies" the "rabies virus"."""
    without_brackets = _BRACKETS.sub("", clause.doc.text)
    match = _CAUSE.search(without_brackets)
    if match is None:
        return False
    words = language.content_words(match.group(1))
    cause = language.stems(" ".join(words))
    cause -= language.stems(" ".join(WORDS["cause_words"]))
    subject = " ".join(word.text for word in clause.subject.subtree)
    return bool(cause) and cause <= language.stems(subject)


def negations(tokens: list[Token]) -> set[str]:
    """Return the words of denial among words."""
    return {token.lower_ for token in tokens} & WORDS["negations"]
