"""The tables of docs/PERFORMANCE.md, from files that bench_table.py wrote.

    tables.py FILE.tsv...                       prints them
    tables.py FILE.tsv... DOCUMENT              puts them between the two marks of the document

Each file is one run. Rows are of all runs: the medians, each ratio, and the verdict of most runs. The settings
and the other figures are those of the first file.

The lines of a file are of four kinds, with tabs between the columns:

    setting     a text
    left out    a text
    row         what, against what, ours, theirs, ratio, limit, verdict
    any other   group, size, side, round, samples, p50 and p99 in microseconds, seconds in all
"""

import statistics
import sys

BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"


def table(head, rows):
    left = 3 if head[0] == "group" else 2
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * left + "---:|" * (len(head) - left)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def read(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def middle(texts):
    """The median. The first, if they are not numbers."""
    try:
        return sorted(texts, key=float)[len(texts) // 2]
    except ValueError:
        return texts[0]


def of_all(runs):
    """The rows of several runs, each as one row."""
    for rows in zip(*([rest for kind, *rest in run if kind == "row"] for run in runs), strict=True):
        columns = list(zip(*rows))
        what, against, ours, theirs, ratios, limit, verdicts = columns
        yield [what[0], against[0], middle(ours), middle(theirs), middle(ratios),
               " ".join(ratios) if ratios[0] != "-" else "", limit[0], statistics.mode(verdicts)]


def markdown(paths):
    runs = [read(path) for path in paths]
    kinds = {"setting": [], "left out": []}
    figures, rows = [], list(of_all(runs))
    for kind, *rest in runs[0]:
        if kind in kinds:
            kinds[kind].append(rest)
        elif kind != "row" and rest[2] == "all" and not rest[1].endswith(" cpu"):
            size, side, _, count, p50, p99, seconds = rest
            figures.append((kind, size, side, count, f"{float(p50):.0f}", f"{float(p99):.0f}",
                            f"{int(count) / float(seconds):.0f}"))
    missed = sum(row[-1] == "missed" for row in rows)
    met = sum(row[-1] == "met" for row in rows)
    out = [f"- {text}" for text, in kinds["setting"]]
    out += [f"- Left out: {text}." for text, in kinds["left out"]]
    out += ["", f"{met} limits were met, and {missed} were missed.", ""]
    out += table(("row", "against", "ours, us", "theirs, us", "ratio", "of each run", "limit", "verdict"), rows)
    out += ["", "### p50, p99 and throughput", "",
            "A service is the kind and the name that `load` prints. `daemon:memory-queue` is a daemon with the broker in "
            "memory.", ""]
    out += table(("group", "size", "service", "samples", "p50, us", "p99, us", "per second"), figures)
    return "\n".join(out) + "\n"


def main(paths):
    document = None if paths[-1].endswith(".tsv") else paths.pop()
    text = markdown(paths)
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
    main(sys.argv[1:])
