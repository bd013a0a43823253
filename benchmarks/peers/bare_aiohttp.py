"""What the calls alone cost: aiohttp sends our prompt and reads the JSON of the reply.

No check, no retry, no pool: the bound that a client on the same HTTP library cannot go below.
"""

import json

import aiohttp
from turns import Exercise, in_flight, read_workload, take_turns


def main() -> None:
    """Take turns."""
    workload = read_workload()
    session: aiohttp.ClientSession | None = None

    async def ask(exercise: Exercise) -> None:
        nonlocal session
        if session is None:
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        body = {
            "model": "plain",
            "messages": [
                {"role": "system", "content": workload.system},
                {"role": "user", "content": workload.before + exercise.response},
            ],
            "temperature": 0.1,
            "max_tokens": 16_000,
        }
        async with session.post(
            f"{workload.url}/chat/completions", json=body
        ) as answer:
            reply = json.loads(await answer.read())
        judgement = json.loads(reply["choices"][0]["message"]["content"])
        if len(judgement["scores"]) != len(workload.criteria):
            raise RuntimeError(f"{len(judgement['scores'])} criteria scored")

    async def judge(exercises: list[Exercise], limit: int) -> None:
        await in_flight(ask, iter(exercises), limit)

    take_turns(judge, workload, ("aiohttp",))


main()
