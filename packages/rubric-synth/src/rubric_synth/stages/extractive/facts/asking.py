"""Rules that turn a sentence into the question that an expert would ask, and its kind.

Each rule reads the main clause. It asks for one part of the sentence (a reason, a condition, an
object, a figure) by the sentence's own subject, so that the question and the claim are about
the same thing and the answer stays out of the question.
"""

from collections.abc import Callable
from itertools import pairwise

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth.stages.extractive.facts import defining, relations, sound
from rubric_synth.stages.extractive.facts.clauses import (
    ASIDE,
    NOUNS,
    Clause,
    Query,
    clause_of,
    lowered,
)
from rubric_synth.stages.extractive.facts.gate import subject_of
from rubric_synth.stages.extractive.facts.parsing import child, subtree, text_of
from rubric_synth.stages.extractive.facts.sound import FORMS, WORDS
from rubric_synth.tables import word_sets

_KINDS = word_sets("facts", "kinds")
_CHANGES = _KINDS["change"]
_ASKING = _KINDS["asking"]
_CONDITIONS = frozenset({"if", "when", "unless"})
_CONTRASTS = frozenset({"whereas", "while"})
_REASONS = (("because", "of"), ("due", "to"), ("owing", "to"))
_UNBOUND = frozenset({"it", "they", "them", "their", "its"})
_HOLDING = frozenset({"have", "contain", "show", "possess", "exhibit"})
_WORDS = range(3, 25)
_FEWEST_OF_A_REASON = 3


def query_of(doc: Doc, names: frozenset[str]) -> Query | None:
    """Return the question that a sentence answers; None where it is not a fact of any kind.

    Args:
        doc: The sentence, which stands alone.
        names: Words that keep their capital.
    """
    clause = clause_of(doc, names)
    if clause is None or not _is_askable(clause):
        return None
    query = _first_query(clause)
    if query is None or sound.is_cut(query.question):
        return None
    if not _reads_well(query.question.partition(" differ in ")[0]):
        return None
    if query.kind == CriterionKind.DEFINITION:
        return query
    if not sound.is_specific(clause) or sound.compares_openly(clause):
        return None
    return query


def _first_query(clause: Clause) -> Query | None:
    for rule in _RULES:
        query = rule(clause)
        if query is not None:
            return query
    return None


def _is_askable(clause: Clause) -> bool:
    """Tell whether the subject of a clause is whole, and begins as a question can have it."""
    if "," in clause.subject_text or " called " in clause.subject_text:
        return False
    for aside in clause.subject.children:
        if aside.dep_ not in ASIDE:
            continue
        if any(token.dep_ in {"conj", "cc"} for token in aside.subtree):
            return False
    if sound.negations(clause.subject_words):
        return False
    first = clause.subject_words[0]
    return first.tag_ not in {"RB", "RBR", "IN"}


def _reads_well(question: str) -> bool:
    words = question.lower().split()
    has_pairs = question.count("(") == question.count(")")
    has_marks = question.count("`") % 2 == 0
    if not has_pairs or not has_marks or "( " in question:
        return False
    if len(words) not in _WORDS:
        return False
    if not _UNBOUND.isdisjoint(words):
        return False
    return all(first != second for first, second in pairwise(words))


def _cause(clause: Clause) -> Query | None:
    """Ask "why … ?"."""
    reason: list[Token] = []
    for token in clause.doc:
        if token.dep_ == "mark" and token.lower_ in {"because", "since"}:
            verb = token.head
            is_whole = verb.pos_ in {"VERB", "AUX"} and subject_of(verb) is not None
            is_main = verb.dep_ == "advcl" and verb.head == clause.root
            if is_whole and is_main:
                reason = list(verb.subtree)
        following = ""
        if token.i + 1 < len(clause.doc):
            following = token.nbor().lower_
        if (token.lower_, following) in _REASONS:
            is_predicate = token.dep_ == "acomp" or token.head != clause.root
            if not is_predicate and child(clause.root, "attr") is None:
                reason = list(token.subtree)
        if reason:
            break
    if len(reason) < _FEWEST_OF_A_REASON:
        return None
    if clause.helper is not None and clause.helper.lower_ == "will":
        return None  # of one case: "The run will fail, because the port is taken."
    return _query_with_rest(clause, CriterionKind.CAUSE, "why", reason)


