// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What cluster_attention.cu is made of: how its ranks use their shared memory, and what they are
// given; in front of it.

#define RANKS 8
#define LAST (RANKS - 1)
#define OWN 64           // keys of the chunk, at most
#define STEPS (D / 16)   // of 16 columns: a lane's 16 bytes of fragments
#define BOXES (D / 64)   // of 64 columns, as the copy engine brings them
#define OWNED (STEPS < RANKS ? 1 : STEPS / RANKS)  // steps of an owner
#define OWNERS (STEPS / OWNED)

// Shared memory. What others leave here, and then weights, take the place of the prefix's keys.
#define RECEIVED_BYTES (RANKS * OWNED * 2048)
#define STATISTICS_BYTES (RANKS * 512)
#define JOIN_BYTES (RECEIVED_BYTES + STATISTICS_BYTES)
#define PREFIX_BYTES (KEYS * D * 2)
#define WEIGHT_BYTES ((KEYS + 63) / 64 * 8192)
#define OWN_BYTES (OWN * D * 2)
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define PREFIX_VALUES MOST(PREFIX_BYTES, JOIN_BYTES + WEIGHT_BYTES)
#define BARS MOST(PREFIX_VALUES + PREFIX_BYTES, JOIN_BYTES + 2 * OWN_BYTES + 8192)

static_assert(D == 64 || D == 128 || D == 256, "whole boxes and owners");
static_assert(KEYS % 16 == 0 && KEYS >= 64 && KEYS <= 160, "keys a rank");

struct Given {
  TensorMap prefix_keys, prefix_values;  // [at, D], boxes of KEYS rows
  TensorMap own_keys, own_values;        // [rows, D], boxes of OWN rows
  const u16* q;                          // fragments of HEADS D columns
  u16* out;                              // the same, or LEAVES; rows both missing are not written
  const u8* exists;                      // [at + rows], which keys there are
  u32 at, rows;
  float scale;  // D^-0.5 log2(e)
};

struct Block {
  u32 tid, lane, rank, head, memory;  // memory: where shared memory begins
  bool live;                          // one of this thread's rows is a query
  DEV u32 box() const { return rank * OWNED / 4; }  // that an owner's columns are in
  DEV u32 received() const { return memory; }
  DEV u32 statistics() const { return memory + RECEIVED_BYTES; }
  DEV u32 keys_there() const { return memory + BARS; }
  DEV u32 values_there() const { return memory + BARS + 8; }
  DEV u32 told() const { return memory + BARS + 16; }
  DEV u32 joined(u32 k) const { return memory + BARS + 24 + k * 8; }
};

DEV void fetch(u32 to, const TensorMap* map, u32 keys, u32 row, u32 bar) {
  bar_expect(bar, keys * D * 2);
#pragma unroll
  for (u32 i = 0; i < BOXES; i++) fetch_box(to + i * keys * 128, map, i * 64, row, bar);
}
