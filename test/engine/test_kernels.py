# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""Every Triton kernel against its plain torch twin in float64, on fresh random inputs: on the GPU,
or without one in Triton's interpreter where TRITON_INTERPRET=1 is set."""

import nearness
import pytest
import torch
from torch.nn import functional as F

from phyai_ros.engine import solver
from phyai_ros.engine.kernels import (
    _triton,
    add_norm,
    attention,
    flow_places,
    flow_step,
    flow_tokens,
    fragments,
    gated_activation,
    gated_linear,
    patches,
    place_rows,
    prefix_places,
    prefix_rows,
    regroup,
    rope_cache,
    row_linear,
    skinny_linear,
    split_linear,
    stream_linear,
    token_rows,
)
from phyai_ros.engine.kernels.fragments import from_fragments

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = [torch.float32, torch.float16]
if DEVICE.type == "cuda":
    DTYPES.append(torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}
DEPENDENT = [False]
if DEVICE.type == "cuda" and _triton.dependent_launch(DEVICE):
    DEPENDENT.append(True)

needs_triton = pytest.mark.skipif(
    not _triton.usable(DEVICE), reason="needs Triton, and a GPU or TRITON_INTERPRET=1"
)


def check(found, expected, dtype):
    nearness.check(found, expected, TOLERANCE[dtype])


def wide(*tensors):
    return [None if t is None else t.double() for t in tensors]


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(
    ("kind", "parts", "extras"),
    [
        ("rms", 0, "s"),
        ("rms", 3, "gst"),
        ("rms", 3, "gstp"),
        ("layer", 1, "bst"),
        ("layer", 0, ""),
        ("rms", 1, "g"),
        ("rms", 1, "sa"),
    ],
)
def test_add_norm(rand, dtype, dependent, kind, parts, extras):
    rows, width = 7, 200
    x = rand(rows, width)
    branch = rand(parts, rows, width, dtype=dtype) if parts > 1 else None
    if parts == 1:
        branch = rand(rows, width, dtype=dtype)
    sets = (2, width) if "p" in extras else (width,)
    vectors = {
        name: rand(*sets) if letter in extras else None
        for name, letter in (("bias", "b"), ("gate", "g"), ("scale", "s"), ("shift", "t"))
    }
    pick = None
    if "p" in extras:
        pick = torch.tensor([1, 0, 1, 1, 0, 0, 1], dtype=torch.int32, device=x.device)
    ahead = rand(96, 500, dtype=dtype) if "a" in extras else None
    x64, branch64 = wide(x, branch)
    expected = add_norm.reference(
        x64, branch64, kind=kind, eps=1e-6, dtype=torch.float64,
        **{k: None if v is None else v.double() for k, v in vectors.items()}, pick=pick,
    )  # fmt: skip
    found = add_norm.fused(
        x, branch, kind=kind, eps=1e-6, dtype=dtype, dependent=dependent, **vectors, pick=pick,
        ahead=ahead,
    )  # fmt: skip
    check(found, expected, dtype)
    check(x, x64, torch.float32)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("branched", [True, False])
