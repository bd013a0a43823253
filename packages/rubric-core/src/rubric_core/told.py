"""Errors whose messages are kept in a file."""

import inspect
from functools import cache
from pathlib import Path
from typing import Any, Self

from rubric_core.errors import RubricError
from rubric_core.files import toml_beside


class ToldError(RubricError):
    """An error whose messages of more than a line are in errors.toml, beside its class's module."""

    @classmethod
    def told(cls, name: str, /, **values: Any) -> Self:
        """Say what errors.toml has under a name.

        Args:
            name: of the text, or of it and the `location` in a configuration that it is about.
            values: for its slots; one that is named as an attribute of the error is kept there too.
        """
        text = _texts(inspect.getfile(cls))[name]
        told = {"says": text} if isinstance(text, str) else text
        shown = {key: str(one) if isinstance(one, Path) else one for key, one in values.items()}
        error, values = cls(told["says"].format(**shown)), told | values
        vars(error).update({key: values[key] for key in vars(error).keys() & values.keys()})
        return error


@cache
def _texts(module: str) -> dict[str, str | dict[str, str]]:
    return toml_beside(module, "errors.toml")
