"""The report in Markdown: machine, brokers, floors, and one table for each section, of medians over the repetitions."""
import json
import statistics

SIZES = [("4 KiB", 4096), ("64 KiB", 65536), ("1 MiB", 1048576)]
FLOORS = [
    ("zero-filled file, O_DIRECT + RWF_DSYNC (the journal)", "disk_filled"),
    ("the same, only fallocated", "disk_fallocated"),
    ("the same, growing the file", "disk_growing"),
    ("page cache, then fdatasync", "disk_fdatasync"),
    ("loopback round trip", "loopback"),
]
# How many samples a percentile needs before it differs from their maximum.
SAMPLES_MIN = {"p99_us": 100, "p999_us": 1000, "p9999_us": 10_000}


def medians(runs):
    """Of every numeric figure, over the runs that did not fail."""
    good = [run for run in runs if "failed" not in run]
    names = {name for run in good for name, value in run.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    return {name: statistics.median(run[name] for run in good if run.get(name) is not None) for name in names}


def cell(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}"


def figure_cell(figures, column):
    """A percentile that lies beyond what its samples can show is their maximum, and is marked."""
    mark = "\\*" if figures.get("samples", SAMPLES_MIN.get(column, 0)) < SAMPLES_MIN.get(column, 0) else ""
    return cell(figures.get(column)) + mark


def print_row(*cells):
    print("|", " | ".join(cells), "|")


def print_head(*names):
    print_row(*names)
    print("|" + "---|" * len(names))


def note_of(runs):
    failures = [run["failed"] for run in runs if "failed" in run]
    return f" (failed {len(failures)} of {len(runs)}: {failures[0]})" if failures else ""


def print_machine(machine, brokers, options):
    print(f"{machine['began']}, {machine['cpus']} CPUs ({machine['cpu_model']}), {machine['memory_gib']} GiB, Linux {machine['linux']}, "
          f"{machine['file_system']}; medians of {options.repetitions}, {options.seconds:g} s each. /proc/loadavg at the beginning: {machine['load_average']}\n")
    for name, broker in brokers.items():
        print(f"- {name}: {broker['version']}")
        for key in ("java", "heap", "configs"):
            if broker.get(key):
                print(f"  - {key}: {broker[key]}")
        if "changed" in broker:
            print(f"  - defaults, but {settings_text(broker['changed'])}")
        elif "settings" in broker:
            print(f"  - {settings_text(broker['settings'])}")


def settings_text(settings):
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def print_section(section, rows):
    print(f"\n### {section.name}\n{section.title}.\n")
    if section.skipped:
        print(f"SKIPPED: {section.skipped}")
        return
    print_head("workload", "system", *section.columns)
    for row, brokers in rows.items():
        for name, runs in brokers.items():
            figures = medians(runs)
            print_row(row, name + note_of(runs), *(figure_cell(figures, column) for column in section.columns))
    if "samples" in section.columns:
        print("\n\\* too few samples for this percentile: it is their maximum.")


def print_restarts(rows):
    print("\n### restart\nAfter `kill -9`, from the start of the process. Ready: `/ready`, or Kafka's own line in its log (looked for every "
          "100 ms). The first append is one more process, started when the node is ready; the same append again shows what of "
          "it is the client's own.\n")
    columns = ["ready_s", "first_ack_s", "same_append_again_s"]
    print_head("system", "stored GB", *columns)
    for row in rows:
        if "failed" in row:
            print_row(f"{row['broker']} (failed: {row['failed']})", *["–"] * 4)
        else:
            figures = medians(row["runs"])
            print_row(row["broker"], cell(row["stored_gb"]), *(f"{figures[column]:.3f}" for column in columns))


def print_idle(rows):
    print("\n### partitions\nIdle partitions on one node, restarted after `kill -9`.\n")
    columns = ["ready_s", "first_ack_s", "same_append_again_s"]
    print_head("partitions", *columns, "server_rss_mb", "CPU s in 10 idle s")
    for row in rows:
        if "failed" in row:
            print_row(f"failed: {row['failed']}", *["–"] * 5)
        else:
            figures = medians(row["runs"])
            times = (f"{figures[column]:.3f}" for column in columns)
            print_row(cell(row["partitions"]), *times, cell(row["server_rss_mb"]), cell(row["cpu_s_in_10_idle_s"]))


def print_compaction(row, phases):
    print("\n### compaction\nAppends of 100 B, 2,000 a second, beside the compaction of another topic, and in turn with them bare durable writes of 4 KiB at "
          "the same rate; medians over windows of some seconds.\n")
    if "failed" in row:
        print(f"failed: {row['failed']}")
        return
    print(f"{row['gb']:g} GB: {row['took_s']:.0f} s, {row['read_gb']:.2f} GB read, {row['written_gb']:.2f} GB written, "
          f"{row['removed_records']:,.0f} records removed.\n")
    columns = ["windows", "p50_us", "p99_us", "p999_us", "worst_p99_us", "server_rss_mb"]
    print_head("compaction", "timed", *columns)
    for (phase, what), figures in phases.items():
        print_row(phase, what, *(cell(figures[column]) for column in columns))


def print_follow(rows):
    print("\n### follow\nFrom the acknowledgement of a record, sent alone, until `ropewalk consume --follow`, another process, has printed it.\n")
    columns = ["samples", "printed_before_percent", "p50_us", "p99_us", "p999_us", "max_us"]
    print_head("partitions", *columns)
    for row in rows:
        if "failed" in row:
            print_row(f"failed: {row['failed']}", *["–"] * len(columns))
        else:
            print_row(cell(row["partitions"]), *(figure_cell(row, column) for column in columns))


def print_groups(rows):
    print("\n### groups\nOffset commits of 10,000 groups, then `kill -9`; from the start of the process until it is ready, and until `GET /v1/groups` "
          "lists all groups. Compactions are counted since the start before.\n")
    columns = ["commits", "commits_per_s", "compactions", "stored_gb"]
    times = ["ready_s", "listed_s"]
    print_head("kill", *columns, *times)
    for number, row in enumerate(rows, start=1):
        if "failed" in row:
            print_row(f"{number} (failed: {row['failed']})", *["–"] * (len(columns) + len(times)))
        else:
            print_row(str(number), *(cell(row[column]) for column in columns), *(f"{row[column]:.3f}" for column in times))


def print_hostile(rows, asked, within):
    print("\n### hostile\np99 in ms of clients that do nothing wrong, alone → beside each attack, and how many times as much that is at worst; "
          f"the aim is {within}.\n")
    print_head("attack", *asked, "at worst")
    for row in rows:
        if "failed" in row:
            print_row(f"{row['attack']} (failed: {row['failed']})", *["–"] * (len(asked) + 1))
        else:
            cells = (" → ".join(f"{p99 / 1e3:.2f}" for p99 in row["p99_us"][name]) for name in asked)
            print_row(row["attack"], *cells, f"{row['worst_factor']:.1f}")


def print_floor(before, after):
    """Both floors: where they differ, the machine drifted during the rows."""
    print("\n### floor\nBefore → after the rows, p50 / p99 / p99.9 in µs.\n")
    print_head("", *(name for name, _ in SIZES))
    for name, key in FLOORS:
        print_row(name, *(f"{floor_cell(before, key, size)} → {floor_cell(after, key, size)}" for _, size in SIZES))
    others = ["disk_sequential_mb_per_s", "memcpy_mb_per_s", "crc32c_mb_per_s"]
    print("\n" + ", ".join(f"{name} {cell(before[name])} → {cell(after[name])}" for name in others))


def floor_cell(floor, key, size):
    return " / ".join(cell(floor.get(f"{key}_{size}_{figure}_us")) for figure in ("p50", "p99", "p999"))


def write_json(path, results):
    if path:
        with open(path, "w") as file:
            json.dump(results, file, indent=1)
