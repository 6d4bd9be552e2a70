// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of many queries to many keys, heads of 64, none masked: each warpgroup has 64 queries of a
// head and goes through its keys 64 at a time. A block takes GROUPS tiles of queries at most, one
// behind the other in the order of heads, so that every multiprocessor gets the same number of them
// but for one; they are of two heads at most, whose keys and values come through a ring each, once a
// block. While one warpgroup makes its weights the others multiply.
//
// Defined outside: STEPS (tiles of queries, and of keys, of a head; 4 or more, so that GROUPS tiles
// are of two heads), GROUPS (5 at most), STAGES (of a ring).

#define BOX_BYTES (64 * 128)
#define STAGE_BYTES (2 * BOX_BYTES)  // keys, and values behind them
#define RING_BYTES (STAGES * STAGE_BYTES)
#define LAG 2  // so many steps may the slowest warpgroup be behind the one that asks for more
#define QUERIES (2 * RING_BYTES)
#define BARS (QUERIES + GROUPS * BOX_BYTES)

static_assert(STEPS >= 4 && GROUPS <= 5, "a block's tiles are of two heads");
static_assert(STAGES > LAG, "a stage is filled again behind its last reader");

struct Given {
  TensorMap queries, keys, values;  // [requests STEPS 64, heads 64], boxes of 64 rows
  u16* out;                         // the same, contiguous
  u32 tiles, heads;                 // of all requests; of one
  float scale;                      // 64^-0.5 log2(e)
};

extern "C" __global__ void __launch_bounds__(GROUPS * 128, 1)
    many_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 tid = threadIdx.x & 127, lane = tid & 31, quad = lane & 3;
  // Of a whole warp, so that branches on it are uniform.
  const u32 group = __shfl_sync(~0u, threadIdx.x >> 7, 0);
  const u32 first = blockIdx.x * g.tiles / gridDim.x;
  const u32 count = (blockIdx.x + 1) * g.tiles / gridDim.x - first;
  const u32 tile = first + group, head = tile / STEPS;  // of all requests
  const u32 border = (first / STEPS + 1) * STEPS - first;  // the first group of the second head
  const bool second = group >= border;
  const u32 start = shared_of(memory);
  const u32 ring = start + (second ? RING_BYTES : 0), queries = start + QUERIES + group * BOX_BYTES;
  // Barriers: of each warpgroup's queries; of each ring's stages, that they are full, and read.
  const u32 queries_there = start + BARS + group * 8;
  const u32 full = start + BARS + GROUPS * 8 + (second ? STAGES * 16 : 0), read = full + STAGES * 8;

  if (threadIdx.x == 0) {
#pragma unroll
    for (u32 i = 0; i < GROUPS; i++) bar_init(start + BARS + i * 8, 1);
    const u32 one = count < border ? count : border;  // groups of the first head
#pragma unroll
    for (u32 r = 0; r < 2; r++)
#pragma unroll
      for (u32 i = 0; i < STAGES; i++) {
        u32 bar = start + BARS + GROUPS * 8 + r * STAGES * 16 + i * 8;
        bar_init(bar, 1);
        bar_init(bar + STAGES * 8, 4 * (r ? (count > one ? count - one : 1) : one));  // warps
      }
    bars_made();
  }
  next_may_start();
  __syncthreads();  // barriers are made
  others_done();
  if (group >= count) return;

  const u32 column = head % g.heads * 64, row = head / g.heads * (STEPS * 64);
  auto ask = [&](u32 step) {  // for the keys and values of a step
    u32 bar = full + step % STAGES * 8, to = ring + step % STAGES * STAGE_BYTES;
    bar_expect(bar, STAGE_BYTES);
    fetch_box(to, &g.keys, column, row + step * 64, bar);
    fetch_box(to + BOX_BYTES, &g.values, column, row + step * 64, bar);
  };
  const bool asks = tid == 0 && (group == 0 || group == border);
  if (tid == 0) {
    bar_expect(queries_there, BOX_BYTES);
    fetch_box(queries, &g.queries, column, row + tile % STEPS * 64, queries_there);
  }
  if (asks)
    for (u32 i = 0; i < (STAGES < STEPS ? STAGES : STEPS); i++) ask(i);
  __syncwarp();

  float s[32], y[32] = {}, top[2], sum[2] = {};
  bar_wait(queries_there, 0);
#pragma unroll 1
  for (u32 step = 0; step < STEPS; step++) {
    const u32 stage = step % STAGES, keys = ring + stage * STAGE_BYTES, values = keys + BOX_BYTES;
    bar_wait(full + stage * 8, step / STAGES & 1);
    products_begin();
    product_anew(s, by_rows(queries), by_rows(keys));
#pragma unroll
    for (u32 i = 1; i < 4; i++) product(s, by_rows(queries + i * 32), by_rows(keys + i * 32));
    products_commit();
    products_wait();
    hold(s);
    if (asks && step >= LAG && step - LAG + STAGES < STEPS) {
      bar_wait(read + (step - LAG) % STAGES * 8, (step - LAG) / STAGES & 1);
      ask(step - LAG + STAGES);
    }
    __syncwarp();

    float high[2] = {s[0], s[2]};
#pragma unroll
    for (u32 i = 0; i < 32; i++) high[i >> 1 & 1] = fmaxf(high[i >> 1 & 1], s[i]);
#pragma unroll
    for (u32 h = 0; h < 2; h++) high[h] = quad_max(high[h]);
    if (step > 0) {
#pragma unroll
      for (u32 h = 0; h < 2; h++) high[h] = fmaxf(high[h], top[h]);
      if (__any_sync(~0u, high[0] > top[0] || high[1] > top[1])) {  // seldom, behind the first steps
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
          float fade = exp2_((top[h] - high[h]) * g.scale);
          sum[h] *= fade;
#pragma unroll
          for (u32 i = 0; i < 16; i++) y[(i >> 1) * 4 + h * 2 + (i & 1)] *= fade;
        }
      }
    }
    float shift[2];
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
      top[h] = high[h];
      shift[h] = high[h] * g.scale;
    }
    u32 p[4][4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) weigh(p[i], s + i * 8, s + i * 8 + 4, g.scale, shift, sum);
    products_begin();
#pragma unroll
    for (u32 i = 0; i < 4; i++)  // a box is 64 columns wide: there is no next one
      product_by_columns(y, p[i], by_columns(values + i * 2048, 1024));
    products_commit();
    // Not beside the next scores: that needs 106 registers, and five warpgroups have 96. The others
    // use the time.
    products_wait();
    hold(y);
    if (lane == 0) bar_arrive(read + stage * 8);
    __syncwarp();
  }

  u16* out = g.out + ((u64)(row + tile % STEPS * 64 + (tid >> 5) * 16 + (lane >> 2)) * g.heads) * 64;
#pragma unroll
  for (u32 h = 0; h < 2; h++) {
    float inverse = reciprocal(quad_sum(sum[h]));
    u16* to = out + h * 8 * g.heads * 64 + column + quad * 2;
#pragma unroll
    for (u32 i = 0; i < 8; i++)
      *(u32*)(to + i * 8) = pack(y[i * 4 + h * 2] * inverse, y[i * 4 + h * 2 + 1] * inverse);
  }
}
