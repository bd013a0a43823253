"""A configuration of which some sections could not be read, for checks of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from rubric_train_openrlhf.cluster.rehearse.subject import UnknownError
from rubric_train_openrlhf.config import TrainConfig

if TYPE_CHECKING:
    from collections.abc import Mapping


class PartialConfig(TrainConfig):
    """Holds the sections that are well formed; asking for any other is an `UnknownError`."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # a section that is not there
        """Refuse a section that could not be read."""
        if name in TrainConfig.model_fields:
            raise UnknownError("configuration")
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def sections_alone(values: Mapping[str, object]) -> tuple[PartialConfig, bool]:
    """Read each section by itself, whatever is wrong with the others or between them.

    Returns:
        The sections, and whether all of them are well formed.
    """
    sections: dict[str, Any] = {}
    missing: list[str] = []
    for name, field in TrainConfig.model_fields.items():
        if name not in values:
            if field.is_required():
                missing.append(name)
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        try:
            sections[name] = adapter.validate_python(values[name])
        except ValidationError:
            missing.append(name)
    partial = PartialConfig.model_construct(**sections)
    for name in missing:
        # `model_construct` puts the default there.
        vars(partial).pop(name, None)
    return partial, not missing and set(values) <= set(TrainConfig.model_fields)
