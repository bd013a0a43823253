"""The main clause of a sentence, and the question that it becomes."""

from collections.abc import Sequence
from typing import NamedTuple

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth.stages.extractive.facts.gate import root_and_subject
from rubric_synth.stages.extractive.facts.parsing import (
    child,
    subtree,
    text_of,
)
from rubric_synth.tables import word_sets

ASIDE = ("relcl", "appos", "parataxis")
"""Dependents that the name of a thing can do without."""
NOUNS = frozenset({"NOUN", "PROPN"})
_CONTRASTS = frozenset({"whereas", "while", "although", "though"})
_APART = frozenset({"conj", "cc", "aux", "auxpass", "neg"})
_LONGEST_SUBJECT = 10
_WORDS = word_sets("sound", "words")
_DROPPED = _WORDS["dropped"]
_NO_LEAD = _WORDS["bad_lead"]
_LONGEST_LEAD = 7
_FRONTED = _WORDS["fronted"]


class Query(NamedTuple):
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
        words = subtree(self.subject, ASIDE)
        for phrase in self.root.children:
            is_between = self.subject.i < phrase.i < self.first.i
            if phrase.dep_ == "prep" and is_between:
                words += phrase.subtree
        return words

    @property
    def first(self) -> Token:
        """The first word of the verb."""
        if self.helper is not None:
            return self.helper
        return self.root

    @property
    def is_plural(self) -> bool:
        """Whether the subject takes "do" and "are"."""
        tag = self.first.tag_
        if tag != "MD":
            return tag == "VBP"
        if self.subject.tag_ in {"NNS", "NNPS"}:
            return True
        return child(self.subject, "conj") is not None

    @property
    def helper(self) -> Token | None:
        """The first auxiliary; None where the verb stands alone."""
        for token in self.root.children:
            if token.dep_ in {"aux", "auxpass"} and token.i < self.root.i:
                return token
        return None

    @property
    def is_copula(self) -> bool:
        """Whether the verb is "is" or "are", and stands alone."""
        return self.root.lemma_ == "be" and self.helper is None

    def fronted(self) -> tuple[str, str]:
        """Return the verb that a question begins with, and the form of the main verb after it."""
        denial = child(self.root, "neg")
        denied = ""
        if denial is not None:
            denied = denial.text
        if self.is_copula:
            return self.root.text, denied
        if self.helper is not None:
            words = [self.root, *self._beside_verb(self.helper)]
            words.sort(key=lambda word: word.i)
            return self.helper.text, " ".join(word.text for word in words)
        verb = f"{denied} {self.root.lemma_}".lstrip()
        if self.root.tag_ == "VBP":
            return "do", verb
        return "does", verb

    def _beside_verb(self, helper: Token) -> list[Token]:
        """Return the further auxiliaries, denials and adverbs of the verb."""
        words: list[Token] = []
        for token in self.root.children:
            is_before = token.i < self.root.i
            is_auxiliary = token.dep_ in {"aux", "auxpass"} and token != helper
            is_adverb = token.dep_ == "advmod" and helper.i < token.i
            is_beside = is_before and (is_auxiliary or is_adverb)
            if not is_beside and token.dep_ != "neg":
                continue
            parts = list(token.subtree)
            if _DROPPED.isdisjoint(part.lower_ for part in parts):
                words += parts
        return words

    @property
    def lead(self) -> str:
        """The words before the subject, such as "at low pressure"."""
        return self.lead_without(())

    @property
    def may_lead(self) -> bool:
        """Whether the words before the subject, if any, can stand before a question."""
        lead = self.lead
        words = lead.split()
        if not words:
            return True
        if words[0] not in _FRONTED or "," in lead:
            return False
        return len(words) <= _LONGEST_LEAD and _NO_LEAD.isdisjoint(words)

    def what(self, verb: str) -> str:
        """Return the question for the complement of the verb: "what does X contain".

        Args:
            verb: The verb after the subject, with its preposition.
        """
        first, _ = self.fronted()
        return self.after_lead(f"what {first} {self.subject_text} {verb}")

    def after_lead(self, question: str) -> str:
        """Return a question after the words that stand before the subject."""
        lead = self.lead
        if not lead:
            return question
        return f"{lead}, {question}"

    def inverted(self, without: Sequence[Token]) -> str:
        """Return the clause as a question has it after its first word: "does the gas expand".

        Args:
            without: Words that are asked for, or left out.
        """
        first, verb = self.fronted()
        dropped = [*without, *subtree(self.subject), *self.subject_words, self.root]
        for part in self.root.children:
            if self._is_apart(part):
                dropped += part.subtree
        places = {token.i for token in dropped}
        rest = [
            token
            for token in self.doc[self.subject.i + 1 :]
            if token.text != "."
            and token.lower_ not in _DROPPED
            and token.i not in places
        ]
        parts = (first, self.subject_text, verb, text_of(rest))
        return " ".join(filter(None, parts))

    def _is_apart(self, part: Token) -> bool:
        """Tell whether a dependent of the verb has no place after it in a question."""
        if part.dep_ in _APART:
            return True
        if part.dep_ == "advmod" and self.subject.i < part.i < self.root.i:
            return True
        marks = (word for word in part.children if word.dep_ == "mark")
        return any(mark.lower_ in _CONTRASTS for mark in marks)

    def lead_without(self, without: Sequence[Token]) -> str:
        """Return the words before the subject, without those in `without`."""
        places = {token.i for token in without}
        words = [
            token
            for token in self.doc[: self.subject.left_edge.i]
            if token.lower_ not in _DROPPED and token.i not in places
        ]
        return lowered(text_of(words), self.names)


def lowered(text: str, names: frozenset[str]) -> str:
    """Return a phrase as it stands inside a sentence.

    Args:
        text: The phrase.
        names: Words that keep their capital.
    """
    first = text.partition(" ")[0]
    word = first.strip(",.").removesuffix("'s").removesuffix("’s")
    rest = word[1:]
    if word in names or rest.startswith("-"):
        return text  # "P-waves"
    is_lower = rest.replace("-", "").islower()
    if word != "A" and not is_lower:
        return text
    return text[0].lower() + text[1:]


def clause_of(doc: Doc, names: frozenset[str]) -> Clause | None:
    """Return the main clause of a sentence; None where its subject cannot be named shortly.

    Args:
        doc: The sentence, which stands alone.
        names: Words that keep their capital.
    """
    main = root_and_subject(doc)
    if main is None:
        return None
    root, subject = main
    clause = Clause(doc, root, subject, names)
    if not 0 < len(clause.subject_words) <= _LONGEST_SUBJECT:
        return None
    for token in subject.children:
        is_aside = token.dep_ in ASIDE
        if is_aside and token.left_edge.nbor(-1).text not in {",", "("}:
            return None
    return clause
