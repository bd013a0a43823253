#!/usr/bin/env bash
# anyio 4.16.0: does Ctrl-C survive a task group in which a reader takes a closed stream for a full one?
#
# Guessed: the host task is interrupted, its `with` closes the sending end, and the group cancels the child
#          that reads: KeyboardInterrupt leaves anyio.run on either backend.
# Seen:    closing the stream wakes the child before the group cancels it. It sees the end of the stream, as
#          after the last item, and is not cancelled any more, for its wait is over. What it then raises
#          replaces the interrupt on asyncio: an ExceptionGroup of the ValueError alone leaves anyio.run, and
#          KeyboardInterrupt is nowhere in it. On trio 0.33.0 the group holds both.
# So: close a stream where the items are complete, and leave it open where the sender was cut off.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check anyio==4.16.0 trio==0.33.0
cat > "$folder/interrupted.py" <<'PYTHON'
import importlib.metadata as metadata
import signal
import sys

import anyio


def kinds(error):
    if isinstance(error, BaseExceptionGroup):
        return sorted(kind for one in error.exceptions for kind in kinds(one))
    return [type(error).__name__]


async def read(receive):
    async with receive:
        count = len([item async for item in receive])
    if count < 3:
        raise ValueError(f"{count} of 3 items")


async def host(closes):
    send, receive = anyio.create_memory_object_stream(8)
    async with anyio.create_task_group() as group:
        group.start_soon(read, receive)
        try:
            send.send_nowait(1)
            await anyio.wait_all_tasks_blocked()
            signal.raise_signal(signal.SIGINT)
            await anyio.sleep(60)
        finally:
            if closes:
                send.close()


print("anyio", metadata.version("anyio"), "trio", metadata.version("trio"))
seen = {
    ("asyncio", True): ["ValueError"],
    ("asyncio", False): ["KeyboardInterrupt"],
    ("trio", True): ["KeyboardInterrupt", "ValueError"],
    ("trio", False): ["KeyboardInterrupt"],
}
changed = 0
for (backend, closes), wanted in seen.items():
    try:
        anyio.run(host, closes, backend=backend)
        found = []
    except BaseException as error:
        found = kinds(error)
    print(backend, "closed" if closes else "left open", "->", found)
    changed += found != wanted
sys.exit(changed > 0)
PYTHON
"$folder/env/bin/python" -W ignore "$folder/interrupted.py"
