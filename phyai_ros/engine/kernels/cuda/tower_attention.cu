// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of an image's patches to each other, none masked, heads of D columns, where all keys and
// values of a head fit into a block's shared memory: they are asked for at once, and a warpgroup begins
// when its queries and the first STEP keys are there. While exponentials are made, other products are
// in the tensor cores: the warpgroup's own next ones, and those of others.
//
// Rows come in boxes of 64 columns; what a head has beyond is a box of its own: for the scores 16
// columns (lines of 32 bytes), those that a head does not have being zeros, which the copy engine
// fills in; for the sums, which are as wide as a head, 64 columns again.
//
// Of a block's groups of 64 queries each has two warpgroups, with half of the keys each, which join
// what they have at the end. The blocks of a cluster share a head's keys and values: each asks for some,
// for all of them.
//
// Defined outside: D (48 to 80, in eights), KEYS (of a head, and queries), GROUPS (of a block).

#define STEP 128
#define SHARES 2   // warpgroups of a group
#define CLUSTER 2  // blocks
#define DEPTH ((D + 15) / 16)  // of scores, in steps of 16 columns
#define WIDE (D > 64)
#define STEPS (KEYS / STEP)
#define MINE (STEPS / SHARES)  // of a warpgroup
#define WARPGROUPS (GROUPS * SHARES)
#define QUERY_BYTES (64 * (128 + WIDE * 32))
#define KEY_BYTES (STEP * (128 + WIDE * 32))
#define VALUE_BYTES (STEP * (128 + WIDE * 128))
#define KEYS_AT (GROUPS * QUERY_BYTES)
#define VALUES_AT (KEYS_AT + STEPS * KEY_BYTES)
// Of each warp: the rows that it writes, whose pitch is an odd number of 16 bytes, so that eight rows
// are of different banks; of each warpgroup: what the other share takes.
#define PITCH (D * 2 | 16)
#define ROWS_AT (VALUES_AT + STEPS * VALUE_BYTES)
#define ROWS_BYTES (8 * PITCH)
#define GIVEN_AT (ROWS_AT + WARPGROUPS * 4 * ROWS_BYTES)
#define GIVEN_BYTES ((D / 8 + 1) * 128 * 8)
#define BARS (GIVEN_AT + WARPGROUPS * GIVEN_BYTES)

static_assert(D % 8 == 0 && D >= 48 && D <= 80, "one step of columns beyond the first box at most");
static_assert(KEYS % (64 * GROUPS * CLUSTER) == 0 && KEYS % (STEP * SHARES) == 0, "whole tiles");

struct Given {
  TensorMap queries, query_ends;  // [requests, heads, KEYS, D]: boxes of 64 rows
  TensorMap keys, key_ends;       // boxes of STEP rows
  TensorMap values;
  u16* out;  // [requests, KEYS, heads D]
  u32 heads;
  float scale;  // D^-0.5 log2(e)
};

typedef RowSums<D> Sums;

// Scores in place of their exponentials, which begin at `top`. -> whether y is to be scaled by fade.
DEV bool exponentials(float (&s)[STEP / 2], Sums& sums, float (&fade)[2], float scale) {
  float part[2][2], shift[2];  // two chains of each row, for each step of one waits for the last
#pragma unroll
  for (u32 i = 0; i < STEP / 2; i++) {
    float& high = part[i >> 2 & 1][i >> 1 & 1];
    high = i < 8 && !(i & 1) ? s[i] : fmaxf(high, s[i]);
  }
  const bool grown = sums.rise(part, scale, fade);
#pragma unroll
  for (u32 h = 0; h < 2; h++) {
    shift[h] = sums.top[h];
  }
#pragma unroll
  for (u32 i = 0; i < STEP / 2; i++) {
    const u32 h = i >> 1 & 1;
    float& sum = part[i >> 2 & 1][h];
    s[i] = exp2_(s[i] * scale - shift[h]);
    sum = i < 8 && !(i & 1) ? s[i] : sum + s[i];
  }
  sums.add(part, fade);
  return __any_sync(~0u, grown);
}

// Words of a row of eight, a lane's of each group of eight columns, to where the warp's rows stand.
DEV void put_rows(u32 to, const u32 (&words)[D / 8], u32 lane) {
  const u32 row = to + (lane & 7) * PITCH, tile = lane >> 3;
#pragma unroll
  for (u32 i = 0; i + 4 <= D / 8; i += 4) put_tiles(row + (i + tile) * 16, words + i);
  constexpr u32 left = D / 8 % 4;
  if constexpr (left > 0) {
    const u32* last = words + D / 8 - left;
    constexpr u32 some = left > 0 ? left : 1;
    const u32 again[4] = {last[0], last[1 % some], last[2 % some], last[3 % some]};
    put_tiles(row + (D / 8 - left + tile % some) * 16, again);
  }
}
// Eight rows out, each in one piece. to: the first; line: numbers from one to the next.
DEV void write_rows(u16* to, const u8* from, u32 line, u32 lane) {
  __syncwarp();
#pragma unroll
  for (u32 i = 0; i < (D + 31) / 32; i++) {
    const u32 at = i * 32 + lane, row = at / (D / 8), piece = at % (D / 8);
    if (row < 8)
      *(Word4*)(to + (u64)row * line + piece * 8) = *(const Word4*)(from + row * PITCH + piece * 16);
  }
}

