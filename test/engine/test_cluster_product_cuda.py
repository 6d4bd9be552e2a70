# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Products joined inside a cluster, against float64; on a Hopper GPU."""

from __future__ import annotations

from dataclasses import replace

import nearness
import pytest
import torch
from hopper import DEVICE, needs_hopper
from torch.nn import functional as F

from phyai_ros.engine.kernels.cluster_product import (
    ClusterProduct,
    Form,
    Weight,
    reference,
    through,
)
from phyai_ros.engine.kernels.e4m3 import from_bytes, in_bytes
from phyai_ros.engine.kernels.fragments import (
    COPY,
    from_fragments,
    from_groups,
    into_fragments,
    into_groups,
    into_squares,
    mean_square,
)
from phyai_ros.engine.kernels.regroup import reference_into
from phyai_ros.engine.quantize import QuantizedWeight, in_e5m2

pytestmark = needs_hopper
EPS = 1e-6
FORMS = [
    Form(2560, 1024, 4, 1, 32, "rope", "rms"),
    Form(2560, 1024, 2, 2, 32, "rope", "rms"),
    Form(1024, 2048, 8, 1, 32, "residual"),
    Form(1024, 2048, 4, 2, 32, "residual"),
    Form(8192, 1024, 4, 1, 128, "gated", "rms", "gelu_tanh"),
    Form(8192, 1024, 2, 2, 64, "gated", "rms", "gelu_tanh"),
    Form(8192, 1024, 2, 2, 64, "gated", "rms", "gelu_tanh", registers=152),
    Form(1024, 4096, 8, 1, 32, "residual"),
    Form(1024, 4096, 4, 2, 32, "residual"),
    Form(1280, 768, 4, 1, 32, "gated", "rms", "silu"),
    Form(1600, 768, 4, 1, 32, "rope", "rms", d=64, heads=15, kv=5),
    Form(1600, 768, 1, 4, 32, "rope", "rms", registers=128, d=64, heads=15, kv=5),
    Form(960, 768, 2, 1, 16, "rope", "rms", d=64, heads=15, kv=0),
    Form(4096, 768, 1, 4, 32, "gated", "rms", "silu", registers=128),
    Form(768, 960, 3, 1, 24, "residual"),
    Form(768, 2304, 6, 1, 24, "residual"),
    Form(1024, 3072, 8, 1, 32, "residual"),
    Form(2560, 1024, 4, 1, 32, "rope", "rms", registers=168, late=True),
    Form(1024, 4096, 8, 1, 32, "residual", late=True),
    Form(1600, 768, 2, 2, 32, "rope", "rms", registers=168, d=64, heads=15, kv=5, most=1),
    Form(4096, 768, 2, 2, 32, "gated", "rms", "silu", registers=168, most=1, late=True),
    Form(768, 2048, 8, 1, 32, "residual", registers=168, late=True),
]
PLACED = FORMS[-3:]
BYTES = {"takes": "bytes", "leaves": "bytes"}
E4M3_FORMS = [  # the first five are those of pi0.5's expert
    Form(2560, 1024, 4, 1, 32, "rope", "rms", registers=128, fp8=True, most=2),
    Form(2560, 1024, 4, 1, 32, "rope", "rms", registers=128, fp8=True, most=2, takes="bytes"),
    Form(1024, 2048, 4, 1, 16, "residual", registers=128, fp8=True, **BYTES),
    Form(8192, 1024, 1, 4, 32, "gated", "rms", "gelu_tanh", registers=128, fp8=True, **BYTES),
    Form(1024, 4096, 8, 1, 32, "residual", registers=128, fp8=True, most=2, **BYTES),
    Form(1024, 2048, 8, 1, 32, "residual", registers=128, fp8=True, leaves="bytes"),
    Form(1024, 4096, 4, 2, 32, "residual", registers=168, fp8=True, **BYTES),
    Form(1280, 768, 1, 2, 32, "gated", "rms", "silu", fp8=True),
    Form(1024, 4096, 8, 1, 32, "residual", registers=128, fp8=True, late=True, **BYTES),
]


