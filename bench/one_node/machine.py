"""The machine under the brokers: how busy it is, what it is, and what its processes use.

Nothing here changes the machine. Figures of other processes come from /proc.
"""
import os
import pathlib
import platform
import subprocess
import sys
from datetime import datetime

LOAD_MAX = 0.3
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def load_average():
    return pathlib.Path("/proc/loadavg").read_text().strip()


def warn_when_busy():
    """Prints /proc/loadavg, with a warning when something else was running in the last minute."""
    load = load_average()
    print(f"/proc/loadavg: {load}", file=sys.stderr)
    if float(load.split()[0]) > LOAD_MAX:
        print(f"WARNING: the load of the last minute is above {LOAD_MAX}: this machine is not quiet", file=sys.stderr)
    return load


def file_system_of(directory):
    done = subprocess.run(["df", "--output=fstype,source", str(directory)], capture_output=True, text=True)
    return done.stdout.splitlines()[-1].strip() if done.returncode == 0 else "unknown"


def describe(directory):
    memory = next(line for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    return {
        "began": datetime.now().isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "cpu_model": model,
        "memory_gib": round(int(memory.split()[1]) / 2**20, 1),
        "linux": platform.release(),
        "file_system": file_system_of(directory),
    }


def cpu_seconds(pid):
    # The second field is the name in brackets, and may hold spaces.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_mb(pid):
    """Resident memory in 10^6 bytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024 / 1e6


class ServerMeter:
    """What a server used while a client, which cannot see it, loaded it."""

    def __init__(self, pid):
        self.pid, self.before = pid, cpu_seconds(pid)

    def stop(self, value_bytes):
        """Figures under the names that `ropewalk bench` gives them; CPU is for each 10^9 bytes of values."""
        used = cpu_seconds(self.pid) - self.before
        return {
            "server_cpu_s": used,
            "server_cpu_s_per_gb": used / (value_bytes / 1e9),
            "server_rss_mb": resident_mb(self.pid),
        }
