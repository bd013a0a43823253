"""Rules that ask for what a verb, a preposition or a figure ties the subject to."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from spacy.tokens import Token

from rubric_core import CriterionKind
from rubric_synth.extractive.facts.clauses import NOUNS, Asked, Clause
from rubric_synth.extractive.facts.figures import Figure, figure_in
from rubric_synth.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.extractive.facts.sound import (
    BEHIND,
    FORMS,
    WORDS,
    has_one_complement,
    is_focused,
    is_modal,
    names_itself,
    says_something,
    turn_of_phrase,
)
from rubric_synth.tables import read_table

_TABLE: Final = read_table("facts")
_KINDS: Final = {
    name: frozenset(words.split()) for name, words in _TABLE["kinds"].items()
}
_PREPOSITIONS: Final = {
    row["lemma"]: (frozenset(row["words"].split()), CriterionKind(row["kind"]))
    for row in _TABLE["preposition"]
}
_AT: Final = frozenset({"at", "above", "below", "within", "over", "to", "by"})
_FEWEST_OF_A_REST: Final = 2
_SPELLED: Final = frozenset(_TABLE["numbers"]["words"].split())
_FEW: Final = frozenset({"1", "2", "3", "one", "two", "three"})
_SHORTEST_OF_A_NAME: Final = 2
_FEWEST_OF_A_LIST: Final = 3
_PREPARED: Final = turn_of_phrase("prepared")
_TERMS: Final = frozenset({"term", "word", "name", "phrase", "expression"})
_SAYING: Final = frozenset({"describe", "denote", "indicate", "mean"})
_DIRECTION: Final = re.compile(
    r"^(?:in|out|up|down|for|back|side|east|west|north|south)wards?$"
)


def quantity(clause: Clause) -> Asked | None:
    """How many, how large, at which temperature … ?"""
    figure = figure_in(clause.doc)
    if figure is None or not _is_plain(clause) or is_modal(clause):
        return None
    return next((one for one in _of_figure(clause, figure) if one is not None), None)


def _of_figure(clause: Clause, figure: Figure) -> Iterator[Asked | None]:
    yield _of_object(clause, figure)
    for prep in (token for token in clause.root.children if token.dep_ == "prep"):
        pobj = child(prep, "pobj")
        if prep.lower_ not in _AT or pobj is None or clause.is_copula:
            continue
        if figure.quantity and figure.quantity != "share" and figure.is_in(pobj):
            rest = clause.inverted(list(prep.subtree))
            question = clause.behind(f"{prep.lower_} which {figure.quantity} {rest}")
            is_rate = child(pobj, "prep") is not None  # "0.3 mm per day" is no length
            yield (
                None
                if is_rate
                else Asked(CriterionKind.QUANTITY, question, figure.required)
            )


def _of_object(clause: Clause, figure: Figure) -> Asked | None:
    """How large is …, how many … does … ?"""
    target = child(clause.root, "dobj", "attr")
    words = subtree(target, ("relcl", "acl", "appos")) if target is not None else []
    if target is None or figure.number not in words:
        return None
    asked = ""
    is_measured = clause.subject.lemma_.lower() in FORMS["measured"]
    if clause.is_copula and figure.quantity and is_measured:
        how = "how long" if figure.quantity == "time" else "how large"
        asked = f"{how} {clause.root.text} {clause.subject_text}"
    is_count = figure.number.head == target and figure.number.dep_ == "nummod"
    if (
        is_count
        and not figure.quantity
        and target.tag_ == "NNS"
        and not clause.is_copula
    ):
        asked = _count(clause, figure, target)
    return (
        Asked(CriterionKind.QUANTITY, clause.behind(asked), figure.required)
        if asked
        else None
    )


def _count(clause: Clause, figure: Figure, target: Token) -> str:
    """Ask how many; where a list of them follows, ask which they are; "" where neither tells."""
    words = subtree(target, ("relcl", "appos", "acl"))
    counted = text_of([word for word in words if word.i > figure.number.i])
    is_list = any(token.text == ":" for token in clause.doc[target.i :])
    before = {one.lower_ for one in target.children if one.i < figure.number.i}
    heads = {word.lemma_.lower() for word in words}
    is_incidental = not heads.isdisjoint(WORDS["no_count"]) or bool(
        before & {"the", "first"}
    )
    first, verb = clause.fronted()
    if set(counted) & set(",:(") or " and " in counted or " or " in counted:
        return ""
    if is_list and figure.number.lower_ in _SPELLED and not before:
        return f"which {figure.number.lower_} {counted} {first} {clause.subject_text} {verb}"
    if (
        is_incidental
        or figure.number.lower_ in _FEW
        or is_focused(clause)
        or len(before) > 1
    ):
        return ""
    return f"how many {counted} {first} {clause.subject_text} {verb}"


def object_of(clause: Clause, kind: CriterionKind) -> Asked | None:
    """Ask for the object of the verb.

    Args:
        clause: The main clause.
        kind: Of the fact.
    """
    target = child(clause.root, "dobj", "ccomp")
    if target is None or target.i < clause.root.i or clause.root.lemma_ == "have":
        return None
    is_clause = target.dep_ == "ccomp" and kind == CriterionKind.CAUSE
    if target.pos_ not in NOUNS and not is_clause:
        return None
    if target.tag_ in {"JJ", "RB"} or _DIRECTION.match(target.lower_):
        return None  # "must point inward": the word behind the verb is no object
    _, verb = clause.fronted()
    particle = child(clause.root, "prt")
    shown = f"{verb} {particle.text}" if particle is not None else verb
    return _of(clause, kind, shown, target)


def _of(clause: Clause, kind: CriterionKind, verb: str, asked: Token) -> Asked | None:
    """Ask for what a verb is followed by; of a program, with the rest of its sentence.

    Args:
        clause: The main clause.
        kind: Of the fact.
        verb: As it stands behind the subject.
        asked: The word that the answer gives.
    """
    if clause.root.lemma_.lower() not in _KINDS["program"] or not _is_program(clause):
        return Asked(kind, clause.what(verb))
    gone = {token.i for token in asked.subtree}
    parts = [
        one
        for one in clause.root.children
        if one.i > clause.root.i
        and one.i not in gone
        and one.dep_ in {"prep", "advcl", "xcomp"}
    ]
    parts = [part for part in parts if not any(t.i in gone for t in part.subtree)]
    purposes = (
        token.head
        for token in asked.subtree
        if token.dep_ == "aux" and token.lower_ == "to"
    )
    parts = parts or list(purposes)[:1]
    rest = text_of([t for part in parts for t in part.subtree])
    if len(rest.split()) < _FEWEST_OF_A_REST and not clause.lead:
        return None  # which of a hundred things is meant, nobody can know
    return Asked(kind, clause.what(f"{verb} {rest}".rstrip()))


def _is_program(clause: Clause) -> bool:
    """Tell whether the subject is a name: of a program, a class, a project."""
    word = clause.subject.text
    is_sign = any(letter.isupper() for letter in word[1:]) or any(
        map(str.isdigit, word)
    )
    is_code = "`" in clause.subject_text
    return (
        is_sign or is_code or (word in clause.names and clause.subject.pos_ == "PROPN")
    )


def by_preposition(clause: Clause) -> Asked | None:
    """What does … depend on, consist of, lead to?"""
    if not _asks_once(clause) or child(clause.root, "auxpass") is not None:
        return None
    nothing = (frozenset[str](), CriterionKind.RELATION)
    lemma = clause.root.lemma_.lower()
    words, kind = _PREPOSITIONS.get(lemma, nothing)
    for prep in clause.root.children:
        target = child(prep, "pobj", "pcomp")
        if prep.dep_ != "prep" or prep.lower_ not in words or target is None:
            continue
        if not says_something(target):
            return None
        if lemma == "range":
            return _range(clause, prep)
        is_way = (
            lemma == "result"
            and _PREPARED.search(text_of(list(prep.subtree))) is not None
        )
        if (
            lemma in WORDS["open_verbs"]
            or (lemma, prep.lower_) == ("result", "in")
            or is_way
        ):
            return None  # one of many things
        return _of(clause, kind, f"{clause.fronted()[1]} {prep.lower_}", prep)
    return None


def _range(clause: Clause, prep: Token) -> Asked | None:
    """In which range does … lie?"""
    has_figure = any(token.like_num for token in prep.subtree)
    first, _ = clause.fronted()
    question = clause.behind(f"in which range {first} {clause.subject_text} lie")
    return Asked(CriterionKind.QUANTITY, question) if has_figure else None


def in_passive(clause: Clause) -> Asked | None:
    """What is … caused by, made from, divided into?"""
    root = clause.root
    lemma = clause.root.lemma_.lower()
    if child(root, "auxpass") is None or lemma not in FORMS["passive"]:
        return None
    if not _asks_once(clause) or not has_one_complement(clause) or is_focused(clause):
        return None
    is_cause = lemma in _KINDS["cause"]
    for prep in (token for token in root.children if token.i > root.i):
        if prep.dep_ == "agent" or lemma in BEHIND.get(prep.lower_, ()):
            target = child(prep, "pobj")
            if target is None or not says_something(target):
                continue
            is_of_members = (
                target.lemma_.lower() in WORDS["organisms"] and prep.lower_ == "of"
            )
            if is_of_members or names_itself(clause):
                return None
            by_cause = is_cause and prep.dep_ == "agent"
            kind = CriterionKind.CAUSE if by_cause else CriterionKind.RELATION
            particle = child(root, "prt")
            verb = f"{clause.fronted()[1]} {particle.text if particle is not None else ''}".rstrip()
            return _of(clause, kind, f"{verb} {prep.lower_}", prep)
    return None


def in_place(clause: Clause) -> Asked | None:
    """Where is … located?"""
    root = clause.root
    is_placed = (
        root.lemma_.lower() in FORMS["placed"] and child(root, "auxpass") is not None
    )
    if not is_placed or not _asks_once(clause) or not has_one_complement(clause):
        return None
    prep = next(
        (token for token in root.children if token.dep_ == "prep" and token.i > root.i),
        None,
    )
    target = child(prep, "pobj") if prep is not None else None
    if prep is None or target is None or prep.lower_ not in WORDS["places"]:
        return None
    first, verb = clause.fronted()
    question = clause.behind(f"where {first} {clause.subject_text} {verb}")
    return Asked(CriterionKind.RELATION, question) if says_something(target) else None


def for_purpose(clause: Clause) -> Asked | None:
    """What is … used for?"""
    root = clause.root
    purpose = child(root, "xcomp", "advcl")
    is_used = root.lemma_ == "use" and child(root, "auxpass") is not None
    if not is_used or not _asks_once(clause) or purpose is None or purpose.i < root.i:
        return None
    if child(purpose, "aux") is None or child(purpose, "mark") is not None:
        return None
    target = child(purpose, "dobj")
    if _items(target) >= _FEWEST_OF_A_LIST or _is_counted(purpose):
        return None  # some of many ends
    opening = {word.lower_ for word in clause.subject_words[:2]}
    if not opening.isdisjoint(_TERMS) and purpose.lemma_ in _SAYING:
        return Asked(
            CriterionKind.RELATION, f"what does {clause.subject_text} {purpose.lemma_}"
        )
    return Asked(CriterionKind.RELATION, clause.what(f"{clause.fronted()[1]} for"))


def _is_counted(verb: Token) -> bool:
    """Tell whether a figure says how much of a thing a verb makes."""
    target = child(verb, "dobj")
    return target is not None and any(
        t.text[:1].isdigit() for t in target.subtree if t.like_num
    )


def _items(noun: Token | None) -> int:
    """Return how many things a list of nouns names."""
    if noun is None:
        return 0
    return 1 + sum(_items(word) for word in noun.children if word.dep_ == "conj")


def of_adjective(clause: Clause) -> Asked | None:
    """What is … proportional to, responsible for?"""
    complement = child(clause.root, "acomp")
    if not clause.is_copula or not _asks_once(clause) or complement is None:
        return None
    prep = child(complement, "prep")
    target = child(prep, "pobj", "pcomp") if prep is not None else None
    if complement.lemma_ not in FORMS["of_adjective"] or prep is None or target is None:
        return None
    if not says_something(target) or any(
        one.dep_ == "conj" for one in complement.children
    ):
        return None
    is_inverse = any(one.lower_ == "inversely" for one in complement.children)
    if not list(target.children) or ("inversely" in clause.doc.text and not is_inverse):
        return None
    degrees = (token for token in complement.children if token.dep_ == "advmod")
    how = text_of(
        [degree for degree in degrees if degree.lower_ not in WORDS["dropped"]]
    )
    shown = " ".join(part for part in (how, complement.text, prep.text) if part)
    return Asked(CriterionKind.RELATION, clause.what(shown))


def of_verb(clause: Clause) -> Asked | None:
    """What does … cause, contain, secrete?"""
    lemma = clause.root.lemma_.lower()
    if not _asks_once(clause) or child(clause.root, "auxpass") is not None:
        return None
    if lemma not in FORMS["active"] or not is_named(clause) or is_focused(clause):
        return None
    target = child(clause.root, "dobj")
    if target is None or not says_something(target) or _says_how(clause):
        return None
    if lemma in _KINDS["program"] and _is_program(clause):
        return None
    kind = CriterionKind.CAUSE if lemma in _KINDS["cause"] else CriterionKind.RELATION
    found = object_of(clause, kind)
    return found._replace(is_open=True) if found is not None else None


def _says_how(clause: Clause) -> bool:
    """Tell whether a sentence says by doing what, which is its point."""
    pairs = pairwise(clause.doc)
    return any(token.lower_ == "by" and after.tag_ == "VBG" for token, after in pairs)


def is_named(clause: Clause) -> bool:
    """Tell whether the subject is a short name: a word, an acronym, a species."""
    words = [
        word for word in clause.subject_words if word.lower_ not in {"the", "a", "an"}
    ]
    is_plural = clause.subject.tag_ == "NNS"
    return len(words) <= _SHORTEST_OF_A_NAME and not (len(words) == 1 and is_plural)


def _asks_once(clause: Clause) -> bool:
    """Tell whether a clause denies nothing, says no "may", and can be asked with its opening."""
    return _is_plain(clause) and not is_modal(clause) and clause.may_lead


def _is_plain(clause: Clause) -> bool:
    return child(clause.root, "neg") is None