def _query_with_rest(
    clause: Clause,
    kind: CriterionKind,
    word: str,
    part: list[Token],
) -> Query | None:
    """Ask for a part of a clause by all the rest of it; None where the rest does not fit.

    Args:
        clause: The main clause.
        kind: Kind of the fact.
        word: The first word of the question.
        part: The words of the part.
    """
    if not _is_whole_part(clause.doc, part):
        return None
    lead = clause.lead_without(part)
    rest = clause.inverted(part)
    if "," in rest + lead or (lead and not _can_lead(lead)):
        return None
    question = f"{word} {rest}"
    if lead:
        question = f"{lead}, {question}"
    places = {token.i for token in part}
    others = [token for token in clause.doc if token.i not in places]
    words = question.lower().split()
    if not sound.negations(others).issubset(words):
        return None
    if any(token.tag_ in {"JJS", "RBS"} for token in others):
        return None  # only the page says what it is the most of
    second = child(clause.root, "conj")
    if second is not None and second.pos_ in {"VERB", "AUX"}:
        return None  # the parser guesses which of two verbs the part belongs to
    return Query(kind, question)


def _can_lead(lead: str) -> bool:
    words = lead.split()
    if words[0] not in WORDS["fronted"]:
        return False
    return WORDS["bad_lead"].isdisjoint(words)


def _is_whole_part(doc: Doc, part: list[Token]) -> bool:
    """Tell whether words are all of a sentence from its start, or all of it up to its end."""
    places = {token.i for token in part if not token.is_punct}
    words = [token.i for token in doc if not token.is_punct]
    outside = [place for place in words if place not in places]
    if not outside:
        return True
    if max(places) < min(outside):
        return True
    return min(places) > max(outside)


def _means(clause: Clause) -> Query | None:
    """Ask "how does … ?" of a clause that says by doing what."""
    root = clause.root
    for token in root.children:
        if token.dep_ not in {"prep", "agent"} or token.lower_ != "by":
            continue
        deed = child(token, "pcomp")
        if token.i <= root.i or deed is None or deed.tag_ != "VBG":
            continue
        if sound.is_modal(clause):
            continue
        if child(root, "neg") is not None:
            return None
        if root.lemma_.lower() in WORDS["no_deed"]:
            return None
        if child(deed, "dobj", "prep") is None:
            return None
        part = list(token.subtree)
        return _query_with_rest(clause, CriterionKind.RELATION, "how", part)
    return None


def _condition(clause: Clause) -> Query | None:
    """Ask "what happens to … when … ?", or "when … ?"."""
    clauses = _condition_clauses(clause)
    own = subject_of(clauses[0]) if len(clauses) == 1 else None
    if own is None:
        return None
    words = list(clauses[0].subtree)
    if words[-1].i - words[0].i >= len(words):
        return None  # the clause is broken up: it was read wrongly
    is_named = own.pos_ in NOUNS
    if clause.root.lemma_ in _CHANGES and is_named and clause.helper is None:
        return _change(clause, words)
    if words[0].lower_ == "unless" or not is_named:
        return None
    states = {clause.root.lemma_.lower()}
    complement = child(clause.root, "acomp")
    if complement is not None:
        states.add(complement.lemma_.lower())
    if states.isdisjoint(FORMS["when_verbs"]) or sound.is_modal(clause):
        return None  # one of many conditions
    return _query_with_rest(clause, CriterionKind.CONDITION, "when", words)


def _change(clause: Clause, words: list[Token]) -> Query | None:
    """Ask "what happens to … when … ?", with the words of the condition."""
    if clause.lead_without(words):
        return None
    condition = lowered(text_of(words), clause.names)
    question = f"what happens to {clause.subject_text} {condition}"
    return Query(CriterionKind.CONDITION, question)


def _condition_clauses(clause: Clause) -> list[Token]:
    """Return the verbs of the clauses with "if", "when" or "unless" below a main verb."""
    deps = {"advcl"}
    if clause.root.lemma_.lower() not in _ASKING:
        deps.add("ccomp")
    verbs = [token for token in clause.root.children if token.dep_ in deps]
    return [verb for verb in verbs if next(verb.subtree).lower_ in _CONDITIONS]


