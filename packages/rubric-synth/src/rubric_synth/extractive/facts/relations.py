"""Rules that ask for what a verb, a preposition or a figure ties the subject to."""

import re
from collections.abc import Iterator
from typing import Final

from spacy.tokens import Token

from rubric_core import CriterionKind
from rubric_synth.extractive.facts.clauses import NOUNS, Asked, Clause
from rubric_synth.extractive.facts.figures import Figure, figure_in
from rubric_synth.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.tables import read_table

_TABLE: Final = read_table("facts")
_KINDS: Final = {name: frozenset(words.split()) for name, words in _TABLE["kinds"].items()}
_PREPOSITIONS: Final = {
    row["lemma"]: (frozenset(row["words"].split()), CriterionKind(row["kind"]))
    for row in _TABLE["preposition"]
}
_ADJECTIVES: Final = frozenset(_TABLE["adjectives"]["words"].split())
_BY_WHICH: Final = frozenset({"from", "into", "through", "with", "as", "to"})
_AT: Final = frozenset({"at", "above", "below", "within", "over", "to", "by"})
_FEWEST_OF_A_REST: Final = 2
_DIRECTION: Final = re.compile(r"^(?:in|out|up|down|for|back|side|east|west|north|south)wards?$")
_NEEDS: Final = frozenset({"require", "need"})


def quantity(clause: Clause) -> Asked | None:
    """How many, how large, at which temperature … ?"""
    figure = figure_in(clause.doc)
    if figure is None:
        return None
    return next((one for one in _of_figure(clause, figure) if one is not None), None)


def _of_figure(clause: Clause, figure: Figure) -> Iterator[Asked | None]:
    yield _of_object(clause, figure)
    for prep in (one for one in clause.root.children if one.dep_ == "prep"):
        pobj = child(prep, "pobj")
        if prep.lower_ not in _AT or pobj is None or clause.is_copula:
            continue
        if figure.quantity and figure.is_in(pobj):
            rest = clause.inverted(list(prep.subtree))
            question = f"{prep.lower_} which {figure.quantity} {rest}"
            yield Asked(CriterionKind.QUANTITY, question, figure.required)


def _of_object(clause: Clause, figure: Figure) -> Asked | None:
    """How large is …, how many … does … ?"""
    target = child(clause.root, "dobj", "attr")
    words = subtree(target, ("relcl", "acl", "appos")) if target is not None else []
    if target is None or figure.number not in words:
        return None
    asked = ""
    if clause.is_copula and figure.quantity:
        how = "how long" if figure.quantity == "time" else "how large"
        asked = f"{how} {clause.root.text} {clause.subject_text}"
    is_count = figure.number.head == target and figure.number.dep_ == "nummod"
    if is_count and not figure.quantity and target.tag_ == "NNS" and not clause.is_copula:
        counted = [one for one in subtree(target, ("relcl", "appos")) if one.i > figure.number.i]
        first, verb = clause.fronted()
        asked = f"how many {text_of(counted)} {first} {clause.subject_text} {verb}"
    return Asked(CriterionKind.QUANTITY, clause.behind(asked), figure.required) if asked else None


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
    gone = {one.i for one in asked.subtree}
    parts = [
        one
        for one in clause.root.children
        if one.i > clause.root.i and one.i not in gone and one.dep_ in {"prep", "advcl", "xcomp"}
    ]
    parts = [one for one in parts if not any(t.i in gone for t in one.subtree)]
    purposes = (one.head for one in asked.subtree if one.dep_ == "aux" and one.lower_ == "to")
    parts = parts or list(purposes)[:1]
    rest = text_of([t for one in parts for t in one.subtree])
    if len(rest.split()) < _FEWEST_OF_A_REST and not clause.lead:
        return None  # which of a hundred things is meant, nobody can know
    return Asked(kind, clause.what(f"{verb} {rest}".rstrip()))


def _is_program(clause: Clause) -> bool:
    """Tell whether the subject is a name: of a program, a class, a project."""
    word = clause.subject.text
    is_sign = any(letter.isupper() for letter in word[1:]) or any(map(str.isdigit, word))
    is_code = "`" in clause.subject_text
    return is_sign or is_code or (word in clause.names and clause.subject.pos_ == "PROPN")


def by_preposition(clause: Clause) -> Asked | None:
    """What does … depend on, consist of, lead to?"""
    if not _is_plain(clause) or child(clause.root, "auxpass") is not None:
        return None
    nothing = (frozenset[str](), CriterionKind.RELATION)
    words, kind = _PREPOSITIONS.get(clause.root.lemma_.lower(), nothing)
    for prep in clause.root.children:
        if prep.dep_ == "prep" and prep.lower_ in words and child(prep, "pobj", "pcomp"):
            return _of(clause, kind, f"{clause.fronted()[1]} {prep.lower_}", prep)
    return None


def in_passive(clause: Clause) -> Asked | None:
    """What is … caused by, made from, divided into?"""
    root, lemma = clause.root, clause.root.lemma_.lower()
    if not _is_plain(clause) or child(root, "auxpass") is None or lemma not in _KINDS["passive"]:
        return None
    is_cause = lemma in _KINDS["cause"]
    for prep in (one for one in root.children if one.i > root.i):
        if prep.dep_ == "agent" or (prep.dep_ == "prep" and prep.lower_ in _BY_WHICH):
            if child(prep, "pobj") is None:
                continue
            by_cause = is_cause and prep.dep_ == "agent"
            kind = CriterionKind.CAUSE if by_cause else CriterionKind.RELATION
            return _of(clause, kind, f"{clause.fronted()[1]} {prep.lower_}", prep)
    return None


def for_purpose(clause: Clause) -> Asked | None:
    """What is … used for?"""
    root = clause.root
    purpose = child(root, "xcomp", "advcl")
    is_used = root.lemma_ == "use" and child(root, "auxpass") is not None
    if not is_used or not _is_plain(clause) or purpose is None or purpose.i < root.i:
        return None
    if child(purpose, "aux") is None or child(purpose, "mark") is not None:
        return None
    return Asked(CriterionKind.RELATION, clause.what(f"{clause.fronted()[1]} for"))


def of_adjective(clause: Clause) -> Asked | None:
    """What is … proportional to, responsible for?"""
    complement = child(clause.root, "acomp")
    if not clause.is_copula or not _is_plain(clause) or complement is None:
        return None
    prep = child(complement, "prep")
    if complement.lemma_ not in _ADJECTIVES or prep is None or child(prep, "pobj") is None:
        return None
    return Asked(CriterionKind.RELATION, clause.what(f"{complement.text} {prep.text}"))


def of_verb(clause: Clause) -> Asked | None:
    """What does … cause, contain, require?"""
    lemma = clause.root.lemma_.lower()
    if not _is_plain(clause) or child(clause.root, "auxpass") is not None:
        return None
    if lemma in _KINDS["cause"]:
        return object_of(clause, CriterionKind.CAUSE)
    if lemma in _KINDS["relation"]:
        kind = CriterionKind.LIMIT if lemma in _NEEDS else CriterionKind.RELATION
        return object_of(clause, kind)
    return None


def _is_plain(clause: Clause) -> bool:
    return child(clause.root, "neg") is None
