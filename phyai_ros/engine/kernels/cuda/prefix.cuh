// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What prefix_attention.cu is made of, and what brings its tiles; in front of it.

#define D 256
#define STEPS (D / 16)   // of 16 columns
#define BOXES (D / 64)   // of 64 columns, as the copy engine brings them
#define ROWS (READERS * 64)
#define KEYS 64  // of a tile: two words of a mask
#define PLACES 5
#define KEY_STEPS (KEYS / 16)
#define MASK_WORDS 64

#define QUERY_BOX (ROWS * 128)
#define QUERY_BYTES (BOXES * QUERY_BOX)  // later another block's sums, 64 rows in float32
#define KEY_BOX (KEYS * 128)
#define TILE_BYTES (BOXES * KEY_BOX)
#define STATISTICS (QUERY_BYTES + PLACES * TILE_BYTES)
#define STATISTICS_BYTES (WARPGROUP * 16)
#define MASKS (STATISTICS + STATISTICS_BYTES)
#define BARS (MASKS + MASK_WORDS * 4)

static_assert(QUERY_BYTES == 64 * D * 4, "sums take the queries' place");
static_assert(HELD <= 8, "registers");

struct Given {
  TensorMap q;           // [requests x rows, D], boxes of ROWS rows
  TensorMap key, value;  // [requests x keys, D], boxes of KEYS rows
  u16* out;              // as q
  const u8* exists;      // [requests, keys], which there are; null: all
  u32 rows, keys, half;  // of a request; half: keys of the first block, a multiple of 16
  u32 tiles;             // of rows, of a request
  float scale;           // D^-0.5 log2(e)
};

struct Block {
  u32 memory, rank, item, tile;
  DEV u32 place(u32 i) const { return memory + QUERY_BYTES + i * TILE_BYTES; }
  DEV u32 queries_there() const { return memory + BARS; }
  DEV u32 joined() const { return memory + BARS + 8; }
  DEV u32 full(u32 i) const { return memory + BARS + 16 + i * 16; }
  DEV u32 empty(u32 i) const { return full(i) + 8; }
};

DEV void bring(const Block& b, const Given& g, u32 tiles) {
  others_done();
  bar_expect(b.queries_there(), QUERY_BYTES);
#pragma unroll
  for (u32 i = 0; i < BOXES; i++)
    fetch_box(b.memory + i * QUERY_BOX, &g.q, i * 64, b.item * g.rows + b.tile * ROWS,
              b.queries_there());
  Ring<PLACES> ring;
  const u32 first = b.item * g.keys + b.rank * g.half;
  auto tile = [&](const TensorMap* map, u32 which) {
    bar_wait(b.empty(ring.place), ring.parity ^ 1);
    bar_expect(b.full(ring.place), TILE_BYTES);
#pragma unroll
    for (u32 i = 0; i < BOXES; i++)
      fetch_box(b.place(ring.place) + i * KEY_BOX, map, i * 64, first + which * KEYS,
                b.full(ring.place));
    ring.next();
  };
  tile(&g.key, 0);
  for (u32 j = 1; j < tiles; j++) {
    tile(&g.key, j);
    tile(&g.value, j - 1);
  }
  tile(&g.value, tiles - 1);
}
