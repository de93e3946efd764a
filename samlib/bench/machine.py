"""The machine, in words, for captions, manifests and cached measurements."""

import os
import platform
from pathlib import Path


def cpu_name():
    """The processor's marketing name, or what the platform calls it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def gpu_name():
    """The first CUDA device's name, or None."""
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def machine():
    """{"cpu", "cores" (those this process may use), "gpu", "threads" (torch's), "os"}."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": cpu_name(),
        "cores": cores,
        "gpu": gpu_name(),
        "threads": torch.get_num_threads(),
        "os": platform.platform(),
    }


def device_words(profile):
    """The measuring device as one phrase: "AMD EPYC, 2 threads" or the GPU's name."""
    facts = machine()
    if profile.device != "cpu":
        return facts["gpu"] or profile.device
    return f"{facts['cpu']}, {facts['threads']} thread{'s' if facts['threads'] != 1 else ''}"
