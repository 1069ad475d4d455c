// Counts what passes through to another store. The counts are exact, so tests and benchmarks can assert them.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "damacy/store/store.h"

namespace damacy {

class MeteredStore final : public Store {
 public:
  // Calls, whether they succeed or not; bytes of reads that succeeded.
  struct Counts {
    std::uint64_t opens = 0, stamps = 0, lists = 0, reads = 0, bytes = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };

  explicit MeteredStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}

  Counts counts() const noexcept {
    return {meter_->opens, meter_->stamps, meter_->lists, meter_->reads, meter_->bytes};
  }

  std::string name() const override { return inner_->name(); }
  std::shared_ptr<Object> open(std::string_view key) override {
    ++meter_->opens;
    auto object = inner_->open(key);
    if (!object) return nullptr;
    return std::make_shared<MeteredObject>(std::move(object), meter_);
  }
  std::optional<Stamp> stamp(std::string_view key) override {
    ++meter_->stamps;
    return inner_->stamp(key);
  }
  std::vector<Entry> list(std::string_view prefix) override {
    ++meter_->lists;
    return inner_->list(prefix);
  }

 private:
  struct Meter {
    std::atomic<std::uint64_t> opens{0}, stamps{0}, lists{0}, reads{0}, bytes{0};
  };

  class MeteredObject final : public Object {
   public:
    MeteredObject(std::shared_ptr<Object> inner, std::shared_ptr<Meter> meter)
        : inner_(std::move(inner)), meter_(std::move(meter)) {}
    const Stamp& stamp() const noexcept override { return inner_->stamp(); }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      ++meter_->reads;
      inner_->read_exact(offset, dst);
      meter_->bytes += dst.size();
    }

   private:
    std::shared_ptr<Object> inner_;
    std::shared_ptr<Meter> meter_;
  };

  std::shared_ptr<Store> inner_;
  std::shared_ptr<Meter> meter_ = std::make_shared<Meter>();
};

}  // namespace damacy
