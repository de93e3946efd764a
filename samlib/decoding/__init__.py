"""Who verifies: the target model, its KV cache and tree masks, and the decode loop."""

from samlib.decoding.cpu_kernels import CpuKernels
from samlib.decoding.loop import generate, stream
from samlib.decoding.result import Generation, Step
from samlib.decoding.target import TargetModel

__all__ = ["CpuKernels", "Generation", "Step", "TargetModel", "generate", "stream"]