def _comparison(clause: Clause) -> Query | None:
    """Ask "which is …, this or that?", or "how do they differ?"."""
    for token in clause.doc:
        other = child(token, "pobj")
        word = token.lower_
        if other is not None:
            is_named = other.pos_ in NOUNS
            is_main = token.head == clause.root
            if is_named and word == "than":
                return _which(clause, token, other)
            is_difference = is_main and clause.root.lemma_ == "differ"
            if is_named and word == "from" and is_difference:
                return _differ(clause, other, token)
            if is_main and word == "unlike":
                if other.lemma_ != clause.subject.lemma_:
                    return None
                return _differ(clause, other, token)
        own = _contrasted(clause, token)
        if own is not None and _are_counterparts(clause, own, token.head):
            return _differ(clause, own, token)
    return None


def _contrasted(clause: Clause, mark: Token) -> Token | None:
    """Return the noun that "whereas" or "while" contrasts with the subject; None for none."""
    if mark.dep_ != "mark" or mark.lower_ not in _CONTRASTS:
        return None
    if mark.head.head != clause.root:
        return None
    own = subject_of(mark.head)
    if own is not None and own.pos_ in NOUNS:
        return own
    return None


def _are_counterparts(
    clause: Clause,
    other: Token,
    verb: Token,
) -> bool:
    """Tell whether two clauses say the same kind of thing of two things of one kind."""
    if other.lemma_ == clause.subject.lemma_:
        return True
    if _first_lemma(clause.subject) == _first_lemma(other):
        return True  # "head position" and "head movement"
    first = child(clause.root, "acomp", "dobj", "attr")
    second = child(verb, "acomp", "dobj", "attr")
    if first is None:
        return False
    if second is None:
        return False
    return first.lemma_ == second.lemma_


def _first_lemma(noun: Token) -> str:
    """Return the lemma of the first noun or adjective of a noun phrase; "" for none."""
    for token in subtree(noun, ASIDE):
        if token.pos_ in {*NOUNS, "ADJ"}:
            return token.lemma_.lower()
    return ""


def _differ(clause: Clause, other: Token, mark: Token) -> Query | None:
    """Ask "how do this and that differ?".

    Args:
        clause: The main clause.
        other: The thing that its subject is compared with.
        mark: The word that separates them.
    """
    other_text = lowered(text_of(subtree(other, ASIDE)), clause.names)
    own_text = clause.subject_text
    if not _may_be_paired(f"{own_text} {other_text}"):
        return None
    lead = clause.lead if clause.subject.i < mark.i else ""
    if lead and not clause.may_lead:
        return None
    root = clause.root
    preps = [token for token in root.children if token.dep_ == "prep"]
    is_whole = child(root, "advcl") is not None and all(prep == mark for prep in preps)
    if root.lemma_ == "differ" and not is_whole:
        return None  # "A differs slightly from B" does not say in what
    aspect = _aspect(clause, other, mark)
    if aspect is None:
        return None
    question = f"how do {own_text} and {other_text} differ{aspect}"
    if lead:
        question = f"{lead}, {question}"
    return Query(CriterionKind.COMPARISON, question)


def _may_be_paired(names: str) -> bool:
    """Tell whether the names of two things hold no figure, no list and no vague word."""
    if "," in names or any(map(str.isdigit, names)):
        return False
    return WORDS["no_pair"].isdisjoint(names.lower().split())


def _aspect(clause: Clause, other: Token, mark: Token) -> str | None:
    """Return in what two things differ: "in viscosity"; None where they share no part.

    Args:
        clause: The main clause.
        other: The thing that its subject is compared with.
        mark: The word that separates them.
    """
    if mark.lower_ not in _CONTRASTS:
        is_explained = child(other, "relcl") is not None
        return None if is_explained else ""  # "unlike X, which …" gives the answer
    own = clause.root
    theirs = other.head
    first = child(own, "dobj")
    second = child(theirs, "dobj")
    is_same_verb = own.lemma_ == theirs.lemma_
    if first is not None and second is not None:
        if second.lower_ in _UNBOUND or first.lemma_ == second.lemma_:
            return f" in {_shared(own, first, is_same_verb=is_same_verb)}"
        is_askable = is_same_verb and own.lemma_ != "have"
        return f" in what they {own.lemma_}" if is_askable else None
    if not is_same_verb:
        return None
    if own.lemma_ == "be":
        return "" if _are_said_alike(own, theirs) else None
    is_passive = child(own, "auxpass") is not None
    verb = f"are {own.text}" if is_passive else own.lemma_
    return f" in how they {verb}"


