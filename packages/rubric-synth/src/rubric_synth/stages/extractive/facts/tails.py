"""Cuts of the parts of a sentence that its question does not ask for."""

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth.stages.extractive.facts import gate
from rubric_synth.stages.extractive.facts.parsing import child, root_of, text_of
from rubric_synth.stages.extractive.facts.sound import WORDS, turn_of_phrase

_CONCESSIONS = frozenset({"although", "though", "while", "whereas"})
_ANSWERS = frozenset(
    {"attr", "dobj", "prep", "agent", "xcomp", "acomp", "advcl", "oprd"}
)
"""Dependents of a verb that a question asks for."""
_UNASKED = turn_of_phrase("unasked")
_TIMES = turn_of_phrase("unasked_time")
_SERVING = frozenset({"serve", "act", "function"})
_MARKS = frozenset({",", ".", ";", ":"})
_QUANTIFIED = 3
"""Number of words of "some of which"."""
_SHORTEST_NAMED = 4
"""Fewest words of a phrase beside a noun that explains it; a shorter one is another name."""


def main_sentence(doc: Doc, kind: CriterionKind) -> str:
    """Return a sentence without what its question does not ask for; "" where no cut is sure.

    Such parts are a second sentence or a second verb that "and" or "but" joins to it, a
    concession, and asides between commas: ", which …", ", so named because …".

    Args:
        doc: The sentence.
        kind: The kind of its question; nothing is cut from a comparison.
    """
    root = root_of(doc)
    if root is None or kind == CriterionKind.COMPARISON:
        return doc.text
    end = _end(doc, root)
    if end is None:
        return ""
    asides = _asides(doc, root, kind)
    if any(map(_may_hold_more, asides)):
        return ""
    dropped = {word.i for aside in asides for word in aside}
    text = doc.text
    if end < len(doc) or dropped:
        words = [word for word in doc[:end] if word.i not in dropped]
        text = f"{text_of(_without_marks(words))}."
    is_of_a_case = kind in {CriterionKind.CONDITION, CriterionKind.CAUSE}
    if root.lemma_ in _SERVING and not is_of_a_case:
        text = _TIMES.sub(".", text)
    return _UNASKED.sub("", text)


def _without_marks(words: list[Token]) -> list[Token]:
    """Return words without the commas that a cut has left side by side or at the end."""
    while words and words[-1].text in _MARKS:
        words = words[:-1]
    return words


def _end(doc: Doc, root: Token) -> int | None:
    """Return where the main part of a sentence ends; None where no cut is sure."""
    for word in root.children:
        start = _tail(root, word)
        if start is not None and _says_enough(doc, root, start):
            return start
    contrast = _contrast(doc, root)
    if contrast is not None:
        return contrast
    second = next(filter(_is_second, doc), None)
    if _is_misread(root):
        return None
    if second is None:
        return len(doc)
    return _end_before(second, root)


def _end_before(second: Token, root: Token) -> int | None:
    """Return where the part before a second verb ends; None where no cut is sure."""
    doc = second.doc
    start = second.left_edge.i - 1
    has_and = doc[start].lower_ == "and"
    if second.head == root:
        return None if has_and else len(doc)
    has_comma = doc[start - 1].text == ","
    if has_and and has_comma and start > root.i:
        return start
    return None


def _is_misread(root: Token) -> bool:
    """Tell whether the parser joins a noun to a verb, or a clause to a passive."""
    is_passive = child(root, "auxpass") is not None
    return any(
        (part.dep_ == "conj" and part.pos_ == "NOUN")
        or (part.dep_ == "ccomp" and is_passive)
        for part in root.children
        if part.i > root.i
    )


def _contrast(doc: Doc, root: Token) -> int | None:
    """Return where ", but …" begins with a subject of its own; None where nothing does so."""
    for word in doc[root.i + 1 :]:
        if word.lower_ != "but":
            continue
        if doc[word.i - 1].text != ",":
            continue
        for subject in doc[word.i :]:
            if subject.dep_ not in {"nsubj", "nsubjpass"}:
                continue
            if subject.tag_ in {"WDT", "WP"}:
                continue
            if subject.head.i <= word.i:
                continue
            if gate.is_finite(subject.head):
                return word.i - 1
    return None


def _asides(
    doc: Doc,
    root: Token,
    kind: CriterionKind,
) -> list[list[Token]]:
    """Return the asides between commas that no question asks for, each with its first comma."""
    asides: list[list[Token]] = []
    for word in doc:
        words = list(word.subtree)
        first = words[0].i
        last = words[-1].i
        if first == 0 or doc[first - 1].text != ",":
            continue
        is_broken_up = last - first >= len(words)
        holds_root = first <= root.i <= last
        if is_broken_up or holds_root:
            continue
        if not _is_aside(word, words, kind):
            continue
        end = last + 1
        if end < len(doc) and doc[end].text == ",":
            end += 1
        asides.append(list(doc[first - 1 : end]))
    return asides


