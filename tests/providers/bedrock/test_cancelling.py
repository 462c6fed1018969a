"""A cancelled call ends at once, thread and all, though AWS's SDK blocks; others on the same model go on."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from runwell.providers.bedrock import ChatBedrockConverse
from runwell.providers.bedrock.severing import Call
from runwell.testing import WireServer
from runwell.testing.wire import BedrockDialect, Said


class Watched(ChatBedrockConverse):
    """Tells when the SDK has given its thread back."""

    begun: Any = None
    over: Any = None

    def _post(self, client: Any, request: Any) -> Any:
        self.begun.release()
        try:
            return super()._post(client, request)
        finally:
            self.over.release()


def model(wire: WireServer) -> Watched:
    begun, over = threading.Semaphore(0), threading.Semaphore(0)
    return Watched(model="m", base_url=wire.base_url, api_key="k", region_name="us-east-1", begun=begun, over=over)


async def started(model: Watched) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(model.ainvoke("Hi"))
    await asyncio.to_thread(model.begun.acquire)
    return task


@pytest.mark.parametrize("warm", [False, True], ids=["new", "kept"])
def test_a_cancelled_call_gives_its_thread_back(warm: bool) -> None:
    """Whether its connection is new or was kept from a call before; the next call has another one."""

    async def go() -> None:
        if warm:
            wire.say("Hello.")
            assert (await asked.ainvoke("Hi")).text == "Hello."
            assert asked.over.acquire(timeout=0)
            assert asked.begun.acquire(timeout=0)
        wire.hang()
        task = await started(asked)
        while len(wire.requests) < warm + 1:  # it waits for the answer
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(asked.over.acquire, True, 5), "the thread waits for the answer still"
        wire.say("Yes.")
        assert (await asked.ainvoke("Well?")).text == "Yes."

    with WireServer(BedrockDialect()) as wire:
        asked = model(wire)
        asyncio.run(go())


def test_a_call_beside_it_goes_on() -> None:
    async def go() -> None:
        wire.hang()
        one = await started(asked)
        while not wire.requests:
            await asyncio.sleep(0)
        hold, held = threading.Event(), wire.script

        def late(handler: Any) -> None:
            hold.wait(10)
            wire._whole(wire.dialect.answer(said))(handler)

        held.append(late)
        two = await started(asked)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        hold.set()
        assert (await two).text == "Yes."

    said = Said(text="Yes.")
    with WireServer(BedrockDialect()) as wire:
        asked = model(wire)
        asyncio.run(go())


def test_only_a_connection_that_the_call_holds_is_cut() -> None:
    """One that was given back may be another call's by then; one that comes late is cut as it comes."""

    class Kept:
        def __init__(self) -> None:
            self.sock, self.other = socket.socketpair()
            self.sock.settimeout(5)

        def is_cut(self) -> bool:
            try:
                self.other.send(b"x")
                return self.sock.recv(1) == b""
            except OSError:
                return True

    given_back, held, late = Kept(), Kept(), Kept()
    for kept, is_cut in ((given_back, False), (held, True)):
        call = Call()
        call.takes(kept)
        if kept is given_back:
            call.takes(None)
        call.sever()
        assert kept.is_cut() is is_cut
    call.takes(late)
    assert late.is_cut()
    for kept in (given_back, held, late):
        kept.sock.close()
        kept.other.close()


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_stream_that_nobody_reads_any_more_gives_its_thread_back(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """And nobody is told of an error that is none."""

    class Closes:
        """The SDK's stream, which tells when its thread has left it."""

        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __getattr__(self, name: str) -> Any:
            return getattr(self.stream, name)

        def __next__(self) -> Any:
            return next(self.stream)

        def close(self) -> None:
            self.stream.close()
            over.release()

    class Streams(Watched):
        def _begin(self, client: Any, request: Any) -> Any:
            return Closes(super()._begin(client, request))

    async def go() -> None:
        chunks: Any = asked.astream("Hi")
        assert (await anext(chunks)).text == "Hel"
        if how == "cancel":
            task = asyncio.ensure_future(anext(chunks))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await chunks.aclose()
        assert await asyncio.to_thread(over.acquire, True, 5), "the thread waits for more still"
        wire.say("Yes.")
        assert "".join([chunk.text async for chunk in asked.astream("Well?")]) == "Yes."

    dialect = BedrockDialect()
    with WireServer(dialect) as wire:
        wire.events(*dialect.events(Said(pieces=["Hel", "lo"]))[:2], then="hang")
        over = threading.Semaphore(0)
        asked = Streams(model="m", base_url=wire.base_url, api_key="k", region_name="us-east-1")
        asyncio.run(go())
    assert not caplog.records
