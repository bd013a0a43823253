"""Rules that ask for the object, the complement or the figure of a clause."""

import re
from collections.abc import Iterator
from itertools import pairwise

from spacy.tokens import Token

from rubric_core import CriterionKind
from rubric_synth.stages.extractive.facts.clauses import NOUNS, Clause, Query
from rubric_synth.stages.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.stages.extractive.facts.quantities import Figure, figure_in
from rubric_synth.stages.extractive.facts.sound import (
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
from rubric_synth.tables import read_table, word_sets

_KINDS = word_sets("facts", "kinds")
_PREPOSITIONS = {
    row["lemma"]: (frozenset(row["words"].split()), CriterionKind(row["kind"]))
    for row in read_table("facts")["preposition"]
}
_AT = frozenset({"at", "above", "below", "within", "over", "to", "by"})
_FEWEST_OF_A_REST = 2
_SPELLED = word_sets("facts", "numbers")["words"]
_FEW = frozenset({"1", "2", "3", "one", "two", "three"})
_SHORTEST_OF_A_NAME = 2
_FEWEST_OF_A_LIST = 3
_PREPARED = turn_of_phrase("prepared")
_TERMS = frozenset({"term", "word", "name", "phrase", "expression"})
_SAYING = frozenset({"describe", "denote", "indicate", "mean"})
_DIRECTION = re.compile(
    r"^(?:in|out|up|down|for|back|side|east|west|north|south)wards?$"
)


def quantity(clause: Clause) -> Query | None:
    """Ask "how many", "how large" or "at which temperature … ?"."""
    figure = figure_in(clause.doc)
    if figure is None:
        return None
    if not _is_plain(clause) or is_modal(clause):
        return None
    for query in _of_figure(clause, figure):
        if query is not None:
            return query
    return None


def _of_figure(clause: Clause, figure: Figure) -> Iterator[Query | None]:
    yield _of_object(clause, figure)
    if clause.is_copula or figure.quantity in {"", "share"}:
        return
    for prep in clause.root.children:
        if prep.dep_ != "prep" or prep.lower_ not in _AT:
            continue
        pobj = child(prep, "pobj")
        if pobj is None or not figure.is_in(pobj):
            continue
        if child(pobj, "prep") is not None:
            continue  # "0.3 mm per day" is not a length
        rest = clause.inverted(list(prep.subtree))
        question = clause.after_lead(f"{prep.lower_} which {figure.quantity} {rest}")
        yield Query(CriterionKind.QUANTITY, question, figure.required)


def _of_object(clause: Clause, figure: Figure) -> Query | None:
    """Ask "how large is … ?" or "how many … does … ?"."""
    target = child(clause.root, "dobj", "attr")
    if target is None:
        return None
    if figure.number not in subtree(target, ("relcl", "acl", "appos")):
        return None
    number = figure.number
    is_count = number.head == target and number.dep_ == "nummod"
    question = ""
    if clause.is_copula:
        subject = clause.subject.lemma_.lower()
        if figure.quantity and subject in FORMS["measured"]:
            how = "how long" if figure.quantity == "time" else "how large"
            question = f"{how} {clause.root.text} {clause.subject_text}"
    elif is_count and not figure.quantity and target.tag_ == "NNS":
        question = _count(clause, figure, target)
    if not question:
        return None
    question = clause.after_lead(question)
    return Query(CriterionKind.QUANTITY, question, figure.required)


def _count(clause: Clause, figure: Figure, target: Token) -> str:
    """Ask how many; where a list of them follows, ask which they are; "" where neither tells."""
    words = subtree(target, ("relcl", "appos", "acl"))
    counted = text_of([word for word in words if word.i > figure.number.i])
    if any(part in counted for part in (",", ":", "(", " and ", " or ")):
        return ""
    before = {word.lower_ for word in target.children if word.i < figure.number.i}
    number = figure.number.lower_
    first, verb = clause.fronted()
    ending = f"{counted} {first} {clause.subject_text} {verb}"
    is_list = any(token.text == ":" for token in clause.doc[target.i :])
    if is_list and number in _SPELLED and not before:
        return f"which {number} {ending}"
    if number in _FEW or len(before) > 1 or before & {"the", "first"}:
        return ""
    if any(word.lemma_.lower() in WORDS["no_count"] for word in words):
        return ""
    if is_focused(clause):
        return ""
    return f"how many {ending}"


def object_of(clause: Clause, kind: CriterionKind) -> Query | None:
    """Ask for the object of the verb.

    Args:
        clause: The main clause.
        kind: Kind of the fact.
    """
    target = child(clause.root, "dobj", "ccomp")
    if target is None or target.i < clause.root.i:
        return None
    if clause.root.lemma_ == "have":
        return None
    is_clause = target.dep_ == "ccomp" and kind == CriterionKind.CAUSE
    if target.pos_ not in NOUNS and not is_clause:
        return None
    if target.tag_ in {"JJ", "RB"} or _DIRECTION.match(target.lower_):
        return None  # "must point inward": the word after the verb is not an object
    _, verb = clause.fronted()
    particle = child(clause.root, "prt")
    if particle is not None:
        verb = f"{verb} {particle.text}"
    return _of(clause, kind, verb, target)


def _of(
    clause: Clause,
    kind: CriterionKind,
    verb: str,
    answer: Token,
) -> Query | None:
    """Ask for the complement of a verb; of a program, with the rest of its sentence.

    Args:
        clause: The main clause.
        kind: Kind of the fact.
        verb: The verb after the subject.
        answer: The word that the answer begins with.
    """
    lemma = clause.root.lemma_.lower()
    if lemma not in _KINDS["program"] or not _is_program(clause):
        return Query(kind, clause.what(verb))
    rest = text_of(_beside(clause, answer))
    if len(rest.split()) < _FEWEST_OF_A_REST and not clause.lead:
        return None  # nobody can know which of a hundred things is meant
    predicate = f"{verb} {rest}".rstrip()
    return Query(kind, clause.what(predicate))


def _beside(clause: Clause, answer: Token) -> list[Token]:
    """Return the words after a verb that limit it, or the purpose inside the answer."""
    places = {token.i for token in answer.subtree}
    words: list[Token] = []
    for part in clause.root.children:
        if part.i <= clause.root.i:
            continue
        if part.dep_ not in {"prep", "advcl", "xcomp"}:
            continue
        if not any(token.i in places for token in part.subtree):
            words += part.subtree
    if words:
        return words
    for token in answer.subtree:
        if token.dep_ == "aux" and token.lower_ == "to":
            return list(token.head.subtree)
    return []


def _is_program(clause: Clause) -> bool:
    """Tell whether the subject is a name: of a program, a class, a project."""
    word = clause.subject.text
    if any(map(str.isupper, word[1:])):
        return True
    if any(map(str.isdigit, word)):
        return True
    if "`" in clause.subject_text:
        return True
    return word in clause.names and clause.subject.pos_ == "PROPN"


def by_preposition(clause: Clause) -> Query | None:
    """Ask "what does … depend on, consist of, lead to?"."""
    lemma = clause.root.lemma_.lower()
    is_passive = child(clause.root, "auxpass") is not None
    if lemma not in _PREPOSITIONS or is_passive or not _asks_once(clause):
        return None
    words, kind = _PREPOSITIONS[lemma]
    for prep in clause.root.children:
        if prep.dep_ != "prep" or prep.lower_ not in words:
            continue
        target = child(prep, "pobj", "pcomp")
        if target is None:
            continue
        if not says_something(target):
            return None
        if lemma == "range":
            return _range(clause, prep)
        if lemma in WORDS["open_verbs"] or _is_open_result(lemma, prep):
            return None  # one of many things
        _, verb = clause.fronted()
        return _of(clause, kind, f"{verb} {prep.lower_}", prep)
    return None


def _is_open_result(lemma: str, prep: Token) -> bool:
    """Tell whether a clause says what results, or from which preparation something results."""
    if lemma != "result":
        return False
    phrase = text_of(list(prep.subtree))
    return prep.lower_ == "in" or _PREPARED.search(phrase) is not None


def _range(clause: Clause, prep: Token) -> Query | None:
    """Ask "in which range does … lie?"."""
    if not any(token.like_num for token in prep.subtree):
        return None
    first, _ = clause.fronted()
    question = clause.after_lead(f"in which range {first} {clause.subject_text} lie")
    return Query(CriterionKind.QUANTITY, question)


def in_passive(clause: Clause) -> Query | None:
    """Ask "what is … caused by, made from, divided into?"."""
    root = clause.root
    lemma = root.lemma_.lower()
    if child(root, "auxpass") is None or lemma not in FORMS["passive"]:
        return None
    if not _asks_once(clause) or not has_one_complement(clause):
        return None
    if is_focused(clause):
        return None
    for prep in root.children:
        is_agent = prep.dep_ == "agent"
        is_answered = is_agent or lemma in BEHIND.get(prep.lower_, ())
        if prep.i <= root.i or not is_answered:
            continue
        target = child(prep, "pobj")
        if target is None or not says_something(target):
            continue
        is_organism = target.lemma_.lower() in WORDS["organisms"]
        if (is_organism and prep.lower_ == "of") or names_itself(clause):
            return None
        kind = CriterionKind.RELATION
        if is_agent and lemma in _KINDS["cause"]:
            kind = CriterionKind.CAUSE
        _, verb = clause.fronted()
        particle = child(root, "prt")
        if particle is not None:
            verb = f"{verb} {particle.text}"
        return _of(clause, kind, f"{verb.rstrip()} {prep.lower_}", prep)
    return None


def in_place(clause: Clause) -> Query | None:
    """Ask "where is … located?"."""
    root = clause.root
    if root.lemma_.lower() not in FORMS["placed"] or child(root, "auxpass") is None:
        return None
    if not _asks_once(clause) or not has_one_complement(clause):
        return None
    for prep in root.children:
        if prep.dep_ != "prep" or prep.i <= root.i:
            continue
        target = child(prep, "pobj")
        if target is None or prep.lower_ not in WORDS["places"]:
            return None
        if not says_something(target):
            return None
        first, verb = clause.fronted()
        question = clause.after_lead(f"where {first} {clause.subject_text} {verb}")
        return Query(CriterionKind.RELATION, question)
    return None


def for_purpose(clause: Clause) -> Query | None:
    """Ask "what is … used for?"."""
    root = clause.root
    is_used = root.lemma_ == "use" and child(root, "auxpass") is not None
    if not is_used or not _asks_once(clause):
        return None
    purpose = child(root, "xcomp", "advcl")
    if purpose is None or purpose.i < root.i:
        return None
    if child(purpose, "aux") is None or child(purpose, "mark") is not None:
        return None
    target = child(purpose, "dobj")
    if _items(target) >= _FEWEST_OF_A_LIST or _is_counted(purpose):
        return None  # some of many ends
    opening = {word.lower_ for word in clause.subject_words[:2]}
    if not opening.isdisjoint(_TERMS) and purpose.lemma_ in _SAYING:
        question = f"what does {clause.subject_text} {purpose.lemma_}"
    else:
        _, verb = clause.fronted()
        question = clause.what(f"{verb} for")
    return Query(CriterionKind.RELATION, question)


def _is_counted(verb: Token) -> bool:
    """Tell whether a figure says how much of a thing a verb makes."""
    target = child(verb, "dobj")
    if target is None:
        return False
    numbers = (token for token in target.subtree if token.like_num)
    return any(number.text[:1].isdigit() for number in numbers)


def _items(noun: Token | None) -> int:
    """Return how many things a list of nouns names."""
    if noun is None:
        return 0
    others = (word for word in noun.children if word.dep_ == "conj")
    return 1 + sum(map(_items, others))


def of_adjective(clause: Clause) -> Query | None:
    """Ask "what is … proportional to, responsible for?"."""
    complement = child(clause.root, "acomp")
    if complement is None or complement.lemma_ not in FORMS["of_adjective"]:
        return None
    if not clause.is_copula or not _asks_once(clause):
        return None
    prep = child(complement, "prep")
    target = child(prep, "pobj", "pcomp") if prep is not None else None
    if prep is None or target is None or not says_something(target):
        return None
    parts = list(complement.children)
    has_second = any(part.dep_ == "conj" for part in parts)
    if has_second or not list(target.children):
        return None
    is_inverse = any(part.lower_ == "inversely" for part in parts)
    if "inversely" in clause.doc.text and not is_inverse:
        return None
    adverbs = [part for part in parts if part.dep_ == "advmod"]
    how = text_of([word for word in adverbs if word.lower_ not in WORDS["dropped"]])
    predicate = f"{how} {complement.text} {prep.text}".lstrip()
    return Query(CriterionKind.RELATION, clause.what(predicate))


def of_verb(clause: Clause) -> Query | None:
    """Ask "what does … cause, contain, secrete?"."""
    lemma = clause.root.lemma_.lower()
    if lemma not in FORMS["active"] or child(clause.root, "auxpass") is not None:
        return None
    if not _asks_once(clause) or not is_named(clause) or is_focused(clause):
        return None
    target = child(clause.root, "dobj")
    if target is None or not says_something(target):
        return None
    is_of_program = lemma in _KINDS["program"] and _is_program(clause)
    if is_of_program or _says_how(clause):
        return None
    kind = CriterionKind.RELATION
    if lemma in _KINDS["cause"]:
        kind = CriterionKind.CAUSE
    query = object_of(clause, kind)
    if query is None:
        return None
    return query._replace(is_open=True)


def _says_how(clause: Clause) -> bool:
    """Tell whether the point of a sentence is the means: "by heating it"."""
    return any(
        word.lower_ == "by" and following.tag_ == "VBG"
        for word, following in pairwise(clause.doc)
    )


def is_named(clause: Clause) -> bool:
    """Tell whether the subject is a short name: a word, an acronym, a species."""
    count = 0
    for word in clause.subject_words:
        count += word.lower_ not in {"the", "a", "an"}
    if count > _SHORTEST_OF_A_NAME:
        return False
    is_plural = clause.subject.tag_ == "NNS"
    return count != 1 or not is_plural


def _asks_once(clause: Clause) -> bool:
    """Tell whether a clause denies nothing, says no "may", and can be asked with its opening."""
    if not _is_plain(clause) or is_modal(clause):
        return False
    return clause.may_lead


def _is_plain(clause: Clause) -> bool:
    return child(clause.root, "neg") is None
