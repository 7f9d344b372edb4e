"""Kafka's record batches (magic 2), written from the published format. Standard library only.

Record batch: base offset i64, length i32, leader epoch i32, magic i8, CRC-32C u32 of all that
follows, attributes i16, last offset delta i32, first and largest timestamp i64, producer id i64,
producer epoch i16, base sequence i32, number of records i32, the records. Numbers within a record
are zigzag varints.
"""

import dataclasses
import functools
import struct
import zlib

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61
LENGTH_FROM = 12  # the length field counts what follows it
CRC_FROM = 21     # the checksum covers the attributes and what follows
COMPRESSION_MASK, TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 0x07, 0x10, 0x20, 0x08
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
ABORT, COMMIT = 0, 1  # types of a control record


class BadBatch(ValueError):
    """Bytes that are no record batch, or one whose checksum is wrong."""


@dataclasses.dataclass
class Record:
    """One row of a topic. `key` and `value` are bytes or None; `headers` a list of (str, bytes or
    None); `timestamp` in milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: list = dataclasses.field(default_factory=list)
    timestamp: int = -1
    partition: int = -1
    offset: int = -1


@dataclasses.dataclass
class Batch:
    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: int | None  # ABORT, COMMIT or another number; None for rows
    codec: str
    records: list


@functools.cache
def _crc_tables():
    """The table of one byte, and of two: rows are checked twice as fast."""
    one = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        one.append(i)
    halves = [one[i & 0xFF] ^ (i >> 8) for i in range(65536)]
    return one, [one[half & 0xFF] ^ (half >> 8) for half in halves]


def crc32c(data):
    """The Castagnoli checksum of `data`."""
    one, two = _crc_tables()
    view = memoryview(data)
    even = len(view) & ~1
    crc = 0xFFFFFFFF
    for (pair,) in struct.iter_unpack("<H", view[:even]):
        crc = two[(crc ^ pair) & 0xFFFF] ^ (crc >> 16)
    if even != len(view):
        crc = one[(crc ^ view[even]) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def write_varint(out, value):
    """Appends the zigzag varint of a signed number."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varint(data, at):
    """(number, position behind it)."""
    byte = data[at]
    if byte < 0x80:  # nearly all
        return (byte >> 1) ^ -(byte & 1), at + 1
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise BadBatch("a varint of more than ten bytes")


def _write_bytes(out, value):
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value


def _read_bytes(data, at):
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise BadBatch(f"a field of {length} bytes in a record of {len(data) - at}")
    return data[at:at + length], at + length


def encode_batch(records, producer_id=-1, producer_epoch=-1, base_sequence=-1,
                 transactional=False, gzip=False):
    """One batch of one partition."""
    first = records[0].timestamp
    largest = max(record.timestamp for record in records)
    body = bytearray()
    for delta, record in enumerate(records):
        one = bytearray(1)  # attributes: none are defined
        write_varint(one, record.timestamp - first)
        write_varint(one, delta)
        _write_bytes(one, record.key)
        _write_bytes(one, record.value)
        write_varint(one, len(record.headers))
        for name, value in record.headers:
            _write_bytes(one, name.encode())
            _write_bytes(one, value)
        write_varint(body, len(one))
        body += one
    if gzip:
        compressor = zlib.compressobj(wbits=31)
        body = compressor.compress(bytes(body)) + compressor.flush()
    attributes = (1 if gzip else 0) | (TRANSACTIONAL if transactional else 0)
    batch = bytearray(HEADER.pack(
        0, HEADER_BYTES - LENGTH_FROM + len(body), -1, 2, 0, attributes, len(records) - 1,
        first, largest, producer_id, producer_epoch, base_sequence, len(records)))
    batch += body
    struct.pack_into(">I", batch, CRC_FROM - 4, crc32c(batch[CRC_FROM:]))
    return bytes(batch)


def decode_batches(data, partition=-1):
    """Yields each whole Batch of a fetched blob; the last one may be cut off and is left out."""
    data = memoryview(data)
    at = 0
    while at + HEADER_BYTES <= len(data):
        (base, length, _, magic, crc, attributes, last_delta, first_time, largest_time, producer,
         epoch, sequence, count) = HEADER.unpack_from(data, at)
        end = at + LENGTH_FROM + length
        if magic != 2:
            raise BadBatch(f"offset {base}: magic {magic}, not 2")
        if end > len(data):
            return
        actual = crc32c(data[at + CRC_FROM:end])
        if actual != crc:
            raise BadBatch(f"offset {base}: checksum {actual:#010x}, {crc:#010x} written")
        body = data[at + HEADER_BYTES:end]
        codec = CODECS.get(attributes & COMPRESSION_MASK, "unknown")
        if codec == "gzip":
            body = zlib.decompress(body, wbits=31)
        elif codec == "none":
            body = bytes(body)
        else:
            raise BadBatch(f"offset {base}: compressed with {codec}, only gzip is read here")
        append_time = largest_time if attributes & LOG_APPEND_TIME else None
        records = list(_decode_records(body, count, base, first_time, append_time, partition))
        control = None
        if attributes & CONTROL:
            control = struct.unpack(">hh", records[0].key[:4])[1] if records else -1
        yield Batch(base, base + last_delta, producer, epoch, sequence,
                    bool(attributes & TRANSACTIONAL), control, codec, records)
        at = end


def _decode_records(body, count, base, first_time, append_time, partition):
    """`body` is bytes."""
    at = 0
    for _ in range(count):
        length, at = read_varint(body, at)
        end = at + length
        if end > len(body):
            raise BadBatch(f"offset {base}: a record of {length} bytes in {len(body) - at}")
        at += 1  # attributes
        time_delta, at = read_varint(body, at)
        offset_delta, at = read_varint(body, at)
        key, at = _read_bytes(body, at)
        value, at = _read_bytes(body, at)
        header_count, at = read_varint(body, at)
        headers = []
        for _ in range(header_count):
            name, at = _read_bytes(body, at)
            header, at = _read_bytes(body, at)
            headers.append((name.decode(), header))
        if at != end:
            raise BadBatch(f"offset {base}: a record ends at {at}, {end} written")
        yield Record(key, value, headers,
                     first_time + time_delta if append_time is None else append_time,
                     partition, base + offset_delta)
