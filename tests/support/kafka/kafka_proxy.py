"""A TCP proxy that understands Kafka's request header: delays, holds, drops and cuts by API.

    with kafka_proxy.Proxy.of(broker) as proxy:           # a broker with a proxied listener
        lost = proxy.rule("EndTxn", at="answer", action="cut")    # applied, the answer never comes
        ... a client of broker.proxied_bootstrap commits ...
        lost.wait()                                       # until it has happened

A rule acts on requests of one API (or on their answers) from the `nth` one on that comes after the
rule was made, `count` times:
    delay  it goes on `seconds` later
    hold   it goes on when release() is called, even if its client has closed the connection by
           then; release(forward=False) loses it and cuts the connection
    drop   it is lost, the connection stays
    cut    it is lost, and both ends of the connection are closed
What follows on the same connection in the same direction waits behind it. Which answers a rule
concerns is decided when their requests pass. The first rule that matches acts.

Run as a program it serves the same by a control port, for tests in other languages: one JSON
object a line, {"do": "add", "api": "EndTxn", "at": "answer", "action": "cut"}; see COMMANDS.
Standard library only.
"""

import argparse
import collections
import contextlib
import json
import socket
import struct
import sys
import threading
import time

APIS = {
    "Produce": 0, "Fetch": 1, "ListOffsets": 2, "Metadata": 3, "OffsetCommit": 8,
    "OffsetFetch": 9, "FindCoordinator": 10, "JoinGroup": 11, "Heartbeat": 12, "LeaveGroup": 13,
    "SyncGroup": 14, "SaslHandshake": 17, "ApiVersions": 18, "CreateTopics": 19,
    "DeleteTopics": 20, "InitProducerId": 22, "AddPartitionsToTxn": 24, "AddOffsetsToTxn": 25,
    "EndTxn": 26, "TxnOffsetCommit": 28, "DescribeConfigs": 32, "SaslAuthenticate": 36,
}
NAMES = {key: name for name, key in APIS.items()}
# Those that begin with the transactional id, and from which version on in compact form.
TRANSACTIONAL = {0: 9, 22: 2, 24: 3, 25: 3, 26: 3, 28: 3}
PLACES = ("request", "answer")
ACTIONS = ("delay", "hold", "drop", "cut")

FRAME_BYTES_MAX = 256 << 20
TRACE_MAX = 2000
WAIT_SECONDS = 30
ANSWER_SECONDS = 10   # for answers to what a gone client had sent
CONNECT_SECONDS = 10
COMMANDS = """\
{"do": "add", "api": NAME, "at": "request"|"answer", "action": "delay"|"hold"|"drop"|"cut",
 "nth": 1, "count": 1 or null, "seconds": 0, "client_id": TEXT, "transactional_id": TEXT}
                                                -> {"rule": N}
{"do": "wait", "rule": N, "hits": 1, "seconds": 30}   until it has acted so often -> {"hits": N}
{"do": "release", "rule": N, "forward": true}   what it holds, and what it would hold
{"do": "remove", "rule": N}, {"do": "clear"}    rules end; what they hold goes on
{"do": "cut"}                                   all connections
{"do": "refuse", "on": true}                    new connections are closed at once
{"do": "counts"}                                -> {"counts": {API: requests seen}}
An answer with "error" says what was wrong."""


class Request:
    """The header of one request, and its bytes (without the length)."""

    def __init__(self, data):
        self.data = data
        self.api, self.version, self.correlation, length = struct.unpack_from(">hhih", data)
        self.body_at = 10 + max(length, 0)
        self.client_id = bytes(data[10:self.body_at]).decode(errors="replace")

    @property
    def name(self):
        return NAMES.get(self.api, str(self.api))

    @property
    def transactional_id(self):
        """None where the API has none."""
        if self.api not in TRANSACTIONAL:
            return None
        if self.version < TRANSACTIONAL[self.api]:
            length, at = struct.unpack_from(">h", self.data, self.body_at)[0], self.body_at + 2
        else:
            # No tagged field of the header is in use: one zero byte. Ids of 126 bytes and more
            # would need a second byte of length.
            length, at = self.data[self.body_at + 1] - 1, self.body_at + 2
        return None if length < 0 else bytes(self.data[at:at + length]).decode(errors="replace")


