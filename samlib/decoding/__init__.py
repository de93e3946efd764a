"""Who verifies: the target model, its KV cache and tree masks, and the decode loop."""

from samlib.decoding.loop import generate, stream
from samlib.decoding.packed import PackedLinears
from samlib.decoding.result import Generation, Step
from samlib.decoding.target import TargetModel

__all__ = ["Generation", "PackedLinears", "Step", "TargetModel", "generate", "stream"]
