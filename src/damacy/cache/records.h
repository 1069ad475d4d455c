// A head and a fixed number of records, in memory of their own or in memory that the caller lends, which several
// processes may share. Both must be valid when all their bytes are zero. Knows sizes; not what is in them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace damacy {

template <class Head, class Record>
class Records {
 public:
  static_assert(std::is_trivially_copyable_v<Head> && std::is_trivially_copyable_v<Record>);
  static constexpr std::size_t kAlignment = 64;
  // Multiples of kAlignment.
  static constexpr std::size_t bytes_of(std::size_t count) noexcept {
    return head_bytes() + (count * sizeof(Record) + kAlignment - 1) / kAlignment * kAlignment;
  }

  explicit Records(std::size_t count) : own_head_(std::make_unique<Head>()), own_(count) {
    head_ = own_head_.get();
    records_ = own_;
  }
  // Of bytes_of(count) bytes, aligned to kAlignment.
  Records(std::span<std::byte> memory, std::size_t count)
      : head_(reinterpret_cast<Head*>(memory.data())),
        records_(reinterpret_cast<Record*>(memory.data() + head_bytes()), count) {}

  Head* operator->() const noexcept { return head_; }
  Record& operator[](std::size_t i) const noexcept { return records_[i]; }
  std::size_t size() const noexcept { return records_.size(); }

 private:
  static constexpr std::size_t head_bytes() noexcept {
    return (sizeof(Head) + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::unique_ptr<Head> own_head_;
  std::vector<Record> own_;
  Head* head_;
  std::span<Record> records_;
};

}  // namespace damacy
