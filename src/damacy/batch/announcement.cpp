#include "damacy/batch/announcement.h"

#include <algorithm>
#include <new>

#include "damacy/store/storage_watch.h"

namespace damacy {

Announcement::Announcement(std::vector<RemoteObject> objects, std::shared_ptr<AnswersAhead> ahead) noexcept
    : ahead_(std::move(ahead)) {
  const auto end = std::ranges::find_if_not(objects, [&](const RemoteObject& object) { return ahead_->add(object); });
  objects.erase(end, objects.end());
  reads_.set(std::move(objects));
}

Announcement::~Announcement() {
  for (const RemoteObject& object : reads_.objects()) ahead_->remove(object);
  reads_.keep_first(asked());
}

std::size_t Announcement::asked() const noexcept {
  const Lock lock(mutex_);
  return asked_;
}

// Without the lock, as opening. It counts as asked also if the call is abandoned.
void Announcement::ask_next() {
  const RemoteObject* next = nullptr;
  {
    Lock lock(mutex_);
    while (is_asking_) StorageWatch::wait_behind([&] { asking_ended_.wait(lock); });
    if (asked_ == objects().size()) return;
    next = &objects()[asked_++];
    is_asking_ = true;
  }
  const struct End {
    Announcement& of;
    ~End() { of.end_asking(); }
  } end{*this};
  expect({next, 1});
}

bool Announcement::has_more() const noexcept {
  const Lock lock(mutex_);
  return is_asking_ || asked_ < objects().size();
}

void Announcement::end_asking() noexcept {
  const Lock lock(mutex_);
  is_asking_ = false;
  asking_ended_.notify_all();
}

bool Announcement::begin_opening() noexcept {
  const Lock lock(mutex_);
  is_opening_ = !is_planned_;
  return is_opening_;
}

// Memory of metadata may be free when the batch is planned.
void Announcement::open(std::size_t shard, const std::function<void()>& open) {
  {
    const Lock lock(mutex_);
    if (is_planned_) return;  // the planner opens it, by all readers
    now_ = shard;
  }
  const std::optional<Error> failure = failure_of(open);
  const Lock lock(mutex_);
  now_.reset();
  if (failure && failure->status() != Status::oom && is_opening_) failures_.insert_or_assign(shard, *failure);
}

void Announcement::end_opening() noexcept {
  const Lock lock(mutex_);
  end_opening_now();
}

void Announcement::end_opening_now() noexcept {
  ended_at_ = std::chrono::steady_clock::now();
  is_opening_ = false;
  opening_ended_.notify_all();
}

void Announcement::time_out(const Error& why) noexcept {
  const Lock lock(mutex_);
  if (is_asking_) asking_ended_.notify_all();
  is_asking_ = false;
  if (!is_opening_) return;
  try {
    if (now_) failures_.insert_or_assign(*now_, why);
  } catch (const std::bad_alloc&) {  // it is opened again
  }
  end_opening_now();
}

std::map<std::size_t, Error> Announcement::take_failures(const std::stop_token& stop,
                                                         std::chrono::steady_clock::time_point now) {
  Lock lock(mutex_);
  is_planned_ = true;
  opening_ended_.wait(lock, stop, [this]() DAMACY_REQUIRES(mutex_) { return !is_opening_; });
  if (now - ended_at_ > AnswersAhead::kFailureIsNew) failures_.clear();
  return std::move(failures_);
}

// Without the lock while storage is called: who ends a call that hangs takes it.
void Announcement::begin_reads(Wants wants) {
  {
    const Lock lock(mutex_);
    if (is_planned_) return;
  }
  ahead_->begin_reads(wants);
  const Lock lock(mutex_);
  if (!is_planned_ || is_opening_) kept_ = std::move(wants.ahead);
}

void Announcement::take_reads(Wants& wants) {
  ahead_->begin_reads(wants);
  std::vector<WholeObject> kept;  // ends without the lock
  const Lock lock(mutex_);
  is_planned_ = true;
  kept.swap(kept_);
}

}  // namespace damacy
