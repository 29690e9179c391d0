"""The routes for ABIs."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path, Query

from trace_platform.dispatcher.abis.add_abi import add_abi
from trace_platform.dispatcher.abis.change_proxies import add_proxy, remove_proxy
from trace_platform.dispatcher.abis.guess_abi import guess_abi
from trace_platform.dispatcher.abis.list_abis import list_abis, show_abi
from trace_platform.dispatcher.abis.remove_abi import remove_abi
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.domain.chains import MAX_CHAIN_ID
from trace_platform.wire import abi

_Named = Annotated[str, Path(min_length=1, max_length=64, description="Name of the ABI.")]


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post("/v1/abis", summary="Add an ABI, or a version of one", **route("abis", "user", 409))
    async def add(body: abi.AddAbi) -> abi.AbiChanged:
        """What was decoded by another version where this one is valid is decoded again."""
        done = await add_abi(dispatcher.state, dispatcher.org_id, body)
        dispatcher.wake.set()
        return done

    @app.get(
        "/v1/abis",
        summary="ABIs, where they are valid, and who decodes by them",
        **route("abis", "user"),
    )
    async def listing(
        chain_id: Annotated[
            int | None, Query(ge=1, le=MAX_CHAIN_ID, description="Only of the chain with this id.")
        ] = None,
        address: Annotated[
            str | None,
            Query(pattern=r"^0x[0-9a-fA-F]{40}$", description="Only what decodes this contract."),
        ] = None,
    ) -> abi.AbiList:
        lower = address.lower() if address else None
        return await list_abis(dispatcher.state, dispatcher.org_id, chain_id, lower)

    @app.get(
        "/v1/abis/{name}", summary="An ABI with its events and functions",
        **route("abis", "user", 404),
    )  # fmt: skip
    async def show(name: _Named) -> abi.AbiDetail:
        return await show_abi(dispatcher.state, dispatcher.org_id, name)

    @app.post(
        "/v1/abis/{name}/removal",
        summary="Remove a version of an ABI",
        **route("abis", "user", 404, 409),
    )
    async def remove(name: _Named, body: abi.RemoveAbi) -> abi.AbiRemoved:
        """Refused while a job decodes by it, unless it is forced: then that is done again."""
        done = await remove_abi(dispatcher.state, dispatcher.org_id, name, body)
        dispatcher.wake.set()
        return done

    @app.post(
        "/v1/abi-guesses",
        summary="Find the ABIs that know a signature, a topic or a selector",
        **route("abis", "user"),
    )
    async def guess(body: abi.GuessAbi) -> abi.AbiGuesses:
        """Among those that come with Trace and those that are stored."""
        return await guess_abi(dispatcher.state, dispatcher.org_id, body)

    @app.post(
        "/v1/abi-proxies",
        summary="Say by which contract's ABIs a proxy is decoded",
        **route("abis", "user", 409),
    )
    async def add_stand_in(body: abi.AddProxy) -> abi.AbiChanged:
        done = await add_proxy(dispatcher.state, dispatcher.org_id, body)
        dispatcher.wake.set()
        return done

    @app.post(
        "/v1/abi-proxies/removal",
        summary="Take back by which contract's ABIs a proxy is decoded",
        **route("abis", "user", 404),
    )
    async def remove_stand_in(body: abi.RemoveProxy) -> abi.ProxyRemoved:
        done = await remove_proxy(dispatcher.state, dispatcher.org_id, body)
        dispatcher.wake.set()
        return done
