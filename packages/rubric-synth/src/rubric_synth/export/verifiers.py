"""verifiers: a v1 taskset whose judge is the plugin of `rubric_judge`."""

from __future__ import annotations

from collections.abc import Iterator

from rubric_synth.export.environment import Environment, File, Target
from rubric_synth.export.package import template

_USAGE = """\
```bash
vf-eval {name} --env.agent.harness.id null --env.agent.runtime.type subprocess \\
    --model MODEL --client.base-url http://127.0.0.1:8000/v1 --client.api-key-var MY_KEY
```

In prime-rl's configuration the taskset has the id `{name}`."""


def _files(environment: Environment) -> Iterator[File]:
    content = template("taskset.py.j2", {"e": environment})
    yield File(environment.path("taskset.py"), content)


TARGET = Target(
    name="verifiers",
    stack="verifiers==0.4.0",
    files=_files,
    dependencies=("verifiers>=0.4,<0.5",),
    usage=_USAGE,
)
