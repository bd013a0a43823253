"""Documents by number: articles on processes of engineering, each different, each the same always.

They are made of sentence frames and words; they read like articles and say nothing true.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from rubric_synth.document import Document
from rubric_synth.tables import read_table

_CORPUS: Final = read_table("corpus")
_WORDS: Final = {kind: tuple(words.split()) for kind, words in _CORPUS["words"].items()}
_HEADINGS: Final[list[str]] = _CORPUS["articles"]["headings"]
_SENTENCES: Final[list[int]] = _CORPUS["articles"]["sentences"]
"""Of each section."""
_FRAMES: Final = tuple(
    " ".join(f"{frame}.".split()) for frame in _CORPUS["articles"]["frames"].split(".")[:-1]
)
_OF_A_KIND: Final = 6
"""Words of each kind that an article uses: it comes back to its subjects."""


def generated_documents(n: int, *, seed: int = 0, start: int = 0) -> Iterator[Document]:
    """Yield articles of some 3,000 characters.

    Args:
        n: how many.
        seed: another one gives other articles.
        start: number of the first. Article i is the same in every call with the same seed.

    Yields:
        Articles with a title, sections, figures and caveats; no two near each other.
    """
    for number in range(start, start + n):
        generator = random.Random(f"{seed} {number}")
        theme = {kind: generator.sample(words, _OF_A_KIND) for kind, words in _WORDS.items()}
        process, material, place = (theme[kind][0] for kind in ("process", "material", "place"))
        title = f"{process.capitalize()} of {material} in {place} {number}"
        frames = generator.sample(_FRAMES, sum(_SENTENCES))
        parts = [f"# {title}"]
        for heading, length in zip(_HEADINGS, _SENTENCES, strict=True):
            sentences = [_sentence(frames.pop(), theme, generator) for _ in range(length)]
            parts += [f"## {heading} of {process}", " ".join(sentences)]
        source = f"generated/{seed}/{number:08}.md"
        yield Document(title=title, text="\n\n".join(parts), source=source)


def _sentence(frame: str, theme: dict[str, list[str]], generator: random.Random) -> str:
    words = {kind: words[int(generator.random() * _OF_A_KIND)] for kind, words in theme.items()}
    number = 5 + int(generator.random() * 9_000) / 10
    return frame.format_map({**words, "number": number})
