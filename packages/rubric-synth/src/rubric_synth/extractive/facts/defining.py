"""Rules that ask what a thing is, and of what says so in earnest."""

from typing import Final

from spacy.tokens import Token

from rubric_core import CriterionKind
from rubric_synth.extractive.facts import sound
from rubric_synth.extractive.facts.clauses import ASIDE, NOUNS, Asked, Clause
from rubric_synth.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.extractive.facts.sound import WORDS
from rubric_synth.tables import read_table

_TABLE: Final = read_table("facts")
_PRAISE: Final = frozenset(_TABLE["gate"]["empty_complement"].split())
_ORDINALS: Final = frozenset(_TABLE["gate"]["picking"].split())
_PARTS: Final = frozenset(_TABLE["gate"]["no_definition"].split())
_NAMING: Final = frozenset({"call", "term", "name", "know", "refer"})
_WEAKENING: Final = frozenset({"really", "just", "simply"})
_MEMBERS: Final = frozenset({"species", "member"})
_MEASURED: Final = sound.turn_of_phrase("measured")
_MOST_OF_A_TERM: Final = 6
_FEWEST_OF_A_SUBJECT: Final = 2


def named(clause: Clause) -> Asked | None:
    """What is …, of what has a name; or how is … defined?"""
    kind = CriterionKind.DEFINITION
    root = clause.root
    if child(root, "auxpass") is None:
        return None
    preps = (
        token
        for token in root.children
        if token.dep_ == "prep" and token.lower_ == "as"
    )
    prep = next(preps, None)
    if root.lemma_ == "define" and prep is not None:
        verb = "are" if clause.is_plural else "is"
        if sound.is_modal(clause) or not clause.may_lead or child(prep, "pobj") is None:
            return None
        return Asked(kind, clause.behind(f"how {verb} {clause.subject_text} defined"))
    named = child(root, "oprd") or (child(prep, "pobj") if prep is not None else None)
    if root.lemma_ not in _NAMING or named is None or named.pos_ not in NOUNS:
        return None
    words = subtree(named, ASIDE)
    if not _describes(clause):
        return None
    verb = "are" if named.tag_ == "NNS" and clause.is_plural else "is"
    return (
        Asked(kind, f"what {verb} {text_of(words)}")
        if len(words) <= _MOST_OF_A_TERM
        else None
    )


def _describes(clause: Clause) -> bool:
    """Tell whether a subject says enough of what has a name: "the bending of light at a wall"."""
    behind = [token for token in clause.subject.children if token.i > clause.subject.i]
    is_limited = any(one.dep_ in {"prep", "acl", "relcl", "amod"} for one in behind)
    is_compared = any(word.tag_ in {"JJR", "RBR"} for word in clause.subject_words)
    words = [
        word for word in clause.subject_words if word.pos_ in {*NOUNS, "ADJ", "VERB"}
    ]
    return is_limited and len(words) >= _FEWEST_OF_A_SUBJECT and not is_compared


def definition(clause: Clause) -> Asked | None:
    """What is … ?"""
    root = clause.root
    attribute = child(root, "attr")
    if not clause.is_copula or attribute is None or attribute.pos_ != "NOUN":
        return None
    if _is_apart(root, attribute) or clause.subject_text in text_of(
        list(attribute.subtree)
    ):
        return None
    is_joint = child(clause.subject, "conj") is not None
    if (
        not clause.may_lead
        or is_joint
        or _is_part(clause)
        or _says_little(clause, attribute)
    ):
        return None
    is_measured = child(attribute, "nummod", "quantmod") is not None
    is_of_each = clause.subject_words[0].lower_ in {"each", "every", "all"}
    before = [token for token in attribute.subtree if token.i < attribute.i]
    is_denied = (
        any(one.lower_ in {"no", "not"} for one in before)
        or child(root, "neg") is not None
    )
    described = (*attribute.children, *clause.subject.children)
    adjectives = {one.lemma_.lower() for one in described if one.dep_ == "amod"}
    praise = adjectives & (_PRAISE | WORDS["light_praise"])
    hedges = {one.lower_ for one in root.children if one.dep_ == "advmod"} & WORDS[
        "hedges"
    ]
    is_weak = bool(hedges) or any(token.lower_ in _WEAKENING for token in clause.doc)
    is_singled_out = any(
        one.tag_ in {"JJS", "RBS", "JJR", "RBR"}
        or one.lower_ in _ORDINALS
        or one.lower_ == "only"
        for one in before
    )
    is_same = attribute.lemma_ == clause.subject.lemma_
    is_circular = is_same and not _is_marked_off(clause, attribute)
    is_numbered = any(word.like_num for word in clause.subject_words)
    is_vague = attribute.lemma_.lower() in _PARTS | WORDS["no_genus"] or _is_of_else(
        attribute
    )
    if (
        not _has_differentia(attribute)
        or is_measured
        or is_of_each
        or is_denied
        or praise
    ):
        return None
    if (
        is_circular
        or is_numbered
        or is_singled_out
        or is_vague
        or is_weak
        or _is_joined(attribute)
    ):
        return None  # a property of it, and not what it is
    question = clause.behind(f"what {root.text} {clause.subject_text}")
    if (
        clause.subject.lemma_.lower() in _MEMBERS
        and child(clause.subject, "prep") is not None
    ):
        question = clause.behind(f"what characterizes {clause.subject_text}")
    return Asked(CriterionKind.DEFINITION, question)


