// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Sizes of the expert, who owns what, and the warp that streams weights, keys and values.

#define T TOKENS
#define W 1024
#define HEADS 8
#define D 256
#define QKV ((HEADS + 2) * D)
#define MLP 4096
#define RANKS 8
#define GRID (RANKS * CLUSTERS)
#define MOST_GRID 128
#define ROWS_A ((T * HEADS + CLUSTERS - 1) / CLUSTERS)
#define OWN ((T + RANKS - 1) / RANKS)
#define TILES_N ((T + 7) / 8)
#define MOST_PAIRS (2 * ((QKV / 32 + CLUSTERS - 1) / CLUSTERS))  // of columns, a rank
#ifndef SLOTS
#define SLOTS 14
#endif
#define SLOT 8704
#define ACT 58240
#define PITCH_R 58
#define RED (RANKS * 2 * MOST_PAIRS * PITCH_R * 4)
// Partial sums that one rank leaves another, in bytes, by phase.
#define BLOCK_QKV (2 * MOST_PAIRS * PITCH_R * 4)
#define BLOCK_ATTEND (ROWS_A * PITCH_O * 4 + 256)
#define BLOCK_COLUMNS (2 * MOST_COLUMNS * PITCH_R * 4)
#define BLOCK_GATED (80 * PITCH_R * 4)
#define PITCH_O 40
#define WARPS 10
#define STREAMERS 2
#define THREADS (CONSUMERS + STREAMERS * 32)
#define CONSUMERS (WARPS * 32)
#define MOST_COLUMNS 10
#define ITEMS ((T * 16 + CONSUMERS - 1) / CONSUMERS)
// Of one layer's vectors, float32.
#define V_SCALE1 0
#define V_BIAS1 (V_SCALE1 + W)
#define V_GATE1 (V_BIAS1 + QKV)
#define V_SCALE2 (V_GATE1 + W)
#define V_BIAS2 (V_SCALE2 + W)
#define V_GATE2 (V_BIAS2 + 2 * MLP)
#define V_LAYER (V_GATE2 + W)
#ifndef AHEAD
#define AHEAD 20  // chunks that are asked into L2 before they fit into the ring
#endif

struct Given {
  const u64* weights;    // [DEPTH][4]: qkv, output, gate and up, down
  const float* vectors;  // [DEPTH][V_LAYER]
  float* x;              // [T][W], changed in place
  const u16* key;        // [DEPTH][layer_stride]: rows of D, those of the prefix
  const u16* value;
  u64 layer_stride;     // elements
  const u8* exists;     // [prefix + T]
  const float* cosine;  // [T][D]
  const float* sine;
  // EMPTY before the launch and behind it, but for z of the last layer.
  u16* y;          // [2][T][W]: in front of attention, and of the MLP
  u16* q;          // [T][HEADS D]
  u16* own;        // [2][T][D]: the chunk's keys and values
  u16* attended;   // [T][HEADS D]
  u16* z;          // [2][T][MLP], of even and of odd layers
  float* squares;  // [2][T][MOST_GRID]
  u64* stamps;     // [GRID][DEPTH][25], with STAMPS
  int prefix;
  float eps;
};

// `count` of `total` things from `first` on are part i's.
struct Share {
  u32 first, count;
};
DEV Share share(u32 total, u32 parts, u32 i) {
  u32 each = total / parts, more = total % parts;
  Share s = {i * each + (i < more ? i : more), each + (i < more)};
  return s;
}

struct Block {
  u32 ring, act, red, full, empty, pushed, free, pairs_at;  // shared addresses
  u32 tid, warp, lane, cluster, rank;
  u32 pushes;
  // In tiles of 16 rows of weights: pairs of halves of a head; columns of the residual; pairs of
  // gate and up of this rank and its neighbour, which halve the depth.
  Share pairs, columns, gated;
  int per, n;  // keys of the prefix for each rank, and tiles of them
};

DEV void divide(Block& b, int prefix) {
  b.pairs = share(QKV / 32, CLUSTERS, b.cluster);
  b.columns = share(W / 16, CLUSTERS, b.cluster);
  Share of_cluster = share(MLP / 16, CLUSTERS, b.cluster);
  b.gated = share(of_cluster.count, RANKS / 2, b.rank >> 1);
  b.gated.first += of_cluster.first;
  b.per = (prefix + RANKS - 1) / RANKS;
  b.n = (b.per + 15) / 16;
}

DEV int chunks(const Block& b) {
  return b.pairs.count + 2 * b.n + b.columns.count + 4 * b.gated.count + 2 * b.columns.count;
}

// `rows` rows of 256 or 512 bytes, `stride` elements apart; from the 17th on `jump` further.
struct Chunk {
  const u16* from;
  u32 stride, jump, rows;
  bool wide, again;  // again: read in the next denoising step too
};

