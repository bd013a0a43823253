from __future__ import annotations

import json

from rubric_train_openrlhf.run.environment import describe_environment, environment_json


def test_the_environment_names_versions_seed_and_configuration() -> None:
    one = describe_environment(seed=3, config_text="a: 1", tasks_sha256={}, model_files={})
    other = describe_environment(seed=3, config_text="a: 2", tasks_sha256={}, model_files={})

    assert one["seed"] == 3
    assert one["config_sha256"] != other["config_sha256"]
    versions = json.loads(environment_json(one))["versions"]
    assert {"torch", "transformers", "rubric-core"} <= versions.keys()
