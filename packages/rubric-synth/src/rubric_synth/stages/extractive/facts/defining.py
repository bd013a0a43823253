"""Rules that ask what a thing is, and checks that a sentence defines it."""

from spacy.tokens import Token

from rubric_core import CriterionKind
from rubric_synth.stages.extractive.facts import sound
from rubric_synth.stages.extractive.facts.clauses import ASIDE, NOUNS, Clause, Query
from rubric_synth.stages.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.stages.extractive.facts.sound import WORDS
from rubric_synth.tables import word_sets

_TABLE = word_sets("facts", "gate")
_PRAISE = _TABLE["empty_complement"]
_ORDINALS = _TABLE["picking"]
_PARTS = _TABLE["no_definition"]
_NAMING = frozenset({"call", "term", "name", "know", "refer"})
_WEAKENING = frozenset({"really", "just", "simply"})
_COMPARING = frozenset({"JJS", "RBS", "JJR", "RBR"})
"""Tags of comparatives and superlatives."""
_DESCRIBING = frozenset({"prep", "acl", "relcl", "amod"})
_LINKS = frozenset({"of", "for", "to", "in", "the", "a", "an"})
_LIMITS = frozenset({"relcl", "acl", "prep"})
_MEMBERS = frozenset({"species", "member"})
_MEASURED = sound.turn_of_phrase("measured")
_MOST_OF_A_TERM = 6
_FEWEST_OF_A_SUBJECT = 2


def named(clause: Clause) -> Query | None:
    """Ask "what is … ?" for a thing with a name, or "how is … defined?"."""
    root = clause.root
    if child(root, "auxpass") is None:
        return None
    prep: Token | None = None
    for token in root.children:
        if token.dep_ == "prep" and token.lower_ == "as":
            prep = token
            break
    if root.lemma_ == "define" and prep is not None:
        return _defined(clause, prep)
    name = child(root, "oprd")
    if name is None and prep is not None:
        name = child(prep, "pobj")
    if name is None or name.pos_ not in NOUNS:
        return None
    if root.lemma_ not in _NAMING or not _describes(clause):
        return None
    words = subtree(name, ASIDE)
    if len(words) > _MOST_OF_A_TERM:
        return None
    verb = "is"
    if clause.is_plural and name.tag_ == "NNS":
        verb = "are"
    question = f"what {verb} {text_of(words)}"
    return Query(CriterionKind.DEFINITION, question)


def _defined(clause: Clause, prep: Token) -> Query | None:
    """Ask "how is … defined?".

    Args:
        clause: Its verb is "define".
        prep: The word "as" after the verb.
    """
    if child(prep, "pobj") is None:
        return None
    if sound.is_modal(clause) or not clause.may_lead:
        return None
    verb = "are" if clause.is_plural else "is"
    question = f"how {verb} {clause.subject_text} defined"
    return Query(CriterionKind.DEFINITION, clause.after_lead(question))


def _describes(clause: Clause) -> bool:
    """Tell whether a subject says enough of a thing with a name: "the bending of light"."""
    subject = clause.subject
    after = [token for token in subject.children if token.i > subject.i]
    if _DESCRIBING.isdisjoint(token.dep_ for token in after):
        return False
    count = 0
    for word in clause.subject_words:
        if word.tag_ in {"JJR", "RBR"}:
            return False
        count += word.pos_ in {*NOUNS, "ADJ", "VERB"}
    return count >= _FEWEST_OF_A_SUBJECT


def definition(clause: Clause) -> Query | None:
    """Ask "what is … ?"."""
    root = clause.root
    attribute = child(root, "attr")
    if attribute is None or attribute.pos_ != "NOUN":
        return None
    if not clause.is_copula or not _is_one_term(clause):
        return None
    predicate = text_of(list(attribute.subtree))
    if _is_apart(root, attribute) or clause.subject_text in predicate:
        return None
    if _is_part(clause) or _says_little(clause, attribute):
        return None
    if _is_property(clause, attribute) or not _has_differentia(attribute):
        return None
    question = f"what {root.text} {clause.subject_text}"
    is_member = clause.subject.lemma_.lower() in _MEMBERS
    if is_member and child(clause.subject, "prep") is not None:
        question = f"what characterizes {clause.subject_text}"
    return Query(CriterionKind.DEFINITION, clause.after_lead(question))


def _is_one_term(clause: Clause) -> bool:
    """Tell whether a subject is one thing, and what stands before it may open a question."""
    return clause.may_lead and child(clause.subject, "conj") is None


def _is_property(clause: Clause, attribute: Token) -> bool:
    """Tell whether a predicate gives a property of a thing rather than what it is."""
    root = clause.root
    subject = clause.subject
    if _is_counted(clause, attribute) or _is_singled_out(attribute):
        return True
    if child(root, "neg") is not None:
        return True
    if _is_praised(attribute) or _is_praised(subject):
        return True
    adverbs = {word.lower_ for word in root.children if word.dep_ == "advmod"}
    if not adverbs.isdisjoint(WORDS["hedges"]):
        return True
    if any(token.lower_ in _WEAKENING for token in clause.doc):
        return True
    return _is_no_genus(clause, attribute)


def _is_praised(noun: Token) -> bool:
    praise = _PRAISE | WORDS["light_praise"]
    adjectives = (word for word in noun.children if word.dep_ == "amod")
    return any(word.lemma_.lower() in praise for word in adjectives)


