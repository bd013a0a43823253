"""What a sentence answers: the kind of its fact and the question that an expert would ask.

Each rule reads the main clause. It asks for one part of the sentence (a reason, a condition, an
object, a figure) by the sentence's own subject, so that the question and the claim are about
the same thing and the answer stays out of the question.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth.facts.figures import Figure, figure_in
from rubric_synth.facts.gate import subject_of
from rubric_synth.facts.parsing import child, root_of, subtree, text_of
from rubric_synth.tables import read_table

_TABLE: Final = read_table("facts")
_KINDS: Final = {name: frozenset(words.split()) for name, words in _TABLE["kinds"].items()}
_PREPOSITIONS: Final = {
    row["lemma"]: (frozenset(row["words"].split()), CriterionKind(row["kind"]))
    for row in _TABLE["preposition"]
}
_ADJECTIVES: Final = frozenset(_TABLE["adjectives"]["words"].split())
_PRAISE: Final = frozenset(_TABLE["gate"]["empty_complement"].split())
_UNBOUND: Final = frozenset({"it", "they", "them", "their", "its"})
_WORDS: Final = range(3, 25)
_LONGEST_SUBJECT: Final = 10
_ASIDE: Final = ("relcl", "appos", "parataxis")
_CONDITIONS: Final = frozenset({"if", "when", "unless"})
_MANNER: Final = frozenset({"in", "as", "with", "by", "at", "on", "before", "after", "within"})
_BY_WHICH: Final = frozenset({"from", "into", "through", "with", "as", "to"})
_CONTRASTS: Final = frozenset({"whereas", "while", "although", "though"})
_AT: Final = frozenset({"at", "above", "below", "within", "over", "to", "by"})
_NOUNS: Final = frozenset({"NOUN", "PROPN"})


class Asked(NamedTuple):
    """A kind and its question, in lower case and without its mark."""

    kind: CriterionKind
    question: str
    required: tuple[str, ...] = ()


class _Clause(NamedTuple):
    """The main clause of a sentence."""

    doc: Doc
    root: Token
    subject: Token
    names: frozenset[str]
    """Words that keep their capital."""

    @property
    def subject_text(self) -> str:
        return lowered(text_of(self.subject_words), self.names)

    @property
    def subject_words(self) -> list[Token]:
        return subtree(self.subject, _ASIDE)

    @property
    def is_plural(self) -> bool:
        tag = self.helper.tag_ if self.helper is not None else self.root.tag_
        if tag == "MD":
            return self.subject.tag_ in {"NNS", "NNPS"} or child(self.subject, "conj") is not None
        return tag == "VBP"

    @property
    def helper(self) -> Token | None:
        """The first auxiliary; None where the verb stands alone."""
        found = (one for one in self.root.children if one.dep_ in {"aux", "auxpass"})
        return next((one for one in found if one.i < self.root.i), None)

    @property
    def is_copula(self) -> bool:
        return self.root.lemma_ == "be" and self.helper is None

    def fronted(self) -> tuple[str, str]:
        """Return the verb that a question begins with, and the form of the main verb behind it."""
        if self.is_copula:
            return self.root.text, ""
        if self.helper is not None:
            others = [
                one
                for one in self.root.children
                if (one.dep_ in {"aux", "auxpass"} and one != self.helper and one.i < self.root.i)
                or one.dep_ == "neg"
                or (one.dep_ == "advmod" and self.helper.i < one.i < self.root.i)
            ]
            others = [one for one in others if one.lower_ != "then"]
            words = sorted([*others, self.root], key=lambda one: one.i)
            return self.helper.text, " ".join(one.text for one in words)
        return ("do" if self.root.tag_ == "VBP" else "does"), self.root.lemma_

    @property
    def lead(self) -> str:
        """What stands before the subject, such as "at low pressure"."""
        before = [one for one in self.doc if one.i < self.subject.left_edge.i]
        return lowered(text_of(before), self.names)

    def behind(self, question: str) -> str:
        """Return a question with what stands before the subject at its end."""
        return f"{question} {self.lead}".rstrip()

    def inverted(self, without: Sequence[Token]) -> str:
        """Return the clause as a question has it behind its first word: "does the gas expand".

        Args:
            without: Words that are asked for, or left out.
        """
        first, verb = self.fronted()
        gone = {one.i for one in without} | {one.i for one in subtree(self.subject)}
        for one in self.root.children:
            marks = {word.lower_ for word in one.children if word.dep_ == "mark"}
            if one.dep_ in {"conj", "cc"} or marks & _CONTRASTS or one.dep_ in {"aux", "auxpass", "neg"}:
                gone |= {t.i for t in one.subtree}
            if one.dep_ == "advmod" and self.subject.i < one.i < self.root.i:
                gone.add(one.i)
        kept = [one for one in self.doc if one.i not in gone and one != self.root]
        kept = [one for one in kept if one.lower_ != "then"]
        lead = [one for one in kept if one.i < self.subject.i]
        rest = [one for one in kept if one.i > self.subject.i and one.text != "."]
        parts = (first, self.subject_text, verb, text_of(rest), lowered(text_of(lead), self.names))
        return " ".join(part for part in parts if part)


def lowered(text: str, names: frozenset[str]) -> str:
    """Return a phrase as it stands inside a sentence.

    Args:
        text: The phrase.
        names: Words that keep their capital.
    """
    first = text.partition(" ")[0]
    bare = first.strip(",.").removesuffix("'s").removesuffix("’s")
    is_name = bare in names or not (bare == "A" or bare[1:].replace("-", "").islower())
    return text if not text or is_name else text[0].lower() + text[1:]


def asked(doc: Doc, names: frozenset[str]) -> Asked | None:
    """Return what a sentence answers; None where it is no fact of any kind.

    Args:
        doc: The sentence, which stands alone.
        names: Words that keep their capital.
    """
    root = root_of(doc)
    subject = subject_of(root) if root is not None else None
    if root is None or subject is None:
        return None
    clause = _Clause(doc, root, subject, names)
    asides = [one for one in clause.subject.children if one.dep_ in _ASIDE]
    is_cut = any(one.left_edge.nbor(-1).text not in {",", "("} for one in asides)
    if is_cut or not 0 < len(clause.subject_words) <= _LONGEST_SUBJECT:
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
    )


def _cause(clause: _Clause) -> Asked | None:
    """Why … ?"""
    reason: list[Token] = []
    for one in clause.doc:
        is_clause = one.dep_ == "mark" and one.lower_ in {"because", "since"}
        if is_clause and one.head.dep_ == "advcl" and one.head.head == clause.root:
            reason = list(one.head.subtree)
        pair = one.nbor().lower_ if one.i + 1 < len(clause.doc) else ""
        if (one.lower_, pair) in {("because", "of"), ("due", "to"), ("owing", "to")}:
            is_predicate = one.dep_ == "acomp" or one.head != clause.root
            if not is_predicate and child(clause.root, "attr") is None:
                reason = list(one.subtree)
        if reason:
            break
    if len(reason) < 3:  # noqa: PLR2004 - a reason of one word is none
        return None
    return Asked(CriterionKind.CAUSE, f"why {clause.inverted(reason)}")


def _condition(clause: _Clause) -> Asked | None:
    """What happens to … when …, or when … ?"""
    clauses = [
        one
        for one in clause.root.children
        if one.dep_ == "advcl"
        and (mark := next(iter(one.subtree), None)) is not None
        and mark.lower_ in _CONDITIONS
    ]
    if len(clauses) != 1 or subject_of(clauses[0]) is None:
        return None
    words = list(clauses[0].subtree)
    own = subject_of(clauses[0])
    is_named = own is not None and own.pos_ in _NOUNS
    condition = text_of(words)
    if clause.root.lemma_ in _KINDS["change"] and is_named and clause.helper is None:
        question = f"what happens to {clause.subject_text} {lowered(condition, clause.names)}"
        return Asked(CriterionKind.CONDITION, question)
    if words[0].lower_ == "unless" or not is_named:
        return None
    return Asked(CriterionKind.CONDITION, f"when {clause.inverted(words)}")


def _comparison(clause: _Clause) -> Asked | None:
    """Which is …, this or that; or how do they differ?"""
    for one in clause.doc:
        other = child(one, "pobj")
        if one.lower_ == "than" and other is not None and other.pos_ in _NOUNS:
            return _which(clause, one, other)
        if one.lower_ == "unlike" and one in clause.subject_words:
            return None
        if one.lower_ == "unlike" and other is not None and other.pos_ in _NOUNS:
            verb = "do" if clause.is_plural else "does"
            named = lowered(text_of(subtree(other, _ASIDE)), clause.names)
            question = f"how {verb} {clause.subject_text} differ from {named}"
            return Asked(CriterionKind.COMPARISON, question)
        is_from = one.lower_ == "from" and one.head == clause.root
        if is_from and clause.root.lemma_ == "differ" and other is not None:
            named = lowered(text_of(subtree(other, _ASIDE)), clause.names)
            question = f"how do {clause.subject_text} and {named} differ"
            return Asked(CriterionKind.COMPARISON, question)
        if one.dep_ == "mark" and one.lower_ in {"whereas", "while"}:
            own = subject_of(one.head)
            if one.head.head == clause.root and own is not None and own.pos_ in _NOUNS:
                named = lowered(text_of(subtree(own, _ASIDE)), clause.names)
                pair = " and ".join((clause.subject_text, named))
                return Asked(CriterionKind.COMPARISON, f"how do {pair} differ")
    return None


def _which(clause: _Clause, than: Token, other: Token) -> Asked | None:
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
    named = lowered(text_of(subtree(other, _ASIDE)), clause.names)
    pair = " or ".join(sorted((clause.subject_text, named)))
    return Asked(CriterionKind.COMPARISON, f"which {clause.root.text} {rest}, {pair}")


def _quantity(clause: _Clause) -> Asked | None:
    """How many, how large, at which temperature … ?"""
    figure = figure_in(clause.doc)
    if figure is None:
        return None
    return next((one for one in _of_figure(clause, figure) if one is not None), None)


def _of_figure(clause: _Clause, figure: Figure) -> Iterator[Asked | None]:
    kind = CriterionKind.QUANTITY
    target = child(clause.root, "dobj", "attr")
    figures = [one.i for one in subtree(target, ("relcl", "acl", "appos"))] if target else []
    if figure.number.i not in figures:
        target = None
    if clause.is_copula and target is not None and figure.quantity and figure.is_in(target):
        how = "how long" if figure.quantity == "time" else "how large"
        question = f"{how} {clause.root.text} {clause.subject_text}"
        yield Asked(kind, clause.behind(question), figure.required)
    counted = target is not None and figure.number.head == target and figure.number.dep_ == "nummod"
    if target is not None and counted and not figure.quantity and target.tag_ == "NNS":
        words = [t for t in subtree(target, ("relcl", "appos")) if t.i > figure.number.i]
        first, verb = clause.fronted()
        if not clause.is_copula:
            question = f"how many {text_of(words)} {first} {clause.subject_text} {verb}"
            yield Asked(kind, clause.behind(question), figure.required)
    for prep in (one for one in clause.root.children if one.dep_ == "prep"):
        pobj = child(prep, "pobj")
        if prep.lower_ not in _AT or pobj is None:
            continue
        if figure.quantity and figure.is_in(pobj) and not clause.is_copula:
            asked_for = f"{prep.lower_} which {figure.quantity}"
            question = f"{asked_for} {clause.inverted(list(prep.subtree))}"
            yield Asked(kind, question, figure.required)


def _definition(clause: _Clause) -> Asked | None:
    """What is … ?"""
    kind = CriterionKind.DEFINITION
    root = clause.root
    if root.lemma_ in {"call", "term", "name"} or (root.lemma_ in {"know", "define", "refer"}):
        named = child(root, "oprd")
        prep = next((one for one in root.children if one.dep_ == "prep" and one.lower_ == "as"), None)
        if root.lemma_ == "define" and prep is not None and child(root, "auxpass"):
            verb = "are" if clause.is_plural else "is"
            return Asked(kind, f"how {verb} {clause.subject_text} defined")
        if named is None and prep is not None:
            named = child(prep, "pobj")
        if child(root, "auxpass") and named is not None and named.pos_ in _NOUNS:
            words = subtree(named, _ASIDE)
            verb = "are" if named.tag_ == "NNS" else "is"
            return Asked(kind, f"what {verb} {text_of(words)}") if len(words) < 7 else None  # noqa: PLR2004 - a term
        return None
    attribute = child(root, "attr")
    if not clause.is_copula or attribute is None or attribute.pos_ != "NOUN":
        return None
    before = {one.lower_ for one in attribute.children if one.i < attribute.i}
    further = [one for one in attribute.children if one.i > attribute.i and one.dep_ != "punct"]
    if not further and not child(attribute, "amod", "compound"):
        return None
    measured = child(attribute, "nummod", "quantmod") is not None
    if clause.subject_words[0].lower_ in {"each", "every"} or measured:
        return None
    if before & {"no", "not"} or child(root, "neg") is not None:
        return None
    praise = {one.lemma_.lower() for one in attribute.children if one.dep_ == "amod"}
    if praise & _PRAISE or any(one.lower_ in {"really", "just", "simply"} for one in clause.doc):
        return None
    return Asked(kind, clause.behind(f"what {root.text} {clause.subject_text}"))


def _limit(clause: _Clause) -> Asked | None:
    """What must …, what can … not … ?"""
    helper = clause.helper
    negated = child(clause.root, "neg") is not None
    is_limit = helper is not None and (
        helper.lower_ == "must" or (helper.lower_ in {"can", "may", "should"} and negated)
    )
    if not is_limit or helper is None:
        return None
    found = _object(clause, CriterionKind.LIMIT)
    if found is not None:
        return found
    complement = child(clause.root, "acomp", "attr")
    behind = [one for one in clause.root.children if one.i > clause.root.i and one.dep_ == "prep"]
    prep = next((one for one in behind if one.lower_ in _MANNER), None)
    if complement is not None and helper.lower_ == "must" and not negated:
        to = child(complement, "prep")
        shown = f"be {complement.text} {to.text}" if to is not None else "be"
        is_whole = complement.dep_ == "attr" or to is not None
        question = f"what must {clause.subject_text} {shown}"
        return Asked(CriterionKind.LIMIT, question) if is_whole else None
    if child(clause.root, "auxpass") and prep is not None and not negated:
        question = f"how {helper.lower_} {clause.subject_text} be {clause.root.text}"
        return Asked(CriterionKind.LIMIT, question)
    return None


def _object(clause: _Clause, kind: CriterionKind) -> Asked | None:
    target = child(clause.root, "dobj", "ccomp")
    is_noun = target is not None and target.pos_ in _NOUNS
    is_clause = target is not None and target.dep_ == "ccomp" and kind == CriterionKind.CAUSE
    if target is None or target.i < clause.root.i or not (is_noun or is_clause):
        return None
    if clause.root.lemma_ == "have":
        return None
    first, verb = clause.fronted()
    particle = child(clause.root, "prt")
    shown = f"{verb} {particle.text}" if particle is not None else verb
    return Asked(kind, clause.behind(f"what {first} {clause.subject_text} {shown}"))


def _relation(clause: _Clause) -> Asked | None:
    """What does … cause, depend on, contain … ?"""
    root, lemma = clause.root, clause.root.lemma_.lower()
    first, verb = clause.fronted()
    if child(root, "neg") is not None:
        return None
    words, kind = _PREPOSITIONS.get(lemma, (frozenset[str](), CriterionKind.RELATION))
    for prep in (one for one in root.children if one.dep_ in {"prep", "agent"}):
        pobj = child(prep, "pobj", "pcomp")
        if pobj is None:
            continue
        if prep.lower_ in words and child(root, "auxpass") is None:
            return Asked(
                kind, clause.behind(f"what {first} {clause.subject_text} {verb} {prep.lower_}")
            )
        if prep.i < root.i or not child(root, "auxpass") or lemma not in _KINDS["passive"]:
            continue
        if prep.lower_ in _BY_WHICH and pobj.dep_ == "pobj":
            return Asked(
                kind, clause.behind(f"what {first} {clause.subject_text} {verb} {prep.lower_}")
            )
        if prep.dep_ == "agent":
            is_cause = lemma in _KINDS["cause"]
            kind = CriterionKind.CAUSE if is_cause else CriterionKind.RELATION
            return Asked(kind, clause.behind(f"what {first} {clause.subject_text} {verb} by"))
    purpose = child(root, "xcomp", "advcl")
    if lemma == "use" and child(root, "auxpass") and purpose is not None and purpose.i > root.i:
        if child(purpose, "aux") is not None and child(purpose, "mark") is None:
            return Asked(kind, clause.behind(f"what {first} {clause.subject_text} {verb} for"))
    complement = child(root, "acomp")
    if clause.is_copula and complement is not None and complement.lemma_ in _ADJECTIVES:
        prep = child(complement, "prep")
        if prep is not None and child(prep, "pobj") is not None:
            question = f"what {root.text} {clause.subject_text} {complement.text} {prep.text}"
            return Asked(CriterionKind.RELATION, clause.behind(question))
    if child(root, "auxpass") is not None:
        return None
    if lemma in _KINDS["cause"]:
        return _object(clause, CriterionKind.CAUSE)
    if lemma in _KINDS["relation"]:
        limit = lemma in {"require", "need"}
        return _object(clause, CriterionKind.LIMIT if limit else CriterionKind.RELATION)
    return None


_RULES: Final[tuple[Callable[[_Clause], Asked | None], ...]] = (
    _cause,
    _comparison,
    _condition,
    _quantity,
    _definition,
    _limit,
    _relation,
)
