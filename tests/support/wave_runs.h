// A former and a runner of waves on a host device, with little memory, for chunks of tests. Knows no batches.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/core/clock.h"
#include "damacy/device/host_device.h"
#include "damacy/wave/wave_former.h"
#include "damacy/wave/wave_runner.h"
#include "fakes/fake_chunks.h"
#include "support/eventually.h"

namespace damacy::testing {

struct WaveRuns {
  static constexpr std::size_t kSlab = 256 << 10, kDecoded = 512 << 10;

  explicit WaveRuns(HostOrder order = {}, std::size_t waves = 2)
      : device(make_host_device({.kind = order.kind, .seed = order.seed, .guard = true})),
        slots(make_slots(waves)),
        runner(device, *decoder, *copier, {scratch, images, packed, decoded}, board),
        former({slots, kSlab, kDecoded, staging}, runner) {}
  ~WaveRuns() {
    readers.stop(nullptr);
    former.seal();
    runner.finish();
  }

  std::shared_ptr<Wave> new_wave() { return std::make_shared<Wave>(*slots.acquire({}), staging, runner); }
  DecodeMemory memory() { return {host_staging, host_scratch, readers.contexts()}; }
  // Forms waves of the chunks; what is open is sealed if `seal`.
  struct How {
    std::uint64_t device_from_bytes = 0;
    bool never_more_than_stored = false;
    bool seal = true;
    EncodedCaches caches = {};
    bool share_decodes = false;
  };
  void add(const std::vector<std::shared_ptr<FakeChunks>>& all, const How& how) {
    std::vector<std::shared_ptr<WantedChunks>> chunks(all.begin(), all.end());
    std::vector<Task<Job>> tasks;  // as whoever plans has
    for (const auto& one : all) tasks.push_back(one->new_task());
    former.add(
        {chunks, readers, memory(), how.device_from_bytes, how.never_more_than_stored, how.caches, how.share_decodes},
        {});
    if (how.seal) former.seal();
  }
  void add(const std::vector<std::shared_ptr<FakeChunks>>& all) { add(all, How{}); }
  // All that was submitted is done, or a minute has passed.
  void finish() {
    former.seal();
    EXPECT_TRUE(eventually([&] { return runner.retired() == former.sealed(); }));
    readers.stop(nullptr);
    runner.finish();
  }
  // The bytes of a destination as they are on the device now.
  std::vector<std::byte> bytes_of(const FakeChunks& chunks) const { return bytes_of(chunks.to().memory()); }
  std::vector<std::byte> bytes_of(std::span<const std::byte> there) const {
    const HostBuffer back(device->pinned_memory(), there.size());
    const auto stream = device->make_stream();
    stream->copy(back.bytes(), there);
    stream->record().wait();
    return {back.data(), back.data() + back.size()};
  }
  // `gap`: between chunks; from 4 KiB on each is read by itself.
  std::shared_ptr<FakeChunks> want(std::vector<FakeChunk> chunks, CodecChain codecs = {}, std::uint64_t gap = 0) const {
    return FakeChunks::make(std::move(chunks),
                            {.codecs = std::move(codecs), .gap = gap, .alloc = device->device_memory()});
  }

  const std::shared_ptr<Device> device;
  const std::unique_ptr<StreamDecoder> decoder = make_host_stream_decoder();
  const std::unique_ptr<Copier> copier = make_host_copier();
  StatsBoard board;
  Readers readers{ThreadCounts{.readers = 2, .readers_at_once = 2, .blocking = 2}, std::make_shared<SteadyClock>()};
  Arena scratch{device->device_memory(), 1 << 20};
  Arena images{device->pinned_memory(), 1 << 20};
  Arena staging{device->pinned_memory(), 1 << 20};
  Arena packed{std::make_shared<PageAlloc>(), 1 << 20}, decoded{std::make_shared<PageAlloc>(), 1 << 20};
  Arena host_staging{std::make_shared<PageAlloc>(), 4 << 20}, host_scratch{std::make_shared<PageAlloc>(), 4 << 20};
  Pool<WaveSlot> slots;
  WaveRunner runner;
  WaveFormer former;

 private:
  Pool<WaveSlot> make_slots(std::size_t waves) const {
    std::vector<std::unique_ptr<WaveSlot>> made;
    for (std::size_t i = 0; i < waves; ++i) {
      auto slot = std::make_unique<WaveSlot>();
      slot->source = HostBuffer(device->device_memory(), kSlab + Wave::kAlignment);
      slot->destination = HostBuffer(device->device_memory(), kDecoded);
      slot->frames = decoder->make_list({.scratch_bytes = 256 << 10});
      made.push_back(std::move(slot));
    }
    return Pool<WaveSlot>(std::move(made));
  }
};

}  // namespace damacy::testing
