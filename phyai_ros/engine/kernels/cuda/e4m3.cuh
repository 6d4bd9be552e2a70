// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Numbers of 8 bits, and a product's first operand of them, made from fragments in registers, for
// weights in E4M3.
//
// In E4M3 (``dit_product.cu``), that is ``narrow`` with factors: of each of its two rows a thread
// divides what its warpgroup has by a power of two, so that the largest comes to 128 to 256, far from
// E4M3's largest number, 448, and as far as that allows from its smallest. Of 32 columns a product
// takes four neighbours from a lane where fragments have two and two, 8 apart: the order of the depth
// is another (``e4m3.ordered``), which a sum does not see.

// To the nearest, or the largest; the first in the lowest byte.
#define PACK4(kind)                                  \
  "{ .reg .b16 low, high;\n"                         \
  "cvt.rn.satfinite." kind "x2.f32 low, %2, %1;\n"   \
  "cvt.rn.satfinite." kind "x2.f32 high, %4, %3;\n"  \
  "mov.b32 %0, {low, high}; }"
DEV u32 pack_e4m3(float a, float b, float c, float d) {
  u32 p;
  asm(PACK4("e4m3") : "=r"(p) : "f"(a), "f"(b), "f"(c), "f"(d));
  return p;
}
DEV u32 pack_e5m2(float a, float b, float c, float d) {
  u32 p;
  asm(PACK4("e5m2") : "=r"(p) : "f"(a), "f"(b), "f"(c), "f"(d));
  return p;
}

DEV u32 larger(u32 a, u32 b) {
  u32 d;
  asm("max.u16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// What each row is multiplied by to be E4M3, and what to come back.
template <int Steps>
DEV void factors(const u32 (&a)[Steps][4], float (&factor)[2], float (&back)[2]) {
  u32 most[2] = {};  // magnitudes of 16 bits are in the order of their bits
#pragma unroll
  for (int i = 0; i < Steps; i++)
#pragma unroll
    for (int e = 0; e < 4; e++) most[e & 1] = larger(most[e & 1], a[i][e] & 0x7fff7fff);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    Float2 two = unpack(most[h]);
    u32 exponent = __float_as_uint(quad_max(fmaxf(two.v[0], two.v[1]))) >> 23;
    exponent = exponent < 8 ? 8 : exponent;  // zeros, or as good as
    factor[h] = __uint_as_float((261 - exponent) << 23);
    back[h] = __uint_as_float((exponent - 7) << 23);
  }
}

// Two steps of 16 columns into one of 32.
DEV void narrow(const u32 (&first)[4], const u32 (&second)[4], u32 (&to)[4],
                const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const u32* a = i ? second : first;
      Float2 one = unpack(a[h]), other = unpack(a[2 + h]);
      to[i * 2 + h] = pack_e4m3(one.v[0] * factor[h], one.v[1] * factor[h], other.v[0] * factor[h],
                                other.v[1] * factor[h]);
    }
}

// In E5M2 (``cluster_product.cu``), that is ``narrow`` without factors, and ``put_bytes`` of who leaves
// rows so: to the nearest, ties to even, the largest where it is more, as ``quantize.in_e5m2``. Rounding
// a half's upper byte by an addition made infinity of halves from 61440 on, and zero of what is no
// number.

// A thread's share of 8 columns into fragments of bytes, [width / 32][128 threads][16], to where the
// product that reads them has neighbours: its weights are in their own order.
DEV void put_bytes(u16* to, u32 column, u32 tid, const float* v) {
  const u32 q = tid & 3, reader = (tid & ~3u) + ((column >> 3) & 1) * 2 + (q >> 1);
  to += ((column >> 5) * 128 + reader) * 8 + ((column >> 4) & 1) * 4 + (q & 1);
  const u32 rows = pack_e5m2(v[0], v[1], v[2], v[3]);
  to[0] = (u16)rows, to[2] = (u16)(rows >> 16);
}
DEV void narrow(const u32 (&first)[4], const u32 (&second)[4], u32 (&to)[4]) {
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const u32* a = i ? second : first;
      Float2 one = unpack(a[h]), other = unpack(a[2 + h]);
      to[i * 2 + h] = pack_e5m2(one.v[0], one.v[1], other.v[0], other.v[1]);
    }
}
