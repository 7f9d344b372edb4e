"""Goal: what checks Kafka in our tests reads and writes the published format, and the proxy does to
a request what it was told.

Method: bytes laid out by hand after the format's description; check vectors of RFC 3720; a server
of the test's own behind the proxy. No broker.
"""

import gzip
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import kafka_proxy  # noqa: E402
import kafka_records  # noqa: E402
from kafka_records import BadBatch, Record  # noqa: E402

FETCH, INIT_PRODUCER_ID, END_TXN = 1, 22, 26
WAIT_S = 20


def bitwise_crc32c(data):
    """By the polynomial's definition, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def laid_out(body, count, attributes=0, base_offset=0, first_time=1000, largest_time=1007,
             producer=(-1, -1, -1)):
    """A record batch, field by field."""
    checked = b"".join((
        attributes.to_bytes(2, "big"),
        (count - 1).to_bytes(4, "big"),
        first_time.to_bytes(8, "big"),
        largest_time.to_bytes(8, "big"),
        producer[0].to_bytes(8, "big", signed=True),
        producer[1].to_bytes(2, "big", signed=True),
        producer[2].to_bytes(4, "big", signed=True),
        count.to_bytes(4, "big"),
        body))
    return b"".join((
        base_offset.to_bytes(8, "big"),
        (4 + 1 + 4 + len(checked)).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",  # leader epoch
        b"\x02",
        bitwise_crc32c(checked).to_bytes(4, "big"),
        checked))


# length 14 (zigzag 28), attributes, +7 ms (14), offset +1 (2), key null (1), value "ab" (4),
# one header (2): name "h" (2), value "xyz" (6)
SECOND_ROW = bytes([28, 0, 14, 2, 1, 4]) + b"ab" + bytes([2, 2]) + b"h" + bytes([6]) + b"xyz"
# length 7 (14), attributes, +0 ms, offset +0, key "k" (2), value null (1), no headers
FIRST_ROW = bytes([14, 0, 0, 0, 2]) + b"k" + bytes([1, 0])
ROWS = [Record(b"k", None, [], 1000), Record(None, b"ab", [("h", b"xyz")], 1007)]


class Crc(unittest.TestCase):
    def test_vectors_of_rfc_3720(self):
        for data, crc in ((bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43),
                          (bytes(range(32)), 0x46DD794E),
                          (bytes(range(31, -1, -1)), 0x113FDB5C)):
            self.assertEqual(kafka_records.crc32c(data), crc)

    def test_odd_lengths(self):
        self.assertEqual(kafka_records.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(kafka_records.crc32c(b"a"), bitwise_crc32c(b"a"))
        self.assertEqual(kafka_records.crc32c(b""), 0)


class Records(unittest.TestCase):
    def decode(self, data):
        return list(kafka_records.decode_batches(data, partition=3))

    def assert_rows(self, records, base_offset=0):
        self.assertEqual(records, [
            Record(row.key, row.value, row.headers, row.timestamp, 3, base_offset + i)
            for i, row in enumerate(ROWS)])

    def test_varints_are_zigzag(self):
        for value, encoded in ((0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (300, "d804"),
                               (2147483647, "feffffff0f"), (-2147483648, "ffffffff0f")):
            out = bytearray()
            kafka_records.write_varint(out, value)
            self.assertEqual(out.hex(), encoded)
            self.assertEqual(kafka_records.read_varint(out, 0), (value, len(out)))

    def test_a_batch_laid_out_by_hand_is_read(self):
        [batch] = self.decode(laid_out(FIRST_ROW + SECOND_ROW, 2, base_offset=40,
                                       producer=(9, 4, 77)))
        self.assert_rows(batch.records, 40)
        self.assertEqual((batch.base_offset, batch.last_offset), (40, 41))
        self.assertEqual((batch.producer_id, batch.producer_epoch, batch.base_sequence),
                         (9, 4, 77))
        self.assertEqual((batch.transactional, batch.control, batch.codec), (False, None, "none"))

    def test_a_written_batch_is_the_one_laid_out_by_hand(self):
        self.assertEqual(kafka_records.encode_batch(ROWS), laid_out(FIRST_ROW + SECOND_ROW, 2))
        self.assertEqual(
            kafka_records.encode_batch(ROWS, 9, 4, 77, transactional=True),
            laid_out(FIRST_ROW + SECOND_ROW, 2, attributes=0x10, producer=(9, 4, 77)))

    def test_gzip_both_ways(self):
        [batch] = self.decode(laid_out(gzip.compress(FIRST_ROW + SECOND_ROW), 2, attributes=1))
        self.assert_rows(batch.records)
        written = kafka_records.encode_batch(ROWS, gzip=True)
        self.assertEqual(written[22], 1)
        self.assertEqual(gzip.decompress(written[61:]), FIRST_ROW + SECOND_ROW)

    def test_log_append_time_is_the_batch_s(self):
        [batch] = self.decode(laid_out(FIRST_ROW + SECOND_ROW, 2, attributes=0x08,
                                       largest_time=5000))
        self.assertEqual([row.timestamp for row in batch.records], [5000, 5000])

    def test_control_batches(self):
        # length 16 (32), attributes, +0, +0, key of 4 (8): version 0, type; value of 6 (12)
        for number in (kafka_records.ABORT, kafka_records.COMMIT):
            row = bytes([32, 0, 0, 0, 8, 0, 0, 0, number, 12]) + bytes(6) + bytes([0])
            self.assertEqual(len(row), 17)
            [batch] = self.decode(laid_out(row, 1, attributes=0x30))
            self.assertEqual((batch.control, batch.transactional), (number, True))

    def test_a_flipped_bit_is_seen(self):
        good = laid_out(FIRST_ROW + SECOND_ROW, 2)
        for at in range(17, len(good)):
            bad = bytearray(good)
            bad[at] ^= 0x10
            with self.assertRaises(BadBatch, msg=f"byte {at}"):
                self.decode(bad)

    def test_a_batch_cut_off_is_left_out(self):
        one = laid_out(FIRST_ROW, 1, base_offset=5)
        two = laid_out(FIRST_ROW, 1, base_offset=6)
        self.assertEqual(len(self.decode(one + two)), 2)
        for end in (len(one), len(one) + 8, len(one) + len(two) - 1):
            self.assertEqual([batch.base_offset for batch in self.decode((one + two)[:end])], [5])

    def test_other_codecs_are_refused_by_name(self):
        with self.assertRaisesRegex(BadBatch, "compressed with zstd"):
            self.decode(laid_out(b"", 1, attributes=4))


def request(api, correlation, client_id="c", body=b""):
    return struct.pack(">hhih", api, 0, correlation, len(client_id)) + client_id.encode() + body


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


class Server:
    """Answers each request with its correlation id and "done"; keeps what came, in order."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen, self.changed = [], threading.Condition()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            while data := kafka_proxy._read_frame(connection):
                correlation = struct.unpack_from(">i", data, 4)[0]
                with self.changed:
                    self.seen.append(correlation)
                    self.changed.notify_all()
                answer = struct.pack(">i", correlation) + b"done"
                try:
                    connection.sendall(struct.pack(">i", len(answer)) + answer)
                except OSError:
                    return

    def wait_for(self, correlation):
        with self.changed:
            assert self.changed.wait_for(lambda: correlation in self.seen, WAIT_S), self.seen


