// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What the kernels for Hopper are written with; put in front of each source. Defined outside: BF16, 1
// where values of 16 bits are bfloat16, else float16; PDL, 1 where a kernel may start before the one in
// front ends.
//
// Orders of 64 rows. Lane 4 r + q of warp w of a warpgroup has rows 16 w + r and 16 w + r + 8; of 8
// columns it has 2 q and 2 q + 1.
// Groups, float32, as a product leaves its sums: [width / 8][4 warps][32 lanes][4], the four being
// (row, column) (0, 0), (0, 1), (8, 0), (8, 1).
// Fragments, 16 bits, as a product takes its first operand: [width / 16][4][32][8], two groups' four.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

#define DEV __device__ __forceinline__

struct alignas(64) TensorMap {
  u64 opaque[16];
};
struct alignas(16) Float4 {
  float v[4];
};
struct alignas(16) Word4 {
  u32 v[4];
};
struct alignas(8) Word2 {
  u32 v[2];
};
struct alignas(8) Float2 {
  float v[2];
};

// -- 16 bits -------------------------------------------------------------------------------------
DEV u32 pack(float low, float high) {
  u32 p;
#if BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(high), "f"(low));
#endif
  return p;
}

DEV Float2 unpack(u32 p) {
  Float2 f;
#if BF16
  f.v[0] = __int_as_float(p << 16);
  f.v[1] = __int_as_float(p & 0xffff0000);
#else
  asm("{ .reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\n"
      "cvt.f32.f16 %1, high; }"
      : "=f"(f.v[0]), "=f"(f.v[1])
      : "r"(p));
#endif
  return f;
}

