// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What an emulated multiprocessor is made of: fibers, barriers, shared memory, boxes and products.

#pragma once

#include <immintrin.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)

namespace gpu {
struct Map {  // what a TensorMap's first word points at
  u8* base;
  u64 element, axes, sizes[4], strides[4], box[4];  // strides in bytes
};
struct Barrier {
  int count = 0, pending = 0;
  long bytes = 0;
  u32 phase = 0;
  void check() {
    if (pending < 0) fail("more have arrived at a barrier than it counts");
    if (pending == 0 && bytes == 0) phase ^= 1, pending = count;
  }
  static void fail(const char* what);
};
struct Meeting {
  u32 there = 0, times = 0;
};
struct Block {
  std::vector<u8> room;
  u8* memory;
  u32 rank, index;
  std::map<u32, Barrier> barriers;
  std::map<u32, Meeting> meetings;
};
struct Product {
  float* sum;
  int columns;
  const u32* registers;  // of a, or null
  u64 a, b;
  bool by_columns, anew = false;
};
struct Warp {
  u64 given[2][32][6];
  Meeting meeting;
  struct Fiber* lanes[32];
};
struct Fiber {
  ucontext_t context;
  std::vector<u8> stack;
  std::function<bool()> ready;
  bool done = false;
  u32 tid;
  Block* block;
  Warp* warp;
  u32 collected = 0, cluster_times = 0;
  std::vector<std::vector<Product>> groups = {{}};
  int stores = 0;  // not yet read
};
inline ucontext_t scheduler;
inline Fiber* now;
inline std::vector<std::unique_ptr<Block>> blocks;
inline std::vector<std::function<void()>> late;
inline Meeting cluster;
inline u32 cluster_threads, grid;
inline std::mt19937 random{1};

inline bool failed = false, scheduling = true;
inline void Barrier::fail(const char* what) {
  printf("emulation: %s\n", what);
  failed = true;
  while (!scheduling) scheduling = true, swapcontext(&now->context, &scheduler);
}
inline void until(std::function<bool()> ready) {
  if (ready()) return;
  now->ready = std::move(ready), scheduling = true;
  swapcontext(&now->context, &scheduler);
}

inline const u32 kBase = 1024;  // where shared memory begins
inline Block& block_of(u32 address) {
  return address >> 24 ? *blocks[(address >> 24) - 1] : *now->block;
}
inline u8* at(Block& b, u32 address) { return b.memory + (address & 0xffffff) - kBase; }
// Of lines of 128 or 64 bytes.
inline u32 swizzled(u32 address, u32 line = 128) {
  return address ^ (address >> 3 & (line - 16));
}
inline Barrier& barrier(Block& b, u32 address) { return b.barriers[address & 0xffffff]; }

// These lanes of a warp give numbers, all that there still are; -> everybody's.
inline u64 (*collect(const u64* mine, int count, u32 lanes = ~0u))[6] {
  Warp& w = *now->warp;
  u32 turn = now->collected++ & 1;
  for (int i = 0; i < count; i++) w.given[turn][now->tid & 31][i] = mine[i];
  u32 times = w.meeting.times;
  if (++w.meeting.there == (u32)__builtin_popcount(lanes))
    w.meeting.there = 0, w.meeting.times++;
  else
    until([&w, times] { return w.meeting.times != times; });
  return w.given[turn];
}
inline void together() { collect(nullptr, 0); }

inline void copy_box(const Map& m, Block& b, u32 to, const u32* corner, bool store) {
  u64 n[4] = {1, 1, 1, 1}, c[4] = {};
  for (u64 i = 0; i < m.axes; i++) n[i] = m.box[i], c[i] = corner[i];
  const u32 line = n[0] * m.element;
  if (to % (8 * line)) Barrier::fail("a box is not aligned");
  u32 offset = 0;
  for (u64 l = 0; l < n[3]; l++)
    for (u64 k = 0; k < n[2]; k++)
      for (u64 j = 0; j < n[1]; j++)
        for (u64 i = 0; i < n[0]; i++, offset += m.element) {
          u64 p[4] = {c[0] + i, c[1] + j, c[2] + k, c[3] + l};
          bool inside = true;
          u64 from = 0;
          for (u64 a = 0; a < m.axes; a++) {
            inside &= p[a] < m.sizes[a];
            from += p[a] * (a ? m.strides[a - 1] : m.element);
          }
          u8* here = at(b, swizzled(to + offset, line));
          if (store) {
            if (inside) memcpy(m.base + from, here, m.element);
          } else if (inside) {
            memcpy(here, m.base + from, m.element);
          } else {
            memset(here, 0, m.element);
          }
        }
}
inline void bring(const void* map, u32 blocks_of, u32 to, std::vector<u32> corner, u32 bar) {
  const Map* m = *(const Map* const*)map;
  u64 bytes = m->element;
  for (u64 i = 0; i < m->axes; i++) bytes *= m->box[i];
  for (u32 r = 0; r < blocks.size(); r++)
    if (blocks_of >> r & 1)
      late.push_back([=] {
        Block& b = *blocks[r];
        copy_box(*m, b, to, corner.data(), false);
        barrier(b, bar).bytes -= bytes;
        barrier(b, bar).check();
      });
}

inline void put(u32 to, const void* from, u32 bytes, u32 bar) {
  Block *there = &block_of(to), *told = &block_of(bar);
  std::vector<u8> held((const u8*)from, (const u8*)from + bytes);
  late.push_back([=] {
    memcpy(at(*there, to), held.data(), bytes);
    barrier(*told, bar).bytes -= bytes;
    barrier(*told, bar).check();
  });
}

#ifndef E5M2
#define E5M2 0  // the operand in registers
#endif
inline float half_of(u16 x) {
#if BF16
  u32 w = (u32)x << 16;
  float f;
  memcpy(&f, &w, 4);
  return f;
#else
  return _cvtsh_ss(x);
#endif
}
inline u16 to_half(float f) {
  if (std::isnan(f)) return 0x7fff;  // as the device has it, where a CPU has 0x7e00
#if BF16
  u32 w;
  memcpy(&w, &f, 4);
  return (w + 0x7fff + (w >> 16 & 1)) >> 16;
#else
  return _cvtss_sh(f, 0);
#endif
}
// Eight bits with FRACTION of a fraction: nearest, ties to even; the largest where it is more.
template <int FRACTION, int BIAS>
inline u32 in_eight_bits(float f, float largest, u32 most) {
  if (std::isnan(f)) return 0x7f;
  const u32 sign = std::signbit(f) ? 128 : 0;
  f = std::fabs(f);
  if (f >= largest) return sign | most;
  const int one = 1 << FRACTION;
  int e;
  std::frexp(f, &e);
  e = std::max(e - 1, 1 - BIAS);
  int steps = (int)std::nearbyint(std::ldexp(f, FRACTION - e));  // of 2^(e - FRACTION)
  if (steps >= 2 * one) steps /= 2, e++;
  return sign | (u32)(steps < one ? steps : (e + BIAS) << FRACTION | (steps - one));
}
inline u32 e4m3(float f) { return in_eight_bits<3, 7>(f, 448.0f, 0x7e); }
inline u32 e5m2(float f) { return in_eight_bits<2, 15>(f, 57344.0f, 0x7b); }
#if FP8
const u32 kDepth = 32;
inline float from_e4m3(u8 x) {
  const int e = x >> 3 & 15, m = x & 7;
  if (e == 15 && m == 7) return NAN;
  const float f = e ? std::ldexp(1.0f + m / 8.0f, e - 7) : std::ldexp(m / 8.0f, -6);
  return x & 128 ? -f : f;
}
inline float element(const u8* x) {
  static const std::vector<float> all = [] {
    std::vector<float> made;
    for (u32 i = 0; i < 256; i++) made.push_back(from_e4m3((u8)i));
    return made;
  }();
  return all[*x];
}
#else
const u32 kDepth = 16;
inline float element(const u8* x) {
  u16 h;
  memcpy(&h, x, 2);
  return half_of(h);
}
#endif
const u32 kBytes = 32 / kDepth;
// Element (row or column mn, depth k) of an operand in shared memory.
inline float operand(u64 d, u32 mn, u32 k, bool by_columns) {
  u32 start = (d & 0x3fff) << 4, leading = (d >> 16 & 0x3fff) << 4, stride = (d >> 32 & 0x3fff) << 4;
  const u32 line = d >> 62 == 1 ? 128 : 32;
  if (d >> 62 != 1 && d >> 62 != 3 || d >> 49 & 7) Barrier::fail("a descriptor of unknown swizzles");
  if (line == 32 && (by_columns || k * kBytes >= 32)) Barrier::fail("a short row is left");
  u32 offset = by_columns ? mn / 64 * leading + mn % 64 * 2 + k / 8 * stride + k % 8 * 128
                          : mn / 8 * stride + mn % 8 * line + k * kBytes;
  return element(at(*now->block, swizzled(start + offset, line)));
}
inline void multiply(size_t group, size_t index) {
  const Product& p = now->groups[group][index];
  const u32 lane = now->tid & 31, warp = now->tid % 128 / 32;
  float a[2][kDepth];
  for (u32 h = 0; h < 2; h++)
    for (u32 k = 0; k < kDepth; k++) {
      if (p.registers) {
#if FP8
        const Fiber& other = *now->warp->lanes[(lane & ~3u) + k % 16 / 4];
        u32 word = other.groups[group][index].registers[k / 16 * 2 + h];
        u8 byte = word >> (k % 4 * 8);
        a[h][k] = E5M2 ? half_of((u16)(byte << 8)) : element(&byte);
#else
        const Fiber& other = *now->warp->lanes[(lane & ~3u) + k % 8 / 2];
        u32 word = other.groups[group][index].registers[k / 8 * 2 + h];
        a[h][k] = half_of(k & 1 ? word >> 16 : word);
#endif
      } else {
        a[h][k] = operand(p.a, warp * 16 + lane / 4 + h * 8, k, false);
      }
    }
  for (int j = 0; j < p.columns / 8; j++)
    for (u32 c = 0; c < 2; c++) {
      float b[kDepth];
      for (u32 k = 0; k < kDepth; k++) b[k] = operand(p.b, j * 8 + lane % 4 * 2 + c, k, p.by_columns);
      for (u32 h = 0; h < 2; h++)
        if (p.anew) p.sum[j * 4 + h * 2 + c] = 0.0f;
      for (u32 h = 0; h < 2; h++)
        for (u32 k = 0; k < kDepth; k++) p.sum[j * 4 + h * 2 + c] += a[h][k] * b[k];
    }
}
}  // namespace gpu
