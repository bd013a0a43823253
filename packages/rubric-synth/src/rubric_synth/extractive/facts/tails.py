"""What a sentence says beyond what its question asks for, and the sentence without it."""

from typing import Final

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_synth.extractive.facts import gate
from rubric_synth.extractive.facts.parsing import child, root_of, text_of
from rubric_synth.extractive.facts.sound import WORDS, turn_of_phrase

_CONCESSIONS: Final = frozenset({"although", "though", "while", "whereas"})
_ANSWERS: Final = frozenset(
    {"attr", "dobj", "prep", "agent", "xcomp", "acomp", "advcl", "oprd"}
)
"""What a question asks for."""
_UNASKED: Final = turn_of_phrase("unasked")
_TIMES: Final = turn_of_phrase("unasked_time")
_SERVING: Final = frozenset({"serve", "act", "function"})
_MARKS: Final = frozenset({",", ".", ";", ":"})
_QUANTIFIED: Final = 3
"""Words of "some of which"."""
_SHORTEST_NAMED: Final = 4
"""Words of a phrase beside a noun that explains it, where a shorter one is another name."""


def main_sentence(doc: Doc, kind: CriterionKind) -> str:
    """Return a sentence without what its question does not ask for; "" where no cut is sure.

    That is a second sentence or a second verb that "and" or "but" joins to it, a concession, and
    what commas set off: ", which …", ", so named because …".

    Args:
        doc: The sentence.
        kind: What its question asks for; of a comparison nothing is cut.
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
    gone = {word.i for part in asides for word in part}
    kept = [word for word in doc[:end] if word.i not in gone]
    is_whole = end == len(doc) and not gone
    kept_text = doc.text if is_whole else f"{text_of(_without_marks(kept))}."
    if (
        kind not in {CriterionKind.CONDITION, CriterionKind.CAUSE}
        and root.lemma_ in _SERVING
    ):
        kept_text = _TIMES.sub(".", kept_text)
    return _UNASKED.sub("", kept_text)


def _without_marks(kept: list[Token]) -> list[Token]:
    """Return words without the commas that a cut has left side by side or at the end."""
    while kept and kept[-1].text in _MARKS:
        kept = kept[:-1]
    return kept


def _end(doc: Doc, root: Token) -> int | None:
    """Return where a sentence ends without what is joined to it; None where no cut is sure."""
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
    start = second.left_edge.i - 1
    if second.head == root:
        return len(doc) if doc[start].lower_ != "and" else None
    is_apart = (
        start > root.i and doc[start].lower_ == "and" and doc[start - 1].text == ","
    )
    return start if is_apart else None


def _is_misread(root: Token) -> bool:
    """Tell whether the parser joins a noun to a verb, or a clause to a passive."""
    parts = [part for part in root.children if part.i > root.i]
    is_passive = child(root, "auxpass") is not None
    is_clause = is_passive and any(part.dep_ == "ccomp" for part in parts)
    return is_clause or any(
        part.dep_ == "conj" and part.pos_ == "NOUN" for part in parts
    )


def _contrast(doc: Doc, root: Token) -> int | None:
    """Return where ", but …" begins with a subject of its own; None where nothing does so."""
    for word in doc[root.i + 1 :]:
        if word.lower_ != "but" or doc[word.i - 1].text != ",":
            continue
        subjects = (t for t in doc[word.i :] if t.dep_ in {"nsubj", "nsubjpass"})
        owned = (
            t for t in subjects if t.tag_ not in {"WDT", "WP"} and t.head.i > word.i
        )
        if any(gate.is_finite(t.head) for t in owned):
            return word.i - 1
    return None


def _asides(doc: Doc, root: Token, kind: CriterionKind) -> list[list[Token]]:
    """Return what commas set off that no question asks for, each with its first comma."""
    asides: list[list[Token]] = []
    for word in doc:
        words = list(word.subtree)
        first = words[0].i
        last = words[-1].i
        if not first or doc[first - 1].text != "," or last - first >= len(words):
            continue
        if _is_aside(word, words, kind) and not (first <= root.i <= last):
            is_inner = last + 1 < len(doc) and doc[last + 1].text == ","
            asides.append(list(doc[first - 1 : last + 1 + is_inner]))
    return asides


def _may_hold_more(aside: list[Token]) -> bool:
    """Tell whether a comma inside an aside may end it: ", which has a gate, free of rust"."""
    inner = (word for word in aside[1:-1] if word.text == ",")
    words = ({word.lower_ for word in aside[comma.i - aside[0].i :]} for comma in inner)
    return any({"and", "or"}.isdisjoint(behind) for behind in words)


def _is_aside(token: Token, words: list[Token], kind: CriterionKind) -> bool:
    """Tell whether words behind a comma only add to what stands before them."""
    opening = words[0].lower_
    if token.dep_ == "relcl":
        is_counted = [word.lower_ for word in words[1:_QUANTIFIED]] == ["of", "which"]
        return opening in {"which", "who"} or is_counted
    if token.dep_ == "appos":
        is_long = len(words) >= _SHORTEST_NAMED and opening in {"a", "an", "the"}
        is_listed = ":" in token.doc.text or child(token, "conj", "cc") is not None
        if is_listed or token.head.dep_ in {"appos", "conj"}:
            return False
        is_explaining = any(word.dep_ in {"relcl", "acl"} for word in words)
        is_last = words[-1].i + 2 >= len(token.doc)
        is_of_subject = token.head.dep_ in {"nsubj", "nsubjpass"}
        is_plain = kind != CriterionKind.DEFINITION
        return is_long and ((is_last and is_explaining) or (is_of_subject and is_plain))
    is_result = (
        token.dep_ == "advcl" and token.tag_ == "VBG" and token.head.pos_ == "VERB"
    )
    is_asked = kind in {CriterionKind.DEFINITION, CriterionKind.CONDITION}
    return is_result and token.lower_ in WORDS["results"] and not is_asked


def _is_second(token: Token) -> bool:
    """Tell whether a verb of its own subject is joined to another one."""
    subject = child(token, "nsubj", "nsubjpass")
    return (
        token.dep_ == "conj"
        and subject is not None
        and subject.pos_ in {"NOUN", "PROPN"}
    )


def _tail(root: Token, part: Token) -> int | None:
    """Return where a part begins that only adds to a sentence; None where it is no such part."""
    left = part.left_edge.i
    if part.i < root.i or left <= root.i:
        return None
    if part.dep_ == "advcl":
        mark = child(part, "mark")
        is_aside = mark is not None and mark.lower_ in _CONCESSIONS
        return left if is_aside and part.doc[left - 1].text == "," else None
    if part.dep_ != "conj" or part.pos_ not in {"VERB", "AUX"} or _goes_on(root, part):
        return None
    has_subject = child(part, "nsubj", "nsubjpass") is not None
    joint = child(root, "cc")
    if joint is None and not has_subject and part.doc[left - 1].text == ",":
        return left - 1 if gate.is_finite(part) else None
    is_joint = joint is not None and joint.i == left - 1 and joint.lower_ == "and"
    if joint is None or not is_joint or not gate.is_finite(part):
        return None
    between = part.doc[root.i : joint.i]
    is_open = any(
        word.dep_ in {"relcl", "acl", "ccomp"} for word in between
    )  # whose verb it is
    subject = child(part, "nsubj", "nsubjpass")
    is_pointing = subject is not None and subject.lower_ in {"they", "it"}
    has_comma = part.doc[joint.i - 1].text == ","
    is_closed = has_comma or is_pointing if has_subject else not is_open
    return joint.i if is_closed else None


def _goes_on(root: Token, part: Token) -> bool:
    """Tell whether a second verb answers the question of the first: "consists of … and has …"."""
    complement = child(part, "acomp")
    is_held = part.lemma_ in WORDS["holding"]
    is_tied = complement is not None and complement.lemma_ == "proportional"
    has_subject = child(part, "nsubj", "nsubjpass") is not None
    return root.lemma_ in WORDS["made_of"] and (is_held or is_tied) and not has_subject


def _says_enough(doc: Doc, root: Token, end: int) -> bool:
    """Tell whether what is left of a sentence holds what follows its verb, and is whole."""
    is_followed = any(
        root.i < word.i < end and word.dep_ in _ANSWERS for word in root.children
    )
    rest = [
        word
        for word in doc[end:]
        if word.head.i < end and word.i > end and not word.is_punct
    ]
    return (
        is_followed
        and doc[end - 1].text != ")"
        and all(word.head == root for word in rest)
    )
