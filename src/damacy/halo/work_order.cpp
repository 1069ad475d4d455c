// All waits of a run are here.
#include "damacy/halo/work_order.h"

#include <functional>

namespace damacy::halo {

void WorkOrder::run(Stream& stream, std::span<Stream* const> others, std::span<Stream* const> after, int device,
                    std::shared_ptr<const copy::Plan> plan, copy::Bases bases) {
  const auto run = [&] {
    const bool capturing = stream.is_capturing();
    for (Stream* other : others) stream.wait(other->record());
    for (Stream* other : after) stream.wait(other->record());
    // A graph must not wait for work outside of it.
    if (!capturing) {
      // Leaving out an unnecessary wait or query starts the work sooner.
      const bool in_order = was_default_ && stream.is_default();
      if (!in_order && !done_.ready()) stream.wait(done_);
      for (const Event& event : before_) stream.wait(event);
      before_.clear();
    }
    copy::enqueue(stream, device, std::move(plan), std::move(bases));
    if (!capturing) {
      if (is_marked_)
        done_ = stream.record();
      else
        stream.record_again(done_);
      is_marked_ = false;
      was_default_ = stream.is_default();
    }
    if (others.empty()) return;
    const Event done = capturing ? stream.record() : done_;
    for (Stream* other : others) other->wait(done);
  };
  stream.together(std::ref(run));
}

void WorkOrder::order_after(const Event& event) {
  for (const Event& known : before_)
    if (known.state() == event.state()) return;
  before_.push_back(event);
}

void WorkOrder::synchronize() const {
  done_.wait();
  for (const Event& event : before_) event.wait();
}

void WorkOrder::make_wait(Stream& stream) const {
  stream.wait(done_);
  for (const Event& event : before_) stream.wait(event);
}

}  // namespace damacy::halo
