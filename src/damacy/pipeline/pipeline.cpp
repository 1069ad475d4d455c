#include "damacy/pipeline/pipeline.h"

#include <new>
#include <stdexcept>

#include "damacy/core/error.h"
#include "damacy/pipeline/pipeline_impl.h"

namespace damacy {
namespace {

Pipeline::Deadline after(const std::optional<double>& seconds) {
  if (!seconds) return std::nullopt;
  const double capped = *seconds < 1e9 ? *seconds : 1e9;
  return std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(capped * 1e9));
}

// Every failed allocation is an Error(oom), also one of more than there are addresses.
template <class Call>
auto with_memory(std::string_view stage, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw current_error().in_stage(stage);
  } catch (const std::length_error&) {
    throw current_error().in_stage(stage);
  }
}

}  // namespace

Pipeline::Pipeline(Config config) : Pipeline(std::move(config), PipelineEnvironment{}) {}
Pipeline::Pipeline(Config config, PipelineEnvironment environment)
    : impl_(with_memory("create",
                        [&] { return std::make_shared<PipelineImpl>(std::move(config), std::move(environment)); })) {}
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&& other) noexcept {
  if (impl_) impl_->close();
  impl_ = std::move(other.impl_);
  return *this;
}

Pipeline::~Pipeline() {
  if (!impl_) return;
  if (impl_->forked())
    new std::shared_ptr<PipelineImpl>(std::move(impl_));  // a child owns none of the threads: leak all, touch nothing
  else
    impl_->close();
}

void Pipeline::push(std::vector<Sample> samples) {
  with_memory("push", [&] { impl_->push(std::make_shared<VectorSource>(std::move(samples))); });
}
void Pipeline::push(std::function<std::optional<Sample>()> next) {
  with_memory("push", [&] { impl_->push(std::make_shared<CallableSource>(std::move(next))); });
}
void Pipeline::push(std::shared_ptr<SampleSource> source) {
  with_memory("push", [&] { impl_->push(std::move(source)); });
}
Batch Pipeline::pop() {
  return with_memory("pop", [&] { return impl_->pop(after(impl_->config.pop_timeout_s)); });
}
Batch Pipeline::pop(std::chrono::nanoseconds timeout) {
  return with_memory("pop", [&] { return impl_->pop(std::chrono::steady_clock::now() + timeout); });
}
std::optional<Batch> Pipeline::try_pop() {
  try {
    return with_memory("pop", [&] { return impl_->pop(std::chrono::steady_clock::now()); });
  } catch (const Error& error) {
    if (error.status() == Status::again) return std::nullopt;
    throw;
  }
}
void Pipeline::await_due(const Deadline& deadline) {
  with_memory("pop", [&] { impl_->await_due(deadline); });
}
std::optional<Batch> Pipeline::take_due() {
  return with_memory("pop", [&] { return impl_->take_due(); });
}
void Pipeline::put_back(std::exception_ptr error) {
  impl_->put_back(std::move(error));
}
void Pipeline::flush() {
  with_memory("flush", [&] { impl_->flush(after(impl_->config.pop_timeout_s)); });
}
void Pipeline::close() noexcept {
  impl_->close();
}
bool Pipeline::pending() const {
  return impl_->pending();
}
Stats Pipeline::stats() const {
  return impl_->stats();
}
void Pipeline::stats_reset() {
  impl_->stats_reset();
}
Explanation Pipeline::explain() const {
  return impl_->explain();
}
std::optional<bool> Pipeline::is_named() const {
  return impl_->is_named();
}
std::string Pipeline::device() const {
  return impl_->device();
}
const Config& Pipeline::config() const noexcept {
  return impl_->config;
}

}  // namespace damacy
