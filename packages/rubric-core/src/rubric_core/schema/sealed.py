"""The base of all schemas: frozen, closed models that hide their values, and their field types."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, NoReturn, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import ValidationError

from rubric_core.errors import SchemaError, shortened

_T = TypeVar("_T")
_LONGEST_KEY = 60
_SAY_THEMSELVES = frozenset({"extra_forbidden", "value_error"})
"""Types of errors whose message names the value, or does not need it."""


class Sealed(BaseModel):
    """A model that refuses unknown fields and changes, and shows no value in its errors.

    Construction and `model_validate*` raise `SchemaError`: pydantic's own error keeps the whole
    input, and gives it away in `errors()`, in `json()` and in a pickle. Inside a model that is
    not sealed, pydantic raises its own error; keep texts out of such models.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True
    )

    def __init__(self, **data: object) -> None:
        """Check the fields and keep them.

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
    def model_validate_json(
        cls, json_data: str | bytes | bytearray, **options: object
    ) -> Self:
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
    # Raised outside the handler: `from None` would still keep pydantic's error as its context.
    raise refusal


def _schema_error(error: ValidationError) -> SchemaError:
    from rubric_core.configuration import needed  # imported only for an error

    problems = error.errors(include_url=False)
    # A mistyped name is also a missing field; the unknown name says what to mend.
    unknown = [
        problem
        for problem in problems
        if problem["type"] == "extra_forbidden" and problem["input"]
    ]
    first = (unknown or problems)[0]
    # An unknown key may be any text, of any length.
    field = ".".join(shortened(str(part), _LONGEST_KEY) for part in first["loc"])
    # A number may be shown; any other input may be the text of a passage or a criterion.
    is_shown = (
        isinstance(first["input"], float) and first["type"] not in _SAY_THEMSELVES
    )
    value = f", not {first['input']!r}" if is_shown else ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    where = f"field {field!r}" if field else error.title
    return SchemaError(f"{where}: {needed(first)}{value}{more}", field=field or None)


def not_blank(text: str) -> str:
    """Return the text; refuse one that holds nothing but white space.

    Raises:
        ValueError: nothing to read; pydantic expects this class from a validator.
    """
    if not text.strip():
        raise ValueError(
            f"there must be a text, not {len(text)} characters of white space"
        )
    return text


# A length bound, even 0, makes pydantic refuse lone surrogates, which no UTF-8 file can hold.
Text = Annotated[str, StringConstraints(strict=True, min_length=0)]
Identifier = Annotated[str, StringConstraints(strict=True, min_length=1)]
Prose = Annotated[Text, AfterValidator(not_blank)]
Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0)]

_Item = TypeVar("_Item")
Unshown = Annotated[_Item, Field(repr=False)]
"""The type of a field that `repr` leaves out."""
Hidden = Annotated[_Item, Field(repr=False, exclude=True)]
"""The type of a field that `repr` and `model_dump` leave out."""
if TYPE_CHECKING:
    from collections.abc import Sequence

    Many = Sequence[_Item]
    """The type of a field that holds a tuple, and may be made of a list."""
else:
    Many = tuple[_Item, ...]
