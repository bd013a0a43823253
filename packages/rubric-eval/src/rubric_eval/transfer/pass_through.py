"""lm-eval's own command line, given our tasks and a cache for each model.

lm-eval keys its cache by prompt and decoding and not by model: one path used for two models gives
the second one the first one's answers. So the path that is given gets the model's fingerprint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_core import ConfigError, RubricError
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.transfer.arguments import Arguments, read_arguments
from rubric_eval.transfer.building import harness
from rubric_eval.transfer.cache_key import cache_key
from rubric_judge.yaml_files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COMMANDS: Final = frozenset({"run", "ls", "list", "validate"})
_PROGRAM: Final = "lm-eval"


def run_lm_eval(arguments: Sequence[str], *, say: Callable[[str], None]) -> int:
    """Run lm-eval's command line in this process.

    Args:
        arguments: as `lm-eval` takes them.
        say: where notes go.

    Returns:
        Its exit status.

    Raises:
        MissingExtraError: lm-eval is not installed.
        ConfigError: a file of arguments that cannot be read, or arguments that lm-eval refuses.
        RubricError: what our tasks raise.
    """
    main = harness("lm_eval.__main__").cli_evaluate
    command = arguments[0] if arguments and arguments[0] in _COMMANDS else None
    with contextlib.ExitStack() as stack:
        given = list(arguments)
        if command in {"ls", "list", "validate"}:
            given = _with_tasks(given, say)
        elif arguments and not {"-h", "--help"} & set(arguments):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            given = _run_arguments(read_arguments(arguments), folder, say)
        return _call(main, given)


def _run_arguments(arguments: Arguments, folder: Path, say: Callable[[str], None]) -> list[str]:
    """Move what must change into a file of arguments, which can name several folders of tasks."""
    settings: dict[str, Any] = {}
    if arguments.config is not None:
        content = read_yaml(Path(arguments.config))
        if not isinstance(content, dict):
            raise ConfigError(f"{arguments.config}: holds no mapping of lm-eval's arguments")
        settings = {str(key): value for key, value in cast("dict[object, Any]", content).items()}
    limit = arguments.limit or settings.get("limit")
    if limit is not None and _is_nothing(limit):
        raise ConfigError(f"limit {limit} leaves no item: give one above 0, or leave it out")
    own: Any = settings.get("include_path")
    listed = [own] if isinstance(own, str) else cast("list[str]", own or [])
    settings["include_path"] = [str(TASKS_PATH), *(arguments.include_path or listed)]
    cache = arguments.use_cache or settings.pop("use_cache", None)
    rest = list(arguments.rest)
    if cache is not None:
        model = arguments.model or str(settings.get("model") or "hf")
        keyed = f"{cache}.{cache_key(model, arguments.model_args or settings.get('model_args'))}"
        say(f"rubric-eval: answers of this model are cached in {keyed}_rank*.db")
        rest += ["--use_cache", keyed]
    path = folder / "arguments.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    return ["run", *rest, "--config", str(path)]


def _with_tasks(given: list[str], say: Callable[[str], None]) -> list[str]:
    if any(one.split("=", 1)[0] == "--include_path" for one in given):
        say(
            "rubric-eval: `ls` and `validate` of lm-eval take one --include_path; yours is used, "
            "so our tasks are not among what follows"
        )
        return given
    return [*given, "--include_path", str(TASKS_PATH)]


def _is_nothing(limit: object) -> bool:
    try:
        return float(str(limit)) <= 0
    except ValueError:
        return False  # argparse says what is wrong with it


def _call(main: Callable[[], None], arguments: Sequence[str]) -> int:
    before = sys.argv
    sys.argv = [_PROGRAM, *arguments]
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)  # noqa: T201  # what the interpreter would do
            return 1
        return ended.code or 0
    except RubricError:
        raise
    except (AssertionError, ValueError) as error:  # how lm-eval refuses what it was given
        if logging.getLogger("lm_eval").isEnabledFor(logging.DEBUG):
            raise
        raise ConfigError(
            f"lm-eval ended with {type(error).__name__}: {error} (LMEVAL_LOG_LEVEL=DEBUG says "
            "where)"
        ) from error
    finally:
        sys.argv = before
    return 0
