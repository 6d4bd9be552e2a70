// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Attention of a layer: T x HEADS queries that share one key-value head. A cluster takes ROWS_A of the
// folded queries, a rank its share of the keys; ranks join (Flash-Decoding, Dao et al. 2023), each the
// 32 columns that are its own.

#define A_QUERIES 0
#define A_SCORES 16896
#define A_KEYS (A_SCORES + 18944)
#define A_VALUES (A_KEYS + 4224)
#define PITCH_S 148
#define PITCH_P 152
#if ROWS_A > 32
#error "32 folded queries a cluster at most"
#endif

// Scores of 16 queries x 8 keys -> shared memory, masked.
DEV void put_scores(float* score, const float* acc, u32 row, u32 column, bool one, bool two) {
  const float scale = 0.0625f * 1.4426950408889634f;  // D^-1/2 log2 e
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float* to = score + (row + h * 8) * PITCH_S + column;
    to[0] = one ? acc[h * 2] * scale : -infinity();
    to[1] = two ? acc[h * 2 + 1] * scale : -infinity();
  }
}

// A warp's 16 keys of the prefix.
DEV void prefix_scores(const Block& b, const Given& g, u32 queries, u32 base, float* score) {
  u32 lane = b.lane;
  u32 keys = take(b, base + b.warp);
  keys += ((lane & 7) + (lane >> 4) * 8) * 528 + ((lane >> 3) & 1) * 16;
  float acc[2][2][4] = {};
#pragma unroll 8
  for (int i = 0; i < D / 16; i++) {
    u32 a[2][4], f[4];
    ldm4(a[0], queries + i * 32);
    ldm4(a[1], queries + 16 * 528 + i * 32);
    ldm4(f, keys + i * 32);
#pragma unroll
    for (int m = 0; m < 2; m++) mma(acc[m][0], a[m], f), mma(acc[m][1], a[m], f + 2);
  }
  __syncwarp();
  if (lane == 0) give(b, base + b.warp, 2);
#pragma unroll
  for (int c = 0; c < 2; c++) {
    int i = b.warp * 16 + c * 8 + (lane & 3) * 2, at = (int)b.rank * b.per + i;
    bool one = i < b.per && at < g.prefix && g.exists[at];
    bool two = i + 1 < b.per && at + 1 < g.prefix && g.exists[at + 1];
#pragma unroll
    for (int m = 0; m < 2; m++) put_scores(score, acc[m][c], m * 16 + (lane >> 2), i, one, two);
  }
}

// This rank's keys of the chunk itself, one tile of 8.
DEV void own_scores(const Block& b, const Given& g, u32 queries, int own, int owned, float* score) {
  u32 lane = b.lane, keys = b.act + A_KEYS + (lane & 7) * 528 + (lane >> 3) * 16;
  float acc[2][4] = {};
#pragma unroll 4
  for (int i = 0; i < D / 32; i++) {
    u32 a[2][4], f[4];
    ldm4(f, keys + i * 64);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      ldm4(a[0], queries + i * 64 + h * 32);
      ldm4(a[1], queries + 16 * 528 + i * 64 + h * 32);
      mma(acc[0], a[0], f + 2 * h), mma(acc[1], a[1], f + 2 * h);
    }
  }
  int i = (lane & 3) * 2;
  const u8* exists = g.exists + g.prefix + own;
  bool one = i < owned && exists[i], two = i + 1 < owned && exists[i + 1];
#pragma unroll
  for (int m = 0; m < 2; m++)
    put_scores(score, acc[m], m * 16 + (lane >> 2), b.n * 16 + i, one, two);
}

// Over this rank's keys. P takes the queries' place; every rank is told the maxima and the sums.
DEV void softmax(const Block& b, u32 rows, const float* score, u16* p) {
  const int EACH = (ROWS_A + WARPS - 1) / WARPS;
  u32 columns = b.n * 16 + 16;
  float s[EACH][5], high[EACH], sum[EACH];
  // Rows behind the last are computed with the rest and read by nobody.
#pragma unroll
  for (int r = 0; r < EACH; r++) {
    u32 row = (b.warp + r * WARPS) & 31;
    high[r] = -infinity();
#pragma unroll
    for (int j = 0; j < 5; j++) {
      u32 c = b.lane + j * 32;
      s[r][j] = c < columns - 8 ? score[row * PITCH_S + c] : -infinity();
      high[r] = fmaxf(high[r], s[r][j]);
    }
  }
#pragma unroll
  for (int o = 16; o; o >>= 1)
#pragma unroll
    for (int r = 0; r < EACH; r++) high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], o));
#pragma unroll
  for (int r = 0; r < EACH; r++) {
    u32 row = (b.warp + r * WARPS) & 31;
    float low = high[r] == -infinity() ? 0.0f : high[r];
    sum[r] = 0.0f;
#pragma unroll
    for (int j = 0; j < 5; j++) {
      u32 c = b.lane + j * 32;
      float e = exp2_(s[r][j] - low);
      sum[r] += e;
      if (c < columns && b.warp + r * WARPS < rows) p[row * PITCH_P + c] = narrow(e);
    }
  }
#pragma unroll
  for (int o = 16; o; o >>= 1)
#pragma unroll
    for (int r = 0; r < EACH; r++) sum[r] += __shfl_xor_sync(~0u, sum[r], o);
#ifdef DIRECT
  pushes_begin(b);
#endif
#pragma unroll
  for (int r = 0; r < EACH; r++) {
    u32 row = b.warp + r * WARPS;
    if (row >= rows) continue;
#ifdef DIRECT
    if (b.lane < RANKS) {
      Aim to = aim(b, b.lane, b.lane, b.rank, BLOCK_ATTEND, ROWS_A * PITCH_O * 4 + row * 8);
      put2(to, 0, high[r], sum[r]);
    }
#else
    if (b.lane == 0) store2(b.pairs_at + row * 8, high[r], sum[r]);
#endif
  }
}