// Chunk c of a layer. Chunks of a layer, in the order of their use: of queries, keys and values;
// keys; values; output; gate and up, by halves of the depth; down.
DEV Chunk chunk_of(const Block& b, const Given& g, int layer, int c) {
  const u64* w = g.weights + layer * 4;
  int count = b.pairs.count;
  if (c < count) {
    u32 tile = b.pairs.first + c, row = (tile >> 3) * D + (tile & 7) * 16;
    return {(const u16*)w[0] + (u64)row * W + b.rank * (W / RANKS), W, D / 2 * W - 16 * W, 32,
            false, false};
  }
  c -= count;
  if (c < 2 * b.n) {
    int first = (c < b.n ? c : c - b.n) * 16, at = (int)b.rank * b.per + first;
    int rows = b.per - first < g.prefix - at ? b.per - first : g.prefix - at;
    rows = rows < 0 ? 0 : rows > 16 ? 16 : rows;
    return {(c < b.n ? g.key : g.value) + layer * g.layer_stride + (u64)at * D, D, 0, (u32)rows,
            true, true};
  }
  c -= 2 * b.n;
  count = b.columns.count;
  if (c < count)
    return {(const u16*)w[1] + (u64)(b.columns.first + c) * 16 * (HEADS * D) + b.rank * D,
            HEADS * D, 0, 16, true, false};
  c -= count;
  count = 2 * b.gated.count;
  if (c < 2 * count) {
    u32 step = c >= count, unit = c - step * count, row = (b.gated.first + (unit >> 1)) * 16;
    u32 column = (b.rank & 1) * 512 + (unit & 1) * 256 + step * 128;
    return {(const u16*)w[2] + (u64)row * W + column, W, MLP * W - 16 * W, 32, false, false};
  }
  c -= 2 * count;
  u32 row = (b.columns.first + (c >> 1)) * 16;
  return {(const u16*)w[3] + (u64)row * MLP + b.rank * 512 + (c & 1) * 256, MLP, 0, 16, true,
          false};
}

// Ask for a chunk to be in L2: 64 lines.
DEV void ask(const Chunk& c, u32 lane) {
#pragma unroll
  for (u32 line = lane; line < 64; line += 32) {
    u32 row = c.wide ? line >> 2 : line >> 1, part = c.wide ? line & 3 : line & 1;
    if (row < c.rows) prefetch_l2(c.from + row * c.stride + (row >> 4) * c.jump + part * 64);
  }
}
// Copy a chunk, rows 16 bytes further apart than they are long.
DEV void fetch(const Chunk& c, u32 to, u32 lane, u64 policy) {
  u32 row = c.wide ? 0 : lane >> 4, part = c.wide ? lane : lane & 15, next = c.wide ? 1 : 2;
  u32 pitch = c.wide ? 528 : 272;
  const u16* from = c.from + row * c.stride + part * 8;
  to += row * pitch + part * 16;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    if (row + i * next < c.rows)
      copy16(to + i * next * pitch, from + (u64)i * next * c.stride + (i >= 8 ? c.jump : 0), policy);
  }
}

// A streaming warp: every STREAMERS-th chunk. A slot is filled again when its users have given it
// back.
DEV void produce(const Block& b, const Given& g, int which) {
  u64 once = policy_once(), keep = policy_keep();
  int count = chunks(b), total = DEPTH * count;
  int far = which, far_layer = 0, far_c = which, layer = 0, c = which;
  bool alone = true;  // the kernel in front may still run: weights do not depend on it
  for (int it = which; it < total; it += STREAMERS) {
    if (alone && it >= (int)b.pairs.count) others_done(), alone = false;
    // The ring first: what comes behind it is asked for two chunks at a time.
    int until = SLOTS + it + (it < AHEAD ? it : AHEAD);
    for (; far < total && far < until; far += STREAMERS) {
      if (far >= SLOTS) ask(chunk_of(b, g, far_layer, far_c), b.lane);
      far_c += STREAMERS;
      if (far_c >= count) far_c -= count, far_layer++;
    }
    u32 slot = it % SLOTS, bar = b.full + slot * 8;
    Chunk chunk = chunk_of(b, g, layer, c);
    if (it >= SLOTS) bar_wait(b.empty + slot * 8, (it / SLOTS - 1) & 1);
    fetch(chunk, b.ring + slot * SLOT, b.lane, chunk.again ? keep : once);
    copies_arrive(bar);
    c += STREAMERS;
    if (c >= count) c -= count, layer++;
  }
}

// Wait until chunk number `it` is in the ring. -> its address.
DEV u32 take(const Block& b, u32 it) {
  u32 slot = it % SLOTS;
  bar_wait(b.full + slot * 8, (it / SLOTS) & 1);
  return b.ring + slot * SLOT;
}
// A slot is free after two of these, or one that counts twice.
DEV void give(const Block& b, u32 it, u32 times) { bar_arrive(b.empty + (it % SLOTS) * 8, times); }
