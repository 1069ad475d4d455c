// The order of one exchange's work. Each run comes after the work that produced its arrays and after this object's
// earlier runs, and before later work of its streams. Only synchronize() waits, and only for this object's own work.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "damacy/copy/copy_plan.h"
#include "damacy/device/device.h"

namespace damacy::halo {

// For one thread at a time. Runs that a graph captures are ordered by the graph: the host cannot wait for them.
class WorkOrder {
 public:
  // Enqueues the plan on `stream`, after the work queued so far on `others` and `after`; `others` then wait for it.
  // `device`: the index of the plan's tables. Memory must stay unchanged until the work is done.
  void run(Stream& stream, std::span<Stream* const> others, std::span<Stream* const> after, int device,
           std::shared_ptr<const copy::Plan> plan, copy::Bases bases);
  void run(Stream& stream, std::span<Stream* const> others, std::span<Stream* const> after, int device,
           std::shared_ptr<const copy::Plan> plan, std::vector<std::uint64_t> bases) {
    run(stream, others, after, device, std::move(plan),
        std::make_shared<const std::vector<std::uint64_t>>(std::move(bases)));
  }

  // Of the last run; on CUDA the event of an earlier run moves on to the later ones.
  const Event& done() const noexcept { return done_; }
  // The same, as a point that later runs do not move.
  Event mark() noexcept {
    is_marked_ = true;
    return done_;
  }
  void synchronize() const;
  // What comes next on `stream` waits for the runs so far.
  void make_wait(Stream& stream) const;

  // Adds a run of another object that used this object's memory: the next run and every wait come after it.
  void order_after(const Event& event);

 private:
  Event done_;
  bool is_marked_ = false;    // another object keeps a copy of it
  bool was_default_ = false;  // the last run was on the default stream
  std::vector<Event> before_;
};

}  // namespace damacy::halo
