// The chunks of several objects as those of one, so that reads of neighbours in an object that has them as parts become
// one. Knows which chunk is whose; not what objects are.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/fetch/wanted_chunks.h"

namespace damacy {

// Chunks that are located when their object is opened.
class OpenableChunks : public WantedChunks {
 public:
  virtual void open() = 0;
  // What a chunk is called among all of its store.
  struct Name {
    std::string_view object;  // the key
    std::uint64_t number;     // of the chunk in the object
  };
  virtual Name name_of(std::size_t chunk) const = 0;
};

class JoinedChunks final : public OpenableChunks {
 public:
  // All of one job; not empty.
  explicit JoinedChunks(std::vector<std::shared_ptr<OpenableChunks>> objects) : objects_(std::move(objects)) {}

  // Reports a failure to the object that failed, and throws it.
  void open() override;

  std::vector<Group> groups() const override;
  const ChunkPlace& where(std::size_t chunk) const override { return at(chunk).where(inside(chunk)); }
  const ArrayMetadata& metadata_of(std::size_t chunk) const override { return at(chunk).metadata_of(inside(chunk)); }
  std::vector<ByteRange> needed_bytes(std::size_t chunk) const override {
    return at(chunk).needed_bytes(inside(chunk));
  }
  bool worth_reading_partially(std::size_t chunk) const override {
    return at(chunk).worth_reading_partially(inside(chunk));
  }
  const std::shared_ptr<Object>& object_with(std::size_t chunk) const override {
    return at(chunk).object_with(inside(chunk));
  }
  StatsBoard& board() const noexcept override { return objects_.front()->board(); }
  Task<Job> new_task() noexcept override { return objects_.front()->new_task(); }
  void check_wanted() const override { objects_.front()->check_wanted(); }
  const std::atomic<bool>* cancelled() const noexcept override { return objects_.front()->cancelled(); }
  Destination& destination() const noexcept override { return objects_.front()->destination(); }
  std::int64_t count_uses(std::size_t chunk) const noexcept override { return at(chunk).count_uses(inside(chunk)); }
  std::span<const std::byte> fill_of(std::size_t chunk) const override { return at(chunk).fill_of(inside(chunk)); }
  void count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept override {
    objects_.front()->count_decode(time, encoded, decoded);
  }
  void count_placed(StatsBoard::Span time, std::size_t chunk, std::int64_t elements, Decode how) noexcept override {
    at(chunk).count_placed(time, inside(chunk), elements, how);
  }
  void fail_chunk(std::size_t chunk, const Error& error) noexcept override {
    at(chunk).fail_chunk(inside(chunk), error);
  }
  void fail_all(const Error& error) noexcept override;
  Name name_of(std::size_t chunk) const override { return objects_[places_[chunk].object]->name_of(inside(chunk)); }

 private:
  struct Place {
    std::uint32_t object, chunk;
  };
  WantedChunks& at(std::size_t chunk) const noexcept { return *objects_[places_[chunk].object]; }
  std::uint32_t inside(std::size_t chunk) const noexcept { return places_[chunk].chunk; }
  void visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const override {
    at(chunk).for_uses(inside(chunk), from, visit);
  }

  const std::vector<std::shared_ptr<OpenableChunks>> objects_;
  std::vector<Place> places_;  // of the chunks, once all are opened
};

}  // namespace damacy
