"""Routes for messages that nobody could handle."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path, Query

from trace_platform.dispatcher.api.parameters import Limit
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.events.dead_letters import (
    change_dead_letters,
    list_dead_letters,
    show_dead_letter,
)
from trace_platform.wire.dead_letter import DeadLetter, DeadLetterIds, DeadLetterList
from trace_platform.wire.task import Accepted

Queue = Annotated[str, Query(min_length=1, max_length=80, description="Only of this queue.")]
Letter = Annotated[int, Path(ge=1, le=2**63 - 1, description="Number of the message.")]


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/dead-letters",
        summary="Messages that nobody could handle, the newest first",
        **route("dead letters", "user"),
    )
    async def dead_letters(queue: Queue | None = None, limit: Limit = 100) -> DeadLetterList:
        return await list_dead_letters(dispatcher.state, dispatcher.dead_letters, queue, limit)

    @app.get(
        "/v1/dead-letters/{letter}",
        summary="A message that nobody could handle",
        **route("dead letters", "user", 404),
    )
    async def show(letter: Letter) -> DeadLetter:
        return await show_dead_letter(dispatcher.state, dispatcher.dead_letters, letter)

    @app.post(
        "/v1/dead-letters/resend",
        summary="Send dead letters again",
        **route("dead letters", "user", 404),
    )
    async def resend(body: DeadLetterIds) -> Accepted:
        """Each is a message like any other again, in the queue that it was in."""
        return Accepted(
            accepted=await change_dead_letters(dispatcher.dead_letters.resend, body.ids)
        )

    @app.post(
        "/v1/dead-letters/drop",
        summary="Forget dead letters",
        **route("dead letters", "user", 404),
    )
    async def drop(body: DeadLetterIds) -> Accepted:
        return Accepted(accepted=await change_dead_letters(dispatcher.dead_letters.drop, body.ids))
