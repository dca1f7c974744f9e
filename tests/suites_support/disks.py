"""File systems of a suite's own, on loop devices or in memory: to be shut down as a power cut would, or filled up."""

import atexit
import fcntl
import os
import shutil
import struct
import subprocess

from suites_support.suite import skip, wait_until

# FS_IOC_SHUTDOWN of Linux: ext4, XFS and others know it by one number. NOLOGFLUSH: nothing more reaches the device.
_IOC_SHUTDOWN = 0x8004587D
_NOLOGFLUSH = 2


def _run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")


class Disk:
    """A mounted file system under `work`, unmounted at the end of the process."""

    def __init__(self, work, kind, mebibytes):
        """`kind` is tmpfs, ext4 or xfs. Skips the suite where that cannot be had."""
        self.kind = kind
        self.mount_point = work / f"disk-{kind}"
        self.image = work / f"{kind}.image"
        self.mebibytes = mebibytes
        self.mounted = False
        self.mount_point.mkdir()
        atexit.register(self.unmount)
        try:
            if kind != "tmpfs":
                self._format()
            self.mount()
        except OSError as error:
            skip(f"no {kind} can be mounted here: {error}")

    def _format(self):
        make = shutil.which(f"mkfs.{self.kind}", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if make is None:
            raise OSError(f"there is no mkfs.{self.kind}")
        with open(self.image, "wb") as image:
            image.truncate(self.mebibytes << 20)
        _run(make, "-q", self.image)

    def mount(self):
        if self.kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={self.mebibytes}m", "tmpfs", self.mount_point)
        else:
            _run("mount", "-o", "loop", self.image, self.mount_point)
        self.mounted = True

    def unmount(self):
        """Waits for the last descriptor of whoever was killed just now."""
        if self.mounted:
            wait_until(self._unmounts, 30, f"{self.mount_point} can be unmounted")
            self.mounted = False

    def _unmounts(self):
        return subprocess.run(["umount", self.mount_point], capture_output=True).returncode == 0

    def cut_power(self):
        """What was synced stays; everything else is gone, and every further call fails with EIO."""
        directory = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, _IOC_SHUTDOWN, struct.pack("I", _NOLOGFLUSH))
        except OSError as error:
            skip(f"{self.kind} cannot be shut down here: {error}")
        finally:
            os.close(directory)

    def fill(self, leave_bytes):
        """Takes space with a file of its own until so much is left. Gives what was taken, in bytes."""
        take = max(0, self.free_bytes() - leave_bytes)
        ballast = os.open(self.mount_point / "ballast", os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            if take:
                os.posix_fallocate(ballast, 0, take)
        finally:
            os.close(ballast)
        return take

    def relieve(self):
        """Gives back what `fill` took."""
        os.unlink(self.mount_point / "ballast")

    def free_bytes(self):
        state = os.statvfs(self.mount_point)
        return state.f_bavail * state.f_frsize
