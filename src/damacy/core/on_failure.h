// Undoes a step if the scope is left by an exception. Knows nothing of the step.
#pragma once

#include <exception>
#include <utility>

#include "damacy/core/mutex.h"

namespace damacy {

// `undo` must not throw, and does not know the exception.
template <class Undo>
class [[nodiscard]] OnFailure {
 public:
  explicit OnFailure(Undo undo) : undo_(std::move(undo)) {}
  OnFailure(const OnFailure&) = delete;
  OnFailure& operator=(const OnFailure&) = delete;
  ~OnFailure() DAMACY_NO_THREAD_SAFETY_ANALYSIS {  // what `undo` requires is held where the scope ends
    if (std::uncaught_exceptions() > before_) undo_();
  }

 private:
  Undo undo_;
  const int before_ = std::uncaught_exceptions();
};

}  // namespace damacy