def case(form: Form, rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, Weight, dict]:
    def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, device=DEVICE) * scale

    weight = draw(form.n, form.k, scale=form.k**-0.5).to(dtype)
    if form.fp8:
        weight = QuantizedWeight.of(weight, dtype)
    source = draw(rows, form.k)
    # Columns of very different size, and a mean: what the shares' own norms must not lose.
    source = source * (1 + 5 * torch.rand(form.k, device=DEVICE)) + draw(1, form.k) + 0.5
    options: dict = {"bias": draw(form.n)}
    if form.norm:
        shift, scale = draw(form.k, scale=0.2), 1 + draw(form.k, scale=0.2)
        options["bias"] = options["bias"] + through(weight, shift)
        options["squares"] = into_squares(source)
        source = source * COPY * scale
    if form.epilogue == "residual":
        options["scale"] = 1 + draw(form.n, scale=0.2)
        options["x"] = into_groups(draw(rows, form.n))
        options["gate"] = draw(form.n)
    if form.epilogue == "rope":
        angle = draw(rows, form.d // 2)
        options["cos"], options["sin"] = (torch.cat([f, f], 1) for f in (angle.cos(), angle.sin()))
    fragments = into_fragments(source.to(dtype))
    if form.takes:
        fragments = in_bytes(from_fragments(fragments, 64))
    return fragments, weight, options


def room(form: Form, n: int, dtype: torch.dtype) -> torch.Tensor:
    if form.leaves:
        return torch.zeros(n // 32, 128, 16, dtype=torch.uint8, device=DEVICE)
    return torch.zeros(n // 16, 4, 32, 8, dtype=dtype, device=DEVICE)


def rows_of(x: torch.Tensor, rows: int) -> torch.Tensor:
    return from_bytes(x, rows) if x.dtype == torch.uint8 else from_fragments(x, rows)


def run(form: Form, source, weight, options, rows: int, product: ClusterProduct):
    dtype, given = weight.dtype, dict(options)
    if form.epilogue == "residual":
        given["x"] = options["x"].clone()
        copy = room(form, form.n, dtype)
        squares = torch.zeros(form.n // 8, 32, 2, device=DEVICE)
        product(source, rows=rows, eps=EPS, out=copy, squares=squares, **given)
        x = from_groups(given["x"], rows)
        mean = x.double().square().mean(1)
        nearness.check(mean_square(squares.double(), rows), mean, 1e-5)
        return x, rows_of(copy, rows)
    n = {"gated": form.n // 2, "rope": form.heads * form.d}.get(form.epilogue, form.n)
    out = room(form, n, dtype)
    if form.epilogue == "rope":
        given["key"], given["value"] = (
            torch.zeros(rows + 1, form.kv * form.d, dtype=dtype, device=DEVICE) for _ in range(2)
        )
    product(source, rows=rows, eps=EPS, out=out, **given)
    out = rows_of(out, rows)
    if form.epilogue != "rope":
        return (out,)
    assert not given["key"][rows:].any()
    assert not given["value"][rows:].any()
    return out, given["key"][:rows], given["value"][:rows]


@pytest.mark.parametrize("rows", [50, 41, 64, 1])
@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        *((form, dtype) for form in FORMS for dtype in (torch.float16, torch.bfloat16)),
        *((form, torch.float16) for form in E4M3_FORMS),
    ],
    ids=str,
)
def test_against_float64(form: Form, rows: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    source, weight, options = case(form, rows, dtype)
    product = ClusterProduct(weight, form)
    found = run(form, source, weight, options, rows, product)
    expected = reference(source.double(), weight, form, rows=rows, eps=EPS, **options)
    # The tensor cores' own sums of E4M3 have about 14 bits.
    bound = 8e-3 if dtype == torch.bfloat16 else 3e-3 if form.fp8 else 1e-3
    for one, other in zip(found, expected, strict=True):
        if not other.numel():  # queries alone
            continue
        if one.dtype == torch.float64:  # bytes
            # What a sum's error takes over the middle of two numbers is the neighbour's, whose
            # spacing is an eighth of them at least; sums that cancel are no larger than that error.
            other = in_e5m2(other).double()
            assert (one != other).float().mean() < bound * 16
            size = other.square().mean(1, keepdim=True).sqrt()
            apart = (one - other).abs() - 0.3 * other.abs()
            assert (apart <= 10 * bound * size).all(), float((apart / size).max())
            continue
        error = (one.double() - other).norm() / other.norm()
        assert error < bound, (float(error), (one.double() - other).abs().amax(1).tolist())
    again = run(form, source, weight, options, rows, product)
    for one, other in zip(found, again, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("form", PLACED, ids=str)
def test_where_and_when_blocks_start_changes_no_bit(form: Form) -> None:
    torch.manual_seed(2)
    source, weight, options = case(form, 50, torch.bfloat16)
    kinds = [replace(form, most=m, late=b) for m in (0, 1, 2) for b in (False, True)]
    found = [run(form, source, weight, options, 50, ClusterProduct(weight, k)) for k in kinds]
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    assert all((k.most + 1) * (k.shared() + 1024) > 228 * 1024 for k in kinds if k.most)


def test_e5m2_rows_of_any_size() -> None:
    """As small as halves are."""
    torch.manual_seed(0)
    form = Form(1024, 2048, 4, 1, 16, "residual", fp8=True)
    _, weight, _ = case(form, 50, torch.float16)
    x = torch.randn(50, form.k) * torch.exp2(torch.arange(50.0) / 2 - 14)[:, None]
    x[:, form.depth : 2 * form.depth] *= 2.0**-6
    x[3], x[40, : form.depth] = 0, 0
    source = into_fragments(x.to(DEVICE, torch.float16))
    options = {"x": into_groups(torch.zeros(50, form.n, device=DEVICE))}
    found, _ = run(form, source, weight, options, 50, ClusterProduct(weight, form))
    expected, _ = reference(source.double(), weight, form, rows=50, x=options["x"].double())
    assert not found[3].any()
    for row in {*range(50)} - {3}:
        nearness.check(found[row], expected[row], 3e-3)


EDGES = {  # the number, in E5M2
    57344.0: 57344.0, 57376.0: 57344.0, 61408.0: 57344.0, 61440.0: 57344.0, 65504.0: 57344.0,
    2.0**-14: 2.0**-14, 2.0**-16: 2.0**-16, 1.5 * 2.0**-17: 2.0**-16, 2.0**-17: 0.0,
    1.125: 1.0, 1.126953125: 1.25, 1.375: 1.5, 0.0: 0.0,
}  # fmt: skip
"""The largest, what is nearer to the next than to it, the smallest, and ties, which go to even."""


def edges() -> tuple[torch.Tensor, torch.Tensor]:
    """One row, repeated with either sign to a whole number of steps, as it is and in E5M2."""
    pairs = torch.tensor(list(EDGES.items())).t()
    pairs = torch.cat([pairs, -pairs], 1)
    return tuple(F.pad(row, (0, 96 - len(row)))[None].to(DEVICE) for row in pairs)


def alike(n: int, k: int) -> QuantizedWeight:
    """What leaves the first n of k columns as they are."""
    return QuantizedWeight.of(torch.eye(n, k, dtype=torch.float16, device=DEVICE), torch.float16)


def test_halves_become_the_nearest_e5m2_or_the_largest() -> None:
    """None becomes infinity, as a half's upper byte did, rounded by an addition."""
    form = Form(96, 768, 3, 1, 24, "residual", fp8=True)
    given, expected = edges()
    product = ClusterProduct(alike(96, form.k), form)

    def answer() -> torch.Tensor:
        x = into_groups(torch.zeros(1, 96, device=DEVICE))
        source = into_fragments(F.pad(given, (0, form.k - 96)).half())
        product(source, rows=1, x=x, out=room(form, 96, torch.float16))
        return from_groups(x, 1)

    assert torch.equal(answer(), expected)
    given[0, 0] = torch.nan
    assert answer().isnan().all()


def test_bytes_of_a_stream_are_the_nearest_or_the_largest() -> None:
    form = Form(96, 768, 3, 1, 24, "residual", fp8=True, leaves="bytes")
    given, expected = edges()
    beyond = torch.tensor([65536.0, 1e9, torch.inf, -torch.inf, 61439.0], device=DEVICE)
    given[0, -5:], expected[0, -5:] = beyond, 57344 * torch.tensor([1, 1, 1, -1, 1.0])
    product = ClusterProduct(alike(96, form.k), form)
    source = into_fragments(torch.zeros(1, form.k, dtype=torch.float16, device=DEVICE))
    scale = torch.full((96,), 1 / COPY, device=DEVICE)
    for nothing in (False, True):
        if nothing:
            given[0, 40] = expected[0, 40] = torch.nan
        copy = room(form, 96, torch.float16)
        product(source, rows=1, x=into_groups(given), scale=scale, out=copy)
        torch.testing.assert_close(
            rows_of(copy, 1), expected.double(), rtol=0, atol=0, equal_nan=True
        )


def test_bytes_of_hidden_rows_are_no_larger_than_the_largest() -> None:
    """Of a gate and an up whose product is more than that, and more than a half can be."""
    form = Form(192, 768, 3, 1, 24, "gated", activation="silu", fp8=True, leaves="bytes")
    given = torch.linspace(0, 640, 96, device=DEVICE)[None].half()
    source = into_fragments(F.pad(given, (0, form.k - 96)))
    one = alike(96, form.k)
    product = ClusterProduct(torch.cat([one, one]), form)
    (found,) = run(form, source, product.weight, {}, 1, product)
    (expected,) = reference(source.double(), product.weight, form, rows=1)
    assert expected.max() > 4e5
    assert torch.equal(found, in_e5m2(expected).double())
    assert found.max() == 57344


def test_a_stream_begins() -> None:
    torch.manual_seed(0)
    form = Form(768, 2304, 6, 1, 24, "residual")
    source, weight, options = case(form, 50, torch.bfloat16)
    product = ClusterProduct(weight, form)
    zero = torch.zeros_like(options.pop("x"))
    expected = run(form, source, weight, {**options, "x": zero}, 50, product)
    nothing = torch.full_like(zero, torch.nan)
    found = run(form, source, weight, {**options, "x": nothing, "begins": True}, 50, product)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_a_stream_that_stays() -> None:
    """What the stream was stands elsewhere; where it is written, anything."""
    torch.manual_seed(0)
    form = Form(1024, 3072, 8, 1, 32, "residual")
    source, weight, options = case(form, 51, torch.float16)
    product = ClusterProduct(weight, form)
    old = options.pop("x")
    expected = run(form, source, weight, {**options, "x": old}, 51, product)
    kept, nothing = old.clone(), torch.full_like(old, torch.nan)
    found = run(form, source, weight, {**options, "x": nothing, "old": old}, 51, product)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(old, kept)


def test_a_chain_in_a_graph_gives_the_same_bits_every_time() -> None:
    """Early launches: the next kernel's weights arrive while the one in front still works."""
    torch.manual_seed(1)
    forms = [FORMS[5], Form(1024, 4096, 8, 1, 32, "residual")]
    cases = [[case(form, 50, torch.float16) for form in forms] for _ in range(6)]
    products = [[ClusterProduct(c[1], f) for c, f in zip(row, forms, strict=True)] for row in cases]
    scales = [1 + 0.2 * torch.randn(1024, device=DEVICE) for _ in range(7)]
    begun = reference_into(torch.randn(50, 1024, device=DEVICE), torch.float16, scales[0])
    x, copy, squares = (t.clone() for t in begun)
    hidden = torch.zeros(256, 4, 32, 8, dtype=torch.float16, device=DEVICE)

    def chain() -> None:
        for now, was in zip((x, copy, squares), begun, strict=True):
            now.copy_(was)
        for i, ((one, two), (up, down)) in enumerate(zip(cases, products, strict=True)):
            up(copy, rows=50, eps=EPS, out=hidden, squares=squares, bias=one[2]["bias"])
            down(
                hidden, rows=50, x=x, out=copy, squares=squares, scale=scales[i + 1],
                bias=two[2]["bias"], gate=two[2]["gate"],
            )  # fmt: skip

    chain()
    torch.cuda.synchronize()
    first = from_groups(x, 50).clone()
    assert torch.isfinite(first).all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            chain()
    for _ in range(60):
        graph.replay()
        assert torch.equal(from_groups(x, 50), first)
    wide = begun[0].double()
    for (one, two), scale in zip(cases, scales[:-1], strict=True):
        rows = from_groups(wide, 50)
        h = reference(
            into_fragments(rows * COPY * scale.double()), one[1], forms[0], rows=50, eps=EPS,
            squares=into_squares(rows), bias=one[2]["bias"],
        )[0]  # fmt: skip
        given = {k: two[2][k] for k in ("bias", "gate")}
        y = reference(into_fragments(h), two[1], forms[1], rows=50, x=wide, **given)[0]
        wide = into_groups(y)
    expected = from_groups(wide, 50)
    assert (first.double() - expected).norm() / expected.norm() < 3e-3