@pytest.mark.parametrize("narrow", [True, False])
def test_a_stream_that_begins_at_a_norm(rand, dtype, dependent, branched, narrow):
    """And whose rows change places."""
    rows, every, width = 15, 5, 200
    x = torch.full((rows, width), torch.nan, device=DEVICE)
    branch = rand(rows, width, dtype=dtype) if branched else None
    start = rand(every, width, dtype=dtype if narrow else torch.float32)
    options = {"kind": "layer", "eps": 1e-6}
    order = torch.randperm(every).to(DEVICE, torch.int32)
    x64, branch64, start64 = wide(x, branch, start)
    expected = add_norm.reference(
        x64, branch64, **options, dtype=torch.float64, start=start64, order=order
    )
    found = add_norm.fused(
        x, branch, **options, dtype=dtype, start=start, order=order, dependent=dependent
    )
    check(found, expected, dtype)
    check(x, x64, torch.float32)
    plain = add_norm.reference(x64, None, **options, dtype=torch.float64)
    for r, to in enumerate(order.tolist()):  # as said: the r-th row is put at order[r]
        torch.testing.assert_close(expected[every + to], plain[every + r])


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("size", [14, 16])
@pytest.mark.parametrize("cut", [0, 3])
def test_patches(rand, dtype, dependent, size, cut):
    """Bit for bit; also of images that are parts of larger ones. What a convolution multiplies."""
    images = [rand(2, 3, 2 * size + cut, 3 * size + cut) for _ in range(2)]
    images = [t[..., : 2 * size, : 3 * size] for t in images]
    found = patches.fused(images, size, dtype, dependent=dependent)
    assert torch.equal(found, patches.reference(images, size, dtype))
    wide = patches.fused(images, size, dtype, width=found.shape[2] + 4, dependent=dependent)
    assert torch.equal(wide, F.pad(found, (0, 4)))
    assert torch.equal(wide, patches.reference(images, size, dtype, width=wide.shape[2]))
    weight = rand(5, 3, size, size)
    expected = F.conv2d(torch.cat(images).double(), weight.double(), stride=size)
    rows = patches.reference(images, size, torch.float64) @ weight.double().flatten(1).t()
    torch.testing.assert_close(rows, expected.flatten(2).transpose(1, 2))


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("marks", [None, (4, 1)])
def test_prefix_rows(rand, dtype, dependent, slots, marks):
    """Bit for bit."""
    images, table = rand(slots, 2, 6, 40, dtype=dtype), rand(11, 40, dtype=dtype)
    tokens, state = torch.randint(0, 11, (2, 5), device=DEVICE), rand(2, 40)
    options = {"factor": 6.3245553, "marks": marks}
    found = prefix_rows.fused(images, table, tokens, state, **options, dependent=dependent)
    assert torch.equal(found, prefix_rows.reference(images, table, tokens, state, **options))
    span = 6 + (3 if marks else 0)
    assert found.shape == (2, slots * span + 5 + 1, 40)
    assert torch.equal(found[:, -1], state)
    if marks:
        around = table[[marks[0], marks[1], marks[0]]].float().expand(2, -1, -1)
        last = (slots - 1) * span
        assert torch.equal(found[:, [last, last + 1, last + span - 1]], around)


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("slots", "length", "behind"), [(1, 5, 3), (3, 40, 50)])
@pytest.mark.parametrize("marked", [False, True])
def test_prefix_places(rand, dependent, slots, length, behind, marked):
    images, words = rand(slots, 2) > 0, rand(2, length) > -0.5
    marks = rand(slots, 2) > 0 if marked else None
    period = 10_000 ** (torch.arange(24, device=DEVICE) / 24)
    options = {"patches": 17, "behind": behind, "marks": marks}
    found = prefix_places.fused(images, words, period, **options, dependent=dependent)
    expected = prefix_places.reference(images, words, period.double(), **options)
    for one, other in zip(found[:2], expected[:2], strict=True):
        assert torch.equal(one, other)
    for one, other in zip(found[2:], expected[2:], strict=True):
        check(one, other, torch.float32)
    exists, joint, cos, _ = found
    assert torch.equal(joint[:, : exists.shape[1]], exists)
    assert joint[:, exists.shape[1] - 1 :].all()
    one = (exists.sum(1) + behind - 1).double()[:, None] / period.double()
    check(cos[:, -1, :24], one.cos(), torch.float32)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("rows", [1, 41, 50, 70])
@pytest.mark.parametrize("activation", ["", "gelu_tanh", "silu", "relu"])
def test_skinny_linear(rand, dtype, dependent, rows, activation):
    x, weight, bias = rand(rows, 192, dtype=dtype), rand(96, 192, dtype=dtype), rand(96)
    tile = skinny_linear.Tile(32, 64, 1, 3)
    found = skinny_linear.fused(x, weight, bias, activation, tile=tile, dependent=dependent)
    check(found, skinny_linear.reference(*wide(x, weight, bias), activation), dtype)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("rows", "tile_rows"), [(50, 64), (150, 64), (241, 128)])
