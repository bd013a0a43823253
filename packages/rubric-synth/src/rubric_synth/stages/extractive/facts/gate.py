"""Checks that a sentence states a fact on its own; any other sentence is left out.

The checks read the finished sentence: what it points at, what it says, who says it.
"""

import re
from collections.abc import Set as AbstractSet
from itertools import pairwise

from spacy.tokens import Doc, Token

from rubric_judge.judges.lexical.words import stem
from rubric_synth.stages.extractive.facts.parsing import child, root_of, subtree
from rubric_synth.tables import patterns, phrase, word_sets

_TABLE = word_sets("facts", "gate")
_VAGUE = _TABLE["vague_head"]
_SUBJECTS = ("nsubj", "nsubjpass")
_NOUNS = frozenset({"NOUN", "PROPN"})
_FINITE = frozenset({"VBZ", "VBP", "MD"})
_BEFORE = frozenset({"prep", "advcl", "advmod", "punct", "aux"})
_NOMINAL = frozenset({"nsubj", "nsubjpass", "dobj", "pobj", "appos"})
_DEMONSTRATIVE = frozenset({"this", "that", "these", "those"})
_WEAK_DETERMINER = frozenset(
    {"this", "that", "these", "those", "another", "some", "such", "any", "no"}
)
_LIMITS = frozenset({"relcl", "acl", "prep"})
_HALVES = frozenset({("not", "only"), ("not", "just"), ("not", "merely")})
_LONGEST = 45
"""Most tokens of a sentence."""
_SIGNS = patterns("prose_signs")
_LINKED = phrase("linked")
_PRONOUN = re.compile(
    r"(?:It|They|Its|Their|There|Some|Many|Several|That|Those|Such)\b"
)


def subject_of(root: Token) -> Token | None:
    """Return the grammatical subject of a main word; None where there is none or several."""
    tokens = [token for token in root.children if token.dep_ in _SUBJECTS]
    if len(tokens) != 1:
        return None
    if tokens[0].i >= root.i:
        return None
    return tokens[0]


def root_and_subject(doc: Doc) -> tuple[Token, Token] | None:
    """Return the main word of a sentence with its subject; None where either is not clear."""
    root = root_of(doc)
    subject = subject_of(root) if root is not None else None
    if root is None or subject is None:
        return None
    return root, subject


def is_finite(root: Token) -> bool:
    """Tell whether a main word, or its first auxiliary, stands in the present tense."""
    for token in root.children:
        if token.dep_ in {"aux", "auxpass"} and token.i < root.i:
            return token.tag_ in _FINITE
    return root.tag_ in _FINITE and root.tag_ != "MD"


def stands_alone(doc: Doc, known: AbstractSet[str] = frozenset()) -> bool:
    """Tell whether a sentence states something that is understood without its context.

    Args:
        doc: The sentence.
        known: Stems of names that the question has anyway, such as the heading.
    """
    main = root_and_subject(doc)
    if main is None or len(doc) > _LONGEST:
        return False
    root, subject = main
    if _LINKED.match(doc.text) or _opens_aside(doc) or _is_half(doc):
        return False
    if not _opens_with_subject(root, subject) or any(map(_is_variable, doc)):
        return False
    if not _names(subject, known) or not points_nowhere(doc):
        return False
    return not _is_empty(root, subject)


def _opens_with_subject(root: Token, subject: Token) -> bool:
    """Tell whether a main verb is finite, and has nothing but adverbials before its subject."""
    if root.pos_ not in {"VERB", "AUX"} or not is_finite(root):
        return False
    before = (token for token in root.children if token.i < subject.i)
    return all(token.dep_ in _BEFORE for token in before)


def _opens_aside(doc: Doc) -> bool:
    """Tell whether a text opens with an adverb that ties it to others: "Rather, …"."""
    if len(doc) <= 1:
        return False
    if doc[1].text != ",":
        return False
    first = doc[0]
    is_adverb = first.pos_ in {"ADV", "SCONJ", "CCONJ"}
    return is_adverb and first.lower_ not in _TABLE["frequency"]