class Rule:
    """Made by Proxy.rule(). Thread: safe."""

    def __init__(self, proxy, api, at, action, nth, count, seconds, client_id, transactional_id,
                 where):
        if api not in APIS:
            raise ValueError(f"API '{api}'; known: {', '.join(APIS)}")
        if at not in PLACES or action not in ACTIONS:
            raise ValueError(f"'{action}' at '{at}'; known: {', '.join(ACTIONS)} at "
                             f"{' or '.join(PLACES)}")
        if nth < 1 or (count is not None and count < 1):
            raise ValueError(f"nth {nth}, count {count}: both begin at 1")
        self.api, self.at, self.action, self.seconds = APIS[api], at, action, seconds
        self._proxy, self._nth, self._count = proxy, nth, count
        self._client_id, self._transactional_id, self._where = client_id, transactional_id, where
        self._seen = self._taken = 0
        self._released, self._forward = threading.Event(), True
        self.hits = []  # (Request, bytes of the answer or None), in the order of acting

    def _takes(self, request):
        """Under the proxy's lock: counts the request, and says whether the rule acts on it."""
        if self.api != request.api or \
                (self._client_id is not None and self._client_id != request.client_id) or \
                (self._transactional_id is not None and
                 self._transactional_id != request.transactional_id) or \
                (self._where is not None and not self._where(request)):
            return False
        if self._count is not None and self._taken >= self._count:
            return False
        self._seen += 1
        if self._seen < self._nth:
            return False
        self._taken += 1
        return True

    def _give_back(self):
        """Under the proxy's lock: it has not acted on one that it took."""
        self._taken -= 1

    def wait(self, hits=1, seconds=WAIT_SECONDS):
        """Until it has acted so often (a held one counts from the moment it is held); the newest of
        its hits."""
        with self._proxy.changed:
            if not self._proxy.changed.wait_for(lambda: len(self.hits) >= hits, seconds):
                raise TimeoutError(f"{self} acted {len(self.hits)} times in {seconds} s, "
                                   f"not {hits}")
            return self.hits[hits - 1]

    def release(self, forward=True):
        """Lets go what it holds, and holds nothing more. The first call decides what becomes of it:
        what is held wakes up later."""
        with self._proxy.changed:
            if not self._released.is_set():
                self._forward = forward
                self._released.set()

    def remove(self):
        """Ends the rule; what it holds goes on."""
        self._proxy._remove(self)
        self.release(forward=True)

    def __str__(self):
        return f"rule {self.action} at {self.at} of {NAMES[self.api]}"

    def _act(self, request, answer, deliver):
        """Does it to one frame; deliver() sends it on. False: the connection is to be cut."""
        with self._proxy.changed:
            self.hits.append((request, answer))
            self._proxy.changed.notify_all()
        if self.action == "drop":
            return True
        if self.action == "cut":
            return False
        if self.action == "delay":
            self._proxy.stopping.wait(self.seconds)
        else:
            while not self._released.wait(0.05):
                if self._proxy.stopping.is_set():
                    return False
            if not self._forward:
                return False
        return deliver()


