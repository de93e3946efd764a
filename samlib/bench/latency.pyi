import numpy as np
from numpy.typing import NDArray

def chase(following: NDArray[np.int64], hops: int) -> int: ...
