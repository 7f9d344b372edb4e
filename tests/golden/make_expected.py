#!/usr/bin/env python3
"""Makes input/ and expected/ of the golden pipelines. Knows nothing of Weir but its documentation.

input/     flights-0 … 3.csv: flights of examples/flights/data, each carrier in one file only, so
           that the order of the rows of a carrier is defined; flights-23.jsonl: 2 and 3 again, as
           JSON; awkward-0 … 2.csv: values that are hard to read; awkward.jsonl: the same as JSON
expected/  <pipeline>.jsonl: the rows that the sink must have written, columns in order. Where the
           order of the rows of a key is defined they are in that order.

    make_expected.py           writes both
    make_expected.py --check   exit code 1 when what is there differs
"""

import argparse
import base64
import csv
import datetime
import io
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
FLIGHTS = HERE.parents[1] / "examples/flights/data"
FILES, ROWS_OF_A_FILE = 4, 200
GENERATED_ROWS, GENERATED_KEYS = 600, 20
EPOCH = datetime.datetime(1970, 1, 1)
MASK = (1 << 64) - 1


# -- flights -------------------------------------------------------------------------------------

def flight_files():
    """[(header, rows)]: carriers dealt out to the files, evenly spaced rows of each file's."""
    rows = []
    for part in sorted(FLIGHTS.glob("part-*.csv")):
        with open(part, newline="") as file:
            reader = csv.reader(file)
            header = next(reader)
            rows += list(reader)
    rows.sort(key=lambda row: int(row[0]))
    carrier = header.index("carrier")
    carriers = sorted({row[carrier] for row in rows})
    files = []
    for number in range(FILES):
        own = [row for row in rows if carriers.index(row[carrier]) % FILES == number]
        step = len(own) // ROWS_OF_A_FILE
        files.append((header, own[::step][:ROWS_OF_A_FILE]))
    return files


TEXTS = {"carrier", "tailnum", "origin", "dest", "time_hour"}


def flights(numbers=range(FILES)):
    """The rows as dictionaries: None for null, integers, and time_hour as a text."""
    files = flight_files()
    for number in numbers:
        header, rows = files[number]
        for row in rows:
            yield {name: (None if text == "" else text if name in TEXTS else int(text))
                   for name, text in zip(header, row)}


def microseconds(text):
    """Of a time like 2013-01-01T10:00:00Z."""
    time = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    return (time - EPOCH) // datetime.timedelta(microseconds=1)


def null_or(function, *values):
    return None if None in values else function(*values)


def cut_quotient(a, b):
    return math.trunc(a / b)


def filter_project():
    for f in flights():
        delay, tail = f["dep_delay"], f["tailnum"]
        # Three-valued: a null of the middle `or` is not true, and none of the others is null.
        chosen = (delay is None or delay > 15 or (tail is not None and tail.startswith("N3")))
        known = f["carrier"] in ("UA", "AA", "B6", "EV", "DL", "MQ")
        left_out = f["origin"] == "LGA" and len(f["dest"]) >= 2 and f["dest"][1] == "T"
        if not (chosen and known and not left_out):
            continue
        kind = ("cancelled" if delay is None else "very late" if delay > 60
                else "late" if delay > 15 else "on time")
        yield {
            "row_id": f["row_id"],
            "code": f["carrier"].lower(),
            "gain": null_or(lambda a, b: a - b, delay, f["arr_delay"]),
            "speed": null_or(lambda a, b: float(a) / b * 60.0, f["distance"], f["air_time"]),
            "sevenths": null_or(lambda a: cut_quotient(a, 7), f["arr_delay"]),
            "rest": null_or(lambda a: a - 7 * cut_quotient(a, 7), f["arr_delay"]),
            "off": null_or(abs, f["arr_delay"]),
            "late": null_or(lambda a: a > 15, delay),
            "kind": kind,
            "tail": tail if tail is not None else "unknown",
            "plane": null_or(lambda a: a[1:4], tail),
            "plane_length": null_or(len, tail),
            "route": f["origin"] + "-" + f["dest"],
            "delay_text": null_or(str, f["arr_delay"]),
            "hour_us": microseconds(f["time_hour"]),
            "thirds": math.trunc(f["distance"] / 3),
            "second_half": f["time_hour"] >= "2013-01-16T00:00:00Z",
            "at": f["time_hour"],
        }


