#include "stages/comparison.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "damacy/core/checked.h"
#include "damacy/core/formatted.h"

namespace damacy::stages {
namespace {

constexpr std::uint64_t kScratchLimit = std::uint64_t{1} << 28;

std::uint64_t address_of(const HostBuffer& buffer, std::uint64_t offset) {
  return reinterpret_cast<std::uint64_t>(buffer.data()) + offset;
}

}  // namespace

void Tally::add(const Tally& more) {
  chunks += more.chunks;
  delivered += more.delivered;
  host_good += more.host_good;
  refused += more.refused;
  different += more.different;
  apart += more.apart;
  escaped += more.escaped;
}

Comparison::Comparison(std::shared_ptr<Device> device, std::unique_ptr<StreamDecoder> decoder,
                       std::unique_ptr<Copier> copier)
    : device_(std::move(device)),
      decoder_(std::move(decoder)),
      copier_(std::move(copier)),
      stream_(device_->make_stream()),
      list_(decoder_->make_list({.scratch_bytes = kScratchLimit})) {}

void Comparison::Pair::need(Device& on, std::uint64_t bytes) {
  used = bytes;
  if (host.size() >= bytes + kGuard) return;
  const std::size_t size = std::bit_ceil(bytes + kGuard);
  host = HostBuffer(on.pinned_memory(), size);
  device = HostBuffer(on.device_memory(), size);
}

Tally Comparison::run(std::span<const Chunk> chunks, const Found& found) {
  Tally tally;
  tally.chunks = chunks.size();
  ++poison_;
  lay_out(chunks);
  stage(chunks);
  const Event done = start();
  decode_on_host(chunks);
  done.wait();
  compare(chunks, found, tally);
  tally.escaped = escaped(chunks);
  if (tally.escaped != 0) found(0, formatted("{} bytes were written out of bounds", tally.escaped));
  return tally;
}

// Every other chunk of which a part can be read is staged in parts.
std::optional<NeededBlocks> Comparison::blocks_of(const Chunk& chunk) {
  NeededBlocks blocks;
  const bool parts = chunk.codecs->can_read_partially() && chunk.encoded.size() % 2 == 0;
  if (!parts || !find_needed_blocks(chunk.encoded, chunk.encoded.size(), chunk.bytes, chunk.needed, blocks).ok())
    return std::nullopt;
  return blocks;
}

// Sources at any alignment, as reads of neighbours leave them; the rest as waves align it.
void Comparison::lay_out(std::span<const Chunk> chunks) {
  staged_.resize(chunks.size());
  std::uint64_t source = 0, destination = kGuard, out = kGuard;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    Staged& staged = staged_[i];
    staged.blocks = blocks_of(chunks[i]);
    staged.source = source + i % 16;
    source = staged.source + (staged.blocks ? staged.blocks->staged_bytes : chunks[i].encoded.size());
    staged.destination = round_up(destination + kGuard, kGuard);
    destination = staged.destination + (staged.blocks ? staged.blocks->decoded_bytes : chunks[i].bytes);
    for (std::size_t k = 0; k < chunks[i].wants.size(); ++k) {
      const Want& want = chunks[i].wants[k];
      staged.outs[k] = round_up<std::uint64_t>(out + 64, 16) + i % 8 * size_of(want.copy.op.to);
      out = staged.outs[k] + want.bytes;
    }
  }
  source_.need(*device_, source);
  destination_.need(*device_, destination);
  out_.need(*device_, out);
}

void Comparison::stage(std::span<const Chunk> chunks) {
  list_->clear();
  placements_.clear();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    Staged& staged = staged_[i];
    const std::uint64_t size = staged.blocks ? staged.blocks->staged_bytes : chunk.encoded.size();
    const std::span<std::byte> packed = source_.host.bytes().subspan(staged.source, size);
    if (!staged.blocks) std::ranges::copy(chunk.encoded, packed.begin());
    for (const NeededBlocks::Part& part : staged.blocks ? staged.blocks->encoded : std::vector<NeededBlocks::Part>())
      std::ranges::copy(std::span(chunk.encoded).subspan(part.range.begin, part.range.size()),
                        packed.subspan(part.at).begin());
    staged.frames.clear();
    const FrameSink sink{*list_, [&](std::span<const std::uint32_t> own) {
                           for (const std::uint32_t frame : own)
                             if (frame != FrameList::kHost) staged.frames.push_back(frame);
                         }};
    const StagedBytes bytes{packed,      staged.source, staged.destination,
                            chunk.bytes, chunk.needed,  staged.blocks ? &*staged.blocks : nullptr};
    staged.found = {};
    const DecodeResult result = stage_frames(*chunk.codecs, bytes, sink, staged.found);
    staged.on_host = !result.ok() || staged.found.host;
    if (staged.on_host) continue;
    const std::uint64_t from = staged.found.in_source ? address_of(source_.device, *staged.found.in_source)
                                                      : address_of(destination_.device, staged.destination);
    for (std::size_t k = 0; k < chunk.wants.size(); ++k) {
      const auto shift = staged.blocks ? staged.blocks->shift_of(hull(chunk.wants[k])).value() : 0;
      placements_.add(chunk.wants[k].copy, from + shift, address_of(out_.device, staged.outs[k]), staged.found.layout);
    }
  }
}

