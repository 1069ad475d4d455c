// One version of an object behind HTTP(S): reads it by range requests, each of which must be answered with that
// version. Keeps the bytes that came first. Knows neither keys of other objects nor what a store knows.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/store/answer_block.h"
#include "damacy/store/http/origin.h"
#include "damacy/store/http/version.h"
#include "damacy/store/store.h"

namespace damacy::http {

// Bytes of the first answers that are kept, of all objects of the process.
struct HeadCounts {
  std::atomic<std::size_t> bytes{0};
  std::atomic<std::size_t> announced{0};  // among them: announced reads need them
};

// Bytes that came with the first answer about an object, from `at` on.
struct FirstBytes {
  AnswerBlock block{};
  std::uint64_t at = 0;
  std::size_t reads = 0;  // announced ones, for which they are kept
  std::shared_ptr<HeadCounts> counts;
};

class HttpObject final : public Object, public std::enable_shared_from_this<HttpObject> {
 public:
  HttpObject(std::shared_ptr<const Origin> origin, std::string key, Version version, FirstBytes head);
  ~HttpObject() override;

  const Stamp& stamp() const noexcept override { return stamp_; }
  std::string version() const override {
    if (!version_.tag.empty()) return version_.tag;
    return version_.is_settled || origin_->settings().immutable ? version_.modified : std::string();
  }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override;
  HeldBytes held(std::uint64_t offset, std::uint64_t bytes) override;
  bool forget_piece(const StoredPiece& piece) noexcept override;
  ReadShape read_shape() const noexcept override { return origin_->read_shape(); }
  bool can_start_reads() const noexcept override { return true; }
  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override;

  // Of all of it. Null: the origin wants no request now.
  std::unique_ptr<StartedRead> try_read(std::span<std::byte> dst);

  // The header line of a request that is to be answered only if the object has another version; empty: none says so.
  std::string unless_it_is() const;
  bool has_head() const { return head() != nullptr; }
  // A read found another version, or the first answer was wrong about this one.
  bool has_changed() const noexcept { return has_changed_; }
  void add_reads(std::size_t count);  // that are announced
  void remove_read();                 // the last one takes the head with it
  // Unless this has one. Of the same version.
  void take_head(FirstBytes head);
  void take_head_of(HttpObject& other);
  bool has_reads() const;  // announced ones that need the head
  void drop_head();

 private:
  class Started;

  struct HeadBytes {
    explicit HeadBytes(FirstBytes&& first)
        : block(std::move(first.block)), at(first.at), counts(std::move(first.counts)) {
      counts->bytes += block.capacity();
    }
    ~HeadBytes() { counts->bytes -= block.capacity(); }
    HeadBytes(const HeadBytes&) = delete;
    HeadBytes& operator=(const HeadBytes&) = delete;

    const AnswerBlock block;
    const std::uint64_t at;  // in the object
    const std::shared_ptr<HeadCounts> counts;
  };

  std::shared_ptr<const HeadBytes> head() const;
  bool has(std::uint64_t offset, std::uint64_t bytes) const;
  void take_head(std::shared_ptr<const HeadBytes> head, std::size_t reads);
  void copy_head(std::uint64_t& offset, std::span<std::byte>& dst);
  void has_read(const HeadBytes& head, std::uint64_t end);
  void count_announced() DAMACY_REQUIRES(mutex_);
  Wanted wanted(std::uint64_t offset, std::span<std::byte> dst) const;
  std::optional<FirstAttempt> first_attempt(std::uint64_t offset, std::span<std::byte> dst,
                                            const std::function<void()>& landed) const;
  void fetch(std::uint64_t offset, std::span<std::byte> dst, std::optional<FirstAttempt> first = {});

  const std::shared_ptr<const Origin> origin_;
  const std::string key_;
  const Version version_;
  const Stamp stamp_;
  const std::shared_ptr<HeadCounts> counts_;
  std::atomic<bool> has_changed_ = false;
  mutable Mutex mutex_;
  std::size_t reads_ DAMACY_GUARDED_BY(mutex_);          // announced ones, for which the head is kept
  std::size_t announced_ DAMACY_GUARDED_BY(mutex_) = 0;  // bytes of the head, as counted
  std::shared_ptr<const HeadBytes> head_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy::http
