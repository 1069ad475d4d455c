#include "damacy/wave/shared_decode.h"

#include <algorithm>
#include <utility>

namespace damacy {
namespace {

// Of a chunk whose frames were found: whole blocks, or all bytes up to the last one that is needed.
std::vector<ByteRange> decoded_of(const StagedFrames& found, std::vector<ByteRange> needed) {
  const ChunkLayout& layout = found.layout;
  if (found.in_source) return {{0, layout.chunk_bytes}};
  if (layout.block_bytes == 0) return {{0, needed.back().end}};
  for (ByteRange& range : needed) {
    range.begin = range.begin / layout.block_bytes * layout.block_bytes;
    range.end = std::min<std::uint64_t>(round_up<std::uint64_t>(range.end, layout.block_bytes), layout.chunk_bytes);
  }
  merge_ranges(needed);
  return needed;
}

void fail_joined(StagedChunk& chunk, const Error& why) noexcept {
  if (!chunk.failed.exchange(true)) chunk.chunks->fail_chunk(chunk.chunk, why);
}

}  // namespace

bool SharedDecode::has_now(std::span<const ByteRange> needed) const {
  if (state_ == State::waits) return true;
  if (state_ == State::on_host || state_ == State::failed || chunk_.redo) return false;
  return std::ranges::all_of(
      needed, [&](const ByteRange& range) DAMACY_REQUIRES(mutex_) { return covers(decoded_, range.begin, range.end); });
}

bool SharedDecode::has(std::span<const ByteRange> needed) const {
  const Lock lock(mutex_);
  return has_now(needed);
}

bool SharedDecode::join(StagedChunk& other, std::vector<ByteRange> needed, StagedRange open) {
  StagedFrames found;
  {
    const Lock lock(mutex_);
    if (!has_now(needed)) return false;
    if (state_ == State::waits) {
      decoded_.insert(decoded_.end(), needed.begin(), needed.end());
      merge_ranges(decoded_);
    }
    other.staged_at = chunk_.staged_at;
    other.staged_bytes = chunk_.staged_bytes;
    other.decoded_at = chunk_.decoded_at;
    if (state_ != State::described) {
      joined_.push_back({&other, std::move(open), PendingRead(*other.chunks)});
      return true;
    }
    joined_.push_back({&other, std::nullopt, std::nullopt});
    found = found_;
  }
  place_one(other, found);
  return true;
}

std::vector<ByteRange> SharedDecode::begin(std::vector<ByteRange> needed) {
  const Lock lock(mutex_);
  needed.insert(needed.end(), decoded_.begin(), decoded_.end());
  if (!decoded_.empty()) merge_ranges(needed);
  decoded_ = needed;
  state_ = State::begun;
  return needed;
}

void SharedDecode::described(const StagedFrames* found) noexcept {
  std::vector<Joined> now;
  std::optional<Error> failure;
  {
    const Lock lock(mutex_);
    auto decoded = std::move(decoded_);
    failure = failure_of([&, count = joined_.size()] {
      now.reserve(count);
      if (found != nullptr) decoded = decoded_of(*found, std::move(decoded));
    });
    decoded_ = std::move(decoded);
    if (failure) {
      state_ = State::on_host;  // no more may join
    } else {
      state_ = found != nullptr ? State::described : State::on_host;
      if (found != nullptr) found_ = *found;
      for (Joined& one : joined_)
        now.push_back({one.chunk, std::exchange(one.open, std::nullopt), std::exchange(one.read, std::nullopt)});
    }
  }
  if (failure) return fail(*failure);
  for (const Joined& one : now)
    if (found != nullptr) place_one(*one.chunk, *found);
}

void SharedDecode::place_one(StagedChunk& other, const StagedFrames& found) const noexcept {
  if (const auto failure = failure_of([&] { place_(wave_, other, found); })) fail_joined(other, *failure);
}

// Of those that joined, the ranges end outside the lock: the end of one may pass its wave on.
void SharedDecode::fail(const Error& why) noexcept {
  std::vector<Joined> all;
  {
    const Lock lock(mutex_);
    state_ = State::failed;
    all.swap(joined_);
  }
  for (const Joined& one : all) fail_joined(*one.chunk, why);
}

void SharedDecode::end() noexcept {
  {
    const Lock lock(mutex_);
    if (state_ != State::waits && state_ != State::begun) return;
  }
  fail(Error::out_of_memory());
}

void end_decodes(std::span<StagedChunk* const> chunks) noexcept {
  for (const StagedChunk* const chunk : chunks)
    if (chunk->decode) chunk->decode->end();
}

void fail_staged(StagedChunk& chunk, const Error& why) noexcept {
  chunk.failed = true;
  chunk.chunks->fail_chunk(chunk.chunk, why);
  if (chunk.decode && !chunk.is_joined) chunk.decode->fail(why);
}

void DecodesUnderWay::add(const ChunkKey& key, const std::shared_ptr<Wave>& wave,
                          const std::shared_ptr<SharedDecode>& decode) {
  if (waves_.empty() || waves_.back().number != wave.get()) waves_.push_back({wave.get(), wave, {}});
  waves_.back().keys.push_back(key);
  decodes_.insert_or_assign(key, Entry{wave.get(), wave, decode});
}

std::optional<DecodesUnderWay::Found> DecodesUnderWay::find(const ChunkKey& key,
                                                            std::span<const ByteRange> needed) const {
  const auto found = decodes_.find(key);
  if (found == decodes_.end()) return std::nullopt;
  std::shared_ptr<Wave> wave = found->second.wave.lock();
  if (!wave || wave->has_retired() || !found->second.decode->has(needed)) return std::nullopt;
  return Found{std::move(wave), found->second.decode};
}

void DecodesUnderWay::forget_ended() {
  std::erase_if(waves_, [&](const KeysOfWave& of) {
    if (const auto wave = of.wave.lock(); wave && !wave->has_retired()) return false;
    for (const ChunkKey& key : of.keys)
      if (const auto found = decodes_.find(key); found != decodes_.end() && found->second.number == of.number)
        decodes_.erase(found);
    return true;
  });
}

}  // namespace damacy
