#include "damacy/wave/device_reads.h"

#include <algorithm>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/wave/frame_owners.h"
#include "damacy/wave/stage_frames.h"

namespace damacy {
namespace {

constexpr std::uint64_t kAligned = 256;
constexpr std::size_t kStatusBytes = 1 << 20;
constexpr std::size_t kPlacedAtOnce = 4096;  // placements, where they do not go all together
constexpr double kFilled = 0.5;              // of a list of frames, from which on a wave is full

std::uint64_t address_of(const HostBuffer& buffer, std::uint64_t offset) {
  return reinterpret_cast<std::uint64_t>(buffer.data()) + offset;
}

}  // namespace

DeviceReads::DeviceReads(std::shared_ptr<Device> device, std::unique_ptr<StreamDecoder> decoder,
                         std::unique_ptr<Copier> copier, const Sizes& sizes)
    : device_(std::move(device)),
      decoder_(std::move(decoder)),
      copier_(std::move(copier)),
      sizes_(sizes),
      slots_(make_slots(sizes)),
      stream_(device_->make_stream()) {}

std::unique_ptr<ReadSlot> DeviceReads::make_slot(std::size_t chunks, std::size_t images, std::size_t destination,
                                                 std::size_t scratch) const {
  const auto pinned = device_->pinned_memory();
  const auto memory = device_->device_memory();
  auto slot = std::make_unique<ReadSlot>();
  slot->chunk_bytes = round_up<std::size_t>(chunks, kAligned);
  slot->slab = HostBuffer(pinned, slot->chunk_bytes + images);
  slot->source = HostBuffer(memory, slot->slab.size() + kAligned);
  slot->destination = HostBuffer(memory, std::max<std::size_t>(destination, kAligned));
  slot->scratch = HostBuffer(memory, std::max<std::size_t>(scratch, kAligned));
  slot->status = HostBuffer(memory, kStatusBytes);
  slot->host_status = HostBuffer(pinned, kStatusBytes);
  slot->frames = decoder_->make_list({.scratch_bytes = scratch, .frames = kStatusBytes / sizeof(std::uint32_t)});
  return slot;
}

Pool<ReadSlot> DeviceReads::make_slots(const Sizes& sizes) const {
  std::vector<std::unique_ptr<ReadSlot>> slots;
  for (std::size_t i = 0; i < sizes.slots; ++i)
    slots.push_back(make_slot(sizes.slab, sizes.images, sizes.destination, sizes.scratch));
  return Pool<ReadSlot>(std::move(slots));
}

void DeviceReads::take_turn(std::function<void()> start) {
  {
    const Lock lock(turn_mutex_);
    if (busy_) return waiting_.push_back(std::move(start));
    busy_ = true;
  }
  start();
}

void DeviceReads::end_turn() {
  std::function<void()> next;
  {
    const Lock lock(turn_mutex_);
    busy_ = !waiting_.empty();
    if (!busy_) return;
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  next();
}

// Filled by readers. The last reader of a sealed wave takes it through the device.
struct ReadWaves::Wave {
  std::optional<Lease<ReadSlot>> lease;
  std::unique_ptr<ReadSlot> own;  // for a chunk that is larger than any slot
  std::uint64_t staged = 0, decoded = 0;
  std::int64_t writers = 0;
  bool sealed = false;
  Mutex mutex;  // over all below
  std::deque<Piece> pieces DAMACY_GUARDED_BY(mutex);
  FrameOwners<Piece> owners DAMACY_GUARDED_BY(mutex);

  ReadSlot& slot() noexcept { return own ? *own : **lease; }
  bool fits(std::uint64_t more_staged, std::uint64_t more_decoded) {
    return staged + round_up(more_staged, kAligned) <= slot().chunk_bytes &&
           decoded + round_up(more_decoded, kAligned) <= slot().destination.size() && slot().frames->fill() < kFilled;
  }
  Piece& add(Piece piece) {
    const Lock lock(mutex);
    return pieces.emplace_back(std::move(piece));
  }
  void own_frames(std::span<const std::uint32_t> indices, Piece& piece) {
    const Lock lock(mutex);
    owners.own(indices, piece);
  }
};

ReadWaves::ReadWaves(std::shared_ptr<DeviceReads> reads, std::vector<Event> after, Fail fail)
    : reads_(std::move(reads)), after_(std::move(after)), fail_(std::move(fail)) {}

ReadWaves::Place ReadWaves::reserve(std::uint64_t staged, std::uint64_t decoded, const std::stop_token& stop) {
  const DeviceReads::Sizes& sizes = reads_->sizes_;
  if (staged > sizes.slab || decoded > sizes.destination) {
    auto alone = std::make_shared<Wave>();
    alone->own = reads_->make_slot(staged, sizes.images, decoded, sizes.scratch);
    alone->sealed = true;
    alone->writers = 1;
    alone->staged = staged;
    return {alone, 0, 0};
  }
  Lock lock(mutex_);
  for (;;) {
    if (current_ && current_->fits(staged, decoded)) break;
    if (current_) {
      const auto full = std::exchange(current_, nullptr);
      full->sealed = true;
      const bool is_left = full->writers == 0;
      lock.unlock();
      if (is_left) run(*full);
      lock.lock();
    } else if (acquiring_) {
      changed_.wait(lock);
    } else {
      acquiring_ = true;
      lock.unlock();
      auto lease = reads_->slots_.acquire(stop);
      lock.lock();
      acquiring_ = false;
      changed_.notify_all();
      if (!lease) throw Error(Status::shutdown, "stopped while waiting for a wave", "closed");
      current_ = std::make_shared<Wave>();
      current_->lease.emplace(std::move(*lease));
      current_->slot().frames->clear();
      current_->slot().placements.clear();
    }
  }
  const Place place{current_, current_->staged, current_->decoded};
  current_->staged += round_up(staged, kAligned);
  current_->decoded += round_up(decoded, kAligned);
  ++current_->writers;
  return place;
}

void ReadWaves::leave(const std::shared_ptr<Wave>& wave) {
  bool goes = false;
  {
    const Lock lock(mutex_);
    goes = --wave->writers == 0 && wave->sealed;
  }
  if (goes) run(*wave);
}

void ReadWaves::add_encoded(const CodecChain& codecs, std::span<const std::byte> packed, std::uint64_t decoded_bytes,
                            std::vector<ByteRange> needed, WaveChunk chunk, std::stop_token stop) {
  const Place at = reserve(packed.size(), decoded_bytes, stop);
  ReadSlot& slot = at.wave->slot();
  std::ranges::copy(packed, slot.slab.data() + at.staged_at);
  Piece& piece = at.wave->add({std::move(chunk), at.staged_at, packed.size(), at.decoded_at, decoded_bytes});
  StagedFrames found;
  const FrameSink sink{*slot.frames, [&](std::span<const std::uint32_t> own) { at.wave->own_frames(own, piece); }};
  const DecodeResult result =
      stage_frames(codecs, {packed, at.staged_at, at.decoded_at, decoded_bytes, std::move(needed)}, sink, found);
  if (!result.ok() || found.host) {
    piece.redo = true;
  } else {
    const std::uint64_t address =
        found.in_source ? address_of(slot.source, *found.in_source) : address_of(slot.destination, at.decoded_at);
    piece.chunk.place(slot.placements, address, found.layout);
  }
  leave(at.wave);
}

void ReadWaves::add_elements(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t chunk_bytes,
                             WaveChunk chunk, std::stop_token stop) {
  const Place at = reserve(bytes.size(), 0, stop);
  ReadSlot& slot = at.wave->slot();
  std::ranges::copy(bytes, slot.slab.data() + at.staged_at);
  ChunkLayout layout;
  layout.chunk_bytes = chunk_bytes;
  chunk.place(slot.placements, address_of(slot.source, at.staged_at) - offset, layout);
  leave(at.wave);
}

void ReadWaves::finish() noexcept {
  std::shared_ptr<Wave> last;
  {
    const Lock lock(mutex_);
    last.swap(current_);
  }
  if (last) run(*last);
}

void ReadWaves::run(Wave& wave) noexcept {
  const auto failure = failure_of([&] {
    through_device(wave);
    const Lock lock(wave.mutex);
    wave.owners.read_verdicts(wave.slot().host_status.bytes());
    for (Piece& piece : wave.pieces)
      if (piece.redo && piece.chunk.decode_on_host) redo(wave, piece);
  });
  if (failure) fail_(*failure);
  wave.lease.reset();
}

// Descriptors of a wave: behind the chunks in its slab, so that both go up in one copy; where they do not fit there, in
// memory of their own.
struct ReadWaves::Images {
  HostBuffer own_pinned, own_device;
  std::span<std::byte> pinned, device;
};

ReadWaves::Images ReadWaves::images_of(ReadSlot& slot, std::size_t at, std::size_t bytes) const {
  Images images;
  if (at + bytes <= slot.slab.size()) {
    images.pinned = slot.slab.bytes().subspan(at, bytes);
    images.device = slot.source.bytes().subspan(at, bytes);
    return images;
  }
  images.own_pinned = HostBuffer(reads_->device_->pinned_memory(), bytes);
  images.own_device = HostBuffer(reads_->device_->device_memory(), bytes + kAligned);
  images.pinned = images.own_pinned.bytes();
  images.device = images.own_device.bytes().first(bytes);
  return images;
}

void ReadWaves::copy_up(std::span<std::byte> device, std::span<const std::byte> host) {
  if (host.empty()) return;
  reads_->stream_->copy(device, host);
  reads_->counters_.h2d_bytes += static_cast<std::int64_t>(host.size());
  ++reads_->counters_.h2d_copies;
}

// What was enqueued reads the slot and writes the destination: its end is waited for also when something fails.
template <class Enqueue>
void ReadWaves::enqueue_and_wait(Enqueue enqueue) {
  Event done;
  try {
    const Lock lock(reads_->stream_mutex_);
    enqueue(*reads_->stream_);
    done = reads_->stream_->record();
  } catch (...) {
    try {
      const Lock lock(reads_->stream_mutex_);
      reads_->stream_->record().wait();
    } catch (const Error&) {  // the device cannot record an event: freeing its memory waits
    }
    throw;
  }
  done.wait();
}

void ReadWaves::through_device(Wave& wave) {
  ReadSlot& slot = wave.slot();
  const std::size_t frame_image = slot.frames->image_bytes();
  const bool in_portions = !slot.placements.deep().empty() && !reads_->copier_->takes_deep();
  const std::size_t placement_image = in_portions ? 0 : reads_->copier_->image_bytes(slot.placements);
  const std::size_t placements_at = round_up<std::size_t>(frame_image, kAligned);
  const std::size_t chunks = round_up<std::size_t>(wave.staged, kAligned);
  const std::size_t status_bytes = std::size_t{4} * slot.frames->count();
  const Images images = images_of(slot, chunks, placements_at + placement_image);
  slot.frames->write_image(images.pinned.first(frame_image));
  if (!in_portions)
    reads_->copier_->write_image(slot.placements, images.pinned.subspan(placements_at, placement_image));
  enqueue_and_wait([&](Stream& stream) DAMACY_REQUIRES(reads_->stream_mutex_) {
    const bool is_one = images.own_pinned.size() == 0;
    const std::size_t together = chunks + (is_one ? images.pinned.size() : 0);
    copy_up(slot.source.bytes().first(together), slot.slab.bytes().first(together));
    if (!is_one) copy_up(images.device, images.pinned);
    if (status_bytes > 0) {
      reads_->decoder_->enqueue(
          stream, *slot.frames,
          {slot.source.bytes().first(slot.source.size() - kAligned), slot.destination.bytes(), slot.scratch.bytes(),
           images.device.first(frame_image), slot.status.bytes().first(status_bytes)});
      stream.copy(slot.host_status.bytes().first(status_bytes), slot.status.bytes().first(status_bytes));
    }
    for (const Event& before : after_) stream.wait(before);
    if (placement_image > 0)
      reads_->copier_->enqueue(stream, slot.placements, images.device.subspan(placements_at, placement_image));
  });
  if (in_portions) place_in_portions(slot, slot.placements);
}

// When the images of the wave are used up. Waits for each portion.
void ReadWaves::place_in_portions(ReadSlot& slot, const PlacementList& list) {
  for_each_portion(*reads_->copier_, list, kPlacedAtOnce, [&](const PlacementList& portion) {
    const Images images = images_of(slot, slot.chunk_bytes, reads_->copier_->image_bytes(portion));
    reads_->copier_->write_image(portion, images.pinned);
    enqueue_and_wait([&](Stream& stream) DAMACY_REQUIRES(reads_->stream_mutex_) {
      copy_up(images.device, images.pinned);
      reads_->copier_->enqueue(stream, portion, images.device);
    });
  });
}

// Decodes a chunk again on the host, which also gives the error its text.
void ReadWaves::redo(Wave& wave, Piece& piece) {
  ReadSlot& slot = wave.slot();
  std::vector<std::byte> decoded(piece.decoded_bytes);
  if (!piece.chunk.decode_on_host(slot.slab.bytes().subspan(piece.staged_at, piece.staged_bytes), decoded)) return;
  PlacementList list;
  ChunkLayout layout;
  layout.chunk_bytes = piece.decoded_bytes;
  piece.chunk.place(list, address_of(slot.destination, piece.decoded_at), layout);
  enqueue_and_wait([&](Stream&) DAMACY_REQUIRES(reads_->stream_mutex_) {
    copy_up(slot.destination.bytes().subspan(piece.decoded_at, decoded.size()), decoded);
  });
  place_in_portions(slot, list);
}

}  // namespace damacy
