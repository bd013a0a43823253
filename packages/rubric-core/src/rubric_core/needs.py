"""Needs of a value that pydantic refused, in a configuration or in a line of a file."""

from typing import Final

NEEDS: Final = {
    "bool_parsing": "needs `true` or `false`",
    "bool_type": "needs `true` or `false`",
    "dict_type": "needs a mapping of keys to values",
    "enum": "needs {expected}",
    "extra_forbidden": "is not permitted: there is no such field",
    "finite_number": "needs a finite number",
    "float_parsing": "needs a number",
    "float_type": "needs a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "int_from_float": "needs a whole number",
    "int_parsing": "needs a whole number",
    "int_parsing_size": "needs a whole number with fewer digits",
    "int_type": "needs a whole number",
    "json_invalid": "is not JSON: {error}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be {le} or less",
    "list_type": "needs a list, such as [a, b]",
    "literal_error": "needs {expected}",
    "missing": "is missing: add it",
    "model_attributes_type": "needs a mapping of keys to values",
    "model_type": "needs a mapping of keys to values",
    "none_required": "must be null",
    "path_type": "needs a path",
    "string_pattern_mismatch": "does not fit the pattern {pattern}",
    "string_too_long": "must have {max_length} or fewer characters",
    "string_too_short": "must have {min_length} or more characters",
    "string_type": "needs a text, in quotes where it looks like a number",
    "too_long": "must have {max_length} or fewer items",
    "too_short": "must have {min_length} or more items",
    "string_unicode": "needs a text that UTF-8 can hold",
    "tuple_type": "needs a list, such as [a, b]",
}
"""By pydantic's type of error; slots are of that error's context, under pydantic's names."""
