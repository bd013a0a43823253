"""What a sentence must be to state a fact on its own; every other one is left out.

The checks read the finished sentence: what it points at, what it says, who says it.
"""

import re
from collections.abc import Set as AbstractSet
from typing import Final

from spacy.tokens import Doc, Token

from rubric_core.rewriting import patterns
from rubric_judge.lexical.words import stem
from rubric_synth.extractive.facts.parsing import child, root_of, subtree
from rubric_synth.tables import phrase, read_table

_TABLE: Final = {
    name: frozenset(words.split())
    for name, words in read_table("facts")["gate"].items()
}
_VAGUE: Final = _TABLE["vague_head"]
_SUBJECTS: Final = ("nsubj", "nsubjpass")
_NOUNS: Final = frozenset({"NOUN", "PROPN"})
_FINITE: Final = frozenset({"VBZ", "VBP", "MD"})
_BEFORE: Final = frozenset({"prep", "advcl", "advmod", "punct", "aux"})
_NOMINAL: Final = frozenset({"nsubj", "nsubjpass", "dobj", "pobj", "appos"})
_DEMONSTRATIVE: Final = frozenset({"this", "that", "these", "those"})
_WEAK_DETERMINER: Final = frozenset(
    {"this", "that", "these", "those", "another", "some", "such", "any", "no"}
)
_LIMITS: Final = frozenset({"relcl", "acl", "prep"})
_LONGEST: Final = 45


def subject_of(root: Token) -> Token | None:
    """Return the grammatical subject of a main word; None where there is none or several."""
    tokens = [token for token in root.children if token.dep_ in _SUBJECTS]
    return tokens[0] if len(tokens) == 1 and tokens[0].i < root.i else None


def is_finite(root: Token) -> bool:
    """Tell whether a main word, or its first auxiliary, stands in the present tense."""
    helpers = [
        token
        for token in root.children
        if token.dep_ in {"aux", "auxpass"} and token.i < root.i
    ]
    first = helpers[0] if helpers else root
    return first.tag_ in _FINITE and not (not helpers and root.tag_ == "MD")


def stands_alone(doc: Doc, known: AbstractSet[str] = frozenset()) -> bool:
    """Tell whether a sentence states something that is understood without what stands about it.

    Args:
        doc: The sentence.
        known: Stems of what the question names anyway, such as the heading.
    """
    root = root_of(doc)
    subject = subject_of(root) if root is not None else None
    return (
        root is not None
        and subject is not None
        and len(doc) <= _LONGEST
        and not _LINKED.match(doc.text)
        and not _opens_aside(doc)
        and not _is_half(doc)
        and root.pos_ in {"VERB", "AUX"}
        and is_finite(root)
        and not any(map(_is_variable, doc))
        and all(token.dep_ in _BEFORE for token in root.children if token.i < subject.i)
        and _names(subject, known)
        and points_nowhere(doc)
        and not _is_empty(root, subject)
    )


def _opens_aside(doc: Doc) -> bool:
    """Tell whether a text opens with an adverb that ties it to others: "Rather, …"."""
    first = doc[0]
    is_set_off = (
        len(doc) > 1 and doc[1].text == "," and first.pos_ in {"ADV", "SCONJ", "CCONJ"}
    )
    return is_set_off and first.lower_ not in _TABLE["frequency"]


def _is_half(doc: Doc) -> bool:
    """Tell whether a text says "not only" without what else there is."""
    pairs = {(token.lower_, token.nbor().lower_) for token in doc[:-1]}
    announced = {("not", "only"), ("not", "just"), ("not", "merely")} & pairs
    return bool(announced) and "but" not in {token.lower_ for token in doc}


def says_of_it(doc: Doc) -> bool:
    """Tell whether a text that begins with "It" or "They" says one thing, and nothing unclear.

    Args:
        doc: The text; its first word stands for what it is about.
    """
    root = root_of(doc)
    subject = subject_of(root) if root is not None else None
    return (
        root is not None
        and subject is not None
        and subject.i == 0
        and is_finite(root)
        and not any(_is_variable(token) or _points(token) for token in doc[1:])
        and not any(
            one.dep_ in {"ccomp", "parataxis"} and one.i < root.i
            for one in root.children
        )
    )


def follows(doc: Doc) -> bool:
    """Tell whether a sentence with a condition says what follows, of something that has a name.

    Args:
        doc: "If … , …".
    """
    root = root_of(doc)
    subject = subject_of(root) if root is not None else None
    return (
        root is not None
        and subject is not None
        and subject.pos_ in _NOUNS
        and is_finite(root)
        and not any(_is_variable(token) or _points(token) for token in doc)
        and any(one.dep_ == "advcl" and _is_clause(one) for one in root.children)
    )


def _is_clause(verb: Token) -> bool:
    """Tell whether a verb has a subject and is finite: not "if needed", "when using it"."""
    has_subject = child(verb, "nsubj", "nsubjpass", "expl") is not None
    return has_subject and (is_finite(verb) or verb.tag_ in {"VBD", "MD"})


