// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of one request's queries, 64 at most, to few keys: a block of one warpgroup a query head,
// nothing split. With EARLY, keys and values were there long before and are asked for before the
// kernel in front, which writes the queries, has ended; else that kernel writes them too.
//
// Boxes are 64 columns wide. With heads of 48 a box ends in 16 columns of the next head: no step of
// the scores reads them, and of the outputs their columns are left out.
//
// Defined outside: D (a multiple of 16, 64 at most), KEYS (a multiple of 16, 256 at most), EARLY.

#define STEPS (D / 16)  // of 16 columns
#define BOX_BYTES (KEYS * 128)

static_assert(D % 16 == 0 && D <= 64, "a head is one box");
static_assert(KEYS % 16 == 0 && KEYS <= 256, "one product, 64 bits of a mask");

struct Given {
  TensorMap keys, values;  // [keys, key heads x D], boxes of KEYS rows
  const u16* q;            // [rows, stride]
  u16* out;                // fragments; threads whose rows are both missing write nothing
  const u8* exists;        // [keys], which there are; null: all
  u32 stride, rows, count, sharing;  // count: of keys; sharing: query heads of a key head
  float scale;                       // D^-0.5 log2(e)
};

// Which keys of a lane there are: bit 2 j + c for key 8 j + 2 q + c.
DEV u64 existing(const u8* exists, u32 count, u32 lane) {
  u64 bits = 0;
#pragma unroll
  for (u32 i = 0; i < KEYS / 4; i++) {
    u32 key = (i >> 1) * 8 + (lane & 3) * 2 + (i & 1);
    u32 byte = exists ? exists[key < count ? key : 0] : 1;
    bits |= (u64)(key < count && byte) << i;
  }
  return bits;
}

extern "C" __global__ void __launch_bounds__(128) head_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 tid = threadIdx.x, lane = tid & 31, head = blockIdx.x;
  const u32 row = (tid >> 5) * 16 + (lane >> 2);
  const u32 keys = shared_of(memory), values = keys + BOX_BYTES;
  const u32 keys_there = values + BOX_BYTES, values_there = keys_there + 8;

  auto fetch = [&] {
    u32 column = head / g.sharing * D;
    bar_expect(keys_there, BOX_BYTES);
    fetch_box(keys, &g.keys, column, 0, keys_there);
    bar_expect(values_there, BOX_BYTES);
    fetch_box(values, &g.values, column, 0, values_there);
  };
  if (tid == 0) {
    bar_init(keys_there, 1);
    bar_init(values_there, 1);
    bars_made();
    if (EARLY) {
      fetch();
    } else {
      prefetch_map(&g.keys);
      prefetch_map(&g.values);
    }
  }
  next_may_start();
  const u64 there = existing(g.exists, g.count, lane);
  __syncthreads();
  others_done();
  if (!EARLY && tid == 0) fetch();

  u32 q[STEPS][4];
  const u16* from = g.q + row * g.stride + head * D + (lane & 3) * 2;
#pragma unroll
  for (u32 i = 0; i < STEPS; i++)
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      u32 lower = (e & 1) * 8;
      const u16* at = from + lower * g.stride + i * 16 + (e >> 1) * 8;
      q[i][e] = row + lower < g.rows ? *(const u32*)at : 0;
    }

  float s[KEYS / 2] = {};
  bar_wait(keys_there, 0);
  products_begin();
#pragma unroll
  for (u32 i = 0; i < STEPS; i++) product(s, q[i], by_rows(keys + i * 32));
  products_commit();
  products_wait();
  hold(s);

  float top[2] = {-infinity(), -infinity()}, sum[2] = {};
#pragma unroll
  for (int i = 0; i < KEYS / 2; i++) {
    if (!(there >> ((i >> 2) * 2 + (i & 1)) & 1)) s[i] = -infinity();
    top[(i >> 1) & 1] = fmaxf(top[(i >> 1) & 1], s[i]);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    top[h] = quad_max(top[h]);
    top[h] = top[h] == -infinity() ? 0.0f : top[h] * g.scale;
  }

  float y[32] = {};
  u32 p[KEYS / 16][4];
  bar_wait(values_there, 0);
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
