// One read of selections of stored objects into one piece of memory: a separate job with its own end. Objects are
// opened, read, decoded and placed by the same requests as for batches, but without a batch, a slot or an order. Each
// element of the memory is written by exactly one selection. Knows objects and selections; not Python.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "damacy/single/selection_job.h"

namespace damacy {

class SelectionRead {
 public:
  // `ended` is called once, on whichever thread ends the last task, which may be the caller's. It must not throw. `out`
  // stays until then; after a failure, some of it may be written. `readers` outlive it: a read may end on one of their
  // threads.
  SelectionRead(SelectionReaders& readers, SelectionRequest request, std::function<void()> ended);

  void start();
  // Does not start parts that have not begun; `ended` is still called.
  void cancel() noexcept { job_->cancel(); }

  // After it ended:
  std::optional<Error> failure() const noexcept { return job_->failure(); }
  const std::vector<std::uint8_t>& missing() const noexcept { return job_->missing; }  // by item: no such object

 private:
  std::shared_ptr<SelectionJob> job_;
};

}  // namespace damacy
