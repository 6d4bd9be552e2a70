// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of one request's queries, 64 at most, to few keys: a block for a query head's 16 queries,
// whose warps take a share of the keys each and join their parts at the end. PREFIX keys and values
// were there long before and are asked for before the kernel in front, which writes the queries and
// the last OWN keys and values, has ended.
//
// Boxes are 64 keys of 64 columns. With heads of 48 a box ends in 16 columns of the next head: no step
// of the scores reads them, nor do the values'.
//
// Where WIDTH is not 0, what comes in is a residual stream's copy, and each block makes its own
// queries: behind an RMS norm, by the head's rows of a weight, rotated. Each warp has a share of the
// depth. That is a launch less, where nothing but queries is to be made.
//
// Defined outside: D (a multiple of 16, 64 at most), PREFIX and OWN (multiples of 64), CAUSAL (query t
// sees the own keys up to t), FRAGMENTS (the queries' order, else rows), WIDTH (a multiple of 64; 0).

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    head_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 warp = threadIdx.x >> 5, lane = threadIdx.x & 31, quad = lane & 3;
  const u32 tiles = (g.rows + 15) / 16, head = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u32 row = tile * 16 + (lane >> 2);  // and the one 8 further
  const u32 keys = shared_of(memory), values = keys + SIDE_BYTES, bars = keys + BARS;
  float* const parts = (float*)(memory + BARS + 48);
  Float4* const statistics = (Float4*)(parts + WARPS * PART_BYTES / 4);

  auto fetch = [&](const TensorMap& of_keys, const TensorMap& of_values, u32 first, u32 boxes,
                   u32 bar) {
    u32 column = head / g.sharing * D;
    bar_expect(bar, boxes * BOX_BYTES);
    for (u32 i = 0; i < boxes; i++)
      fetch_box(keys + (first + i) * BOX_BYTES, &of_keys, column, i * 64, bar);
    bar_expect(bar + 8, boxes * BOX_BYTES);
    for (u32 i = 0; i < boxes; i++)
      fetch_box(values + (first + i) * BOX_BYTES, &of_values, column, i * 64, bar + 8);
  };
  if (threadIdx.x == 0) {
#pragma unroll
    for (u32 i = 0; i < 5; i++) bar_init(bars + i * 8, 1);
    bars_made();
#if WIDTH
    bar_expect(bars + 32, WIDTH * 128);
    for (u32 i = 0; i < WIDTH / 64; i++)
      fetch_box(keys + WEIGHTS + i * BOX_BYTES, &g.weight, i * 64, head * D, bars + 32);
#endif
    if (PREFIX) fetch(g.prefix_keys, g.prefix_values, 0, PREFIX / 64, bars);
    if (OWN) {
      prefetch_map(&g.own_keys);
      prefetch_map(&g.own_values);
    }
  }
  next_may_start();
  // Which of this lane's keys its two rows see: bit 2 j + c for key 8 j + 2 quad + c of the share.
  u64 seen[2] = {};
#pragma unroll
  for (u32 i = 0; i < SHARE / 4; i++) {
    u32 slot = warp * SHARE + (i >> 1) * 8 + quad * 2 + (i & 1);
    bool own = slot >= PREFIX;
    u32 key = own ? slot - PREFIX : slot;
    bool there = key < (own ? g.own : g.prefix);
    u32 byte = g.exists ? g.exists[there ? key + (own ? g.prefix : 0) : 0] : 1;
#pragma unroll
    for (int h = 0; h < 2; h++)
      seen[h] |= (u64)(there && byte && !(CAUSAL && own && key > row + h * 8)) << i;
  }
#if WIDTH
  Ahead ahead;
  ahead.load(g, warp, quad, row);
#endif
  __syncthreads();  // barriers are made
  others_done();
  if (OWN && threadIdx.x == 0) fetch(g.own_keys, g.own_values, PREFIX / 64, OWN / 64, bars + 16);

  u32 q[STEPS][4];
#if WIDTH
  make_queries(q, g, ahead, tile, keys + WEIGHTS, bars + 32, parts, statistics);
#elif FRAGMENTS
#pragma unroll
  for (u32 i = 0; i < STEPS; i++) {
    Word4 words = {};
    if (row < g.rows) words = ((const Word4*)g.q)[(head * STEPS + i) * 128 + tile * 32 + lane];
#pragma unroll
    for (u32 e = 0; e < 4; e++) q[i][e] = words.v[e];
  }