def _is_half(doc: Doc) -> bool:
    """Tell whether a text says "not only" without what else there is."""
    words = [token.lower_ for token in doc]
    if _HALVES.isdisjoint(pairwise(words)):
        return False
    return "but" not in words


def says_of_it(doc: Doc) -> bool:
    """Tell whether a text that begins with "It" or "They" says one thing, and nothing unclear.

    Args:
        doc: The text; its first word stands for its topic.
    """
    main = root_and_subject(doc)
    if main is None:
        return False
    root, subject = main
    if subject.i != 0 or not is_finite(root):
        return False
    for token in doc[1:]:
        if _is_variable(token) or _points(token):
            return False
    before = (token for token in root.children if token.i < root.i)
    return all(token.dep_ not in {"ccomp", "parataxis"} for token in before)


def follows(doc: Doc) -> bool:
    """Tell whether a sentence with a condition says what follows, of something that has a name.

    Args:
        doc: "If … , …".
    """
    main = root_and_subject(doc)
    if main is None:
        return False
    root, subject = main
    if subject.pos_ not in _NOUNS or not is_finite(root):
        return False
    for token in doc:
        if _is_variable(token) or _points(token):
            return False
    conditions = (token for token in root.children if token.dep_ == "advcl")
    return any(map(_is_clause, conditions))


def _is_clause(verb: Token) -> bool:
    """Tell whether a verb has a subject and is finite: not "if needed", "when using it"."""
    has_subject = child(verb, "nsubj", "nsubjpass", "expl") is not None
    if not has_subject:
        return False
    return is_finite(verb) or verb.tag_ in {"VBD", "MD"}


def _names(subject: Token, known: AbstractSet[str]) -> bool:
    """Tell whether a subject names something: a noun, and not just "the tool"."""
    before = [token for token in subject.children if token.i < subject.i]
    if not _may_name(subject) or _is_weakened(before):
        return False
    words = {token.lower_ for token in before}
    lemmas = {token.lemma_.lower() for token in before}
    is_abstract = subject.lemma_.lower() in _TABLE["abstract_head"]
    is_bare = is_abstract and child(subject, "compound") is None
    if is_bare or (words | lemmas) & _TABLE["picking"]:
        return _is_of_a_name(subject)
    if words.isdisjoint({"the", "each", "every"}):
        return True
    return stem(subject.lower_) in known or _is_one_of_a_kind(subject)


def _is_one_of_a_kind(subject: Token) -> bool:
    """Tell whether a subject with "the" is a name, or is told apart by its words."""
    if subject.pos_ == "PROPN":
        return True
    parts = ["compound"]
    verb = subject.head
    if verb.lemma_ == "be" and child(verb, "attr") is not None:
        parts.append("amod")
    if subject.tag_ == "NN" and child(subject, *parts) is not None:
        return True
    if _is_explained(subject):
        return True
    return any(map(_completes, subject.children))


def _may_name(subject: Token) -> bool:
    """Tell whether a subject is a noun that is not vague, and stands for all of its kind."""
    if subject.pos_ not in _NOUNS:
        return False
    if len(subject.text) <= 1:
        return False
    if subject.lower_ in _VAGUE or subject.lemma_.lower() in _VAGUE:
        return False
    for token in subject.children:
        if token.dep_ != "relcl":
            continue
        if token.left_edge.nbor(-1).text != ",":
            return False  # it is about a part of them
    return True


def _is_weakened(before: list[Token]) -> bool:
    """Tell whether words before a noun count it, own it or leave it vague."""
    return any(
        token.tag_ in {"PRP$", "JJS", "CD"}
        or token.lower_ in _WEAK_DETERMINER
        or token.lower_ in _TABLE["found_before"]
        or token.lemma_.lower() in _TABLE["found_before"]
        or token.lemma_.lower() in _TABLE["vague_before"]
        for token in before
    )


