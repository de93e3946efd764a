"""How much memory a build may still take."""

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory():
    """Bytes that this process may still take without swapping; None where the system does not say (no Linux)."""
    try:
        fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        free = 1024 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None
    return min([free, *_container_limits()])


def _container_limits():
    """What the memory limit of this container leaves, if there is one (cgroup version 2)."""
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return [] if limit == "max" else [max(int(limit) - int(used), 0)]
    except (OSError, ValueError):
        return []
