// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What cluster_product.cu is made of: its tile, and what it is given. Behind join.cuh and e4m3.cuh.

#define ROPE 1      // packed: HEADS heads of queries, KV of keys, KV of values, D columns each
#define RESIDUAL 2  // x += gate (y + bias)
#define GATED 3     // rows of W: gates, then as many ups -> act(gate) up
#define GELU 1
#define SILU 2

#define HALF (COLUMNS / 2)
#define STATISTICS_BYTES (NORM ? RANKS * 32 * 8 : 0)
// Whether a product begins with the first pieces of the weights: where these are last to come.
#define EACH (EPILOGUE == GATED)
#define ARRIVALS (EACH ? GROUPS * PIECES : 1)

static_assert(N % COLUMNS == 0, "whole tiles");

struct Given {
  TensorMap weights;   // boxes of HALF rows
  const Word4* in;     // fragments of K columns, or of BYTES; in front of a norm, the stream's copy
  const float* scale;  // RESIDUAL: of the norm behind, [N]; null for ones
  const float* bias;   // [N] or null
  const float* gate;   // [N] or null
  const float* channels;  // FP8: [N], what rows of W are multiplied by
  float* x;            // RESIDUAL: the stream, groups of N columns
  const float* old;    // RESIDUAL: what it was, x itself or a stream that stays; null for zeros
  u16* out;            // fragments, or LEAVES; ROPE: the queries, RESIDUAL: the stream's copy, scaled
  float* squares;      // of the stream's unscaled copy, summed over 8 columns: [K / 8][32][2], as
                       // groups hold rows; RESIDUAL: [N / 8][32][2], written, or null
  u16* key;            // ROPE: rows of KV D, the first that is written
  u16* value;
  const float* cosine;  // [rows, D]
  const float* sine;
  int rows;
  float eps;
};

// First of the 8 columns of group i of the tile, of 2 HALF / 8.
DEV u32 column_of(u32 tile, u32 i) {
#if EPILOGUE == ROPE
  const u32 half = HALF / 8;
  u32 pair = tile * HALF, head = pair / (D / 2);
  return head * D + pair % (D / 2) + (i < half ? i * 8 : D / 2 + (i - half) * 8);
#elif EPILOGUE == GATED
  const u32 half = HALF / 8;
  return tile * HALF + (i < half ? i * 8 : N / 2 + (i - half) * 8);
#else
  return tile * COLUMNS + i * 8;
#endif
}

// Sums of squares of a thread's two rows, over 8 columns.
DEV Float2* squares_at(float* squares, u32 group, u32 tid) {
  return (Float2*)squares + group * 32 + (tid >> 2);
}

// The same, over a rank's share.
DEV u32 statistics_at(u32 statistics, u32 rank, u32 tid) {
  return statistics + (rank * 32 + (tid >> 2)) * 8;
}