def _is_explained(subject: Token) -> bool:
    """Tell whether a sentence says of its subject what it is: "the trachea is a tube that …"."""
    if subject.head.lemma_ != "be":
        return False
    if subject.lemma_.lower() in _TABLE["agent"]:
        return False
    attribute = child(subject.head, "attr")
    if attribute is None:
        return False
    article = child(attribute, "det")
    if article is None or article.lower_ not in {"a", "an"}:
        return False
    after = (token for token in attribute.children if token.i > attribute.i)
    return any(token.dep_ in _LIMITS for token in after)


def _completes(part: Token) -> bool:
    """Tell whether a phrase after a noun says which one: "the wall of an artery"."""
    if part.i < part.head.i:
        return False
    target: Token | None = None
    if part.dep_ == "prep":
        target = child(part, "pobj")
    if target is None:
        if part.dep_ == "acl":
            return True
        return part.dep_ == "appos" and part.pos_ == "PROPN"
    if target.pos_ not in _NOUNS:
        return False
    lemma = target.lemma_.lower()
    if lemma in _VAGUE or lemma in _TABLE["abstract_head"]:
        return _is_of_a_name(target)
    return True


def _is_of_a_name(noun: Token) -> bool:
    """Tell whether a noun that names nothing is completed by one that does."""
    compound = child(noun, "compound")
    if compound is not None and compound.pos_ == "PROPN":
        return True
    for part in noun.children:
        if part.dep_ != "prep" or part.i <= noun.i:
            continue
        target = child(part, "pobj")
        if target is None:
            continue
        if target.pos_ not in _NOUNS or len(target.text) == 1:
            continue
        if _is_name(target):
            return True
    return False


def _is_name(noun: Token) -> bool:
    """Tell whether a noun after a preposition names something."""
    before = {token.lower_ for token in noun.children if token.i < noun.i}
    lemma = noun.lemma_.lower()
    if lemma in _VAGUE:
        return False
    if before & (_WEAK_DETERMINER | _TABLE["picking"]):
        return False
    is_abstract = lemma in _TABLE["abstract_head"]
    is_bare = noun.pos_ != "PROPN" and child(noun, "compound") is None
    needs_more = is_abstract or (is_bare and "the" in before)
    if not needs_more:
        return True
    return any(map(_completes, noun.children))


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
        if token.dep_ == "det":
            return True
        return _next(token) not in {"of", "in", "with"}
    if _points_on(token, word):
        return True
    return _picks(token, word)


def _points_on(token: Token, word: str) -> bool:
    """Tell whether a word continues an earlier sentence."""
    if word == "then":
        before = token.doc[: token.i]
        return {"if", "when"}.isdisjoint(word.lower_ for word in before)
    if word in {"above", "below"}:
        return child(token, "pobj") is None
    if word in {"such", "instead"}:
        return _next(token) not in {"as", "of"}
    if word in _TABLE["pointing"]:
        return True
    return word == "being" and token.dep_ == "auxpass"


def _picks(token: Token, word: str) -> bool:
    """Tell whether a word picks out of things that were named before: "both", "the other"."""
    if word in {"both", "either", "neither", "all", "each"}:
        return token.dep_ in _NOMINAL and _next(token) != "of"
    if word in {"first", "second", "third", "last"}:
        return token.dep_ in _NOMINAL
    if word in {"other", "others", "same"}:
        rest = token.doc[token.i :]
        if _next(token) == "than":
            return False
        if any(word.lower_ == "as" for word in rest):
            return False
        return token.tag_ == "NNS" or _has_the(token)
    return False


def _is_capital_with_letter(text: str) -> bool:
    """Tell whether a text is like "Ax"."""
    if len(text) != 2:  # noqa: PLR2004 - "Ax"
        return False
    return text[0].isupper() and text[1].islower()


