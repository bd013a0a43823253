import subprocess
import sys

import pytest

import rubric_core


def test_every_exported_name_can_be_had() -> None:
    assert sorted(rubric_core.__all__) == rubric_core.__all__
    assert all(hasattr(rubric_core, name) for name in rubric_core.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match="'rubric_core' has no attribute 'group_advantage'"
    ):
        rubric_core.group_advantage  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_schemas_imports_no_arrays() -> None:
    script = "import rubric_core, sys; print({'numpy', 'pyarrow', 'asyncio'} & set(sys.modules))"

    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert ended.stdout.strip() == "set()"
