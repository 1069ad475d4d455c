// A job under way and its open tasks. While a task is open the job is unfinished; the end of the last one settles it,
// on that task's thread. Knows counts; not what a job does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace damacy {

class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  virtual ~Job() = default;

 private:
  template <class Some>
  friend class Task;
  virtual void settle() noexcept = 0;  // once
  std::atomic<std::int64_t> open_tasks_{0};
};

// One open task of a job, which it keeps. Move-only: it ends once, by end() or with its owner. A job's first task is
// opened before any other thread knows the job, later ones while another task of it is open.
template <class Some>
class Task {
 public:
  Task() = default;
  explicit Task(std::shared_ptr<Some> job) noexcept : job_(std::move(job)) {
    static_cast<Job&>(*job_).open_tasks_.fetch_add(1, std::memory_order_relaxed);
  }
  Task(Task&&) noexcept = default;
  Task& operator=(Task&& other) noexcept {
    Task before(std::move(*this));
    job_ = std::move(other.job_);
    return *this;
  }
  ~Task() { end(); }

  // Idempotent. The task no longer refers to the job.
  void end() noexcept {
    const std::shared_ptr<Some> job = std::move(job_);
    if (!job) return;
    Job& counted = *job;
    if (counted.open_tasks_.fetch_sub(1, std::memory_order_acq_rel) == 1) counted.settle();
  }

  Some& operator*() const noexcept { return *job_; }
  Some* operator->() const noexcept { return job_.get(); }
  const std::shared_ptr<Some>& job() const noexcept { return job_; }  // null: ended
  explicit operator bool() const noexcept { return job_ != nullptr; }

 private:
  std::shared_ptr<Some> job_;
};

}  // namespace damacy