class Caller:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)

    def send(self, data):
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def receive(self):
        """The correlation id of the next answer; None when the connection is closed."""
        data = kafka_proxy._read_frame(self.socket)
        return None if data is None else struct.unpack_from(">i", data)[0]

    def call(self, *arguments, **options):
        self.send(request(*arguments, **options))
        return self.receive()

    def close(self):
        self.socket.close()


class Proxy(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.listener.close)
        self.proxy = kafka_proxy.Proxy(0, self.server.port)
        self.proxy.start()
        self.addCleanup(self.proxy.stop)

    def caller(self, port=None):
        caller = Caller(port or self.proxy.listen_port)
        self.addCleanup(caller.close)
        return caller

    def test_without_rules_all_passes_and_is_counted(self):
        caller = self.caller()
        self.assertEqual([caller.call(FETCH, i) for i in (1, 2)], [1, 2])
        self.assertEqual(caller.call(END_TXN, 3), 3)
        self.assertEqual(self.proxy.counts, {"Fetch": 2, "EndTxn": 1})
        self.assertEqual([entry[1:3] for entry in self.proxy.trace],
                         [("request", "Fetch"), ("answer", "Fetch")] * 2 +
                         [("request", "EndTxn"), ("answer", "EndTxn")])

    def test_a_cut_request_never_arrives(self):
        rule = self.proxy.rule("EndTxn", action="cut")
        self.assertIsNone(self.caller().call(END_TXN, 1))
        self.assertEqual(rule.wait()[0].correlation, 1)
        self.assertEqual(self.caller().call(END_TXN, 2), 2)
        self.assertEqual(self.server.seen, [2])

    def test_a_cut_answer_has_been_applied(self):
        rule = self.proxy.rule("EndTxn", at="answer", action="cut")
        self.assertIsNone(self.caller().call(END_TXN, 1))
        self.assertEqual(self.server.seen, [1])
        self.assertEqual(bytes(rule.wait()[1]), b"\0\0\0\1done")
        self.assertEqual(self.caller().call(END_TXN, 2), 2)

    def test_what_is_dropped_leaves_the_connection(self):
        self.proxy.rule("EndTxn", action="drop")
        self.proxy.rule("EndTxn", at="answer", action="drop", nth=2)
        caller = self.caller()
        caller.send(request(END_TXN, 1))  # dropped
        caller.send(request(END_TXN, 2))  # its answer is dropped
        self.assertEqual(caller.call(FETCH, 3), 3)
        self.assertEqual(self.server.seen, [2, 3])

    def test_nth_and_count(self):
        self.proxy.rule("EndTxn", action="drop", nth=2, count=2)
        caller = self.caller()
        for i in range(1, 6):
            caller.send(request(END_TXN, i))
        self.assertEqual([caller.receive() for _ in range(3)], [1, 4, 5])

    def test_a_delayed_answer_comes_later_and_so_does_what_follows(self):
        self.proxy.rule("EndTxn", at="answer", action="delay", seconds=0.3)
        caller = self.caller()
        begin = time.monotonic()
        caller.send(request(END_TXN, 1))
        caller.send(request(FETCH, 2))
        self.assertEqual([caller.receive(), caller.receive()], [1, 2])
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)

    def test_a_held_request_goes_on_after_its_client_retried_elsewhere_and_left(self):
        rule = self.proxy.rule("EndTxn")
        first = self.caller()
        first.send(request(END_TXN, 1))
        rule.wait()
        first.close()
        self.assertEqual(self.caller().call(END_TXN, 2), 2)
        self.assertEqual(self.server.seen, [2])
        rule.release()
        self.server.wait_for(1)
        self.assertEqual(self.server.seen, [2, 1])

    def test_a_held_answer_comes_when_released(self):
        rule = self.proxy.rule("EndTxn", at="answer")
        caller = self.caller()
        caller.send(request(END_TXN, 1))
        rule.wait()
        self.assertEqual(self.server.seen, [1])
        rule.release()
        self.assertEqual(caller.receive(), 1)

    def test_what_is_held_can_be_lost(self):
        rule = self.proxy.rule("EndTxn")
        caller = self.caller()
        caller.send(request(END_TXN, 1))
        rule.wait()
        rule.release(forward=False)
        rule.remove()  # no second thoughts about what has not woken up yet
        self.assertIsNone(caller.receive())
        self.assertEqual(self.server.seen, [])

    def test_rules_of_one_client_and_of_one_transactional_id(self):
        self.proxy.rule("Fetch", action="cut", client_id="weir-a")
        self.proxy.rule("InitProducerId", action="cut", transactional_id="sink-1")
        caller = self.caller()
        self.assertEqual(caller.call(FETCH, 1, "weir-b"), 1)
        self.assertEqual(caller.call(INIT_PRODUCER_ID, 2, body=string("sink-2") + bytes(4)), 2)
        self.assertIsNone(caller.call(INIT_PRODUCER_ID, 3, body=string("sink-1") + bytes(4)))
        self.assertIsNone(self.caller().call(FETCH, 4, "weir-a"))

    def test_the_transactional_id_of_a_compact_request(self):
        header = struct.pack(">hhih", INIT_PRODUCER_ID, 4, 1, 1) + b"c" + b"\0"
        self.assertEqual(kafka_proxy.Request(header + bytes([7]) + b"sink-1").transactional_id,
                         "sink-1")
        self.assertIsNone(kafka_proxy.Request(header + b"\0").transactional_id)

    def test_the_broker_is_away(self):
        caller = self.caller()
        self.assertEqual(caller.call(FETCH, 1), 1)
        self.proxy.refuse()
        self.proxy.cut()
        self.assertIsNone(caller.receive())
        self.assertIsNone(self.caller().receive())
        self.proxy.refuse(False)
        self.assertEqual(self.caller().call(FETCH, 2), 2)

    def test_who_was_let_in_just_before_is_refused_too(self):
        connecting, go_on = threading.Event(), threading.Event()
        connect = socket.create_connection

        def connect_slowly(*arguments):
            connecting.set()
            go_on.wait(WAIT_S)
            return connect(*arguments)
        caller = self.enterContext(socket.socket())
        caller.settimeout(WAIT_S)
        with unittest.mock.patch.object(socket, "create_connection", connect_slowly):
            caller.connect(("127.0.0.1", self.proxy.listen_port))
            self.assertTrue(connecting.wait(WAIT_S))
            self.proxy.refuse()
            self.proxy.cut()
            go_on.set()
            self.assertEqual(caller.recv(1), b"")

    def test_a_rule_for_an_answer_that_is_never_due_waits_for_the_next(self):
        for action in ("drop", "cut", "hold"):
            with self.subTest(action):
                held = self.proxy.rule("EndTxn", action=action)
                lost = self.proxy.rule("EndTxn", at="answer", action="cut")
                caller = self.caller()
                caller.send(request(END_TXN, 1))
                held.wait()
                if action == "hold":
                    self.proxy.cut()
                    time.sleep(0.1)  # until nobody reads answers there any more
                    held.release()
                caller.close()
                with self.proxy.changed:
                    self.assertTrue(self.proxy.changed.wait_for(
                        lambda: not self.proxy._connections, WAIT_S))
                self.assertIsNone(self.caller().call(END_TXN, 2))
                self.assertEqual(lost.wait()[0].correlation, 2)

    def test_wrong_rules_are_refused(self):
        for options in ({"api": "Fetsh"}, {"api": "Fetch", "action": "eat"},
                        {"api": "Fetch", "at": "noon"}, {"api": "Fetch", "nth": 0}):
            with self.assertRaises(ValueError):
                self.proxy.rule(**options)


