#include "damacy/wave/wave_former.h"

#include <algorithm>
#include <array>
#include <utility>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/on_failure.h"
#include "damacy/wave/crop_size.h"
#include "damacy/wave/encoded_sink.h"
#include "damacy/wave/kept_chunks.h"
#include "damacy/wave/stage_chunk.h"

namespace damacy {
namespace {

// Staging memory that readers fill and a device empties again and again stays in the processor's cache when there is
// little of it: then reading costs half the time, and the copies read no memory (docs/design/two-engines.md).
constexpr std::uint64_t kWarmStaging = 128 << 20;
constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

// Of a chunk that the host decodes again for each: with less staging memory than that, it fails.
constexpr std::uint64_t kPartsAtMost = 256;

// Whether a device may decode some of its blocks. Stores that read without a thread are asked for head and blocks one
// after the other, without a thread that waits for the first.
bool has_blocks(const WantedChunks& chunks, std::uint32_t chunk) {
  const CodecChain& codecs = chunks.metadata_of(chunk).codecs;
  return !codecs.is_raw() && codecs.can_read_partially() && !chunks.object_with(chunk)->can_start_reads();
}

std::uint64_t bytes_needed(const WantedChunks& chunks, std::uint32_t chunk) {
  std::uint64_t bytes = 0;
  for (const ByteRange& range : chunks.needed_bytes(chunk)) bytes += range.size();
  return bytes;
}

// Two reads, of its first chunks and of the others.
std::array<ChunkRun, 2> halves_of(const WantedChunks& chunks, const ChunkRun& run) {
  std::array<ChunkRun, 2> halves;
  for (ChunkRun& half : halves) half.nearness = run.nearness, half.whole = run.whole;
  const std::size_t middle = run.chunks.size() / 2;
  for (std::size_t i = 0; i < run.chunks.size(); ++i) {
    ChunkRun& half = halves[i < middle ? 0 : 1];
    const std::uint64_t at = run.offset + run.begins[i];
    if (half.chunks.empty()) half.offset = at;
    half.bytes = std::max(half.bytes, at + chunks.where(run.chunks[i]).bytes - half.offset);
    half.chunks.push_back(run.chunks[i]);
    half.begins.push_back(at - half.offset);
  }
  return halves;
}

}  // namespace

void WaveFormer::seal() {
  if (wave_ && !wave_->empty()) wave_->seal(sealed_++);
  wave_.reset();
}

// A slot still has the list of its last wave: what that one shows of the next.
void WaveFormer::start_wave() {
  seal();
  auto slot = slots_.acquire(stop_);
  if (!slot) throw Error(Status::shutdown, "stopped while waiting for a wave", "closed");
  frame_room_.learn((*slot)->frames->fill(), (*slot)->described_bytes);
  wave_ = std::make_shared<Wave>(std::move(*slot), staging_, watcher_);
}

// A compressed chunk has one frame at least. Where more show only when it is read, and there are too many, the host
// decodes it.
bool WaveFormer::frames_fit(const Need& need) const {
  return wave_->to_decode() + need.frames <= wave_->slot().frames->most_frames() &&
         wave_->decoded_bytes() + need.decoded <= frame_room_.bytes();
}

bool WaveFormer::find_room(const Need& need) {
  if (!wave_ || !wave_->fits(need.staged, need.decoded) || !frames_fit(need) || wave_->staged() >= enough_encoded_ ||
      wave_->decoded_bytes() >= enough_decoded_ || wave_->joined_bytes() + need.joined > decoded_bytes_) {
    if (!wave_ || !wave_->empty()) start_wave();
    if (!wave_->fits(need.staged, need.decoded)) return false;
  }
  return true;
}

bool WaveFormer::make_room(const Need& need, std::uint64_t most_lent) {
  if (!find_room(need) || !wave_->can_reserve(need.staged)) return false;
  wave_->reserve(need.staged, most_lent, stop_);
  return true;
}

// What cannot be made smaller.
void WaveFormer::require_room(std::uint64_t staged) {
  if (!make_room({staged}, kUnlimited)) wave_->reserve(staged, kUnlimited, stop_);
}

// Chunks fail if hung reads leave no memory for them; other chunks continue.
template <class Add>
void WaveFormer::add_some(WantedChunks& chunks, std::span<const std::uint32_t> some, Add add) {
  try {
    add();
  } catch (const Error& error) {
    if (error.where().reason != "deadline") throw;
    for (const std::uint32_t chunk : some) chunks.fail_chunk(chunk, error);
  }
}

// What joins counts, too: its job waits for the device anyway.
bool WaveFormer::goes_to_device(const LocatedWants& wants, const std::vector<ChunkReads>& reads) const {
  std::uint64_t decoded = decoded_joined_, stored = 0, crops = 0;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    for (const ChunkRun& run : reads[i].runs)
      for (const std::uint32_t chunk : run.chunks) decoded += wants.chunks[i]->metadata_of(chunk).chunk_bytes();
    for (const std::uint32_t chunk : reads[i].partial)
      if (has_blocks(*wants.chunks[i], chunk)) decoded += bytes_needed(*wants.chunks[i], chunk);
  }
  if (decoded >= wants.device_from_bytes) return true;
  if (!wants.never_more_than_stored) return false;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    for (const ChunkRun& run : reads[i].runs) {
      for (const std::uint32_t chunk : run.chunks) {
        crops += size_of_crops(*wants.chunks[i], chunk).bytes;
        stored += Wave::padded(wants.chunks[i]->where(chunk).bytes);
      }
    }
  }
  return crops > stored;
}

