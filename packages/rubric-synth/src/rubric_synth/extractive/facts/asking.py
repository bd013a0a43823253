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
from rubric_synth.extractive.facts import relations
from rubric_synth.extractive.facts.clauses import ASIDE, NOUNS, Asked, Clause, clause_of, lowered
from rubric_synth.extractive.facts.gate import subject_of
from rubric_synth.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.tables import read_table

_TABLE: Final = read_table("facts")
_CHANGES: Final = frozenset(_TABLE["kinds"]["change"].split())
_ASKING: Final = frozenset(_TABLE["kinds"]["asking"].split())
_PRAISE: Final = frozenset(_TABLE["gate"]["empty_complement"].split())
_ORDINALS: Final = frozenset(_TABLE["gate"]["picking"].split())
_PARTS: Final = frozenset(_TABLE["gate"]["no_definition"].split())
_CONDITIONS: Final = frozenset({"if", "when", "unless"})
_CONTRASTS: Final = frozenset({"whereas", "while"})
_REASONS: Final = frozenset({("because", "of"), ("due", "to"), ("owing", "to")})
_MANNER: Final = frozenset({"in", "as", "with", "by", "at", "on", "before", "after", "within"})
_NAMING: Final = frozenset({"call", "term", "name", "know", "refer"})
_NEGATED: Final = frozenset({"can", "may", "should"})
_WEAKENING: Final = frozenset({"really", "just", "simply"})
_UNBOUND: Final = frozenset({"it", "they", "them", "their", "its"})
_WORDS: Final = range(3, 25)
_FEWEST_OF_A_REASON: Final = 3
_MOST_OF_A_TERM: Final = 6


def asked(doc: Doc, names: frozenset[str]) -> Asked | None:
    """Return what a sentence answers; None where it is no fact of any kind.

    Args:
        doc: The sentence, which stands alone.
        names: Words that keep their capital.
    """
    clause = clause_of(doc, names)
    if clause is None:
        return None
    found = (rule(clause) for rule in _RULES)
    one = next((one for one in found if one is not None), None)
    return one if one is not None and _reads_well(one.question) else None


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
    for one in clause.doc:
        is_clause = one.dep_ == "mark" and one.lower_ in {"because", "since"}
        if is_clause and one.head.dep_ == "advcl" and one.head.head == clause.root:
            reason = list(one.head.subtree)
        pair = one.nbor().lower_ if one.i + 1 < len(clause.doc) else ""
        if (one.lower_, pair) in _REASONS:
            is_predicate = one.dep_ == "acomp" or one.head != clause.root
            if not is_predicate and child(clause.root, "attr") is None:
                reason = list(one.subtree)
        if reason:
            break
    if len(reason) < _FEWEST_OF_A_REASON:
        return None
    return Asked(CriterionKind.CAUSE, f"why {clause.inverted(reason)}")


