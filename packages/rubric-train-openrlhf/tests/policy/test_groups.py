import torch
from hypothesis import given
from hypothesis import strategies as st

from rubric_train_openrlhf.policy.llama_decoding import GroupLayout


@given(n_prompts=st.integers(1, 4), group_size=st.integers(1, 4), data=st.data())
def test_thinning_keeps_each_row_with_its_prompt(
    n_prompts: int, group_size: int, data: st.DataObject
) -> None:
    """Joining by prompt and back gives the rows; each prompt meets its own rows alone."""
    layout = GroupLayout.full(n_prompts, group_size, device=torch.device("cpu"))
    rows = torch.arange(n_prompts * group_size)
    prompts = rows // group_size
    names = torch.arange(n_prompts)
    while len(rows) > 0:
        x_NHQD = rows.reshape(-1, 1, 1, 1).expand(-1, 2, 3, 5).clone()
        joined = layout.by_prompt(x_NHQD)
        assert torch.equal(layout.by_row(joined), x_NHQD)
        met = layout.by_row(joined * 0 + names.reshape(-1, 1, 1, 1))
        assert torch.equal(met[:, 0, 0, 0], prompts)
        kept = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True))
        if not kept:
            return
        kept_N = torch.tensor(sorted(kept))
        alive_P, layout = layout.keep(kept_N)
        rows, prompts, names = rows[kept_N], prompts[kept_N], names[alive_P]
        if len(kept) == 1:
            return
