"""Suggestions for a file that is not there: files with almost its name."""

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path


def near(path: Path) -> str:
    """Return the end of a sentence on a file or folder that is not there: `; did you mean 'B'?`.

    B is an entry of its folder with almost this name; if the folder is missing too, the sentence
    says so. Empty where there is nothing to suggest.
    """
    # ValueError: a name that holds a null character.
    with suppress(OSError, ValueError):
        return _suggestion(path)
    return ""


def _suggestion(path: Path) -> str:
    missing = path
    while missing != missing.parent and not missing.parent.is_dir():
        missing = missing.parent
    by_stem: dict[str, Path] = {}
    entries = list(missing.parent.iterdir())
    # Of entries with the same stem, the last one counts: one with the same suffix.
    entries.sort(key=lambda entry: entry.suffix == path.suffix)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        is_fit = missing == path and _alike_suffixes(missing.suffix, entry.suffix)
        if is_fit or entry.is_dir():
            by_stem[entry.stem] = entry
    suggestion = ""
    if missing != path:
        suggestion = f"; there is no folder {str(missing)!r}"
    close = get_close_matches(missing.stem, by_stem, n=1)
    if close:
        suggestion += f"; did you mean {str(by_stem[close[0]])!r}?"
    return suggestion


def _alike_suffixes(suffix: str, candidate: str) -> bool:
    """Return whether one suffix may be meant by another: `.jsonl` by `.json`, `.yaml` not."""
    return not suffix or bool(get_close_matches(suffix, [candidate]))


def no_such_file(path: Path, *, otherwise: str = "") -> str:
    """Return the message that a file is not there, with the folder of the search and a suggestion.

    Args:
        path: the file.
        otherwise: the end of the sentence, from a semicolon on, where nothing near is found.
    """
    message = f"{path}: there is no such file"
    if not path.is_absolute():
        message += f" (looked for from {str(Path.cwd())!r})"
    return message + (near(path) or otherwise)
