"""What of a configuration and of an error no tracker is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_train_openrlhf.tracking.settings import shown_settings, without_secrets

if TYPE_CHECKING:
    import pytest


def test_settings_are_shown_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "hush-hush-hush")
    values = {
        "steps": 4,
        "judge": {
            "spec": {
                "api_base": "http://ann:pw@host:8000/v1?key=abc&x=1",
                "api_key_env": "MY_SERVICE_KEY",
                "max_tokens": 100,
                "options": {"api_key": "sk-1", "note": "with hush-hush-hush in it"},
                "servers": [{"password": "pw", "port": 1}],
            }
        },
    }

    assert shown_settings(values) == {
        "steps": 4,
        "judge.spec.api_base": "http://(hidden)@host:8000/v1?(hidden)",
        "judge.spec.api_key_env": "MY_SERVICE_KEY",
        "judge.spec.max_tokens": 100,
        "judge.spec.options.api_key": "(hidden)",
        "judge.spec.options.note": "with (hidden) in it",
        "judge.spec.servers": "[{'password': '(hidden)', 'port': 1}]",
    }


def test_an_error_is_told_without_the_password_of_its_address() -> None:
    assert (
        without_secrets("no answer of https://ann:secret@host/mlflow?token=1 refused")
        == "no answer of https://(hidden)@host/mlflow?(hidden) refused"
    )
