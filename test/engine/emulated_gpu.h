// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// A multiprocessor's clusters on a CPU, for the kernels' sources as they are: every thread is a fiber,
// and each function of the kernels' headers that is written in assembly stands here as what PTX says it
// does. What is asynchronous happens late and in any order: copies when the scheduler draws them,
// products when they are waited for. Who waits for what never comes is told.

#include "emulated_device.h"

// -- what CUDA has -----------------------------------------------------------------------------------
struct Dim {
  u32 x;
};
#define threadIdx (Dim{gpu::now->tid})
#define blockIdx (Dim{gpu::now->block->index})
#define gridDim (Dim{gpu::grid})
template <class To, class From>
inline To same_bits(From x) {
  To to;
  memcpy(&to, &x, sizeof(To));
  return to;
}
inline float __int_as_float(int x) { return same_bits<float>(x); }
inline float __uint_as_float(u32 x) { return same_bits<float>(x); }
inline int __float_as_int(float x) { return same_bits<int>(x); }
inline u32 __float_as_uint(float x) { return (u32)__float_as_int(x); }
using std::fmaxf;
using std::fminf;
inline u32 __shfl_xor_sync(u32 lanes, u32 v, u32 mask) {
  u64 mine = v;
  return (u32)gpu::collect(&mine, 1, lanes)[(gpu::now->tid & 31) ^ mask][0];
}
inline u32 __shfl_sync(u32, u32 v, u32 lane) {
  u64 mine = v;
  return (u32)gpu::collect(&mine, 1)[lane][0];
}
inline float __shfl_xor_sync(u32 all, float v, u32 mask) {
  return __int_as_float((int)__shfl_xor_sync(all, __float_as_uint(v), mask));
}
inline u32 __ballot_sync(u32, bool v) {
  u64 mine = v;
  auto given = gpu::collect(&mine, 1);
  u32 bits = 0;
  for (u32 i = 0; i < 32; i++) bits |= (u32)given[i][0] << i;
  return bits;
}
inline bool __any_sync(u32 all, bool v) { return __ballot_sync(all, v) != 0; }
inline void __syncwarp() { gpu::together(); }

inline void meet_or_tell(u32 which, u32 threads, bool wait) {
  gpu::Meeting& m = gpu::now->block->meetings[which];
  u32 times = m.times;
  if (++m.there == threads)
    m.there = 0, m.times++;
  else if (wait)
    gpu::until([&m, times] { return m.times != times; });
}
inline void meet(u32 which, u32 threads) { meet_or_tell(which, threads, true); }
inline void tell(u32 which, u32 threads) { meet_or_tell(which, threads, false); }

