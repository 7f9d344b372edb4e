"""A TCP proxy that holds back every byte for a while, in both directions.

    delay_proxy.py PORT DELAY_MS [HOST:PORT]

Listens on all addresses. Without HOST:PORT it connects to where the client wanted to go before an
nft rule redirected it here. An end of stream and a reset are passed on, also late."""

import asyncio
import collections
import socket
import struct
import sys

SO_ORIGINAL_DST = 80
CHUNK_BYTES_MAX = 64 << 10
HELD_CHUNKS_MAX = 64  # one direction: 4 MiB; then the sender has to wait


class Direction:
    """Bytes of one reader, on their way to one writer."""

    def __init__(self, reader, writer, delay_s):
        self.reader, self.writer, self.delay_s = reader, writer, delay_s
        self.held = collections.deque()  # (when due, bytes; empty: the end of the stream)
        self.changed = asyncio.Condition()

    async def take(self):
        ended = False
        while not ended:
            try:
                data = await self.reader.read(CHUNK_BYTES_MAX)
            except OSError:
                data = None  # reset
            ended = not data
            due = asyncio.get_running_loop().time() + self.delay_s
            async with self.changed:
                await self.changed.wait_for(lambda: len(self.held) < HELD_CHUNKS_MAX)
                self.held.append((due, data))
                self.changed.notify_all()

    async def give(self):
        """True: the stream ended in order; False: it was reset."""
        while True:
            async with self.changed:
                await self.changed.wait_for(lambda: self.held)
                due, data = self.held.popleft()
                self.changed.notify_all()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            if data is None:
                return False
            try:
                if data == b"":
                    self.writer.write_eof()
                    return True
                self.writer.write(data)
                await self.writer.drain()
            except OSError:
                return False


def original_destination(writer):
    data = writer.get_extra_info("socket").getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    port, address = struct.unpack_from("!2xH4s", data)
    return socket.inet_ntoa(address), port


async def serve(target, delay_s, reader, writer):
    writers = [writer]
    tasks = []
    try:
        host, port = target or original_destination(writer)
        await asyncio.sleep(delay_s)
        far_reader, far_writer = await asyncio.open_connection(host, port)
        writers.append(far_writer)
        gives = []
        for direction in (Direction(reader, far_writer, delay_s),
                          Direction(far_reader, writer, delay_s)):
            tasks.append(asyncio.create_task(direction.take()))
            gives.append(asyncio.create_task(direction.give()))
        tasks += gives
        pending = gives
        in_order = True
        while pending and in_order:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            in_order = all(task.result() for task in done)
        if not in_order:
            for each in writers:
                each.transport.abort()
    except OSError:
        writer.transport.abort()  # nobody there
    finally:
        for task in tasks:
            task.cancel()
        for each in writers:
            each.close()


async def main():
    port, delay_s = int(sys.argv[1]), int(sys.argv[2]) / 1000
    target = None
    if len(sys.argv) > 3:
        host, _, target_port = sys.argv[3].rpartition(":")
        target = host, int(target_port)
    server = await asyncio.start_server(
        lambda reader, writer: serve(target, delay_s, reader, writer), "0.0.0.0", port)
    print(f"listens on {port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
