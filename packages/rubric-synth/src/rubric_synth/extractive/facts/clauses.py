"""The main clause of a sentence, and the question that it becomes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth.extractive.facts.gate import subject_of
from rubric_synth.extractive.facts.parsing import child, root_of, subtree, text_of
from rubric_synth.tables import read_table

ASIDE: Final = ("relcl", "appos", "parataxis")
"""What the name of a thing can do without."""
NOUNS: Final = frozenset({"NOUN", "PROPN"})
_CONTRASTS: Final = frozenset({"whereas", "while", "although", "though"})
_APART: Final = frozenset({"conj", "cc", "aux", "auxpass", "neg"})
_LONGEST_SUBJECT: Final = 10
_WORDS: Final = read_table("sound")["words"]
_DROPPED: Final = frozenset(_WORDS["dropped"].split())
_NO_LEAD: Final = frozenset(_WORDS["bad_lead"].split())
_LONGEST_LEAD: Final = 7
_FRONTED: Final = frozenset(_WORDS["fronted"].split())


class Asked(NamedTuple):
    """A kind and its question, in lower case and without its mark."""

    kind: CriterionKind
    question: str
    required: tuple[str, ...] = ()
    is_open: bool = False
    """Whether it asks for one thing of many, which only fills up a task."""


class Clause(NamedTuple):
    """The main clause of a sentence."""

    doc: Doc
    root: Token
    subject: Token
    names: frozenset[str]
    """Words that keep their capital."""

    @property
    def subject_text(self) -> str:
        """The subject as it stands inside a sentence, without asides."""
        return lowered(text_of(self.subject_words), self.names)

    @property
    def subject_words(self) -> list[Token]:
        """The words of the subject, without asides, and of phrases between it and the verb."""
        phrases = (token for token in self.root.children if token.dep_ == "prep")
        between = [
            phrase for phrase in phrases if self.subject.i < phrase.i < self.first.i
        ]
        return [
            *subtree(self.subject, ASIDE),
            *(t for one in between for t in one.subtree),
        ]

    @property
    def first(self) -> Token:
        """The first word of the verb."""
        return self.helper if self.helper is not None else self.root

    @property
    def is_plural(self) -> bool:
        """Whether the subject takes "do" and "are"."""
        tag = self.helper.tag_ if self.helper is not None else self.root.tag_
        if tag == "MD":
            return (
                self.subject.tag_ in {"NNS", "NNPS"}
                or child(self.subject, "conj") is not None
            )
        return tag == "VBP"

    @property
    def helper(self) -> Token | None:
        """The first auxiliary; None where the verb stands alone."""
        tokens = (
            token for token in self.root.children if token.dep_ in {"aux", "auxpass"}
        )
        return next((one for one in tokens if one.i < self.root.i), None)

    @property
    def is_copula(self) -> bool:
        """Whether the verb is "is" or "are", and stands alone."""
        return self.root.lemma_ == "be" and self.helper is None

    def fronted(self) -> tuple[str, str]:
        """Return the verb that a question begins with, and the form of the main verb behind it."""
        denial = child(self.root, "neg")
        denied = denial.text if denial is not None else ""
        if self.is_copula:
            return self.root.text, denied
        if self.helper is not None:
            others = [
                token
                for token in self.root.children
                if (
                    token.dep_ in {"aux", "auxpass"}
                    and token != self.helper
                    and token.i < self.root.i
                )
                or token.dep_ == "neg"
                or (token.dep_ == "advmod" and self.helper.i < token.i < self.root.i)
            ]
            kept = (
                one
                for one in others
                if _DROPPED.isdisjoint(t.lower_ for t in one.subtree)
            )
            others = [t for one in kept for t in one.subtree]
            words = sorted([*others, self.root], key=lambda one: one.i)
            return self.helper.text, " ".join(word.text for word in words)
        verb = f"{denied} {self.root.lemma_}".lstrip()
        return ("do" if self.root.tag_ == "VBP" else "does"), verb

    @property
    def lead(self) -> str:
        """What stands before the subject, such as "at low pressure"."""
        before = [token for token in self.doc if token.i < self.subject.left_edge.i]
        kept = [one for one in before if one.lower_ not in _DROPPED]
        return lowered(text_of(kept), self.names)

    @property
    def may_lead(self) -> bool:
        """Whether what stands before the subject can stand before a question, or is nothing."""
        words = self.lead.split()
        is_plain = len(words) <= _LONGEST_LEAD and _NO_LEAD.isdisjoint(words)
        return not words or (words[0] in _FRONTED and is_plain and "," not in self.lead)

    def what(self, verb: str) -> str:
        """Return the question for what the clause says behind its verb: "what does X contain".

        Args:
            verb: As it stands behind the subject, with its preposition.
        """
        first, _ = self.fronted()
        return self.behind(f"what {first} {self.subject_text} {verb}")

    def behind(self, question: str) -> str:
        """Return a question with what stands before the subject before it."""
        return f"{self.lead}, {question}" if self.lead else question

    def inverted(self, without: Sequence[Token]) -> str:
        """Return the clause as a question has it behind its first word: "does the gas expand".

        Args:
            without: Words that are asked for, or left out.
        """
        first, verb = self.fronted()
        gone = {one.i for one in without} | {token.i for token in subtree(self.subject)}
        gone |= {word.i for word in self.subject_words}
        for one in self.root.children:
            marks = {word.lower_ for word in one.children if word.dep_ == "mark"}
            is_adverb = one.dep_ == "advmod" and self.subject.i < one.i < self.root.i
            if one.dep_ in _APART or marks & _CONTRASTS or is_adverb:
                gone |= {t.i for t in one.subtree}
        kept = [
            token for token in self.doc if token.i not in gone and token != self.root
        ]
        kept = [one for one in kept if one.lower_ not in _DROPPED]
        rest = [one for one in kept if one.i > self.subject.i and one.text != "."]
        parts = (first, self.subject_text, verb, text_of(rest))
        return " ".join(part for part in parts if part)

    def lead_without(self, gone: Sequence[Token]) -> str:
        """Return what stands before the subject, without what is asked for."""
        places = {one.i for one in gone}
        before = [token for token in self.doc if token.i < self.subject.left_edge.i]
        kept = [
            one for one in before if one.i not in places and one.lower_ not in _DROPPED
        ]
        return lowered(text_of(kept), self.names)


def lowered(text: str, names: frozenset[str]) -> str:
    """Return a phrase as it stands inside a sentence.

    Args:
        text: The phrase.
        names: Words that keep their capital.
    """
    first = text.partition(" ")[0]
    bare = first.strip(",.").removesuffix("'s").removesuffix("’s")
    is_letter = bare[1:2] == "-"  # "P-waves"
    is_word = bare == "A" or bare[1:].replace("-", "").islower()
    is_name = bare in names or is_letter or not is_word
    return text if not text or is_name else text[0].lower() + text[1:]


def clause_of(doc: Doc, names: frozenset[str]) -> Clause | None:
    """Return the main clause of a sentence; None where its subject cannot be named shortly.

    Args:
        doc: The sentence, which stands alone.
        names: Words that keep their capital.
    """
    root = root_of(doc)
    subject = subject_of(root) if root is not None else None
    if root is None or subject is None:
        return None
    clause = Clause(doc, root, subject, names)
    asides = [token for token in subject.children if token.dep_ in ASIDE]
    is_cut = any(aside.left_edge.nbor(-1).text not in {",", "("} for aside in asides)
    fits = 0 < len(clause.subject_words) <= _LONGEST_SUBJECT
    return clause if fits and not is_cut else None