void WaveFormer::add(const LocatedWants& wants, std::stop_token stop) {
  stop_ = std::move(stop);
  wants_ = &wants;
  std::vector<ChunkReads> reads;
  std::vector<KeptChunk> kept;
  bool may_keep = false;
  std::uint64_t encoded = 0, decoded_kept = 0;
  decoded_joined_ = 0;
  for (const Chunks& chunks : wants.chunks) {
    reads.push_back(find_wanted_reads(chunks, kept, may_keep));
    for (const ChunkRun& run : reads.back().runs) encoded += Wave::padded(run.bytes);
  }
  for (const KeptChunk& chunk : kept) {
    decoded_kept += Wave::padded(wants.chunks.front()->metadata_of(chunk.chunk).chunk_bytes());
    if (!chunk.on_device) encoded += Wave::padded(chunk.hold.bytes().size());
  }
  const bool by_device = may_keep || goes_to_device(wants, reads);
  std::vector<std::vector<ChunkBlocks>> blocks(reads.size());
  for (std::size_t i = 0; by_device && i < reads.size(); ++i) {
    blocks[i] = find_blocks(wants.chunks[i], reads[i]);
    for (const ChunkBlocks& found : blocks[i]) encoded += Wave::padded(found.blocks->staged_bytes);
  }
  // What needs several waves gets waves of its own, of equal sizes, so that batches finish at even intervals.
  const bool several = (by_device && encoded >= slab_bytes_) || decoded_kept >= decoded_bytes_;
  enough_encoded_ = several && encoded > 0 ? encoded / ceil_div(encoded, slab_bytes_) + 1 : kUnlimited;
  enough_decoded_ =
      several && decoded_kept > 0 ? decoded_kept / ceil_div(decoded_kept, decoded_bytes_) + 1 : kUnlimited;
  if (several) seal();
  if (!kept.empty()) add_kept(wants.chunks.front(), std::move(kept));
  for (std::size_t i = 0; i < reads.size(); ++i) {
    for (const ChunkBlocks& found : blocks[i])
      add_some(*wants.chunks[i], {&found.chunk, 1}, [&] { add_blocks(wants.chunks[i], found); });
    add_reads(wants.chunks[i], reads[i], by_device);
  }
  if (several) seal();
}

// Without those that joined, or are kept. `may_keep`: some others will be kept.
ChunkReads WaveFormer::find_wanted_reads(const Chunks& chunks, std::vector<KeptChunk>& kept, bool& may_keep) {
  const auto find = [&](const std::shared_ptr<CachedChunks>& cache, std::uint32_t chunk) {
    if (!cache || !device_decodes(chunks->metadata_of(chunk).codecs)) return false;
    auto hold = cache->find(chunk);
    may_keep = may_keep || cache->may_be_kept(chunk);
    if (hold) kept.push_back({chunk, std::move(*hold), cache == wants_->caches.on_device});
    return hold.has_value();
  };
  under_way_.forget_ended();
  return find_reads(chunks->wants(), [&](std::uint32_t chunk) {
    return join(chunks, chunk) || find(wants_->caches.on_device, chunk) || find(wants_->caches.on_host, chunk);
  });
}

