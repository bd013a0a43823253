"""Words, criteria, patterns and queries: data that stands beside the code."""

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from rubric_core import rewriting


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return the content of a table by its name."""
    return tomllib.loads(read_text(f"{name}.toml"))


def read_text(file: str) -> str:
    """Return the content of a file of this folder."""
    return (resources.files(__name__) / file).read_text("utf-8")


def word_set(name: str) -> frozenset[str]:
    """Return one of the lists of words, each written there as running text."""
    return frozenset(read_table("words")[name].split())


def word_sets(table: str, part: str) -> dict[str, frozenset[str]]:
    """Return the lists of words of a part of a table, each written there as running text."""
    lists: dict[str, str] = read_table(table)[part]
    return {name: frozenset(words.split()) for name, words in lists.items()}


def patterns(part: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns of a part of their table, by their names there."""
    return rewriting.patterns(read_table("patterns")[part])


def phrase(name: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """Return a pattern for one of the turns of phrase of the words: `any` between two others."""
    row: dict[str, Any] = read_table("words")[name]
    source = f"{row.get('before', '')}(?:{'|'.join(row['any'])}){row.get('after', '')}"
    return re.compile(source, flags)