def _may_hold_more(aside: list[Token]) -> bool:
    """Tell whether a comma inside an aside may end it: ", which has a gate, free of rust"."""
    start = aside[0].i
    for word in aside[1:-1]:
        if word.text != ",":
            continue
        after = {token.lower_ for token in aside[word.i - start :]}
        if after.isdisjoint({"and", "or"}):
            return True
    return False


def _is_aside(
    token: Token,
    words: list[Token],
    kind: CriterionKind,
) -> bool:
    """Tell whether words after a comma only add to the words before them."""
    if token.dep_ == "relcl":
        if words[0].lower_ in {"which", "who"}:
            return True
        after = [word.lower_ for word in words[1:_QUANTIFIED]]
        return after == ["of", "which"]
    if token.dep_ == "appos":
        return _is_explanation(token, words, kind)
    if kind in {CriterionKind.DEFINITION, CriterionKind.CONDITION}:
        return False
    is_participle = token.dep_ == "advcl" and token.tag_ == "VBG"
    is_result = is_participle and token.head.pos_ == "VERB"
    return is_result and token.lower_ in WORDS["results"]


def _is_explanation(
    token: Token,
    words: list[Token],
    kind: CriterionKind,
) -> bool:
    """Tell whether a phrase beside a noun explains it, and is no other name and no list."""
    if ":" in token.doc.text or child(token, "conj", "cc") is not None:
        return False
    if token.head.dep_ in {"appos", "conj"} or len(words) < _SHORTEST_NAMED:
        return False
    if words[0].lower_ not in {"a", "an", "the"}:
        return False
    is_of_subject = token.head.dep_ in {"nsubj", "nsubjpass"}
    if is_of_subject and kind != CriterionKind.DEFINITION:
        return True
    is_last = words[-1].i + 2 >= len(token.doc)
    if not is_last:
        return False
    return any(word.dep_ in {"relcl", "acl"} for word in words)


def _is_second(token: Token) -> bool:
    """Tell whether a verb of its own subject is joined to another one."""
    if token.dep_ != "conj":
        return False
    subject = child(token, "nsubj", "nsubjpass")
    return subject is not None and subject.pos_ in {"NOUN", "PROPN"}


def _tail(root: Token, part: Token) -> int | None:
    """Return where a part begins that only adds to a sentence; None where it is no such part."""
    left = part.left_edge.i
    if part.i < root.i or left <= root.i:
        return None
    if part.dep_ == "advcl":
        mark = child(part, "mark")
        is_aside = mark is not None and mark.lower_ in _CONCESSIONS
        if is_aside and part.doc[left - 1].text == ",":
            return left
        return None
    if part.dep_ != "conj" or part.pos_ not in {"VERB", "AUX"}:
        return None
    if not _goes_on(root, part) and gate.is_finite(part):
        return _conjunct_start(root, part)
    return None


def _conjunct_start(root: Token, part: Token) -> int | None:
    """Return where a second finite verb begins; None where it may belong to another clause."""
    left = part.left_edge.i
    subject = child(part, "nsubj", "nsubjpass")
    joint = child(root, "cc")
    if joint is None:
        has_comma = part.doc[left - 1].text == ","
        is_bare = has_comma and subject is None
        return left - 1 if is_bare else None
    if joint.i != left - 1 or joint.lower_ != "and":
        return None
    if subject is not None:
        has_comma = part.doc[joint.i - 1].text == ","
        if has_comma or subject.lower_ in {"they", "it"}:
            return joint.i
        return None
    for word in part.doc[root.i : joint.i]:
        if word.dep_ in {"relcl", "acl", "ccomp"}:
            return None  # the second verb may belong to this clause
    return joint.i


def _goes_on(root: Token, part: Token) -> bool:
    """Tell whether a second verb answers the question of the first: "consists of … and has …"."""
    if root.lemma_ not in WORDS["made_of"]:
        return False
    if child(part, "nsubj", "nsubjpass") is not None:
        return False
    complement = child(part, "acomp")
    is_tied = complement is not None and complement.lemma_ == "proportional"
    return is_tied or part.lemma_ in WORDS["holding"]


def _says_enough(doc: Doc, root: Token, end: int) -> bool:
    """Tell whether the rest of a sentence holds an answer after its verb, and is whole."""
    if doc[end - 1].text == ")":
        return False
    answers = (word for word in root.children if word.dep_ in _ANSWERS)
    if not any(root.i < word.i < end for word in answers):
        return False
    return all(
        word.head.i >= end or word.is_punct or word.head == root
        for word in doc[end + 1 :]
    )
