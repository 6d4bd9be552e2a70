// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// What kernels share whose first warpgroup brings tiles into a ring of places in shared memory, and
// whose other two multiply them. Behind hopper.cuh.
//
// A place has two barriers. `full` counts the bytes of one filling; `empty` counts the warps that have
// read it, in every block that the filling went to. The n-th time a place is filled (from 0), its
// readers wait for parity n & 1 of `full`; who fills it again waits for parity n & 1 of `empty`.

#define WARPGROUP 128
#define READERS 2  // warpgroups that multiply
#define THREADS ((READERS + 1) * WARPGROUP)
// At the start all have 168 registers, what a multiprocessor has for THREADS.
#define REGISTERS_TO_BRING 24
#define REGISTERS_TO_MULTIPLY 240

template <int count>
DEV void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
DEV void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// Barriers of the block, 1 to 15: whoever tells does not wait; it goes on when `threads` have met or
// told, whole warps.
DEV void meet(u32 which, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(which), "r"(threads) : "memory");
}
DEV void tell(u32 which, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(which), "r"(threads) : "memory");
}

// A box from shared memory to where its corner is; what lies outside of the matrix is left out.
DEV void store_box(const TensorMap* map, u32 column, u32 row, u32 from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(column), "r"(row), "r"(from)
      : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// This thread's stores have read shared memory; are written.
DEV void stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
DEV void stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// What this thread wrote into shared memory is there for the copy engine.
DEV void written_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// 8 x 8 matrices of 16 bits into shared memory, transposed: what a lane has of one is (r, 2 q) and
// (r, 2 q + 1), lane 8 m + i has the address of column i of the m-th.
template <int count>
DEV void put_transposed(u32 address, const u32* v) {
  if constexpr (count == 4)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     address),
                 "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
  else if constexpr (count == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
                 "r"(v[0]), "r"(v[1])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address),
                 "r"(v[0])
                 : "memory");
}

// Row r of four groups of columns that the quad's lanes share -> one lane's whole group: word e of
// lane m becomes word m of lane e.
DEV void exchange(u32 (&w)[4], u32 quad) {
  auto swap = [&](u32& low, u32& high, u32 lanes) {
    u32 other = __shfl_xor_sync(~0u, quad & lanes ? low : high, lanes);
    low = quad & lanes ? other : low;
    high = quad & lanes ? high : other;
  };
  swap(w[0], w[1], 1);
  swap(w[2], w[3], 1);
  swap(w[0], w[2], 2);
  swap(w[1], w[3], 2);
}

// The places of a ring in the order they are filled and read.
template <int places>
struct Ring {
  u32 place = 0, parity = 0;
  DEV void next() {
    if (++place == places) place = 0, parity ^= 1;
  }
};
