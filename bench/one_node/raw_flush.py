"""What the disk itself does at a fixed rate: durable writes of a block each, as the journal makes them, from this process.

Latency counts from when a write was due, so that a write which had to wait for a slow one before it is as late as an append would be.
"""
import mmap
import os
import time

from one_node.percentiles import percentiles_us

BLOCK_BYTES = 4096
FILE_BYTES = 16 << 20
# A sleep may end so much too late; for the rest of the time the clock is watched, as the clients do that append.
WATCHED_S = 0.0003


class RawFlushes:
    """A file of zeros of its own in a directory; removed by `close`."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "raw-flushes")
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        self.block = memoryview(mmap.mmap(-1, BLOCK_BYTES))
        zeros = mmap.mmap(-1, 1 << 20)
        for position in range(0, FILE_BYTES, len(zeros)):
            os.pwritev(self.file, [zeros], position)
        os.fsync(self.file)

    def window(self, rate, seconds):
        """Percentiles of the writes of so many seconds, in µs."""
        latencies, began = [], time.perf_counter()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            wait = due - time.perf_counter() - WATCHED_S
            if wait > 0:
                time.sleep(wait)
            while time.perf_counter() < due:
                pass
            os.pwritev(self.file, [self.block], number * BLOCK_BYTES % FILE_BYTES, os.RWF_DSYNC)
            latencies.append(time.perf_counter() - due)
        return percentiles_us(latencies)

    def close(self):
        os.close(self.file)
        os.unlink(self.path)