class ProxyProgram(unittest.TestCase):
    def test_it_obeys_its_control_port(self):
        server = Server()
        self.addCleanup(server.listener.close)
        program = subprocess.Popen(
            [sys.executable, "-B", kafka_proxy.__file__, "--target", str(server.port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.kill)
        words = program.stdout.readline().split()
        self.assertEqual(words[::2], ["listen", "control"])
        listen, control = int(words[1]), int(words[3])

        def send(command):
            return kafka_proxy.send(control, command, WAIT_S)
        self.assertEqual(send({"do": "add", "api": "EndTxn", "at": "answer"}), {"rule": 1})
        caller = Caller(listen)
        self.addCleanup(caller.close)
        caller.send(request(END_TXN, 1))
        self.assertEqual(send({"do": "wait", "rule": 1, "seconds": WAIT_S}), {"hits": 1})
        self.assertEqual(send({"do": "release", "rule": 1}), {})
        self.assertEqual(caller.receive(), 1)
        self.assertEqual(send({"do": "counts"}), {"counts": {"EndTxn": 1}})
        for wrong in ({"do": "add", "api": "Nothing"}, {"do": "wait", "rule": 9}, {"do": "jump"},
                      {}, {"do": "wait", "rule": 1, "hits": 2, "seconds": 0.01}):
            self.assertIn("error", send(wrong))
        sent = subprocess.run([sys.executable, "-B", kafka_proxy.__file__, "--send", str(control),
                               json.dumps({"do": "cut"})], capture_output=True, text=True)
        self.assertEqual((sent.returncode, sent.stdout), (0, "{}\n"))
        self.assertIsNone(caller.receive())
        program.stdin.close()
        self.assertEqual(program.wait(WAIT_S), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