def aggregate():
    """A row for each input row: the state of its key (carrier, origin) after it."""
    states = {}
    for f in flights():
        state = states.setdefault((f["carrier"], f["origin"]), {
            "rows": 0, "delays": [], "ratios": [], "tails": [], "times": []})
        state["rows"] += 1
        for name, value in (("delays", f["dep_delay"]), ("tails", f["tailnum"]),
                            ("ratios", null_or(lambda a: a / 7.0, f["air_time"])),
                            ("times", f["time_hour"])):
            if value is not None:
                state[name].append(value)
        delays, ratios, tails = state["delays"], state["ratios"], state["tails"]
        ratio_sum = 0.0
        for ratio in ratios:  # in order, each sum rounded
            ratio_sum += ratio
        yield {
            "carrier": f["carrier"], "origin": f["origin"], "row_id": f["row_id"],
            "rows": state["rows"],
            "delays": len(delays),
            "delay_sum": sum(delays) if delays else None,
            "delay_min": min(delays, default=None),
            "delay_max": max(delays, default=None),
            "delay_avg": sum(delays) / len(delays) if delays else None,
            "ratio_sum": ratio_sum if ratios else None,
            "ratio_min": min(ratios, default=None),
            "ratio_max": max(ratios, default=None),
            "ratio_avg": ratio_sum / len(ratios) if ratios else None,
            "tail_min": min(tails, default=None),
            "tail_max": max(tails, default=None),
            "time_min": min(state["times"], default=None),
            "time_max": max(state["times"], default=None),
        }


def union_rebalance():
    for f in flights():
        yield {name: f[name] for name in ("row_id", "carrier", "dep_delay", "tailnum", "time_hour")}


def diamond():
    """Which rows arrive: those of either branch, those of both twice. (What the aggregate adds to
    them depends on the order in which the branches' rows meet; the test computes it from that.)"""
    for f in flights():
        delay = f["dep_delay"]
        for passes in (delay is not None and delay > 0, f["origin"] == "EWR"):
            if passes:
                yield {"carrier": f["carrier"], "row_id": f["row_id"], "dep_delay": delay}


# -- values that are hard to read ----------------------------------------------------------------

NAMES = ["plain", None, "", " ", "with, comma", 'with "quotes"', '"', "two\nlines", "cr\r\nlf",
         "tab\there", "Grüße", "日本語", "🛫🛬", "\\back\\slash", "\n", "a\u2028b", "null", "NaN",
         "'", "ends with space ", "{\"json\": [1, 2]}", "\x01\x1f\x7f", "e\u0301", ",", '""', "\ufeffbom"]
FLAGS = [True, False, None]
SMALL = [0, -1, 2147483647, -2147483648, None, 7, -0]
BIG = [9223372036854775807, -9223372036854775808, 0, None, 9007199254740993]
# Text in the file and the value.
RATIOS = [("0.1", 0.1), ("1e5", 1e5), ("-0.0", -0.0), ("NaN", math.nan), ("Infinity", math.inf),
          ("-Infinity", -math.inf), ("5e-324", 5e-324),
          ("1.7976931348623157e308", sys.float_info.max), ("0.30000000000000004", 0.1 + 0.2),
          ("100", 100.0), (None, None), ("1E-7", 1e-7),
          ("123456789.123456789", 123456789.123456789), ("2.5", 2.5), ("1e22", 1e22)]