// The wave comes first: while this thread waits for one, it may hold the memory of few others. A sealed wave that holds
// them may still wait for this thread to submit what is kept.
bool WaveFormer::join(const Chunks& chunks, std::uint32_t chunk) {
  if (!wants_->share_decodes || !under_way_.has(chunks->id_of(chunk))) return false;
  std::vector<ByteRange> needed = chunks->needed_bytes(chunk);
  const std::uint64_t bytes = chunks->metadata_of(chunk).chunk_bytes();
  if (!under_way_.find(chunks->id_of(chunk), needed) || !find_room({.joined = Wave::padded(bytes)})) return false;
  const auto found = under_way_.find(chunks->id_of(chunk), needed);
  if (!found || !wave_->place_from(found->wave, bytes, slots_.size() / kShareHeld)) return false;
  StagedRange open = wave_->open();
  StagedChunk& staged = wave_->add(chunks, chunk);
  staged.by_device = true;
  staged.is_joined = true;
  staged.decode = found->decode;
  const bool has_joined = found->decode->join(staged, std::move(needed), std::move(open));
  if (has_joined)
    decoded_joined_ += bytes;
  else
    staged.failed = true;  // it is added again, to be read
  return has_joined;
}

// Later jobs may share it. What the device keeps they decode again: so they need not wait for another wave
// (docs/design/two-engines.md).
void WaveFormer::share_decode(StagedChunk& staged) {
  if (!wants_->share_decodes || !staged.chunks->wants().chunks[staged.chunk].is_versioned) return;
  staged.decode =
      std::make_shared<SharedDecode>(*wave_, staged, [](Wave& wave, StagedChunk& other, const StagedFrames& at) {
        add_placements_of(wave, other, at, other.share->placements);
      });
  under_way_.add(staged.chunks->id_of(staged.chunk), wave_, staged.decode);
}

// False: no wave has room.
bool WaveFormer::add_kept_chunk(const Chunks& chunks, KeptChunk& found, StagedChunk*& staged) {
  const std::uint64_t decoded = chunks->metadata_of(found.chunk).chunk_bytes();
  const std::uint64_t encoded = chunks->where(found.chunk).bytes;
  const std::span<const std::byte> bytes = found.hold.bytes();
  const std::uint64_t lead = bytes.size() - encoded;
  const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
  if (!find_room({found.on_device ? 0 : Wave::padded(bytes.size()), Wave::padded(decoded), 1})) return false;
  staged = &wave_->add(chunks, found.chunk);
  staged->staged_bytes = encoded;
  staged->by_device = true;
  staged->decoded_at = wave_->decode(decoded);
  staged->kept.emplace(std::move(found.hold));
  if (found.on_device) {
    staged->staged_at = address - wave_->source_address(0) + lead;
  } else {
    staged->staged_at = wave_->place(bytes.size()) + lead;
    wave_->to_source.add(address + lead, wave_->source_address(staged->staged_at), encoded);
    share_decode(*staged);
  }
  return true;
}

// Requests of chunks of one wave each. One is submitted before a second wave starts behind its own.
void WaveFormer::add_kept(const Chunks& chunks, std::vector<KeptChunk> kept) {
  std::unique_ptr<KeptChunksRequest> request;
  const Wave* of_request = nullptr;
  const auto submit = [&] {
    if (request) wants_->readers.submit(std::move(request));
  };
  for (KeptChunk& found : kept) {
    add_some(*chunks, {&found.chunk, 1}, [&] {
      StagedChunk* staged = nullptr;
      const OnFailure undo([&staged] {
        if (staged != nullptr) end_decodes({&staged, 1});
      });
      const bool has_room = add_kept_chunk(chunks, found, staged);
      if (!has_room || of_request != wave_.get() || (request && request->is_full())) submit();
      if (!has_room) return add_host_run(chunks, run_of_chunk(chunks->wants(), found.chunk), false);
      of_request = wave_.get();
      if (!request) request = std::make_unique<KeptChunksRequest>(wave_, chunks, wants_->caches);
      request->add(*staged);
    });
  }
  submit();
}

