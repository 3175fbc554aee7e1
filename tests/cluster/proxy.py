"""A network that can be cut: connections between tasks go through it, and what is cut is neither closed nor delivered."""
import asyncio
import contextlib
import threading


class Network:
    """Ways to addresses. `way(src, dst, address)` returns the address at which `src` reaches `dst`."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self._gates, self._late, self._tasks, self._servers = {}, {}, set(), []

    def way(self, src, dst, address):
        return asyncio.run_coroutine_threadsafe(self._open(src, dst, address), self._loop).result(10)

    def cut(self, task):
        """Nothing reaches a task, and nothing comes from it."""
        self._set(task, asyncio.Event.clear)

    def mend(self, task):
        self._set(task, asyncio.Event.set)

    def delay(self, task, seconds):
        """Whatever reaches a task, or comes from it, is late."""
        for pair in self._gates:
            if task in pair:
                self._late[pair] = seconds

    def _set(self, task, change):
        for pair, gate in self._gates.items():
            if task in pair:
                self._loop.call_soon_threadsafe(change, gate)

    async def _open(self, src, dst, address):
        gate = self._gates[src, dst] = asyncio.Event()
        gate.set()
        host, port = address.split(":")

        async def meet(reader, writer):
            self._tasks.add(asyncio.current_task())
            try:
                await gate.wait()
                there = await asyncio.open_connection(host, int(port))
            except OSError:
                writer.close()
                return
            try:
                def late():
                    return self._late.get((src, dst), 0.0)
                await asyncio.gather(_pass(gate, late, reader, there[1]), _pass(gate, late, there[0], writer))
            finally:
                self._tasks.discard(asyncio.current_task())
                for w in (writer, there[1]):
                    w.close()
        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def close(self):
        async def end():
            for server in self._servers:
                server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0.05)
        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


async def _pass(gate, late, reader, writer):
    """Carries bytes one way, as long as the way is open."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            await gate.wait()
            await asyncio.sleep(late())
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()
