"""What a sentence answers: the kind of its fact and the question that an expert would ask.

Each rule reads the main clause. It asks for one part of the sentence (a reason, a condition, an
object, a figure) by the sentence's own subject, so that the question and the claim are about
the same thing and the answer stays out of the question.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth.extractive.facts import defining, relations, sound
from rubric_synth.extractive.facts.clauses import (
    ASIDE,
    NOUNS,
    Asked,
    Clause,
    clause_of,
    lowered,
)
from rubric_synth.extractive.facts.gate import subject_of
from rubric_synth.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.extractive.facts.sound import FORMS, WORDS
from rubric_synth.tables import read_table

_TABLE: Final = read_table("facts")
_CHANGES: Final = frozenset(_TABLE["kinds"]["change"].split())
_ASKING: Final = frozenset(_TABLE["kinds"]["asking"].split())
_CONDITIONS: Final = frozenset({"if", "when", "unless"})
_CONTRASTS: Final = frozenset({"whereas", "while"})
_REASONS: Final = frozenset({("because", "of"), ("due", "to"), ("owing", "to")})
_UNBOUND: Final = frozenset({"it", "they", "them", "their", "its"})
_HOLDING: Final = frozenset({"have", "contain", "show", "possess", "exhibit"})
_WORDS: Final = range(3, 25)
_FEWEST_OF_A_REASON: Final = 3


def asked(doc: Doc, names: frozenset[str]) -> Asked | None:
    """Return what a sentence answers; None where it is no fact of any kind.

    Args:
        doc: The sentence, which stands alone.
        names: Words that keep their capital.
    """
    clause = clause_of(doc, names)
    if clause is None or not _is_askable(clause):
        return None
    found = (rule(clause) for rule in _RULES)
    one = next((one for one in found if one is not None), None)
    if one is None or sound.is_cut(one.question):
        return None
    if not _reads_well(one.question.partition(" differ in ")[0]):
        return None
    is_defined = one.kind == CriterionKind.DEFINITION
    is_known = is_defined or sound.is_specific(clause)
    return (
        one if is_known and (is_defined or not sound.compares_openly(clause)) else None
    )


def _is_askable(clause: Clause) -> bool:
    """Tell whether the subject of a clause is whole, and begins as a question can have it."""
    first = clause.subject_words[0]
    asides = [one for one in clause.subject.children if one.dep_ in ASIDE]
    is_list = any(
        token.dep_ in {"conj", "cc"} for aside in asides for token in aside.subtree
    )
    is_denied = bool(sound.negations(clause.subject_words))
    if "," in clause.subject_text or " called " in clause.subject_text:
        return False
    return first.tag_ not in {"RB", "RBR", "IN"} and not is_list and not is_denied


def _reads_well(question: str) -> bool:
    words = question.lower().split()
    return (
        len(words) in _WORDS
        and question.count("(") == question.count(")")
        and question.count("`") % 2 == 0
        and _UNBOUND.isdisjoint(words)
        and "( " not in question
        and all(one != other for one, other in pairwise(words))
    )


def _cause(clause: Clause) -> Asked | None:
    """Why … ?"""
    reason: list[Token] = []
    for token in clause.doc:
        is_clause = token.dep_ == "mark" and token.lower_ in {"because", "since"}
        is_whole = (
            token.head.pos_ in {"VERB", "AUX"} and subject_of(token.head) is not None
        )
        if (
            is_clause
            and is_whole
            and token.head.dep_ == "advcl"
            and token.head.head == clause.root
        ):
            reason = list(token.head.subtree)
        pair = token.nbor().lower_ if token.i + 1 < len(clause.doc) else ""
        if (token.lower_, pair) in _REASONS:
            is_predicate = token.dep_ == "acomp" or token.head != clause.root
            if not is_predicate and child(clause.root, "attr") is None:
                reason = list(token.subtree)
        if reason:
            break
    if len(reason) < _FEWEST_OF_A_REASON:
        return None
    return _asked_with_rest(clause, CriterionKind.CAUSE, "why", reason)


def _asked_with_rest(
    clause: Clause, kind: CriterionKind, word: str, asked_for: list[Token]
) -> Asked | None:
    """Ask for a part of a clause by all the rest of it; None where the rest does not fit.

    Args:
        clause: The main clause.
        kind: Of the fact.
        word: That the question begins with.
        asked_for: The words of the part.
    """
    if not _is_whole_part(clause.doc, asked_for):
        return None
    lead = clause.lead_without(asked_for)
    rest = clause.inverted(asked_for)
    opening = lead.partition(" ")[0]
    is_said = opening in WORDS["fronted"] and WORDS["bad_lead"].isdisjoint(lead.split())
    if (lead and not is_said) or "," in rest or "," in lead:
        return None
    question = f"{lead}, {word} {rest}" if lead else f"{word} {rest}"
    gone = {one.i for one in asked_for}
    kept = [token for token in clause.doc if token.i not in gone]
    if not sound.negations(kept) <= set(question.lower().split()):
        return None
    if any(one.tag_ in {"JJS", "RBS"} for one in kept):
        return None  # the most of what, its page says
    second = child(clause.root, "conj")
    if second is not None and second.pos_ in {"VERB", "AUX"}:
        return None  # which of two things the part belongs to, the parser guesses
    return Asked(kind, question)


def _is_whole_part(doc: Doc, part: list[Token]) -> bool:
    """Tell whether words are all of a sentence from its start, or all of it up to its end."""
    places = [one.i for one in part if not one.is_punct]
    outside = [
        token.i for token in doc if not token.is_punct and token.i not in set(places)
    ]
    return not outside or max(places) < min(outside) or min(places) > max(outside)


def _means(clause: Clause) -> Asked | None:
    """How does … do it, by doing what?"""
    for token in clause.root.children:
        done = child(token, "pcomp")
        is_by = (
            token.dep_ in {"prep", "agent"}
            and token.lower_ == "by"
            and token.i > clause.root.i
        )
        if (
            is_by
            and done is not None
            and done.tag_ == "VBG"
            and not sound.is_modal(clause)
        ):
            is_denied = child(clause.root, "neg") is not None
            is_named = clause.root.lemma_.lower() in WORDS["no_deed"]
            if is_denied or is_named or child(done, "dobj", "prep") is None:
                return None
            return _asked_with_rest(
                clause, CriterionKind.RELATION, "how", list(token.subtree)
            )
    return None


def _condition(clause: Clause) -> Asked | None:
    """What happens to … when …, or when … ?"""
    conditions = (
        {"advcl"} if clause.root.lemma_.lower() in _ASKING else {"advcl", "ccomp"}
    )
    clauses = [
        token
        for token in clause.root.children
        if token.dep_ in conditions
        and (mark := next(iter(token.subtree), None)) is not None
        and mark.lower_ in _CONDITIONS
    ]
    if len(clauses) != 1 or subject_of(clauses[0]) is None:
        return None
    words = list(clauses[0].subtree)
    if words[-1].i - words[0].i >= len(words):
        return None  # the clause is broken up: it was read wrongly
    own = subject_of(clauses[0])
    is_named = own is not None and own.pos_ in NOUNS
    condition = text_of(words)
    if clause.root.lemma_ in _CHANGES and is_named and clause.helper is None:
        question = (
            f"what happens to {clause.subject_text} {lowered(condition, clause.names)}"
        )
        return (
            Asked(CriterionKind.CONDITION, question)
            if not clause.lead_without(words)
            else None
        )
    if words[0].lower_ == "unless" or not is_named:
        return None
    verb = clause.root.lemma_.lower()
    complement = child(clause.root, "acomp")
    state = complement.lemma_.lower() if complement is not None else verb
    if {verb, state}.isdisjoint(FORMS["when_verbs"]) or sound.is_modal(clause):
        return None  # one of many conditions
    return _asked_with_rest(clause, CriterionKind.CONDITION, "when", words)


def _comparison(clause: Clause) -> Asked | None:
    """Which is …, this or that; or how do they differ?"""
    for token in clause.doc:
        other = child(token, "pobj")
        is_named = other is not None and other.pos_ in NOUNS
        if other is not None and is_named and token.lower_ == "than":
            return _which(clause, token, other)
        is_main = token.head == clause.root and clause.root.lemma_ == "differ"
        if other is not None and is_named and token.lower_ == "from" and is_main:
            return _differ(clause, other, token)
        if token.lower_ == "unlike" and other is not None and token.head == clause.root:
            is_pair = other.lemma_ == clause.subject.lemma_
            return _differ(clause, other, token) if is_pair else None
        is_contrast = token.dep_ == "mark" and token.lower_ in _CONTRASTS
        own = (
            subject_of(token.head)
            if is_contrast and token.head.head == clause.root
            else None
        )
        if (
            own is not None
            and own.pos_ in NOUNS
            and _are_counterparts(clause, own, token.head)
        ):
            return _differ(clause, own, token)
    return None


def _are_counterparts(clause: Clause, other: Token, verb: Token) -> bool:
    """Tell whether two clauses say the same kind of thing of two things of one kind."""
    if other.lemma_ == clause.subject.lemma_:
        return True
    own, named = (
        [
            token.lemma_.lower()
            for token in subtree(noun, ASIDE)
            if token.pos_ in {*NOUNS, "ADJ"}
        ]
        for noun in (clause.subject, other)
    )
    if own[:1] == named[:1]:
        return True  # "head position" and "head movement"
    said, denied = (child(one, "acomp", "dobj", "attr") for one in (clause.root, verb))
    return said is not None and denied is not None and said.lemma_ == denied.lemma_


def _differ(clause: Clause, other: Token, mark: Token) -> Asked | None:
    """How do this and that differ?

    Args:
        clause: The main clause.
        other: What its subject is compared with.
        mark: The word that parts them.
    """
    named = lowered(text_of(subtree(other, ASIDE)), clause.names)
    own = clause.subject_text
    pair = f"{own} {named}".lower().split()
    is_vague = any(
        any(map(str.isdigit, one)) or one in WORDS["no_pair"] for one in pair
    )
    is_between = any(
        token.dep_ == "prep" and token != mark for token in clause.root.children
    )
    lead = clause.lead if clause.subject.i < mark.i else ""
    if is_vague or "," in own + named or (lead and not clause.may_lead):
        return None
    if clause.root.lemma_ == "differ" and is_between:
        return None
    aspect = _aspect(clause, other, mark)
    if aspect is None:
        return None
    question = f"how do {own} and {named} differ{aspect}"
    return Asked(CriterionKind.COMPARISON, f"{lead}, {question}" if lead else question)


def _aspect(clause: Clause, other: Token, mark: Token) -> str | None:
    """Return in what two things differ: "in viscosity"; None where no part is of both.

    Args:
        clause: The main clause.
        other: What its subject is compared with.
        mark: The word that parts them.
    """
    if mark.lower_ not in _CONTRASTS:
        is_explained = any(word.dep_ == "relcl" for word in other.children)
        return None if is_explained else ""  # "unlike X, which …" tells by the way
    own = clause.root
    theirs = other.head
    first = child(own, "dobj")
    second = child(theirs, "dobj")
    is_same_verb = own.lemma_ == theirs.lemma_
    if first is not None and second is not None:
        is_same = second.lower_ in _UNBOUND or first.lemma_ == second.lemma_
        if is_same:
            return f" in {_shared(own, first, is_same_verb=is_same_verb)}"
        return (
            f" in what they {own.lemma_}"
            if is_same_verb and own.lemma_ != "have"
            else None
        )
    if own.lemma_ == "be":
        return "" if is_same_verb and _are_said_alike(own, theirs) else None
    return f" in how they {own.lemma_}" if is_same_verb else None


def _shared(verb: Token, noun: Token, *, is_same_verb: bool) -> str:
    """Return how a question names the object that two clauses share."""
    if verb.lemma_ in _HOLDING:
        return noun.lemma_ if noun.tag_ == "NN" else f"their {noun.text}"
    words = [word for word in subtree(noun, ASIDE) if word.i <= noun.i]
    named = text_of([word for word in words if word.dep_ not in {"amod", "nummod"}])
    if is_same_verb:
        return f"the {noun.text} that they {verb.lemma_}"
    return f"what they do to {named}"


def _are_said_alike(own: Token, theirs: Token) -> bool:
    """Tell whether two clauses with "is" say adjectives, or one noun, of their subjects."""
    if child(own, "acomp") is not None and child(theirs, "acomp") is not None:
        return True
    first = child(own, "attr")
    second = child(theirs, "attr")
    return first is not None and second is not None and first.lemma_ == second.lemma_


def _which(clause: Clause, than: Token, other: Token) -> Asked | None:
    degree = than.head
    compared = [token for token in clause.doc if token.tag_ in {"JJR", "RBR"}]
    is_main = clause.root in {degree, degree.head, degree.head.head}
    is_helped = clause.helper is not None or child(clause.root, "neg") is not None
    if len(compared) != 1 or not is_main or is_helped or than.i < clause.root.i:
        return None
    gone = {token.i for token in than.subtree}
    end = max(compared[0].i, degree.i) + 1
    middle = clause.doc[clause.root.i + 1 : max(end, min(gone))]
    rest = text_of([one for one in middle if one.i not in gone and one.dep_ != "neg"])
    rest = " ".join(word for word in rest.split() if word not in WORDS["dropped"])
    named = lowered(text_of(subtree(other, ASIDE)), clause.names)
    pair = " or ".join(sorted((clause.subject_text, named)))
    words = set(pair.lower().split())
    is_some = bool(words & (WORDS["no_pair"] - {"or"})) or any(map(str.isdigit, pair))
    is_vague = is_some or "," in rest + named or bool(clause.lead)
    if is_vague or not _is_of_degree(clause, compared[0]):
        return None
    return Asked(CriterionKind.COMPARISON, f"which {clause.root.text} {rest}, {pair}")


def _is_of_degree(clause: Clause, compared: Token) -> bool:
    """Tell whether a comparative says in what, of the verb itself: "denser", "more slowly"."""
    degree = compared.head if compared.lower_ in {"more", "less"} else compared
    if compared.lower_ in {"better", "worse", "less", "more"} and degree == compared:
        return False
    is_said = degree.head == clause.root and degree.dep_ in {"acomp", "advmod"}
    target = degree.head if degree.dep_ == "amod" else None
    has_degree = (
        target is not None and target.head == clause.root and target.dep_ == "dobj"
    )
    return (is_said or has_degree) and degree.pos_ in {"ADJ", "ADV"}


def _limit(clause: Clause) -> Asked | None:
    """What can … not … ?"""
    helper = clause.helper
    is_denied = child(clause.root, "neg") is not None
    if helper is None or helper.lower_ != "can" or not is_denied or not clause.may_lead:
        return None
    target = child(clause.root, "dobj")
    if (
        target is None
        or not sound.says_something(target)
        or not relations.is_named(clause)
    ):
        return None
    asked_for = relations.object_of(clause, CriterionKind.LIMIT)
    return asked_for._replace(is_open=True) if asked_for is not None else None


_RULES: Final[tuple[Callable[[Clause], Asked | None], ...]] = (
    _cause,
    _means,
    _comparison,
    _condition,
    relations.quantity,
    defining.named,
    defining.definition,
    _limit,
    relations.by_preposition,
    relations.in_place,
    relations.in_passive,
    relations.for_purpose,
    relations.of_adjective,
    relations.of_verb,
)
