// The three kinds of request that ChunkTasks give an engine: a run of whole chunks, the needed parts of one big chunk,
// and chunks that do not exist.
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "damacy/pipeline/chunk_task.h"

namespace damacy {

// Chunks of one shard that lie near each other in it: one read, then chunk after chunk.
class ChunkRunRead final : public Request {
 public:
  ChunkRunRead(std::shared_ptr<ChunkTasks> tasks, std::size_t shard, std::uint64_t offset, std::uint64_t bytes,
               std::vector<std::uint32_t> chunks);
  ~ChunkRunRead() override;
  Part prepare(std::size_t thread, std::stop_token stop) override;
  void complete(std::size_t thread, const Part& part, const Error* failure) noexcept override;

 private:
  void read_one_by_one(std::size_t thread, const Part& part, const Error& failure) noexcept;
  std::span<const std::byte> bytes_of_chunk(std::uint32_t chunk) const noexcept;

  std::shared_ptr<ChunkTasks> tasks_;
  std::size_t shard_;
  std::uint64_t offset_;
  std::uint64_t bytes_;
  std::vector<std::uint32_t> chunks_;
  Arena::Piece staging_;
  std::stop_token stop_;
  Stopwatch watch_;
};

// One chunk of which little is needed: its head is read first and says what else is. The rest of its staging stays
// unread.
class PartialRead final : public Request {
 public:
  PartialRead(std::shared_ptr<ChunkTasks> tasks, std::size_t shard, std::uint32_t chunk);
  ~PartialRead() override;
  Part prepare(std::size_t thread, std::stop_token stop) override;
  void complete(std::size_t thread, const Part& part, const Error* failure) noexcept override;

 private:
  void read_needed(std::size_t thread, const Part& part);
  void read(const Part& part, ByteRange range);

  std::shared_ptr<ChunkTasks> tasks_;
  std::size_t shard_;
  std::uint32_t chunk_;
  Arena::Piece staging_;
  std::stop_token stop_;
  Stopwatch watch_;
};

// Chunks that are absent: their part of the rows is fill.
class FillTask final : public Request {
 public:
  FillTask(std::shared_ptr<ChunkTasks> tasks, std::vector<std::uint32_t> chunks);
  ~FillTask() override;
  Part prepare(std::size_t thread, std::stop_token stop) override;
  void complete(std::size_t thread, const Part& part, const Error* failure) noexcept override;

 private:
  std::shared_ptr<ChunkTasks> tasks_;
  std::vector<std::uint32_t> chunks_;
};

}  // namespace damacy