// Of a lane's two rows this share writes the `row`-th; of the other it gives away what it has.
template <int row>
DEV void join(const Sums& sums, u8* memory, u32 (&words)[D / 8], u32 warpgroup, u32 tid) {
  const u32 group = warpgroup % GROUPS, other = warpgroup ^ GROUPS;
  auto given = [&](u32 of) { return (Float2*)(memory + GIVEN_AT + of * GIVEN_BYTES) + tid; };
  Float2* const gives = given(warpgroup);
#pragma unroll
  for (u32 i = 0; i < D / 8; i++) {
    const float* y = sums.y + i * 4 + (1 - row) * 2;
    gives[i * 128] = {y[0], y[1]};
  }
  gives[D / 8 * 128] = {sums.top[1 - row], sums.total[1 - row]};
  meet(1 + group, 256);
  const Float2* const takes = given(other);
  const Float2 its = takes[D / 8 * 128];
  const float top = fmaxf(sums.top[row], its.v[0]);
  float mine = exp2_(sums.top[row] - top), others = exp2_(its.v[0] - top);
  const float inverse = reciprocal(quad_sum(sums.total[row] * mine + its.v[1] * others));
  mine *= inverse;
  others *= inverse;
#pragma unroll
  for (u32 i = 0; i < D / 8; i++) {
    const Float2 part = takes[i * 128];
    const float* y = sums.y + i * 4 + row * 2;
    words[i] = pack(y[0] * mine + part.v[0] * others, y[1] * mine + part.v[1] * others);
  }
}

extern "C" __global__ void __launch_bounds__(WARPGROUPS * 128, 1)
    tower_attention(const __grid_constant__ Given g) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 tid = threadIdx.x & 127, lane = tid & 31;
  // Of a whole warp, so that branches on them are uniform.
  const u32 warpgroup = __shfl_sync(~0u, threadIdx.x >> 7, 0), warp = __shfl_sync(~0u, tid >> 5, 0);
  const u32 group = warpgroup % GROUPS, share = warpgroup / GROUPS;
  const u32 tiles = KEYS / 64 / GROUPS, item = blockIdx.x / tiles;
  const u32 head = item % g.heads, request = item / g.heads;
  const u32 row = (blockIdx.x % tiles * GROUPS + group) * 64;  // this warpgroup's first query
  const u32 start = shared_of(memory), queries = start + group * QUERY_BYTES;
  const u32 queries_there = start + BARS + group * 8;
  const u32 rank = cluster_rank();
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
  cluster_arrive_relaxed();
  cluster_wait();
  others_done();

  if (lane == 0) {
    if (share == 0 && warp == 2) {  // beside the first keys, which another warp asks for
      bar_expect(queries_there, QUERY_BYTES);
      fetch_head(queries, &g.queries, 0, row, head, request, queries_there);
#if WIDE
      fetch_head(queries + 8192, &g.query_ends, 64, row, head, request, queries_there);
#endif
    }
    // Each warp some steps; of two groups the first asks for keys, the second for values.
    auto ask = [&](const TensorMap* map, u32 to, u32 column, u32 step, u32 bar) {
      if (step % CLUSTER == rank)
        fetch_head_for((1 << CLUSTER) - 1, to, map, column, step * STEP, head, request, bar);
    };
#pragma unroll 1
    for (u32 step = share * MINE + warp; step < (share + 1) * MINE; step += 4) {
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
  auto scores = [&](u32 j) {
    const u32 step = share * MINE + j, keys = start + KEYS_AT + step * KEY_BYTES;
    float(&to)[STEP / 2] = s[j & 1];
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
  if (MINE > 1) scores(1);
#pragma unroll
  for (u32 j = 0; j < MINE; j++) {
    float(&now)[STEP / 2] = s[j & 1];
    // Behind these scores the last values and the next scores may be on their way.
    if (j > 0 && j + 1 < MINE)
      products_wait_but<2>();
    else if (MINE > 1)
      products_wait_but<1>();
    else
      products_wait_but<0>();
    hold(now);
    const bool grown = exponentials(now, sums, fade, g.scale);
    sums.wait_behind(queries_there, values_there(share * MINE + j), 0);
    if (j > 0) {
      if (j + 1 < MINE)
        products_wait_but<1>();
      else
        products_wait_but<0>();
      hold(sums.y);
      if (grown) sums.scale(fade);
    }
    packed(p, now);
    const u32 values = start + VALUES_AT + (share * MINE + j) * VALUE_BYTES;
    products_begin();
#pragma unroll
    for (u32 i = 0; i < STEP / 16; i++)
      product_by_columns(sums.y, p[i], by_columns(values + i * 2048, STEP * 128));
    products_commit();
    if (j + 2 < MINE) scores(j + 2);
  }
  products_wait();
  hold(sums.y);
  const u32 line = g.heads * D, at = request * KEYS + row + warp * 16;
  u16* const out = g.out + (u64)at * line + head * D;
  const u32 rows = ROWS_AT + (warpgroup * 4 + warp) * ROWS_BYTES;  // this warp's
  u32 words[D / 8];
  if (share == 0)
    join<0>(sums, memory, words, warpgroup, tid);
  else
    join<1>(sums, memory, words, warpgroup, tid);
  put_rows(start + rows, words, lane);
  write_rows(out + (u64)share * 8 * line, memory + rows, line, lane);
}
