// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of an image's patches to each other, none masked, heads of D columns, where all keys and
// values of a head fit into a block's shared memory: they are asked for at once, and a warpgroup begins
// when its queries and the first STEP keys are there. While the exponentials of STEP keys are made, the
// scores of the next and the sums of the last are in the tensor cores.
//
// Rows come in boxes of 64 columns; what a head has beyond is a box of its own: for the scores 16
// columns (lines of 32 bytes), those that a head does not have being zeros, which the copy engine
// fills in; for the sums, which are as wide as a head, 64 columns again.
//
// Defined outside: D (48 to 80, in eights), KEYS (of a head, and queries), STEP (64 or 128), GROUPS
// (warpgroups of a block, of 64 queries each), CLUSTER (blocks that share a head's keys and values:
// each asks for its share, for all of them).

#define DEPTH ((D + 15) / 16)  // of scores, in steps of 16 columns
#define WIDE (D > 64)
#define STEPS (KEYS / STEP)
#define QUERY_BYTES (64 * (128 + WIDE * 32))
#define KEY_BYTES (STEP * (128 + WIDE * 32))
#define VALUE_BYTES (STEP * (128 + WIDE * 128))
#define KEYS_AT (GROUPS * QUERY_BYTES)
#define VALUES_AT (KEYS_AT + STEPS * KEY_BYTES)
#define BARS (VALUES_AT + STEPS * VALUE_BYTES)
// What a row's largest score may grow by, as a power of two, before its sums are scaled anew.
#define SLACK 8.0f

static_assert(D % 8 == 0 && D >= 48 && D <= 80, "one step of columns beyond the first box at most");
static_assert(KEYS % (64 * GROUPS * CLUSTER) == 0 && KEYS % STEP == 0, "whole tiles");

struct Given {
  TensorMap queries, query_ends;  // [requests, heads, KEYS, D]: boxes of 64 rows
  TensorMap keys, key_ends;       // boxes of STEP rows
  TensorMap values;
  u16* out;  // [requests, KEYS, heads D]
  u32 heads;
  float scale;  // D^-0.5 log2(e)
};

// What a lane keeps of rows r and r + 8.
struct Sums {
  float y[D / 2] = {};                        // not yet divided
  float top[2] = {-infinity(), -infinity()};  // the scale of y, as a power of two
  float total[2] = {};                        // this lane's share
};

// Scores in place of their exponentials, which begin at `top`. -> whether y is to be scaled by fade.
DEV bool exponentials(float (&s)[STEP / 2], Sums& sums, float (&fade)[2], float scale) {
  float part[2][2], shift[2];  // two chains of each row, for each step of one waits for the last
#pragma unroll
  for (u32 i = 0; i < STEP / 2; i++) {
    float& high = part[i >> 2 & 1][i >> 1 & 1];
    high = i < 8 && !(i & 1) ? s[i] : fmaxf(high, s[i]);
  }
  bool grown = false;
#pragma unroll
  for (u32 h = 0; h < 2; h++) {
    const float top = quad_max(fmaxf(part[0][h], part[1][h])) * scale;
    fade[h] = 1.0f;
    if (top > sums.top[h] + SLACK) {
      fade[h] = exp2_(sums.top[h] - top);
      sums.top[h] = top;
      grown = true;
    }
    shift[h] = sums.top[h];
  }
#pragma unroll
  for (u32 i = 0; i < STEP / 2; i++) {
    const u32 h = i >> 1 & 1;
    float& sum = part[i >> 2 & 1][h];
    s[i] = exp2_(s[i] * scale - shift[h]);
    sum = i < 8 && !(i & 1) ? s[i] : sum + s[i];
  }
#pragma unroll
  for (u32 h = 0; h < 2; h++)
    sums.total[h] = sums.total[h] * fade[h] + (part[0][h] + part[1][h]);
  return __any_sync(~0u, grown);
}

DEV void write(u16* out, Sums& sums, u32 row, u32 quad) {  // out: of this row and head; row: numbers
#pragma unroll
  for (u32 h = 0; h < 2; h++) {
    const float inverse = reciprocal(quad_sum(sums.total[h]));
    u16* const to = out + (u64)h * 8 * row;
    auto pair = [&](u32 i) {
      return pack(sums.y[i * 4 + h * 2] * inverse, sums.y[i * 4 + h * 2 + 1] * inverse);
    };
#pragma unroll
    for (u32 k = 0; k < D / 32; k++) {
      u32 words[4] = {pair(k * 4), pair(k * 4 + 1), pair(k * 4 + 2), pair(k * 4 + 3)};
      exchange(words, quad);
      ((Word4*)to)[k * 4 + quad] = {words[0], words[1], words[2], words[3]};
    }
#pragma unroll
    for (u32 i = D / 32 * 4; i < D / 8; i++) *(u32*)(to + i * 8 + quad * 2) = pair(i);
  }
}

