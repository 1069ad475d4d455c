// Takes samples from sources while there is room, opens their arrays concurrently, and admits the samples.
#include <algorithm>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"
#include "damacy/fetch/readers.h"
#include "damacy/pipeline/admission.h"
#include "damacy/pipeline/pipeline_impl.h"
#include "damacy/store/store.h"

namespace damacy {
namespace {

constexpr std::int64_t kLostAtMost = 1 << 16;  // samples, before the first array is opened; a source may have no end

bool is_remote(const PlannedSample& sample) {
  return std::ranges::any_of(sample.parts, [](const PlannedPart& part) { return part.array->is_remote(); });
}

}  // namespace

void PipelineImpl::push(std::shared_ptr<SampleSource> samples) {
  check_not_forked();
  const auto own = std::make_shared<QueuedSource>();  // before the lock: a source's end may need a lock of the user's
  own->samples = std::move(samples);
  own->directory = absolute_path("");
  Lock lock(wakeup->mutex);
  check_usable();
  refuse_reentry("push");
  stream.add_source(own);
  accepted_since_flush = true;
  wait(lock, std::nullopt, [&]() DAMACY_REQUIRES(wakeup->mutex) { return !refilling || closed; });
  check_usable();
  refill(lock, own.get());
}

void PipelineImpl::refill(Lock& lock, const QueuedSource* own) {
  struct Busy {
    PipelineImpl& impl;
    explicit Busy(PipelineImpl& i) : impl(i) {
      impl.refilling = true;
      impl.refiller = std::this_thread::get_id();
    }
    ~Busy() {
      if (impl.forked()) return;  // the source forked, and this is the child, which does not have the lock
      impl.refilling = false;
      impl.wakeup->changed.notify_all();
    }
  };
  if (refilling) return;  // another thread is at it; what it finds belongs to a later call
  const Busy busy(*this);
  while (!closed && stream.has_sources() && stream.room() > 0) {
    const std::int64_t room = stream.room();
    std::shared_ptr<QueuedSource> first = stream.first_source();
    const LockRelease meanwhile(lock, wakeup->mutex);
    refill_from(std::move(first), room, own);  // and destroys it, if the stream has lost it
    check_not_forked();                        // its destructor may have
  }
}

// Destroying a source or its exception may take a lock of the user, so both are used and destroyed without our lock.
void PipelineImpl::refill_from(std::shared_ptr<QueuedSource> source, std::int64_t room, const QueuedSource* own) {
  if (source->pulled.empty() && !source->exhausted) pull(*source, room);
  if (forked() && source->failure) std::rethrow_exception(source->failure);
  check_not_forked();
  const OpenedByUri opened = resolve(*source);
  const bool is_own = source.get() == own;
  const bool may_wait = !is_own && (!source->failure || source->samples->set_aside(source->failure));
  const std::exception_ptr of_source = source->failure;  // destroyed here, if the error of a refused sample replaces it
  if (const auto error = admit_pulled(*source, opened, is_own, may_wait)) std::rethrow_exception(error);
}

// Admits what fits. Where that was the last of the source, ends it and gives the error that leaves the call at once.
std::exception_ptr PipelineImpl::admit_pulled(QueuedSource& source, const OpenedByUri& opened, bool is_own,
                                              bool may_wait) {
  const Lock lock(wakeup->mutex);
  if (closed) throw closed_error();
  for (; !source.pulled.empty() && stream.room() > 0; source.pulled.pop_front(), ++source.admitted) {
    try {
      admit_front(source, opened);
    } catch (...) {
      source.failure = std::current_exception();
      source.refused = source.exhausted = true;
      source.pulled.clear();
      break;
    }
  }
  wakeup->can_produce.notify_all();
  if (!(source.exhausted && source.pulled.empty())) return nullptr;
  if (!opened_any && !source.failure) source.failure = source.first_lost;
  const bool at_once = is_own || !(source.refused || may_wait);
  stream.end_first_source(at_once ? nullptr : source.failure);
  return at_once ? source.failure : nullptr;
}

// Takes samples from the user's source, at most as many as fit. Runs without our lock.
void PipelineImpl::pull(QueuedSource& source, std::int64_t room) const {
  const auto limit = static_cast<std::int64_t>(Limits::samples_after_flush);
  const bool bounded = source.flushed && !source.samples->has_length();
  try {
    for (std::int64_t n = 0; n < room && !source.exhausted; ++n) {
      if (bounded && source.after_flush >= limit) {
        log(LogLevel::warn,
            formatted("a source gave {} samples after flush and did not end: the rest is dropped", limit));
        source.exhausted = true;
        return;
      }
      if (auto sample = source.samples->next()) {
        for_uris(*sample, [&](std::string& uri) {
          if (is_relative_path(uri) && source.directory != absolute_path("")) uri.insert(0, source.directory);
        });
        source.pulled.push_back(std::move(*sample));
      } else {
        source.exhausted = true;
      }
      if (bounded) ++source.after_flush;
    }
  } catch (...) {
    source.failure = std::current_exception();
    source.exhausted = true;
  }
}

// Arrays to open, on threads that may get stuck in storage. Outlives an interrupted call.
class PipelineImpl::Opening final : public AwaitedCalls {
 public:
  // `attributes`: null where nothing asks for them. `answer_bytes`: memory of answers that are asked for ahead.
  Opening(const QueuedSource& source, std::shared_ptr<Catalog> catalog, std::shared_ptr<AttributeCache> attributes,
          std::size_t answer_bytes)
      : catalog_(std::move(catalog)), attributes_(std::move(attributes)) {
    for (const Sample& sample : source.pulled)
      for_uris(sample, [&](const std::string& uri) {
        if (const auto [at, is_new] = opened_.try_emplace(uri); is_new) in_order_.push_back(&*at);
      });
    std::vector<std::string> uris;
    uris.reserve(in_order_.size());
    for (const auto* const each : in_order_) uris.push_back(each->first);
    ahead_ = catalog_->documents_ahead(std::move(uris), {answer_bytes, attributes_ != nullptr});
  }
  std::size_t size() const noexcept { return in_order_.size(); }
  void stop_asking() noexcept {
    if (ahead_) ahead_->cancel();
  }

