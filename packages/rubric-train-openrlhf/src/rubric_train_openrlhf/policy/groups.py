"""Where the rows of each group lie, while groups lose rows one by one."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """N rows in prompt-major order as a grid of P prompts by the largest group left, G."""

    n_prompts: int
    group_size: int
    slots_N: torch.Tensor
    """Place of each row in the grid, counted along it."""
    rows_PG: torch.Tensor
    """Row at each place, flat; row 0 stands in where a group is smaller than G."""

    @classmethod
    def full(cls, n_prompts: int, group_size: int, *, device: torch.device) -> GroupLayout:
        """Lay out groups that are all of one size.

        Args:
            n_prompts: P.
            group_size: G.
            device: where the indices go.

        Returns:
            A grid without gaps.
        """
        rows = torch.arange(n_prompts * group_size, device=device)
        return cls(n_prompts, group_size, rows, rows)

    def keep(self, rows_N: torch.Tensor) -> tuple[torch.Tensor, GroupLayout]:
        """Thin the groups out.

        Args:
            rows_N: rows to keep, in rising order.

        Returns:
            The prompts that still have a row, and the layout of what is left.
        """
        prompts_N = self.slots_N[rows_N] // self.group_size
        sizes_P = torch.bincount(prompts_N, minlength=self.n_prompts)
        kept_P = sizes_P.nonzero()[:, 0]
        sizes_P = sizes_P[kept_P]
        group_size = int(sizes_P.max())
        starts_P = sizes_P.cumsum(0) - sizes_P
        rows = torch.arange(len(rows_N), device=rows_N.device)
        prompt_N = torch.arange(len(kept_P), device=rows_N.device).repeat_interleave(sizes_P)
        slots_N = prompt_N * group_size + rows - starts_P[prompt_N]
        rows_PG = torch.zeros(len(kept_P) * group_size, dtype=torch.long, device=rows_N.device)
        rows_PG[slots_N] = rows
        return kept_P, GroupLayout(len(kept_P), group_size, slots_N, rows_PG)

    def by_prompt(self, x_NHQD: torch.Tensor) -> torch.Tensor:
        """Join the queries of each group, [N, H, Q, …] to [P, H, G·Q, …]."""
        if not self._gapless:
            x_NHQD = x_NHQD[self.rows_PG]
        _, heads, queries, width = x_NHQD.shape
        grid = x_NHQD.reshape(self.n_prompts, self.group_size, heads, queries, width)
        return grid.transpose(1, 2).reshape(self.n_prompts, heads, -1, width)

    def by_row(self, x_PHJD: torch.Tensor) -> torch.Tensor:
        """Undo `by_prompt`, [P, H, G·Q, …] to [N, H, Q, …]."""
        _, heads, joined, width = x_PHJD.shape
        grid = x_PHJD.reshape(self.n_prompts, heads, self.group_size, -1, width).transpose(1, 2)
        rows = grid.reshape(-1, heads, joined // self.group_size, width)
        return rows if self._gapless else rows[self.slots_N]

    @property
    def _gapless(self) -> bool:
        return len(self.slots_N) == len(self.rows_PG)