def _says_little(clause: Clause, attribute: Token) -> bool:
    """Tell whether a predicate weighs or measures a thing, or says of what it is a part alone."""
    adjectives = [
        word
        for word in attribute.children
        if word.dep_ == "amod" and word.i < attribute.i
    ]
    is_weighed = bool(adjectives) and adjectives[0].lower_ in WORDS["weighing"]
    own = (word.lower_ for word in clause.subject.children if word.dep_ == "amod")
    is_sort = not WORDS["sort_of"].isdisjoint(own)
    is_measure = clause.subject.lemma_.lower() in sound.FORMS["measured"]
    is_figure = _MEASURED.search(clause.doc.text) is not None and not is_measure
    is_empty = is_weighed or is_sort or is_figure or sound.names_itself(clause)
    return is_empty or _is_bare(attribute, has_more=bool(adjectives))


def _is_bare(attribute: Token, *, has_more: bool) -> bool:
    """Tell whether only "of a lobe", "formed as …" or "related to …" stands behind a noun."""
    limits = [
        word for word in attribute.children if word.dep_ in {"relcl", "acl", "prep"}
    ]
    behind = [word for word in limits if word.i > attribute.i]
    if behind and all(word.lemma_ == "relate" for word in behind):
        return True
    if attribute.lemma_.lower() not in WORDS["bare_genus"] or has_more:
        return False
    return all(map(_is_bare_limit, behind))


def _is_bare_limit(limit: Token) -> bool:
    target = child(limit, "pobj")
    if limit.dep_ == "prep" and target is not None:
        is_link = limit.lower_ in {"of", "to"}
        return is_link and all(word.dep_ == "det" for word in target.children)
    return limit.lemma_ == "form" and any(
        word.lower_ in {"as", "when"} for word in limit.subtree
    )


def _is_apart(root: Token, attribute: Token) -> bool:
    """Tell whether something stands between "is" and the noun behind it: it was read wrongly."""
    between = root.doc[root.i + 1 : attribute.left_edge.i]
    return any(
        token.pos_ in {"VERB", "ADJ", *NOUNS} or token.text == "," for token in between
    )


def _is_of_else(attribute: Token) -> bool:
    """Tell whether a predicate says what a thing is to another: "the site of digestion"."""
    links = {token.lower_ for token in attribute.children if token.dep_ == "prep"}
    return attribute.lemma_.lower() in WORDS["no_genus_of"] and not links.isdisjoint(
        {"of", "for"}
    )


def _is_marked_off(clause: Clause, attribute: Token) -> bool:
    """Tell whether a predicate with its subject's own noun says which one: "a wall that …"."""
    behind = any(token.dep_ in {"relcl", "acl"} for token in attribute.children)
    both = (clause.subject_words[0].lower_, next(iter(attribute.subtree)).lower_)
    is_known = any(one.pos_ == "PROPN" for one in clause.subject.children)
    return behind and (is_known or both != ("the", "the"))


def _is_joined(attribute: Token) -> bool:
    """Tell whether a second noun stands beside a predicate before anything limits it."""
    second = child(attribute, "conj")
    limits = [
        token.i
        for token in attribute.children
        if token.dep_ in {"relcl", "acl", "prep"}
    ]
    return second is not None and not any(attribute.i < at < second.i for at in limits)


def _is_part(clause: Clause) -> bool:
    """Tell whether a subject is what something causes, does or is best at, and no term."""
    words = clause.subject_words
    is_best = any(word.tag_ in {"JJS", "RBS", "JJR", "RBR"} for word in words)
    is_pair = not {"and", "or"}.isdisjoint(word.lower_ for word in words)
    links = {
        token.lower_
        for token in clause.subject.children
        if token.dep_ in {"prep", "det"}
    }
    is_role = clause.subject.lemma_.lower() in WORDS["role"] and not links.isdisjoint(
        {"of", "for", "to", "in", "the", "a", "an"}
    )
    return is_best or is_pair or is_role or "," in clause.subject_text


def _has_differentia(attribute: Token) -> bool:
    """Tell whether a predicate says which of its kind a thing is: "a wall that holds water"."""
    if attribute.lemma_.lower() in WORDS["group"]:
        behind = (token for token in attribute.subtree if token.i > attribute.i)
        return any(one.dep_ in {"relcl", "acl"} for one in behind)
    for one in attribute.children:
        if one.i < attribute.i or one.dep_ not in {"relcl", "acl", "prep"}:
            continue
        is_aside = one.left_edge.nbor(-1).text in {",", "("}
        if not is_aside:
            return True
    before = [one for one in attribute.children if one.dep_ in {"amod", "compound"}]
    has_aside = child(attribute, "relcl", "acl") is not None
    return has_aside and len(before) > 1
