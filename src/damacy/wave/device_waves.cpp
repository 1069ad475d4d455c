#include "damacy/wave/device_waves.h"

namespace damacy {
namespace {

constexpr std::size_t kBusy = 2;  // waves under way that keep a device busy

static_assert(WaveSizes::kPadding == Wave::kAlignment);

std::unique_ptr<ChunkCache> make_cache(PartId part, const CacheSizes& sizes, const std::shared_ptr<Alloc>& alloc) {
  if (sizes.entries == 0) return nullptr;
  return make_part(part, [&] { return std::make_unique<ChunkCache>(sizes, alloc); });
}

}  // namespace

Arena DeviceWaves::arena(PartId part, const std::shared_ptr<Alloc>& alloc, std::size_t bytes) {
  return make_part(part, [&] { return Arena(alloc, bytes); });
}

HostBuffer DeviceWaves::buffer(PartId part, std::size_t bytes) const {
  return make_part(part, [&] { return HostBuffer(parts_.device->device_memory(), bytes); });
}

Pool<WaveSlot> DeviceWaves::make_slots() const {
  const WaveSizes& waves = plan().waves;
  std::vector<std::unique_ptr<WaveSlot>> slots;
  for (std::size_t i = 0; i < waves.count; ++i) {
    auto slot = std::make_unique<WaveSlot>();
    slot->source = buffer(PartId::slabs, waves.slab + WaveSizes::kPadding);
    slot->destination = buffer(PartId::wave_chunks, waves.destination);
    slot->frames = parts_.decoder->make_list(waves.frames);
    slots.push_back(std::move(slot));
  }
  return Pool<WaveSlot>(std::move(slots));
}

DeviceWaves::DeviceWaves(DeviceParts parts, StatsBoard& board)
    : parts_(std::move(parts)),
      device_cache_(make_cache(PartId::device_cache, plan().device_cache, parts_.device->device_memory())),
      host_cache_(make_cache(PartId::pinned_cache, plan().host_cache, parts_.device->pinned_memory())),
      pages_(std::make_shared<PageAlloc>()),
      staging_(arena(PartId::pinned_staging, parts_.device->pinned_memory(), plan().staging)),
      scratch_(arena(PartId::decoder_scratch, parts_.device->device_memory(), plan().waves.scratch)),
      images_(arena(PartId::images, parts_.device->pinned_memory(), plan().waves.images)),
      packed_(arena(PartId::packed_on_cores, pages_, plan().host_packed)),
      decoded_(arena(PartId::decoded_on_cores, pages_, plan().host_decoded)),
      slots_(make_slots()),
      runner_(make_part(PartId::repair,
                        [&] {
                          return WaveRunner(parts_.device, *parts_.decoder, *parts_.copier,
                                            {scratch_, images_, packed_, decoded_}, board);
                        })),
      former_({slots_, plan().waves.slab, plan().waves.destination, staging_}, runner_) {}

void DeviceWaves::add(std::span<const std::shared_ptr<WantedChunks>> chunks, Readers& readers,
                      const DecodeMemory& memory, std::stop_token stop, EncodedCaches caches) {
  former_.add({chunks, readers, memory, parts_.device_from_bytes, parts_.never_more_than_stored, std::move(caches)},
              std::move(stop));
}

void DeviceWaves::end_group() {
  if (former_.sealed() - runner_.retired() < kBusy) former_.seal();
}

void DeviceWaves::finish() noexcept {
  former_.seal();
  runner_.finish();
}

}  // namespace damacy