def _names(subject: Token, known: AbstractSet[str]) -> bool:
    """Tell whether a subject names something: a noun, and not just "the tool"."""
    words = [token for token in subject.children if token.i < subject.i]
    clauses = (one for one in subject.children if one.dep_ == "relcl")
    is_part = any(
        clause.left_edge.nbor(-1).text != "," for clause in clauses
    )  # of all of them
    is_vague = not _VAGUE.isdisjoint({subject.lower_, subject.lemma_.lower()})
    lemmas = {word.lemma_.lower() for word in words}
    lowered = {word.lower_ for word in words}
    is_weak = bool(lemmas & _TABLE["vague_before"] or lowered & _WEAK_DETERMINER)
    is_counted = any(word.tag_ in {"PRP$", "JJS", "CD"} for word in words)
    is_noun = subject.pos_ in _NOUNS and len(subject.text) > 1
    is_found = not (lemmas | lowered).isdisjoint(_TABLE["found_before"])
    if not is_noun or is_part or is_vague or is_weak or is_counted or is_found:
        return False
    is_abstract = subject.lemma_.lower() in _TABLE["abstract_head"]
    if not (lemmas | lowered).isdisjoint(_TABLE["picking"]):
        return _is_of_a_name(subject)
    if is_abstract and child(subject, "compound") is None:
        return _is_of_a_name(subject)
    is_some = lowered.isdisjoint({"the", "each", "every"})
    if is_some or subject.pos_ == "PROPN" or stem(subject.lower_) in known:
        return True
    is_defined = subject.head.lemma_ == "be" and child(subject.head, "attr") is not None
    parts = ("compound", "amod") if is_defined else ("compound",)
    is_named = subject.tag_ == "NN" and child(subject, *parts) is not None
    return is_named or _is_explained(subject) or any(map(_completes, subject.children))


def _is_explained(subject: Token) -> bool:
    """Tell whether a sentence says of its subject what it is: "the trachea is a tube that …"."""
    attribute = child(subject.head, "attr") if subject.head.lemma_ == "be" else None
    if attribute is None or subject.lemma_.lower() in _TABLE["agent"]:
        return False
    article = child(attribute, "det")
    behind = [
        token
        for token in attribute.children
        if token.i > attribute.i and token.dep_ in _LIMITS
    ]
    return article is not None and article.lower_ in {"a", "an"} and bool(behind)


def _completes(part: Token) -> bool:
    """Tell whether a phrase behind a noun says which one: "the wall of an artery"."""
    if part.i < part.head.i:
        return False
    target = child(part, "pobj") if part.dep_ == "prep" else None
    if target is None:
        return part.dep_ == "acl" or (part.dep_ == "appos" and part.pos_ == "PROPN")
    lemma = target.lemma_.lower()
    is_vague = lemma in _VAGUE or lemma in _TABLE["abstract_head"]
    return target.pos_ in _NOUNS and (not is_vague or _is_of_a_name(target))


def _is_of_a_name(noun: Token) -> bool:
    """Tell whether a noun that names nothing is completed by one that does."""
    compound = child(noun, "compound")
    if compound is not None and compound.pos_ == "PROPN":
        return True
    for part in noun.children:
        target = (
            child(part, "pobj") if part.dep_ == "prep" and part.i > noun.i else None
        )
        if target is None or target.pos_ not in _NOUNS or len(target.text) == 1:
            continue
        words = {token.lower_ for token in target.children if token.i < target.i}
        lemma = target.lemma_.lower()
        is_weak = bool(
            words & (_WEAK_DETERMINER | _TABLE["picking"]) or lemma in _VAGUE
        )
        is_bare = (
            target.pos_ != "PROPN"
            and "the" in words
            and child(target, "compound") is None
        )
        needs_more = is_bare or lemma in _TABLE["abstract_head"]
        if not is_weak and (not needs_more or any(map(_completes, target.children))):
            return True
    return False


def points_nowhere(doc: Doc) -> bool:
    """Tell whether no word of a text points at something outside it."""
    return not any(map(_points, doc))


def _points(token: Token) -> bool:
    """Tell whether a word points at something outside its sentence."""
    word = token.lower_
    if word in _TABLE["person"] or token.pos_ == "INTJ":
        return True
    if word in _TABLE["antecedent"]:
        return token.dep_ == "expl" or not _is_bound(token)
    if word in _DEMONSTRATIVE and token.tag_ in {"DT", "PRP"}:
        return token.dep_ == "det" or _next(token) not in {"of", "in", "with"}
    return _points_on(token, word) or _picks(token, word)