// -- what the headers write in assembly --------------------------------------------------------------
inline u32 pack(float low, float high) { return gpu::to_half(low) | (u32)gpu::to_half(high) << 16; }
struct alignas(8) Float2;  // of hopper.cuh, which comes behind
template <class Two>
inline Two unpacked(u32 p) {
  return {gpu::half_of((u16)p), gpu::half_of((u16)(p >> 16))};
}
#define unpack(p) unpacked<Float2>(p)
inline float rsqrt_(float x) { return 1.0f / sqrtf(x); }
inline u32 larger(u32 a, u32 b) {
  return std::max(a & 0xffff, b & 0xffff) | std::max(a >> 16, b >> 16) << 16;
}
inline u32 pack_e4m3(float a, float b, float c, float d) {
  return gpu::e4m3(a) | gpu::e4m3(b) << 8 | gpu::e4m3(c) << 16 | gpu::e4m3(d) << 24;
}
inline u32 pack_e5m2(float a, float b, float c, float d) {
  return gpu::e5m2(a) | gpu::e5m2(b) << 8 | gpu::e5m2(c) << 16 | gpu::e5m2(d) << 24;
}
inline float exp2_(float x) { return exp2f(x); }
inline float reciprocal(float x) { return 1.0f / x; }
inline u32 shared_of(const void* p) { return (u32)((u8*)p - gpu::now->block->memory) + gpu::kBase; }
inline u32 cluster_rank() { return gpu::now->block->rank; }
inline u32 remote(u32 address, u32 rank) { return (address & 0xffffff) | (rank + 1) << 24; }
inline void cluster_arrive() {
  gpu::together();
  gpu::now->cluster_times = gpu::cluster.times;
  if (++gpu::cluster.there == gpu::cluster_threads) gpu::cluster.there = 0, gpu::cluster.times++;
}
inline void cluster_arrive_relaxed() { cluster_arrive(); }
inline void cluster_wait() {
  u32 times = gpu::now->cluster_times;
  gpu::until([times] { return gpu::cluster.times != times; });
}
inline void bar_init(u32 bar, u32 count) {
  gpu::barrier(*gpu::now->block, bar) = {(int)count, (int)count, 0, 0};
}
inline void bars_made() {}
inline void bar_expect(u32 bar, u32 bytes) {
  gpu::Barrier& b = gpu::barrier(*gpu::now->block, bar);
  b.bytes += bytes, b.pending--, b.check();
}
inline void bar_arrive_remote(u32 bar) {
  gpu::Barrier& b = gpu::barrier(gpu::block_of(bar), bar);
  b.pending--, b.check();
}
inline void bar_arrive(u32 bar) { bar_arrive_remote(bar); }
inline void bar_wait(u32 bar, u32 parity) {
  gpu::Barrier& b = gpu::barrier(*gpu::now->block, bar);
  if (!b.count) gpu::Barrier::fail("a barrier is waited for that was not made");
  gpu::until([&b, parity] { return b.phase != parity; });
}
inline void bar_wait_cluster(u32 bar, u32 parity) { bar_wait(bar, parity); }
inline void prefetch_map(const void*) {}
inline void fetch_box(u32 to, const void* map, u32 column, u32 row, u32 bar) {
  gpu::bring(map, 1u << gpu::now->block->rank, to, {column, row}, bar);
}
inline void fetch_box_for(u32 blocks, u32 to, const void* map, u32 column, u32 row, u32 bar) {
  gpu::bring(map, blocks, to, {column, row}, bar);
}
inline void fetch_head(u32 to, const void* map, u32 column, u32 row, u32 head, u32 request, u32 bar) {
  gpu::bring(map, 1u << gpu::now->block->rank, to, {column, row, head, request}, bar);
}
inline void fetch_head_for(u32 blocks, u32 to, const void* map, u32 column, u32 row, u32 head,
                           u32 request, u32 bar) {
  gpu::bring(map, blocks, to, {column, row, head, request}, bar);
}
inline void store_box(const void* map, u32 column, u32 row, u32 from) {
  gpu::Fiber* mine = gpu::now;
  const gpu::Map* m = *(const gpu::Map* const*)map;
  mine->stores++;
  gpu::late.push_back([=] {
    const u32 corner[2] = {column, row};
    gpu::copy_box(*m, *mine->block, from, corner, true);
    mine->stores--;
  });
}
inline void stores_read() {
  gpu::Fiber* mine = gpu::now;
  gpu::until([mine] { return mine->stores == 0; });
}
inline void stores_done() { stores_read(); }
inline void written_for_copies() {}
template <class Word>
inline void put_async4(u32 to, const Word* v, u32 bar) {
  gpu::put(to, v, 16, bar);
}
inline void put_async2(u32 to, const float* v, u32 bar) { gpu::put(to, v, 8, bar); }
inline void put_tiles(u32 to, const u32* v) {
  u64 mine[5] = {to, v[0], v[1], v[2], v[3]};
  auto given = gpu::collect(mine, 5);
  const u32 lane = gpu::now->tid & 31, tile = lane / 8, row = lane % 8;  // this lane's
  for (u32 c = 0; c < 4; c++) {
    u32 word = (u32)given[row * 4 + c][tile + 1];
    memcpy(gpu::at(*gpu::now->block, to + c * 4), &word, 4);
  }
  gpu::together();
}
inline void others_done() {}
inline void next_may_start() {}
inline void __syncthreads() { meet(0, gpu::cluster_threads / (u32)gpu::blocks.size()); }
template <int count> inline void fewer_registers() { gpu::together(); }
template <int count> inline void more_registers() { gpu::together(); }
template <int count>
inline void put_transposed(u32 address, const u32* v) {
  u64 mine[5] = {address};
  for (int m = 0; m < count; m++) mine[m + 1] = v[m];
  auto given = gpu::collect(mine, count + 1);
  const u32 lane = gpu::now->tid & 31, column = lane % 8;
  if (lane < count * 8)
    for (u32 r = 0; r < 8; r++) {
      u32 word = (u32)given[r * 4 + column / 2][lane / 8 + 1];
      u16 x = column & 1 ? word >> 16 : word;
      memcpy(gpu::at(*gpu::now->block, address + r * 2), &x, 2);
    }
  gpu::together();
}
inline void load_matrices(u32 (&to)[4], u32 address) {
  u64 mine = address;
  auto given = gpu::collect(&mine, 1);
  const u32 lane = gpu::now->tid & 31;
  for (u32 m = 0; m < 4; m++)
    memcpy(&to[m], gpu::at(*gpu::now->block, (u32)given[m * 8 + lane / 4][0] + lane % 4 * 4), 4);
}
inline void load_transposed(u32 (&to)[4], u32 address) {
  u64 mine = address;
  auto given = gpu::collect(&mine, 1);
  const u32 lane = gpu::now->tid & 31;
  for (u32 m = 0; m < 4; m++) {
    u16 two[2];
    for (u32 c = 0; c < 2; c++) {
      const u32 row = (u32)given[m * 8 + lane % 4 * 2 + c][0];
      memcpy(&two[c], gpu::at(*gpu::now->block, row + lane / 4 * 2), 2);
    }
    to[m] = two[0] | (u32)two[1] << 16;
  }
}
inline void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  u64 mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  auto given = gpu::collect(mine, 6);
  const u32 lane = gpu::now->tid & 31;
  auto half = [&](u32 of, u32 word, u32 k) {
    return gpu::half_of((u16)(given[of * 4 + k % 8 / 2][word] >> (k & 1) * 16));
  };
  for (u32 i = 0; i < 4; i++)
    for (u32 k = 0; k < 16; k++)
      sum[i] += half(lane / 4, i / 2 + k / 8 * 2, k) * half(lane % 4 * 2 + i % 2, 4 + k / 8, k);
}
inline void made(u32&) {}
inline void products_begin() {}
inline void products_commit() { gpu::now->groups.push_back({}); }
template <int left>
inline void products_wait_but() {
  gpu::together();
  auto& groups = gpu::now->groups;
  const size_t closed = groups.size() - 1, ready = closed > left ? closed - left : 0;
  for (size_t g = 0; g < ready; g++)
    for (size_t i = 0; i < groups[g].size(); i++) gpu::multiply(g, i);
  meet(100 + gpu::now->tid / 128, 128);  // a product is its warpgroup's
  groups.erase(groups.begin(), groups.begin() + (long)ready);
}
inline void products_wait() {
  if (!gpu::now->groups.back().empty()) gpu::Barrier::fail("products that nothing waits for");
  products_wait_but<0>();
}
template <int count> inline void hold(float (&)[count]) {}
template <int count>
inline void product(float (&s)[count], const u32* a, u64 b) {
  gpu::now->groups.back().push_back({s, count * 2, a, 0, b, false});
}
template <int count>
inline void product(float (&s)[count], u64 a, u64 b) {
  gpu::now->groups.back().push_back({s, count * 2, nullptr, a, b, false});
}
template <int count>
inline void product_by_columns(float (&s)[count], u64 a, u64 b) {
  gpu::now->groups.back().push_back({s, count * 2, nullptr, a, b, true});
}
template <int count>
inline void product_by_columns(float (&s)[count], const u32* a, u64 b) {
  gpu::now->groups.back().push_back({s, count * 2, a, 0, b, true});
}
template <int count>
inline void product_by_columns_anew(float (&s)[count], u64 a, u64 b) {
  gpu::now->groups.back().push_back({s, count * 2, nullptr, a, b, true, true});
}
template <int count>
inline void product_anew(float (&s)[count], const u32* a, u64 b) {
  gpu::now->groups.back().push_back({s, count * 2, a, 0, b, false, true});
}
template <int count>
inline void product_anew(float (&s)[count], u64 a, u64 b) {
  gpu::now->groups.back().push_back({s, count * 2, nullptr, a, b, false, true});
}
inline void written() { __syncthreads(); }
