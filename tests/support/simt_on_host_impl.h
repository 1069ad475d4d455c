// The body of simt_on_host.h: include it in one source file of a program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "support/sanitized_fibre.h"
#include "support/simt_on_host.h"

namespace damacy::gpu::simt {

Dim3 thread_index, block_index, block_size;

namespace {

constexpr std::size_t kStackBytes = 256 << 10;

enum class Meeting { none, warp, block };

struct PendingCopy {
  void* to;
  const void* from;
  std::size_t bytes;
};

void run_fibre();

struct Fibre {
  std::unique_ptr<unsigned char[]> stack = std::make_unique<unsigned char[]>(kStackBytes);
  SanitizedFibre self{stack.get(), kStackBytes, run_fibre};
  u32 index = 0;
  bool ended = true;
  Meeting waiting = Meeting::none;
  u32 mask = 0;
  u32 value = 0;
  u32 from = 0;
  u32 answer = 0;  // votes: the ballot; broadcasts: the value
  std::vector<PendingCopy> copies;
};

struct Machine {
  std::vector<std::unique_ptr<Fibre>> fibres;
  u32 count = 0;
  Fibre* running = nullptr;
  SanitizedFibre scheduler;
  const std::function<void()>* body = nullptr;
  std::unique_ptr<u8[]> shared;
  std::mt19937_64 random;
};

Machine machine;

// A fibre outlives its block: it waits for the next one's.
void run_fibre() {
  Fibre& fibre = *machine.running;
  fibre.self.begun_by(machine.scheduler);
  for (;;) {
    (*machine.body)();
    fibre.ended = true;
    fibre.self.go_to(machine.scheduler);
  }
}

void resume(Fibre& fibre) {
  machine.running = &fibre;
  thread_index.x = fibre.index;
  machine.scheduler.go_to(fibre.self);
}

void start(Fibre& fibre, u32 index) {
  fibre.index = index;
  fibre.ended = false;
  fibre.waiting = Meeting::none;
  fibre.copies.clear();
}

// Everybody that `fibre` waits for has come, or ended.
bool complete(const Fibre& fibre) {
  const u32 warp = fibre.index / 32;
  for (u32 i = 0; i < machine.count; ++i) {
    const Fibre& other = *machine.fibres[i];
    if (other.ended) continue;
    if (fibre.waiting == Meeting::block && other.waiting != Meeting::block) return false;
    const bool awaited = fibre.waiting == Meeting::warp && i / 32 == warp && (fibre.mask >> (i % 32) & 1) != 0;
    if (awaited && (other.waiting != Meeting::warp || other.mask != fibre.mask)) return false;
  }
  return true;
}

void release_warp(const Fibre& first) {
  const u32 warp = first.index / 32, mask = first.mask;
  u32 ballot = 0;
  std::vector<Fibre*> group;
  for (u32 i = warp * 32; i < machine.count && i < warp * 32 + 32; ++i) {
    Fibre& fibre = *machine.fibres[i];
    if (fibre.ended || (mask >> (i % 32) & 1) == 0) continue;
    group.push_back(&fibre);
    if (fibre.value != 0) ballot |= 1u << (i % 32);
  }
  for (Fibre* fibre : group)
    fibre->answer = fibre->from == ~0u ? ballot : machine.fibres[warp * 32 + fibre->from % 32]->value;
  for (Fibre* fibre : group) fibre->waiting = Meeting::none;
}

void release_block() {
  u32 count = 0;
  for (u32 i = 0; i < machine.count; ++i)
    if (!machine.fibres[i]->ended && machine.fibres[i]->value != 0) ++count;
  for (u32 i = 0; i < machine.count; ++i) {
    machine.fibres[i]->answer = count;
    machine.fibres[i]->waiting = Meeting::none;
  }
}

// Lets one complete group go on. False when all have ended.
bool release_some() {
  bool anybody = false;
  for (u32 i = 0; i < machine.count; ++i) {
    const Fibre& fibre = *machine.fibres[i];
    if (fibre.ended) continue;
    anybody = true;
    if (!complete(fibre)) continue;
    if (fibre.waiting == Meeting::block)
      release_block();
    else
      release_warp(fibre);
    return true;
  }
  if (!anybody) return false;
  std::fprintf(stderr, "kernel: deadlock, threads wait for each other\n");
  std::abort();
}

void run_block(u32 threads) {
  while (machine.fibres.size() < threads) machine.fibres.push_back(std::make_unique<Fibre>());
  machine.count = threads;
  for (u32 i = 0; i < threads; ++i) start(*machine.fibres[i], i);
  do {
    const u32 first = static_cast<u32>(machine.random() % threads), step = machine.random() % 2 == 0 ? 1 : threads - 1;
    for (u32 k = 0, i = first; k < threads; ++k, i = (i + step) % threads) {
      Fibre& fibre = *machine.fibres[i];
      if (!fibre.ended && fibre.waiting == Meeting::none) resume(fibre);
    }
  } while (release_some());
}

u32 meet_others(Meeting kind, u32 mask, u32 value, u32 from) {
  Fibre& fibre = *machine.running;
  fibre.waiting = kind;
  fibre.mask = mask;
  fibre.value = value;
  fibre.from = from;
  fibre.self.go_to(machine.scheduler);
  return fibre.answer;
}

}  // namespace

void launch(const Launch& shape, const std::function<void()>& body, u64 seed) {
  machine.body = &body;
  machine.random.seed(seed);
  block_size.x = shape.threads;
  for (u32 block = 0; block < shape.blocks; ++block) {
    block_index.x = block;
    machine.shared = std::make_unique_for_overwrite<u8[]>(shape.shared_bytes);
    std::memset(machine.shared.get(), 0xa5, shape.shared_bytes);
    run_block(shape.threads);
  }
}

u8* dynamic_shared() {
  return machine.shared.get();
}

void copy_async(void* shared, const void* global, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(shared) % bytes != 0 || reinterpret_cast<std::uintptr_t>(global) % bytes != 0) {
    std::fprintf(stderr, "kernel: an asynchronous copy is not aligned\n");
    std::abort();
  }
  machine.running->copies.push_back({shared, global, bytes});
}

void copy_async_wait() {
  for (const PendingCopy& copy : machine.running->copies) std::memcpy(copy.to, copy.from, copy.bytes);
  machine.running->copies.clear();
}

u32 vote(u32 mask, bool value) {
  return meet_others(Meeting::warp, mask, value ? 1 : 0, ~0u);
}

u32 broadcast(u32 mask, u32 value, u32 from) {
  return meet_others(Meeting::warp, mask, value, from);
}

u32 meet(bool value) {
  return meet_others(Meeting::block, 0, value ? 1 : 0, 0);
}

}  // namespace damacy::gpu::simt
