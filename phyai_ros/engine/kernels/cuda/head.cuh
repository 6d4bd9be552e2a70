// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What head_attention.cu is made of; in front of it.

#define WARPS 4
#define STEPS (D / 16)  // of 16 columns
#define KEYS (PREFIX + OWN)
#define SHARE (KEYS / WARPS)  // a warp's
#define BOX_BYTES (64 * 128)
#define SIDE_BYTES (KEYS * 128)  // of keys, and of values behind them
#define PART_BYTES (STEPS * 1024)
#define WEIGHTS (2 * SIDE_BYTES)  // behind keys and values
#define BARS (WEIGHTS + WIDTH * 128)
#define DEPTH (WIDTH / 16 / WARPS)  // steps of a warp's share

static_assert(D % 16 == 0 && D <= 64, "a head is one box");
static_assert(PREFIX % 64 == 0 && OWN % 64 == 0 && KEYS > 0, "each warp has whole steps");
static_assert(STEPS <= WARPS, "a warp joins one step");
static_assert(WIDTH % 64 == 0 && (FRAGMENTS || !WIDTH), "whole boxes");

struct Given {
  TensorMap prefix_keys, prefix_values;  // [prefix, key heads x D]
  TensorMap own_keys, own_values;        // [own, key heads x D]
  TensorMap weight;                      // WIDTH: [heads x D, WIDTH]
  const u16* q;                          // fragments, or [rows, stride]; WIDTH: of the stream's copy
  u16* out;          // fragments; threads whose rows are both missing write nothing
  const u8* exists;  // [prefix + own], which there are; null: all
  const float *norm, *cosine, *sine;  // WIDTH: the norm's scale [WIDTH]; [rows, D]
  u32 stride, rows, prefix, own, sharing;  // sharing: query heads of a key head
  float scale, eps;                        // D^-0.5 log2(e); of the norm
};

// Each of them transposed.
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
