"""Judges what a process held at rest, round after round of the same: it must not have grown."""

import statistics

from suites_support.suite import demand

# The last third of the rounds beside the first.
MEMORY_FACTOR_MAX = 1.15
# Files that happen to be open at the moment. A descriptor that is lost every other round is more after fifteen rounds.
DESCRIPTORS_MORE_MAX = 4


def demand_flat(memory, descriptors):
    before, after = _of_thirds(memory)
    demand(after <= before * MEMORY_FACTOR_MAX, f"memory grew from {before} to {after} bytes: {memory}")
    before, after = _of_thirds(descriptors)
    demand(after <= before + DESCRIPTORS_MORE_MAX, f"descriptors grew from {before} to {after}: {descriptors}")


def _of_thirds(figures):
    """The medians of the first and the last third: one figure that stands out decides nothing."""
    third = max(1, len(figures) // 3)
    return statistics.median(figures[:third]), statistics.median(figures[-third:])
