// Memory of an answer that is used again by later answers: fresh pages, and clearing them, cost more than the bytes
// that land in them. Knows sizes; not what lands.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace damacy {

class AnswerBlock {
 public:
  // Bytes of memory of a block that has so many: a multiple of 16 KiB or of a 32nd of them, or 4 KiB.
  [[nodiscard]] static std::size_t capacity_for(std::size_t bytes) noexcept;

  AnswerBlock() = default;
  explicit AnswerBlock(std::size_t bytes) { resize(bytes); }
  ~AnswerBlock();
  AnswerBlock(AnswerBlock&& other) noexcept;
  AnswerBlock& operator=(AnswerBlock&& other) noexcept;

  std::size_t size() const noexcept { return size_; }
  const std::byte* data() const noexcept { return memory_.get(); }
  std::span<std::byte> bytes() noexcept { return {memory_.get(), size_}; }
  // Keeps the bytes unless it grows beyond its capacity. What it grows by is arbitrary.
  void resize(std::size_t bytes);
  // Gives memory back that is much larger than what stays: a document in the memory of an answer.
  void shrink();
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace damacy
