import json

from rubric_train_openrlhf.run.folder import describe_environment

OTHERS = {"seed": 3, "tasks_sha256": {}, "model_files": {}, "prompting": {}}


def test_the_environment_names_versions_seed_and_configuration() -> None:
    one, other = (
        json.loads(describe_environment(config_text=text, **OTHERS))
        for text in ("a: 1", "a: 2")
    )

    assert one["seed"] == 3
    assert one["config_sha256"] != other["config_sha256"]
    assert {"torch", "transformers", "rubric-core"} <= one["versions"].keys()