// -- functions -----------------------------------------------------------------------------------
DEV float exp2_(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float rsqrt_(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y * (1.5f - 0.5f * x * y * y);
}
DEV float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float gelu_tanh(float x) {
  float u = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  return x * reciprocal(1.0f + exp2_(-1.4426950408889634f * u));
}
DEV float silu(float x) { return x * reciprocal(1.0f + exp2_(-1.4426950408889634f * x)); }
DEV float infinity() { return __int_as_float(0x7f800000); }
// Over the four lanes that share a row.
DEV float quad_sum(float x, u32 lanes = ~0u) {
  x += __shfl_xor_sync(lanes, x, 1);
  return x + __shfl_xor_sync(lanes, x, 2);
}
DEV float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// -- shared memory, of this block and of others in its cluster -------------------------------------
DEV u32 shared_of(const void* p) {
  u32 a;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
// Four 8 x 8 matrices of 16 bits, a lane the address of a row of one.
DEV void load_matrices(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
// Four 8 x 8 tiles of 16 bits, a row of which each lane points at.
DEV void put_tiles(u32 to, const u32* v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}
DEV u32 cluster_rank() {
  u32 r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
DEV u32 remote(u32 address, u32 rank) {
  u32 a;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(address), "r"(rank));
  return a;
}
// What this block put is there for the others behind their cluster_wait.
DEV void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEV void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// -- barriers and the copy engine ------------------------------------------------------------------
DEV void bar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
// Barriers made by this thread are seen by the copy engine.
DEV void bars_made() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
DEV void bar_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
DEV void bar_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
// At another block's barrier: `remote`. It publishes nothing but that reads are over, so it is not
// `.release.cluster`, which would be a fence of the whole device.
DEV void bar_arrive_remote(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
DEV void bar_wait(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
// A box of a matrix, whose corner is (column, row), into shared memory; what lies outside is zero.
DEV void fetch_box(u32 to, const TensorMap* map, u32 column, u32 row, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(bar)
      : "memory");
}
// fetch_box into the blocks of a cluster whose bits are set, at the same place of each; the barrier at
// the same place of each counts the bytes.
DEV void fetch_box_for(u32 blocks, u32 to, const TensorMap* map, u32 column, u32 row, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(bar), "h"((u16)blocks)
      : "memory");
}
// fetch_box, and fetch_box_for, of a map with four axes: columns, rows, heads, requests.
DEV void fetch_head(u32 to, const TensorMap* map, u32 column, u32 row, u32 head, u32 request, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(head), "r"(request), "r"(bar)
      : "memory");
}
DEV void fetch_head_for(u32 blocks, u32 to, const TensorMap* map, u32 column, u32 row, u32 head,
                        u32 request, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(head), "r"(request), "r"(bar), "h"((u16)blocks)
      : "memory");
}
DEV void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Into another block's shared memory; its barrier counts the bytes.
DEV void put_async4(u32 to, const u32* v, u32 bar) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(bar)
      : "memory");
}
DEV void put_async4(u32 to, const float* v, u32 bar) {
  u32 w[4];
#pragma unroll
  for (int e = 0; e < 4; e++) w[e] = __float_as_uint(v[e]);
  put_async4(to, w, bar);
}
DEV void put_async2(u32 to, const float* v, u32 bar) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
          to),
      "f"(v[0]), "f"(v[1]), "r"(bar)
      : "memory");
}
// bar_wait for what other blocks put.
DEV void bar_wait_cluster(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
// cluster_arrive that publishes nothing: reads are over and barriers are made, as bars_made says.
DEV void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// -- early launches --------------------------------------------------------------------------------
// What the kernels in front wrote may be read, and what they read be written, from here on.
DEV void others_done() {
#if PDL
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEV void next_may_start() {
#if PDL
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// -- products of a warpgroup -------------------------------------------------------------------------
// A matrix in shared memory as boxes of 64 columns (128 bytes, swizzled) are left by the copy engine,
// at multiples of 1024. by_rows: the product sums over columns (a weight [out, in], keys); the next 16
// columns are 32 bytes further. by_columns: it sums over rows (values); the next 16 rows are 2048
// bytes further, the next 64 columns `next` bytes.
DEV u64 by_rows(u32 address) {
  return ((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
// by_rows of boxes of 16 columns (32 bytes, swizzled).
DEV u64 by_short_rows(u32 address) {
  return ((address & 0x3ffff) >> 4) | (1ull << 16) | (16ull << 32) | (3ull << 62);
}
DEV u64 by_columns(u32 address, u32 next) {
  return ((address & 0x3ffff) >> 4) | ((u64)(next >> 4) << 16) | (64ull << 32) | (1ull << 62);
}
// The same matrix, a constant multiple of 16 bytes further on: one addition where a descriptor made
// anew takes five, each of which waits for the one in front, longer than a small product takes.
DEV u64 further(u64 matrix, u32 bytes) {
  return (matrix & ~0xffffffffull) | ((u32)matrix + (bytes >> 4));
}
DEV void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// All groups of products but the last `left` are done.
template <int left>
DEV void products_wait_but() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
DEV void products_wait() { products_wait_but<0>(); }
// What the threads of this block wrote into shared memory is there for products.
DEV void written() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}
// The compiler may not move uses of a sum in front of products_wait.
template <int Count>
DEV void hold(float (&sum)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i++) asm volatile("" : "+f"(sum[i])::"memory");
}
// The compiler may not make this later.
DEV void made(u32& word) { asm volatile("" : "+r"(word)); }

// -- rows in their orders ----------------------------------------------------------------------------
// Of the residual stream, float32, norms read a copy in 16 bits, times this: far from overflow, also
// once it is multiplied by a norm's scale.
#define COPY 0.015625f
// A thread's share of the 8 columns from `column` on.
DEV Float4* group_at(float* x, u32 column, u32 tid) { return (Float4*)x + (column >> 3) * 128 + tid; }
DEV const Float4* group_at(const float* x, u32 column, u32 tid) {
  return (const Float4*)x + (column >> 3) * 128 + tid;
}
DEV void put_fragment(u16* to, u32 column, u32 tid, const float* v) {
  ((Word2*)to)[((column >> 4) * 128 + tid) * 2 + ((column >> 3) & 1)] = {pack(v[0], v[1]),
                                                                        pack(v[2], v[3])};
}
