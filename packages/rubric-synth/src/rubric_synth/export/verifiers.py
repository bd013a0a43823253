"""verifiers: a v1 taskset whose judge is the plugin of `rubric_judge`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rubric_synth.export.environment import (
    JUDGE_FOLDER,
    Environment,
    File,
    Target,
)
from rubric_synth.export.package import template

_PRIME_RL = ("with_prime_rl.toml", "with_prime_rl_evals.toml")
_USAGE = """\
```bash
vf-eval {name} --env.agent.harness.id null --env.agent.runtime.type subprocess \\
    --model MODEL --client.base-url http://127.0.0.1:8000/v1 --client.api-key-var MY_KEY \\
    --push False
```

`--push False` keeps the traces here; without it `vf-eval` sends them to Prime Intellect's servers.

With prime-rl, training, and an evaluation against a server that runs:

```bash
rl @ with_prime_rl.toml --model.name MODEL
evals @ with_prime_rl_evals.toml --model MODEL
```

The judge is that of this package, unless `[[env.taskset.task.judges]]` names another."""


def _files(environment: Environment) -> Iterator[File]:
    content = template("taskset.py.j2", {"e": environment})
    yield File(environment.path("taskset.py"), content)
    for name in _PRIME_RL:
        yield File(PurePosixPath(name), template(f"{name}.j2", {"e": environment}))
    if environment.fixtures:
        adapter = template("falsepass_adapter.py.j2", {"e": environment})
        path = environment.path(JUDGE_FOLDER, "falsepass_adapter.py")
        yield File(path, adapter, side="judge")


TARGET = Target(
    name="verifiers",
    stack="verifiers==0.4.0",
    files=_files,
    dependencies=("verifiers>=0.4,<0.5",),
    usage=_USAGE,
)
