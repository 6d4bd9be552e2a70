// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of one request's queries, 64 at most, to few keys: a block of one warpgroup a query head,
// nothing split. PREFIX keys and values were there long before and are asked for before the kernel in
// front, which writes the queries and the last OWN keys and values, has ended.
//
// Boxes are 64 columns wide. With heads of 48 a box ends in 16 columns of the next head: no step of
// the scores reads them, and of the outputs their columns are left out.
//
// Defined outside: D (a multiple of 16, 64 at most), PREFIX and OWN (multiples of 16; 256 at most, 320
// together), CAUSAL (query t sees the own keys up to t), FRAGMENTS (the queries' order, else rows).

#define STEPS (D / 16)  // of 16 columns
#define KEYS (PREFIX + OWN)

static_assert(D % 16 == 0 && D <= 64, "a head is one box");
static_assert(PREFIX % 16 == 0 && PREFIX <= 256 && OWN % 16 == 0 && OWN <= 256, "boxes");
static_assert(KEYS > 0 && KEYS <= 320, "scores are in registers");

struct Given {
  TensorMap prefix_keys, prefix_values;  // [prefix, key heads x D], boxes of PREFIX rows
  TensorMap own_keys, own_values;        // [own, key heads x D], boxes of OWN rows
  const u16* q;                          // fragments, or [rows, stride]
  u16* out;          // fragments; threads whose rows are both missing write nothing
  const u8* exists;  // [prefix + own], which there are; null: all
  u32 stride, rows, prefix, own, sharing;  // sharing: query heads of a key head
  float scale;                             // D^-0.5 log2(e)
};

// Which keys of a lane there are: bit 2 j + c for key 8 j + 2 q + c of `count`.
template <int N>
DEV u64 existing(const u8* exists, u32 count, u32 lane) {
  u64 bits = 0;
#pragma unroll
  for (u32 i = 0; i < N / 4; i++) {
    u32 key = (i >> 1) * 8 + (lane & 3) * 2 + (i & 1);
    u32 byte = exists ? exists[key < count ? key : 0] : 1;
    bits |= (u64)(key < count && byte) << i;
  }
  return bits;
}

// s += q keys^T, once the keys are there.
template <int Count>
DEV void score(float (&s)[Count], const u32 (&q)[STEPS][4], u32 keys, u32 there) {
  bar_wait(there, 0);
  products_begin();
#pragma unroll
  for (u32 i = 0; i < STEPS; i++) product(s, q[i], by_rows(keys + i * 32));
  products_commit();
}

extern "C" __global__ void __launch_bounds__(128) head_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 tid = threadIdx.x, lane = tid & 31, head = blockIdx.x;
  const u32 row = (tid >> 5) * 16 + (lane >> 2);
  const u32 keys = shared_of(memory), values = keys + KEYS * 128, bars = values + KEYS * 128;

  auto fetch = [&](const TensorMap& of_keys, const TensorMap& of_values, u32 first, u32 count,
                   u32 bar) {
    u32 column = head / g.sharing * D, bytes = count * 128;
    bar_expect(bar, bytes);
    fetch_box(keys + first * 128, &of_keys, column, 0, bar);
    bar_expect(bar + 8, bytes);
    fetch_box(values + first * 128, &of_values, column, 0, bar + 8);
  };
  if (tid == 0) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) bar_init(bars + i * 8, 1);
    bars_made();
    if (PREFIX) fetch(g.prefix_keys, g.prefix_values, 0, PREFIX, bars);
    if (OWN) {
      prefetch_map(&g.own_keys);
      prefetch_map(&g.own_values);
    }
  }
  next_may_start();
  const u64 of_prefix = existing<PREFIX>(g.exists, g.prefix, lane);
  const u64 of_own = existing<OWN>(g.exists ? g.exists + g.prefix : nullptr, g.own, lane);
  __syncthreads();
  others_done();
  if (OWN && tid == 0) fetch(g.own_keys, g.own_values, PREFIX, OWN, bars + 16);

  u32 q[STEPS][4];
#if FRAGMENTS
#pragma unroll
  for (u32 i = 0; i < STEPS; i++) {
    Word4 words = row < g.rows ? ((const Word4*)g.q)[(head * STEPS + i) * 128 + tid] : Word4{};
#pragma unroll
    for (u32 e = 0; e < 4; e++) q[i][e] = words.v[e];
  }
#else
  const u16* from = g.q + row * g.stride + head * D + (lane & 3) * 2;
#pragma unroll
  for (u32 i = 0; i < STEPS; i++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      u32 lower = (e & 1) * 8;
      const u16* at = from + lower * g.stride + i * 16 + (e >> 1) * 8;
      q[i][e] = row + lower < g.rows ? *(const u32*)at : 0;
    }
#endif

  float s[KEYS / 2] = {};
#if PREFIX
  score(*(float(*)[PREFIX / 2])s, q, keys, bars);
#endif
#if OWN
  score(*(float(*)[OWN / 2])(s + PREFIX / 2), q, keys + PREFIX * 128, bars + 16);
#endif
  products_wait();
  hold(s);

  float top[2] = {-infinity(), -infinity()}, sum[2] = {};
#pragma unroll
  for (int i = 0; i < KEYS / 2; i++) {
    const int own = i - PREFIX / 2, h = (i >> 1) & 1;
    const int bit = ((own < 0 ? i : own) >> 2) * 2 + (i & 1);
    bool there = (own < 0 ? of_prefix : of_own) >> bit & 1;
    if (CAUSAL && own >= 0) there = there && (own >> 2) * 8 + (lane & 3) * 2 + (i & 1) <= row + h * 8;
    if (!there) s[i] = -infinity();
    top[h] = fmaxf(top[h], s[i]);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    top[h] = quad_max(top[h]);
    top[h] = top[h] == -infinity() ? 0.0f : top[h] * g.scale;
  }

  float y[32] = {};
  u32 p[KEYS / 16][4];
  if (PREFIX) bar_wait(bars + 8, 0);
  if (OWN) bar_wait(bars + 24, 0);
#pragma unroll
  for (u32 i = 0; i < KEYS / 16; i++) {
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      const float* two = s + i * 8 + e * 2;
      float one = exp2_(two[0] * g.scale - top[e & 1]);
      float other = exp2_(two[1] * g.scale - top[e & 1]);
      sum[e & 1] += one + other;
      p[i][e] = pack(one, other);
    }
    products_begin();
    product_by_columns(y, p[i], by_columns(values + i * 2048, 1024));
  }
  products_commit();
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] = quad_sum(sum[h]);
    sum[h] = sum[h] == 0.0f ? 0.0f : reciprocal(sum[h]);  // no key: zeros
  }
  products_wait();
  hold(y);
  if (row >= g.rows) return;
#pragma unroll
  for (u32 i = 0; i < STEPS; i++) {
    Word4 words;
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      const float* two = y + i * 8 + e * 2;
      words.v[e] = pack(two[0] * sum[e & 1], two[1] * sum[e & 1]);
    }
    *((Word4*)g.out + (head * STEPS + i) * 128 + tid) = words;
  }
}