def test_skinny_linear_in_parts(rand, dtype, dependent, rows, tile_rows):
    x, weight = rand(rows, 384, dtype=dtype), rand(64, 384, dtype=dtype)
    tile = skinny_linear.Tile(32, 64, 3, 2, rows=tile_rows)
    found = skinny_linear.fused(x, weight, tile=tile, parts=True, dependent=dependent)
    assert found.shape == (3, rows, 64)
    expected = skinny_linear.reference_parts(*wide(x, weight)).sum(0)
    check(found.sum(0), expected, torch.float32 if dtype == torch.float32 else torch.float16)


def test_a_tile_that_does_not_fit_is_refused():
    x, weight = torch.zeros(4, 96), torch.zeros(48, 96)
    with pytest.raises(ValueError, match="does not fit"):
        skinny_linear.fused(x, weight, tile=skinny_linear.Tile(64, 64))
    with pytest.raises(ValueError, match="does not fit"):
        gated_linear.fused(x, weight, "silu", tile=skinny_linear.Tile(64, 64))


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("activation", ["gelu_tanh", "silu"])
@pytest.mark.parametrize(("rows", "tile_rows"), [(50, 64), (150, 128)])
def test_gated(rand, dtype, dependent, activation, rows, tile_rows):
    x, weight = rand(rows, 128, dtype=dtype), rand(128, 128, dtype=dtype, scale=0.1)
    tile = skinny_linear.Tile(32, 64, 1, 3, rows=tile_rows)
    found = gated_linear.fused(x, weight, activation, tile=tile, dependent=dependent)
    check(found, gated_linear.reference(*wide(x, weight), activation), dtype)
    y = rand(9, 2 * 100, dtype=dtype)
    found = gated_activation.fused(y, activation, dependent=dependent)
    check(found, gated_activation.reference(y.double(), activation), dtype)


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("rows", "n", "k"), [(50, 32, 1024), (50, 100, 32), (1, 5, 7)])
@pytest.mark.parametrize("biased", [False, True])
def test_row_linear(rand, dependent, rows, n, k, biased):
    x, weight, bias = rand(rows, k), rand(n, k), rand(n) if biased else None
    assert row_linear.fits(x, weight)
    for activation in ("", "silu"):
        found = row_linear.fused(x, weight, bias, activation, dependent=dependent)
        expected = row_linear.reference(*wide(x, weight, bias), activation)
        check(found, expected, torch.float32)


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("batch", "states"), [(1, 1), (3, 1), (3, 3)])
@pytest.mark.parametrize("placed", [False, True])
def test_token_rows(rand, dependent, dtype, batch, states, placed):
    first = rand(states, 2, 96, dtype=dtype)[:, 0]
    tokens = rand(batch, 7, 96, dtype=dtype)
    places = rand(9, 96, dtype=dtype) if placed else None
    found = token_rows.fused(first, tokens, places, dependent=dependent)
    assert torch.equal(found, token_rows.reference(first, tokens, places))


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_flow_step(rand, dependent, sign):
    given = [rand(2, 13, 30) for _ in range(3)] + [rand(2, 13, 1)]
    options = {"sign": sign, "rest": 0.7, "pull": 1.9, "steps": 10}
    found = flow_step.fused(*given, **options, dependent=dependent)
    check(found, flow_step.reference(*wide(*given), **options), torch.float32)


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("rows", [1, 9, 50, 64])
def test_regroup(rand, dependent, rows):
    x = rand(rows, 144)
    for scale in (None, rand(144)):
        groups, copy, squares = regroup.fused_into(x, torch.float16, scale, dependent=dependent)
        expected = regroup.reference_into(x, torch.float16, scale)
        assert torch.equal(groups, expected[0])
        assert torch.equal(copy, expected[1])
        check(squares, expected[2], torch.float32)
        mean = x.square().mean(1)
        check(fragments.mean_square(squares, rows), mean, torch.float32)
    assert torch.equal(fragments.from_groups(groups, rows), x)


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("rows", "narrow", "width"), [(1, 7, 48), (50, 32, 1024), (64, 33, 144)])
def test_stream_linear(rand, dependent, rows, narrow, width):
    x, weight, bias = rand(rows, narrow), rand(width, narrow), rand(width)
    for scale in (None, rand(width)):
        stream, copy, squares = stream_linear.fused_into(
            x, weight, bias, torch.float16, scale, dependent=dependent
        )
        expected = stream_linear.reference_into(
            *wide(x, weight, bias), torch.float64, None if scale is None else scale.double()
        )
        check(stream, expected[0], torch.float32)
        check(copy, expected[1], torch.float16)
        check(squares, expected[2], torch.float32)
    weight, bias = rand(narrow, width), rand(narrow)
    found = stream_linear.fused_out(stream, rows, weight, bias, 1e-6, dependent=dependent)
    expected = stream_linear.reference_out(stream.double(), rows, *wide(weight, bias), 1e-6)
    check(found, expected, torch.float32)
    behind = stream_linear.fused_out(stream, rows, weight, bias, 1e-6, first=1, dependent=dependent)
    assert torch.equal(behind, found[1:])
    given = [rand(rows, narrow) for _ in range(3)]
    step = flow_step.Step(-1.0, 0.7, 1.9, 10)
    euler, euler64 = (flow_step.Euler(*g, step) for g in (given, wide(*given)))
    found = stream_linear.fused_out(
        stream, rows, weight, bias, 1e-6, euler=euler, dependent=dependent
    )
    expected = flow_step.reference(*euler64[:1], expected, *euler64[1:3], **step._asdict())
    check(found, expected, torch.float32)


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("rows", "narrow", "width"), [(1, 7, 48), (50, 32, 768), (64, 33, 144)])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_split_rows(rand, dependent, rows, narrow, width, first):
    rows = min(rows, 64 - first)
    x, weight, bias = rand(rows, narrow), rand(width, narrow), rand(width)
    out = torch.full((3 * width // 16, 4, 32, 8), torch.nan, dtype=torch.float16, device=x.device)
    split_linear.fused_rows(x, weight, bias, out=out, first=first, dependent=dependent)
    high, again, low = from_fragments(out, 64).double().chunk(3, dim=1)
    assert torch.equal(high, again)
    expected, there = F.silu(F.linear(*wide(x, weight, bias))), slice(first, first + rows)
    check(high[there], expected, torch.float16)
    check((high + low)[there], expected, torch.float32)
    for part in (high, low):
        assert not part[:first].any()
        assert not part[first + rows :].any()
    twin = split_linear.reference_rows(*wide(x, weight, bias), torch.float64, first)
    check(from_fragments(twin, 64)[there, :width], expected, torch.float32)


@pytest.mark.parametrize("name", ["flow_forward", "flow_backward"])
def test_flow_steps_are_the_solvers_own(rand, name):
    """The fused step's definition, repeated, against the solver with the same guide."""
    x, target = rand(1, 6, 4).double(), rand(1, 6, 4).double()
    weights, matrix = rand(1, 6, 4).abs().double(), rand(4, 4).double()
    guide, steps = solver.RtcIdentity(target, weights), 5
    sign = {"flow_forward": 1.0, "flow_backward": -1.0}[name]

    def predict(at, step):
        return at @ matrix + step

    expected = solver.SOLVERS[name](predict, x, steps, guide)
    for i in range(steps):
        pull = solver.rtc_weight(i / steps, float(steps))
        x = flow_step.reference(
            x, predict(x, i), target, weights, sign=sign, rest=1 - i / steps, pull=pull, steps=steps
        )
    torch.testing.assert_close(x, expected, rtol=1e-9, atol=1e-9)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("heads", "kv"), [(8, 1), (4, 2), (3, 3), (0, 1), (3, 0)])
@pytest.mark.parametrize("parts", [0, 2])
@pytest.mark.parametrize("norm", [False, True])
def test_rope_cache(rand, dtype, dependent, heads, kv, parts, norm):
    batch, length, d, longest, at = 2, 5, 48, 9, 3
    shape = (batch * length, (heads + 2 * kv) * d)
    y = rand(parts, *shape) if parts else rand(*shape, dtype=dtype)
    angle = rand(batch, length + 2, d // 2)
    cos, sin = (torch.cat([f, f], -1)[:, 2:] for f in (angle.cos(), angle.sin()))
    norms = (rand(d), rand(d)) if norm else None
    found = [torch.zeros(batch, kv, longest, d, dtype=dtype, device=DEVICE) for _ in range(2)]
    if norm:  # a cache in another order
        found = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in found]
    expected = [t.double() for t in found]
    norms64 = None if norms is None else (norms[0].double(), norms[1].double())
    want = rope_cache.reference(
        y.double(), cos.double(), sin.double(), *expected, heads=heads, at=at, norms=norms64
    )
    q = rope_cache.fused(y, cos, sin, *found, heads=heads, at=at, norms=norms, dependent=dependent)
    assert (q is None) == (want is None) == (heads == 0)
    if q is not None:
        check(q, want, dtype)
    for one, other in zip(found, expected, strict=True) if kv else ():
        check(one, other, dtype)
        assert not one[:, :, :at].any()
        assert not one[:, :, at + length :].any()


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("heads", "kv", "d"), [(8, 1, 32), (4, 2, 48), (3, 3, 72)])
@pytest.mark.parametrize(("splits", "float32_parts"), [(1, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(rand, dtype, dependent, heads, kv, d, splits, float32_parts, masked):
    batch, length, keys = 2, 13, 90
    q = rand(batch, length, heads, d, dtype=dtype)
    k, v = (rand(batch, kv, keys, d, dtype=dtype) for _ in range(2))
    exists = None
    if masked:
        exists = rand(batch, keys) > 0.3
        exists[1] = False  # a request with no key at all
    blocks = attention.Blocks(16, 16, splits, 1, 4, float32_parts)
    found = attention.fused(q, k, v, exists=exists, blocks=blocks, dependent=dependent)
    check(found, attention.reference(*wide(q, k, v), exists=exists), dtype)
    if masked:
        assert not found[1].any()


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("splits", [1, 2])
def test_attention_causal(rand, dtype, splits):
    q, k, v = rand(2, 20, 4, 32, dtype=dtype), *(rand(2, 2, 20, 32, dtype=dtype) for _ in "kv")
    exists = torch.ones(2, 20, dtype=torch.bool, device=DEVICE)
    exists[0, :6] = False  # left padding: its own rows see nothing
    found = attention.fused(
        q, k, v, exists=exists, causal=True, blocks=attention.Blocks(16, 16, splits, 1)
    )
    check(found, attention.reference(*wide(q, k, v), exists=exists, causal=True), dtype)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv"), [(4, 1), (3, 3), (6, 2)])
@pytest.mark.parametrize("splits", [1, 2])
def test_attention_whose_last_key_is_the_last_querys_own(rand, dtype, heads, kv, splits):
    q = rand(2, 20, heads, 32, dtype=dtype)
    k, v = (rand(2, kv, 20, 32, dtype=dtype) for _ in "kv")
    exists = torch.ones(2, 20, dtype=torch.bool, device=DEVICE)
    exists[0, 3:6] = False
    options = {"exists": exists, "own_last": True}
    found = attention.fused(q, k, v, blocks=attention.Blocks(16, 16, splits, 1), **options)
    check(found, attention.reference(*wide(q, k, v), **options), dtype)
    without = attention.reference(*wide(q, k[:, :, :-1], v[:, :, :-1]), exists=exists[:, :-1])
    check(found[:, :-1], without[:, :-1], dtype)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv"), [(4, 1), (3, 3), (6, 2)])
@pytest.mark.parametrize("splits", [1, 2])
def test_attention_whose_first_query_sees_no_own_key_but_its_own(rand, dtype, heads, kv, splits):
    length, before = 9, 21
    q = rand(2, length, heads, 32, dtype=dtype)
    k, v = (rand(2, kv, before + length, 32, dtype=dtype) for _ in "kv")
    exists = torch.ones(2, before + length, dtype=torch.bool, device=DEVICE)
    exists[0, 3:6] = False
    options = {"exists": exists, "first_alone": True}
    found = attention.fused(q, k, v, blocks=attention.Blocks(16, 16, splits, 1), **options)
    check(found, attention.reference(*wide(q, k, v), **options), dtype)
    until = slice(before + 1)
    alone = attention.reference(
        *wide(q[:, :1], k[:, :, until], v[:, :, until]), exists=exists[:, until]
    )
    check(found[:, :1], alone, dtype)
    check(found[:, 1:], attention.reference(*wide(q, k, v), exists=exists)[:, 1:], dtype)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_of_queries_in_parts(rand, dtype):
    q, bias = rand(3, 1, 13, 4, 48), rand(4 * 48)
    packed = rand(1, 30, 3, 4, 48, dtype=dtype)
    k, v = packed[:, :, 1].transpose(1, 2), packed[:, :, 2].transpose(1, 2)
    found = attention.fused(q, k, v, q_bias=bias, blocks=attention.Blocks(16, 16, 2, 1))
    check(found, attention.reference(*wide(q, k, v), q_bias=bias.double()), dtype)


def test_the_attention_twin_is_softmax(rand):
    """The twin itself against attention written out."""
    q, k, v = rand(2, 5, 4, 16), rand(2, 1, 9, 16), rand(2, 1, 9, 16)
    q, k, v = wide(q, k, v)
    exists = rand(2, 9) > 0
    exists[:, 0] = True
    score = torch.einsum("bthd,bnd->bhtn", q, k[:, 0]) / 4.0
    weight = score.masked_fill(~exists[:, None, None], float("-inf")).softmax(-1)
    expected = torch.einsum("bhtn,bnd->bthd", weight, v[:, 0]).flatten(2)
    torch.testing.assert_close(attention.reference(q, k, v, exists=exists), expected)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("rows", "total", "d"), [(816, 866, 256), (5, 5, 16), (17, 100, 64)])
def test_place_rows(rand, dtype, dependent, rows, total, d):
    key, value = (rand(3, 2, 1, rows, d, dtype=dtype) for _ in range(2))
    found = [torch.full((3, 2, 1, total, d), torch.nan, device=DEVICE).half() for _ in range(2)]
    place_rows.fused(key, value, *found, dependent=dependent)
    expected = [torch.full_like(t, torch.nan) for t in found]
    place_rows.reference(key, value, *expected)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(expected[0][..., :rows, :], key.half())
    assert (expected[1][..., rows:, :] == 0).all()


@needs_triton
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("batch", "cameras", "patches", "words", "behind", "first", "half"),
    [(1, 3, 256, 48, 50, 816, 128), (2, 2, 5, 7, 0, 0, 20), (3, 1, 16, 1, 3, 17, 8)],
)
def test_flow_places(
    rand, dependent, plain, batch, cameras, patches, words, behind, first, half
):  # fmt: skip
    images, spoken = rand(batch, cameras) > -0.5, rand(batch, words) > 0
    frequency = 1.0 / 10000.0 ** (torch.arange(half, device=DEVICE).float() / half)
    options = {"patches": patches, "behind": behind, "first": first, "plain": plain}
    found = flow_places.fused(images, spoken, frequency, **options, dependent=dependent)
    expected = flow_places.reference(images, spoken, frequency, **options)
    assert torch.equal(found[0], expected[0])
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dependent", DEPENDENT)
@pytest.mark.parametrize(("batch", "patches", "words", "width"), [(1, 30, 48, 2048), (2, 3, 5, 72)])
def test_flow_tokens(rand, dtype, dependent, batch, patches, words, width):
    images, table = rand(batch, patches, width, dtype=dtype), rand(100, width, dtype=dtype)
    tokens = torch.randint(100, (batch, words), device=DEVICE)
    found = flow_tokens.fused(images, table, tokens, factor=width**0.5, dependent=dependent)
    expected = flow_tokens.reference(images, table, tokens, factor=width**0.5)
    torch.testing.assert_close(found, expected, atol=0, rtol=1e-6)
