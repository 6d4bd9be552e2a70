// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What the kernels for Hopper are written with; put in front of each source. BF16: 1 where values of
// 16 bits are bfloat16, else float16.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

#ifndef BF16
#define BF16 0
#endif
#define DEV __device__ __forceinline__

DEV u32 shared_of(const void* p) {
  u32 a;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
DEV u32 remote(u32 address, u32 rank) {
  u32 a;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(address), "r"(rank));
  return a;
}
// Into another block's shared memory; its barrier counts the bytes, and who waits for it sees them.
DEV void push2(u32 address, float a, float b, u32 bar) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
          address),
      "f"(a), "f"(b), "r"(bar)
      : "memory");
}
DEV void store2(u32 address, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b) : "memory");
}
// The same for many bytes of this block's shared memory, by the copy engine, behind copy_engine_sees.
DEV void push_bulk(u32 to, u32 from, u32 bytes, u32 bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "r"(from), "r"(bytes), "r"(bar)
      : "memory");
}
DEV void copy_engine_sees() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEV void bar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
DEV void bar_arrive(u32 bar, u32 count) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0], %1; }" ::"r"(bar),
               "r"(count)
               : "memory");
}
DEV void bar_expect(u32 bar, u32 bytes) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(bar),
               "r"(bytes)
               : "memory");
}
// Says that something was read; nothing that was written goes with it.
DEV void bar_arrive_remote(u32 bar) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar)
               : "memory");
}
DEV void bar_wait(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
DEV void bar_wait_relaxed(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
DEV void threads_sync(u32 count) { asm volatile("bar.sync 1, %0;" ::"r"(count) : "memory"); }
DEV void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
DEV void copy16(u32 to, const void* from, u64 policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "l"(policy)
               : "memory");
}
// One arrival when this thread's copies so far are done.
DEV void copies_arrive(u32 bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}
DEV void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

DEV void ldm4(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a));
}
DEV void ldm4t(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a));
}
DEV void ldm2(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(a));
}
// Not volatile: loads of the next step may be moved in front.
DEV void mma(float* c, const u32* a, const u32* b) {
#if BF16
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
#else
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
#endif
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEV u16 narrow(float x) {
  u16 h;
#if BF16
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
#endif
  return h;
}
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
DEV float gelu_tanh(float x) {
  float u = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  return x / (1.0f + exp2_(-1.4426950408889634f * u));
}
DEV float infinity() { return __int_as_float(0x7f800000); }

// What a block leaves for others is its own flag: EMPTY, a NaN that no conversion makes, stands where
// nothing was written yet.
struct Words {
  u32 w[4];
};
DEV Words load_shared_data(const void* p) {
  Words v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(p)
               : "memory");
  return v;
}
DEV void store_empty(void* p) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%1,%1,%1};" ::"l"(p), "r"(~0u) : "memory");
}
DEV void store16(u16* p, u16 v) {
  asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}
DEV void store32(float* p, float v) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory");
}
DEV void store_shared(u32 to, const Words& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.w[0]), "r"(v.w[1]),
               "r"(v.w[2]), "r"(v.w[3])
               : "memory");
}
#ifndef BACKOFF
#define BACKOFF 0
#endif
DEV void waiting() {
  if (BACKOFF) __nanosleep(BACKOFF);
}
DEV void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
// Whether no 16 bits of them are all ones.
DEV bool complete16(const Words& v) {
  u32 r = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) r |= (~v.w[i] - 0x00010001u) & v.w[i];
  return (r & 0x80008000u) == 0;
}
DEV bool complete32(const Words& v) {
  return v.w[0] != ~0u && v.w[1] != ~0u && v.w[2] != ~0u && v.w[3] != ~0u;
}
DEV u64 policy_once() {
  u64 p;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  return p;
}
DEV u64 policy_keep() {
  u64 p;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));
  return p;
}
// Barriers made by one thread are there for the cluster behind cluster_sync.
DEV void bars_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// What the kernels in front wrote may be read from here on (programmatic dependent launch).
DEV void others_done() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEV void next_may_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
