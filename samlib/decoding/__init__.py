"""Who verifies: the target model, its KV cache and tree masks, and the decode loop."""

from samlib.decoding.captured import CapturedForwards
from samlib.decoding.cpu_kernels import CpuKernels
from samlib.decoding.loop import generate, stream
from samlib.decoding.result import Generation, Step
from samlib.decoding.target import TargetModel, served_by, target_for
from samlib.decoding.verification import Verification

__all__ = [
    "CapturedForwards",
    "CpuKernels",
    "Generation",
    "Step",
    "TargetModel",
    "Verification",
    "generate",
    "served_by",
    "stream",
    "target_for",
]