def _condition(clause: Clause) -> Asked | None:
    """What happens to … when …, or when … ?"""
    conditions = {"advcl"} if clause.root.lemma_.lower() in _ASKING else {"advcl", "ccomp"}
    clauses = [
        one
        for one in clause.root.children
        if one.dep_ in conditions
        and (mark := next(iter(one.subtree), None)) is not None
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
        question = f"what happens to {clause.subject_text} {lowered(condition, clause.names)}"
        return Asked(CriterionKind.CONDITION, question)
    if words[0].lower_ == "unless" or not is_named:
        return None
    return Asked(CriterionKind.CONDITION, f"when {clause.inverted(words)}")


def _comparison(clause: Clause) -> Asked | None:
    """Which is …, this or that; or how do they differ?"""
    for one in clause.doc:
        other = child(one, "pobj")
        is_named = other is not None and other.pos_ in NOUNS
        if other is not None and is_named and one.lower_ == "than":
            return _which(clause, one, other)
        if one.lower_ == "unlike" and one in clause.subject_words:
            return None
        is_main = one.head == clause.root and clause.root.lemma_ == "differ"
        parts = one.lower_ == "unlike" or (one.lower_ == "from" and is_main)
        if other is not None and is_named and parts:
            return _differ(clause, other)
        is_contrast = one.dep_ == "mark" and one.lower_ in _CONTRASTS
        own = subject_of(one.head) if is_contrast and one.head.head == clause.root else None
        if own is not None and own.pos_ in NOUNS:
            return _differ(clause, own)
    return None


def _differ(clause: Clause, other: Token) -> Asked:
    named = lowered(text_of(subtree(other, ASIDE)), clause.names)
    return Asked(CriterionKind.COMPARISON, f"how do {clause.subject_text} and {named} differ")


def _which(clause: Clause, than: Token, other: Token) -> Asked | None:
    degree = than.head
    compared = [one for one in clause.doc if one.tag_ in {"JJR", "RBR"}]
    is_main = clause.root in {degree, degree.head, degree.head.head}
    is_helped = clause.helper is not None or child(clause.root, "neg") is not None
    if len(compared) != 1 or not is_main or is_helped or than.i < clause.root.i:
        return None
    gone = {one.i for one in than.subtree}
    end = max(compared[0].i, degree.i) + 1
    middle = clause.doc[clause.root.i + 1 : max(end, min(gone))]
    rest = text_of([one for one in middle if one.i not in gone])
    named = lowered(text_of(subtree(other, ASIDE)), clause.names)
    pair = " or ".join(sorted((clause.subject_text, named)))
    return Asked(CriterionKind.COMPARISON, f"which {clause.root.text} {rest}, {pair}")


def _named(clause: Clause) -> Asked | None:
    """What is …, of what has a name; or how is … defined?"""
    kind, root = CriterionKind.DEFINITION, clause.root
    if child(root, "auxpass") is None:
        return None
    preps = (one for one in root.children if one.dep_ == "prep" and one.lower_ == "as")
    prep = next(preps, None)
    if root.lemma_ == "define" and prep is not None:
        verb = "are" if clause.is_plural else "is"
        return Asked(kind, f"how {verb} {clause.subject_text} defined")
    named = child(root, "oprd") or (child(prep, "pobj") if prep is not None else None)
    if root.lemma_ not in _NAMING or named is None or named.pos_ not in NOUNS:
        return None
    words = subtree(named, ASIDE)
    verb = "are" if named.tag_ == "NNS" else "is"
    return Asked(kind, f"what {verb} {text_of(words)}") if len(words) <= _MOST_OF_A_TERM else None


def _definition(clause: Clause) -> Asked | None:
    """What is … ?"""
    root = clause.root
    attribute = child(root, "attr")
    if not clause.is_copula or attribute is None or attribute.pos_ != "NOUN":
        return None
    limits = {"relcl", "acl", "prep"}
    is_bare = not any(one.i > attribute.i and one.dep_ in limits for one in attribute.children)
    is_measured = child(attribute, "nummod", "quantmod") is not None
    is_of_each = clause.subject_words[0].lower_ in {"each", "every"}
    before = [one for one in attribute.subtree if one.i < attribute.i]
    is_denied = any(one.lower_ in {"no", "not"} for one in before) or child(root, "neg") is not None
    praise = {one.lemma_.lower() for one in attribute.children if one.dep_ == "amod"} & _PRAISE
    is_weak = any(one.lower_ in _WEAKENING for one in clause.doc)
    is_singled_out = any(
        one.tag_ in {"JJS", "RBS"} or one.lower_ in _ORDINALS or one.lower_ == "only"
        for one in before
    )
    is_vague = attribute.lemma_.lower() in _PARTS
    if is_bare or is_measured or is_of_each or is_denied or praise or is_weak:
        return None
    if is_singled_out or is_vague:
        return None  # a property of it, and not what it is
    question = clause.behind(f"what {root.text} {clause.subject_text}")
    return Asked(CriterionKind.DEFINITION, question)


def _limit(clause: Clause) -> Asked | None:
    """What must …, what can … not … ?"""
    helper = clause.helper
    is_denied = child(clause.root, "neg") is not None
    if helper is None:
        return None
    must = helper.lower_ == "must" and not is_denied
    if not must and helper.lower_ != "must" and not (helper.lower_ in _NEGATED and is_denied):
        return None
    if (found := relations.object_of(clause, CriterionKind.LIMIT)) is not None:
        return found
    return _must_be(clause) if must else None


def _must_be(clause: Clause) -> Asked | None:
    """What must … be, and how must … be done?"""
    kind, root = CriterionKind.LIMIT, clause.root
    complement = child(root, "acomp", "attr")
    if complement is not None:
        to = child(complement, "prep")
        shown = f"be {complement.text} {to.text}" if to is not None else "be"
        is_whole = complement.dep_ == "attr" or to is not None
        return Asked(kind, f"what must {clause.subject_text} {shown}") if is_whole else None
    behind = (one for one in root.children if one.i > root.i and one.dep_ == "prep")
    has_manner = any(one.lower_ in _MANNER for one in behind)
    if child(root, "auxpass") is None or not has_manner:
        return None
    return Asked(kind, f"how must {clause.subject_text} be {root.text}")


_RULES: Final[tuple[Callable[[Clause], Asked | None], ...]] = (
    _cause,
    _comparison,
    _condition,
    relations.quantity,
    _named,
    _definition,
    _limit,
    relations.by_preposition,
    relations.in_passive,
    relations.for_purpose,
    relations.of_adjective,
    relations.of_verb,
)