void WaveFormer::add_reads(const Chunks& chunks, const ChunkReads& reads, bool by_device) {
  for (const ChunkRun& run : reads.runs) {
    add_some(*chunks, run.chunks, [&] {
      if (by_device && device_decodes(chunks->metadata_of(run.chunks.front()).codecs))
        add_device_run(chunks, run);
      else
        add_host_run(chunks, run, false);
    });
  }
  for (const std::uint32_t& chunk : reads.partial)
    add_some(*chunks, {&chunk, 1}, [&] { add_host_run(chunks, run_of_chunk(chunks->wants(), chunk), true); });
  for (const std::uint32_t& chunk : reads.missing) add_some(*chunks, {&chunk, 1}, [&] { add_fill_of(chunks, chunk); });
}

void WaveFormer::add_device_run(const Chunks& chunks, const ChunkRun& run) {
  const std::uint64_t decoded = chunks->metadata_of(run.chunks.front()).chunk_bytes();
  const Need need{Wave::padded(run.bytes), Wave::padded(decoded) * run.chunks.size(), run.chunks.size()};
  if (!make_room(need, kWarmStaging)) return add_host_run(chunks, run, false);
  if (run.chunks.size() > 1 && !frames_fit(need)) {
    for (const ChunkRun& half : halves_of(*chunks, run))
      add_some(*chunks, half.chunks, [&] { add_device_run(chunks, half); });
    return;
  }
  StagedRange range = wave_->stage(run.bytes);
  std::vector<StagedChunk*> all;
  all.reserve(run.chunks.size());
  const OnFailure undo([&all] { end_decodes(all); });
  for (std::size_t i = 0; i < run.chunks.size(); ++i) {
    const std::uint32_t chunk = run.chunks[i];
    StagedChunk& staged = wave_->add(chunks, chunk);
    staged.staged_at = range.begin() + run.begins[i];
    staged.staged_bytes = chunks->where(chunk).bytes;
    staged.decoded_at = wave_->decode(decoded);
    staged.by_device = true;
    all.push_back(&staged);
    share_decode(staged);
  }
  auto sink = std::make_shared<EncodedSink>(wave_, chunks, std::move(range), all, wants_->caches);
  wants_->readers.submit(std::make_unique<ChunkRunRead>(std::move(sink), run));
}

std::vector<WaveFormer::ChunkBlocks> WaveFormer::find_blocks(const Chunks& chunks, ChunkReads& reads) const {
  std::vector<std::uint32_t> asked, by_host;
  for (const std::uint32_t chunk : reads.partial) (has_blocks(*chunks, chunk) ? asked : by_host).push_back(chunk);
  if (asked.empty()) return {};
  std::vector<ChunkBlocks> all;
  const std::vector<TableOfBlocks> tables = read_tables(chunks, asked, wants_->readers, stop_);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (tables[i].blocks)
      all.push_back({asked[i], tables[i].blocks});
    else if (!tables[i].timed_out)
      by_host.push_back(asked[i]);
  }
  reads.partial = std::move(by_host);
  return all;
}

void WaveFormer::add_blocks(const Chunks& chunks, const ChunkBlocks& found) {
  const NeededBlocks& blocks = *found.blocks;
  const Need need{Wave::padded(blocks.staged_bytes), Wave::padded(blocks.decoded_bytes), blocks.frames};
  if (!make_room(need, kWarmStaging)) return add_host_run(chunks, run_of_chunk(chunks->wants(), found.chunk), true);
  StagedRange range = wave_->stage(blocks.staged_bytes);
  StagedChunk& staged = wave_->add(chunks, found.chunk);
  staged.blocks = found.blocks;
  staged.staged_at = range.begin();
  staged.staged_bytes = blocks.staged_bytes;
  staged.decoded_at = wave_->decode(blocks.decoded_bytes, blocks.frames);
  staged.by_device = true;
  wants_->readers.submit(std::make_unique<BlocksRead>(wave_, chunks, staged, std::move(range), wants_->memory));
}

