// Slots of a running pipeline: made with the first sample, lent to batches, and more of them while the consumer holds
// batches.
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/machine.h"
#include "damacy/core/size_text.h"
#include "damacy/pipeline/pipeline_impl.h"

namespace damacy {
namespace {

constexpr std::size_t kManyAdded = 8;  // added slots, from which on a warning is logged

}  // namespace

void PipelineImpl::make_slots(const BatchLayout& layout) {
  const SlotPlan plan = plan_slots(config, machine_for_slots(), layout.slot_bytes(), around.keeps_batches);
  slots->allocate(around.alloc, static_cast<std::size_t>(plan.bytes), static_cast<std::uint64_t>(plan.keep.bytes));
  keep = plan.keep;
}

// As it is now: what is free bounds added slots.
Machine PipelineImpl::machine_for_slots() const {
  Machine machine = read_machine();
  machine.gpu = engine_device != nullptr;
  if (!batch_device) return machine;
  if (const auto memory = batch_device->memory()) machine.gpu_bytes = memory->free;
  return machine;
}

// At the beginning of a pop: adds a slot, so that reading continues while the consumer holds batches, and frees idle
// ones.
void PipelineImpl::adjust_slots(Lock& lock) {
  if (slots->any_idle()) {
    const auto kept = slots;  // close() may drop them meanwhile
    {
      const LockRelease meanwhile(lock, wakeup->mutex);
      board.add(&Stats::slots_dropped, static_cast<std::int64_t>(kept->drop_idle()));
    }
    check_usable();
  }
  if (stream.has_unstarted() && slots->is_short()) add_slot(lock);
}

// Calls the allocator, which may be slow, without the lock. Throws if the pipeline was closed meanwhile.
Slots::Growth PipelineImpl::add_slot(Lock& lock) {
  const auto kept = slots;
  const Slots::Growth growth = [&]() DAMACY_REQUIRES(wakeup->mutex) {
    const LockRelease meanwhile(lock, wakeup->mutex);
    return kept->add();
  }();
  if (growth == Slots::Growth::added) board.add(&Stats::slots_added, 1);
  if (growth == Slots::Growth::added) wakeup->can_produce.notify_all();  // before what may fail: records need memory
  check_usable();
  const Slots::Added added = slots->added();
  if (growth == Slots::Growth::no_memory && !std::exchange(logged_refusal, true))
    log(LogLevel::warn, formatted("no slot was added for batches that the consumer holds: {}", added.refusal));
  if (growth != Slots::Growth::added) return growth;
  logged_refusal = false;
  if (!std::exchange(logged_added, true))
    log(LogLevel::info, formatted("a slot was added: the consumer holds {} batches; added slots may take {}",
                                  added.held, size_text(keep.bytes)));
  if (added.slots >= kManyAdded && !std::exchange(logged_many, true))
    log(LogLevel::warn,
        formatted(
            "{} slots were added, {} of at most {}: the consumer holds {} batches; keep copies of what is kept for long, or set keep_bytes",
            added.slots, size_text(added.bytes), size_text(keep.bytes), added.held));
  return growth;
}

Error PipelineImpl::held_error(const std::vector<std::int64_t>& held) const {
  const auto slot = static_cast<std::int64_t>(slots->bytes_of_one());
  return Error(Status::again, held_text(config, keep, slot, slots->added(), held), "held").in_stage("pop");
}

}  // namespace damacy