def _points_on(token: Token, word: str) -> bool:
    """Tell whether a word continues what was said before."""
    if word == "then":
        return {"if", "when"}.isdisjoint(one.lower_ for one in token.doc[: token.i])
    if word in {"above", "below"}:
        return child(token, "pobj") is None
    if word in {"such", "instead"}:
        return _next(token) not in {"as", "of"}
    return word in _TABLE["pointing"] or (word == "being" and token.dep_ == "auxpass")


def _picks(token: Token, word: str) -> bool:
    """Tell whether a word picks out of things that were named before: "both", "the other"."""
    if word in {"both", "either", "neither", "all", "each"}:
        return token.dep_ in _NOMINAL and _next(token) != "of"
    if word in {"first", "second", "third", "last"}:
        return token.dep_ in _NOMINAL
    if word in {"other", "others", "same"}:
        is_known = _next(token) == "than" or "as" in {
            one.lower_ for one in token.doc[token.i :]
        }
        return not is_known and (token.tag_ == "NNS" or _has_the(token))
    return False


def _is_variable(token: Token) -> bool:
    """Tell whether a word is a letter that stands for a quantity: "the depth h", no "B cells"."""
    alone = len(token.text) == 1 and token.text.isalpha() and token.lower_ != "a"
    if len(token.text) == 2 and token.text[0].isupper() and token.text[1].islower():  # noqa: PLR2004 - "Ax"
        return token.pos_ in _NOUNS and token.lower_ not in _TABLE["two_letters"]
    following = token.nbor() if token.i + 1 < len(token.doc) else None
    before = token.nbor(-1).lower_ if token.i else ""
    if before == "°" or before in _TABLE["before_letter"]:
        return False  # "°C", "vitamin C"
    if following is not None and following.text == "-":
        return False
    return alone and (
        following is None or following.pos_ not in _NOUNS or token.text.islower()
    )


def _next(token: Token) -> str:
    return token.nbor().lower_ if token.i + 1 < len(token.doc) else ""


def _has_the(token: Token) -> bool:
    return token.i > 0 and token.nbor(-1).lower_ == "the"


def _is_bound(token: Token) -> bool:
    """Tell whether a pronoun has a noun of its number before it in the sentence."""
    plural = token.lower_.startswith("the")
    nouns = [
        one
        for one in token.doc[: token.i]
        if one.pos_ in _NOUNS and one.dep_ != "compound"
    ]
    if plural:
        return any(
            noun.tag_ in {"NNS", "NNPS"} or child(noun, "conj") for noun in nouns
        )
    return any(noun.tag_ in {"NN", "NNP"} for noun in nouns)


def _is_empty(root: Token, subject: Token) -> bool:
    """Tell whether a sentence praises, announces or only says that something is done."""
    complement = child(root, "acomp")
    idle = (
        (root, "empty_root"),
        (complement, "empty_complement"),
        (child(root, "dobj"), "empty_object"),
        (child(root, "attr"), "vague_head"),
        (child(root, "attr"), "person_noun"),
    )
    if any(
        one is not None and one.lemma_.lower() in _TABLE[name] for one, name in idle
    ):
        return True
    own = {token.i for token in subtree(subject)}
    for second in (one for one in root.children if one.dep_ == "conj"):
        own |= {token.i for token in second.subtree}
    tokens = [token for token in root.doc if token.i not in own and _counts(token)]
    count = len(tokens) + (complement is not None and complement.pos_ == "ADJ")
    is_passive = child(root, "auxpass") is not None and child(root, "oprd") is None
    return count < (2 if is_passive and child(root, "agent", "prep") is None else 1)


def _counts(token: Token) -> bool:
    """Tell whether a word behind the verb says something: a thing, a number, a degree."""
    if token.pos_ not in _NOUNS or token.dep_ == "compound":
        return token.like_num or token.tag_ in {"JJR", "RBR"}
    lemma = token.lemma_.lower()
    before = {one.lower_ for one in token.children if one.i < token.i}
    if lemma in _VAGUE or lemma in _TABLE["agent"] or before & _TABLE["unsaid"]:
        return False
    has_name = any(
        one.pos_ in {"PROPN", "NUM"} or one.text == "`" for one in token.children
    )
    return lemma not in _TABLE["says_little"] or has_name


def may_stand_alone(sentence: str) -> bool:
    """Tell whether a sentence opens as one can that is understood alone; the rest the parser says.

    Args:
        sentence: Not parsed yet.
    """
    return _LINKED.match(sentence) is None and _PRONOUN.match(sentence) is None


def is_plain(sentence: str) -> bool:
    """Tell whether a sentence is without formulas, marks of a layout and lost references."""
    return _SIGNS["sign"].search(
        _SIGNS["code"].sub("X", sentence)
    ) is None and sentence.count("(") == sentence.count(")")


_SIGNS: Final = patterns(read_table("patterns")["prose_signs"])
_LINKED: Final = phrase("linked")
_PRONOUN: Final = re.compile(
    r"(?:It|They|Its|Their|There|Some|Many|Several|That|Those|Such)\b"
)
