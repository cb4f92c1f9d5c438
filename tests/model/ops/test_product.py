"""The layers' product: a row gives the same bits in any company."""

from __future__ import annotations

import pytest
import torch

from ninefold.model.ops.product import product


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 104), (64, 274), (16, 64), (64, 8)])
def test_a_row_does_not_see_how_many_come_with_it(inputs: int, outputs: int) -> None:
    x, weight = torch.randn(70, inputs), torch.randn(outputs, inputs)
    together = product(x, weight)
    torch.testing.assert_close(together.double(), x.double() @ weight.double().T, atol=1e-4, rtol=1e-4)
    for rows in (1, 2, 3, 4, 5, 31):
        assert torch.equal(product(x[:rows], weight), together[:rows])


def test_gradients_of_few_rows() -> None:
    x, weight = torch.randn(2, 8, dtype=torch.float64, requires_grad=True), torch.randn(5, 8, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: product(x, weight), (x,))
