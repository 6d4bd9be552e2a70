# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""How a cluster shares the depth of a product (``cuda/join.cuh``)."""

from __future__ import annotations

_SHARED = 228 * 1024
"""Bytes of shared memory of a multiprocessor. A block takes one KB more than it asks for."""


class Shares:
    """Part of a form. k: the depth. blocks of a cluster, of ``groups`` warpgroups each. fp8:
    whether weights have 8 bits, not 16. most: blocks of these on one multiprocessor, 0: as many as
    there is room for."""

    k: int
    blocks: int
    groups: int
    fp8: bool
    most: int

    @property
    def ranks(self) -> int:
        """Warpgroups that have a share each."""
        return self.blocks * self.groups

    @property
    def depth(self) -> int:
        """Of a share."""
        return self.k // self.ranks

    def whole(self) -> bool:
        """Whether shares come in whole pieces of 128 bytes, and are deep enough for the sums that
        the warpgroups of a block leave each other in float32 in place of their weights."""
        line = self.depth * (1 if self.fp8 else 2)
        whole = self.k % (128 // (1 if self.fp8 else 2) * self.ranks) == 0
        return whole and self.groups * line >= (self.groups - 1) * 256

    def claimed(self, needed: int) -> int:
        """Bytes of shared memory for a block that uses ``needed`` of them: one block more than
        ``most`` would not find its share."""
        return max(needed, _SHARED // (self.most + 1)) if self.most else needed
