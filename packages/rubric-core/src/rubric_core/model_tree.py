"""A tree of pydantic models, followed down to the place of a problem.

pydantic names the place of a problem by a location: keys and indexes, and among them tags of a
choice of models, which stand in no file.
"""

import json
from collections.abc import Iterable, Iterator
from typing import TypeAlias, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Location: TypeAlias = "tuple[int | str, ...]"
"""Place of a value as pydantic names it."""
_Model: TypeAlias = "type[BaseModel]"


def models_at(model: _Model, location: Location) -> list[_Model]:
    """Return the models that a location leads to, several where there is a choice of models."""
    models, _ = _followed(model, location)
    return models


def keys_at(model: _Model, location: Location) -> Location:
    """Return the keys and indexes of a location, as they stand in the file."""
    _, keys = _followed(model, location)
    # `[key]` and `tuple[str, ...]` are pydantic's, not the file's.
    return tuple(key for key in keys if "[" not in str(key))


def hides_input(model: _Model, location: Location) -> bool:
    """Return whether a model on the way to a location hides its input."""
    for depth in range(len(location) + 1):
        for level in models_at(model, location[:depth]):
            if level.model_config.get("hide_input_in_errors"):
                return True
    return False


def tags_of(models: Iterable[_Model], name: str) -> list[str]:
    """Return the values that a discriminator may have, quoted."""
    tags: list[str] = []
    for model in models:
        field = model.model_fields.get(name)
        if field is not None:
            tags += map(repr, get_args(field.annotation))
    return tags


def example_of(models: Iterable[_Model], key: int | str) -> str:
    """Return an example of the line of a missing key, or "" if its field has none."""
    for field in _fields(models, key):
        if not field.examples:
            continue
        example = str(field.examples[0])
        # The example of a function's keyword is written in full, as `judge="judge.yaml"`.
        if not example.startswith(f"{key}="):
            example = f"{key}: {example}"
        return f", such as `{example}`"
    return ""


def default_of(models: Iterable[_Model], key: int | str) -> str:
    """Return a note on the default of a key that is a number, or "" if it has none."""
    for field in _fields(models, key):
        if isinstance(field.default, int | float):
            return f" (its default is {json.dumps(field.default)})"
    return ""


def _fields(models: Iterable[_Model], key: int | str) -> list[FieldInfo]:
    """Return the fields of this key in the models that have it."""
    if not isinstance(key, str):
        return []
    return [model.model_fields[key] for model in models if key in model.model_fields]


def _followed(
    model: _Model, location: Location
) -> tuple[list[_Model], list[int | str]]:
    """Follow a location down the tree: the models that it leads to, and its keys without tags."""
    models = [model]
    keys = list[int | str]()
    for part in location:
        # A tag may also be a field's name, but a choice of models is always followed by a tag.
        tagged = [model for model in models if _is_tagged(model, part)]
        if len(models) > 1 and tagged:
            models = tagged
            continue
        keys.append(part)
        inner: list[_Model] = []
        for field in _fields(models, part):
            inner += _models_in(field.annotation)
        models = inner or models
    return models, keys


def _is_tagged(model: _Model, tag: int | str) -> bool:
    fields = model.model_fields.values()
    return any(tag in get_args(field.annotation) for field in fields)


def _models_in(annotation: object) -> Iterator[_Model]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
