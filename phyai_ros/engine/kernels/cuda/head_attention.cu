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
// Defined outside: D (a multiple of 16, 64 at most), PREFIX and OWN (multiples of 64), CAUSAL (query t
// sees the own keys up to t), FRAGMENTS (the queries' order, else rows).

#define WARPS 4
#define STEPS (D / 16)  // of 16 columns
#define KEYS (PREFIX + OWN)
#define SHARE (KEYS / WARPS)  // a warp's
#define BOX_BYTES (64 * 128)
#define SIDE_BYTES (KEYS * 128)  // of keys, and of values behind them
#define PART_BYTES (STEPS * 1024)

static_assert(D % 16 == 0 && D <= 64, "a head is one box");
static_assert(PREFIX % 64 == 0 && OWN % 64 == 0 && KEYS > 0, "each warp has whole steps");
static_assert(STEPS <= WARPS, "a warp joins one step");

struct Given {
  TensorMap prefix_keys, prefix_values;  // [prefix, key heads x D]
  TensorMap own_keys, own_values;        // [own, key heads x D]
  const u16* q;                          // fragments, or [rows, stride]
  u16* out;          // fragments; threads whose rows are both missing write nothing
  const u8* exists;  // [prefix + own], which there are; null: all
  u32 stride, rows, prefix, own, sharing;  // sharing: query heads of a key head
  float scale;                             // D^-0.5 log2(e)
};

// Four 8 x 8 matrices, each lane the address of a row of one.
DEV void load_matrices(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
DEV void load_transposed(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
// sum[16 x 8] += a[16 x 16] b[16 x 8]
DEV void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if BF16
#define KIND "bf16"
#else
#define KIND "f16"
#endif
  asm("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// 16 bytes of a key's columns, as boxes are left by the copy engine.
DEV u32 piece(u32 side, u32 key, u32 sixteenth) {
  return side + key * 128 + ((sixteenth ^ (key & 7)) << 4);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    head_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 warp = threadIdx.x >> 5, lane = threadIdx.x & 31, quad = lane & 3;
  const u32 tiles = (g.rows + 15) / 16, head = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u32 row = tile * 16 + (lane >> 2);  // and the one 8 further
  const u32 keys = shared_of(memory), values = keys + SIDE_BYTES, bars = values + SIDE_BYTES;
  float* const parts = (float*)(memory + 2 * SIDE_BYTES + 32);
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
    for (u32 i = 0; i < 4; i++) bar_init(bars + i * 8, 1);
    bars_made();
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
  __syncthreads();  // barriers are made
  others_done();
  if (OWN && threadIdx.x == 0) fetch(g.own_keys, g.own_values, PREFIX / 64, OWN / 64, bars + 16);

  u32 q[STEPS][4];
#if FRAGMENTS
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
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      const float* two = s[j * 2 + (e >> 1)] + (e & 1) * 2;
      float one = exp2_(two[0] * g.scale - shift[e & 1]);
      float other = exp2_(two[1] * g.scale - shift[e & 1]);
      sum[e & 1] += one + other;
      p[e] = pack(one, other);
    }
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
