"""The kind of model that every schema here is: frozen, closed, and silent about its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_LONGEST_KEY = 60


class Sealed(BaseModel):
    """Refuses unknown fields and changes, and shows no value in its errors.

    Construction and `model_validate*` raise `SchemaError`: pydantic's own error keeps the whole
    input, and gives it away in `errors()`, in `json()` and in a pickle. Inside of a model that is
    not sealed, pydantic raises its own; keep texts out of such models.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True
    )

    def __init__(self, **data: object) -> None:
        """Check and keep the fields.

        Raises:
            SchemaError: a missing, unknown or ill-typed field, named with its path.
        """
        _validated(super().__init__, **data)

    # Tells pydantic to validate a nested model in the same pass, with its place in the path.
    __init__.__pydantic_base_init__ = True  # pyright: ignore[reportFunctionMemberAccess]

    @classmethod
    def model_validate(cls, obj: object, **options: object) -> Self:
        """Check a mapping or pass an instance through; raise SchemaError."""
        return _validated(super().model_validate, obj, **options)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: object) -> Self:
        """Check a JSON document; raise SchemaError."""
        return _validated(super().model_validate_json, json_data, **options)

    @classmethod
    def model_validate_strings(cls, obj: object, **options: object) -> Self:
        """Check a mapping of strings; raise SchemaError."""
        return _validated(super().model_validate_strings, obj, **options)

    # pydantic's own refusal shows the value, whatever `hide_input_in_errors` says.
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen, {name!r} cannot be set")


def _validated(validate: Callable[..., _T], /, *args: object, **options: object) -> _T:
    try:
        return validate(*args, **options)
    except ValidationError as error:
        refusal = _schema_error(error)
    # Raised out here, for `from None` would still carry pydantic's error along as its context.
    raise refusal


def _schema_error(error: ValidationError) -> SchemaError:
    problems = error.errors(include_url=False, include_context=False)
    first = problems[0]
    # An unknown key may be anything, and as long.
    field = ".".join(str(part)[:_LONGEST_KEY] for part in first["loc"])
    # A number may be shown; any other input may be the text of a passage or a criterion.
    shown = f", not {first['input']!r}" if isinstance(first["input"], float) else ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    wrong = first["msg"].removeprefix("Value error, ")
    where = f"field {field!r}" if field else error.title
    return SchemaError(f"{where}: {wrong}{shown}{more}", field=field or None)
