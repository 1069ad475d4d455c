// A started read whose end runs inside a function, for stores that wrap others: it adds a place to errors, or a watch.
// Knows nothing of the read.
#pragma once

#include <memory>
#include <utility>

#include "damacy/store/store.h"

namespace damacy {

// `around(finish)` calls finish().
template <class Around>
std::unique_ptr<StartedRead> finished_in(std::unique_ptr<StartedRead> read, Around around) {
  class Wrapped final : public StartedRead {
   public:
    Wrapped(std::unique_ptr<StartedRead> read, Around around) : read_(std::move(read)), around_(std::move(around)) {}
    void finish() override {
      around_([this] { read_->finish(); });
    }

   private:
    const std::unique_ptr<StartedRead> read_;
    Around around_;
  };
  return std::make_unique<Wrapped>(std::move(read), std::move(around));
}

}  // namespace damacy