#else
  const u16* from = g.q + row * g.stride + head * D + quad * 2;
#pragma unroll
  for (u32 i = 0; i < STEPS; i++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      u32 lower = (e & 1) * 8;
      const u16* at = from + lower * g.stride + i * 16 + (e >> 1) * 8;
      q[i][e] = row + lower < g.rows ? *(const u32*)at : 0;
    }
#endif

  const u32 first = warp * SHARE, which = lane >> 3;  // of four matrices
  float s[SHARE / 8][4] = {};
  if (PREFIX) bar_wait(bars, 0);
  if (OWN && first + SHARE > PREFIX) bar_wait(bars + 16, 0);
#pragma unroll
  for (u32 i = 0; i < STEPS; i++)
#pragma unroll
    for (u32 j = 0; j < SHARE / 16; j++) {
      u32 b[4], key = first + j * 16 + (which >> 1) * 8 + (lane & 7);
      load_matrices(b, piece(keys, key, i * 2 + (which & 1)));
      multiply(s[j * 2], q[i], b[0], b[1]);
      multiply(s[j * 2 + 1], q[i], b[2], b[3]);
    }

  float top[2] = {-infinity(), -infinity()}, sum[2] = {}, shift[2];
#pragma unroll
  for (u32 j = 0; j < SHARE / 8; j++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      if (!(seen[e >> 1] >> (j * 2 + (e & 1)) & 1)) s[j][e] = -infinity();
      top[e >> 1] = fmaxf(top[e >> 1], s[j][e]);
    }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    top[h] = quad_max(top[h]) * g.scale;
    shift[h] = top[h] == -infinity() ? 0.0f : top[h];
  }

  float y[STEPS * 2][4] = {};
  if (PREFIX) bar_wait(bars + 8, 0);
  if (OWN && first + SHARE > PREFIX) bar_wait(bars + 24, 0);
#pragma unroll
  for (u32 j = 0; j < SHARE / 16; j++) {
    u32 p[4];
    weigh(p, s[j * 2], s[j * 2 + 1], g.scale, shift, sum);
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
      u32 b[4], key = first + j * 16 + (which & 1) * 8 + (lane & 7);
      load_transposed(b, piece(values, key, i * 2 + (which >> 1)));
      multiply(y[i * 2], p, b[0], b[1]);
      multiply(y[i * 2 + 1], p, b[2], b[3]);
    }
  }

  // Each warp joins 16 columns of every warp's part, in the order of the warps.
#pragma unroll
  for (u32 i = 0; i < STEPS * 2; i++)
    ((Float4*)parts)[(warp * STEPS * 2 + i) * 32 + lane] = {y[i][0], y[i][1], y[i][2], y[i][3]};
#pragma unroll
  for (int h = 0; h < 2; h++) sum[h] = quad_sum(sum[h]);
  if (quad == 0) statistics[warp * 8 + (lane >> 2)] = {top[0], sum[0], top[1], sum[1]};
  __syncthreads();
  if (warp >= STEPS || row >= g.rows) return;
  float weight[WARPS][2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float highest = -infinity(), total = 0.0f;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++)
      highest = fmaxf(highest, statistics[w * 8 + (lane >> 2)].v[h * 2]);
    if (highest == -infinity()) highest = 0.0f;  // no key: zeros
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) {
      Float4 of = statistics[w * 8 + (lane >> 2)];
      weight[w][h] = exp2_(of.v[h * 2] - highest);
      total += of.v[h * 2 + 1] * weight[w][h];
    }
    float inverse = total == 0.0f ? 0.0f : reciprocal(total);
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) weight[w][h] *= inverse;
  }
  Word4 words;
#pragma unroll
  for (u32 half = 0; half < 2; half++) {
    float joined[4] = {};
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) {
      Float4 part = ((const Float4*)parts)[((w * STEPS + warp) * 2 + half) * 32 + lane];
#pragma unroll
      for (u32 e = 0; e < 4; e++) joined[e] += part.v[e] * weight[w][e >> 1];
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) words.v[half * 2 + h] = pack(joined[h * 2], joined[h * 2 + 1]);
  }
  ((Word4*)g.out)[(head * STEPS + warp) * 128 + tile * 32 + lane] = words;
}
