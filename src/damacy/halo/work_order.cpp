// Every wait of a run stands here, once.
#include "damacy/halo/work_order.h"

namespace damacy::halo {

void WorkOrder::run(Stream& stream, std::span<Stream* const> others, std::span<Stream* const> after, int device,
                    std::shared_ptr<const copy::Plan> plan, std::vector<std::uint64_t> bases) {
  const bool capturing = stream.is_capturing();
  for (Stream* other : others) stream.wait(other->record());
  for (Stream* other : after) stream.wait(other->record());
  if (!capturing) {  // a graph must not wait for what is outside of it
    stream.wait(done_);
    for (const Event& event : before_) stream.wait(event);
    before_.clear();
  }
  copy::enqueue(stream, device, std::move(plan), std::move(bases));
  if (capturing && others.empty()) return;
  const Event done = stream.record();
  for (Stream* other : others) other->wait(done);
  if (!capturing) done_ = done;
}

}  // namespace damacy::halo
