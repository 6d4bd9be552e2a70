// Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
//
// Behind a kernel's source: clusters one after the other, their threads and late copies in random order.

namespace gpu {
inline std::function<void()> entry;
inline void enter() {
  entry();
  now->done = scheduling = true;
  swapcontext(&now->context, &scheduler);
}
inline int run(std::function<void()> kernel, u32 count, u32 ranks, u32 threads, u32 shared, u32 seed) {
  entry = std::move(kernel), grid = count, random.seed(seed), failed = false;
  for (u32 first = 0; first < count; first += ranks) {
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<std::unique_ptr<Warp>> warps;
    blocks.clear(), late.clear(), cluster = {}, cluster_threads = ranks * threads;
    for (u32 r = 0; r < ranks; r++) {
      auto b = std::make_unique<Block>();
      b->room.assign(shared + 1024, 0xff);  // NaN, until something is written there
      b->memory = b->room.data() + (1024 - (uintptr_t)b->room.data() % 1024);
      b->rank = r, b->index = first + r;
      for (u32 t = 0; t < threads; t++) {
        auto f = std::make_unique<Fiber>();
        if (t % 32 == 0) warps.push_back(std::make_unique<Warp>());
        f->tid = t, f->block = b.get(), f->warp = warps.back().get();
        f->warp->lanes[t % 32] = f.get();
        f->stack.resize(1 << 16);
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack.data();
        f->context.uc_stack.ss_size = f->stack.size();
        f->context.uc_link = &scheduler;
        makecontext(&f->context, enter, 0);
        fibers.push_back(std::move(f));
      }
      blocks.push_back(std::move(b));
    }
    std::vector<Fiber*> order;
    for (auto& f : fibers) order.push_back(f.get());
    u32 left = ranks * threads;
    while (left) {
      bool moved = false;
      std::shuffle(order.begin(), order.end(), random);
      for (Fiber* f : order) {
        if (f->done || (f->ready && !f->ready())) continue;
        f->ready = nullptr, now = f, moved = true, scheduling = false;
        swapcontext(&scheduler, &f->context);
        left -= f->done;
        if (failed) return 1;
      }
      size_t waiting = late.size();
      for (size_t i = 0; i < waiting; i++)
        if (!late.empty() && random() % 4 == 0 || (!moved && i == 0)) {
          size_t which = random() % late.size();
          auto one = std::move(late[which]);
          late.erase(late.begin() + (long)which);
          one(), moved = true;
          if (failed) return 1;
        }
      if (!moved) {
        printf("emulation: %u of %u threads wait for what never comes\n", left, ranks * threads);
        for (Fiber* f : order)
          if (!f->done && f->tid % 32 == 0) printf(" block %u warp %u\n", f->block->rank, f->tid / 32);
        for (auto& b : blocks)
          for (auto& [at, bar] : b->barriers)
            printf(" block %u barrier %u: %d of %d, %ld bytes, phase %u\n", b->rank, at, bar.pending,
                   bar.count, bar.bytes, bar.phase);
        fflush(stdout);
        return 1;
      }
    }
    for (auto& one : late) one();  // stores that nobody waited for
  }
  return 0;
}
}  // namespace gpu

extern "C" int launch(const Given* given, u32 blocks, u32 ranks, u32 threads, u32 shared, u32 seed) {
  return gpu::run([given] { KERNEL(*given); }, blocks, ranks, threads, shared, seed);
}
