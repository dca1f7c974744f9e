"""What every suite has around it: its seed, its folder, its skips and its waits.

A suite calls `run(main)`. Nothing here knows Kafka or the node.
"""

import atexit
import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

SKIPPED = 77


class Violation(Exception):
    """The node broke a promise, or did not do in time what it was waited for."""


def run(main):
    """Runs `main(seed, work)`; `seed` is printed, and ROPEWALK_SEED repeats it. Ends the process."""
    # The runner ends a suite that takes too long with SIGTERM: mounts and nodes must go even then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.stdout.reconfigure(line_buffering=True)
    seed = int(os.environ.get("ROPEWALK_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"ROPEWALK_SEED={seed}")
    code = 0
    try:
        main(seed, Path(os.environ["ROPEWALK_WORK"]))
    except SystemExit as ending:
        code = ending.code
    except Violation as violation:
        print(f"VIOLATION (ROPEWALK_SEED={seed})\n{violation}")
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    # Nodes and mounts go first. Then without the interpreter's own end, for which client threads may keep us waiting.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def skip(reason):
    """Ends the suite as one that cannot be tried here. The runner prints the last line."""
    print(reason)
    sys.exit(SKIPPED)


def demand(fact, message):
    if not fact:
        raise Violation(message)


def wait_until(condition, seconds, what, and_tell=lambda: ""):
    """Returns what `condition` gives once that is true; a violation if it is not within `seconds`, with what `and_tell` says then."""
    limit = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise Violation(f"not within {seconds} s: {what} {and_tell()}".rstrip())
        pause.wait(0.01)


def in_rounds(count, most):
    """Parts that are `count` together, none of which is more than `most`."""
    return [min(most, count - begun) for begun in range(0, count, most)]