def _is_variable(token: Token) -> bool:
    """Tell whether a word is a letter that stands for a quantity: "the depth h", no "B cells"."""
    text = token.text
    if _is_capital_with_letter(text):
        is_noun = token.pos_ in _NOUNS
        return is_noun and token.lower_ not in _TABLE["two_letters"]
    if len(text) != 1 or not text.isalpha() or token.lower_ == "a":
        return False
    before = token.nbor(-1).lower_ if token.i else ""
    if before == "°" or before in _TABLE["before_letter"]:
        return False  # "°C", "vitamin C"
    if token.i + 1 == len(token.doc):
        return True
    following = token.nbor()
    if following.text == "-":
        return False
    return following.pos_ not in _NOUNS or text.islower()


def _next(token: Token) -> str:
    if token.i + 1 < len(token.doc):
        return token.nbor().lower_
    return ""


def _has_the(token: Token) -> bool:
    if token.i <= 0:
        return False
    return token.nbor(-1).lower_ == "the"


def _is_bound(token: Token) -> bool:
    """Tell whether a pronoun has a noun of its number before it in the sentence."""
    is_plural = token.lower_.startswith("the")
    for noun in token.doc[: token.i]:
        if noun.pos_ not in _NOUNS or noun.dep_ == "compound":
            continue
        if not is_plural:
            if noun.tag_ in {"NN", "NNP"}:
                return True
            continue
        if noun.tag_ in {"NNS", "NNPS"}:
            return True
        if child(noun, "conj") is not None:
            return True
    return False


def _is_empty(root: Token, subject: Token) -> bool:
    """Tell whether a sentence praises, announces or only says that something is done."""
    complement = child(root, "acomp")
    attribute = child(root, "attr")
    idle = (
        (root, "empty_root"),
        (complement, "empty_complement"),
        (child(root, "dobj"), "empty_object"),
        (attribute, "vague_head"),
        (attribute, "person_noun"),
    )
    for word, table in idle:
        if word is not None and word.lemma_.lower() in _TABLE[table]:
            return True
    left_out = {token.i for token in subtree(subject)}
    for second in root.children:
        if second.dep_ == "conj":
            left_out |= {token.i for token in second.subtree}
    count = 0
    for token in root.doc:
        if token.i not in left_out and _counts(token):
            count += 1
    if complement is not None and complement.pos_ == "ADJ":
        count += 1
    is_passive = child(root, "auxpass") is not None
    is_followed = child(root, "agent", "prep", "oprd") is not None
    fewest = 1
    if is_passive and not is_followed:
        fewest = 2
    return count < fewest


def _counts(token: Token) -> bool:
    """Tell whether a word after the verb says something: a thing, a number, a degree."""
    if token.pos_ not in _NOUNS or token.dep_ == "compound":
        return token.like_num or token.tag_ in {"JJR", "RBR"}
    lemma = token.lemma_.lower()
    before = {word.lower_ for word in token.children if word.i < token.i}
    if lemma in _VAGUE or lemma in _TABLE["agent"]:
        return False
    if before & _TABLE["unsaid"]:
        return False
    if lemma not in _TABLE["says_little"]:
        return True
    return any(
        word.pos_ in {"PROPN", "NUM"} or word.text == "`" for word in token.children
    )


def may_stand_alone(sentence: str) -> bool:
    """Tell whether a sentence opens like one that is understood alone; the parser checks the rest.

    Args:
        sentence: Not parsed yet.
    """
    if _LINKED.match(sentence) is not None:
        return False
    return _PRONOUN.match(sentence) is None


def is_plain(sentence: str) -> bool:
    """Tell whether a sentence is without formulas, marks of a layout and lost references."""
    if sentence.count("(") != sentence.count(")"):
        return False
    without_code = _SIGNS["code"].sub("X", sentence)
    return _SIGNS["sign"].search(without_code) is None
