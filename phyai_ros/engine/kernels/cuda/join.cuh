// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// How a product's depth is shared, and its sums are joined. A cluster of BLOCKS makes COLUMNS columns;
// each of the RANKS warpgroups, GROUPS to a block, takes a share of the depth. Then they leave each
// other partial sums, first inside a block, then inside the cluster, in a fixed order, and each
// finishes the OWN groups of 8 columns that it owns. PAIRED: the tile is two halves, and an owner has
// the same columns of both.
//
// Defined outside: K, BLOCKS, GROUPS, COLUMNS, PAIRED; FP8 where weights have 8 bits, not 16.

#define RANKS (BLOCKS * GROUPS)
#define DEPTH (K / RANKS)
#define PIECE (FP8 ? 128 : 64)  // columns of weights: 128 bytes
#define PIECES (DEPTH / PIECE)
#define STEPS (DEPTH / 16)
#define OWN (COLUMNS / 8 / RANKS)
#define PIECE_BYTES (COLUMNS * 128)
#define SHARE_BYTES (PIECES * PIECE_BYTES)
#define RECEIVED_BYTES ((BLOCKS - 1) * OWN * 2048)
#define LEFT_BYTES (BLOCKS * OWN * 2048)  // by one warpgroup for another of its block

static_assert(K % (PIECE * RANKS) == 0 && COLUMNS % (8 * RANKS) == 0, "shares in pieces and groups");
static_assert(COLUMNS <= 256, "one product wide");
static_assert(!PAIRED || OWN % 2 == 0, "an owner has both halves of a pair");
static_assert(SHARE_BYTES >= (GROUPS - 1) * LEFT_BYTES, "sums take the weights' place");

// The j-th group that a rank owns.
DEV constexpr u32 owned(u32 rank, u32 j) {
  return !PAIRED ? rank * OWN + j
         : j < OWN / 2 ? rank * (OWN / 2) + j
                       : COLUMNS / 16 + rank * (OWN / 2) + j - OWN / 2;
}

// Pairs of rows 8 apart of which one is there.
DEV u32 live_pairs(u32 rows) { return rows / 16 * 8 + (rows % 16 < 8 ? rows % 16 : 8); }

// A warpgroup's share of fragments of K columns.
DEV void load_share(u32 (&a)[STEPS][4], const Word4* in, u32 rank, u32 tid, bool live) {
  in += rank * STEPS * 128 + tid;
#pragma unroll
  for (int i = 0; i < STEPS; i++) {
    Word4 w = live ? in[i * 128] : Word4{};
#pragma unroll
    for (int e = 0; e < 4; e++) a[i][e] = w.v[e];
  }
}

// The i-th of a block's pieces in the order in which they are asked for: the warpgroups' first pieces
// first.
DEV constexpr u32 piece_at(u32 i) { return i % GROUPS * PIECES + i / GROUPS; }

// sum += operands weights^T of one piece of a warpgroup's share, whose weights are `matrix`; the first
// one sets the sum.
template <int Operands>
DEV void multiply_piece(float (&sum)[COLUMNS / 2], const u32 (&operands)[Operands][4], u64 matrix,
                        int piece) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const u64 weight = further(matrix, piece * PIECE_BYTES + i * 32);
    if (piece + i == 0)
      product_anew(sum, operands[0], weight);
    else
      product(sum, operands[piece * 4 + i], weight);
  }
}

// Where one warpgroup of a block leaves another's columns: where its own weights, now used, were.
DEV u32 left_at(u32 from, u32 to) {
  return from * SHARE_BYTES + (to < from ? to : to - 1) * LEFT_BYTES;
}
DEV void leave_inside(const float (&sum)[COLUMNS / 2], u8* weights, u32 group, u32 tid) {
#pragma unroll
  for (u32 other = 0; other < GROUPS; other++) {
    if (other == group) continue;
    Float4* left = (Float4*)(weights + left_at(group, other)) + tid;
#pragma unroll
    for (u32 b = 0; b < BLOCKS; b++)
#pragma unroll
      for (u32 j = 0; j < OWN; j++) {
        const float* v = sum + owned(b * GROUPS + other, j) * 4;
        left[(b * OWN + j) * 128] = {v[0], v[1], v[2], v[3]};
      }
  }
}

// The block's sums of this warpgroup's columns, by the block that owns them.
typedef float Part[BLOCKS][OWN][4];
DEV void pick_own(Part& part, const float (&sum)[COLUMNS / 2], u32 group) {
#pragma unroll
  for (u32 b = 0; b < BLOCKS; b++)
#pragma unroll
    for (u32 j = 0; j < OWN; j++)
#pragma unroll
      for (u32 w = 0; w < GROUPS; w++)
        if (w == group) {
#pragma unroll
          for (int e = 0; e < 4; e++) part[b][j][e] = sum[owned(b * GROUPS + w, j) * 4 + e];
        }
}
DEV void add_left(Part& part, const u8* weights, u32 group, u32 tid) {
#pragma unroll
  for (u32 other = 0; other < GROUPS; other++) {
    if (other == group) continue;
    const Float4* left = (const Float4*)(weights + left_at(other, group)) + tid;
#pragma unroll
    for (u32 b = 0; b < BLOCKS; b++)
#pragma unroll
      for (u32 j = 0; j < OWN; j++) {
        Float4 f = left[(b * OWN + j) * 128];
#pragma unroll
        for (int e = 0; e < 4; e++) part[b][j][e] += f.v[e];
      }
  }
}

// To another block's warpgroup of the same number; its barrier counts the bytes.
DEV void put_part(const float (&part)[OWN][4], u32 received, u32 group, u32 block, u32 owner, u32 tid,
                  u32 bar) {
  u32 from = block < owner ? block : block - 1;
  u32 to = remote(received + group * RECEIVED_BYTES, owner) + (from * OWN * 128 + tid) * 16;
#pragma unroll
  for (u32 j = 0; j < OWN; j++) put_async4(to + j * 2048, part[j], bar);
}
// A block's sums to those that finish them: this block's own stay, the others go where they belong.
// beside(owner, its barrier): what else goes there.
template <typename Beside>
DEV void to_owners(float (&own)[OWN][4], const Part& part, u32 received, u32 joined, u32 group,
                   u32 block, u32 tid, bool live, Beside beside) {
#pragma unroll
  for (u32 owner = 0; owner < BLOCKS; owner++) {
    if (owner == block) {
#pragma unroll
      for (u32 j = 0; j < OWN; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) own[j][e] = part[owner][j][e];
    } else if (live) {
      const u32 bar = remote(joined, owner);
      put_part(part[owner], received, group, block, owner, tid, bar);
      beside(owner, bar);
    }
  }
}
DEV void add_received(float (&own)[OWN][4], const u8* received, u32 tid) {
#pragma unroll
  for (u32 from = 0; from < BLOCKS - 1; from++)
#pragma unroll
    for (u32 j = 0; j < OWN; j++) {
      Float4 f = *(const Float4*)(received + ((from * OWN + j) * 128 + tid) * 16);
#pragma unroll
      for (int e = 0; e < 4; e++) own[j][e] += f.v[e];
    }
}
