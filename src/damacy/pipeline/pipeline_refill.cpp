// Samples in: sources are pulled as far as there is room, their arrays opened side by side, their samples admitted.
#include <algorithm>
#include <limits>

#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/limits.h"
#include "damacy/core/log.h"
#include "damacy/core/text.h"
#include "damacy/pipeline/admission.h"
#include "damacy/pipeline/pipeline_impl.h"

namespace damacy {

void Pipeline::Impl::push(std::shared_ptr<SampleSource> samples) {
  if (forked()) check_usable();
  const auto own = std::make_shared<QueuedSource>();  // before the lock: a source's end may need a lock of the user's
  own->samples = std::move(samples);
  Lock lock(wakeup->mutex);
  check_usable();
  refuse_reentry("push");
  stream.add_source(own);
  accepted_since_flush = true;
  wait(lock, std::nullopt, [&] { return !refilling || closed; });
  check_usable();
  refill(lock, own.get());
}

void Pipeline::Impl::refill(Lock& lock, const QueuedSource* own) {
  struct Busy {
    Impl& impl;
    Lock& lock;
    Busy(Impl& i, Lock& l) : impl(i), lock(l) {
      impl.refilling = true;
      impl.refiller = std::this_thread::get_id();
    }
    ~Busy() {
      if (!lock.owns_lock()) lock.lock();
      impl.refilling = false;
      impl.wakeup->changed.notify_all();
    }
  };
  if (refilling) return;  // another thread is at it; what it finds belongs to a later call
  const Busy busy(*this, lock);
  while (!closed && stream.has_sources() && stream.room() > 0) refill_from(lock, stream.first_source(), own);
}

void Pipeline::Impl::refill_from(Lock& lock, const std::shared_ptr<QueuedSource>& first, const QueuedSource* own) {
  std::shared_ptr<QueuedSource> source = first;  // the list may lose it
  const std::int64_t room = stream.room();
  // A source's end, and what it threw, may need a lock of the user's: they are touched and dropped without ours.
  lock.unlock();
  if (source->pulled.empty() && !source->exhausted) pull(*source, room);
  const OpenedByUri opened = resolve(*source);
  const bool is_own = source.get() == own;
  const bool may_wait = !is_own && (!source->failure || source->samples->set_aside(source->failure));
  lock.lock();
  if (closed) {
    lock.unlock();
    throw closed_error();
  }
  for (; !source->pulled.empty() && stream.room() > 0; source->pulled.pop_front(), ++source->admitted) {
    try {
      admit_front(*source, opened);
    } catch (...) {
      source->failure = std::current_exception();
      source->refused = source->exhausted = true;
      source->pulled.clear();
      break;
    }
  }
  wakeup->changed.notify_all();
  if (!(source->exhausted && source->pulled.empty())) return;
  const std::exception_ptr error = source->failure;
  const bool at_once = is_own || !(source->refused || may_wait);
  stream.end_first_source(at_once ? nullptr : error);
  lock.unlock();
  if (error && at_once) std::rethrow_exception(error);
  source.reset();
  lock.lock();
}

// Takes samples from the user's source, at most as many as fit. Runs without our lock.
void Pipeline::Impl::pull(QueuedSource& source, std::int64_t room) const {
  const auto limit = static_cast<std::int64_t>(Limits::samples_after_flush);
  const bool bounded = source.flushed && !source.samples->has_length();
  try {
    for (std::int64_t n = 0; n < room && !source.exhausted; ++n) {
      if (bounded && source.after_flush >= limit) {
        log(LogLevel::warn, text("a source gave ", limit, " samples after flush and did not end: the rest is dropped"));
        source.exhausted = true;
        return;
      }
      auto sample = source.samples->next();
      if (sample)
        source.pulled.push_back(std::move(*sample));
      else
        source.exhausted = true;
      if (bounded) ++source.after_flush;
    }
  } catch (...) {
    source.failure = std::current_exception();
    source.exhausted = true;
  }
}

Pipeline::Impl::OpenedByUri Pipeline::Impl::resolve(const QueuedSource& source) {
  OpenedByUri opened;
  for (const Sample& sample : source.pulled) opened.try_emplace(sample.uri);
  open_side_by_side(opened);
  for (auto& [uri, result] : opened) {
    try {
      result.array = catalog->array(uri);
    } catch (...) {
      result.error = std::current_exception();
    }
  }
  return opened;
}

// Brings arrays that are not in the catalog yet into it, all at once. Failures are found again by whoever asks next.
void Pipeline::Impl::open_side_by_side(const OpenedByUri& wanted) {
  std::vector<std::string> unknown;
  Lock lock(wakeup->mutex);
  if (resolved.size() >= static_cast<std::size_t>(config.n_zarrs_meta_cache)) resolved.clear();
  for (const auto& [uri, result] : wanted)
    if (resolved.insert(uri).second) unknown.push_back(uri);
  if (unknown.size() < 2) return;
  const auto left = std::make_shared<std::atomic<std::size_t>>(unknown.size());
  for (std::string& uri : unknown)
    engine->run_soon([uri = std::move(uri), left, known = catalog, wake = wakeup] {
      try {
        static_cast<void>(known->array(uri));
      } catch (const std::exception&) {
      }
      if (--*left == 0) wake->notify();
    });
  wait(lock, std::nullopt, [&] { return *left == 0 || closed; });
}

void Pipeline::Impl::admit_front(QueuedSource& source, const OpenedByUri& opened) {
  try {
    const Sample& sample = source.pulled.front();
    const auto open = [&] {
      const Opened& result = opened.at(sample.uri);
      if (result.error) std::rethrow_exception(result.error);
      return result.array;
    };
    PlannedSample planned = admit(sample, config, stream.extents(), open);
    if (!slots->allocated()) make_slots(planned);
    stream.accept(std::move(planned));
  } catch (const Error& error) {
    throw Error(error).at_sample(source.admitted).in_stage("push");
  }
}

void Pipeline::Impl::make_slots(const PlannedSample& first) {
  const auto elements = product(first.box.extents().span());
  const std::int64_t bytes = slot_bytes(config, elements.value_or(std::numeric_limits<std::int64_t>::max()));
  check_gpu_memory(config, bytes);
  const std::int64_t memory = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  if (bytes > memory / config.n_batches)
    throw Error(
        Status::oom,
        text(config.n_batches, " batches of ", bytes, " bytes exceed the machine's memory of ", memory,
             " bytes: a batch_size of at most ", config.batch_size * (memory / config.n_batches) / bytes, " would fit"),
        "memory");
  slots->allocate(around.alloc, static_cast<std::size_t>(bytes));
}

}  // namespace damacy
