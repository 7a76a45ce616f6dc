"""The tables of docs/PERFORMANCE.md, from the file that bench_table.py writes.

    tables.py bench-table.tsv                   prints them
    tables.py bench-table.tsv DOCUMENT          puts them between the two marks of the document

Its lines are of four kinds, with tabs between the columns:

    setting     a text
    left out    a text
    row         what, against what, ours, theirs, ratio, limit, verdict
    any other   group, size, side, round, samples, p50 and p99 in microseconds, seconds in all
"""

import sys

BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"


def table(head, rows):
    left = 3 if head[0] == "group" else 2
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * left + "---:|" * (len(head) - left)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def markdown(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    kinds = {"setting": [], "left out": [], "row": []}
    figures = []
    for kind, *rest in lines:
        if kind in kinds:
            kinds[kind].append(rest)
        elif rest[2] == "all" and not rest[1].endswith(" cpu"):
            size, side, _, count, p50, p99, seconds = rest
            figures.append((kind, size, side, count, f"{float(p50):.0f}", f"{float(p99):.0f}",
                            f"{int(count) / float(seconds):.0f}"))
    missed = sum(row[-1] == "missed" for row in kinds["row"])
    met = sum(row[-1] == "met" for row in kinds["row"])
    out = [f"- {text}" for text, in kinds["setting"]]
    out += [f"- Left out: {text}." for text, in kinds["left out"]]
    out += ["", f"{met} limits were met, and {missed} were missed.", ""]
    out += table(("row", "against", "ours, us", "theirs, us", "ratio", "limit", "verdict"), kinds["row"])
    out += ["", "### p50, p99 and throughput", "",
            "A service is the kind and the name that `load` prints. `daemon:memory-queue` is a daemon with the broker in "
            "memory.", ""]
    out += table(("group", "size", "service", "samples", "p50, us", "p99, us", "per second"), figures)
    return "\n".join(out) + "\n"


def main(path, document=None):
    text = markdown(path)
    if document is None:
        print(text, end="")
        return
    with open(document, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{document}: a mark is missing")
    with open(document, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{text}\n{end}{after}")


if __name__ == "__main__":
    main(*sys.argv[1:])