class _Connection:
    """One client's connection and its twin to the broker; a thread for each direction."""

    def __init__(self, proxy, client, broker):
        self.proxy, self.client, self.broker = proxy, client, broker
        self.pending = {}  # correlation -> (Request, the rule for its answer); proxy.changed
        self.no_answers = False  # will come any more; proxy.changed
        self.threads = [threading.Thread(target=self._requests, daemon=True),
                        threading.Thread(target=self._answers, daemon=True)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def cut(self):
        """Closes both ends; the threads see it."""
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self):
        try:
            while True:
                data = _read_frame(self.client)
                if data is None:
                    break
                if not self._request(data):
                    self.cut()
                    return
            # What was sent is the broker's to do, as if the client were there to hear of it.
            with self.proxy.changed:
                self.proxy.changed.wait_for(lambda: not self.pending or
                                            self.proxy.stopping.is_set(), ANSWER_SECONDS)
        except (OSError, ValueError):
            pass
        finally:
            self.cut()

    def _request(self, data):
        request = Request(data)
        here, there = self.proxy._rules_for(request)
        expected = False  # then _answers sees to the rule

        def deliver():
            nonlocal expected
            with self.proxy.changed:
                if self.no_answers:
                    return False
                self.pending[request.correlation] = (request, there)
                expected = True
            try:
                self.broker.sendall(struct.pack(">i", len(data)) + data)
                return True
            except OSError:
                return False
        going_on = here._act(request, None, deliver) if here else deliver()
        if there and not expected:
            with self.proxy.changed:
                there._give_back()
        return going_on

    def _answers(self):
        try:
            while True:
                data = _read_frame(self.broker)
                if data is None or not self._answer(data):
                    break
        except (OSError, ValueError):
            pass
        finally:
            with self.proxy.changed:
                # Answers that never come are none that a rule has acted on.
                for _, rule in self.pending.values():
                    if rule:
                        rule._give_back()
                self.pending.clear()
                self.no_answers = True
                self.proxy.changed.notify_all()
            self.cut()
            self.threads[0].join()
            self.client.close()
            self.broker.close()
            self.proxy._forget(self)

    def _answer(self, data):
        correlation = struct.unpack_from(">i", data)[0]
        with self.proxy.changed:
            request, rule = self.pending.get(correlation, (None, None))
        self.proxy._note("answer", request)

        def deliver():
            # Of a client that is gone the answers are still read: they tell what the broker did.
            with contextlib.suppress(OSError):
                self.client.sendall(struct.pack(">i", len(data)) + data)
            return True
        going_on = rule._act(request, data, deliver) if rule else deliver()
        with self.proxy.changed:
            self.pending.pop(correlation, None)
            self.proxy.changed.notify_all()
        return going_on


def _read_frame(source):
    """The bytes behind one length; None when the other side has closed."""
    head = _read_exactly(source, 4)
    if head is None:
        return None
    length = struct.unpack(">i", head)[0]
    if not 0 < length <= FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes")
    return _read_exactly(source, length)


def _read_exactly(source, length):
    data = bytearray(length)
    view, at = memoryview(data), 0
    while at < length:
        try:
            got = source.recv_into(view[at:])
        except ConnectionError:
            return None
        if got == 0:
            return None
        at += got
    return data


