"""What a folder holds of almost the name of a file that is not there."""

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path


def near(path: Path) -> str:
    """Return the end of a sentence on a file or folder that is not there: `; did you mean 'B'?`.

    B is what its folder holds of almost this name; where that is missing too, the folder is named.
    Empty where nothing can be said.
    """
    missing = path
    with suppress(
        OSError, ValueError
    ):  # ValueError: a name that holds a null character
        while missing != missing.parent and not missing.parent.is_dir():
            missing = missing.parent
        there = sorted(
            missing.parent.iterdir(), key=lambda one: one.suffix == path.suffix
        )
        suffix = missing.suffix  # `.json` may be meant for `.jsonl`, and no `.yaml` is
        fit = (
            one
            for one in there
            if one.is_dir()
            or (
                missing == path
                and (not suffix or get_close_matches(suffix, [one.suffix]))
            )
        )
        by_stem = {one.stem: one for one in fit if not one.name.startswith(".")}
        said = "" if missing == path else f"; there is no folder {str(missing)!r}"
        close = get_close_matches(missing.stem, by_stem, n=1)
        return f"{said}; did you mean {str(by_stem[close[0]])!r}?" if close else said
    return ""


def no_such_file(path: Path, *, otherwise: str = "") -> str:
    """Say that a file is not there: from which folder it was looked for, and what may be meant.

    Args:
        path: the file.
        otherwise: the end of the sentence, from a semicolon on, where nothing near is found.
    """
    seen = "" if path.is_absolute() else f" (looked for from {str(Path.cwd())!r})"
    return f"{path}: there is no such file{seen}{near(path) or otherwise}"
