"""Who verifies: the target model, its KV cache and tree masks, and the decode loop."""

from samlib.decoding.captured import CapturedForwards, target_for
from samlib.decoding.cpu_kernels import CpuKernels
from samlib.decoding.loop import generate, stream
from samlib.decoding.result import Generation, Step
from samlib.decoding.target import TargetModel
from samlib.decoding.verification import Verification

__all__ = [
    "CapturedForwards",
    "CpuKernels",
    "Generation",
    "Step",
    "TargetModel",
    "Verification",
    "generate",
    "stream",
    "target_for",
]
