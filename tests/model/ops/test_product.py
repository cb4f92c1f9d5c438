"""The layers' product: a row gives the same bits in any company, and the kernel agrees with float64."""

from __future__ import annotations

import pytest
import torch

from ninefold.model.ops import native
from ninefold.model.ops.product import KernelProduct, multiply, product

kernels = pytest.mark.skipif(not native.status().available, reason="no C compiler on this machine")


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 104), (64, 274), (16, 64), (64, 8)])
def test_a_row_does_not_see_how_many_come_with_it(inputs: int, outputs: int) -> None:
    x, weight = torch.randn(70, inputs), torch.randn(outputs, inputs)
    together = product(x, weight)
    torch.testing.assert_close(together.double(), x.double() @ weight.double().T, atol=1e-4, rtol=1e-4)
    for rows in (1, 2, 3, 4, 5, 31):
        assert torch.equal(product(x[:rows], weight), together[:rows])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(7,), (2, 3, 7), (2, 1, 7), (1, 1, 7), (0, 3, 7), (5, 2, 1, 7), (2, 3, 0)])
def test_any_number_of_dimensions(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(4, shape[-1], dtype=dtype)
    torch.testing.assert_close(product(x, weight), x @ weight.T)


def test_gradients_of_few_rows() -> None:
    x, weight = torch.randn(2, 8, dtype=torch.float64, requires_grad=True), torch.randn(5, 8, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: product(x, weight), (x,))


@kernels
@pytest.mark.parametrize("rows", [0, 1, 5, 6, 13, 64])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 16), (48, 33), (129, 63), (300, 200), (0, 5), (16, 0)])
def test_the_kernel_takes_any_shape_and_strides(rows: int, inputs: int, outputs: int) -> None:
    a, b = torch.randn(rows, inputs), torch.randn(inputs, outputs)
    expected = (a.double() @ b.double()).float()
    wide = torch.randn(rows, inputs + 9)
    wide[:, 4 : 4 + inputs] = a
    for left in (a, a.T.contiguous().T, wide[:, 4 : 4 + inputs]):
        for right in (b, b.T.contiguous().T, b.repeat(1, 2)[:, :outputs]):
            torch.testing.assert_close(multiply(left, right), expected, atol=2e-4, rtol=1e-4)


@kernels
def test_the_kernel_adds_every_row_up_alike() -> None:
    a, b = torch.randn(50, 700), torch.randn(700, 90)
    together = multiply(a, b)
    for rows in (1, 2, 3, 7, 49):
        assert torch.equal(multiply(a[:rows], b), together[:rows])
        assert torch.equal(multiply(a[-rows:], b), together[-rows:])


@kernels
def test_the_kernel_passes_infinities_on() -> None:
    a, b = torch.ones(3, 20), torch.ones(20, 17)
    a[1, 3], b[5, 16] = float("inf"), float("nan")
    c = multiply(a, b)
    assert c[1, :16].isinf().all()
    assert c[:, 16].isnan().all()
    assert (c[[0, 2], :16] == 20).all()


@kernels
def test_the_kernels_gradients_are_those_of_linear() -> None:
    x, weight = torch.randn(37, 50, requires_grad=True), torch.randn(29, 50, requires_grad=True)
    d_y = torch.randn(29, 37).T
    ours = torch.autograd.grad(KernelProduct.apply(x, weight), (x, weight), d_y)
    theirs = torch.autograd.grad(torch.nn.functional.linear(x.double(), weight.double()), (x, weight), d_y.double())
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)
