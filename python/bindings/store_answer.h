// The answer of a store of Python to one request: Python fills it, a thread that reads waits for it. Knows bytes, sizes
// and errors; not who asks, nor for what.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "buffer_view.h"
#include "damacy/core/mutex.h"
#include "damacy/store/store.h"
#include "python_gate.h"

namespace damacy::python {

// Python fills it once, on any thread and with the GIL; a thread of the library waits for it.
class StoreAnswer {
 public:
  struct Found {
    std::uint64_t size = 0;
    std::string tag;
    std::int64_t modified_ns = 0;
  };

  StoreAnswer() = default;
  StoreAnswer(const StoreAnswer&) = delete;
  StoreAnswer& operator=(const StoreAnswer&) = delete;
  ~StoreAnswer() { drop_view(); }

  // -- Python --
  void absent();
  void found(std::uint64_t size, std::string tag, std::int64_t modified_ns, nb::object head);
  void bytes(nb::object buffer);
  void entries(const std::vector<std::pair<std::string, bool>>& found);
  void fail(const std::string& message, const std::string& reason, std::optional<int> number, nb::object cause);

  // -- the reading thread --
  // With the GIL, after the request was made: what has cancel(), or None.
  void set_request(nb::object request);
  // Without the GIL. Throws what failed; also if the thread was abandoned, or Python ends.
  void wait();

  // After wait().
  bool is_found() const { return is_found_; }
  Found& what() { return found_; }
  std::vector<std::byte>& head() { return head_; }
  std::vector<Entry>& listed() { return entries_; }
  // Copies the bytes if they are as many as `dst` takes; gives their number. Without the GIL.
  std::optional<std::size_t> take_bytes(std::span<std::byte> dst);

 private:
  template <class Set>
  void finish(Set set);
  bool done_within(std::chrono::milliseconds most);
  void cancel();
  void drop_view();

  Mutex mutex_;
  Condition changed_;
  bool done_ DAMACY_GUARDED_BY(mutex_) = false;
  bool left_ DAMACY_GUARDED_BY(mutex_) = false;  // cancelled: an answer is dropped
  PyObject* request_ = nullptr;                  // the GIL guards it
  // Set before `done_`, read after it.
  std::optional<Error> failure_;
  bool is_found_ = false;
  Found found_;
  std::vector<std::byte> head_;
  std::vector<Entry> entries_;
  std::unique_ptr<BufferView> view_;
};

}  // namespace damacy::python