void WaveFormer::add_host_run(const Chunks& chunks, const ChunkRun& run, bool partial) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t chunk : run.chunks) bytes += size_of_crops(*chunks, chunk).bytes;
  if (make_room({bytes}, kUnlimited)) {
    Crops crops;
    for (const std::uint32_t chunk : run.chunks) add_crops_of(chunks, chunk, crops);
    return read_on_host(chunks, run, partial, std::move(crops));
  }
  if (run.chunks.size() == 1) return add_host_parts(chunks, run, partial);
  for (const std::uint32_t& chunk : run.chunks)
    add_some(*chunks, {&chunk, 1}, [&] { add_host_run(chunks, run_of_chunk(chunks->wants(), chunk), false); });
}

// What is needed of the chunk does not fit a wave: it is divided, and each part has its own read and decode.
void WaveFormer::add_host_parts(const Chunks& chunks, const ChunkRun& run, bool partial) {
  const std::uint32_t chunk = run.chunks.front();
  const std::uint64_t decoded = chunks->metadata_of(chunk).chunk_bytes();
  const std::uint64_t most = std::min<std::uint64_t>(
      std::min(wave_->slot().source.size(), staging_.size()) / 2,
      std::max<std::uint64_t>({staging_.lendable() / 2, decoded / kPartsAtMost, Wave::kAlignment}));
  chunks->for_uses(chunk, WantedChunks::From::chunk, [&](const Use& use) {
    std::vector<BlockCopy> parts;
    split_copy(use.copy, most, parts);
    for (const BlockCopy& part : parts) {
      Crops crops;
      require_room(Wave::padded(bytes_of_crop(part)));
      add_crop_of(chunks, chunk, use.part, part, crops);
      read_on_host(chunks, run, partial, std::move(crops));
    }
  });
}

void WaveFormer::add_crops_of(const Chunks& chunks, std::uint32_t chunk, Crops& crops) {
  if (!size_of_crops(*chunks, chunk).is_whole) {
    chunks->for_uses(chunk, WantedChunks::From::chunk,
                     [&](const Use& use) { add_crop_of(chunks, chunk, use.part, use.copy, crops); });
    return;
  }
  const ByteRange whole = whole_of(*chunks, chunk);
  CropsOfChunk& of_chunk = crops[chunk];
  of_chunk.staged = &wave_->add(chunks, chunk);
  of_chunk.whole.emplace(whole, wave_->stage(whole.size()));
}

void WaveFormer::add_crop_of(const Chunks& chunks, std::uint32_t chunk, std::uint32_t part, const BlockCopy& copy,
                             Crops& crops) {
  CropsOfChunk& of_chunk = crops[chunk];
  if (of_chunk.staged == nullptr) of_chunk.staged = &wave_->add(chunks, chunk);
  of_chunk.crops.push_back({copy, wave_->stage(bytes_of_crop(copy))});
  of_chunk.staged->placed.add(part, Use{part, copy}.elements());
}

void WaveFormer::read_on_host(const Chunks& chunks, const ChunkRun& run, bool partial, Crops crops) {
  if (crops.empty()) return;
  auto sink = std::make_shared<CropSink>(wave_, chunks, std::move(crops), wants_->memory);
  if (partial)
    wants_->readers.submit(std::make_unique<PartialRead>(std::move(sink), run.chunks.front()));
  else
    wants_->readers.submit(std::make_unique<ChunkRunRead>(std::move(sink), run));
}

void WaveFormer::add_fill_of(const Chunks& chunks, std::uint32_t chunk) {
  const std::span<const std::byte> fill = chunks->fill_of(chunk);
  require_room(Wave::padded(fill.size()));
  StagedChunk& staged = wave_->add(chunks, chunk);
  staged.is_fill = true;
  const StagedRange range = wave_->stage(fill.size());
  staged.staged_at = range.begin();
  std::ranges::copy(fill, range.memory().begin());
  ChunkLayout layout;
  layout.chunk_bytes = fill.size();
  add_placements(staged.share->placements, staged, WantedChunks::From::fill, wave_->source_address(staged.staged_at),
                 layout);
}

}  // namespace damacy