def _is_no_genus(clause: Clause, attribute: Token) -> bool:
    """Tell whether the noun of a predicate does not name the kind that a thing belongs to."""
    if attribute.lemma_.lower() in _PARTS | WORDS["no_genus"]:
        return True
    is_same = attribute.lemma_ == clause.subject.lemma_
    if is_same and not _is_marked_off(clause, attribute):
        return True
    return _is_of_else(attribute) or _is_joined(attribute)


def _is_counted(clause: Clause, attribute: Token) -> bool:
    """Tell whether a number, or "each", stands with a subject or its predicate."""
    words = clause.subject_words
    if words[0].lower_ in {"each", "every", "all"}:
        return True
    if any(word.like_num for word in words):
        return True
    return child(attribute, "nummod", "quantmod") is not None


def _is_singled_out(attribute: Token) -> bool:
    """Tell whether a predicate denies, compares or counts: "no", "largest", "first", "only"."""
    return any(
        token.tag_ in _COMPARING
        or token.lower_ in {"no", "not", "only"}
        or token.lower_ in _ORDINALS
        for token in attribute.subtree
        if token.i < attribute.i
    )


def _says_little(clause: Clause, attribute: Token) -> bool:
    """Tell whether a predicate weighs or measures a thing, or only says what it is a part of."""
    before = [word for word in attribute.children if word.i < attribute.i]
    adjectives = [word for word in before if word.dep_ == "amod"]
    if adjectives and adjectives[0].lower_ in WORDS["weighing"]:
        return True
    subject = clause.subject
    own = {word.lower_ for word in subject.children if word.dep_ == "amod"}
    if not WORDS["sort_of"].isdisjoint(own):
        return True
    is_measure = subject.lemma_.lower() in sound.FORMS["measured"]
    measures = _MEASURED.search(clause.doc.text) is not None
    if measures and not is_measure:
        return True
    if sound.names_itself(clause):
        return True
    return _is_bare(attribute, has_more=bool(adjectives))


def _is_bare(attribute: Token, *, has_more: bool) -> bool:
    """Tell whether only "of a lobe", "formed as …" or "related to …" follows a noun."""
    after = [word for word in attribute.children if word.i > attribute.i]
    limits = [word for word in after if word.dep_ in _LIMITS]
    if limits and all(word.lemma_ == "relate" for word in limits):
        return True
    if attribute.lemma_.lower() not in WORDS["bare_genus"]:
        return False
    if has_more:
        return False
    return all(map(_is_bare_limit, limits))


def _is_bare_limit(limit: Token) -> bool:
    target = child(limit, "pobj")
    if limit.dep_ == "prep" and target is not None:
        if limit.lower_ not in {"of", "to"}:
            return False
        return all(word.dep_ == "det" for word in target.children)
    if limit.lemma_ != "form":
        return False
    return any(word.lower_ in {"as", "when"} for word in limit.subtree)


def _is_apart(root: Token, attribute: Token) -> bool:
    """Tell whether something stands between "is" and the noun after it: it was read wrongly."""
    start = root.i + 1
    end = attribute.left_edge.i
    return any(
        token.pos_ in {"VERB", "ADJ", *NOUNS} or token.text == ","
        for token in root.doc[start:end]
    )


def _is_of_else(attribute: Token) -> bool:
    """Tell whether a predicate says what a thing is to another: "the site of digestion"."""
    if attribute.lemma_.lower() not in WORDS["no_genus_of"]:
        return False
    return any(
        token.dep_ == "prep" and token.lower_ in {"of", "for"}
        for token in attribute.children
    )


def _is_marked_off(clause: Clause, attribute: Token) -> bool:
    """Tell whether a predicate with its subject's own noun says which one: "a wall that …"."""
    if child(attribute, "relcl", "acl") is None:
        return False
    if any(token.pos_ == "PROPN" for token in clause.subject.children):
        return True
    first = clause.subject_words[0].lower_
    second = next(attribute.subtree).lower_
    return (first, second) != ("the", "the")


def _is_joined(attribute: Token) -> bool:
    """Tell whether a second noun stands beside a predicate before anything limits it."""
    second = child(attribute, "conj")
    if second is None:
        return False
    return not any(
        token.dep_ in _LIMITS and attribute.i < token.i < second.i
        for token in attribute.children
    )


def _is_part(clause: Clause) -> bool:
    """Tell whether a subject is a cause, deed or best of something, and no term."""
    for word in clause.subject_words:
        if word.tag_ in _COMPARING:
            return True
        if word.lower_ in {"and", "or"}:
            return True
    if "," in clause.subject_text:
        return True
    if clause.subject.lemma_.lower() not in WORDS["role"]:
        return False
    links = (
        token for token in clause.subject.children if token.dep_ in {"prep", "det"}
    )
    return not _LINKS.isdisjoint(link.lower_ for link in links)


def _has_differentia(attribute: Token) -> bool:
    """Tell whether a predicate says which of its kind a thing is: "a wall that holds water"."""
    if attribute.lemma_.lower() in WORDS["group"]:
        return any(
            token.i > attribute.i and token.dep_ in {"relcl", "acl"}
            for token in attribute.subtree
        )
    for token in attribute.children:
        if token.i < attribute.i:
            continue
        if token.dep_ not in _LIMITS:
            continue
        before = token.left_edge.nbor(-1)
        is_aside = before.text in {",", "("}
        if not is_aside:
            return True
    if child(attribute, "relcl", "acl") is None:
        return False
    links = [token.dep_ for token in attribute.children]
    return links.count("amod") + links.count("compound") > 1
