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
from rubric_synth.extractive.facts import relations, sound
from rubric_synth.extractive.facts.clauses import ASIDE, NOUNS, Asked, Clause, clause_of, lowered
from rubric_synth.extractive.facts.gate import subject_of
from rubric_synth.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.extractive.facts.sound import FORMS, WORDS, Setting
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
_NAMING: Final = frozenset({"call", "term", "name", "know", "refer"})
_WEAKENING: Final = frozenset({"really", "just", "simply"})
_NO_PAIR: Final = frozenset(
    ["and", "or", "some", "other", "one", "ones", "many", "most", "all", "several", "any", "often", "nearly", "not", "no", "the", "right", "left", "both", "better", "rest", "various", "different", "each", "number"]
)
"""Words that make a thing no counterpart of another."""
_UNBOUND: Final = frozenset({"it", "they", "them", "their", "its"})
_WORDS: Final = range(3, 25)
_FEWEST_OF_A_REASON: Final = 3
_MOST_OF_A_TERM: Final = 6


def asked(doc: Doc, names: frozenset[str], setting: Setting | None = None) -> Asked | None:
    """Return what a sentence answers; None where it is no fact of any kind.

    Args:
        doc: The sentence, which stands alone.
        names: Words that keep their capital.
        setting: Where it stands.
    """
    clause = clause_of(doc, names)
    if clause is None or not _is_askable(clause):
        return None
    found = (rule(clause) for rule in _RULES)
    one = next((one for one in found if one is not None), None)
    if one is None or not _reads_well(one.question) or sound.is_cut(one.question):
        return None
    is_defined = one.kind == CriterionKind.DEFINITION
    is_known = is_defined or sound.is_specific(clause, setting or Setting())
    return one if is_known and (is_defined or not sound.compares_openly(clause)) else None


def _is_askable(clause: Clause) -> bool:
    """Tell whether the subject of a clause is whole, and begins as a question can have it."""
    first = clause.subject_words[0]
    asides = [one for one in clause.subject.children if one.dep_ in ASIDE]
    is_list = any(one.dep_ in {"conj", "cc"} for aside in asides for one in aside.subtree)
    return first.tag_ not in {"RB", "RBR", "IN"} and not is_list


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
    lead, rest = clause.lead_without(asked_for), clause.inverted(asked_for)
    opening = lead.partition(" ")[0]
    if (lead and opening not in WORDS["fronted"]) or "," in rest or "," in lead:
        return None
    question = f"{lead}, {word} {rest}" if lead else f"{word} {rest}"
    gone = {one.i for one in asked_for}
    kept = [one for one in clause.doc if one.i not in gone]
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
    outside = [one.i for one in doc if not one.is_punct and one.i not in set(places)]
    return not outside or max(places) < min(outside) or min(places) > max(outside)


def _means(clause: Clause) -> Asked | None:
    """How does … do it, by doing what?"""
    for one in clause.root.children:
        done = child(one, "pcomp")
        is_by = one.dep_ in {"prep", "agent"} and one.lower_ == "by" and one.i > clause.root.i
        if is_by and done is not None and done.tag_ == "VBG" and not sound.is_modal(clause):
            if child(clause.root, "neg") is not None or child(done, "dobj", "prep") is None:
                return None
            return _asked_with_rest(clause, CriterionKind.RELATION, "how", list(one.subtree))
    return None


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
        return Asked(CriterionKind.CONDITION, question) if not clause.lead_without(words) else None
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
    for one in clause.doc:
        other = child(one, "pobj")
        is_named = other is not None and other.pos_ in NOUNS
        if other is not None and is_named and one.lower_ == "than":
            return _which(clause, one, other)
        is_main = one.head == clause.root and clause.root.lemma_ == "differ"
        if other is not None and is_named and one.lower_ == "from" and is_main:
            return _differ(clause, other, one)
        if one.lower_ == "unlike" and other is not None and one.head == clause.root:
            is_pair = other.lemma_ == clause.subject.lemma_
            return _differ(clause, other, one) if is_pair else None
        is_contrast = one.dep_ == "mark" and one.lower_ in _CONTRASTS
        own = subject_of(one.head) if is_contrast and one.head.head == clause.root else None
        if own is not None and own.pos_ in NOUNS and _are_counterparts(clause, own, one.head):
            return _differ(clause, own, one)
    return None