// Warp w < 8 makes the 32 columns that rank w joins, and pushes them there.
DEV void values(const Block& b, u32 base, float (&acc)[2][4][4]) {
  u32 lane = b.lane;
  u32 pa = b.act + A_QUERIES + (lane & 15) * (PITCH_P * 2) + (lane >> 4) * 16;
  for (int i = 0; i <= b.n; i++) {
    u32 v = i < b.n ? take(b, base + b.n + i) : b.act + A_VALUES;
    u32 a[2][4], f[2][4];
    ldm4(a[0], pa + i * 32);
    ldm4(a[1], pa + 16 * PITCH_P * 2 + i * 32);
    u32 va = v + (lane & 15) * 528 + b.warp * 64 + (lane >> 4) * 16;
    ldm4t(f[0], va);
    ldm4t(f[1], va + 32);
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int c = 0; c < 4; c++) mma(acc[m][c], a[m], f[c >> 1] + (c & 1) * 2);
  }
}
DEV void push_values(const Block& b, u32 rows, float (&acc)[2][4][4]) {
  u32 lane = b.lane;
  Aim to = aim(b, b.warp, b.warp, b.rank, BLOCK_ATTEND,
               ((lane >> 2) * PITCH_O + (lane & 3) * 2) * 4);
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (m * 16 + h * 8 + (lane >> 2) < rows)
#pragma unroll
        for (int c = 0; c < 4; c++)
          put2(to, ((m * 16 + h * 8) * PITCH_O + c * 8) * 4, acc[m][c][h * 2],
               acc[m][c][h * 2 + 1]);
}

// The maxima and sums, for every rank.
DEV void put_pairs(const Block& b, u32 rows, const float* pairs) {
#ifndef DIRECT
  for (u32 i = b.tid; i < rows * RANKS; i += CONSUMERS) {
    u32 owner = i / rows, row = i % rows;
    Aim to = aim(b, owner, owner, b.rank, BLOCK_ATTEND, ROWS_A * PITCH_O * 4 + row * 8);
    put2(to, 0, pairs[row * 2], pairs[row * 2 + 1]);
  }
#endif
}

DEV void join(const Block& b, const Given& g, u32 from, u32 rows, const float* red) {
  const u32 EACH = BLOCK_ATTEND / 4;
  for (u32 row = b.warp; row < rows; row += WARPS) {
    float high = -infinity(), sum = 0.0f, total = 0.0f;
#pragma unroll
    for (int s = 0; s < RANKS; s++) high = fmaxf(high, red[s * EACH + ROWS_A * PITCH_O + row * 2]);
    float low = high == -infinity() ? 0.0f : high;
#pragma unroll
    for (int s = 0; s < RANKS; s++) {
      const float* pair = red + s * EACH + ROWS_A * PITCH_O + row * 2;
      float f = exp2_(pair[0] - low);
      sum += f * pair[1];
      total += f * red[s * EACH + row * PITCH_O + b.lane];
    }
    float y = sum == 0.0f ? 0.0f : total / sum;
    store16(g.attended + (u64)(from + row) * D + b.rank * 32 + b.lane, narrow(y));
  }
}

// base: number of the first chunk of keys.
DEV void attend(Block& b, const Given& g, int layer, u32 base, float* red, u8* act,
                const float* pairs) {
  u32 from = b.cluster * ROWS_A, rows = T * HEADS - from < ROWS_A ? T * HEADS - from : ROWS_A;
  if (from >= T * HEADS) rows = 0;
  expect(b, RANKS, BLOCK_ATTEND, rows * (32 + 2) * 4);
  int own = (int)b.rank * OWN, owned = T - own;
  owned = owned < 0 ? 0 : owned > OWN ? OWN : owned;
  load_rows<512, ROWS_A>(b, b.act + A_QUERIES, g.q + (u64)from * D, D, rows);
  load_rows<512, OWN>(b, b.act + A_KEYS, g.own + own * D, D, owned);
  load_rows<512, OWN>(b, b.act + A_VALUES, g.own + (T + own) * D, D, owned);
  for (u32 i = b.tid; i < (16 - owned) * 33u; i += CONSUMERS)
    ((float4*)(act + A_VALUES + owned * 528))[i] = make_float4(0, 0, 0, 0);
  consumers_sync();
  stamp(b, g, layer, 6);
  float* score = (float*)(act + A_SCORES);
  u32 queries = b.act + A_QUERIES + (b.lane & 15) * 528 + (b.lane >> 4) * 16;
  if ((int)b.warp < b.n) prefix_scores(b, g, queries, base, score);
  if (b.warp == WARPS - 1) own_scores(b, g, queries, own, owned, score);
  consumers_sync();
  softmax(b, rows, score, (u16*)(act + A_QUERIES));
  consumers_sync();
  float acc[2][4][4] = {};
  if (b.warp < RANKS) values(b, base, acc);
  puts_begin(b);
  if (b.warp < RANKS) push_values(b, rows, acc);
  put_pairs(b, rows, pairs);
  send(b, 0, RANKS, b.rank, BLOCK_ATTEND);
  stamp(b, g, layer, 7);
  gathered(b);
  stamp(b, g, layer, 8);
  if (b.tid == 0)
    for (int i = 0; i < b.n; i++) give(b, base + b.n + i, 2);
  join(b, g, from, rows, red);
  wipe(b, g.y, T * W * 2);
  wipe(b, g.squares, T * MOST_GRID * 4);
}
