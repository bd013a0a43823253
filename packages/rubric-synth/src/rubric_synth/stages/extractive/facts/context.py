"""Checks of a fact against the sentences around it: what it rests on, and what they add to it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from spacy.tokens import Doc, Token

from rubric_core import CriterionKind
from rubric_judge.judges.lexical.words import stem
from rubric_synth import language
from rubric_synth.stages.extractive.facts.gate import root_and_subject
from rubric_synth.stages.extractive.facts.parsing import subtree
from rubric_synth.stages.extractive.facts.sound import WORDS, turn_of_phrase

_CONTRAST = turn_of_phrase("contrast")
_OTHER_USE = "other_use"
_BEHIND = frozenset(
    {"prep", "relcl", "acl", "appos", "amod", "compound", "nmod", "poss"}
)
_LONGEST_LINK = 2
"""Letters of "of" and the like, which name no kind of a thing."""
_ROOT = 6
"""Number of letters that words of one family share."""
_NEAR = 2
"""Number of sentences before, in which "the" finds what it points at."""


class Scene(NamedTuple):
    """Where a sentence stands."""

    raw: str = ""
    """The sentence as its document has it."""
    before: Sequence[str] = ()
    """Sentences of its paragraph before it, at most three, the nearest last."""
    text: str = ""
    """The document."""
    about: str = ""
    """Names that a question has anyway: the document's title and its program."""


def rests_on_others(
    doc: Doc,
    kind: CriterionKind,
    scene: Scene,
    heads: frozenset[str],
) -> bool:
    """Tell whether a sentence is understood only with others.

    Args:
        doc: The sentence.
        kind: The kind of its fact.
        scene: The text around it.
        heads: Stems of the names that its question has anyway.
    """
    main = root_and_subject(doc)
    if main is None:
        return False
    root, subject = main
    if kind != CriterionKind.COMPARISON and _CONTRAST.search(scene.raw):
        return True
    own = {stem(token.lower_) for token in subject.subtree} | heads
    after = doc[root.i + 1 :]
    if any(_points_back(token, scene, own) for token in after):
        return True
    if kind == CriterionKind.DEFINITION and root.lemma_ == "be":
        if _is_named_elsewhere(subject, scene):
            return True
        return _is_one_of_several(subject, scene)
    return root.lemma_ == "use" and _has_other_use(subject, scene)


def _points_back(noun: Token, scene: Scene, own: set[str]) -> bool:
    """Tell whether a bare "the ring" is one that the sentences before speak of."""
    if noun.pos_ != "NOUN" or noun.dep_ == "compound":
        return False
    article = noun.nbor(-1)
    if article.lower_ != "the" or _is_known(noun, own):
        return False
    if noun.lemma_.lower() in WORDS["only_one"]:
        return False
    if any(token.dep_ in _BEHIND for token in noun.children):
        return False  # the sentence says which one
    noun_stem = stem(noun.lower_)
    return any(
        stem(word.lower()) == noun_stem
        for sentence in scene.before[-_NEAR:]
        for word in language.words(sentence)
    )


def _is_known(noun: Token, own: set[str]) -> bool:
    """Tell whether a noun is of a subject, or of its family: "mesothelium" of "mesothelial"."""
    family = stem(noun.lower_)[:_ROOT]
    return any(known[:_ROOT] == family for known in own)


def _is_one_of_several(subject: Token, scene: Scene) -> bool:
    """Tell whether "the ganglion" is one kind of ganglion, which the text before names."""
    words = [token.lower_ for token in subtree(subject)]
    if len(words) != 2 or words[0] != "the":  # noqa: PLR2004 - the article and a noun
        return False
    name = words[1]
    escaped = re.escape(name)
    if re.search(rf"\b[Aa]n? {escaped} (?:is|are)\b", scene.text):
        return True
    if name in WORDS["only_one"]:
        return False
    before = " ".join(scene.before).lower()
    kinds: list[str] = re.findall(rf"\b([a-z-]+) {escaped}\b", before)
    return any(
        len(kind) > _LONGEST_LINK and kind not in language.STOP_WORDS for kind in kinds
    )


def _is_named_elsewhere(subject: Token, scene: Scene) -> bool:
    """Tell whether an earlier sentence gives its name to the subject of this one."""
    name = re.escape(_bare_name(subject))
    earlier = scene.text.partition(scene.raw)[0]
    calls = (
        r"\b(?:is|are|we|was) (?:\w+ )?(?:call(?:ed)?|termed|known as|referred to as)\b"
    )
    between = r"(?:[^.;:,]|, or\b){0,110}"
    naming = rf"{calls}{between}\b{name}\b(?! \w+ing\b)"
    return re.search(naming, earlier, re.IGNORECASE) is not None


def _bare_name(subject: Token) -> str:
    """Return the words of a subject without articles."""
    return " ".join(
        token.text for token in subtree(subject) if token.lower_ not in _ARTICLES
    )


_ARTICLES = frozenset({"the", "a", "an"})


def _has_other_use(subject: Token, scene: Scene) -> bool:
    """Tell whether another sentence says what else the subject is used for."""
    name = re.escape(_bare_name(subject))
    rest = scene.text.replace(scene.raw, "")
    uses = turn_of_phrase(_OTHER_USE).pattern
    return re.search(rf"\b{name} {uses}", rest, re.IGNORECASE) is not None
