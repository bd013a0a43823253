"""Configurations of training runs, as `rubric-train init` writes them into a folder."""

from pathlib import Path

from rubric_judge.ui.starting import preset, write_new

__all__ = ["start"]

_IN_THE_CHECKOUT = "configs/train/{name}.yaml"


def start(folder: Path, *, name: str) -> Path:
    """Write train.yaml into a folder, and return it.

    Its comments name the file where it then is.

    Raises:
        ConfigError: there is no configuration of this name, or the file is there already.
    """
    text = preset("rubric_train_openrlhf", name, flag="--preset")
    file = folder / "train.yaml"
    write_new(
        folder, {file.name: text.replace(_IN_THE_CHECKOUT.format(name=name), str(file))}
    )
    return file
