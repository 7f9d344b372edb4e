"""The table and the JSON of outcomes."""

import json


def number(value):
    """Three digits that count: 145 M, 7.02 M, 910 k."""
    if value is None:
        return ""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{digits(value / size)} {unit}"
    return digits(value)


def digits(value):
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def goal_text(row):
    if row.goal is None:
        return ""
    if row.limit is not None:
        return f"≥ {row.goal:g}"
    return f"< {row.goal:g} {row.unit}".rstrip()


def result_text(outcome):
    if outcome.row.limit is not None:
        return f"{outcome.ratio:.2f}"
    return "" if outcome.value is None else f"{digits(outcome.value)} {outcome.row.unit}".rstrip()


HEADER = ("name", "rows/s", "rows/CPU s", "RSS MB", "limit", "", "ratio", "goal", "met", "Flink",
          "note")
NUMBERS = {1, 2, 3, 4, 6, 7}  # right-aligned


def cells(outcome):
    row = outcome.row
    met = {None: "", True: "yes", False: "NO"}[outcome.met]
    spread = ""
    if len(outcome.ratios) > 1:
        spread = f"{min(outcome.ratios):.2f}–{max(outcome.ratios):.2f}"
    note = ", ".join(text for text in (row.work, spread, outcome.note) if text)
    rss = "" if outcome.rss_mb is None else f"{outcome.rss_mb:.0f}"
    return (row.name, number(outcome.rows_per_second), number(outcome.rows_per_cpu_second), rss,
            number(outcome.limit), row.limit_name, result_text(outcome), goal_text(row), met,
            row.flink, note)


def table(outcomes):
    lines = [HEADER, *(cells(outcome) for outcome in outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    out = []
    for line in lines:
        padded = [text.rjust(width) if column in NUMBERS else text.ljust(width)
                  for column, (text, width) in enumerate(zip(line, widths))]
        out.append("  ".join(padded).rstrip())
    return "\n".join(out) + "\n"


def rounded(value, places=None):
    return None if value is None else round(value, places)


def as_object(outcome):
    row = outcome.row
    return {
        "name": row.name,
        "work": row.work,
        "rows_per_second": rounded(outcome.rows_per_second),
        "rows_per_cpu_second": rounded(outcome.rows_per_cpu_second),
        "rss_mb": rounded(outcome.rss_mb, 1),
        "limit": rounded(outcome.limit),
        "limit_name": row.limit_name or None,
        "figure": row.figure,
        "ratio": rounded(outcome.ratio, 4),
        "ratios": [round(ratio, 4) for ratio in outcome.ratios],
        "value": rounded(outcome.value, 3),
        "unit": row.unit or None,
        "goal": row.goal,
        "met": outcome.met,
        "flink": row.flink or None,
        "note": outcome.note or None,
        "runs": len(outcome.rounds),
    }


def as_json(outcomes):
    return json.dumps([as_object(outcome) for outcome in outcomes], indent=1) + "\n"