Event Comparison::start() {
  const std::uint64_t scratch = std::max<std::uint64_t>(list_->scratch_bytes(), 1);
  if (scratch_.device.size() < scratch + kGuard)
    scratch_.device = HostBuffer(device_->device_memory(), std::bit_ceil(scratch + kGuard));
  if (scratch_.host.size() == 0) scratch_.host = HostBuffer(device_->pinned_memory(), kGuard);
  scratch_.used = scratch;
  frames_image_.need(*device_, list_->image_bytes());
  status_.need(*device_, std::uint64_t{4} * list_->count());
  placements_image_.need(*device_, copier_->image_bytes(placements_));
  const auto poison = static_cast<std::byte>(poison_);
  for (const Pair* memory : {&source_, &destination_, &out_, &scratch_, &frames_image_, &status_, &placements_image_})
    stream_->fill(memory->there(), poison);
  list_->write_image(frames_image_.host.bytes().first(frames_image_.used));
  copier_->write_image(placements_, placements_image_.host.bytes().first(placements_image_.used));
  for (const Pair* memory : {&source_, &frames_image_, &placements_image_})
    if (memory->used > 0)
      stream_->copy(memory->device.bytes().first(memory->used), memory->host.bytes().first(memory->used));
  if (list_->count() > 0)
    decoder_->enqueue(
        *stream_, *list_,
        {source_.device.bytes().first(source_.used), destination_.device.bytes().first(destination_.used),
         scratch_.device.bytes().first(scratch_.used), frames_image_.device.bytes().first(frames_image_.used),
         status_.device.bytes().first(status_.used)});
  if (!placements_.placements().empty())
    copier_->enqueue(*stream_, placements_, placements_image_.device.bytes().first(placements_image_.used));
  for (const Pair* memory : {&destination_, &out_, &status_}) stream_->copy(memory->here(), memory->there());
  for (const Pair* memory : {&source_, &frames_image_, &placements_image_})
    stream_->copy(memory->here().last(kGuard), memory->there().last(kGuard));
  stream_->copy(scratch_.host.bytes().first(kGuard), scratch_.there().last(kGuard));
  return stream_->record();
}

void Comparison::decode_on_host(std::span<const Chunk> chunks) {
  expected_.resize(out_.used);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    if (decoded_.size() < chunk.bytes) decoded_.resize(chunk.bytes);
    const std::span<std::byte> decoded = std::span(decoded_).first(chunk.bytes);
    staged_[i].on_host_result = chunk.codecs->decode(chunk.encoded, decoded, chunk.needed, context_);
    if (!staged_[i].on_host_result.ok()) continue;
    for (std::size_t k = 0; k < chunk.wants.size(); ++k)
      run_block_copy(chunk.wants[k].copy, decoded,
                     std::span(expected_).subspan(staged_[i].outs[k], chunk.wants[k].bytes));
  }
}

bool Comparison::delivered(const Staged& staged) const {
  return !staged.on_host && std::ranges::all_of(staged.frames, [&](std::uint32_t frame) {
    std::uint32_t word = 0;
    std::memcpy(&word, status_.host.data() + std::size_t{4} * frame, sizeof word);
    const GpuVerdict verdict = verdict_of(word);
    return !verdict.ask_host && verdict.result.ok();
  });
}

bool Comparison::same_bytes(const Chunk& chunk, const Staged& staged) const {
  for (std::size_t k = 0; k < chunk.wants.size(); ++k)
    if (std::memcmp(out_.host.data() + staged.outs[k], expected_.data() + staged.outs[k], chunk.wants[k].bytes) != 0)
      return false;
  return true;
}

void Comparison::compare(std::span<const Chunk> chunks, const Found& found, Tally& tally) const {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Staged& staged = staged_[i];
    const bool good = staged.on_host_result.ok();
    if (!delivered(staged)) {
      ++(good ? tally.host_good : tally.refused);
      continue;
    }
    ++tally.delivered;
    if (!good) {
      ++tally.apart;
      found(i, formatted("delivered, but the host refuses: {}", std::string_view(staged.on_host_result.detail)));
    } else if (!same_bytes(chunks[i], staged)) {
      ++tally.different;
      found(i, "delivered with other bytes");
    }
  }
}

std::uint64_t Comparison::touched(const Pair& memory, std::uint64_t begin, std::uint64_t end) const {
  const auto poison = static_cast<std::byte>(poison_);
  const auto bytes = memory.host.bytes().subspan(begin, end - begin);
  return bytes.size() - static_cast<std::uint64_t>(std::ranges::count(bytes, poison));
}

std::uint64_t Comparison::escaped(std::span<const Chunk> chunks) const {
  std::uint64_t count = 0, destination = 0, out = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Staged& staged = staged_[i];
    count += touched(destination_, destination, staged.destination);
    destination = staged.destination + (staged.blocks ? staged.blocks->decoded_bytes : chunks[i].bytes);
    for (std::size_t k = 0; k < chunks[i].wants.size(); ++k) {
      count += touched(out_, out, staged.outs[k]);
      out = staged.outs[k] + chunks[i].wants[k].bytes;
    }
  }
  count += touched(destination_, destination, destination_.used + kGuard) + touched(out_, out, out_.used + kGuard);
  for (const Pair* memory : {&source_, &frames_image_, &placements_image_, &status_})
    count += touched(*memory, memory->used, memory->used + kGuard);
  return count + touched(scratch_, 0, kGuard);
}

}  // namespace damacy::stages