# Text in the file and the same time in the one form that is written.
TIMES = [("2013-01-01T10:00:00Z", "2013-01-01T10:00:00Z"),
         ("2013-01-01T10:00:00.5Z", "2013-01-01T10:00:00.5Z"),
         ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
         ("2024-02-29T01:30:00+02:00", "2024-02-28T23:30:00Z"),
         (None, None),
         ("1999-12-31T23:30:00.250000-05:30", "2000-01-01T05:00:00.25Z"),
         ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
         ("9999-12-31T23:59:59.000001Z", "9999-12-31T23:59:59.000001Z")]
DATA = [b"", b"\x00", b"\xff\xfe\xfd", b"any carnal pleas", None, b"\n\r\",",
        bytes(range(256)), b"ab"]

AWKWARD_ROWS = 240
AWKWARD_COLUMNS = ["id", "name", "note", "flag", "small", "big", "ratio", "at", "data"]


def awkward(float_text=False):
    """(values as documented for the output, texts as they are in the input) of each row."""
    for i in range(AWKWARD_ROWS):
        name, note = NAMES[i % len(NAMES)], NAMES[(i * 7 + 3) % len(NAMES)]
        flag, small, big = FLAGS[i % 3], SMALL[i % 7], BIG[i % 5]
        (ratio_text, ratio), (at_text, at) = RATIOS[i % 15], TIMES[(i * 3 + i // 8) % 8]
        data = DATA[(i + i // 8) % 8]
        coded = None if data is None else base64.b64encode(data).decode()
        values = [i, name, note, flag, small, big, ratio, at, coded]
        texts = [str(i), name, note, None if flag is None else str(flag).lower(),
                 null_or(str, small), null_or(str, big), ratio_text, at_text, coded]
        yield dict(zip(AWKWARD_COLUMNS, values)), dict(zip(AWKWARD_COLUMNS, texts))


def csv_field(text, quoted):
    if text is None:
        return ""
    if quoted or text == "" or any(c in text for c in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def awkward_csv(number):
    """Every third row. Columns in another order than the schema's, one that it does not have, all
    kinds of quoting, LF or CRLF, with or without an end of the last line."""
    end = "\r\n" if number == 1 else "\n"
    columns = AWKWARD_COLUMNS[::-1] if number == 2 else AWKWARD_COLUMNS[:]
    columns.insert(4, "unread")
    lines = [",".join(columns)]
    for i, (_, texts) in enumerate(awkward()):
        if i % 3 == number:
            texts["unread"] = 'x"\n' if i % 2 else None
            lines.append(",".join(csv_field(texts[name], quoted=(i + at) % 4 == 0)
                                  for at, name in enumerate(columns)))
    return end.join(lines) + (end if number != 2 else "")


def awkward_jsonl():
    """The same rows: fields in any order, nulls missing now and then, escapes or plain UTF-8,
    fields that no schema has."""
    lines = []
    for i, (values, texts) in enumerate(awkward()):
        names = AWKWARD_COLUMNS[i % 9:] + AWKWARD_COLUMNS[:i % 9]
        row = {}
        for name in names:
            value = values[name]
            if value is None and i % 2:
                continue
            if name == "ratio" and value is not None:
                value = float_value(value)
            row[name] = texts[name] if name == "at" else value
            if i % 5 == 0:
                row["unread"] = {"id": 1, "deep": [[], {"name": "x"}, None, 1.5e3]}
        line = json.dumps(row, ensure_ascii=i % 3 == 0, separators=(" , ", " : ") if i % 4 == 0
                          else (",", ":"))
        lines.append(line + ("\r" if i % 7 == 0 else "") + "\n" + ("\n" if i == 50 else ""))
    return "".join(lines)


def float_value(value):
    """As JSON of Weir: texts for what JSON has no number for."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def awkward_rows():
    for values, _ in awkward():
        if values["ratio"] is not None:
            values["ratio"] = float_value(values["ratio"])
        yield values


# -- generator: worker/connectors/generator/generated_rows.h -------------------------------------

def mix(z):
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
    return z ^ (z >> 31)


def fraction(bits):
    return (bits >> 11) * 2.0 ** -53


def zipf(bits, n, exponent):
    """Rejection-inversion of Hörmann and Derflinger, 1996."""
    def h(x):
        return x ** -exponent

    def h_integral(x):
        return math.log(x) if exponent == 1 else (x ** (1 - exponent) - 1) / (1 - exponent)

    def h_inverse(x):
        if exponent == 1:
            return math.exp(x)
        return max(1 + x * (1 - exponent), 0.0) ** (1 / (1 - exponent))
    first, last = h_integral(1.5) - 1, h_integral(n + 0.5)
    accepted = 2 - h_inverse(h_integral(2.5) - h(2))
    while True:
        u = last + fraction(bits) * (first - last)
        x = h_inverse(u)
        k = min(max(math.floor(x + 0.5), 1), n)
        if k - x <= accepted or u >= h_integral(k + 0.5) - h(k):
            return k
        bits = mix((bits + 0x9e3779b97f4a7c15) & MASK)


def payload_text(r, length):
    text, word = "", 2
    while len(text) < length:
        octets = mix((r + word) & MASK).to_bytes(8, "little")
        text += "".join(chr(97 + (octet & 15)) for octet in octets)
        text += "".join(chr(97 + (octet >> 4)) for octet in octets)
        word += 1
    return text[:length]


def generated(seed, distribution, payload=0, splits=128):
    for seq in range(GENERATED_ROWS):
        split, offset = seq % splits, seq // splits
        base = mix((mix(seed) + split) & MASK)
        r = mix((base + offset * 0x9e3779b97f4a7c15) & MASK)
        if distribution == "uniform":
            key = r * GENERATED_KEYS >> 64
        elif distribution == "zipf":
            key = zipf(r, GENERATED_KEYS, 1.2) - 1
        else:
            key = 0 if fraction(mix(r)) < 0.6 else 1 + (r * (GENERATED_KEYS - 1) >> 64)
        row = {"seq": seq, "key": key, "value": fraction(mix((r + 1) & MASK))}
        if payload:
            row["payload"] = payload_text(r, payload)
        yield row


def keyed(rows):
    return ({"key": row["key"], "seq": row["seq"], "value": row["value"]} for row in rows)


# ------------------------------------------------------------------------------------------------

def jsonl(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def make():
    """{path below this folder: text}."""
    out = {}
    for number, (header, rows) in enumerate(flight_files()):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *rows])
        out[f"input/flights-{number}.csv"] = text.getvalue()
    out["input/flights-23.jsonl"] = jsonl(flights((2, 3)))
    for number in range(3):
        out[f"input/awkward-{number}.csv"] = awkward_csv(number)
    out["input/awkward.jsonl"] = awkward_jsonl()
    for name, rows in (
            ("filter_project", filter_project()), ("aggregate", aggregate()),
            ("union_rebalance", union_rebalance()), ("diamond", diamond()),
            ("awkward", awkward_rows()),
            ("generator", generated(1, "uniform", payload=21)),
            ("generator_uniform", keyed(generated(7, "uniform"))),
            ("generator_zipf", keyed(generated(-5 & MASK, "zipf"))),
            ("generator_hot", keyed(generated(7, "hot")))):
        out[f"expected/{name}.jsonl"] = jsonl(rows)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    made = make()
    there = {str(path.relative_to(HERE)) for folder in ("input", "expected")
             for path in (HERE / folder).glob("*")}
    if arguments.check:
        wrong = sorted(there ^ set(made))
        wrong += [name for name in sorted(there & set(made))
                  if (HERE / name).read_bytes() != made[name].encode()]
        print(f"differs: {', '.join(wrong)}" if wrong else f"{len(made)} files are as computed")
        return 1 if wrong else 0
    for name in there - set(made):
        (HERE / name).unlink()
    for name, text in made.items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_bytes(text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
