"""What samples that were timed in this process come to."""


def percentiles_us(seconds):
    """Percentiles in µs of times in seconds, under the names that `ropewalk bench` gives them."""
    ordered = sorted(seconds)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e6
    return {"p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999), "max_us": ordered[-1] * 1e6}