def _shared(verb: Token, noun: Token, *, is_same_verb: bool) -> str:
    """Return how a question names the object that two clauses share."""
    if verb.lemma_ in _HOLDING:
        if noun.tag_ == "NN":
            return noun.lemma_
        return f"their {noun.text}"
    if is_same_verb:
        return f"the {noun.text} that they {verb.lemma_}"
    name = [
        word
        for word in subtree(noun, ASIDE)
        if word.i <= noun.i and word.dep_ not in {"amod", "nummod"}
    ]
    return f"what they do to {text_of(name)}"


def _are_said_alike(own: Token, theirs: Token) -> bool:
    """Tell whether two clauses with "is" say adjectives, or one noun, of their subjects."""
    if child(own, "acomp") is not None and child(theirs, "acomp") is not None:
        return True
    first = child(own, "attr")
    second = child(theirs, "attr")
    if first is None:
        return False
    if second is None:
        return False
    return first.lemma_ == second.lemma_


def _which(clause: Clause, than: Token, other: Token) -> Query | None:
    root = clause.root
    degree = than.head
    compared = [token for token in clause.doc if token.tag_ in {"JJR", "RBR"}]
    is_main = root in {degree, degree.head, degree.head.head}
    if len(compared) != 1 or not is_main or than.i < root.i:
        return None
    if clause.helper is not None or child(root, "neg") is not None:
        return None
    if clause.lead or not _is_of_degree(clause, compared[0]):
        return None
    dropped = {token.i for token in than.subtree}
    end = max(compared[0].i, degree.i) + 1
    middle = [
        token
        for token in clause.doc[root.i + 1 : max(end, min(dropped))]
        if token.i not in dropped and token.dep_ != "neg"
    ]
    words = text_of(middle).split()
    rest = " ".join(word for word in words if word not in WORDS["dropped"])
    other_text = lowered(text_of(subtree(other, ASIDE)), clause.names)
    if "," in rest + other_text:
        return None
    pair = " or ".join(sorted((clause.subject_text, other_text)))
    pair_words = set(pair.lower().split())
    is_vague = bool(pair_words & (WORDS["no_pair"] - {"or"}))
    if is_vague or any(map(str.isdigit, pair)):
        return None
    question = f"which {root.text} {rest}, {pair}"
    return Query(CriterionKind.COMPARISON, question)


def _is_of_degree(clause: Clause, compared: Token) -> bool:
    """Tell whether a comparative says in what, of the verb itself: "denser", "more slowly"."""
    degree = compared
    if compared.lower_ in {"more", "less"}:
        degree = compared.head
    is_alone = degree == compared
    if is_alone and compared.lower_ in {"better", "worse", "less", "more"}:
        return False
    if degree.pos_ not in {"ADJ", "ADV"}:
        return False
    noun_or_verb = degree.head
    if noun_or_verb == clause.root and degree.dep_ in {"acomp", "advmod"}:
        return True
    is_of_object = noun_or_verb.head == clause.root and noun_or_verb.dep_ == "dobj"
    return degree.dep_ == "amod" and is_of_object


def _limit(clause: Clause) -> Query | None:
    """Ask "what can … not … ?"."""
    if clause.helper is None or clause.helper.lower_ != "can":
        return None
    if child(clause.root, "neg") is None or not clause.may_lead:
        return None
    target = child(clause.root, "dobj")
    if target is None or not sound.says_something(target):
        return None
    if not relations.is_named(clause):
        return None
    query = relations.object_of(clause, CriterionKind.LIMIT)
    if query is None:
        return None
    return query._replace(is_open=True)


_RULES: tuple[Callable[[Clause], Query | None], ...] = (
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