def _are_counterparts(clause: Clause, other: Token, verb: Token) -> bool:
    """Tell whether two clauses say the same kind of thing of two things of one kind."""
    if other.lemma_ == clause.subject.lemma_:
        return True
    said, denied = (child(one, "acomp", "dobj", "attr") for one in (clause.root, verb))
    own, named = (
        {one.lemma_.lower() for one in subtree(noun, ASIDE) if one.pos_ in {*NOUNS, "ADJ"}}
        for noun in (clause.subject, other)
    )
    if own & named:
        return True
    is_same = said is not None and denied is not None and said.lemma_ == denied.lemma_
    return is_same or (verb.lemma_ == clause.root.lemma_ and verb.lemma_ not in {"be", "have"})


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
    is_vague = any(any(map(str.isdigit, one)) or one in _NO_PAIR for one in pair)
    is_between = any(one.dep_ == "prep" and one != mark for one in clause.root.children)
    lead = clause.lead if clause.subject.i < mark.i else ""
    if is_vague or "," in own + named or (lead and not clause.may_lead):
        return None
    if clause.root.lemma_ == "differ" and is_between:
        return None
    question = f"how do {own} and {named} differ{_basis(clause, other)}"
    return Asked(CriterionKind.COMPARISON, f"{lead}, {question}" if lead else question)


def _basis(clause: Clause, other: Token) -> str:
    """Return in what two things differ, where both clauses say it: "in viscosity"."""
    own = child(clause.root, "dobj")
    theirs = child(other.head, "dobj") if other.head != clause.root else None
    is_same = own is not None and theirs is not None and own.lemma_ == theirs.lemma_
    is_said = is_same and own is not None and any(one.dep_ == "amod" for one in own.children)
    return f" in {own.lemma_}" if is_said and own is not None and own.tag_ == "NN" else ""


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
    rest = text_of([one for one in middle if one.i not in gone and one.dep_ != "neg"])
    rest = " ".join(word for word in rest.split() if word not in WORDS["dropped"])
    named = lowered(text_of(subtree(other, ASIDE)), clause.names)
    pair = " or ".join(sorted((clause.subject_text, named)))
    words = set(pair.lower().split())
    is_vague = bool(words & (_NO_PAIR - {"and"})) or "," in rest + named or clause.lead != ""
    if is_vague or compared[0].i > than.i:
        return None
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
        if sound.is_modal(clause) or not clause.may_lead:
            return None
        return Asked(kind, clause.behind(f"how {verb} {clause.subject_text} defined"))
    named = child(root, "oprd") or (child(prep, "pobj") if prep is not None else None)
    if root.lemma_ not in _NAMING or named is None or named.pos_ not in NOUNS:
        return None
    words = subtree(named, ASIDE)
    if not _describes(clause):
        return None
    verb = "are" if named.tag_ == "NNS" else "is"
    return Asked(kind, f"what {verb} {text_of(words)}") if len(words) <= _MOST_OF_A_TERM else None


def _describes(clause: Clause) -> bool:
    """Tell whether a subject says enough of what has a name: "the bending of light at a wall"."""
    behind = [one for one in clause.subject.children if one.i > clause.subject.i]
    is_limited = any(one.dep_ in {"prep", "acl", "relcl", "amod"} for one in behind)
    is_compared = any(one.tag_ in {"JJR", "RBR"} for one in clause.subject_words)
    words = [one for one in clause.subject_words if one.pos_ in {*NOUNS, "ADJ", "VERB"}]
    return is_limited and len(words) >= _FEWEST_OF_A_REASON - 1 and not is_compared