class Proxy:
    """Listens on one port of 127.0.0.1 and forwards to another. Thread: safe."""

    def __init__(self, listen_port, target_port):
        self.listen_port, self.target_port = listen_port, target_port
        self.changed = threading.Condition()
        self.stopping = threading.Event()
        self.counts = collections.Counter()  # requests seen, by name of API
        # (monotonic s, "request" or "answer", name of API, client id, correlation), for a failure.
        self.trace = collections.deque(maxlen=TRACE_MAX)
        self._rules, self._connections, self._refusing = [], set(), False
        self._listener = self._thread = None

    @classmethod
    def of(cls, broker):
        """For a kafka_broker.Broker with a proxied listener."""
        target, listen = broker.proxied_ports
        return cls(listen, target)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self._listener = socket.create_server(("127.0.0.1", self.listen_port), backlog=64)
        self.listen_port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def stop(self):
        """Ends all connections and rules; what is held is lost."""
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        with self.changed:
            self.changed.notify_all()
            connections = list(self._connections)
        for connection in connections:
            connection.cut()
        for connection in connections:
            for thread in connection.threads:
                thread.join(WAIT_SECONDS)

    def rule(self, api, at="request", action="hold", nth=1, count=1, seconds=0.0, client_id=None,
             transactional_id=None, where=None):
        """A new Rule behind those that there are. `count` None: for ever. `where(request)` may look
        at the Request; it is called under a lock."""
        rule = Rule(self, api, at, action, nth, count, seconds, client_id, transactional_id, where)
        with self.changed:
            self._rules.append(rule)
        return rule

    def clear(self):
        """Removes all rules; what they hold goes on."""
        with self.changed:
            rules, self._rules = self._rules, []
        for rule in rules:
            rule.release(forward=True)

    def cut(self):
        """Cuts all connections that there are."""
        with self.changed:
            connections = list(self._connections)
        for connection in connections:
            connection.cut()

    def refuse(self, on=True):
        """Closes new connections at once. With cut(): the broker is away."""
        self._refusing = on

    def wait_for_requests(self, api, count, seconds=WAIT_SECONDS):
        """Until so many requests of the API have been seen since the start."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.counts[api] >= count, seconds):
                raise TimeoutError(f"{self.counts[api]} requests {api} in {seconds} s, not {count}")

    def _remove(self, rule):
        with self.changed:
            if rule in self._rules:
                self._rules.remove(rule)

    def _rules_for(self, request):
        self._note("request", request)
        with self.changed:
            self.counts[request.name] += 1
            self.changed.notify_all()
            return tuple(next((rule for rule in self._rules
                               if rule.at == place and rule._takes(request)), None)
                         for place in PLACES)

    def _note(self, what, request):
        if request:
            self.trace.append((time.monotonic(), what, request.name, request.client_id,
                               request.correlation))

    def _accept(self):
        while not self.stopping.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self.target_port), CONNECT_SECONDS)
            except OSError:
                client.close()
                continue
            for end in (client, broker):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(self, client, broker)
            with self.changed:
                # Asked again: cut() may have been here since.
                refused = self._refusing
                if not refused:
                    self._connections.add(connection)
            if refused:
                client.close()
                broker.close()
                continue
            connection.start()

    def _forget(self, connection):
        with self.changed:
            self._connections.discard(connection)
            self.changed.notify_all()


class Control:
    """Carries out COMMANDS. Thread: one a connection."""

    def __init__(self, proxy):
        self.proxy, self.rules = proxy, []

    def answer(self, line):
        try:
            command = json.loads(line)
            return self._do(command.pop("do"), command)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, TimeoutError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _do(self, what, options):
        if what == "add":
            self.rules.append(self.proxy.rule(**options))
            return {"rule": len(self.rules)}
        if what == "counts":
            return {"counts": dict(self.proxy.counts)}
        if what in ("clear", "cut", "refuse"):
            getattr(self.proxy, what)(**options)
            return {}
        number = options.pop("rule")
        if not 1 <= number <= len(self.rules):
            raise ValueError(f"rule {number}; there are {len(self.rules)}")
        rule = self.rules[number - 1]
        if what == "wait":
            rule.wait(**options)
            return {"hits": len(rule.hits)}
        if what in ("release", "remove"):
            getattr(rule, what)(**options)
            return {}
        raise ValueError(f"'{what}' is no command:\n{COMMANDS}")

    def serve(self, listener):
        """For ever, a thread a connection."""
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection):
        with connection, contextlib.suppress(OSError):
            for line in connection.makefile("r", encoding="utf-8"):
                connection.sendall(json.dumps(self.answer(line)).encode() + b"\n")


def send(control_port, command, seconds=WAIT_SECONDS * 2):
    """One command to a proxy that runs as a program; its answer."""
    with socket.create_connection(("127.0.0.1", control_port), seconds) as connection:
        connection.sendall(json.dumps(command).encode() + b"\n")
        return json.loads(connection.makefile("r", encoding="utf-8").readline())


def main():
    parser = argparse.ArgumentParser(
        description="A TCP proxy on 127.0.0.1 that delays, holds, drops and cuts Kafka requests "
        "and answers. Ends when its standard input does.",
        epilog="commands of the control port, one JSON object a line:\n" + COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=int, default=0, metavar="C", help="0 chooses a free port")
    parser.add_argument("--target", type=int, metavar="B", help="the broker's port")
    parser.add_argument("--control", type=int, default=0, metavar="P", help="0 chooses a free port")
    parser.add_argument("--send", nargs=2, metavar=("P", "JSON"),
                        help="send one command to a proxy that runs, print its answer, and end")
    options = parser.parse_args()
    if options.send:
        answer = send(int(options.send[0]), json.loads(options.send[1]))
        print(json.dumps(answer))
        return 1 if "error" in answer else 0
    if not options.target:
        parser.error("--target is missing")
    with Proxy(options.listen, options.target) as proxy, \
            socket.create_server(("127.0.0.1", options.control)) as listener:
        threading.Thread(target=Control(proxy).serve, args=(listener,), daemon=True).start()
        print(f"listen {proxy.listen_port} control {listener.getsockname()[1]}", flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
