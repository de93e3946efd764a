"""A verification's inputs: ids, positions and attention mask, in buffers that are used again at every step."""

import numpy as np
import torch

WIDEST = 64  # inputs of a verification that the first buffers hold; wider ones make them grow
LONGEST = 1024  # tokens of context that the first buffers hold


class Inputs:
    """Writes the root and a Draft as tensors for one target model. Not thread-safe.

    What is returned is valid until the next call. On the CPU the model reads the very buffers that are written here. On
    a GPU those are pinned and copied without waiting: the copies are over once the forward's result has been read.
    """

    def __init__(self, device, dtype, *, masks_one_token):
        self.device, self.dtype = device, dtype
        self._masks_one_token = masks_one_token
        self._hidden = torch.finfo(dtype).min
        self._block = (0, 0)  # first column and size of the part of the mask that is not zero
        self._make_room(WIDEST, LONGEST)

    def place(self, root, draft, cached):
        """Return (ids, positions, mask) for the root and the draft behind `cached` tokens.

        ids, positions: long, shape (1, m). mask: None for a root alone that needs none, else additive in the model's
        dtype, shape (1, 1, m, cached + m): an input sees the cache, its ancestors and itself.
        """
        width = 1 + len(draft)
        if width > self._width or cached + width > self._length:
            self._make_room(max(width, self._width), max(2 * (cached + width), self._length))
        ids = self._ids.array[: 2 * width]
        ids[0], ids[1:width] = root, draft.tokens
        if draft.is_chain:
            given = self._ids.send(width)
            return given[None], self._arange[None, cached : cached + width], self._chain_mask(cached, width)
        seen, depths = ancestry(draft.parents)
        np.add(depths, cached, out=ids[width:])
        given = self._ids.send(2 * width).view(2, 1, width)
        return given[0], given[1], self._tree_mask(cached, width, seen)

    def indices(self, values):
        """A list of whole numbers as a long tensor on the device, shape (len(values),)."""
        self._indices.array[: len(values)] = values
        return self._indices.send(len(values))

    def _chain_mask(self, cached, width):
        if width == 1 and not self._masks_one_token:
            return None
        mask, block = self._cleared_mask(cached, width)
        if width > 1:
            block.copy_(self._causal[:width, :width])
        return mask

    def _tree_mask(self, cached, width, seen):
        np.equal(seen, 0, out=self._unseen.array[: width * width].reshape(width, width))
        mask, block = self._cleared_mask(cached, width)
        block.copy_(self._unseen.send(width * width).view(width, width)).mul_(self._hidden)
        return mask

    def _cleared_mask(self, cached, width):
        """The mask, zero but for its block of the new tokens among themselves; and that block, to be overwritten."""
        start, size = self._block
        self._mask[:size, start : start + size].zero_()
        self._block = (cached, width)
        mask = self._mask[:width, : cached + width]
        return mask[None, None], mask[:, cached:]

    def _make_room(self, width, length):
        self._width, self._length = width, -(-length // 64) * 64  # so that a mask's rows begin at aligned addresses
        self._ids = Staged(2 * width, torch.long, self.device)
        self._indices = Staged(width, torch.long, self.device)
        self._unseen = Staged(width * width, torch.bool, self.device)
        self._arange = torch.arange(self._length, device=self.device)
        self._causal = torch.full((width, width), self._hidden, dtype=self.dtype, device=self.device).triu_(1)
        self._mask = torch.zeros((width, self._length), dtype=self.dtype, device=self.device)
        self._block = (0, 0)


class Staged:
    """A flat buffer on the host, `array`, and the tensor that the device gets of it; on the CPU they share memory."""

    def __init__(self, size, dtype, device):
        on_gpu = device.type == "cuda"
        self._host = torch.zeros(size, dtype=dtype, pin_memory=on_gpu)
        self._device = torch.zeros(size, dtype=dtype, device=device) if on_gpu else self._host
        self.array = self._host.numpy()

    def send(self, count):
        """The first `count` values on the device; the copy is queued, not waited for."""
        given = self._device[:count]
        if self._device is not self._host:
            given.copy_(self._host[:count], non_blocking=True)
        return given


def ancestry(parents):
    """(seen, depths) of a draft's root and nodes: seen is uint8, shape (1 + n, 1 + n), 1 where a row's input sees a
    column's, that is its ancestors and itself; depths is int64, shape (1 + n,), 0 for the root.

    A row is gathered as the bits of one integer: its parent's, and its own.
    """
    rows, depths = [1], [0]
    for node, parent in enumerate(parents.tolist(), start=1):
        rows.append(rows[parent + 1] | 1 << node)
        depths.append(depths[parent + 1] + 1)
    size = len(rows)
    packed = b"".join([row.to_bytes((size + 7) // 8, "little") for row in rows])
    bits = np.frombuffer(packed, dtype=np.uint8).reshape(size, -1)
    return np.unpackbits(bits, axis=1, count=size, bitorder="little"), np.array(depths)
