"""The last build of the feature level before this one: what a cluster is upgraded from. It is built from its commit, and kept in the cache."""

import os
import shutil
import subprocess
from pathlib import Path

from suites_support.suite import demand, skip

TOP = Path(__file__).resolve().parent.parent.parent
# The last one of level 3. A new level has the last one of the level before here.
COMMIT = "f39017a54726bd8889ca46f37748ca453e369a76"
PROFILE = "tested"


def binary():
    """Skips the suite where the history does not have the commit: a shallow clone."""
    cache = Path(os.environ.get("ROPEWALK_CACHE") or Path.home() / ".cache/ropewalk")
    built = cache / f"ropewalk-{COMMIT[:12]}"
    if not built.exists():
        _build(cache / f"earlier-{COMMIT[:12]}", built)
    return str(built)


def _build(folder, built):
    known = subprocess.run(["git", "-C", TOP, "cat-file", "-e", f"{COMMIT}^{{commit}}"], capture_output=True, text=True)
    if known.returncode != 0:
        skip(f"the history has no commit {COMMIT[:12]}: {known.stderr.strip()[-200:]}")
    archive = subprocess.run(["git", "-C", TOP, "archive", COMMIT], capture_output=True, check=True)
    shutil.rmtree(folder, ignore_errors=True)
    source, target = folder / "source", folder / "target"
    source.mkdir(parents=True)
    # Touched now: else cargo takes this build's own crates, which lie beside the lent dependencies, for those of the commit.
    subprocess.run(["tar", "-x", "-m", "-C", source], input=archive.stdout, check=True)
    _lend_dependencies(target)
    command = ["cargo", "build", "--quiet", "--locked", "--profile", PROFILE, "-p", "cli", "--bin", "ropewalk"]
    done = subprocess.run(command, cwd=source, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, capture_output=True, text=True)
    demand(done.returncode == 0, f"commit {COMMIT[:12]} does not build:\n{done.stderr[-3000:]}")
    os.replace(target / PROFILE / "ropewalk", built)
    shutil.rmtree(folder)


def _lend_dependencies(target):
    """Most of them are those of the build under test, which need not be built again."""
    own = os.environ.get("CARGO_TARGET_DIR")
    if own and (Path(own) / PROFILE).is_dir():
        (target / PROFILE).mkdir(parents=True)
        for part in ("deps", ".fingerprint", "build"):
            subprocess.run(["cp", "-a", Path(own) / PROFILE / part, f"{target}/{PROFILE}/"], check=False, capture_output=True)