extern "C" __global__ void __launch_bounds__(GROUPS * 128, 1)
    tower_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 tid = threadIdx.x & 127, lane = tid & 31;
  // Of a whole warp, so that branches on them are uniform.
  const u32 group = __shfl_sync(~0u, threadIdx.x >> 7, 0), warp = __shfl_sync(~0u, tid >> 5, 0);
  const u32 tiles = KEYS / 64 / GROUPS, item = blockIdx.x / tiles;
  const u32 head = item % g.heads, request = item / g.heads;
  const u32 row = (blockIdx.x % tiles * GROUPS + group) * 64;  // this warpgroup's first query
  const u32 start = shared_of(memory), queries = start + group * QUERY_BYTES;
  const u32 queries_there = start + BARS + group * 8;
  const u32 rank = CLUSTER > 1 ? cluster_rank() : 0;
  auto keys_there = [&](u32 step) { return start + BARS + (GROUPS + step) * 8; };
  auto values_there = [&](u32 step) { return start + BARS + (GROUPS + STEPS + step) * 8; };

  if (threadIdx.x == 0) {
#pragma unroll
    for (u32 i = 0; i < GROUPS + 2 * STEPS; i++) bar_init(start + BARS + i * 8, 1);
    bars_made();
    prefetch_map(&g.queries);
    prefetch_map(&g.keys);
    prefetch_map(&g.values);
#if WIDE
    prefetch_map(&g.query_ends);
    prefetch_map(&g.key_ends);
#endif
  }
  next_may_start();
  __syncthreads();  // barriers are made
#if CLUSTER > 1
  cluster_arrive_relaxed();
  cluster_wait();
#endif
  others_done();

  if (lane == 0) {
    if (warp == 2) {  // beside the first keys, which another warp asks for
      bar_expect(queries_there, QUERY_BYTES);
      fetch_head(queries, &g.queries, 0, row, head, request, queries_there);
#if WIDE
      fetch_head(queries + 8192, &g.query_ends, 64, row, head, request, queries_there);
#endif
    }
    // Each warp its steps; of two warpgroups the first asks for keys, the second for values.
    auto ask = [&](const TensorMap* map, u32 to, u32 column, u32 step, u32 bar) {
#if CLUSTER > 1
      if (step % CLUSTER == rank)
        fetch_head_for((1 << CLUSTER) - 1, to, map, column, step * STEP, head, request, bar);
#else
      fetch_head(to, map, column, step * STEP, head, request, bar);
#endif
    };
#pragma unroll 1
    for (u32 step = warp; step < STEPS; step += 4) {
      if (group == 0) {
        const u32 to = start + KEYS_AT + step * KEY_BYTES, bar = keys_there(step);
        bar_expect(bar, KEY_BYTES);
        ask(&g.keys, to, 0, step, bar);
#if WIDE
        ask(&g.key_ends, to + STEP * 128, 64, step, bar);
#endif
      }
      if (group == GROUPS - 1) {
        const u32 to = start + VALUES_AT + step * VALUE_BYTES, bar = values_there(step);
        bar_expect(bar, VALUE_BYTES);
        ask(&g.values, to, 0, step, bar);
#if WIDE
        ask(&g.values, to + STEP * 128, 64, step, bar);
#endif
      }
    }
  }
  __syncwarp();

  float s[2][STEP / 2], fade[2];
  u32 p[STEP / 16][4];
  Sums sums;
  auto scores = [&](u32 step) {
    const u32 keys = start + KEYS_AT + step * KEY_BYTES;
    float(&to)[STEP / 2] = s[step & 1];
    bar_wait(keys_there(step), 0);
    products_begin();
    product_anew(to, by_rows(queries), by_rows(keys));
#pragma unroll
    for (u32 i = 1; i < DEPTH; i++)
      if (i < 4)
        product(to, by_rows(queries + i * 32), by_rows(keys + i * 32));
      else
        product(to, by_short_rows(queries + 8192), by_short_rows(keys + STEP * 128));
    products_commit();
  };

  bar_wait(queries_there, 0);
  scores(0);
  if (STEPS > 1) scores(1);
#pragma unroll
  for (u32 j = 0; j < STEPS; j++) {
    float(&now)[STEP / 2] = s[j & 1];
    // Behind these scores the last values and the next scores may be on their way.
    if (j > 0 && j + 1 < STEPS)
      products_wait_but<2>();
    else if (STEPS > 1)
      products_wait_but<1>();
    else
      products_wait_but<0>();
    hold(now);
    const bool grown = exponentials(now, sums, fade, g.scale);
    // The assembler would wait for the last values first and make the exponentials then, were there
    // not a wait that depends on these: no total is below zero, and the queries came before.
    const bool below = sums.total[0] + sums.total[1] < 0.0f;
    bar_wait(below ? queries_there : values_there(j), 0);
    if (j > 0) {
      if (j + 1 < STEPS)
        products_wait_but<1>();
      else
        products_wait_but<0>();
      hold(sums.y);
      if (grown)
#pragma unroll
        for (u32 i = 0; i < D / 2; i++) sums.y[i] *= fade[i >> 1 & 1];
    }
#pragma unroll
    for (u32 i = 0; i < STEP / 16; i++)
#pragma unroll
      for (u32 e = 0; e < 4; e++) {
        p[i][e] = pack(now[i * 8 + e * 2], now[i * 8 + e * 2 + 1]);
        made(p[i][e]);
      }
    const u32 values = start + VALUES_AT + j * VALUE_BYTES;
    products_begin();
#pragma unroll
    for (u32 i = 0; i < STEP / 16; i++)
      product_by_columns(sums.y, p[i], by_columns(values + i * 2048, STEP * 128));
    products_commit();
    if (j + 2 < STEPS) scores(j + 2);
  }
  products_wait();
  hold(sums.y);
  const u32 line = g.heads * D, at = request * KEYS + row + warp * 16 + (lane >> 2);
  write(g.out + (u64)at * line + head * D, sums, line, lane & 3);
}