def _definition(clause: Clause) -> Asked | None:
    """What is … ?"""
    root = clause.root
    attribute = child(root, "attr")
    if not clause.is_copula or attribute is None or attribute.pos_ != "NOUN":
        return None
    if not clause.may_lead or child(clause.subject, "conj") is not None or _is_part(clause):
        return None
    is_measured = child(attribute, "nummod", "quantmod") is not None
    is_of_each = clause.subject_words[0].lower_ in {"each", "every", "all"}
    before = [one for one in attribute.subtree if one.i < attribute.i]
    is_denied = any(one.lower_ in {"no", "not"} for one in before) or child(root, "neg") is not None
    adjectives = {one.lemma_.lower() for one in attribute.children if one.dep_ == "amod"}
    praise = adjectives & (_PRAISE | WORDS["light_praise"])
    hedges = {one.lower_ for one in root.children if one.dep_ == "advmod"} & WORDS["hedges"]
    is_weak = bool(hedges) or any(one.lower_ in _WEAKENING for one in clause.doc)
    is_singled_out = any(
        one.tag_ in {"JJS", "RBS", "JJR", "RBR"} or one.lower_ in _ORDINALS or one.lower_ == "only"
        for one in before
    )
    is_vague = attribute.lemma_.lower() in _PARTS | WORDS["no_genus"] or _is_of_else(attribute)
    if not _has_differentia(attribute) or is_measured or is_of_each or is_denied or praise:
        return None
    if is_singled_out or is_vague or is_weak or _is_joined(attribute):
        return None  # a property of it, and not what it is
    question = clause.behind(f"what {root.text} {clause.subject_text}")
    return Asked(CriterionKind.DEFINITION, question)


def _is_of_else(attribute: Token) -> bool:
    """Tell whether a predicate says what a thing is to another: "the site of digestion"."""
    links = {one.lower_ for one in attribute.children if one.dep_ == "prep"}
    return attribute.lemma_.lower() in WORDS["no_genus_of"] and not links.isdisjoint({"of", "for"})


def _is_joined(attribute: Token) -> bool:
    """Tell whether a second noun stands beside a predicate before anything limits it."""
    second = child(attribute, "conj")
    limits = [one.i for one in attribute.children if one.dep_ in {"relcl", "acl", "prep"}]
    return second is not None and not any(attribute.i < at < second.i for at in limits)


def _is_part(clause: Clause) -> bool:
    """Tell whether a subject is what something causes, does or is best at, and no term."""
    words = clause.subject_words
    is_best = any(one.tag_ in {"JJS", "RBS", "JJR", "RBR"} for one in words)
    is_pair = not {"and", "or"}.isdisjoint(one.lower_ for one in words)
    links = {one.lower_ for one in clause.subject.children if one.dep_ in {"prep", "det"}}
    is_role = clause.subject.lemma_.lower() in WORDS["role"] and not links.isdisjoint(
        {"of", "for", "to", "in", "the", "a", "an"}
    )
    return is_best or is_pair or is_role or "," in clause.subject_text


def _has_differentia(attribute: Token) -> bool:
    """Tell whether a predicate says which of its kind a thing is: "a wall that holds water"."""
    if attribute.lemma_.lower() in WORDS["group"]:
        behind = (one for one in attribute.subtree if one.i > attribute.i)
        return any(one.dep_ in {"relcl", "acl"} for one in behind)
    for one in attribute.children:
        if one.i < attribute.i or one.dep_ not in {"relcl", "acl", "prep"}:
            continue
        is_aside = one.left_edge.nbor(-1).text in {",", "("}
        if not is_aside:
            return True
    before = [one for one in attribute.children if one.dep_ in {"amod", "compound"}]
    return len(before) > 1


def _limit(clause: Clause) -> Asked | None:
    """What can … not … ?"""
    helper = clause.helper
    is_denied = child(clause.root, "neg") is not None
    if helper is None or helper.lower_ != "can" or not is_denied or not clause.may_lead:
        return None
    target = child(clause.root, "dobj")
    if target is None or not sound.says_something(target) or not relations.is_named(clause):
        return None
    asked_for = relations.object_of(clause, CriterionKind.LIMIT)
    return asked_for._replace(is_open=True) if asked_for is not None else None


_RULES: Final[tuple[Callable[[Clause], Asked | None], ...]] = (
    _cause,
    _means,
    _comparison,
    _condition,
    relations.quantity,
    _named,
    _definition,
    _limit,
    relations.by_preposition,
    relations.in_place,
    relations.in_passive,
    relations.for_purpose,
    relations.of_adjective,
    relations.of_verb,
)
