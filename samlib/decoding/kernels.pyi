from collections.abc import Sequence

AVAILABLE: bool
LARGEST_HEAD: int

def use_openmp(parallel: int, barrier: int, thread: int, threads: int) -> None: ...
def use_generic(generic: bool = True) -> bool: ...

class Room: ...

class Linear:
    def __init__(self, weight: int, bias: int, inputs: int, outputs: int) -> None: ...
    def run(self, x: int, y: int, tokens: int, threads: int) -> None: ...

class DecoderLayer:
    def __init__(
        self,
        results: Room,
        private: Room,
        *,
        linears: Sequence[tuple[int, int, int, int]],
        norms: Sequence[int],
        epsilon: float,
        scale: float,
        head_size: int,
    ) -> None: ...
    def project(
        self, hidden: int, cosines: int, sines: int, tokens: int, keys: int, values: int, threads: int
    ) -> None: ...
    def finish(
        self,
        keys: int,
        values: int,
        strides: tuple[int, int, int, int],
        length: int,
        additive: int,
        seen: int,
        mask_stride: int,
        causal: bool,
        out: int,
        threads: int,
    ) -> None: ...