  void call(std::size_t number) override {
    if (ahead_) ahead_->begin(number);
    open(number);
    if (ahead_) ahead_->end(number);
  }
  void time_out(std::size_t number, const Error& why) noexcept override {
    auto& [uri, result] = *in_order_[number];
    result.error = std::make_exception_ptr(Error(why).at_uri(uri));
  }
  OpenedByUri take() noexcept { return std::move(opened_); }

 private:
  void open(std::size_t number) {
    Opened opened;
    try {
      const std::string uri = in_order_[number]->first;  // a thread that was abandoned still reads it
      opened.array.array = catalog_->array(uri);
      if (attributes_) opened.array.attributes = attributes_->of(*opened.array.array);
    } catch (const std::exception&) {
      opened.error = std::current_exception();
    }
    in_order_[number]->second = std::move(opened);
  }

  const std::shared_ptr<Catalog> catalog_;
  const std::shared_ptr<AttributeCache> attributes_;
  OpenedByUri opened_;
  std::vector<OpenedByUri::value_type*> in_order_;
  std::unique_ptr<DocumentsAhead> ahead_;  // null: no array is of a remote store
};

// Opens those that are not in the catalog concurrently.
PipelineImpl::OpenedByUri PipelineImpl::resolve(const QueuedSource& source) {
  if (source.pulled.empty()) return {};
  std::vector<const std::string*> uris;
  for (const Sample& sample : source.pulled) for_uris(sample, [&](const std::string& uri) { uris.push_back(&uri); });
  Lock lock(wakeup->mutex);
  if (closed) throw closed_error();
  const auto kept = production;  // close() may drop both meanwhile
  const auto kept_catalog = catalog;
  if (resolved.size() >= static_cast<std::size_t>(config.n_zarrs_meta_cache)) resolved.clear();
  std::size_t unknown = 0;
  for (const std::string* uri : uris) unknown += resolved.insert(*uri).second ? 1 : 0;
  lock.unlock();
  const bool asks = needs_attributes(config) ||
                    std::ranges::any_of(source.pulled, [](const Sample& sample) { return needs_attributes(sample); });
  const auto opening =
      std::make_shared<Opening>(source, kept_catalog, asks ? attributes : nullptr, kept->document_bytes());
  lock.lock();
  if (closed) throw closed_error();
  under_way = opening;
  lock.unlock();
  const OnFailure interrupted([&] { opening->stop_asking(); });  // what is opened still is not waited for
  kept->readers().run_blocking(opening, opening->size(), std::max<std::size_t>(unknown, 1),
                               [opening] { opening->finish(); });
  while (!opening->wait_for(kPoll)) {
    kept->readers().abandon_overdue();
    if (around.while_waiting) around.while_waiting();
    check_not_forked();
    lock.lock();
    if (closed) throw closed_error();
    lock.unlock();
  }
  return opening->take();
}

// Of a pipeline that closes.
void PipelineImpl::stop_opening() noexcept {
  std::shared_ptr<Opening> opening;
  {
    const Lock lock(wakeup->mutex);
    opening = std::exchange(under_way, {}).lock();
  }
  if (opening) opening->stop_asking();
}

// A sample of which an array cannot be opened is a row that fails, if `on_error` leaves out or fills such rows. Where
// nothing could be opened at all, the source ends with an error: paths may be mistyped.
Admitted PipelineImpl::admit_or_lose(QueuedSource& source, const OpenedByUri& opened) {
  const Sample& sample = source.pulled.front();
  bool is_unreadable = false;
  const auto open = [&](const std::string& uri) {
    const Opened& result = opened.at(uri);
    is_unreadable = result.error != nullptr;
    if (is_unreadable) std::rethrow_exception(result.error);
    return result.array;
  };
  try {
    Admitted admitted = admit(sample, config, stream.layout(), open);
    opened_any = true;
    return admitted;
  } catch (const Error& error) {
    const bool is_of_data =
        error.status() == Status::notfound || error.status() == Status::io || error.status() == Status::decode;
    const bool can_be_lost = is_unreadable && is_of_data && error.kind() != ErrorKind::unsupported_format;
    if (config.on_error == OnError::raise || !can_be_lost) throw;
    if (!opened_any && source.admitted >= kLostAtMost) throw;  // all of them are lost
    const Error failure = Error(error).at_sample(source.admitted);
    auto lost = admit_lost(sample, config, stream.layout(), failure);
    if (!lost) throw;
    if (!source.first_lost) source.first_lost = std::make_exception_ptr(Error(failure).in_stage("push"));
    return std::move(*lost);
  }
}

void PipelineImpl::admit_front(QueuedSource& source, const OpenedByUri& opened) {
  try {
    const Sample& sample = source.pulled.front();
    Admitted admitted = admit_or_lose(source, opened);
    if (!slots->allocated()) make_slots(*admitted.layout);
    if (is_remote(admitted.sample)) stream.look_further_ahead();
    stream.accept(std::move(admitted.sample), admitted.layout, sample.ends_batch);
  } catch (const Error& error) {
    throw Error(error).at_sample(source.admitted).in_stage("push");
  }
}

}  // namespace damacy
